// Instructions of FP8 attention (sm_90a): weights in registers by values whose innermost axis is
// that of keys, and the store of transposed values.
#pragma once

#include "kernel/cuda/common/fp8.cuh"
#include "kernel/cuda/common/wgmma.cuh"

#if HAS_WGMMA

// c += a b, m64nNk32 of E4M3: a in registers, the rows of b along k.
#define FP8_WEIGHTS(n, count, a, b)                                                        \
  DEVICE void multiply_fp8_##n(f32* c, const u32* x, u64 y) {                              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" NAMES##count \
                 "}, " a ", " b ", 1, 1, 1;"                                               \
                 : SUMS##count("+f", c)                                                    \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y));                    \
  }
FP8_WEIGHTS(64, 32, "{%32,%33,%34,%35}", "%36")
FP8_WEIGHTS(128, 64, "{%64,%65,%66,%67}", "%68")
#undef FP8_WEIGHTS

DEVICE void stmatrix4(u32 to, const u32* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
// 64 FP8 weights of a lane, four 8-key tiles of scores at a time, as A fragments of m64nNk32: k = 4
// q
// + i is key 8 (i / 2) + 2 q + i % 2 of 16.
template <int N>
DEVICE void fp8_weights_of(u32 (*w)[4], const f32 (*s)[4]) {
#pragma unroll
  for (int c = 0; c < N / 4; c++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const f32 *left = s[4 * c + i / 2 * 2] + i % 2 * 2, *right = left + 4;
      const f32 four[4] = {left[0], left[1], right[0], right[1]};
      w[c][i] = store_e4m3_four(four, 1);
    }
}

#endif
