// carnot inspect ENGINE: what it holds, in words or JSON.
#include <jansson.h>

#include "cli.h"

static void print_bindings(const carnot_plan* plan) {
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const carnot_plan_binding* b = &plan->bindings[i];
    printf("  %-6s %s: %s [", b->is_input ? "input" : "output", b->name, carnot_dtype_name(b->dtype));
    for (int d = 0; d < b->rank; d++) {
      if (d) putchar(',');
      if (b->dims[d] >= 0) printf("%lld", (long long)b->dims[d]);
      else printf("%s", b->dim_names[d][0] ? b->dim_names[d] : "?");
    }
    puts("]");
  }
}

static void print_layers(const carnot_plan* plan, bool why) {
  json_t* root = json_loads(plan->inspector, 0, NULL);
  size_t index;
  json_t* layer;
  json_array_foreach(json_object_get(root, "Layers"), index, layer) {
    printf("%4zu  %-28s %-18s %9.4f GFLOP  %s\n", index, json_string_value(json_object_get(layer, "TacticName")),
           json_string_value(json_object_get(layer, "LayerType")), json_real_value(json_object_get(layer, "Flops")) * 1e-9,
           json_string_value(json_object_get(layer, "Name")));
    const char* rejected = json_string_value(json_object_get(layer, "Rejected"));
    if (why && rejected && rejected[0]) printf("      not taken: %s\n", rejected);
  }
  json_decref(root);
}

carnot_status* cli_inspect(cli_flags* flags) {
  static const char* const kKnown[] = {"json", "why", "verify", NULL};
  bool json = cli_flag_set(flags, "json"), why = cli_flag_set(flags, "why"), verify = cli_flag_set(flags, "verify");
  const char* path = cli_word(flags, 0);
  CARNOT_CHECK(path, INVALID_ARGUMENT, "usage: carnot inspect ENGINE [--json] [--why] [--verify]");
  CARNOT_TRY(cli_flags_finish(flags, kKnown));
  cli_build_options build;
  cli_build_options_init(&build);
  cli_loaded loaded;
  CARNOT_TRY(cli_load(path, &build, &loaded));
  const carnot_plan* plan = loaded.engine->plan;
  carnot_status* status = verify ? carnot_engine_verify(loaded.engine) : NULL;
  if (!status && json) {
    puts(plan->inspector);
  } else if (!status) {
    printf("%s: %s, %u layers, %.2f MB of weights, %.2f MB of activations (at least %.2f)\n", path, plan->device, plan->step_count,
           (double)loaded.engine->file_bytes * 1e-6, (double)plan->arena_bytes * 1e-6, (double)plan->arena_bound * 1e-6);
    print_bindings(plan);
    print_layers(plan, why);
    if (verify) puts("all checksums hold");
  }
  carnot_engine_release(loaded.engine);
  return status;
}
