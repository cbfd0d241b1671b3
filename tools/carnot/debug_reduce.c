// carnot debug reduce, split: parts of a model as models.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug.h"

// ---- split ----

carnot_status* debug_split(debug_case* c) {
  const char *at = cli_flag_text(c->flags, "at"), *folder = cli_flag_text(c->flags, "output-dir");
  CLI_CHECK(at && folder, INVALID_ARGUMENT,
            "usage: carnot debug split MODEL --at=TENSOR[,TENSOR…] --output-dir=DIR");
  const char* names[64];
  size_t count = 0;
  while (*at) {
    size_t length = strcspn(at, ",");
    CLI_CHECK(count < 64, OUT_OF_RANGE, "more than 64 tensors to split at");
    names[count++] = cli_arena_text(&c->arena, at, length);
    at += length + (at[length] == ',');
  }
  size_t output_count = carnot_network_output_count(c->network);
  const char** outputs = CLI_NEW_ARRAY(&c->arena, const char*, output_count + 1);
  for (size_t i = 0; i < output_count; i++)
    outputs[i] = carnot_value_name(carnot_network_output(c->network, i));
  char first[4096], second[4096];
  CLI_TRY(cli_make_folder(folder));
  snprintf(first, sizeof(first), "%s/first.onnx", folder);
  snprintf(second, sizeof(second), "%s/second.onnx", folder);
  CLI_TRY(carnot_onnx_extract_file(c->path, c->network, NULL, 0, names, count, first));
  CLI_TRY(
      carnot_onnx_extract_file(c->path, c->network, names, count, outputs, output_count, second));
  printf("%s computes the tensors, %s reads them\n", first, second);
  return NULL;
}

// ---- reduce ----

typedef struct part {
  const char* inputs[256];
  size_t input_count;
  size_t node_count;
} part;

static bool listed(const part* p, const char* name) {
  for (size_t i = 0; i < p->input_count; i++)
    if (strcmp(p->inputs[i], name) == 0) return true;
  return false;
}

// A set of values, by address.
typedef struct value_set {
  const carnot_value** items;
  size_t count, capacity;
} value_set;

static bool has_value(const value_set* set, const carnot_value* value) {
  for (size_t i = 0; i < set->count; i++)
    if (set->items[i] == value) return true;
  return false;
}

static carnot_status* add_value(value_set* set, const carnot_value* value) {
  if (has_value(set, value)) return NULL;
  void* items = set->items;
  CLI_TRY(cli_grow(&items, &set->capacity, set->count + 1, sizeof(value), "values"));
  set->items = items;
  set->items[set->count++] = value;
  return NULL;
}

// True when the part needs an output of |layer|.
static bool is_wanted(const carnot_layer* layer, const value_set* needed, const char* output) {
  for (int i = 0; i < carnot_layer_output_count(layer); i++) {
    const carnot_value* value = carnot_layer_output(layer, i);
    if (value && (has_value(needed, value) || strcmp(carnot_value_name(value), output) == 0))
      return true;
  }
  return false;
}

static carnot_status* walk_back(const carnot_network* network, const char* output,
                                size_t node_count, value_set* needed, part* out) {
  const carnot_layer* layer = carnot_network_last_layer(network);
  for (; layer && out->node_count < node_count; layer = carnot_layer_previous(layer)) {
    if (!is_wanted(layer, needed, output)) continue;
    out->node_count++;
    for (int i = 0; i < carnot_layer_input_count(layer); i++) {
      const carnot_value* value = carnot_layer_input(layer, i);
      if (value && !carnot_value_constant(value, NULL)) CLI_TRY(add_value(needed, value));
    }
  }
  // What is computed before the part and needed by it.
  for (; layer; layer = carnot_layer_previous(layer))
    for (int i = 0; i < carnot_layer_output_count(layer); i++) {
      const carnot_value* value = carnot_layer_output(layer, i);
      if (!value || !has_value(needed, value) || listed(out, carnot_value_name(value))) continue;
      CLI_CHECK(out->input_count < CLI_COUNT(out->inputs), OUT_OF_RANGE,
                "a part with more than %zu inputs", CLI_COUNT(out->inputs));
      out->inputs[out->input_count++] = carnot_value_name(value);
    }
  return NULL;
}

// The |node_count| last nodes that lead to |output| (in the order of the network, none that it does
// not need): what they read from before is the part's input.
static carnot_status* take_part(debug_case* c, const char* output, size_t node_count, part* out) {
  value_set needed = {0};
  *out = (part){0};
  carnot_status* status = walk_back(c->network, output, node_count, &needed, out);
  free(needed.items);
  return status;
}

static carnot_status* try_part(debug_case* c, const char* output, size_t node_count,
                               const char* path, part* out, bool* out_fails) {
  cli_tensor_diff worst;
  CLI_TRY(take_part(c, output, node_count, out));
  CLI_TRY(carnot_onnx_extract_file(c->path, c->network, out->inputs, out->input_count, &output, 1,
                                   path));
  CLI_TRY(debug_run(c, path, &c->build, NULL, &worst, out_fails));
  debug_print_verdict(*out_fails);
  printf(" %10.3g  the last %zu nodes before %s\n", worst.max_abs, out->node_count, output);
  return NULL;
}

// Saves the trusted inputs and output of the part beside it.
static carnot_status* save_tensors(debug_case* c, const part* p, const char* output,
                                   const char* folder) {
  for (size_t i = 0; i <= p->input_count; i++) {
    const char* name = i < p->input_count ? p->inputs[i] : output;
    const carnot_data* data;
    char path[4096], safe[1024];
    CLI_TRY(debug_wanted(c, name, &data));
    if (!data) continue;
    cli_tensor tensor = cli_tensor_of(data);
    cli_safe_name(name, safe, sizeof(safe));
    snprintf(path, sizeof(path), "%s/%s.npy", folder, safe);
    CLI_TRY(cli_tensor_write_npy(path, &tensor));
  }
  return NULL;
}

static carnot_status* shrink(debug_case* c, const char* output, const char* folder) {
  char path[4096];
  part p = {0};
  bool fails = false;
  snprintf(path, sizeof(path), "%s/reduced.onnx", folder);
  size_t low = 0, high = 1, last = 0;
  for (;; high *= 2) {  // grow backwards until it fails
    CLI_TRY(try_part(c, output, high, path, &p, &fails));
    if (fails) break;
    low = high;
    CLI_CHECK(p.node_count != last, FAILED_PRECONDITION,
              "no part of the model before %s fails by itself: the fault needs the whole", output);
    last = p.node_count;
  }
  high = p.node_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    CLI_TRY(try_part(c, output, middle, path, &p, &fails));
    *(fails ? &high : &low) = middle;
  }
  CLI_TRY(try_part(c, output, high, path, &p, &fails));
  CLI_TRY(save_tensors(c, &p, output, folder));
  printf(
      "%s: the smallest part that fails, %zu nodes; its inputs and the right output are beside "
      "it as .npy\n",
      path, p.node_count);
  return NULL;
}

carnot_status* debug_reduce(debug_case* c) {
  const char* folder = cli_flag_text(c->flags, "output-dir");
  CLI_CHECK(folder, INVALID_ARGUMENT, "usage: carnot debug reduce MODEL --output-dir=DIR");
  CLI_TRY(cli_make_folder(folder));
  debug_rows rows = {0};
  cli_tensor_diff worst;
  bool fails;
  const char* first = NULL;
  carnot_status* status = debug_run(c, c->path, &c->build, &rows, &worst, &fails);
  for (size_t i = 0; !status && i < rows.count && !first; i++)
    if (rows.items[i].fails) first = rows.items[i].value;
  if (!status && !first) printf("nothing fails: there is nothing to reduce\n");
  if (!status && first) status = shrink(c, first, folder);
  free(rows.items);
  return status;
}
