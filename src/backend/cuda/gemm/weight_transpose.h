// Transposed GEMM weights, by blocks that stay in L1.
#ifndef CARNOT_BACKEND_CUDA_GEMM_WEIGHT_TRANSPOSE_H_
#define CARNOT_BACKEND_CUDA_GEMM_WEIGHT_TRANSPOSE_H_

#include <stdint.h>

// [depth, columns] of elements of 1 and 2 bytes to [columns, depth]; rows of |to| are |pitch|
// elements apart.
void carnot_cuda_transpose_weights_8(const uint8_t* from, int64_t depth, int64_t columns,
                                     int64_t pitch, uint8_t* to);
void carnot_cuda_transpose_weights_16(const uint16_t* from, int64_t depth, int64_t columns,
                                      int64_t pitch, uint16_t* to);

#endif  // CARNOT_BACKEND_CUDA_GEMM_WEIGHT_TRANSPOSE_H_
