// Parameters of the softmax kernel.
#ifndef CARNOT_KERNEL_CUDA_NORM_SOFTMAX_PARAMS_H_
#define CARNOT_KERNEL_CUDA_NORM_SOFTMAX_PARAMS_H_

// Rows of |size| elements |stride| apart; row r begins at (r / inner) * size * stride + r % inner.
// y = exp(scale x + mask - max) / sum, or its logarithm.
typedef struct carnot_cuda_softmax_params {
  const void* x;
  void* y;
  const void* mask;  // of scores [.., size]: row r reads mask at mask_row(r); NULL: none
  long long rows, size, inner, stride;
  float scale;
  int log;
  // Of masks: row r = ((b * heads + h) * queries + q); strides may be 0.
  long long head_offsets_of, queries, mask_b, mask_h, mask_q, mask_k;
  int mask_type;  // 0 the type of x, 1 bool
  int causal;     // keys behind q + past are left out
  long long past;
} carnot_cuda_softmax_params;

enum { CARNOT_CUDA_SOFTMAX_COLUMNS = 8 };  // rows of a block of softmax_columns

#endif  // CARNOT_KERNEL_CUDA_NORM_SOFTMAX_PARAMS_H_
