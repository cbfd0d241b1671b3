// How the GEMMs of gemm_tma.cuh are cut: split-K over a cluster, stages in shared memory.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_TMA_LAYOUT_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_TMA_LAYOUT_H_

#include "backend/cuda/gemm/gemm_tile_common.h"

// Set |rows| and |columns| of a tile, |pitch|, the bytes of a step of K, and |steps| of K, then the
// rest by carnot_cuda_gemm_tma_lay_out.
typedef struct carnot_cuda_gemm_tma_layout {
  int rows, columns, pitch;
  int64_t steps;
  int across, stages, parts;  // as in carnot_cuda_gemm_tma_params
  int64_t grid[3];            // [2]: split-K parts
  size_t shared_bytes;
} carnot_cuda_gemm_tma_layout;

// NULL, or why tiles of |tile_rows| by |tile_columns| lose for results of |rows| by |columns|.
const char* carnot_cuda_gemm_tma_size_reject(int64_t rows, int64_t columns, int tile_rows,
                                             int tile_columns, char* reason, size_t size);
// For |rows| by |columns| results of |function|, which may then take the shared memory. No results:
// a grid of 0.
carnot_status* carnot_cuda_gemm_tma_lay_out(carnot_cuda* cuda, CUfunction function, int64_t rows,
                                            int64_t columns,
                                            carnot_cuda_gemm_tma_layout* s) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_TMA_LAYOUT_H_
