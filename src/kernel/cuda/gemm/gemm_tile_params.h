// Parameters and tile sizes of the tensor core GEMMs of 16-bit floats and FP8 with constant
// weights, which serve convolutions as implicit GEMM.
#ifndef CARNOT_KERNEL_CUDA_GEMM_GEMM_TILE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GEMM_GEMM_TILE_PARAMS_H_

#include "kernel/cuda/common/activation.h"
#include "kernel/cuda/common/tma_descriptor.h"

// y[m,n] = activation(sum_k a[m,k] w[n,k] + bias[n] + residual[m,n]) of 16-bit floats. As
// implicit GEMM, row m is an output pixel (image, row, column) and k a tap and a channel of NHWC
// x; a plain GEMM has one image, one row and one tap. |channels| and |pixel| are multiples of 8,
// and so is |pitch|, unless |filters| are none: then it is |filters|, and results are stored one by
// one.
//
// With groups, |group_filters| filters each read their own |channels| of a pixel. Groups of the
// model may be joined: their weights are then blocks on the diagonal, zeros elsewhere.
//
// Of FP8 (E4M3) operands sum_k is multiplied with scale[n], the bias is float32, and |channels| is
// a multiple of 16. The result is a 16-bit float as the residual is, float32, or FP8: then it is
// multiplied with |factor| and saturates.
typedef struct carnot_cuda_gemm_tile_params {
  const void *x, *w, *bias, *residual;  // bias and residual may be NULL
  void* y;
  const float* scale;  // [filters], of FP8 operands
  float factor;
  long long rows;       // m
  int filters, depth;   // n; k = taps * channels
  int group_filters;    // a multiple of 8; 0: one group
  int channels, pixel;  // of a tap; elements from one pixel of x to the next
  int pitch;            // elements from one row of y to the next
  int in_rows, in_columns, out_rows, out_columns;
  int kernel_columns;
  int step[2], dilation[2], begin[2];
  int prefetch;    // prefetch the block's weights into L2 before the previous kernel ends
  int activation;  // carnot_cuda_activation
  float low, high;
} carnot_cuda_gemm_tile_params;

// clang-format off
// X(rows, columns, stages) of each tile.
#define CARNOT_CUDA_GEMM_MULTISTAGE_SIZES(X) \
  X(16, 64, 8) X(32, 64, 6) X(64, 32, 6) X(64, 64, 6) X(64, 128, 5) X(128, 32, 6) X(128, 64, 5) X(128, 128, 5)
#define CARNOT_CUDA_GEMM_MULTISTAGE_THREADS(rows) ((rows) / 16 * ((rows) >= 64 ? 1 : 4) * 32)
// Bytes of a pipeline stage (A and B), and of the accumulators, which overwrite the stages in
// the epilogue.
#define CARNOT_CUDA_GEMM_STAGE_BYTES(rows, columns) (((rows) + (columns)) * 128)
#define CARNOT_CUDA_GEMM_ACCUMULATOR_BYTES(rows, columns) ((rows) * ((columns) + 4) * 4)
// clang-format on

// The same GEMM by TMA: a cluster has |across| adjacent tiles; split-K over its third dimension.
typedef struct carnot_cuda_gemm_tma_params {
  carnot_cuda_tma_descriptor x, w;    // boxes of |pitch| by rows / across, and by columns
  carnot_cuda_gemm_tile_params gemm;  // x and w unused
  int taps, chunks;                   // steps of K: |chunks| of |pitch| bytes for each tap
  int is_window;                      // the map of x is one of windows (im2col)
  int across, stages;
  int parts;  // offset in shared memory of the accumulators of other blocks
  int pitch;  // bytes of a box and of a row of a stage: 128, of 8-bit integers 64 too
} carnot_cuda_gemm_tma_params;

// clang-format off
// X(rows, columns) of each tile.
#define CARNOT_CUDA_GEMM_TMA_SIZES(X) X(64, 32) X(64, 64) X(128, 64) X(128, 128) X(128, 160) X(128, 256)
#define CARNOT_CUDA_GEMM_TMA_THREADS(rows) ((rows) * 2 + 32)
enum { CARNOT_CUDA_GEMM_TMA_STAGES = 16 };
// clang-format on

// The same by blocks that stay: each walks over tiles of 128 rows by some columns, two groups of
// threads take them in turns, so that one ends its tile while the other multiplies. With |gate| the
// activation is v / (1 + 2^(v (c[0] + t (c[1] + t c[2])))), t = min(v v, 36); else it is to [low,
// high]. |filters| is a multiple of 32.
typedef struct carnot_cuda_gemm_pingpong_params {
  carnot_cuda_tma_descriptor x,
      w;  // boxes of |pitch| by 128, and of filters in gemm_pingpong.cuh's order
  carnot_cuda_tma_descriptor residual;  // boxes of 128 bytes by 128; of bytes a tile
  carnot_cuda_gemm_tile_params gemm;    // x and w unused
  int chunks, is_window;                // as above
  int steps;                            // of K: |chunks| for each tap
  int stages, stages_each;  // stages that a tile takes: |steps|, and of a staged residual
  int keeps_weights;  // one column of tiles: its weights stay in shared memory, behind the stages
  int pitch;          // bytes of a box and of a row of a stage: 128, of bytes 64 too
  int down, across;   // tiles
  int tiles;          // down * across; a kernel that multiplied them spilled the result
  int gate;
  float c[3];
} carnot_cuda_gemm_pingpong_params;

// clang-format off
// X(columns) of each tile.
#define CARNOT_CUDA_GEMM_PINGPONG_SIZES(X) X(128) X(160) X(192)
enum { CARNOT_CUDA_GEMM_PINGPONG_ROWS = 128, CARNOT_CUDA_GEMM_PINGPONG_THREADS = 384 };
// Stages of a residual tile of 16-bit floats: two boxes of 64 columns each.
#define CARNOT_CUDA_GEMM_PINGPONG_RESIDUAL_STAGES(columns) (((columns) + 127) / 128)
enum { CARNOT_CUDA_GEMM_PINGPONG_SLOTS = 4 };  // of residual tiles of bytes
// clang-format on

// The same of few rows (gemv.cuh).
enum { CARNOT_CUDA_GEMV_THREADS = 128 };

#endif  // CARNOT_KERNEL_CUDA_GEMM_GEMM_TILE_PARAMS_H_
