// carnot debug precision --int8: which layers lose accuracy in 8 bits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug.h"
#include "log.h"

// A layer that may be quantized, and the error of the network's results where it alone is.
typedef struct int8_layer {
  const char* name;
  cli_tensor_diff alone;
  bool fails;
} int8_layer;

typedef struct int8_layers {
  int8_layer* items;
  size_t count;
  cli_type_request* requests;
} int8_layers;

static void print_row(const char* label, const cli_tensor_diff* d, bool fails) {
  debug_print_verdict(fails);
  printf(" %9.4f%% %10.3g %12.9f  %s\n", 100 * d->error, d->max_abs, d->cosine, label);
}

// Quantizes the layers [first, end) and leaves the others in float32.
static carnot_status* try_layers(debug_case* c, const int8_layers* l, size_t first, size_t end,
                                 cli_tensor_diff* out, bool* out_fails) {
  cli_build_options config = c->build;
  for (size_t i = 0; i < l->count; i++)
    l->requests[i] =
        (cli_type_request){.pattern = l->items[i].name,
                           .types = {i >= first && i < end ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_F32},
                           .type_count = 1};
  config.typing.constraints = CLI_PREFER_TYPES;
  config.typing.layers = l->requests;
  config.typing.layer_count = l->count;
  return debug_run(c, c->path, &config, NULL, out, out_fails);
}

// By the error, the largest first, then by name.
static int compare(const void* a, const void* b) {
  const int8_layer *x = a, *y = b;
  if (x->alone.error != y->alone.error) return x->alone.error < y->alone.error ? 1 : -1;
  return strcmp(x->name, y->name);
}

static carnot_status* try_each(debug_case* c, int8_layers* l) {
  for (size_t i = 0; i < l->count; i++)
    CLI_TRY_AT(try_layers(c, l, i, i + 1, &l->items[i].alone, &l->items[i].fails), "layer %s",
               l->items[i].name);
  qsort(l->items, l->count, sizeof(l->items[0]), compare);
  printf("only one layer in int8, by the error of the results:\n");
  for (size_t i = 0; i < l->count; i++)
    print_row(l->items[i].name, &l->items[i].alone, l->items[i].fails);
  return NULL;
}

// The fewest of the worst layers that are enough in float32. None are too few, all enough.
static carnot_status* find_enough(debug_case* c, const int8_layers* l) {
  size_t low = 0, high = l->count;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    char label[64];
    cli_tensor_diff d;
    bool fails;
    snprintf(label, sizeof(label), "the worst %zu of %zu layers in float32", middle, l->count);
    CLI_TRY_AT(try_layers(c, l, middle, l->count, &d, &fails), "%s", label);
    print_row(label, &d, fails);
    *(fails ? &low : &high) = middle;
  }
  printf("enough in float32: --layerPrecisions=");
  for (size_t i = 0; i < high; i++) printf("%s%s:fp32", i ? "," : "", l->items[i].name);
  putchar('\n');
  return NULL;
}

static carnot_status* judge(debug_case* c, int8_layers* l) {
  cli_tensor_diff all, none;
  bool all_fail, none_fail;
  printf("%-4s %10s %10s %12s  build\n", "", "error", "max abs", "cosine");
  CLI_TRY(try_layers(c, l, 0, l->count, &all, &all_fail));
  print_row("all layers in int8", &all, all_fail);
  CLI_TRY(try_layers(c, l, 0, 0, &none, &none_fail));
  print_row("all layers in float32", &none, none_fail);
  if (cli_flag_set(c->flags, "each")) CLI_TRY(try_each(c, l));
  if (none_fail)
    printf("float32 is outside the tolerance too: precision is not the cause\n");
  else if (!all_fail)
    printf("every layer may be int8\n");
  else if (cli_flag_set(c->flags, "each"))
    return find_enough(c, l);
  else
    printf("--each finds the layers that must stay in float32\n");
  return NULL;
}

// The ranges of all tensors, once for all builds.
static carnot_status* find_ranges(debug_case* c, carnot_ranges** out_ranges) {
  carnot_config* config;
  CLI_TRY(carnot_config_create(&config));
  carnot_status* status = cli_configure(c->network, &c->build, config);
  if (!status) status = cli_calibrate(c->network, config, &c->build.calibration, out_ranges);
  carnot_config_destroy(config);
  CLI_TRY(status);
  CLI_CHECK(*out_ranges, INVALID_ARGUMENT,
            CLI_USAGE "--int8 needs ranges here: give --calibData=DIR or --calib=CACHE");
  return NULL;
}

static bool may_be_int8(const carnot_layer* layer, const carnot_ranges* ranges) {
  double min, max;
  return carnot_layer_takes_int8(layer) &&
         carnot_ranges_get(ranges, carnot_value_name(carnot_layer_input(layer, 0)), &min, &max);
}

static carnot_status* list_layers(debug_case* c, const carnot_ranges* ranges, int8_layers* out) {
  *out = (int8_layers){.count = 0};
  const carnot_layer* first = carnot_network_first_layer(c->network);
  for (const carnot_layer* at = first; at; at = carnot_layer_next(at))
    out->count += may_be_int8(at, ranges);
  CLI_CHECK(out->count, INVALID_ARGUMENT,
            "no layer of the model can be quantized: convolutions and GEMMs with constant float32 "
            "weights and a range of their input are");
  out->items = CLI_NEW_ARRAY(&c->arena, int8_layer, out->count);
  out->requests = CLI_NEW_ARRAY(&c->arena, cli_type_request, out->count);
  size_t count = 0;
  for (const carnot_layer* at = first; at; at = carnot_layer_next(at))
    if (may_be_int8(at, ranges)) out->items[count++].name = carnot_layer_name(at);
  return NULL;
}

carnot_status* debug_int8(debug_case* c) {
  carnot_ranges* ranges = NULL;
  int8_layers layers;
  carnot_status* status = find_ranges(c, &ranges);
  c->build.ranges = ranges;
  if (!status && !c->files.count)
    cli_say(CLI_SAY_WARNING, "the inputs are made up: give --input to see the errors of real ones");
  if (!status) status = list_layers(c, ranges, &layers);
  if (!status) status = judge(c, &layers);
  c->build.ranges = NULL;
  carnot_ranges_destroy(ranges);
  return status;
}
