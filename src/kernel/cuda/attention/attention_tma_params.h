// Parameters of the warp-specialized attention kernels.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_TMA_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_TMA_PARAMS_H_

#include "kernel/cuda/attention/attention_params.h"
#include "kernel/cuda/common/tma_descriptor.h"

// The same attention by blocks that stay: each walks over tiles of queries of one head. Of FP8
// (E4M3) operands the scales of queries and keys are in attention.scale.
typedef struct carnot_cuda_attention_tma_params {
  // [outer, inner, rows, elements] of each operand; boxes of 64 elements by a tile of queries or of
  // keys.
  carnot_cuda_tma_descriptor q, k, v;
  carnot_cuda_attention_params attention;  // q, k and v are read by the maps
  int axes[3];                             // of q, k and v: 1: has an outer axis; 2: an inner one
  int across, tiles;                       // tiles of queries: of a head, of all heads
  float value_scale;                       // of FP8 values
} carnot_cuda_attention_tma_params;

// clang-format off
// X(queries of a tile, elements of a head at most).
#define CARNOT_CUDA_ATTENTION_TMA_SIZES(X) X(128, 64) X(192, 64) X(128, 128)
#define CARNOT_CUDA_ATTENTION_TMA_THREADS(rows) ((rows) * 2 + 128)
enum {
  CARNOT_CUDA_ATTENTION_TMA_KEYS = 128,         // of a tile
  CARNOT_CUDA_ATTENTION_TMA_QUERY_STAGES = 2
};
// Stages of keys, and of values.
#define CARNOT_CUDA_ATTENTION_TMA_STAGES(size)     ((size) == 64 ? 4 : 2)
#define CARNOT_CUDA_ATTENTION_TMA_FP8_STAGES(size) ((size) == 64 ? 4 : 3)
// Dynamic shared memory, with the alignment of the first stage. Of FP8 transposed values and results have room of their
// own.
#define CARNOT_CUDA_ATTENTION_TMA_BYTES(rows, size)                                                                 \
  (1024 + (CARNOT_CUDA_ATTENTION_TMA_QUERY_STAGES * (rows) +                                                        \
           2 * CARNOT_CUDA_ATTENTION_TMA_STAGES(size) * CARNOT_CUDA_ATTENTION_TMA_KEYS) * (size) * 2)
#define CARNOT_CUDA_ATTENTION_TMA_FP8_BYTES(rows, size)                                                             \
  (1024 + (CARNOT_CUDA_ATTENTION_TMA_QUERY_STAGES * (rows) + 2 * (rows) +                                           \
           3 * CARNOT_CUDA_ATTENTION_TMA_FP8_STAGES(size) * CARNOT_CUDA_ATTENTION_TMA_KEYS) * (size))
// clang-format on

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_TMA_PARAMS_H_
