// Sizes of GEMMs with constant weights, as the tensor core kernels take them.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_SHAPE_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_SHAPE_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/gemm/gemm_tile_params.h"

enum { CARNOT_CUDA_GEMM_MAX_COLUMNS = 1 << 24 };

typedef struct carnot_cuda_gemm_weights {
  int64_t channels, filters;  // K and N
  bool trans;                 // stored [filters, channels], else [channels, filters]
} carnot_cuda_gemm_weights;

// Reads the weights |w| of MatMul or Gemm |node|, whose first operand is |x|. NULL, or the reason.
const char* carnot_cuda_gemm_weights_read(const carnot_operand_desc* x,
                                          const carnot_operand_desc* w,
                                          const carnot_plan_node* node,
                                          carnot_cuda_gemm_weights* out, char* reason, size_t size);
// Of a GEMM: a convolution of one tap over an image of one row.
carnot_cuda_gemm_tile_params carnot_cuda_gemm_tile_rows(int64_t rows, int64_t filters,
                                                        int64_t depth);

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_SHAPE_H_
