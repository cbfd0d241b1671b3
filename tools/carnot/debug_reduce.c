// carnot debug reduce, split: parts of a model as models.
#include <stdlib.h>
#include <unistd.h>

#include "debug.h"
#include "import/onnx/extract.h"

// ---- split ----

carnot_status* debug_split(debug_case* c) {
  const char *at = cli_flag_text(c->flags, "at"), *folder = cli_flag_text(c->flags, "output-dir");
  CARNOT_CHECK(at && folder, INVALID_ARGUMENT,
               "usage: carnot debug split MODEL --at=TENSOR[,TENSOR…] --output-dir=DIR");
  const char* names[64];
  size_t count = 0;
  while (*at) {
    size_t length = strcspn(at, ",");
    CARNOT_CHECK(count < 64, OUT_OF_RANGE, "more than 64 tensors to split at");
    names[count++] = carnot_arena_text(&c->arena, at, length);
    at += length + (at[length] == ',');
  }
  const carnot_block* main = c->graph->main;
  const char** outputs = CARNOT_NEW_ARRAY(&c->arena, const char*, main->output_count + 1);
  for (size_t i = 0; i < main->output_count; i++) outputs[i] = main->outputs[i]->name;
  char first[4096], second[4096];
  CARNOT_TRY(cli_make_folder(folder));
  snprintf(first, sizeof(first), "%s/first.onnx", folder);
  snprintf(second, sizeof(second), "%s/second.onnx", folder);
  CARNOT_TRY(carnot_onnx_extract(c->path, c->graph, NULL, 0, names, count, first));
  CARNOT_TRY(
      carnot_onnx_extract(c->path, c->graph, names, count, outputs, main->output_count, second));
  printf("%s gives the tensors, %s takes them\n", first, second);
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

// The |node_count| last nodes that lead to |output| (in the graph's order, none that it does not
// need): what they read from before is the part's input.
static carnot_status* take_part(debug_case* c, const char* output, size_t node_count, part* out) {
  *out = (part){0};
  bool* needed = CARNOT_NEW_ARRAY(&c->arena, bool, c->graph->value_count + 1);
  const carnot_node* node = c->graph->main->last;
  for (; node && out->node_count < node_count; node = node->previous) {
    bool wanted = false;
    for (int i = 0; i < node->output_count; i++)
      wanted |= node->outputs[i] &&
                (needed[node->outputs[i]->id] || strcmp(node->outputs[i]->name, output) == 0);
    if (!wanted) continue;
    out->node_count++;
    for (int i = 0; i < node->input_count; i++)
      if (node->inputs[i] && !node->inputs[i]->constant) needed[node->inputs[i]->id] = true;
  }
  // What stands before the part and is needed.
  for (; node; node = node->previous)
    for (int i = 0; i < node->output_count; i++) {
      if (!node->outputs[i] || !needed[node->outputs[i]->id] || listed(out, node->outputs[i]->name))
        continue;
      CARNOT_CHECK(out->input_count < 256, OUT_OF_RANGE, "a part with more than 256 inputs");
      out->inputs[out->input_count++] = node->outputs[i]->name;
    }
  return NULL;
}

static carnot_status* try_part(debug_case* c, const char* output, size_t node_count,
                               const char* path, part* out, bool* out_fails) {
  cli_difference worst;
  CARNOT_TRY(take_part(c, output, node_count, out));
  CARNOT_TRY(
      carnot_onnx_extract(c->path, c->graph, out->inputs, out->input_count, &output, 1, path));
  CARNOT_TRY(debug_run(c, path, &c->build.config, NULL, &worst, out_fails));
  printf("%-4s %10.3g  the last %zu nodes before %s\n", *out_fails ? "FAIL" : "ok", worst.max_abs,
         out->node_count, output);
  return NULL;
}

// Saves the trusted inputs and output of the part beside it.
static carnot_status* save_tensors(debug_case* c, const part* p, const char* output,
                                   const char* folder) {
  for (size_t i = 0; i <= p->input_count; i++) {
    const char* name = i < p->input_count ? p->inputs[i] : output;
    const carnot_tensor* tensor;
    char path[4096], safe[1024];
    CARNOT_TRY(debug_wanted(c, name, &tensor));
    if (!tensor) continue;
    cli_safe_name(name, safe, sizeof(safe));
    snprintf(path, sizeof(path), "%s/%s.npy", folder, safe);
    CARNOT_TRY(cli_write_npy(path, tensor));
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
    CARNOT_TRY(try_part(c, output, high, path, &p, &fails));
    if (fails) break;
    low = high;
    CARNOT_CHECK(p.node_count != last, FAILED_PRECONDITION,
                 "no part of the model before %s fails by itself: the fault needs the whole",
                 output);
    last = p.node_count;
  }
  high = p.node_count;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    CARNOT_TRY(try_part(c, output, middle, path, &p, &fails));
    *(fails ? &high : &low) = middle;
  }
  CARNOT_TRY(try_part(c, output, high, path, &p, &fails));
  CARNOT_TRY(save_tensors(c, &p, output, folder));
  printf(
      "%s: the smallest part that fails, %zu nodes; its inputs and the right output stand beside "
      "it as .npy\n",
      path, p.node_count);
  return NULL;
}

carnot_status* debug_reduce(debug_case* c) {
  const char* folder = cli_flag_text(c->flags, "output-dir");
  CARNOT_CHECK(folder, INVALID_ARGUMENT, "usage: carnot debug reduce MODEL --output-dir=DIR");
  CARNOT_TRY(cli_make_folder(folder));
  debug_rows rows = {0};
  cli_difference worst;
  bool fails;
  const char* first = NULL;
  carnot_status* status = debug_run(c, c->path, &c->build.config, &rows, &worst, &fails);
  for (size_t i = 0; !status && i < rows.count && !first; i++)
    if (rows.items[i].fails) first = rows.items[i].value;
  if (!status && !first) printf("nothing fails: there is nothing to reduce\n");
  if (!status && first) status = shrink(c, first, folder);
  free(rows.items);
  return status;
}
