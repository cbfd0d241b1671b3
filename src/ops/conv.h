// What the forms of convolution share.
#ifndef CARNOT_OPS_CONV_H_
#define CARNOT_OPS_CONV_H_

#include "ops/sliding_window.h"

// Sets output 0 to |dtype| and [N,M,...] for input |x| [N,C,...] and input |w| [M,C/group,...].
carnot_status* carnot_conv_infer(carnot_infer* infer, int x, int w,
                                 carnot_dtype dtype) CARNOT_MUST_USE;

// y[n,m,p] = sum over c,tap of w[m,c,tap] * x[n, c of the group of m, p*stride + tap*dilation -
// begin], where x is 0 outside. Buffers of the type that |type| names; |bias| [M] or NULL begins
// the sums.
typedef enum carnot_conv_type {
  CARNOT_CONV_F32,
  CARNOT_CONV_F64,
  CARNOT_CONV_U32
} carnot_conv_type;
carnot_status* carnot_conv_run(carnot_call* call, carnot_conv_type type, const carnot_tensor* x,
                               const carnot_tensor* w, const carnot_tensor* y, const void* x_data,
                               const void* w_data, const void* bias, void* y_data) CARNOT_MUST_USE;

#endif  // CARNOT_OPS_CONV_H_
