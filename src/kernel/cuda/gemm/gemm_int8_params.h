// Parameters and tile sizes of the tensor core GEMMs of 8-bit integers with constant weights.
#ifndef CARNOT_KERNEL_CUDA_GEMM_GEMM_INT8_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GEMM_GEMM_INT8_PARAMS_H_

#include "kernel/cuda/gemm/gemm_tile_params.h"
#include "kernel/cuda/quantize/int8_epilogue_params.h"

// The GEMM of gemm_tile_params.h with x of uint8 or int8 and w of int8, whose rows are
// |w_pitch| bytes apart, a multiple of 16; its sums are int32, and |epilogue| is what follows.
// |gemm.channels| and |gemm.pixel| are multiples of the kernel's load (16, 8 or 4 bytes),
// |gemm.filters| is one of 8. bias, residual and activation of |gemm| are unused.
typedef struct carnot_cuda_gemm_int8_params {
  carnot_cuda_gemm_tile_params gemm;
  int w_pitch;
  unsigned outside;  // x's zero point in each byte: what a window reads outside of the image
  carnot_cuda_int8_epilogue epilogue;
} carnot_cuda_gemm_int8_params;

// The same by TMA, ping-pong (gemm_pingpong.cuh). Weights are [filters, taps, channels] with
// filters padded to a multiple of 32 and permuted: row 32 q + 8 b + 2 t + e of them is filter 32 q
// + 8 t + 2 b + e. |channels| is a multiple of 16; outside of the image x is 0. Tiles of
// CARNOT_CUDA_GEMM_INT8_PINGPONG_SLOT get the residual by TMA, boxes of a tile.
typedef struct carnot_cuda_gemm_int8_pingpong_params {
  carnot_cuda_gemm_pingpong_params gemm;  // gate and c unused
  carnot_cuda_int8_epilogue epilogue;     // of another form than GENERAL
} carnot_cuda_gemm_int8_pingpong_params;

// The same by TMA with split-K over a cluster (gemm_tma.cuh). Weights are [filters, taps,
// channels]. |channels| is a multiple of 16, with several taps of |pitch|; outside of the image x
// is 0.
typedef struct carnot_cuda_gemm_int8_tma_params {
  carnot_cuda_gemm_tma_params gemm;
  carnot_cuda_int8_epilogue epilogue;
} carnot_cuda_gemm_int8_tma_params;

// y[m,n] = epilogue(sum_k x[m,k] w[n,k]) of dense rows with small K, all weights of which a block
// keeps. |channels| and |filters| are multiples of 8. Weights are chunks of 32 filters, steps of 32
// along K, in the order of the B fragments: lane 4g + t holds channels 8t .. 8t+7 of a step, of the
// filters that conv/conv_small_channels.cuh names.
typedef struct carnot_cuda_gemm_int8_small_params {
  const void *x, *w;
  void* y;
  long long rows;
  int channels, filters;
  carnot_cuda_int8_epilogue epilogue;  // of another form than GENERAL
} carnot_cuda_gemm_int8_small_params;

// clang-format off
enum { CARNOT_CUDA_GEMM_INT8_SMALL_THREADS = 256, CARNOT_CUDA_GEMM_INT8_SMALL_ROWS = 32 };  // rows: of a warp
enum { CARNOT_CUDA_GEMM_INT8_SMALL_RESIDENT = 2 };  // blocks on a multiprocessor
// X(steps) of each kernel.
#define CARNOT_CUDA_GEMM_INT8_SMALL_SIZES(X) X(1) X(2) X(3) X(4)
// X(rows, columns) of each tile.
#define CARNOT_CUDA_GEMM_INT8_TMA_SIZES(X) X(64, 32) X(64, 64) X(128, 64) X(128, 128)
// X(columns) of each tile.
#define CARNOT_CUDA_GEMM_INT8_PINGPONG_SIZES(X) X(64) X(96) X(128) X(192)
// Blocks on a multiprocessor.
#define CARNOT_CUDA_GEMM_INT8_PINGPONG_RESIDENT(columns) ((columns) == 64 ? 2 : 1)
// Bytes of a residual tile in shared memory; 0: the epilogue loads residuals itself.
#define CARNOT_CUDA_GEMM_INT8_PINGPONG_SLOT(columns) ((columns) == 64 || (columns) == 128 ? 128 * (columns) : 0)
// X(rows, columns, stages, load) of each tile: |load| bytes of x at a time.
#define CARNOT_CUDA_GEMM_INT8_SIZES(X) \
  X(16, 64, 8, 16) X(32, 64, 6, 16) X(64, 32, 6, 16) X(64, 64, 6, 16) X(64, 128, 5, 16) X(128, 32, 6, 16) \
  X(128, 64, 5, 16) X(128, 128, 5, 16) X(128, 256, 4, 16) \
  X(64, 32, 6, 8) X(64, 64, 6, 8) X(128, 64, 5, 8) X(64, 32, 6, 4) X(64, 64, 6, 4) X(128, 32, 6, 4) \
  X(128, 64, 5, 4)
// clang-format on

#endif  // CARNOT_KERNEL_CUDA_GEMM_GEMM_INT8_PARAMS_H_
