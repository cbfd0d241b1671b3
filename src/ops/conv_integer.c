// Convolution of quantized tensors; shapes as conv.c.
//   conv_integer: y = conv(x - x_zero, w - w_zero), in int32
//   qlinear_conv: y = saturate(round(acc * x_scale * w_scale / y_scale) + y_zero), acc = the above
//   + bias (int32)
// Zero points and scales are one, or of |w| one a filter ([M]). Padding counts as x_zero.
#include "ops/conv.h"

// Parameter |i| of a list that may be a single one for all.
static double param_at(const carnot_tensor* t, int64_t i, double otherwise) {
  if (!t) return otherwise;
  return carnot_load_f64(t->dtype, t->data, (size_t)(carnot_tensor_count(t) > 1 ? i : 0));
}

// |t| less its zero point, as int32; the zero point goes by the first dimension.
static carnot_status* centered(const carnot_call* call, const carnot_tensor* t,
                               const carnot_tensor* zero, int32_t** out) {
  int64_t count = carnot_tensor_count(t), each = t->dims[0] ? count / t->dims[0] : 1;
  CARNOT_TRY(carnot_call_array(call, count, sizeof(int32_t), out));
  for (int64_t i = 0; i < count; i++) {
    int64_t z = (int64_t)param_at(zero, i / each, 0);
    (*out)[i] = (int32_t)(carnot_load_i64(t->dtype, t->data, (size_t)i) - z);
  }
  return NULL;
}

static carnot_status* check_zero(const carnot_tensor* zero, int64_t count, const char* what) {
  CARNOT_CHECK(!zero || carnot_tensor_count(zero) == 1 || carnot_tensor_count(zero) == count,
               INVALID_MODEL, "%s has %lld elements; 1 or %lld are required", what,
               (long long)carnot_tensor_count(zero), (long long)count);
  return NULL;
}

static carnot_status* infer_integer(carnot_infer* infer) {
  return carnot_conv_infer(infer, 0, 1, CARNOT_DTYPE_I32);
}

static carnot_status* run_integer(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *w = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  CARNOT_TRY(check_zero(carnot_call_in(call, 2), 1, "x_zero_point"));
  CARNOT_TRY(check_zero(carnot_call_in(call, 3), w->dims[0], "w_zero_point"));
  int32_t *xv = NULL, *wv = NULL;
  CARNOT_TRY(centered(call, x, carnot_call_in(call, 2), &xv));
  CARNOT_TRY(centered(call, w, carnot_call_in(call, 3), &wv));
  return carnot_conv_run(call, CARNOT_CONV_U32, x, w, y, xv, wv, NULL, y->data);
}

// Inputs: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias.
static carnot_status* infer_qlinear(carnot_infer* infer) {
  const carnot_type* zero;
  CARNOT_TRY(carnot_infer_tensor(infer, 7, &zero));
  return carnot_conv_infer(infer, 0, 3, zero->dtype);
}

static carnot_status* run_qlinear(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *w = carnot_call_in(call, 3),
                      *w_scale = carnot_call_in(call, 4), *bias = carnot_call_in(call, 8);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  CARNOT_TRY(check_zero(carnot_call_in(call, 2), 1, "x_zero_point"));
  CARNOT_TRY(check_zero(carnot_call_in(call, 5), w->dims[0], "w_zero_point"));
  CARNOT_TRY(check_zero(w_scale, w->dims[0], "w_scale"));
  CARNOT_CHECK(
      !bias || (bias->dtype == CARNOT_DTYPE_I32 && carnot_tensor_count(bias) == w->dims[0]),
      INVALID_MODEL, "bias is %s of %lld elements; int32 of %lld is required",
      carnot_dtype_name(bias->dtype), (long long)carnot_tensor_count(bias), (long long)w->dims[0]);
  int32_t *xv = NULL, *wv = NULL, *sums = NULL;
  int64_t count = carnot_tensor_count(y);
  CARNOT_TRY(centered(call, x, carnot_call_in(call, 2), &xv));
  CARNOT_TRY(centered(call, w, carnot_call_in(call, 5), &wv));
  CARNOT_TRY(carnot_call_array(call, count, sizeof(int32_t), &sums));
  CARNOT_TRY(
      carnot_conv_run(call, CARNOT_CONV_U32, x, w, y, xv, wv, bias ? bias->data : NULL, sums));
  double x_scale = carnot_scalar_f64(carnot_call_in(call, 1), 1);
  double y_scale = carnot_scalar_f64(carnot_call_in(call, 6), 1);
  double y_zero = carnot_scalar_f64(carnot_call_in(call, 7), 0);
  int64_t plane = carnot_dims_count(y->dims + 2, y->rank - 2);
  for (int64_t i = 0; i < count; i++) {
    double scale = x_scale * param_at(w_scale, i / plane % y->dims[1], 1) / y_scale;
    carnot_store_f64(y->dtype, y->data, (size_t)i, rint((double)sums[i] * scale) + y_zero);
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_WORD("auto_pad", "NOTSET", CARNOT_AUTO_PADS),
                                          CARNOT_SPEC_LIST("dilations", INTS),
                                          CARNOT_SPEC_INT("group", 1),
                                          CARNOT_SPEC_LIST("kernel_shape", INTS),
                                          CARNOT_SPEC_LIST("pads", INTS),
                                          CARNOT_SPEC_LIST("strides", INTS),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_conv_integer = {
    .name = "conv_integer",
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_integer,
    .reference = run_integer,
    .source = "ONNX ConvInteger-10",
    .layer_type = "CONVOLUTION",
};
const carnot_op_row carnot_op_qlinear_conv = {
    .name = "qlinear_conv",
    .min_inputs = 8,
    .max_inputs = 9,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_qlinear,
    .reference = run_qlinear,
    .source = "ONNX QLinearConv-10",
    .layer_type = "CONVOLUTION",
};
