// Storage types of packed weights: float32, whole or in BF16 parts, FP16 and BF16, which kernels
// convert or multiply.
#ifndef CARNOT_BACKEND_CPU_COMMON_PACKED_WEIGHTS_H_
#define CARNOT_BACKEND_CPU_COMMON_PACKED_WEIGHTS_H_

#include "backend/cpu/common/cpu.h"

// The weights of a convolution as a matrix [taps * depth, n]; a GEMM has one tap.
typedef struct carnot_packed_weights_shape {
  int64_t taps, depth, n;
} carnot_packed_weights_shape;

// Stored in engines.
typedef enum carnot_weights_type {
  CARNOT_WEIGHTS_F32 = CARNOT_DTYPE_F32,
  CARNOT_WEIGHTS_F16 = CARNOT_DTYPE_F16,
  CARNOT_WEIGHTS_BF16 = CARNOT_DTYPE_BF16,
  CARNOT_WEIGHTS_SPLIT6 = 64,     // float32 in three parts, of whose products six count
  CARNOT_WEIGHTS_SPLIT3 = 65,     // the same, three count
  CARNOT_WEIGHTS_BF16_TILES = 66  // of tactics that take BF16 operands, for tile instructions
} carnot_weights_type;

// The type in which |tactic| stores its weights, by its numerics, precision and operands.
carnot_weights_type carnot_packed_weights_type(const carnot_tactic* tactic);
// The packing's name: "k1n16 f32", "k1n16 f16", "k2n16 bf16", "k2n16d32 bf16" or
// "k32n16 bf16x3".
const char* carnot_packed_weights_packing(carnot_weights_type type);
// In BF16 parts, for tile instructions.
static inline bool carnot_packed_weights_split(carnot_weights_type type) {
  return type == CARNOT_WEIGHTS_SPLIT6 || type == CARNOT_WEIGHTS_SPLIT3;
}
// Bytes of the packed weights.
size_t carnot_packed_weights_bytes(carnot_weights_type type, carnot_packed_weights_shape shape);
// Converts to any type but float32. |packed| has carnot_packed_weights_bytes; |k1n16|: packed as
// float32.
void carnot_packed_weights_pack(carnot_weights_type type, carnot_packed_weights_shape shape,
                                const float* k1n16, void* packed);

// A matrix [k,n]: its elements, |scale| times data[k * row_stride + n * column_stride].
typedef struct carnot_weights_matrix {
  const float* data;
  int64_t row_stride, column_stride;
  float scale;
} carnot_weights_matrix;

// Packs |matrix|, |shape| of one tap, in any type, on the threads of |executor| (NULL: on the
// caller). Fails where there is no memory.
carnot_status* carnot_packed_weights_pack_matrix(carnot_executor* executor,
                                                 carnot_weights_type type,
                                                 carnot_packed_weights_shape shape,
                                                 carnot_weights_matrix matrix, void* packed);
// The same of the dense |weights| [n,depth,taps] of a convolution.
carnot_status* carnot_packed_weights_pack_conv(carnot_executor* executor, carnot_weights_type type,
                                               carnot_packed_weights_shape shape,
                                               const float* weights, void* packed);

// Why the constant |weights| may not be kept in |type|: values beyond float16, inexact ones where
// only exact ones may, or numbers that parts do not hold. NULL: they may.
const char* carnot_packed_weights_reject(const carnot_problem* problem,
                                         const carnot_tensor* weights, carnot_weights_type type,
                                         char* reason, size_t size);

// The kernels over weights of this type.
carnot_gemm_f32_fn* carnot_packed_weights_gemm(const carnot_cpu_kernels* kernels,
                                               carnot_weights_type type);
carnot_conv2d_f32_fn* carnot_packed_weights_conv2d(const carnot_cpu_kernels* kernels,
                                                   carnot_weights_type type);

#endif  // CARNOT_BACKEND_CPU_COMMON_PACKED_WEIGHTS_H_
