// Emits nodes for the handlers of all importers. After the first error of a node nothing is
// emitted.
#include "import/common/emit.h"

#include <limits.h>
#include <stdarg.h>

bool import_has_memory(import_node* n) {
  if (!n->arena->failed && !n->state->arena.failed) return true;
  if (!n->status) n->status = carnot_arena_status(n->arena->failed ? n->arena : &n->state->arena);
  return false;
}

int import_rank(import_node* n, const carnot_value* value) {
  if (n->status || !value) return 0;
  if (value->type.kind == CARNOT_VALUE_TENSOR && value->type.rank >= 0) return value->type.rank;
  IMPORT_FAIL(n, UNSUPPORTED, "the number of dimensions of \"%s\" must be known", value->name);
  return 0;
}

int64_t import_dim(const carnot_value* value, int axis) {
  if (!value || axis < 0 || axis >= value->type.rank ||
      !carnot_sym_is_const(value->type.dims[axis]))
    return -1;
  return value->type.dims[axis].bits;
}

int import_axis(import_node* n, int64_t axis, int rank) {
  int result = 0;
  if (!n->status) n->status = carnot_axis(axis, rank, "attribute axis", &result);
  return result;
}

const int64_t* import_constant_ints(import_node* n, const carnot_value* value, size_t* out_count) {
  *out_count = 0;
  if (!value || !value->constant || !carnot_dtype_is_integer(value->type.dtype)) return NULL;
  const carnot_tensor* tensor = &value->constant->tensor;
  size_t count = (size_t)carnot_tensor_count(tensor);
  int64_t* values = CARNOT_NEW_ARRAY(n->arena, int64_t, count + 1);
  if (!import_has_memory(n)) return NULL;
  for (size_t i = 0; i < count; i++) values[i] = carnot_load_i64(tensor->dtype, tensor->data, i);
  *out_count = count;
  return values;
}

// ---- nodes ----

void import_emit_named(import_node* n, carnot_op op, const carnot_attrs* attrs,
                       carnot_value* const* inputs, int input_count,
                       const char* const* output_names, carnot_value** outputs, int output_count) {
  for (int i = 0; i < output_count; i++) outputs[i] = NULL;
  if (n->status) return;
  if (++n->state->node_count > IMPORT_MAX_NODES) {
    IMPORT_FAIL(n, OUT_OF_RANGE, "the model unfolds to more than %d nodes", IMPORT_MAX_NODES);
    return;
  }
  while (input_count > carnot_op_get(op)->min_inputs && !inputs[input_count - 1]) input_count--;
  carnot_node* node = NULL;
  n->status = carnot_block_add_node(n->block, op, n->name, attrs, inputs, input_count, output_names,
                                    output_count, &node);
  n->placed = n->status != NULL;
  for (int i = 0; node && i < output_count; i++) outputs[i] = node->outputs[i];
}

void import_emit(import_node* n, carnot_op op, const carnot_attrs* attrs,
                 carnot_value* const* inputs, int input_count, carnot_value** outputs,
                 int output_count) {
  import_emit_named(n, op, attrs, inputs, input_count, NULL, outputs, output_count);
}

carnot_value* import_op(import_node* n, carnot_op op, const carnot_attrs* attrs, int input_count,
                        ...) {
  enum { kMost = 16 };
  carnot_value* inputs[kMost] = {NULL};
  va_list args;
  va_start(args, input_count);
  for (int i = 0; i < input_count && i < kMost; i++) inputs[i] = va_arg(args, carnot_value*);
  va_end(args);
  carnot_value* output = NULL;
  import_emit(n, op, attrs, inputs, input_count, &output, 1);
  return output;
}

static carnot_attrs fn_attrs(import_node* n, carnot_fn fn) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "fn", fn);
  return attrs;
}

carnot_value* import_unary(import_node* n, carnot_fn fn, carnot_value* x) {
  carnot_attrs attrs = fn_attrs(n, fn);
  return import_op(n, CARNOT_OP_UNARY, &attrs, 1, x);
}

carnot_value* import_unary_with(import_node* n, carnot_fn fn, carnot_value* x, double alpha,
                                double beta) {
  carnot_attrs attrs = fn_attrs(n, fn);
  carnot_attrs_set_float(&attrs, n->arena, "alpha", alpha);
  carnot_attrs_set_float(&attrs, n->arena, "beta", beta);
  return import_op(n, CARNOT_OP_UNARY, &attrs, 1, x);
}

carnot_value* import_binary(import_node* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  carnot_attrs attrs = fn_attrs(n, fn);
  return import_op(n, CARNOT_OP_BINARY, &attrs, 2, x, y);
}

carnot_value* import_ternary(import_node* n, carnot_fn fn, carnot_value* x, carnot_value* y,
                             carnot_value* z) {
  carnot_attrs attrs = fn_attrs(n, fn);
  return import_op(n, CARNOT_OP_TERNARY, &attrs, 3, x, y, z);
}

// ---- constants ----

carnot_value* import_tensor_constant(import_node* n, const carnot_tensor* tensor) {
  return n->status ? NULL : carnot_graph_constant(n->block, NULL, tensor);
}

carnot_value* import_ints(import_node* n, const int64_t* values, size_t count) {
  if (!n->status && count > INT_MAX) IMPORT_FAIL(n, OUT_OF_RANGE, "a list of %zu integers", count);
  return n->status ? NULL : carnot_graph_ints(n->block, values, (int)count);
}

carnot_value* import_int(import_node* n, int64_t value) {
  return n->status ? NULL : carnot_graph_ints(n->block, &value, -1);
}

carnot_value* import_number_of(import_node* n, carnot_dtype dtype, double value) {
  if (n->status) return NULL;
  if (!carnot_dtype_valid(dtype)) IMPORT_FAIL(n, UNSUPPORTED, "the type of an input must be known");
  return n->status ? NULL : carnot_graph_float(n->block, dtype, value);
}

carnot_value* import_number(import_node* n, const carnot_value* like, double value) {
  return n->status || !like ? NULL : import_number_of(n, like->type.dtype, value);
}

// ---- single operators ----

carnot_value* import_cast(import_node* n, carnot_value* x, carnot_dtype dtype) {
  if (n->status || !x || x->type.dtype == dtype) return x;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "to", dtype);
  return import_op(n, CARNOT_OP_CAST, &attrs, 1, x);
}

carnot_value* import_shape_of(import_node* n, carnot_value* x) {
  return import_op(n, CARNOT_OP_SHAPE, NULL, 1, x);
}

carnot_value* import_shape_part(import_node* n, carnot_value* x, int start, int end) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "start", start);
  carnot_attrs_set_int(&attrs, n->arena, "end", end);
  return import_op(n, CARNOT_OP_SHAPE, &attrs, 1, x);
}

carnot_value* import_reshape(import_node* n, carnot_value* x, carnot_value* shape) {
  return import_op(n, CARNOT_OP_RESHAPE, NULL, 2, x, shape);
}

carnot_value* import_reshape_to(import_node* n, carnot_value* x, const int64_t* dims, int rank) {
  return import_reshape(n, x, import_ints(n, dims, (size_t)rank));
}

carnot_value* import_transpose(import_node* n, carnot_value* x, const int64_t* perm, int rank) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, n->arena, "perm", perm, (size_t)rank);
  return import_op(n, CARNOT_OP_TRANSPOSE, &attrs, 1, x);
}

carnot_value* import_unsqueeze(import_node* n, carnot_value* x, const int64_t* axes, int count) {
  if (count == 0) return x;
  return import_op(n, CARNOT_OP_UNSQUEEZE, NULL, 2, x, import_ints(n, axes, (size_t)count));
}

carnot_value* import_squeeze(import_node* n, carnot_value* x, const int64_t* axes, int count) {
  if (count == 0) return x;
  return import_op(n, CARNOT_OP_SQUEEZE, NULL, 2, x, import_ints(n, axes, (size_t)count));
}

carnot_value* import_concat(import_node* n, int64_t axis, carnot_value* const* parts, int count) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "axis", axis);
  carnot_value* output = NULL;
  import_emit(n, CARNOT_OP_CONCAT, &attrs, parts, count, &output, 1);
  return output;
}

carnot_value* import_slice(import_node* n, carnot_value* x, int64_t axis, int64_t start,
                           int64_t end) {
  return import_op(n, CARNOT_OP_SLICE, NULL, 4, x, import_ints(n, &start, 1),
                   import_ints(n, &end, 1), import_ints(n, &axis, 1));
}

carnot_value* import_gather(import_node* n, carnot_value* x, carnot_value* indices, int64_t axis) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "axis", axis);
  return import_op(n, CARNOT_OP_GATHER, &attrs, 2, x, indices);
}

carnot_value* import_reduce(import_node* n, const char* fn, carnot_value* x, const int64_t* axes,
                            int count) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->arena, "fn", fn);
  carnot_attrs_set_int(&attrs, n->arena, "keepdims", 1);
  return import_op(n, CARNOT_OP_REDUCE, &attrs, 2, x, import_ints(n, axes, (size_t)count));
}

carnot_value* import_matmul(import_node* n, carnot_value* a, carnot_value* b) {
  return import_op(n, CARNOT_OP_MATMUL, NULL, 2, a, b);
}

carnot_value* import_softmax(import_node* n, carnot_value* x, int64_t axis) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "axis", axis);
  return import_op(n, CARNOT_OP_SOFTMAX, &attrs, 1, x);
}

// ---- small compositions ----

// The product of dimensions [start, end) as a list of one.
static carnot_value* dims_product(import_node* n, carnot_value* x, int start, int end) {
  int64_t product = 1;
  for (int i = start; i < end && product >= 0; i++) {
    int64_t dim = import_dim(x, i);
    if (dim < 0 || !carnot_mul_i64(product, dim, &product)) product = -1;
  }
  if (product >= 0) return import_ints(n, &product, 1);
  carnot_value* result = import_shape_part(n, x, start, start + 1);
  for (int i = start + 1; i < end; i++) {
    result = import_binary(n, CARNOT_FN_MUL, result, import_shape_part(n, x, i, i + 1));
  }
  return result;
}

// The same where not even the number of dimensions is known: products of parts of the list of
// dimensions.
static carnot_value* flatten_unknown(import_node* n, carnot_value* x, int64_t axis) {
  const int64_t first = 0;
  carnot_value* dims = import_shape_of(n, x);
  carnot_value* parts[2] = {
      import_reduce(n, "prod", import_slice(n, dims, 0, 0, axis), &first, 1),
      import_reduce(n, "prod", import_slice(n, dims, 0, axis, INT64_MAX), &first, 1)};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "allowzero", 1);
  return import_op(n, CARNOT_OP_RESHAPE, &attrs, 2, x, import_concat(n, 0, parts, 2));
}

carnot_value* import_flatten(import_node* n, carnot_value* x, int64_t axis) {
  if (!n->status && x && x->type.kind == CARNOT_VALUE_TENSOR && x->type.rank < 0)
    return flatten_unknown(n, x, axis);
  int rank = import_rank(n, x);
  // Unlike elsewhere the axis may be the rank itself: [all, 1].
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank)
    IMPORT_FAIL(n, INVALID_MODEL, "attribute axis is outside [-%d, %d]", rank, rank);
  if (n->status) return NULL;
  carnot_value* parts[2] = {dims_product(n, x, 0, (int)axis), dims_product(n, x, (int)axis, rank)};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "allowzero", 1);
  if (!n->status && parts[0]->constant && parts[1]->constant) {
    const int64_t dims[2] = {*(int64_t*)parts[0]->constant->tensor.data,
                             *(int64_t*)parts[1]->constant->tensor.data};
    return import_op(n, CARNOT_OP_RESHAPE, &attrs, 2, x, import_ints(n, dims, 2));
  }
  return import_op(n, CARNOT_OP_RESHAPE, &attrs, 2, x, import_concat(n, 0, parts, 2));
}

carnot_value* import_add_channel(import_node* n, carnot_value* x, carnot_value* bias,
                                 carnot_fn fn) {
  int rank = import_rank(n, x);
  int64_t axes[CARNOT_MAX_RANK];
  int count = 0;
  for (int i = 2; i < rank; i++) axes[count++] = i - 1;
  return import_binary(n, fn, x, import_unsqueeze(n, bias, axes, count));
}

carnot_value* import_move_channels(import_node* n, carnot_value* x, bool last) {
  int rank = import_rank(n, x);
  int64_t perm[CARNOT_MAX_RANK] = {0};
  if (rank < 3) return x;
  for (int i = 1; i < rank; i++)
    perm[i] = last ? (i == rank - 1 ? 1 : i + 1) : (i == 1 ? rank - 1 : i - 1);
  return import_transpose(n, x, perm, rank);
}
