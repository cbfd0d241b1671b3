// The com.microsoft domain: quantized operators, written as dequantize, compute, quantize.
#include "import/onnx/importer.h"

static carnot_value* dequantize(onnx_import* n, carnot_value* x, carnot_value* scale,
                                carnot_value* zero) {
  return import_op(&n->node, CARNOT_OP_DEQUANTIZE_LINEAR, NULL, 3, x, scale, zero);
}

// Without a zero point the result still has the type of |like|.
static carnot_value* quantize(onnx_import* n, carnot_value* x, carnot_value* scale,
                              carnot_value* zero, const carnot_value* like) {
  if (!zero) zero = import_number(&n->node, like, 0);
  return import_op(&n->node, CARNOT_OP_QUANTIZE_LINEAR, NULL, 3, x, scale, zero);
}

// QLinearAdd and QLinearMul: a, scale, zero; b, scale, zero; scale, zero.
static void handle_binary(onnx_import* n) {
  carnot_value* a = dequantize(n, onnx_need(n, 0), onnx_need(n, 1), onnx_in(n, 2));
  carnot_value* b = dequantize(n, onnx_need(n, 3), onnx_need(n, 4), onnx_in(n, 5));
  n->outputs[0] = quantize(n, import_binary(&n->node, n->row->fn, a, b), onnx_need(n, 6),
                           onnx_in(n, 7), onnx_need(n, 0));
}

static carnot_value* dequantized(onnx_import* n) {
  return dequantize(n, onnx_need(n, 0), onnx_need(n, 1), onnx_in(n, 2));
}

static void requantized(onnx_import* n, carnot_value* y) {
  n->outputs[0] = quantize(n, y, onnx_need(n, 3), onnx_in(n, 4), onnx_need(n, 0));
}

static void handle_unary(onnx_import* n) {
  double alpha = n->row->fn == CARNOT_FN_LEAKY_RELU ? onnx_attr_float(n, "alpha", 0.01f) : 0;
  requantized(n, import_unary_with(&n->node, n->row->fn, dequantized(n), alpha, 0));
}

static void handle_global_average(onnx_import* n) {
  carnot_value* x = dequantized(n);
  int rank = import_rank(&n->node, x), count = 0;
  int64_t axes[CARNOT_MAX_RANK], first = onnx_attr_int(n, "channels_last", 0) ? 1 : 2;
  for (int i = 2; i < rank; i++) axes[count++] = first++;
  requantized(n, import_reduce(&n->node, "mean", x, axes, count));
}

static void handle_average(onnx_import* n) {
  bool last = onnx_attr_int(n, "channels_last", 0) != 0;
  carnot_attrs attrs = onnx_attrs_known_to(n, CARNOT_OP_AVERAGE_POOL);
  carnot_value* x = dequantized(n);
  carnot_value* y = import_op(&n->node, CARNOT_OP_AVERAGE_POOL, &attrs, 1,
                              last ? import_move_channels(&n->node, x, false) : x);
  requantized(n, last ? import_move_channels(&n->node, y, true) : y);
}

// Before opset 13 all dimensions from the axis on are one.
static void handle_softmax(onnx_import* n) {
  carnot_value* x = dequantized(n);
  int rank = import_rank(&n->node, x),
      axis = import_axis(&n->node, onnx_attr_int(n, "axis", -1), rank);
  if (onnx_attr_int(n, "opset", 13) >= 13 || axis == rank - 1) {
    requantized(n, import_softmax(&n->node, x, axis));
    return;
  }
  carnot_value* flat = import_softmax(&n->node, import_flatten(&n->node, x, axis), 1);
  requantized(n, import_reshape(&n->node, flat, import_shape_of(&n->node, x)));
}

// scale, zero; then x, scale, zero of every part.
static void handle_concat(onnx_import* n) {
  int count = (n->input_count - 2) / 3;
  if (count < 1 || (n->input_count - 2) % 3)
    ONNX_FAIL(n, INVALID_MODEL, "%d inputs where 2 + 3 k belong", n->input_count);
  if (n->node.status) return;
  carnot_value** parts = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, (size_t)count);
  if (!import_has_memory(&n->node)) return;
  for (int i = 0; i < count; i++) {
    parts[i] =
        dequantize(n, onnx_need(n, 2 + 3 * i), onnx_need(n, 3 + 3 * i), onnx_in(n, 4 + 3 * i));
  }
  carnot_value* y = import_concat(&n->node, onnx_attr_int(n, "axis", 0), parts, count);
  n->outputs[0] = quantize(n, y, onnx_need(n, 0), onnx_in(n, 1), onnx_need(n, 2));
}

// cast(integer product) * (scale of a * scale of b) + bias.
static void integer_product(onnx_import* n, carnot_value* a, carnot_value* a_scale,
                            carnot_value* a_zero, carnot_value* b, carnot_value* b_scale,
                            carnot_value* b_zero, carnot_value* bias) {
  carnot_value* product =
      import_op(&n->node, CARNOT_OP_MATMUL_INTEGER, NULL, 4, a, b, a_zero, b_zero);
  if (n->node.status) return;
  carnot_value* scale = import_binary(&n->node, CARNOT_FN_MUL, a_scale, b_scale);
  carnot_value* y = import_binary(&n->node, CARNOT_FN_MUL,
                                  import_cast(&n->node, product, a_scale->type.dtype), scale);
  n->outputs[0] = bias ? import_binary(&n->node, CARNOT_FN_ADD, y, bias) : y;
}

static void handle_integer_to_float(onnx_import* n) {
  integer_product(n, onnx_need(n, 0), onnx_need(n, 2), onnx_in(n, 4), onnx_need(n, 1),
                  onnx_need(n, 3), onnx_in(n, 5), onnx_in(n, 6));
}

static void handle_dynamic_matmul(onnx_import* n) {
  carnot_value* quantized[3] = {NULL};
  carnot_value* x = onnx_need(n, 0);
  import_emit(&n->node, CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR, NULL, &x, 1, quantized, 3);
  integer_product(n, quantized[0], quantized[1], quantized[2], onnx_need(n, 1), onnx_need(n, 2),
                  onnx_in(n, 3), onnx_in(n, 4));
}

// QGemm with alpha 1 and a row of C as dequantize, MatMul, add, quantize.
static void plain_gemm(onnx_import* n, carnot_value* a, carnot_value* b, carnot_value* c) {
  carnot_value *a_scale = onnx_need(n, 1), *b_scale = onnx_need(n, 4);
  carnot_value* y =
      import_op(&n->node, CARNOT_OP_MATMUL, NULL, 2, dequantize(n, a, a_scale, onnx_in(n, 2)),
                dequantize(n, b, b_scale, onnx_in(n, 5)));
  if (c) {
    carnot_attrs attrs = {0};
    carnot_attrs_set_int(&attrs, n->node.arena, "axis", 0);
    carnot_value* scale = import_binary(&n->node, CARNOT_FN_MUL, a_scale, b_scale);
    carnot_value* bias = import_op(&n->node, CARNOT_OP_DEQUANTIZE_LINEAR, &attrs, 2, c, scale);
    y = import_binary(&n->node, CARNOT_FN_ADD, y, bias);
  }
  n->outputs[0] = quantize(n, y, onnx_in(n, 7), onnx_in(n, 8), onnx_need(n, 0));
}

// A, scale, zero; B, scale, zero; C of int32; scale, zero: alpha * A' * B' + C in units of the
// product of the scales, quantized where the last scale is given.
static void handle_gemm(onnx_import* n) {
  const int64_t turn[2] = {1, 0};
  carnot_value *a = onnx_need(n, 0), *b = onnx_need(n, 3), *a_scale = onnx_need(n, 1);
  if (onnx_attr_int(n, "transA", 0)) a = import_transpose(&n->node, a, turn, 2);
  if (onnx_attr_int(n, "transB", 0)) b = import_transpose(&n->node, b, turn, 2);
  carnot_value* c = onnx_in(n, 6);
  if (onnx_in(n, 7) && onnx_attr_float(n, "alpha", 1) == 1 && (!c || c->type.rank == 1)) {
    plain_gemm(n, a, b, c);
    return;
  }
  carnot_value* sum =
      import_op(&n->node, CARNOT_OP_MATMUL_INTEGER, NULL, 4, a, b, onnx_in(n, 2), onnx_in(n, 5));
  if (onnx_in(n, 6)) sum = import_binary(&n->node, CARNOT_FN_ADD, sum, onnx_in(n, 6));
  carnot_value* scale = import_binary(&n->node, CARNOT_FN_MUL, a_scale, onnx_need(n, 4));
  if (n->node.status) return;
  float alpha = (float)onnx_attr_float(n, "alpha", 1);
  if (alpha != 1)
    scale = import_binary(&n->node, CARNOT_FN_MUL, scale,
                          import_number(&n->node, a_scale, (double)alpha));
  carnot_value* y = import_binary(&n->node, CARNOT_FN_MUL,
                                  import_cast(&n->node, sum, a_scale->type.dtype), scale);
  n->outputs[0] = onnx_in(n, 7) ? quantize(n, y, onnx_in(n, 7), onnx_in(n, 8), onnx_need(n, 0)) : y;
}

#define MS(op_type, handler, OP, FN) \
  { "com.microsoft", op_type, 1, handler, CARNOT_OP_##OP, CARNOT_FN_##FN, NULL }

static const onnx_row kRows[] = {
    MS("QuantizeLinear", onnx_one_to_one, QUANTIZE_LINEAR, IDENTITY),
    MS("DequantizeLinear", onnx_one_to_one, DEQUANTIZE_LINEAR, IDENTITY),
    MS("QLinearAdd", handle_binary, BINARY, ADD),
    MS("QLinearMul", handle_binary, BINARY, MUL),
    MS("QLinearSigmoid", handle_unary, UNARY, SIGMOID),
    MS("QLinearLeakyRelu", handle_unary, UNARY, LEAKY_RELU),
    MS("QLinearGlobalAveragePool", handle_global_average, REDUCE, IDENTITY),
    MS("QLinearAveragePool", handle_average, AVERAGE_POOL, IDENTITY),
    MS("QLinearSoftmax", handle_softmax, SOFTMAX, IDENTITY),
    MS("QLinearConcat", handle_concat, CONCAT, IDENTITY),
    MS("QGemm", handle_gemm, MATMUL_INTEGER, IDENTITY),
    MS("MatMulIntegerToFloat", handle_integer_to_float, MATMUL_INTEGER, IDENTITY),
    MS("DynamicQuantizeMatMul", handle_dynamic_matmul, MATMUL_INTEGER, IDENTITY),
};
const onnx_row_table onnx_rows_com_microsoft_quantize = ONNX_ROW_TABLE(kRows);
