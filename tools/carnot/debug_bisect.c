// carnot debug passes, precision, backends: builds that differ in one thing, side by side.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carnot/machine.h"
#include "debug.h"

static carnot_status* try_config(debug_case* c, const char* label, const cli_build_options* config,
                                 bool* out_fails) {
  cli_tensor_diff worst;
  CLI_TRY_AT(debug_run(c, c->path, config, NULL, &worst, out_fails), "%s", label);
  debug_print_verdict(*out_fails);
  printf(" %10.3g %10.3g %12.9f  %s\n", worst.max_abs, worst.max_rel, worst.cosine, label);
  return NULL;
}
static void print_head(void) {
  printf("%-4s %10s %10s %12s  build\n", "", "max abs", "max rel", "cosine");
}

// ---- passes ----

carnot_status* debug_passes(debug_case* c) {
  size_t culprits = 0;
  const char *name, *earlier;
  bool fails, none_fails;
  print_head();
  CLI_TRY(try_config(c, "all passes", &c->build, &fails));
  cli_build_options none = c->build;
  none.no_passes = true;
  CLI_TRY(try_config(c, "no passes", &none, &none_fails));
  if (!fails) {
    printf("all passes together give the right result\n");
    return NULL;
  }
  bool required;
  for (size_t i = 0; !none_fails && (name = carnot_pass_name(i, &required)) != NULL; i++) {
    bool again = false;
    for (size_t k = 0; k < i; k++) {
      earlier = carnot_pass_name(k, NULL);
      again |= strcmp(earlier, name) == 0;
    }
    if (again || required) continue;
    cli_build_options config = c->build;
    config.disabled_passes = &name;
    config.disabled_pass_count = 1;
    char label[64];
    bool still;
    snprintf(label, sizeof(label), "without %s", name);
    CLI_TRY(try_config(c, label, &config, &still));
    culprits += !still;
  }
  if (none_fails)
    printf("the result is wrong without passes too: see carnot debug compare --noPasses\n");
  else if (culprits)
    printf("a pass without which the result is right takes part in the fault\n");
  else
    printf("no single pass is to blame: two or more take part\n");
  return NULL;
}

// ---- precision ----

static bool may_be_half(const carnot_layer* layer) {
  for (int i = 0; i < carnot_layer_output_count(layer); i++) {
    const carnot_value* output = carnot_layer_output(layer, i);
    if (output && carnot_value_dims(output).rank >= 0 &&
        carnot_value_dtype(output) == CARNOT_DTYPE_F32)
      return true;
  }
  return false;
}

typedef struct layers {
  const char** names;
  size_t count;
  cli_type_request* requests;
} layers;

// Layers [first, end) in float32, the others in |half|.
static carnot_status* try_range(debug_case* c, layers* l, carnot_dtype half, size_t first,
                                size_t end, const char* label, bool* out_fails) {
  cli_build_options config = c->build;
  for (size_t i = 0; i < l->count; i++)
    l->requests[i] = (cli_type_request){.pattern = l->names[i],
                                        .types = {i >= first && i < end ? CARNOT_DTYPE_F32 : half},
                                        .type_count = 1};
  config.typing.constraints = CLI_OBEY_TYPES;
  config.typing.layers = l->requests;
  config.typing.layer_count = l->count;
  return try_config(c, label, &config, out_fails);
}

// The least k so that the first (or last) k layers in float32 are enough.
static carnot_status* bisect(debug_case* c, layers* l, carnot_dtype half, bool from_start,
                             size_t* out_count) {
  size_t low = 0, high = l->count;  // low fails, high holds
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    char label[96];
    bool fails;
    snprintf(label, sizeof(label), "the %s %zu of %zu layers in float32",
             from_start ? "first" : "last", middle, l->count);
    CLI_TRY(try_range(c, l, half, from_start ? 0 : l->count - middle,
                      from_start ? middle : l->count, label, &fails));
    *(fails ? &low : &high) = middle;
  }
  *out_count = high;
  return NULL;
}

static carnot_status* try_each(debug_case* c, layers* l, carnot_dtype half) {
  printf("only one layer in %s:\n", carnot_dtype_name(half));
  for (size_t i = 0; i < l->count; i++) {
    cli_build_options config = c->build;
    cli_type_request request = {.pattern = l->names[i], .types = {half}, .type_count = 1};
    bool fails;
    config.typing.constraints = CLI_OBEY_TYPES;
    config.typing.layers = &request;
    config.typing.layer_count = 1;
    CLI_TRY(try_config(c, l->names[i], &config, &fails));
  }
  return NULL;
}

static carnot_status* bisect_both_ways(debug_case* c, layers* l, carnot_dtype half) {
  bool half_fails, full_fails;
  print_head();
  CLI_TRY(try_range(c, l, half, 0, 0, "all layers in the half type", &half_fails));
  CLI_TRY(try_range(c, l, half, 0, l->count, "all layers in float32", &full_fails));
  if (full_fails) {
    printf("float32 is outside the tolerance too: precision is not the cause\n");
    return NULL;
  }
  if (cli_flag_set(c->flags, "each")) CLI_TRY(try_each(c, l, half));
  if (!half_fails) {
    printf("every layer may be %s\n", carnot_dtype_name(half));
    return NULL;
  }
  size_t first, last;
  CLI_TRY(bisect(c, l, half, true, &first));
  CLI_TRY(bisect(c, l, half, false, &last));
  printf("enough in float32: the first %zu layers (up to %s), or the last %zu (from %s)\n", first,
         l->names[first - 1], last, l->names[l->count - last]);
  if (first + last > l->count)
    printf("the layers that both hold, from %s to %s, are the ones to look at\n",
           l->names[l->count - last], l->names[first - 1]);
  return NULL;
}

carnot_status* debug_precision(debug_case* c) {
  if (c->build.quantized) return debug_int8(c);
  CLI_CHECK(c->build.typing.f16 || c->build.typing.bf16, INVALID_ARGUMENT,
            "which type? give --fp16, --bf16 or --int8");
  carnot_dtype half = c->build.typing.f16 ? CARNOT_DTYPE_F16 : CARNOT_DTYPE_BF16;
  layers l = {0};
  const carnot_layer* first = carnot_network_first_layer(c->network);
  for (const carnot_layer* at = first; at; at = carnot_layer_next(at)) l.count += may_be_half(at);
  CLI_CHECK(l.count, INVALID_ARGUMENT, "the model has no layer that computes in float32");
  l.names = CLI_NEW_ARRAY(&c->arena, const char*, l.count);
  l.requests = CLI_NEW_ARRAY(&c->arena, cli_type_request, l.count);
  size_t count = 0;
  for (const carnot_layer* at = first; at; at = carnot_layer_next(at))
    if (may_be_half(at)) l.names[count++] = carnot_layer_name(at);
  return bisect_both_ways(c, &l, half);
}

// ---- backends ----

carnot_status* debug_backends(debug_case* c) {
  bool fails, any = false;
  print_head();
  const char* isa;
  for (int i = 0; (isa = carnot_isa_level_name(i)) != NULL; i++) {
    if (!carnot_isa_level_is_usable(i, NULL, 0)) break;
    cli_build_options config = c->build;
    char label[64];
    config.isa = isa;
    snprintf(label, sizeof(label), "cpu, %s", isa);
    CLI_TRY(try_config(c, label, &config, &fails));
    any |= fails;
  }
  cli_build_options reference = c->build;
  reference.no_passes = true;
  reference.level = 0;
  CLI_TRY(try_config(c, "cpu, no passes", &reference, &fails));
  any |= fails;
  for (int half = 0; half < 2; half++) {
    cli_build_options config = c->build;
    *(half ? &config.typing.bf16 : &config.typing.f16) = true;
    CLI_TRY(try_config(c, half ? "cpu, --bf16" : "cpu, --fp16", &config, &fails));
  }
  puts("float16 rounds by 5e-4 of a value, bfloat16 by 4e-3: they fail at smaller tolerances.");
  CLI_CHECK(!any, FAILED_PRECONDITION, CLI_DIFFERENT "float32 results are outside the tolerance");
  return NULL;
}
