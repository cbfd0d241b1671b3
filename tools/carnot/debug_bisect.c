// carnot debug passes, precision, backends: builds that differ in one thing, side by side.
#include <stdlib.h>

#include "debug.h"
#include "pass/pass.h"

static carnot_status* try_config(debug_case* c, const char* label,
                                 const carnot_build_config* config, bool* out_fails) {
  cli_difference worst;
  CARNOT_TRY_AT(debug_run(c, c->path, config, NULL, &worst, out_fails), "%s", label);
  printf("%-4s %10.3g %10.3g %12.9f  %s\n", *out_fails ? "FAIL" : "ok", worst.max_abs,
         worst.max_rel, worst.cosine, label);
  return NULL;
}
static void print_head(void) {
  printf("%-4s %10s %10s %12s  build\n", "", "max abs", "max rel", "cosine");
}

// ---- passes ----

carnot_status* debug_passes(debug_case* c) {
  size_t count, culprits = 0;
  const carnot_pass_row* rows = carnot_passes(&count);
  bool fails, none_fails;
  print_head();
  CARNOT_TRY(try_config(c, "all passes", &c->build.config, &fails));
  carnot_build_config none = c->build.config;
  none.no_passes = true;
  CARNOT_TRY(try_config(c, "no passes", &none, &none_fails));
  if (!fails) {
    printf("all passes together give the right result\n");
    return NULL;
  }
  for (size_t i = 0; i < count && !none_fails; i++) {
    bool again = false;
    for (size_t k = 0; k < i; k++) again |= strcmp(rows[k].name, rows[i].name) == 0;
    if (again || rows[i].always) continue;
    carnot_build_config config = c->build.config;
    config.disabled_passes = &rows[i].name;
    config.disabled_pass_count = 1;
    char label[64];
    bool still;
    snprintf(label, sizeof(label), "without %s", rows[i].name);
    CARNOT_TRY(try_config(c, label, &config, &still));
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

static bool may_be_half(const carnot_node* node) {
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i] && node->outputs[i]->type.kind == CARNOT_VALUE_TENSOR &&
        node->outputs[i]->type.dtype == CARNOT_DTYPE_F32)
      return true;
  return false;
}

typedef struct layers {
  const carnot_node** nodes;
  size_t count;
  carnot_precision_request* requests;
} layers;

// Layers [first, end) in float32, the others in |half|.
static carnot_status* try_range(debug_case* c, layers* l, carnot_dtype half, size_t first,
                                size_t end, const char* label, bool* out_fails) {
  carnot_build_config config = c->build.config;
  for (size_t i = 0; i < l->count; i++)
    l->requests[i] =
        (carnot_precision_request){.pattern = l->nodes[i]->name,
                                   .types = {i >= first && i < end ? CARNOT_DTYPE_F32 : half},
                                   .type_count = 1};
  config.typing.constraints = CARNOT_CONSTRAINTS_OBEY;
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
    CARNOT_TRY(try_range(c, l, half, from_start ? 0 : l->count - middle,
                         from_start ? middle : l->count, label, &fails));
    *(fails ? &low : &high) = middle;
  }
  *out_count = high;
  return NULL;
}

static carnot_status* try_each(debug_case* c, layers* l, carnot_dtype half) {
  printf("only one layer in %s:\n", carnot_dtype_name(half));
  for (size_t i = 0; i < l->count; i++) {
    carnot_build_config config = c->build.config;
    carnot_precision_request request = {
        .pattern = l->nodes[i]->name, .types = {half}, .type_count = 1};
    bool fails;
    config.typing.constraints = CARNOT_CONSTRAINTS_OBEY;
    config.typing.layers = &request;
    config.typing.layer_count = 1;
    CARNOT_TRY(try_config(c, l->nodes[i]->name, &config, &fails));
  }
  return NULL;
}

static carnot_status* bisect_both_ways(debug_case* c, layers* l, carnot_dtype half) {
  bool half_fails, full_fails;
  print_head();
  CARNOT_TRY(try_range(c, l, half, 0, 0, "all layers in the half type", &half_fails));
  CARNOT_TRY(try_range(c, l, half, 0, l->count, "all layers in float32", &full_fails));
  if (full_fails) {
    printf("float32 is outside the tolerance too: precision is not the cause\n");
    return NULL;
  }
  if (cli_flag_set(c->flags, "each")) CARNOT_TRY(try_each(c, l, half));
  if (!half_fails) {
    printf("every layer may be %s\n", carnot_dtype_name(half));
    return NULL;
  }
  size_t first, last;
  CARNOT_TRY(bisect(c, l, half, true, &first));
  CARNOT_TRY(bisect(c, l, half, false, &last));
  printf("enough in float32: the first %zu layers (up to %s), or the last %zu (from %s)\n", first,
         l->nodes[first - 1]->name, last, l->nodes[l->count - last]->name);
  if (first + last > l->count)
    printf("the layers that both hold, from %s to %s, are the ones to look at\n",
           l->nodes[l->count - last]->name, l->nodes[first - 1]->name);
  return NULL;
}

carnot_status* debug_precision(debug_case* c) {
  CARNOT_CHECK(c->build.config.typing.f16 || c->build.config.typing.bf16, INVALID_ARGUMENT,
               "which half type? give --fp16 or --bf16");
  carnot_dtype half = c->build.config.typing.f16 ? CARNOT_DTYPE_F16 : CARNOT_DTYPE_BF16;
  layers l = {0};
  for (const carnot_node* node = c->graph->main->first; node; node = node->next)
    l.count += may_be_half(node);
  CARNOT_CHECK(l.count, INVALID_ARGUMENT, "the model has no layer that computes in float32");
  l.nodes = CARNOT_NEW_ARRAY(&c->arena, const carnot_node*, l.count);
  l.requests = CARNOT_NEW_ARRAY(&c->arena, carnot_precision_request, l.count);
  size_t at = 0;
  for (const carnot_node* node = c->graph->main->first; node; node = node->next)
    if (may_be_half(node)) l.nodes[at++] = node;
  return bisect_both_ways(c, &l, half);
}

// ---- backends ----

carnot_status* debug_backends(debug_case* c) {
  bool fails, any = false;
  print_head();
  carnot_isa best = carnot_isa_of_machine();
  for (int isa = 0; isa <= (int)best; isa++) {
    carnot_build_config config = c->build.config;
    char label[64];
    config.isa = isa;
    snprintf(label, sizeof(label), "cpu, %s", carnot_isa_name((carnot_isa)isa));
    CARNOT_TRY(try_config(c, label, &config, &fails));
    any |= fails;
  }
  carnot_build_config reference = c->build.config;
  reference.no_passes = true;
  reference.level = 0;
  CARNOT_TRY(try_config(c, "cpu, no passes", &reference, &fails));
  any |= fails;
  for (int half = 0; half < 2; half++) {
    carnot_build_config config = c->build.config;
    *(half ? &config.typing.bf16 : &config.typing.f16) = true;
    CARNOT_TRY(try_config(c, half ? "cpu, --bf16" : "cpu, --fp16", &config, &fails));
  }
  CARNOT_CHECK(!any, FAILED_PRECONDITION, "float32 results are outside the tolerance");
  return NULL;
}
