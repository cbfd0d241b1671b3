// carnot compare A B: two models or engines on the same inputs, or one against saved outputs.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli.h"

// The output |name| of the second side: of the engine, or from its file.
static carnot_status* second_output(cli_session* second, const char* folder,
                                    const carnot_plan_binding* b, carnot_arena* arena,
                                    const carnot_rt_value** out) {
  if (!folder) {
    uint32_t index;
    CARNOT_TRY(carnot_plan_find_binding(second->context->plan, b->name, &index));
    *out = carnot_context_output(second->context, index);
    return NULL;
  }
  char path[4096], safe[1024];
  cli_safe_name(b->name, safe, sizeof(safe));
  snprintf(path, sizeof(path), "%s/%s.npy", folder, safe);
  carnot_rt_value* cell = CARNOT_NEW(arena, carnot_rt_value);
  carnot_dims dims = {0};
  CARNOT_TRY(cli_read_tensor(path, b, &dims, &(cli_image_options){0}, arena, cell));
  *out = cell;
  return NULL;
}

static carnot_status* compare_outputs(cli_session* first, cli_session* second, const char* folder,
                                      double rtol, double atol, bool json) {
  json_t* rows = json_array();
  int64_t outside = 0;
  int outputs = 0;
  carnot_status* status = NULL;
  const carnot_plan* plan = first->context->plan;
  for (uint32_t i = 0; !status && i < plan->binding_count; i++) {
    const carnot_plan_binding* b = &plan->bindings[i];
    const carnot_rt_value* x = b->is_input ? NULL : carnot_context_output(first->context, i);
    const carnot_rt_value* y;
    cli_difference d = {0};
    if (!x || x->kind != CARNOT_VALUE_TENSOR) continue;
    status = second_output(second, folder, b, &first->arena, &y);
    if (!status) status = cli_difference_of(b->name, &x->tensor, &y->tensor, rtol, atol, &d);
    if (status) break;
    outside += d.outside;
    outputs++;
    json_array_append_new(
        rows, json_pack("{s:s,s:f,s:f,s:f,s:I,s:I,s:I}", "name", b->name, "max_abs",
                        isfinite(d.max_abs) ? d.max_abs : 1e308, "max_rel",
                        isfinite(d.max_rel) ? d.max_rel : 1e308, "cosine",
                        isnan(d.cosine) ? 0 : d.cosine, "outside", (json_int_t)d.outside, "count",
                        (json_int_t)d.count, "not_finite", (json_int_t)d.not_finite));
    if (json) continue;
    printf("%s: max abs %.3g, max rel %.3g, cosine %.9f; %lld of %lld outside the tolerance",
           b->name, d.max_abs, d.max_rel, d.cosine, (long long)d.outside, (long long)d.count);
    if (d.outside)
      printf(" (widest at element %lld: %.9g and %.9g)", (long long)d.worst, d.worst_a, d.worst_b);
    if (d.not_finite) printf("; %lld are not finite", (long long)d.not_finite);
    putchar('\n');
  }
  if (!status && json) {
    json_t* root = json_pack("{s:f,s:f,s:b,s:O}", "rtol", rtol, "atol", atol, "passed",
                             outside == 0, "outputs", rows);
    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
  }
  json_decref(rows);
  if (status) return status;
  CARNOT_CHECK(outputs > 0, INVALID_ARGUMENT, "there is no output to compare");
  CARNOT_CHECK(outside == 0, FAILED_PRECONDITION,
               "%lld elements differ by more than atol %g + rtol %g * |b|", (long long)outside,
               atol, rtol);
  return NULL;
}

static carnot_status* run_side(const char* path, cli_flags* flags, const cli_build_options* build,
                               const cli_image_options* image, cli_session* out) {
  CARNOT_TRY(cli_session_open(path, build, out));
  CARNOT_TRY_AT(cli_session_read(out, flags, build->opt, image, /*random=*/true), "%s", path);
  CARNOT_TRY_AT(carnot_context_run_now(out->context), "%s", path);
  return NULL;
}

carnot_status* cli_compare(cli_flags* flags) {
  static const char* const kKnown[] = {"input", "shapes", "rtol", "atol",          "mean",
                                       "scale", "layout", "json", CLI_BUILD_FLAGS, NULL};
  cli_shapes shapes;
  CARNOT_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &shapes));
  double rtol = 1e-5, atol = 1e-5;
  CARNOT_TRY(cli_flag_number(flags, "rtol", 0, 1e30, &rtol));
  CARNOT_TRY(cli_flag_number(flags, "atol", 0, 1e30, &atol));
  cli_image_options image = {0};
  CARNOT_TRY(cli_image_flags(flags, &image));
  bool json = cli_flag_set(flags, "json");
  while (cli_flag_each(flags, "input", 1 << 20)) continue;
  cli_build_options build;
  cli_build_options_init(&build);
  build.opt = &shapes;
  build.override_dynamic = shapes.count > 0;
  build.config.level = 1;
  CARNOT_TRY(cli_build_flags(flags, &build));
  const char *a = cli_word(flags, 0), *b = cli_word(flags, 1);
  CARNOT_CHECK(a && b, INVALID_ARGUMENT,
               "usage: carnot compare A B_OR_FOLDER [--input NAME=FILE …] [--rtol=X] [--atol=X]");
  CARNOT_TRY(cli_flags_finish(flags, kKnown));
  struct stat facts;
  bool folder = stat(b, &facts) == 0 && S_ISDIR(facts.st_mode);
  cli_session first = {0}, second = {0};
  carnot_status* status = run_side(a, flags, &build, &image, &first);
  if (!status && !folder) status = run_side(b, flags, &build, &image, &second);
  if (!status) status = compare_outputs(&first, &second, folder ? b : NULL, rtol, atol, json);
  cli_session_close(&first);
  cli_session_close(&second);
  cli_shapes_free(&shapes);
  return status;
}
