// Handlers that serve many operators, and what they share.
#include "import/onnx/importer_state.h"

carnot_value* onnx_in(onnx_import* n, int i) { return i < n->input_count ? n->inputs[i] : NULL; }

carnot_value* onnx_need(onnx_import* n, int i) {
  carnot_value* value = onnx_in(n, i);
  if (!value) ONNX_FAIL(n, INVALID_MODEL, "input %d is missing", i);
  return value;
}

void onnx_emit_wanted(onnx_import* n, carnot_op op, const carnot_attrs* attrs,
                      carnot_value* const* inputs, int input_count) {
  const char** names =
      CARNOT_NEW_ARRAY(&n->importer->state.arena, const char*, (size_t)n->output_count + 1);
  if (!import_has_memory(&n->node)) return;
  for (int i = 0; i < n->output_count; i++) names[i] = n->proto->output.items[i].size ? NULL : "";
  import_emit_named(&n->node, op, attrs, inputs, input_count, names, n->outputs, n->output_count);
}

carnot_value* onnx_old_broadcast(onnx_import* n, carnot_value* x, carnot_value* y) {
  if (n->node.status || !onnx_attr_int(n, "broadcast", 0)) return y;
  int x_rank = import_rank(&n->node, x), y_rank = import_rank(&n->node, y);
  int64_t axis = onnx_attr_int(n, "axis", x_rank - y_rank);
  if (axis < 0) axis += x_rank;
  int64_t behind = x_rank - axis - y_rank;
  if (axis < 0 || behind < 0) {
    ONNX_FAIL(n, INVALID_MODEL, "%d dimensions do not stand at axis %lld of %d", y_rank,
              (long long)axis, x_rank);
    return NULL;
  }
  int64_t axes[CARNOT_MAX_RANK];
  for (int i = 0; i < behind; i++) axes[i] = y_rank + i;
  return import_unsqueeze(&n->node, y, axes, (int)behind);
}

// ---- handlers that serve many rows ----

void onnx_one_to_one(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, n->row->op);
  onnx_emit_wanted(n, n->row->op, &attrs, n->inputs, n->input_count);
}

void onnx_import_unary(onnx_import* n) {
  n->outputs[0] = import_unary(&n->node, n->row->fn, onnx_need(n, 0));
}

void onnx_import_binary(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  carnot_value* y = onnx_need(n, 1);
  if (n->version < 7) y = onnx_old_broadcast(n, x, y);
  n->outputs[0] = import_binary(&n->node, n->row->fn, x, y);
}

void onnx_import_variadic(onnx_import* n) {
  carnot_value* result = onnx_need(n, 0);
  for (int i = 1; i < n->input_count; i++)
    result = import_binary(&n->node, n->row->fn, result, onnx_need(n, i));
  n->outputs[0] = result;
}
