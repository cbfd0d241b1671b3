// Max and average pooling of NHWC 16-bit floats, eight channels per thread, and max pooling of NHWC
// bytes, sixteen.
#pragma once

#include "kernel/cuda/common/half2.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/common/sliding_window.cuh"

// The higher of each, NaN where one of the two is NaN.
DEVICE u32 higher_two(u32 a, u32 b, f16*) {
  u32 r;
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
  r = 0;
  for (int i = 0; i < 2; i++)
    r |= (u32)store_as<f16>::of(hi(half2_at(a, i, (f16*)0), half2_at(b, i, (f16*)0))).bits
         << 16 * i;
#endif
  return r;
}
DEVICE u32 higher_two(u32 a, u32 b, bf16*) {
  u32 r;
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
  r = 0;
  for (int i = 0; i < 2; i++)
    r |= (u32)store_as<bf16>::of(hi(half2_at(a, i, (bf16*)0), half2_at(b, i, (bf16*)0))).bits
         << 16 * i;
#endif
  return r;
}

DEVICE u32 higher_two(u32 a, u32 b, u8*) { return __vmaxu4(a, b); }
DEVICE u32 higher_two(u32 a, u32 b, i8*) { return __vmaxs4(a, b); }
// The lowest value in all elements of a word.
template <class T>
DEVICE u32 lowest_word(T*) {
  u32 least = store_as<T>::of(lowest<f32>()).bits;
  return least | least << 16;
}
DEVICE u32 lowest_word(u8*) { return 0; }
DEVICE u32 lowest_word(i8*) { return 0x80808080u; }

// 16 bytes of channels per thread; three adjacent inputs of a row are loaded at once.
template <class T, bool AVERAGE>
DEVICE void pool_nhwc(const carnot_cuda_sliding_window& p) {
  enum { WIDE = 16 / (int)sizeof(T) };
  u32 at = (u32)THREAD, pieces = (u32)p.channels / WIDE, c = at % pieces;
  if (THREAD >= p.n * pieces * p.out[0] * p.out[1] * p.out[2]) return;
  at /= pieces;
  i64 to = c, from = c;
  int first[3], in[3], padded = 1, inside = 0;
  for (int d = 2; d >= 0; d--) {
    int window_position = at % (u32)p.out[d];
    at /= (u32)p.out[d];
    first[d] = window_position * (int)p.step[d] - (int)p.begin[d];
    in[d] = (int)p.in[d];
    to += window_position * (p.y_s[d] / WIDE);
    int n = 0;
    for (int k = 0; AVERAGE && k < p.kernel[d]; k++)
      n += first[d] + k * (int)p.dilation[d] < in[d] + (int)p.end[d];
    padded *= n;
  }
  from += at * (p.x_n / WIDE), to += at * (p.y_n / WIDE);
  f32 sum[8] = {}, v[8];
  half8 best;
  for (int e = 0; e < 4; e++) best.two[e] = lowest_word((T*)0);
  const half8* x = (const half8*)p.x + from;
  for (int a = 0; a < p.kernel[0]; a++) {
    int i0 = first[0] + a * (int)p.dilation[0];
    if (i0 < 0 || i0 >= in[0]) continue;
    for (int b = 0; b < p.kernel[1]; b++) {
      int i1 = first[1] + b * (int)p.dilation[1];
      if (i1 < 0 || i1 >= in[1]) continue;
      const half8* row = x + i0 * (p.x_s[0] / WIDE) + i1 * (p.x_s[1] / WIDE);
      for (int k = 0; k < p.kernel[2]; k += 3) {
        half8 read[3];
        bool valid[3];
#pragma unroll
        for (int j = 0; j < 3; j++) {
          int i2 = first[2] + (k + j) * (int)p.dilation[2];
          valid[j] = k + j < p.kernel[2] && i2 >= 0 && i2 < in[2];
          if (valid[j]) read[j] = row[i2 * (p.x_s[2] / WIDE)];
        }
#pragma unroll
        for (int j = 0; j < 3; j++) {
          if (!valid[j]) continue;
          inside++;
          if constexpr (AVERAGE) {
            unpack<T>(read[j], v);
            for (int e = 0; e < 8; e++) sum[e] += v[e];
          } else {
            for (int e = 0; e < 4; e++)
              best.two[e] = higher_two(best.two[e], read[j].two[e], (T*)0);
          }
        }
      }
    }
  }
  if constexpr (AVERAGE) {
    for (int e = 0; e < 8; e++) sum[e] /= (f32)(p.count_padding ? padded : inside);
    pack<T>(p.y, to, sum);
  } else {
    ((half8*)p.y)[to] = best;
  }
}
