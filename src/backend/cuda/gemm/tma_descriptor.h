// TMA tensor maps (sm_90) of the operands of the GEMMs with constant weights.
#ifndef CARNOT_BACKEND_CUDA_GEMM_TMA_DESCRIPTOR_H_
#define CARNOT_BACKEND_CUDA_GEMM_TMA_DESCRIPTOR_H_

#include "backend/cuda/common/tma_map.h"
#include "backend/cuda/gemm/gemm_tile_common.h"

// Boxes of the channels of |t|.
static inline int carnot_cuda_tma_chunks(const carnot_cuda_gemm_tile_step* t) {
  const int depth = CARNOT_CUDA_TMA_DEPTH * (t->operand == CARNOT_DTYPE_F8E4M3FN ? 2 : 1);
  return (int)carnot_ceildiv(t->params.channels, depth);
}
// What TMA's im2col mode takes: the reach of a window and its strides.
enum { CARNOT_CUDA_TMA_REACH = 127, CARNOT_CUDA_TMA_STEP = 8 };

// NULL, or the reason why TMA cannot load the operands.
const char* carnot_cuda_tma_reject(const carnot_problem* problem,
                                   const carnot_cuda_gemm_tile_region* region, char* reason,
                                   size_t size);
// The same when shapes are set.
carnot_status* carnot_cuda_tma_check(const carnot_cuda* cuda,
                                     const carnot_cuda_gemm_tile_step* t) CARNOT_MUST_USE;

// The tensor map of x of a bound step: boxes of |height| rows, or im2col boxes of as many
// windows at one tap, zero outside of the image.
carnot_status* carnot_cuda_tma_describe_x(carnot_cuda* cuda, const carnot_cuda_gemm_tile_step* t,
                                          int height,
                                          carnot_cuda_tma_descriptor* out) CARNOT_MUST_USE;
// The residual: boxes of |height| rows by 128 bytes; filters are a multiple of 8.
carnot_status* carnot_cuda_tma_describe_residual(carnot_cuda* cuda,
                                                 const carnot_cuda_gemm_tile_step* t, int height,
                                                 carnot_cuda_tma_descriptor* out) CARNOT_MUST_USE;
// Boxes of |height| filters.
carnot_status* carnot_cuda_tma_describe_weights(carnot_cuda* cuda,
                                                const carnot_cuda_gemm_tile_step* t, int height,
                                                carnot_cuda_tma_descriptor* out) CARNOT_MUST_USE;
// The same, each 32 filters in the order of gemm_tma_pingpong.cuh; filters and |height| are
// multiples of 32.
carnot_status* carnot_cuda_tma_describe_permuted_weights(
    carnot_cuda* cuda, const carnot_cuda_gemm_tile_step* t, int height,
    carnot_cuda_tma_descriptor* out) CARNOT_MUST_USE;

// The same of NHWC bytes: x, and weights [filters, taps, channels], whose boxes hold one tap of
// |height| filters. Boxes have |depth| channels: 128 or 64. Channels are a multiple of 16; a
// box is zero beyond them, which costs the copy engine three times what data costs.
carnot_status* carnot_cuda_tma_describe_bytes(carnot_cuda* cuda,
                                              const carnot_cuda_gemm_tile_params* params,
                                              int images, bool is_window, int depth, int height,
                                              carnot_cuda_tma_descriptor* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_tma_describe_byte_filters(
    carnot_cuda* cuda, const void* weights, int64_t filters, int taps, int channels, int depth,
    int height, carnot_cuda_tma_descriptor* out) CARNOT_MUST_USE;
// Boxes of |height| rows of the bytes [rows, columns]; columns are a multiple of 16.
carnot_status* carnot_cuda_tma_describe_byte_rows(carnot_cuda* cuda, const void* address,
                                                  int64_t rows, int columns, int depth, int height,
                                                  carnot_cuda_tma_descriptor* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_GEMM_TMA_DESCRIPTOR_H_
