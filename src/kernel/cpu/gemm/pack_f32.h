// Packing format k1n16 f32: B [K,N] in panels of 16 columns, K rows of 16 floats each, the columns
// beyond N zero. Portable C, so that weights for any machine are packed anywhere.
//   packed[(n / 16 * K + k) * 16 + n % 16] = b[k * rs + n * cs]
// Convolution weights [N,C,R,S] pack with K = (r,s,c) through carnot_pack_conv_k1n16_f32; depthwise
// weights [C,1,R,S] are B of K = (r,s), N = c, rs = 1, cs = R*S.
#ifndef CARNOT_KERNEL_CPU_GEMM_PACK_F32_H_
#define CARNOT_KERNEL_CPU_GEMM_PACK_F32_H_

#include <stdint.h>

// Floats of a packed [K,N].
static inline int64_t carnot_packed_k1n16_count(int64_t k, int64_t n) {
  return k * ((n + 15) / 16 * 16);
}

void carnot_pack_k1n16_f32(int64_t k, int64_t n, const float* b, int64_t rs, int64_t cs,
                           float* packed);

// The way back: writes b[k * rs + n * cs] for every k < K, n < N.
void carnot_unpack_k1n16_f32(int64_t k, int64_t n, const float* packed, int64_t rs, int64_t cs,
                             float* b);

// |weights| [N,C,taps], taps = R*S, as ONNX stores them; K index = tap * C + c.
void carnot_pack_conv_k1n16_f32(int64_t n, int64_t c, int64_t taps, const float* weights,
                                float* packed);
void carnot_unpack_conv_k1n16_f32(int64_t n, int64_t c, int64_t taps, const float* packed,
                                  float* weights);

#endif
