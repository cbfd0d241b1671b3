// Helpers with which handlers build the graph. After the first error they do nothing.
#include <limits.h>

#include "import/onnx/importer_state.h"

carnot_value* onnx_in(onnx_import* n, int i) { return i < n->input_count ? n->inputs[i] : NULL; }

carnot_value* onnx_need(onnx_import* n, int i) {
  carnot_value* value = onnx_in(n, i);
  if (!value) ONNX_FAIL(n, INVALID_MODEL, "input %d is missing", i);
  return value;
}

int onnx_rank(onnx_import* n, const carnot_value* value) {
  if (n->status || !value) return 0;
  if (value->type.kind == CARNOT_VALUE_TENSOR && value->type.rank >= 0) return value->type.rank;
  ONNX_FAIL(n, UNSUPPORTED, "the number of dimensions of \"%s\" must be known", value->name);
  return 0;
}

int64_t onnx_dim(const carnot_value* value, int axis) {
  if (!value || axis < 0 || axis >= value->type.rank ||
      !carnot_sym_is_const(value->type.dims[axis]))
    return -1;
  return value->type.dims[axis].bits;
}

int onnx_axis(onnx_import* n, int64_t axis, int rank) {
  int result = 0;
  if (!n->status) n->status = carnot_axis(axis, rank, "attribute axis", &result);
  return result;
}

const int64_t* onnx_constant_ints(onnx_import* n, const carnot_value* value, size_t* out_count) {
  *out_count = 0;
  if (!value || !value->constant || !carnot_dtype_is_integer(value->type.dtype)) return NULL;
  const carnot_tensor* tensor = &value->constant->tensor;
  size_t count = (size_t)carnot_tensor_count(tensor);
  int64_t* values = CARNOT_NEW_ARRAY(n->arena, int64_t, count + 1);
  for (size_t i = 0; i < count; i++) values[i] = carnot_load_i64(tensor->dtype, tensor->data, i);
  *out_count = count;
  return values;
}

// ---- nodes ----

static void emit(onnx_import* n, carnot_op op, const carnot_attrs* attrs,
                 carnot_value* const* inputs, int input_count, const char* const* output_names,
                 carnot_value** outputs, int output_count) {
  for (int i = 0; i < output_count; i++) outputs[i] = NULL;
  if (n->status) return;
  if (++n->importer->node_count > ONNX_MAX_NODES) {
    ONNX_FAIL(n, OUT_OF_RANGE, "the model unfolds to more than %d nodes", ONNX_MAX_NODES);
    return;
  }
  while (input_count > carnot_op_get(op)->min_inputs && !inputs[input_count - 1]) input_count--;
  carnot_node* node = NULL;
  n->status = carnot_block_add_node(n->block, op, n->name, attrs, inputs, input_count, output_names,
                                    output_count, &node);
  n->placed = n->status != NULL;
  for (int i = 0; node && i < output_count; i++) outputs[i] = node->outputs[i];
}

void onnx_emit(onnx_import* n, carnot_op op, const carnot_attrs* attrs, carnot_value* const* inputs,
               int input_count, carnot_value** outputs, int output_count) {
  emit(n, op, attrs, inputs, input_count, NULL, outputs, output_count);
}

void onnx_emit_wanted(onnx_import* n, carnot_op op, const carnot_attrs* attrs,
                      carnot_value* const* inputs, int input_count) {
  const char** names =
      CARNOT_NEW_ARRAY(&n->importer->arena, const char*, (size_t)n->output_count + 1);
  for (int i = 0; i < n->output_count; i++) names[i] = n->proto->output.items[i].size ? NULL : "";
  emit(n, op, attrs, inputs, input_count, names, n->outputs, n->output_count);
}

carnot_value* onnx_op(onnx_import* n, carnot_op op, const carnot_attrs* attrs, int input_count,
                      ...) {
  enum { kMost = 16 };
  carnot_value* inputs[kMost] = {NULL};
  va_list args;
  va_start(args, input_count);
  for (int i = 0; i < input_count && i < kMost; i++) inputs[i] = va_arg(args, carnot_value*);
  va_end(args);
  carnot_value* output = NULL;
  onnx_emit(n, op, attrs, inputs, input_count, &output, 1);
  return output;
}

static carnot_attrs fn_attrs(onnx_import* n, carnot_fn fn) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "fn", fn);
  return attrs;
}

carnot_value* onnx_unary(onnx_import* n, carnot_fn fn, carnot_value* x) {
  carnot_attrs attrs = fn_attrs(n, fn);
  return onnx_op(n, CARNOT_OP_UNARY, &attrs, 1, x);
}

carnot_value* onnx_unary_with(onnx_import* n, carnot_fn fn, carnot_value* x, double alpha,
                              double beta) {
  carnot_attrs attrs = fn_attrs(n, fn);
  carnot_attrs_set_float(&attrs, n->arena, "alpha", alpha);
  carnot_attrs_set_float(&attrs, n->arena, "beta", beta);
  return onnx_op(n, CARNOT_OP_UNARY, &attrs, 1, x);
}

carnot_value* onnx_binary(onnx_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  carnot_attrs attrs = fn_attrs(n, fn);
  return onnx_op(n, CARNOT_OP_BINARY, &attrs, 2, x, y);
}

carnot_value* onnx_ternary(onnx_import* n, carnot_fn fn, carnot_value* x, carnot_value* y,
                           carnot_value* z) {
  carnot_attrs attrs = fn_attrs(n, fn);
  return onnx_op(n, CARNOT_OP_TERNARY, &attrs, 3, x, y, z);
}

// ---- constants ----

carnot_value* onnx_tensor_constant(onnx_import* n, const carnot_tensor* tensor) {
  return n->status ? NULL : carnot_graph_constant(n->block, NULL, tensor);
}

carnot_value* onnx_ints(onnx_import* n, const int64_t* values, size_t count) {
  if (!n->status && count > INT_MAX) ONNX_FAIL(n, OUT_OF_RANGE, "a list of %zu integers", count);
  return n->status ? NULL : carnot_graph_ints(n->block, values, (int)count);
}

carnot_value* onnx_int(onnx_import* n, int64_t value) {
  return n->status ? NULL : carnot_graph_ints(n->block, &value, -1);
}

carnot_value* onnx_number_of(onnx_import* n, carnot_dtype dtype, double value) {
  if (n->status) return NULL;
  if (!carnot_dtype_valid(dtype)) ONNX_FAIL(n, UNSUPPORTED, "the type of an input must be known");
  return n->status ? NULL : carnot_graph_float(n->block, dtype, value);
}

carnot_value* onnx_number(onnx_import* n, const carnot_value* like, double value) {
  return n->status || !like ? NULL : onnx_number_of(n, like->type.dtype, value);
}

// ---- single operators ----

carnot_value* onnx_cast(onnx_import* n, carnot_value* x, carnot_dtype dtype) {
  if (n->status || !x || x->type.dtype == dtype) return x;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "to", dtype);
  return onnx_op(n, CARNOT_OP_CAST, &attrs, 1, x);
}

carnot_value* onnx_shape_of(onnx_import* n, carnot_value* x) {
  return onnx_op(n, CARNOT_OP_SHAPE, NULL, 1, x);
}

carnot_value* onnx_shape_part(onnx_import* n, carnot_value* x, int start, int end) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "start", start);
  carnot_attrs_set_int(&attrs, n->arena, "end", end);
  return onnx_op(n, CARNOT_OP_SHAPE, &attrs, 1, x);
}

carnot_value* onnx_reshape(onnx_import* n, carnot_value* x, carnot_value* shape) {
  return onnx_op(n, CARNOT_OP_RESHAPE, NULL, 2, x, shape);
}

carnot_value* onnx_reshape_to(onnx_import* n, carnot_value* x, const int64_t* dims, int rank) {
  return onnx_reshape(n, x, onnx_ints(n, dims, (size_t)rank));
}

carnot_value* onnx_transpose(onnx_import* n, carnot_value* x, const int64_t* perm, int rank) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, n->arena, "perm", perm, (size_t)rank);
  return onnx_op(n, CARNOT_OP_TRANSPOSE, &attrs, 1, x);
}

carnot_value* onnx_unsqueeze(onnx_import* n, carnot_value* x, const int64_t* axes, int count) {
  if (count == 0) return x;
  return onnx_op(n, CARNOT_OP_UNSQUEEZE, NULL, 2, x, onnx_ints(n, axes, (size_t)count));
}

carnot_value* onnx_squeeze(onnx_import* n, carnot_value* x, const int64_t* axes, int count) {
  if (count == 0) return x;
  return onnx_op(n, CARNOT_OP_SQUEEZE, NULL, 2, x, onnx_ints(n, axes, (size_t)count));
}

carnot_value* onnx_concat(onnx_import* n, int64_t axis, carnot_value* const* parts, int count) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "axis", axis);
  carnot_value* output = NULL;
  onnx_emit(n, CARNOT_OP_CONCAT, &attrs, parts, count, &output, 1);
  return output;
}

carnot_value* onnx_slice(onnx_import* n, carnot_value* x, int64_t axis, int64_t start,
                         int64_t end) {
  return onnx_op(n, CARNOT_OP_SLICE, NULL, 4, x, onnx_ints(n, &start, 1), onnx_ints(n, &end, 1),
                 onnx_ints(n, &axis, 1));
}

carnot_value* onnx_gather(onnx_import* n, carnot_value* x, carnot_value* indices, int64_t axis) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "axis", axis);
  return onnx_op(n, CARNOT_OP_GATHER, &attrs, 2, x, indices);
}

carnot_value* onnx_reduce(onnx_import* n, const char* fn, carnot_value* x, const int64_t* axes,
                          int count) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->arena, "fn", fn);
  carnot_attrs_set_int(&attrs, n->arena, "keepdims", 1);
  return onnx_op(n, CARNOT_OP_REDUCE, &attrs, 2, x, onnx_ints(n, axes, (size_t)count));
}

carnot_value* onnx_matmul(onnx_import* n, carnot_value* a, carnot_value* b) {
  return onnx_op(n, CARNOT_OP_MATMUL, NULL, 2, a, b);
}

carnot_value* onnx_softmax(onnx_import* n, carnot_value* x, int64_t axis) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "axis", axis);
  return onnx_op(n, CARNOT_OP_SOFTMAX, &attrs, 1, x);
}

// ---- small compositions ----

// The product of dimensions [start, end) as a list of one.
static carnot_value* dims_product(onnx_import* n, carnot_value* x, int start, int end) {
  int64_t product = 1;
  for (int i = start; i < end && product >= 0; i++) {
    int64_t dim = onnx_dim(x, i);
    if (dim < 0 || !carnot_mul_i64(product, dim, &product)) product = -1;
  }
  if (product >= 0) return onnx_ints(n, &product, 1);
  carnot_value* result = onnx_shape_part(n, x, start, start + 1);
  for (int i = start + 1; i < end; i++) {
    result = onnx_binary(n, CARNOT_FN_MUL, result, onnx_shape_part(n, x, i, i + 1));
  }
  return result;
}

// The same where not even the number of dimensions is known: products of parts of the list of
// dimensions.
static carnot_value* flatten_unknown(onnx_import* n, carnot_value* x, int64_t axis) {
  const int64_t first = 0;
  carnot_value* dims = onnx_shape_of(n, x);
  carnot_value* parts[2] = {
      onnx_reduce(n, "prod", onnx_slice(n, dims, 0, 0, axis), &first, 1),
      onnx_reduce(n, "prod", onnx_slice(n, dims, 0, axis, INT64_MAX), &first, 1)};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "allowzero", 1);
  return onnx_op(n, CARNOT_OP_RESHAPE, &attrs, 2, x, onnx_concat(n, 0, parts, 2));
}

carnot_value* onnx_flatten(onnx_import* n, carnot_value* x, int64_t axis) {
  if (!n->status && x && x->type.kind == CARNOT_VALUE_TENSOR && x->type.rank < 0)
    return flatten_unknown(n, x, axis);
  int rank = onnx_rank(n, x);
  // Unlike elsewhere the axis may be the rank itself: [all, 1].
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank)
    ONNX_FAIL(n, INVALID_MODEL, "attribute axis is outside [-%d, %d]", rank, rank);
  if (n->status) return NULL;
  carnot_value* parts[2] = {dims_product(n, x, 0, (int)axis), dims_product(n, x, (int)axis, rank)};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "allowzero", 1);
  if (!n->status && parts[0]->constant && parts[1]->constant) {
    const int64_t dims[2] = {*(int64_t*)parts[0]->constant->tensor.data,
                             *(int64_t*)parts[1]->constant->tensor.data};
    return onnx_op(n, CARNOT_OP_RESHAPE, &attrs, 2, x, onnx_ints(n, dims, 2));
  }
  return onnx_op(n, CARNOT_OP_RESHAPE, &attrs, 2, x, onnx_concat(n, 0, parts, 2));
}

carnot_value* onnx_old_broadcast(onnx_import* n, carnot_value* x, carnot_value* y) {
  if (n->status || !onnx_attr_int(n, "broadcast", 0)) return y;
  int x_rank = onnx_rank(n, x), y_rank = onnx_rank(n, y);
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
  return onnx_unsqueeze(n, y, axes, (int)behind);
}

carnot_value* onnx_add_channel(onnx_import* n, carnot_value* x, carnot_value* bias, carnot_fn fn) {
  int rank = onnx_rank(n, x);
  int64_t axes[CARNOT_MAX_RANK];
  int count = 0;
  for (int i = 2; i < rank; i++) axes[count++] = i - 1;
  return onnx_binary(n, fn, x, onnx_unsqueeze(n, bias, axes, count));
}

carnot_value* onnx_move_channels(onnx_import* n, carnot_value* x, bool last) {
  int rank = onnx_rank(n, x);
  int64_t perm[CARNOT_MAX_RANK] = {0};
  if (rank < 3) return x;
  for (int i = 1; i < rank; i++)
    perm[i] = last ? (i == rank - 1 ? 1 : i + 1) : (i == 1 ? rank - 1 : i - 1);
  return onnx_transpose(n, x, perm, rank);
}

// ---- handlers that serve many rows ----

void onnx_one_to_one(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, n->row->op);
  onnx_emit_wanted(n, n->row->op, &attrs, n->inputs, n->input_count);
}

void onnx_import_unary(onnx_import* n) {
  n->outputs[0] = onnx_unary(n, n->row->fn, onnx_need(n, 0));
}

void onnx_import_binary(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  carnot_value* y = onnx_need(n, 1);
  if (n->version < 7) y = onnx_old_broadcast(n, x, y);
  n->outputs[0] = onnx_binary(n, n->row->fn, x, y);
}

void onnx_import_variadic(onnx_import* n) {
  carnot_value* result = onnx_need(n, 0);
  for (int i = 1; i < n->input_count; i++)
    result = onnx_binary(n, n->row->fn, result, onnx_need(n, i));
  n->outputs[0] = result;
}
