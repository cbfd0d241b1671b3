// Parameters of the attention_cached kernels.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_CACHED_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_CACHED_PARAMS_H_

#include "kernel/cuda/attention/attention_generic_params.h"

enum {
  CARNOT_CUDA_ATTENTION_CACHED_SPLITS = CARNOT_CUDA_THREADS,  // most shares
  CARNOT_CUDA_ATTENTION_CACHED_AHEAD = 4,                     // keys of a thread in a stage
  // Bytes of a stage: 16 of each of the keys and of their values, for each thread.
  CARNOT_CUDA_ATTENTION_CACHED_STAGE =
      2 * 16 * CARNOT_CUDA_ATTENTION_CACHED_AHEAD * CARNOT_CUDA_THREADS
};
// Stages of the pipeline; copies are not asynchronous below sm_80.
#define CARNOT_CUDA_ATTENTION_CACHED_STAGES(major) ((major) >= 8 ? 3 : 1)

// Bytes of shared memory that the float32 results of a tile take at the end, of each warp.
#define CARNOT_CUDA_ATTENTION_CACHED_PARTS(rows, value_size) \
  (CARNOT_CUDA_THREADS / 32 * (rows) * (value_size)*4)
// Blocks of a multiprocessor: two where the registers allow it.
#define CARNOT_CUDA_ATTENTION_CACHED_RESIDENT(rows, element_bytes) \
  ((rows)*16 / (element_bytes) > 32 ? 1 : 2)

// Block (KV head of a sample, tile, split), the last one innermost. Tiles are of query rows that
// read the same KV head, those of a query beside each other. |splits| blocks share the keys of a
// tile. More than one: the scratch memory holds float32 [splits, rows] of maxima, the same of sums,
// and [splits, rows, value_size] of weighted sums, which attention_cached_merge combines.
typedef struct carnot_cuda_attention_cached_params {
  carnot_cuda_attention_generic_params attention;
  int tiles, splits;
} carnot_cuda_attention_cached_params;

// Rows of a tile: an instance each, no more than the 16-byte loads of a key.
#define CARNOT_CUDA_ATTENTION_CACHED_ROWS(X, argument) \
  X(1, argument) X(2, argument) X(4, argument) X(8, argument)

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_CACHED_PARAMS_H_
