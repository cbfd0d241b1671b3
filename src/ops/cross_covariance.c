// Attention between channels instead of positions (cross-covariance attention), of packed queries,
// keys and values.
//   x [B,N,3,H,D]: q, k and v of each position; of each batch and head, columns over N:
//   q'[d] = q[d] / max(|q[d]|, epsilon), k' so too; a = softmax over e of t[h] * (q'[d] . k'[e])
//   y[b,n,h,d] = sum_e a[d,e] v[n,e]
// |t| has H elements. Made by pass fuse_cross_covariance. Computed in double.
#include "ops/util.h"

static carnot_status* infer_cross(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 5, 5, &x));
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  if (x->rank < 0) {
    carnot_infer_set(infer, 0, x->dtype, -1, NULL);
    return NULL;
  }
  carnot_sym three;
  CARNOT_TRY(carnot_infer_merge(infer, x->dims[2], carnot_sym_of(3), "q, k and v", &three));
  carnot_sym dims[4] = {x->dims[0], x->dims[1], x->dims[3], x->dims[4]};
  carnot_infer_set(infer, 0, x->dtype, 4, dims);
  return NULL;
}

typedef struct cross_run {
  int64_t positions, heads, size;
  double epsilon;
} cross_run;

// Row |d| of the softmax, of one head; |x| is its first element, rows of a position are apart.
static void weigh(const cross_run* r, const double* x, int64_t d, double factor, double* weights) {
  const int64_t row = 3 * r->heads * r->size, k = r->heads * r->size;
  double top = -INFINITY, sum = 0, length = 0;
  for (int64_t n = 0; n < r->positions; n++) length += x[n * row + d] * x[n * row + d];
  length = fmax(sqrt(length), r->epsilon);
  for (int64_t e = 0; e < r->size; e++) {
    double product = 0, other = 0;
    for (int64_t n = 0; n < r->positions; n++) {
      product += x[n * row + d] * x[n * row + k + e];
      other += x[n * row + k + e] * x[n * row + k + e];
    }
    weights[e] = factor * product / length / fmax(sqrt(other), r->epsilon);
    top = fmax(top, weights[e]);
  }
  for (int64_t e = 0; e < r->size; e++) sum += weights[e] = exp(weights[e] - top);
  for (int64_t e = 0; e < r->size; e++) weights[e] /= sum;
}

static carnot_status* run_cross(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *t = carnot_call_in(call, 1);
  const double *xv, *tv;
  double *yv, *weights = NULL;
  CARNOT_TRY(carnot_call_f64(call, x, &xv));
  CARNOT_TRY(carnot_call_f64(call, t, &tv));
  CARNOT_TRY(carnot_call_f64_out(call, carnot_call_out(call, 0), &yv));
  const cross_run r = {x->dims[1], x->dims[3], x->dims[4], carnot_call_float(call, "epsilon")};
  CARNOT_CHECK((int64_t)carnot_tensor_count(t) == r.heads, INVALID_MODEL,
               "%lld temperatures; one for each of %lld heads is required",
               (long long)carnot_tensor_count(t), (long long)r.heads);
  CARNOT_TRY(carnot_call_array(call, r.size, sizeof(double), &weights));
  const int64_t row = 3 * r.heads * r.size;
  for (int64_t i = 0; i < x->dims[0] * r.heads * r.size; i++) {
    const int64_t d = i % r.size, h = i / r.size % r.heads, b = i / r.size / r.heads;
    const double* head = xv + b * r.positions * row + h * r.size;
    weigh(&r, head, d, tv[h], weights);
    for (int64_t n = 0; n < r.positions; n++) {
      double sum = 0;
      for (int64_t e = 0; e < r.size; e++)
        sum += weights[e] * head[n * row + 2 * r.heads * r.size + e];
      yv[((b * r.positions + n) * r.heads + h) * r.size + d] = sum;
    }
  }
  carnot_write_f64(carnot_call_out(call, 0), yv);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_FLOAT("epsilon", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_cross_covariance = {
    .name = "cross_covariance",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_cross,
    .reference = run_cross,
    .source = "XCiT: Cross-Covariance Image Transformers, El-Nouby et al. 2021",
    .layer_type = "ATTENTION",
};
