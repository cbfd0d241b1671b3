// The kernels of the integer tactics: dot products of rows by vectors (gemm_u8s8, conv2d_u8s8), or
// AMX tiles (conv2d_s8_tiles) where the tactic's config is |carnot_int8_tiles|. Functions that
// serve both kinds of tactic pack weights, shift and call by these.
#ifndef CARNOT_BACKEND_CPU_QUANTIZE_INT8_KERNEL_H_
#define CARNOT_BACKEND_CPU_QUANTIZE_INT8_KERNEL_H_

#include "backend/cpu/common/cpu.h"
#include "kernel/cpu/conv/conv2d_s8_tiles.h"

extern const char carnot_int8_tiles[];

static inline bool carnot_int8_uses_tiles(const carnot_tactic* tactic) {
  return tactic->config == carnot_int8_tiles;
}

// What the kernel adds to activations.
static inline int32_t carnot_int8_shift(const carnot_tactic* tactic, bool is_signed) {
  return is_signed && !carnot_int8_uses_tiles(tactic) ? 128 : 0;
}

// The epilogue of part |part| of a step whose ranges lie one behind the other.
static inline void carnot_int8_part_range(carnot_int8_epilogue* epilogue, int64_t part) {
  if (!epilogue->range) return;
  epilogue->range += part * 2 * CARNOT_INT8_RANGE_LANES;
  memset(epilogue->range, 0, 2 * CARNOT_INT8_RANGE_LANES * sizeof(float));
}

// Weights of |groups| groups, each of |n| channels by |taps| taps of depth |c|.
typedef struct carnot_int8_weights_shape {
  int64_t groups, taps, c, n;
} carnot_int8_weights_shape;

// Bytes of one group's packed weights.
size_t carnot_int8_group_bytes(const carnot_tactic* tactic, const carnot_int8_weights_shape* shape);
// Packs weights [groups, n, ...], element (n, tap, c) of a group at n * stride_n + tap * stride_tap
// + c * stride_c, into constant |index| of |out|.
carnot_status* carnot_int8_pack(const carnot_tactic* tactic, const carnot_int8_weights_shape* shape,
                                const int8_t* weights, int64_t stride_n, int64_t stride_tap,
                                int64_t stride_c, int index, carnot_prepared* out) CARNOT_MUST_USE;

// Whether the pixels under the window fit in L2.
bool carnot_int8_tiles_fit(const carnot_conv2d_u8s8* conv);
// NULL, or why tiles do not take the convolution of |groups| groups, each with these sizes.
const char* carnot_int8_tiles_reject(const carnot_conv2d_u8s8* conv, int64_t groups, char* reason,
                                     size_t size);
// configure: tiles take the convolution with these sizes. INVALID_MODEL.
carnot_status* carnot_int8_tiles_check(const carnot_conv2d_u8s8* conv) CARNOT_MUST_USE;

// NULL, or why tiles do not pay for the rows of a GEMM's operand |a| [.., M,K].
const char* carnot_int8_gemm_tiles_reject(const carnot_operand_desc* a, char* reason, size_t size);

// The kernels of the step: the AVX-512 tactic uses those of VNNI or AMX where the machine has them.
const carnot_cpu_kernels* carnot_int8_kernels(const carnot_step_view* step);
// The partition of a convolution with these sizes over pixels and channels, for those kernels.
carnot_work_partition carnot_int8_conv_partition(const carnot_step_view* step,
                                                 const carnot_conv2d_u8s8* conv);
// That of a GEMM [M,K] by [K,N].
carnot_work_partition carnot_int8_gemm_partition(const carnot_step_view* step, int64_t m, int64_t n,
                                                 int64_t k);
// Bytes of workspace of each part of a convolution with these sizes, a multiple of 64. |readable|
// as of carnot_conv2d_s8_tiles.
size_t carnot_int8_conv_workspace(const carnot_tactic* tactic, const carnot_conv2d_u8s8* conv,
                                  bool readable);
// Computes pixels [m0,m1) of channels [n0,n1); |workspace| is the part's.
void carnot_int8_conv_call(const carnot_step_view* step, const carnot_conv2d_u8s8* conv,
                           bool readable, void* workspace, int64_t m0, int64_t m1, int64_t n0,
                           int64_t n1);

// The GEMM as a convolution over one row of pixels.
carnot_conv2d_u8s8 carnot_int8_conv_of_gemm(const carnot_gemm_u8s8* gemm);
// Bytes of workspace of all parts of a GEMM.
size_t carnot_int8_gemm_workspace(const carnot_tactic* tactic,
                                  const carnot_work_partition* partition, int64_t k);
// run: the parts of an integer GEMM.
void carnot_int8_gemm_run(const carnot_step_view* step, const carnot_work_partition* partition,
                          const carnot_gemm_u8s8* gemm, void* workspace, carnot_executor* executor);

#endif  // CARNOT_BACKEND_CPU_QUANTIZE_INT8_KERNEL_H_
