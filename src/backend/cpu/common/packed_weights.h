// Storage types of packed weights: float32, or FP16 or BF16, which kernels convert or multiply.
#ifndef CARNOT_BACKEND_CPU_COMMON_PACKED_WEIGHTS_H_
#define CARNOT_BACKEND_CPU_COMMON_PACKED_WEIGHTS_H_

#include "backend/cpu/common/cpu.h"

// The weights of a convolution as a matrix [taps * depth, n]; a GEMM has one tap.
typedef struct carnot_packed_weights_shape {
  int64_t taps, depth, n;
} carnot_packed_weights_shape;

// The type in which |tactic| stores its weights: the precision that it computes in, else float32.
static inline carnot_dtype carnot_packed_weights_dtype(const carnot_tactic* tactic) {
  return tactic->precision == CARNOT_DTYPE_INVALID ? CARNOT_DTYPE_F32 : tactic->precision;
}
// The packing's name: "k1n16 f32", "k1n16 f16" or "k2n16 bf16".
const char* carnot_packed_weights_packing(carnot_dtype dtype);
// True for the three types that have a packing.
bool carnot_packed_weights_known(carnot_dtype dtype);
// Bytes of the packed weights.
size_t carnot_packed_weights_bytes(carnot_dtype dtype, carnot_packed_weights_shape shape);
// Converts to FP16 or BF16. |packed| has carnot_packed_weights_bytes; |k1n16|: packed as float32.
void carnot_packed_weights_pack(carnot_dtype dtype, carnot_packed_weights_shape shape,
                                const float* k1n16, void* packed);

// Why the constant |weights| may not be kept in |dtype|: values beyond float16, or inexact ones
// where only exact ones may. NULL: they may.
const char* carnot_packed_weights_reject(const carnot_problem* problem,
                                         const carnot_tensor* weights, carnot_dtype dtype,
                                         char* reason, size_t size);

// The kernels over weights of this type.
carnot_gemm_f32_fn* carnot_packed_weights_gemm(const carnot_cpu_kernels* kernels,
                                               carnot_dtype dtype);
carnot_conv2d_f32_fn* carnot_packed_weights_conv2d(const carnot_cpu_kernels* kernels,
                                                   carnot_dtype dtype);

#endif  // CARNOT_BACKEND_CPU_COMMON_PACKED_WEIGHTS_H_
