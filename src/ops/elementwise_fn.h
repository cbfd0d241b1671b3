// The element-wise functions of base/fn.def on arrays.
//   out[i] = fn(x[i], y[i], z[i])
// |y| and |z| are read where the function takes them; |a| and |b| are its parameters. |out| may be
// |x|. Results that are bool come out as 0 or 1. Any thread.
#ifndef CARNOT_OPS_ELEMENTWISE_FN_H_
#define CARNOT_OPS_ELEMENTWISE_FN_H_

#include "ir/op.h"

typedef struct carnot_fn_call {
  carnot_fn fn;
  double a, b;
  bool is_unsigned;  // integers: operands are unsigned
  int bits;          // integers: of the storage type, for shifts
} carnot_fn_call;

void carnot_fn_apply_f32(const carnot_fn_call* call, const float* x, const float* y, const float* z,
                         float* out, size_t count);
void carnot_fn_apply_f64(const carnot_fn_call* call, const double* x, const double* y,
                         const double* z, double* out, size_t count);
// Arithmetic wraps at 64 bits; x/0 = 0 and MIN/-1 = MIN. Functions of fn.def's class F are computed
// in double.
void carnot_fn_apply_i64(const carnot_fn_call* call, const int64_t* x, const int64_t* y,
                         const int64_t* z, int64_t* out, size_t count);

#endif  // CARNOT_OPS_ELEMENTWISE_FN_H_
