// Normalisation to probabilities along |axis| (default -1); computed in double.
//   softmax:     y = exp(x - max) / sum exp(x - max)
//   log_softmax: y = x - max - log(sum exp(x - max))
//   hardmax:     y = 1 at the first largest element, else 0
#include "ops/axis_iter.h"

static carnot_status* infer_softmax(carnot_infer* infer) {
  const carnot_type* x;
  int axis;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  if (x->rank > 0) CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

static double largest(const double* x, int64_t n, int64_t* out_index) {
  *out_index = 0;
  for (int64_t i = 1; i < n; i++) {
    if (x[i] > x[*out_index] || (x[i] != x[i] && x[*out_index] == x[*out_index])) *out_index = i;
  }
  return x[*out_index];
}

static void softmax_lane(const void* context, int64_t lane, const double* x, double* y, int64_t n) {
  (void)context, (void)lane;
  int64_t at;
  double top = largest(x, n, &at), sum = 0;
  for (int64_t i = 0; i < n; i++) sum += y[i] = exp(x[i] - top);
  for (int64_t i = 0; i < n; i++) y[i] /= sum;
}

static void log_softmax_lane(const void* context, int64_t lane, const double* x, double* y,
                             int64_t n) {
  (void)context, (void)lane;
  int64_t at;
  double top = largest(x, n, &at), sum = 0;
  for (int64_t i = 0; i < n; i++) sum += exp(x[i] - top);
  for (int64_t i = 0; i < n; i++) y[i] = x[i] - top - log(sum);
}

static void hardmax_lane(const void* context, int64_t lane, const double* x, double* y, int64_t n) {
  (void)context, (void)lane;
  int64_t at;
  largest(x, n, &at);
  for (int64_t i = 0; i < n; i++) y[i] = i == at;
}

static carnot_status* run(carnot_call* call, carnot_axis_slice_fn fn) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  int axis = 0;
  if (x->rank) CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  return carnot_for_each_axis_slice(call, x, carnot_call_out(call, 0), axis, fn, NULL);
}
static carnot_status* run_softmax(carnot_call* call) { return run(call, softmax_lane); }
static carnot_status* run_log_softmax(carnot_call* call) { return run(call, log_softmax_lane); }
static carnot_status* run_hardmax(carnot_call* call) { return run(call, hardmax_lane); }

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_INT("axis", -1), CARNOT_SPEC_END};

const carnot_op_row carnot_op_softmax = {
    .name = "softmax",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF | CARNOT_TRAIT_BYTE_ENDS,
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_softmax,
    .reference = run_softmax,
    .source = "ONNX Softmax-13",
    .layer_type = "SOFTMAX",
};
const carnot_op_row carnot_op_log_softmax = {
    .name = "log_softmax",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_BYTE_ENDS,
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_softmax,
    .reference = run_log_softmax,
    .source = "ONNX LogSoftmax-13",
    .layer_type = "SOFTMAX",
};
const carnot_op_row carnot_op_hardmax = {
    .name = "hardmax",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_softmax,
    .reference = run_hardmax,
    .source = "ONNX Hardmax-13",
    .layer_type = "SOFTMAX",
};
