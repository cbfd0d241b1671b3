// Operators that ONNX once had in its default domain and took out again; files with them are still
// about.
#include "import/onnx/importer.h"

static void handle_two(onnx_import* n) {
  n->outputs[0] =
      import_unary_with(&n->node, n->row->fn, onnx_need(n, 0), onnx_attr_float(n, "alpha", 1),
                        onnx_attr_float(n, "beta", n->row->fn == CARNOT_FN_AFFINE ? 0 : 1));
}

// x * scale + bias[channel].
static void handle_image_scaler(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  size_t count = 0;
  const float* bias = onnx_attr_floats(n, "bias", &count);
  carnot_value* y = import_binary(&n->node, CARNOT_FN_MUL, x,
                                  import_number(&n->node, x, onnx_attr_float(n, "scale", 1)));
  n->outputs[0] = y;
  if (!bias || n->node.status) return;
  carnot_tensor tensor = {.dtype = CARNOT_DTYPE_F32, .rank = 1, .dims = {(int64_t)count}};
  tensor.data = carnot_arena_copy(n->node.arena, bias, count * sizeof(*bias));
  if (!import_has_memory(&n->node)) return;
  carnot_value* row =
      import_cast(&n->node, import_tensor_constant(&n->node, &tensor), x->type.dtype);
  n->outputs[0] = import_add_channel(&n->node, y, row, CARNOT_FN_ADD);
}

// Border: left, top, right, bottom; with |scale| [height, width] that much from the upper left
// corner of the border.
static void handle_crop(onnx_import* n) {
  size_t border_count = 0, scale_count = 0;
  const int64_t* border = onnx_attr_ints(n, "border", &border_count);
  const int64_t* scale = onnx_attr_ints(n, "scale", &scale_count);
  if (!border || border_count != 4) ONNX_FAIL(n, INVALID_MODEL, "border must have 4 numbers");
  if (scale && scale_count != 2) ONNX_FAIL(n, INVALID_MODEL, "scale must have 2 numbers");
  if (n->node.status) return;
  const int64_t starts[2] = {border[1], border[0]}, axes[2] = {2, 3};
  // An end of -0 would cut all: the end of the axis is meant.
  int64_t ends[2] = {border[3] ? -border[3] : INT64_MAX, border[2] ? -border[2] : INT64_MAX};
  for (int i = 0; i < 2 && scale; i++) ends[i] = starts[i] + scale[i];
  n->outputs[0] = import_op(&n->node, CARNOT_OP_SLICE, NULL, 4, onnx_need(n, 0),
                            import_ints(&n->node, starts, 2), import_ints(&n->node, ends, 2),
                            import_ints(&n->node, axes, 2));
}

// One step of a GRU whose gates [1, N, 3 D] (reset, update, output) are computed already:
//   h = sequence still running ? h_previous * sigmoid(update) + tanh(output) * (1 -
//   sigmoid(update)) : h_previous
static void handle_gru_unit(onnx_import* n) {
  carnot_value *previous = onnx_need(n, 0), *gates = onnx_need(n, 1), *lengths = onnx_need(n, 2),
               *t = onnx_need(n, 3);
  int64_t d = n->node.status ? -1 : import_dim(previous, previous->type.rank - 1);
  if (d < 0) ONNX_FAIL(n, UNSUPPORTED, "the size of the hidden state must be known");
  const int64_t one = 1;
  carnot_value* update =
      import_unary(&n->node, CARNOT_FN_SIGMOID, import_slice(&n->node, gates, -1, d, 2 * d));
  carnot_value* candidate =
      import_unary(&n->node, CARNOT_FN_TANH, import_slice(&n->node, gates, -1, 2 * d, 3 * d));
  carnot_value* rest =
      import_binary(&n->node, CARNOT_FN_SUB, import_number(&n->node, update, 1), update);
  carnot_value* next = import_binary(&n->node, CARNOT_FN_ADD,
                                     import_binary(&n->node, CARNOT_FN_MUL, previous, update),
                                     import_binary(&n->node, CARNOT_FN_MUL, candidate, rest));
  carnot_value* running =
      import_unsqueeze(&n->node, import_binary(&n->node, CARNOT_FN_LESS, t, lengths), &one, 1);
  bool drop = onnx_attr_int(n, "drop_states", 0) != 0;
  n->outputs[0] = import_ternary(&n->node, CARNOT_FN_SELECT, running, next,
                                 drop ? import_number(&n->node, previous, 0) : previous);
}

// Slice with its list inputs in the order data, starts, ends, axes.
static void handle_dynamic_slice(onnx_import* n) {
  n->outputs[0] = import_op(&n->node, CARNOT_OP_SLICE, NULL, 4, onnx_need(n, 0), onnx_need(n, 1),
                            onnx_need(n, 2), onnx_in(n, 3));
}

// Normalizes each channel, or all together, and only by the mean where normalize_variance is 0.
static void handle_mean_variance_1(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  int rank = import_rank(&n->node, x), count = 0;
  int64_t axes[CARNOT_MAX_RANK];
  for (int i = onnx_attr_int(n, "across_channels", 0) ? 1 : 2; i < rank; i++) axes[count++] = i;
  carnot_value* centred =
      import_binary(&n->node, CARNOT_FN_SUB, x, import_reduce(&n->node, "mean", x, axes, count));
  n->outputs[0] = centred;
  if (!onnx_attr_int(n, "normalize_variance", 1)) return;
  carnot_value* variance = import_reduce(
      &n->node, "mean", import_binary(&n->node, CARNOT_FN_MUL, centred, centred), axes, count);
  carnot_value* safe =
      import_binary(&n->node, CARNOT_FN_ADD, variance, import_number(&n->node, variance, 1e-9));
  n->outputs[0] =
      import_binary(&n->node, CARNOT_FN_DIV, centred, import_unary(&n->node, CARNOT_FN_SQRT, safe));
}

// A tensor filled with one value; its shape is an attribute or the value or the shape of the input.
static void handle_constant_fill(onnx_import* n) {
  size_t count = 0, extra_count = 0;
  const int64_t* shape = onnx_attr_ints(n, "shape", &count);
  const int64_t* extra = onnx_attr_ints(n, "extra_shape", &extra_count);
  carnot_dtype dtype = onnx_attr_dtype(n, "dtype", CARNOT_DTYPE_F32);
  carnot_value* input = onnx_in(n, 0);
  carnot_value* dims = shape ? import_ints(&n->node, shape, count)
                       : onnx_attr_int(n, "input_as_shape", 0)
                           ? import_cast(&n->node, onnx_need(n, 0), CARNOT_DTYPE_I64)
                           : import_shape_of(&n->node, input ? input : onnx_need(n, 0));
  if (extra && !shape) {
    carnot_value* parts[2] = {dims, import_ints(&n->node, extra, extra_count)};
    dims = import_concat(&n->node, 0, parts, 2);
  }
  carnot_value* value = import_number_of(&n->node, dtype, onnx_attr_float(n, "value", 0));
  n->outputs[0] = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, value, dims);
}

#define WITH(op_type, handler, FN) \
  { "", op_type, 1, handler, 0, CARNOT_FN_##FN, NULL }

static const onnx_row kRows[] = {
    WITH("Affine", handle_two, AFFINE),
    WITH("ParametricSoftplus", handle_two, SOFTPLUS),
    WITH("ScaledTanh", handle_two, SCALED_TANH),
    WITH("ImageScaler", handle_image_scaler, MUL),
    WITH("Crop", handle_crop, IDENTITY),
    WITH("GRUUnit", handle_gru_unit, SIGMOID),
    WITH("DynamicSlice", handle_dynamic_slice, IDENTITY),
    WITH("ConstantFill", handle_constant_fill, IDENTITY),
    WITH("MeanVarianceNormalization", handle_mean_variance_1, SUB),
};
const onnx_row_table onnx_rows_deprecated = ONNX_ROW_TABLE(kRows);
