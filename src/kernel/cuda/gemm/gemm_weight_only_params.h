// Parameters and sizes of the GEMM of floats by packed integer weights with scales.
#ifndef CARNOT_KERNEL_CUDA_GEMM_GEMM_WEIGHT_ONLY_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GEMM_GEMM_WEIGHT_ONLY_PARAMS_H_

#include "kernel/cuda/common/activation.h"

// y[m,n] = activation(sum_k x[m,k] (q[n,k] - zero) scale + bias[n] + residual[m,n]), rows dense.
//
// Weights are tiles of 512 bytes: 16 columns n by 64 k of 4 bits, or by 32 k of 8 bits, those of a
// group of columns one after the other. A tile has steps of 16 k. Lane 4g + t of a warp has 16
// bytes of it: for each step columns g and g + 8, k = 4t .. 4t+3 of the step. Of 4 bits a word is a
// step, with its numbers from the lowest bits on:
//   (g,k) (g+8,k) (g,k+2) (g+8,k+2) (g,k+1) (g+8,k+1) (g,k+3) (g+8,k+3)
// of 8 bits two words: column g, then column g + 8. Step s has the scales of block s >> |shift|.
// Scales are [column group, block, g] of two, columns g and g + 8, zero where there is no weight;
// zero points are words [column group, block, g], that of column g + 8 in the upper half.
typedef struct carnot_cuda_weight_only_params {
  const void *x, *w, *scales;
  const unsigned* zeros;  // NULL: |zero| for all
  const float* bias;      // NULL: none
  const void* residual;   // NULL: none
  void* y;
  long long rows;
  int columns, depth;  // n, k
  int column_groups;
  int tiles, blocks;  // of a column group
  int shift;
  unsigned zero;        // in both halves
  int has_half_scales;  // BF16 where x is BF16, else FP16; without: FP32
  int activation;       // carnot_cuda_activation
  float low, high;
  // Only gemm_weight_only_stream.cuh reads these.
  int height;  // rows of a block, at most 8
  int stages;  // of a warp's ring, 1 or 2
} carnot_cuda_weight_only_params;

// clang-format off
enum { CARNOT_CUDA_WEIGHT_ONLY_THREADS = 256, CARNOT_CUDA_WEIGHT_ONLY_TILE = 512 };
// X(rows, columns, slices) of each kernel's block: eight warps, |slices| along K and the others across columns.
#define CARNOT_CUDA_WEIGHT_ONLY_SIZES(X) \
  X(8, 32, 8) X(16, 32, 8) X(64, 128, 2)
// Blocks on a multiprocessor.
#define CARNOT_CUDA_WEIGHT_ONLY_RESIDENT(rows, columns) ((rows) == 64 ? 1 : (rows) == 8 && (columns) == 16 ? 3 : 2)
// X(bits, groups): the scales of a tile.
#define CARNOT_CUDA_WEIGHT_ONLY_FORMS(X, ...) X(4, 1, __VA_ARGS__) X(4, 4, __VA_ARGS__) X(8, 2, __VA_ARGS__)
// Column groups of a warp, stages of its ring, bytes of a stage: weights, scales and zero points of a tile each.
#define CARNOT_CUDA_WEIGHT_ONLY_ACROSS(columns, slices) ((columns) * (slices) / 128)
#define CARNOT_CUDA_WEIGHT_ONLY_STAGES(across) ((across) == 1 ? 6 : 4)
#define CARNOT_CUDA_WEIGHT_ONLY_SLOT(across, groups) ((across) * (512 + (groups) * 384))

// The direct kernels (gemm_weight_only_direct.cuh), of FP16 and BF16.
#define CARNOT_CUDA_WEIGHT_ONLY_DIRECT_SIZES(X) \
  X(8, 16, 8) X(8, 32, 8) X(16, 32, 8) X(64, 128, 2)
// X(bits, span): steps of one scale.
#define CARNOT_CUDA_WEIGHT_ONLY_DIRECT_FORMS(X, ...) \
  X(4, 2, __VA_ARGS__) X(4, 4, __VA_ARGS__) X(8, 2, __VA_ARGS__)
#define CARNOT_CUDA_WEIGHT_ONLY_DIRECT_RESIDENT(rows, columns) ((rows) == 64 ? 1 : 2)

// The kernels of persistent blocks (gemm_weight_only_stream.cuh), of FP16 and BF16 in the same forms. Shared memory:
// barriers, two sets of sums, rings, x.
enum {
  CARNOT_CUDA_WEIGHT_ONLY_STREAM_ROWS = 8,  // at most
  CARNOT_CUDA_WEIGHT_ONLY_STREAM_RESIDENT = 2,
  CARNOT_CUDA_WEIGHT_ONLY_STREAM_STAGES = 2,  // at most
  CARNOT_CUDA_WEIGHT_ONLY_STREAM_TILES = 8,  // of a stage
  CARNOT_CUDA_WEIGHT_ONLY_STREAM_BARRIER_BYTES = 256,
  CARNOT_CUDA_WEIGHT_ONLY_STREAM_SUM_BYTES = 2 * CARNOT_CUDA_WEIGHT_ONLY_THREADS / 32 * CARNOT_CUDA_WEIGHT_ONLY_STREAM_ROWS * 16 * 4
};
#define CARNOT_CUDA_WEIGHT_ONLY_STREAM_FORMS(X) X(4, 2) X(4, 4) X(8, 2)
// Bytes of a stage whose tiles have |groups| scales of a column, with |bytes| of scales and zero points for 16 columns.
#define CARNOT_CUDA_WEIGHT_ONLY_STREAM_STAGE(groups, bytes) \
  (CARNOT_CUDA_WEIGHT_ONLY_STREAM_TILES * (CARNOT_CUDA_WEIGHT_ONLY_TILE + (groups) * (bytes)))
// Bytes of a row of x, such that eight rows lie in different banks.
#define CARNOT_CUDA_WEIGHT_ONLY_STREAM_X_ROW(depth) ((depth) * 2 + 32)
// clang-format on

#endif  // CARNOT_KERNEL_CUDA_GEMM_GEMM_WEIGHT_ONLY_PARAMS_H_
