// Tile sizes of the multistage GEMMs (kernel/cuda/gemm/gemm_multistage.cuh): which fit, split-K and
// shared memory.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_MULTISTAGE_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_MULTISTAGE_H_

#include "backend/cuda/common/tactic.h"

typedef struct carnot_cuda_multistage_tile {
  int rows, columns, stages, threads;
} carnot_cuda_multistage_tile;

// NULL, or the reason: other tiles beat this one for |rows| by |columns| results without being
// timed.
const char* carnot_cuda_multistage_reject(const carnot_cuda_multistage_tile* tile, int64_t rows,
                                          int64_t columns, char* reason, size_t size);
// The blocks of a cluster that share the |steps| along K of one of |tiles| tiles: more than one
// while multiprocessors would have nothing to do.
int carnot_cuda_multistage_splits(const carnot_cuda* cuda, const carnot_cuda_multistage_tile* tile,
                                  int64_t tiles, int64_t steps);
// Shared memory of a block with |steps| steps: no more stages than there are steps, for a higher
// occupancy.
size_t carnot_cuda_multistage_shared_bytes(const carnot_cuda_multistage_tile* tile, int64_t steps);
// Allows |function| the shared memory of all stages.
carnot_status* carnot_cuda_multistage_allow_shared(carnot_cuda* cuda, CUfunction function,
                                                   const carnot_cuda_multistage_tile* tile)
    CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_MULTISTAGE_H_
