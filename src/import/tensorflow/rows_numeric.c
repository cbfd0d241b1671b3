// Operators on numbers that have no family: quantize and dequantize, bits, comparisons with a
// tolerance, determinants. Source: tensorflow/core/ops/array_ops.cc, math_ops.cc, linalg_ops.cc.
#include <float.h>
#include <math.h>

#include "import/tensorflow/rows.h"

static void handle_identity(tf_import* n) { n->outputs[0] = n->inputs[0]; }
// Of real numbers.
static void handle_approximate(tf_import* n) {
  carnot_value* away = import_unary(
      &n->node, CARNOT_FN_ABS, import_binary(&n->node, CARNOT_FN_SUB, n->inputs[0], n->inputs[1]));
  carnot_value* least = import_number(&n->node, n->inputs[0], tf_float(n, "tolerance", 1e-5));
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_LESS, away, least);
}
static void handle_determinant(tf_import* n) {
  n->outputs[0] = import_op(&n->node, CARNOT_OP_DET, NULL, 1, n->inputs[0]);
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

// log(exp x + exp y): the larger one and log(1 + exp(-|x - y|)).
static carnot_value* log_add(tf_import* n, carnot_value* x, carnot_value* y) {
  carnot_value* zero = import_number(&n->node, x, 0);
  // The difference of equal infinities is no number.
  carnot_value* same = import_binary(&n->node, CARNOT_FN_EQUAL, x, y);
  carnot_value* away =
      import_unary(&n->node, CARNOT_FN_ABS, import_binary(&n->node, CARNOT_FN_SUB, x, y));
  away = import_unary(&n->node, CARNOT_FN_NEG,
                      import_ternary(&n->node, CARNOT_FN_SELECT, same, zero, away));
  return import_binary(&n->node, CARNOT_FN_ADD, import_binary(&n->node, CARNOT_FN_MAX, x, y),
                       import_unary_with(&n->node, CARNOT_FN_SOFTPLUS, away, 1, 1));
}

// |x| moved by |count| elements along |axis|, minus infinity in front (or behind).
static carnot_value* moved(tf_import* n, carnot_value* x, int axis, int64_t count, bool back) {
  const int rank = x->type.rank;
  int64_t widths[2 * CARNOT_MAX_RANK] = {0};
  widths[axis + (back ? rank : 0)] = count;
  carnot_value* rest = back ? import_slice(&n->node, x, axis, count, INT64_MAX)
                            : import_slice(&n->node, x, axis, 0, -count);
  return import_op(&n->node, CARNOT_OP_PAD, NULL, 3, rest,
                   import_ints(&n->node, widths, 2 * (size_t)rank),
                   import_number(&n->node, x, -INFINITY));
}

// Sums over 1, 2, 4, .. elements, which no exponent of the whole makes vanish.
static void handle_cumulative_logsumexp(tf_import* n) {
  const int64_t given = tf_need_int(n, 1, "the axis");
  carnot_value* x = n->inputs[0];
  const int rank = import_rank(&n->node, x);
  if (n->node.status) return;
  const int axis = import_axis(&n->node, given, rank);
  const int64_t size = import_dim(x, axis);
  const bool back = tf_bool(n, "reverse", false);
  if (size < 0 || (x->type.dtype != CARNOT_DTYPE_F32 && x->type.dtype != CARNOT_DTYPE_F64))
    TF_FAIL(n, UNSUPPORTED, "float or double of a known size along the axis is required");
  if (n->node.status) return;
  if (tf_bool(n, "exclusive", false) && size > 0) x = moved(n, x, axis, 1, back);
  for (int64_t step = 1; step < size && !n->node.status; step *= 2)
    x = log_add(n, x, moved(n, x, axis, step, back));
  n->outputs[0] = x;
}

static const tf_row kRows[] = {
    {"ApproximateEqual", handle_approximate, 2, 2, 0, NULL, NULL},
    {"CumulativeLogsumexp", handle_cumulative_logsumexp, 2, 2, 0, NULL, NULL},
    {"CheckNumericsV2", handle_identity, 1, 1, 0, NULL, NULL},
    {"MatrixDeterminant", handle_determinant, 1, 1, 0, NULL, NULL},
    {"QuantizeAndDequantizeV2", handle_quantize, 3, 3, 2, NULL, NULL},
    {"QuantizeAndDequantizeV3", handle_quantize, 4, 4, 3, NULL, NULL},
    {"QuantizeAndDequantizeV4", handle_quantize, 3, 3, 2, NULL, NULL},
    {"Reverse", handle_reverse, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_numeric = TF_ROW_TABLE(kRows);
