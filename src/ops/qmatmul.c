// Quantized matrix multiplication; shapes as numpy.matmul.
//   matmul_integer: y = sum_k (a - a_zero) * (b - b_zero), in int32
//   qlinear_matmul: y = saturate(round(acc * a_scale * b_scale / y_scale) + y_zero), acc the sum
//   above
// Zero points and scales of |a| are one or one a row ([M] or [..,M,1]), of |b| one or one a column
// ([N] or [..,1,N]); of y one. 8-bit floats take part in qlinear_matmul, where acc is f32.
#include "ops/matmul.h"

// A parameter that is one, one a row of each matrix, or one a row of every matrix of the batch.
static double param_at(const carnot_tensor* t, int64_t matrix, int64_t row, int64_t rows,
                       double otherwise) {
  if (!t) return otherwise;
  int64_t count = carnot_tensor_count(t), at = 0;
  if (count == rows) at = row;
  if (count > rows && count % rows == 0) at = (matrix * rows + row) % count;
  return carnot_load_f64(t->dtype, t->data, (size_t)at);
}

// |t| less its zero point; |by_column| says that the zero point goes by column.
static carnot_status* centered(const carnot_call* call, const carnot_tensor* t,
                               const carnot_tensor* zero, bool by_column, bool as_float,
                               const void** out) {
  int64_t columns = by_column || t->rank > 1 ? t->dims[t->rank - 1] : t->dims[0];
  int64_t rows = t->rank > 1 ? t->dims[t->rank - 2] : 1, count = carnot_tensor_count(t);
  int32_t* v = NULL;
  CARNOT_TRY(carnot_call_array(call, count, sizeof(int32_t), &v));
  for (int64_t i = 0; i < count; i++) {
    int64_t column = i % columns, row = i / columns % rows, matrix = i / columns / rows;
    double z = by_column ? param_at(zero, matrix, column, columns, 0)
                         : param_at(zero, matrix, row, rows, 0);
    double value = carnot_load_f64(t->dtype, t->data, (size_t)i) - z;
    float f = (float)value;
    if (as_float) {
      memcpy(&v[i], &f, sizeof(f));
    } else {
      v[i] = (int32_t)value;
    }
  }
  *out = v;
  return NULL;
}

static carnot_status* infer_integer(carnot_infer* infer) {
  return carnot_matmul_infer(infer, 0, 1, false, false, CARNOT_DTYPE_I32);
}

static carnot_status* run_integer(carnot_call* call) {
  const carnot_tensor *a = carnot_call_in(call, 0), *b = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  carnot_matmul m;
  CARNOT_TRY(carnot_matmul_plan(call, a, b, false, false, &m));
  CARNOT_TRY(centered(call, a, carnot_call_in(call, 2), false, false, &m.gemm.a));
  CARNOT_TRY(centered(call, b, carnot_call_in(call, 3), b->rank > 1, false, &m.gemm.b));
  m.gemm.c = y->data;
  carnot_matmul_run(call, &m, CARNOT_GEMM_U32);
  return NULL;
}

// Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
static carnot_status* infer_qlinear(carnot_infer* infer) {
  const carnot_type* zero;
  CARNOT_TRY(carnot_infer_tensor(infer, 7, &zero));
  return carnot_matmul_infer(infer, 0, 3, false, false, zero->dtype);
}

static carnot_status* run_qlinear(carnot_call* call) {
  const carnot_tensor *a = carnot_call_in(call, 0), *b = carnot_call_in(call, 3);
  const carnot_tensor *a_scale = carnot_call_in(call, 1), *b_scale = carnot_call_in(call, 4);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  bool as_float = carnot_dtype_is_float(a->dtype);
  carnot_matmul m;
  CARNOT_TRY(carnot_matmul_plan(call, a, b, false, false, &m));
  CARNOT_TRY(centered(call, a, carnot_call_in(call, 2), false, as_float, &m.gemm.a));
  CARNOT_TRY(centered(call, b, carnot_call_in(call, 5), b->rank > 1, as_float, &m.gemm.b));
  int64_t count = carnot_tensor_count(y), rows = m.gemm.m, columns = m.gemm.n;
  int32_t* sums = NULL;
  CARNOT_TRY(carnot_call_array(call, count, sizeof(int32_t), &sums));
  m.gemm.c = sums;
  carnot_matmul_run(call, &m, as_float ? CARNOT_GEMM_F32 : CARNOT_GEMM_U32);
  double y_scale = carnot_scalar_f64(carnot_call_in(call, 6), 1);
  double y_zero = carnot_scalar_f64(carnot_call_in(call, 7), 0);
  for (int64_t i = 0; i < count; i++) {
    int64_t column = i % columns, row = i / columns % rows, matrix = i / columns / rows;
    float f;
    memcpy(&f, &sums[i], sizeof(f));
    double sum = as_float ? (double)f : (double)sums[i];
    double scale = param_at(a_scale, matrix, row, rows, 1) *
                   param_at(b_scale, matrix, column, columns, 1) / y_scale;
    double value = sum * scale;
    carnot_store_f64(y->dtype, y->data, (size_t)i, (as_float ? value : rint(value)) + y_zero);
  }
  return NULL;
}

const carnot_op_row carnot_op_matmul_integer = {
    .name = "matmul_integer",
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_integer,
    .reference = run_integer,
    .source = "ONNX MatMulInteger-10",
    .layer_type = "MATRIX_MULTIPLY",
};
const carnot_op_row carnot_op_qlinear_matmul = {
    .name = "qlinear_matmul",
    .min_inputs = 8,
    .max_inputs = 8,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_qlinear,
    .reference = run_qlinear,
    .source = "ONNX QLinearMatMul-21",
    .layer_type = "MATRIX_MULTIPLY",
};
