// Scaling by a norm of the neighbourhood.
//   lp_norm: y = x / max((sum |x|^p)^(1/p), epsilon) along |axis|; 0 where that is 0. p is 1 or 2.
//   ONNX has no epsilon: pass fuse_norms sets it.
//   lrn:     y = x / (bias + alpha / size * sum x^2)^beta, the sum over |size| channels around the
//   element's own
// Shapes are unchanged. Computed in double.
#include "ops/axis_iter.h"

static carnot_status* infer_lp(carnot_infer* infer) {
  int64_t p = carnot_infer_int(infer, "p");
  CARNOT_CHECK(p == 1 || p == 2, INVALID_MODEL, "p is %lld; 1 or 2 is required", (long long)p);
  const carnot_type* x;
  int axis;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  if (x->rank > 0) CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

typedef struct lp_run {
  int64_t p;
  double epsilon;
} lp_run;

static void lp_lane(const void* context, int64_t lane, const double* x, double* y, int64_t n) {
  (void)lane;
  const lp_run* r = context;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += r->p == 1 ? fabs(x[i]) : x[i] * x[i];
  double norm = r->p == 1 ? sum : sqrt(sum);
  if (norm < r->epsilon) norm = r->epsilon;
  for (int64_t i = 0; i < n; i++) y[i] = norm == 0 ? 0 : x[i] / norm;
}

static carnot_status* run_lp(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  lp_run r = {carnot_call_int(call, "p"), carnot_call_float(call, "epsilon")};
  int axis = 0;
  if (x->rank) CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  return carnot_for_each_axis_slice(call, x, carnot_call_out(call, 0), axis, lp_lane, &r);
}

// ---- lrn ----

typedef struct lrn_run {
  double alpha, beta, bias;
  int64_t size;
} lrn_run;

static carnot_status* infer_lrn(carnot_infer* infer) {
  const carnot_type* x;
  int64_t size = carnot_infer_int(infer, "size");
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, &x));
  CARNOT_CHECK(size > 0 && size <= INT32_MAX, INVALID_MODEL, "size is %lld; at least 1 is required",
               (long long)size);
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

static void lrn_lane(const void* context, int64_t lane, const double* x, double* y, int64_t n) {
  (void)lane;
  const lrn_run* r = context;
  int64_t before = (r->size - 1) / 2, after = r->size - 1 - before;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    int64_t end = carnot_min_i64(i + after, n - 1);
    for (int64_t j = carnot_max_i64(i - before, 0); j <= end; j++) sum += x[j] * x[j];
    y[i] = x[i] / pow(r->bias + r->alpha / (double)r->size * sum, r->beta);
  }
}

static carnot_status* run_lrn(carnot_call* call) {
  lrn_run r = {carnot_call_float(call, "alpha"), carnot_call_float(call, "beta"),
               carnot_call_float(call, "bias"), carnot_call_int(call, "size")};
  return carnot_for_each_axis_slice(call, carnot_call_in(call, 0), carnot_call_out(call, 0),
                                    /*axis=*/1, lrn_lane, &r);
}

static const carnot_attr_spec kLpAttrs[] = {CARNOT_SPEC_INT("axis", -1), CARNOT_SPEC_INT("p", 2),
                                            CARNOT_SPEC_FLOAT("epsilon", 0), CARNOT_SPEC_END};
static const carnot_attr_spec kLrnAttrs[] = {
    CARNOT_SPEC_FLOAT("alpha", 1e-4), CARNOT_SPEC_FLOAT("beta", 0.75), CARNOT_SPEC_FLOAT("bias", 1),
    CARNOT_SPEC_REQUIRED("size", INT), CARNOT_SPEC_END};

const carnot_op_row carnot_op_lp_norm = {
    .name = "lp_norm",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kLpAttrs,
    .axes = {.moves = true, .axis = "axis"},
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF,
    .infer = infer_lp,
    .reference = run_lp,
    .source = "ONNX LpNormalization-22",
    .layer_type = "NORMALIZATION",
};
const carnot_op_row carnot_op_lrn = {
    .name = "lrn",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kLrnAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32,
    .infer = infer_lrn,
    .reference = run_lrn,
    .source = "ONNX LRN-13",
    .layer_type = "LRN",
};
