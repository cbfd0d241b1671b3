// Transposes of 1, 2 and 4-byte elements by blocks in registers.
#include "kernel/cpu/copy/transpose.h"

#include "kernel/cpu/common/kernels_isa.h"

enum { kBlock = V_LANES < 8 ? 8 : V_LANES };

// Transposes a square of V_LANES vectors.
#if V_LANES == 16
CARNOT_INLINE void transpose_square(vf32* x) {
  vf32 y[16];
  CARNOT_UNROLL
  for (int i = 0; i < 16; i += 4) {  // 4x4 within each 128-bit quarter
    const vf32 a = _mm512_unpacklo_ps(x[i], x[i + 1]), b = _mm512_unpackhi_ps(x[i], x[i + 1]);
    const vf32 c = _mm512_unpacklo_ps(x[i + 2], x[i + 3]);
    const vf32 d = _mm512_unpackhi_ps(x[i + 2], x[i + 3]);
    y[i] = _mm512_shuffle_ps(a, c, 0x44);
    y[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
    y[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
    y[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
  }
  CARNOT_UNROLL
  for (int j = 0; j < 4; ++j) {  // then the quarters
    const vf32 a = _mm512_shuffle_f32x4(y[j], y[j + 4], 0x88);
    const vf32 b = _mm512_shuffle_f32x4(y[j], y[j + 4], 0xdd);
    const vf32 c = _mm512_shuffle_f32x4(y[j + 8], y[j + 12], 0x88);
    const vf32 d = _mm512_shuffle_f32x4(y[j + 8], y[j + 12], 0xdd);
    x[j] = _mm512_shuffle_f32x4(a, c, 0x88);
    x[j + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
    x[j + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
    x[j + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
}
#elif V_LANES == 8
CARNOT_INLINE void transpose_square(vf32* x) {
  vf32 y[8];
  CARNOT_UNROLL
  for (int i = 0; i < 8; i += 4) {  // 4x4 within each 128-bit half
    const vf32 a = _mm256_unpacklo_ps(x[i], x[i + 1]), b = _mm256_unpackhi_ps(x[i], x[i + 1]);
    const vf32 c = _mm256_unpacklo_ps(x[i + 2], x[i + 3]);
    const vf32 d = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
    y[i] = _mm256_shuffle_ps(a, c, 0x44);
    y[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
    y[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
    y[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
  CARNOT_UNROLL
  for (int j = 0; j < 4; ++j) {  // then the 256-bit halves
    x[j] = _mm256_permute2f128_ps(y[j], y[j + 4], 0x20);
    x[j + 4] = _mm256_permute2f128_ps(y[j], y[j + 4], 0x31);
  }
}
#endif

static void block_by_element(int64_t m, int64_t n, const float* src, int64_t src_ld, float* dst,
                             int64_t dst_ld) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) dst[j * dst_ld + i] = src[i * src_ld + j];
  }
}

#if V_LANES >= 8
CARNOT_INLINE void block_in_registers(int64_t m, int64_t n, const float* src, int64_t src_ld,
                                      float* dst, int64_t dst_ld) {
  vf32 x[V_LANES];
  CARNOT_UNROLL
  for (int i = 0; i < V_LANES; ++i) x[i] = i < m ? v_load_upto(src + i * src_ld, n) : v_zero();
  transpose_square(x);
  CARNOT_UNROLL
  for (int j = 0; j < V_LANES; ++j)
    if (j < n) v_store_upto(dst + j * dst_ld, x[j], m);
}
#endif

// One block of at most kBlock x kBlock.
static void block(int64_t m, int64_t n, const float* src, int64_t src_ld, float* dst,
                  int64_t dst_ld) {
#if V_LANES >= 8
  if (m == kBlock && n == kBlock) {
    block_in_registers(kBlock, kBlock, src, src_ld, dst, dst_ld);
    return;
  }
  if (m * n >= 2 * V_LANES) {
    block_in_registers(m, n, src, src_ld, dst, dst_ld);
    return;
  }
#endif
  block_by_element(m, n, src, src_ld, dst, dst_ld);
}

// Few rows whose elements lie side by side: |m| is a constant.
CARNOT_INLINE void interleave(int m, int64_t n, const float* restrict src, int64_t src_ld,
                              float* restrict dst) {
  for (int64_t j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) dst[j * m + i] = src[i * src_ld + j];
}

static bool interleave_few(int64_t m, int64_t n, const float* src, int64_t src_ld, float* dst) {
  switch (m) {
    case 1: interleave(1, n, src, src_ld, dst); return true;
    case 2: interleave(2, n, src, src_ld, dst); return true;
    case 3: interleave(3, n, src, src_ld, dst); return true;
    case 4: interleave(4, n, src, src_ld, dst); return true;
    default: return false;
  }
}

void CARNOT_KERNEL(transpose_f32)(int64_t m, int64_t n, const float* src, int64_t src_ld,
                                  float* dst, int64_t dst_ld) {
  if (m == dst_ld && interleave_few(m, n, src, src_ld, dst)) return;
  for (int64_t i = 0; i < m; i += kBlock) {
    for (int64_t j = 0; j < n; j += kBlock) {
      block(min_i64(kBlock, m - i), min_i64(kBlock, n - j), src + i * src_ld + j, src_ld,
            dst + j * dst_ld + i, dst_ld);
    }
  }
}

// ---- two bytes and one: squares of eight bytes a row, in integers ----

// Changes the upper |bits| of each 2 |bits| in x[i] for the lower of x[j].
#define EXCHANGE(i, j, bits, low)                         \
  {                                                       \
    const uint64_t t = ((x[i] >> (bits)) ^ x[j]) & (low); \
    x[i] ^= t << (bits);                                  \
    x[j] ^= t;                                            \
  }

CARNOT_INLINE void square_u8(uint64_t* x) {
  for (int i = 0; i < 4; ++i) EXCHANGE(i, i + 4, 32, 0xffffffffu)
  for (int i = 0; i < 8; i += i % 4 ? 3 : 1) EXCHANGE(i, i + 2, 16, 0x0000ffff0000ffffu)
  for (int i = 0; i < 8; i += 2) EXCHANGE(i, i + 1, 8, 0x00ff00ff00ff00ffu)
}

CARNOT_INLINE void square_u16(uint64_t* x) {
  for (int i = 0; i < 2; ++i) EXCHANGE(i, i + 2, 32, 0xffffffffu)
  for (int i = 0; i < 4; i += 2) EXCHANGE(i, i + 1, 16, 0x0000ffff0000ffffu)
}

// Bands of rows, so that what is written of a line stays in the cache until it is whole.
#define TRANSPOSE(type, SIDE)                                                                     \
  void CARNOT_KERNEL(transpose_##type)(int64_t m, int64_t n, const type##_t* src, int64_t src_ld, \
                                       type##_t* dst, int64_t dst_ld) {                           \
    enum { kBand = 64 };                                                                          \
    const int64_t whole = n - n % SIDE;                                                           \
    for (int64_t band = 0; band < m; band += kBand) {                                             \
      const int64_t end = min_i64(m, band + kBand), last = band + (end - band) / SIDE * SIDE;     \
      for (int64_t j = 0; j < whole; j += SIDE) {                                                 \
        for (int64_t i = band; i < last; i += SIDE) {                                             \
          uint64_t x[SIDE];                                                                       \
          for (int k = 0; k < SIDE; ++k) memcpy(&x[k], src + (i + k) * src_ld + j, sizeof(*x));   \
          square_##type(x);                                                                       \
          for (int k = 0; k < SIDE; ++k) memcpy(dst + (j + k) * dst_ld + i, &x[k], sizeof(*x));   \
        }                                                                                         \
      }                                                                                           \
      for (int64_t j = 0; j < n; ++j)                                                             \
        for (int64_t i = j < whole ? last : band; i < end; ++i)                                   \
          dst[j * dst_ld + i] = src[i * src_ld + j];                                              \
    }                                                                                             \
  }
typedef uint8_t u8_t;
typedef uint16_t u16_t;
TRANSPOSE(u16, 4)
TRANSPOSE(u8, 8)
