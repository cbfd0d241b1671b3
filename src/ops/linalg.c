// Linear systems and factors, in double.
//   solve: y with a y = b; without b the inverse of a. Elimination with row exchange; a matrix
//   without an inverse is an error. |a| [B..,n,n]  |b| [B..,n,k], of the same dimensions before
//   cholesky: the lower triangle y with y y^T = x of a symmetric positive definite x [B..,n,n],
//   whose upper triangle is not read; any other matrix is an error
// Source: TensorFlow MatrixSolve, MatrixInverse, Cholesky.
#include "ops/util.h"

static carnot_status* infer_square(carnot_infer* infer, const carnot_type** out_x) {
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, out_x));
  const carnot_type* x = *out_x;
  carnot_sym n;
  if (x->rank < 0) return NULL;
  return carnot_infer_merge(infer, x->dims[x->rank - 2], x->dims[x->rank - 1], "rows and columns",
                            &n);
}

static carnot_status* infer_solve(carnot_infer* infer) {
  const carnot_type *a, *b;
  CARNOT_TRY(infer_square(infer, &a));
  if (!carnot_infer_has(infer, 1)) return carnot_infer_like(infer, 0, 0, a->dtype);
  CARNOT_TRY(carnot_infer_rank(infer, 1, 2, CARNOT_MAX_RANK, &b));
  CARNOT_CHECK(a->rank < 0 || b->rank < 0 || a->rank == b->rank, INVALID_MODEL,
               "matrices of %d and %d dimensions; as many are required", a->rank, b->rank);
  for (int i = 0; a->rank >= 0 && b->rank >= 0 && i < a->rank - 1; i++) {
    carnot_sym same;
    CARNOT_TRY(carnot_infer_merge(infer, a->dims[i], b->dims[i], "both matrices", &same));
  }
  return carnot_infer_like(infer, 0, 1, b->dtype);
}

static carnot_status* infer_cholesky(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(infer_square(infer, &x));
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

static void exchange(double* a, double* b, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const double t = a[i];
    a[i] = b[i], b[i] = t;
  }
}

// |b| [n,k] becomes the solution; |a| is destroyed. False where it has no inverse.
static bool solve(double* a, double* b, int64_t n, int64_t k) {
  for (int64_t i = 0; i < n; i++) {
    int64_t pivot = i;
    for (int64_t r = i + 1; r < n; r++)
      if (fabs(a[r * n + i]) > fabs(a[pivot * n + i])) pivot = r;
    if (a[pivot * n + i] == 0) return false;
    if (pivot != i) {
      exchange(a + i * n, a + pivot * n, n);
      exchange(b + i * k, b + pivot * k, k);
    }
    for (int64_t r = i + 1; r < n; r++) {
      const double factor = a[r * n + i] / a[i * n + i];
      for (int64_t j = i + 1; factor != 0 && j < n; j++) a[r * n + j] -= factor * a[i * n + j];
      for (int64_t j = 0; factor != 0 && j < k; j++) b[r * k + j] -= factor * b[i * k + j];
    }
  }
  for (int64_t i = n - 1; i >= 0; i--) {
    for (int64_t j = 0; j < k; j++) {
      double sum = b[i * k + j];
      for (int64_t r = i + 1; r < n; r++) sum -= a[i * n + r] * b[r * k + j];
      b[i * k + j] = sum / a[i * n + i];
    }
  }
  return true;
}

static carnot_status* run_solve(carnot_call* call) {
  const carnot_tensor *a = carnot_call_in(call, 0), *b = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  const int64_t n = a->dims[a->rank - 1], k = y->dims[y->rank - 1];
  double *matrix = NULL, *columns = NULL;
  CARNOT_CHECK(a->dims[a->rank - 2] == n && y->dims[y->rank - 2] == n &&
                   carnot_tensor_count(a) / n * k == carnot_tensor_count(y),
               INVALID_MODEL, "a matrix of %lld by %lld does not fit its right side",
               (long long)a->dims[a->rank - 2], (long long)n);
  CARNOT_TRY(carnot_call_array(call, n * n, sizeof(double), &matrix));
  CARNOT_TRY(carnot_call_array(call, n * k, sizeof(double), &columns));
  const int64_t count = carnot_tensor_count(a) / (n * n);
  for (int64_t i = 0; i < count; i++) {
    carnot_load_block_f64(a->dtype, a->data, (size_t)(i * n * n), 1, (size_t)(n * n), matrix);
    if (b)
      carnot_load_block_f64(b->dtype, b->data, (size_t)(i * n * k), 1, (size_t)(n * k), columns);
    for (int64_t j = 0; !b && j < n * n; j++) columns[j] = j % (n + 1) == 0;
    CARNOT_CHECK(solve(matrix, columns, n, k), INVALID_ARGUMENT, "matrix %lld has no inverse",
                 (long long)i);
    for (int64_t j = 0; j < n * k; j++)
      carnot_store_f64(y->dtype, y->data, (size_t)(i * n * k + j), columns[j]);
  }
  return NULL;
}

// In place, in the lower triangle; false where |a| is not positive definite.
static bool factor(double* a, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double sum = a[i * n + j];
      for (int64_t k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
      if (i == j && !(sum > 0)) return false;
      a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
    }
  return true;
}

static carnot_status* run_cholesky(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  const int64_t n = x->dims[x->rank - 1], count = carnot_tensor_count(x) / (n * n);
  double* a = NULL;
  CARNOT_CHECK(x->dims[x->rank - 2] == n, INVALID_MODEL, "a matrix is %lld by %lld",
               (long long)x->dims[x->rank - 2], (long long)n);
  CARNOT_TRY(carnot_call_array(call, n * n, sizeof(double), &a));
  for (int64_t i = 0; i < count; i++) {
    carnot_load_block_f64(x->dtype, x->data, (size_t)(i * n * n), 1, (size_t)(n * n), a);
    CARNOT_CHECK(factor(a, n), INVALID_ARGUMENT, "matrix %lld is not positive definite",
                 (long long)i);
    for (int64_t j = 0; j < n * n; j++)
      carnot_store_f64(y->dtype, y->data, (size_t)(i * n * n + j), j % n > j / n ? 0 : a[j]);
  }
  return NULL;
}

const carnot_op_row carnot_op_solve = {
    .name = "solve",
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_solve,
    .reference = run_solve,
    .source = "TensorFlow MatrixSolve, MatrixInverse",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_cholesky = {
    .name = "cholesky",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_cholesky,
    .reference = run_cholesky,
    .source = "TensorFlow Cholesky",
    .layer_type = "REFERENCE",
};
