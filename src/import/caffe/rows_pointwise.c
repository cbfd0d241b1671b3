// Element-wise layers. Source: the layers of their names in BVLC/caffe; ReLU6, Axpy and others of
// its forks.
#include <math.h>

#include "import/caffe/handlers.h"

static carnot_value* number(caffe_import* n, double value) {
  return import_number_of(&n->node, CARNOT_DTYPE_F32, value);
}

// The function of the row.
static void handle_function(caffe_import* n) {
  n->outputs[0] = import_unary_with(&n->node, n->row->fn, n->inputs[0], 1, 1);
}

static void handle_relu(caffe_import* n) {
  const double slope = caffe_float(n->fields, "negative_slope", 0);
  n->outputs[0] = slope == 0
                      ? import_unary(&n->node, CARNOT_FN_RELU, n->inputs[0])
                      : import_unary_with(&n->node, CARNOT_FN_LEAKY_RELU, n->inputs[0], slope, 0);
}

static void handle_relu6(caffe_import* n) {
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_CLAMP, n->inputs[0], 0, 6);
}

static void handle_elu(caffe_import* n) {
  const double alpha = caffe_float(n->fields, "alpha", 1);
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_ELU, n->inputs[0], alpha, 0);
}

static void handle_swish(caffe_import* n) {
  const double beta = caffe_float(n->fields, "beta", 1);
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_SWISH, n->inputs[0], beta, 0);
}

static void handle_clip(caffe_import* n) {
  if (!caffe_has(n->fields, "min") || !caffe_has(n->fields, "max"))
    CAFFE_FAIL(n, INVALID_MODEL, "clip_param lacks min or max");
  n->outputs[0] =
      import_unary_with(&n->node, CARNOT_FN_CLAMP, n->inputs[0], caffe_float(n->fields, "min", 0),
                        caffe_float(n->fields, "max", 0));
}

static void handle_prelu(caffe_import* n) {
  const int rank = caffe_rank(n, 0, 2, CARNOT_MAX_RANK);
  const int64_t slopes = caffe_int(n->fields, "channel_shared", 0) ? 1 : caffe_dim(n, 0, 1);
  caffe_expect_blobs(n, 1);
  carnot_value* slope = caffe_align(n, caffe_weights(n, 0, &slopes, 1, 30), 1, rank);
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_PRELU, n->inputs[0], slope);
}

// The first of a list that other layers of the same parameter have several of.
static double first_of(caffe_import* n, const char* name, double absent) {
  const caffe_float_list list = caffe_floats(n->fields, name);
  return list.count ? (double)list.items[0] : absent;
}

static carnot_value* shifted(caffe_import* n) {
  const double scale = first_of(n, "scale", 1), shift = caffe_float(n->fields, "shift", 0);
  if (scale == 1 && shift == 0) return n->inputs[0];
  return import_unary_with(&n->node, CARNOT_FN_AFFINE, n->inputs[0], scale, shift);
}

// (shift + scale * x) ^ power
static void handle_power(caffe_import* n) {
  const double power = caffe_float(n->fields, "power", 1);
  carnot_value* x = shifted(n);
  n->outputs[0] = power == 1 ? x : import_binary(&n->node, CARNOT_FN_POW, x, number(n, power));
}

// base ^ (shift + scale * x); base -1 is e.
static void handle_exp(caffe_import* n) {
  const double base = caffe_float(n->fields, "base", -1);
  if (base != -1 && !(base > 0))
    CAFFE_FAIL(n, INVALID_MODEL, "base is %g; a positive number is required", base);
  const double by = base == -1 ? 1 : log(base);
  carnot_value* x = shifted(n);
  if (by != 1) x = import_unary_with(&n->node, CARNOT_FN_AFFINE, x, by, 0);
  n->outputs[0] = import_unary(&n->node, CARNOT_FN_EXP, x);
}

static void handle_log(caffe_import* n) {
  const double base = caffe_float(n->fields, "base", -1);
  if (base != -1 && !(base > 0 && base != 1))
    CAFFE_FAIL(n, INVALID_MODEL, "base is %g; a positive number other than 1 is required", base);
  carnot_value* y = import_unary(&n->node, CARNOT_FN_LOG, shifted(n));
  if (base != -1) y = import_unary_with(&n->node, CARNOT_FN_AFFINE, y, 1 / log(base), 0);
  n->outputs[0] = y;
}

static void handle_threshold(caffe_import* n) {
  carnot_value* limit = number(n, caffe_float(n->fields, "threshold", 0));
  carnot_value* above = import_binary(&n->node, CARNOT_FN_GREATER, n->inputs[0], limit);
  n->outputs[0] = import_cast(&n->node, above, CARNOT_DTYPE_F32);
}

static void handle_eltwise(caffe_import* n) {
  static const carnot_fn kFunctions[] = {CARNOT_FN_MUL, CARNOT_FN_ADD, CARNOT_FN_MAX,
                                         CARNOT_FN_MIN};
  const int64_t operation = caffe_int(n->fields, "operation", 1);
  const caffe_float_list coeff = caffe_floats(n->fields, "coeff");
  if (operation < 0 || operation > 3)
    CAFFE_FAIL(n, INVALID_MODEL, "operation is %lld; 0 to 3 are required", (long long)operation);
  if (coeff.count && (operation != 1 || coeff.count != (size_t)n->input_count))
    CAFFE_FAIL(n, INVALID_MODEL,
               "%zu coeff for %d bottoms; none, or one for each of a sum, required", coeff.count,
               n->input_count);
  if (n->node.status) return;
  carnot_value* y = NULL;
  for (int i = 0; i < n->input_count; i++) {
    carnot_value* x = n->inputs[i];
    if (coeff.count && coeff.items[i] != 1)
      x = import_unary_with(&n->node, CARNOT_FN_AFFINE, x, (double)coeff.items[i], 0);
    y = y ? import_binary(&n->node, kFunctions[operation], y, x) : x;
  }
  n->outputs[0] = y;
}

// a * x + y, with a [N,C,1,1]
static void handle_axpy(caffe_import* n) {
  const int rank = import_rank(&n->node, n->inputs[1]);
  carnot_value* a = caffe_align(n, n->inputs[0], 0, rank);
  n->outputs[0] =
      import_binary(&n->node, CARNOT_FN_ADD,
                    import_binary(&n->node, CARNOT_FN_MUL, a, n->inputs[1]), n->inputs[2]);
}

static void handle_identity(caffe_import* n) { n->outputs[0] = n->inputs[0]; }

static const caffe_row kRows[] = {
    {"ReLU", handle_relu, "relu_param", 1, 1, 0, NULL},
    {"ReLU6", handle_relu6, NULL, 1, 1, 0, NULL},
    {"ELU", handle_elu, "elu_param", 1, 1, 0, NULL},
    {"PReLU", handle_prelu, "prelu_param", 1, 1, 0, NULL},
    {"Sigmoid", handle_function, NULL, 1, 1, CARNOT_FN_SIGMOID, NULL},
    {"TanH", handle_function, NULL, 1, 1, CARNOT_FN_TANH, NULL},
    {"AbsVal", handle_function, NULL, 1, 1, CARNOT_FN_ABS, NULL},
    {"BNLL", handle_function, NULL, 1, 1, CARNOT_FN_SOFTPLUS, NULL},
    {"Mish", handle_function, NULL, 1, 1, CARNOT_FN_MISH, NULL},
    {"Swish", handle_swish, "swish_param", 1, 1, 0, NULL},
    {"Clip", handle_clip, "clip_param", 1, 1, 0, NULL},
    {"Power", handle_power, "power_param", 1, 1, 0, NULL},
    {"Exp", handle_exp, "exp_param", 1, 1, 0, NULL},
    {"Log", handle_log, "log_param", 1, 1, 0, NULL},
    {"Threshold", handle_threshold, "threshold_param", 1, 1, 0, NULL},
    {"Eltwise", handle_eltwise, "eltwise_param", 1, -1, 0, NULL},
    {"Axpy", handle_axpy, NULL, 3, 3, 0, NULL},
    {"Dropout", handle_identity, NULL, 1, 1, 0, NULL},
};
const caffe_row_table caffe_rows_pointwise = CAFFE_ROW_TABLE(kRows);
