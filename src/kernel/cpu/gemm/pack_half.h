// FP16 and BF16 formats of packed weights, made from k1n16 f32 (pack_f32.h). Portable C.
//   k1n16 f16:  element for element, rounded to nearest even
//   k2n16 bf16: two k of a column side by side, an odd depth of a tap filled up with zeros
//     packed[((n / 16 * taps + t) * round_up(depth, 2) + k / 2 * 2) * 16 + n % 16 * 2 + k % 2]
// K of the source is (t,k): taps * depth; a matrix is one tap.
#ifndef CARNOT_KERNEL_CPU_GEMM_PACK_HALF_H_
#define CARNOT_KERNEL_CPU_GEMM_PACK_HALF_H_

#include <stdint.h>

// Elements of a packed [taps * depth, N].
static inline int64_t carnot_packed_k2n16_count(int64_t taps, int64_t depth, int64_t n) {
  return taps * ((depth + 1) / 2 * 2) * ((n + 15) / 16 * 16);
}

void carnot_pack_k1n16_f16(int64_t count, const float* k1n16, uint16_t* packed);
void carnot_pack_k2n16_bf16(int64_t taps, int64_t depth, int64_t n, const float* k1n16,
                            uint16_t* packed);

#endif
