// Determinants: y[b..] = det x[b..,:,:], by elimination with row exchange in double. |x| [B..,n,n]
// → [B..]; n = 0 gives 1.
#include "ops/util.h"

static carnot_status* infer_det(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, &x));
  if (x->rank >= 2) {
    carnot_sym n;
    CARNOT_TRY(carnot_infer_merge(infer, x->dims[x->rank - 2], x->dims[x->rank - 1],
                                  "rows and columns", &n));
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank < 0 ? -1 : x->rank - 2, x->dims);
  return NULL;
}

static double determinant(double* a, int64_t n) {
  double det = 1;
  for (int64_t i = 0; i < n; i++) {
    int64_t pivot = i;
    for (int64_t k = i + 1; k < n; k++) {
      if (fabs(a[k * n + i]) > fabs(a[pivot * n + i])) pivot = k;
    }
    if (a[pivot * n + i] == 0) return 0;
    if (pivot != i) det = -det;
    for (int64_t j = 0; pivot != i && j < n; j++) {
      double t = a[i * n + j];
      a[i * n + j] = a[pivot * n + j];
      a[pivot * n + j] = t;
    }
    det *= a[i * n + i];
    for (int64_t k = i + 1; k < n; k++) {
      double factor = a[k * n + i] / a[i * n + i];
      for (int64_t j = i + 1; j < n; j++) a[k * n + j] -= factor * a[i * n + j];
    }
  }
  return det;
}

static carnot_status* run_det(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int64_t n = x->dims[x->rank - 1], count = carnot_tensor_count(y);
  CARNOT_CHECK(x->dims[x->rank - 2] == n, INVALID_MODEL, "a matrix is %lld by %lld",
               (long long)x->dims[x->rank - 2], (long long)n);
  double* a = NULL;
  CARNOT_TRY(carnot_call_array(call, n * n, sizeof(double), &a));
  for (int64_t i = 0; i < count; i++) {
    carnot_load_block_f64(x->dtype, x->data, (size_t)(i * n * n), 1, (size_t)(n * n), a);
    carnot_store_f64(y->dtype, y->data, (size_t)i, determinant(a, n));
  }
  return NULL;
}

const carnot_op_row carnot_op_det = {
    .name = "det",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_det,
    .reference = run_det,
    .source = "ONNX Det-22",
    .layer_type = "REFERENCE",
};
