// Operators on numbers that have no family: quantize and dequantize, bits, comparisons with a
// tolerance, determinants. Source: tensorflow/core/ops/array_ops.cc, math_ops.cc, linalg_ops.cc.
#include <float.h>

#include "import/tensorflow/rows.h"

static void handle_identity(tf_import* n) { n->outputs[0] = n->inputs[0]; }
// Of real numbers.
static void handle_conjugate_transpose(tf_import* n) {
  size_t count = 0;
  const int64_t* perm = tf_need_ints(n, 1, "the permutation", &count);
  if (perm) n->outputs[0] = import_transpose(&n->node, n->inputs[0], perm, (int)count);
}
static void handle_approximate(tf_import* n) {
  carnot_value* away = import_unary(
      &n->node, CARNOT_FN_ABS, import_binary(&n->node, CARNOT_FN_SUB, n->inputs[0], n->inputs[1]));
  carnot_value* least = import_number(&n->node, n->inputs[0], tf_float(n, "tolerance", 1e-5));
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_LESS, away, least);
}
static void handle_determinant(tf_import* n) {
  n->outputs[0] = import_op(&n->node, CARNOT_OP_DET, NULL, 1, n->inputs[0]);
}
// The same bits as another type.
static void handle_bitcast(tf_import* n) {
  carnot_attrs attrs = {0};
  const carnot_dtype from = n->inputs[0]->type.dtype, to = tf_type(n, "type", from);
  if (n->node.status) return;
  if (carnot_dtype_bits(from) != carnot_dtype_bits(to)) {
    TF_FAIL(n, UNSUPPORTED, "from %s to %s, which are not of one width", carnot_dtype_name(from),
            carnot_dtype_name(to));
    return;
  }
  carnot_attrs_set_int(&attrs, n->node.arena, "to", to);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_BIT_CAST, &attrs, 1, n->inputs[0]);
}

// The dimensions that input 1, a list of truth values, marks.
static void handle_reverse(tf_import* n) {
  const carnot_value* marks = n->inputs[1];
  const int rank = import_rank(&n->node, n->inputs[0]);
  int64_t axes[CARNOT_MAX_RANK], starts[CARNOT_MAX_RANK], ends[CARNOT_MAX_RANK],
      steps[CARNOT_MAX_RANK];
  size_t count = 0;
  if (n->node.status) return;
  if (!marks->constant || carnot_tensor_count(&marks->constant->tensor) != rank ||
      marks->type.dtype != CARNOT_DTYPE_BOOL) {
    TF_FAIL(n, UNSUPPORTED, "dims must be a constant truth value for each of %d dimensions", rank);
    return;
  }
  for (int i = 0; i < rank; i++) {
    if (!((const unsigned char*)marks->constant->tensor.data)[i]) continue;
    axes[count] = i, starts[count] = -1, ends[count] = INT64_MIN, steps[count] = -1;
    count++;
  }
  n->outputs[0] =
      !count ? n->inputs[0]
             : import_op(&n->node, CARNOT_OP_SLICE, NULL, 5, n->inputs[0],
                         import_ints(&n->node, starts, count), import_ints(&n->node, ends, count),
                         import_ints(&n->node, axes, count), import_ints(&n->node, steps, count));
}

// ---- quantize and dequantize in floating point ----

static bool constant_number(tf_import* n, int input, double* out) {
  const carnot_value* x = n->inputs[input];
  *out = 0;
  if (!x->constant || carnot_tensor_count(&x->constant->tensor) != 1) {
    TF_FAIL(n, UNSUPPORTED, "the range and the number of bits must be constants, one of each");
    return false;
  }
  *out = carnot_load_f64(x->type.dtype, x->constant->tensor.data, 0);
  return true;
}

// round(clamp(x) * scale) / scale, where the scale fits the range into the integers. Source:
// tensorflow/core/kernels/quantize_and_dequantize_op.h.
static void handle_quantize(tf_import* n) {
  double low, high, bits = (double)tf_int(n, "num_bits", 8);
  carnot_value* x = n->inputs[0];
  if (!constant_number(n, 1, &low) || !constant_number(n, 2, &high)) return;
  if (n->input_count > 3 && !constant_number(n, 3, &bits)) return;
  const bool is_signed = tf_bool(n, "signed_input", true),
             is_narrow = tf_bool(n, "narrow_range", false);
  if (!tf_bool(n, "range_given", n->row->code == 3) || tf_int(n, "axis", -1) != -1)
    TF_FAIL(n, UNSUPPORTED, "a range of the data's own, or by axis, is not supported");
  if (!(bits >= 2 && bits <= 24) || !(low <= high))
    TF_FAIL(n, INVALID_MODEL, "%g bits and the range [%g, %g]", bits, low, high);
  if (n->node.status) return;
  const int64_t top = (int64_t)1 << ((int)bits - is_signed);
  const double most = (double)(top - 1), least = is_signed   ? -(double)(is_narrow ? top - 1 : top)
                                                 : is_narrow ? 1
                                                             : 0;
  const double by_low = least * low > 0 ? least / low : DBL_MAX,
               by_high = most * high > 0 ? most / high : DBL_MAX;
  if (by_low == DBL_MAX && by_high == DBL_MAX) {
    TF_FAIL(n, UNSUPPORTED, "the range [%g, %g] holds 0 only", low, high);
    return;
  }
  const double scale = by_low < by_high ? by_low : by_high;
  if (by_low < by_high)
    high = most / scale;
  else
    low = least / scale;
  x = import_ternary(&n->node, CARNOT_FN_CLIP, x, import_number(&n->node, x, low),
                     import_number(&n->node, x, high));
  x = import_binary(&n->node, CARNOT_FN_MUL, x, import_number(&n->node, x, scale));
  if (tf_is(n, "round_mode", "HALF_UP", "HALF_TO_EVEN"))
    x = import_unary(&n->node, CARNOT_FN_FLOOR,
                     import_binary(&n->node, CARNOT_FN_ADD, x, import_number(&n->node, x, 0.5)));
  else
    x = import_unary(&n->node, CARNOT_FN_ROUND, x);
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_MUL, x, import_number(&n->node, x, 1 / scale));
}

static const tf_row kRows[] = {
    {"ApproximateEqual", handle_approximate, 2, 2, 0, NULL, NULL},
    {"Bitcast", handle_bitcast, 1, 1, 0, NULL, NULL},
    {"CheckNumericsV2", handle_identity, 1, 1, 0, NULL, NULL},
    {"ConjugateTranspose", handle_conjugate_transpose, 2, 2, 0, NULL, NULL},
    {"MatrixDeterminant", handle_determinant, 1, 1, 0, NULL, NULL},
    {"QuantizeAndDequantizeV2", handle_quantize, 3, 3, 2, NULL, NULL},
    {"QuantizeAndDequantizeV3", handle_quantize, 4, 4, 3, NULL, NULL},
    {"QuantizeAndDequantizeV4", handle_quantize, 3, 3, 2, NULL, NULL},
    {"Reverse", handle_reverse, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_numeric = TF_ROW_TABLE(kRows);
