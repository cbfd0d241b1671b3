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

#if V_LANES == 16
// Three rows: each vector of the result takes lanes of two rows, then of the third.
static void interleave_three(int64_t n, const float* src, int64_t src_ld, float* dst) {
  // Result number 16 v + i is element (16 v + i) / 3 of row (16 v + i) % 3: lanes of the first two
  // rows, those of the second from 16 on, then lanes of the third where kLast says so.
  static const int32_t kTwo[3][16] = {
      {0, 16, 0, 1, 17, 1, 2, 18, 2, 3, 19, 3, 4, 20, 4, 5},
      {21, 5, 6, 22, 6, 7, 23, 7, 8, 24, 8, 9, 25, 9, 10, 26},
      {10, 11, 27, 11, 12, 28, 12, 13, 29, 13, 14, 30, 14, 15, 31, 15}};
  static const int32_t kThree[3][16] = {
      {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5},
      {5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9, 10, 10},
      {10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15}};
  static const __mmask16 kLast[3] = {0x4924, 0x2492, 0x9249};
  __m512i two[3], three[3];
  CARNOT_UNROLL
  for (int v = 0; v < 3; ++v)
    two[v] = _mm512_loadu_si512(kTwo[v]), three[v] = _mm512_loadu_si512(kThree[v]);
  int64_t j = 0;
  for (; j + 16 <= n; j += 16, dst += 48) {
    const vf32 a = v_load(src + j), b = v_load(src + src_ld + j), c = v_load(src + 2 * src_ld + j);
    CARNOT_UNROLL
    for (int v = 0; v < 3; ++v)
      v_store(dst + 16 * v, _mm512_mask_permutexvar_ps(_mm512_permutex2var_ps(a, two[v], b),
                                                       kLast[v], three[v], c));
  }
  interleave(3, n - j, src + j, src_ld, dst);
}
#endif

static bool interleave_few(int64_t m, int64_t n, const float* src, int64_t src_ld, float* dst) {
  switch (m) {
    case 1: interleave(1, n, src, src_ld, dst); return true;
    case 2: interleave(2, n, src, src_ld, dst); return true;
#if V_LANES == 16
    case 3: interleave_three(n, src, src_ld, dst); return true;
#else
    case 3: interleave(3, n, src, src_ld, dst); return true;
#endif
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

// ---- one byte and two: |bytes| is a constant ----

#if V_LANES >= 8
typedef __m128i square_row;

// A round moves the first bit of the number of an element's row behind the bits of its column; all
// have moved after as many rounds as a row's number has bits.
CARNOT_INLINE void transpose_rows(int bytes, square_row* x) {
  const int side = (int)sizeof(*x) / bytes;
  CARNOT_UNROLL
  for (int round = 1; round < side; round *= 2) {
    square_row y[sizeof(*x)];
    CARNOT_UNROLL
    for (int i = 0; i < side / 2; ++i) {
      const square_row a = x[i], b = x[i + side / 2];
      y[2 * i] = bytes == 1 ? _mm_unpacklo_epi8(a, b) : _mm_unpacklo_epi16(a, b);
      y[2 * i + 1] = bytes == 1 ? _mm_unpackhi_epi8(a, b) : _mm_unpackhi_epi16(a, b);
    }
    CARNOT_UNROLL
    for (int i = 0; i < side; ++i) x[i] = y[i];
  }
}
#else
typedef uint64_t square_row;

// Changes the upper |bits| of each 2 |bits| in *a for the lower of *b.
CARNOT_INLINE void exchange(square_row* a, square_row* b, int bits, square_row low) {
  const square_row t = ((*a >> bits) ^ *b) & low;
  *a ^= t << bits;
  *b ^= t;
}

CARNOT_INLINE void transpose_rows(int bytes, square_row* x) {
  static const square_row low[] = {0xffffffffu, 0x0000ffff0000ffffu, 0x00ff00ff00ff00ffu};
  const int side = (int)sizeof(*x) / bytes;
  for (int round = 0, apart = side / 2; apart; ++round, apart /= 2)
    for (int i = 0; i < side; ++i)
      if (!(i & apart)) exchange(&x[i], &x[i + apart], 32 >> round, low[round]);
}
#endif

CARNOT_INLINE void transpose_square_of(int bytes, const char* src, int64_t src_ld, char* dst,
                                       int64_t dst_ld) {
  enum { kRow = sizeof(square_row) };
  square_row x[kRow];
  CARNOT_UNROLL
  for (int i = 0; i < kRow / bytes; ++i) memcpy(&x[i], src + i * src_ld * bytes, kRow);
  transpose_rows(bytes, x);
  CARNOT_UNROLL
  for (int i = 0; i < kRow / bytes; ++i) memcpy(dst + i * dst_ld * bytes, &x[i], kRow);
}

// Squares, the last of a row or column over elements of the one before it. Bands of rows, so that
// what is written of a line stays in the cache until it is whole.
CARNOT_INLINE void transpose_small(int bytes, int64_t m, int64_t n, const char* src, int64_t src_ld,
                                   char* dst, int64_t dst_ld) {
  enum { kBand = 64 };
  const int64_t side = (int64_t)sizeof(square_row) / bytes;
  if (m < side || n < side) {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < m; ++i)
        memcpy(dst + (j * dst_ld + i) * bytes, src + (i * src_ld + j) * bytes, (size_t)bytes);
    return;
  }
  for (int64_t band = 0; band < m; band += kBand)
    for (int64_t j = 0; j < n; j += side)
      for (int64_t i = band; i < min_i64(m, band + kBand); i += side) {
        const int64_t row = min_i64(i, m - side), column = min_i64(j, n - side);
        transpose_square_of(bytes, src + (row * src_ld + column) * bytes, src_ld,
                            dst + (column * dst_ld + row) * bytes, dst_ld);
      }
}

void CARNOT_KERNEL(transpose_u16)(int64_t m, int64_t n, const uint16_t* src, int64_t src_ld,
                                  uint16_t* dst, int64_t dst_ld) {
  transpose_small(/*bytes=*/2, m, n, (const char*)src, src_ld, (char*)dst, dst_ld);
}

void CARNOT_KERNEL(transpose_u8)(int64_t m, int64_t n, const uint8_t* src, int64_t src_ld,
                                 uint8_t* dst, int64_t dst_ld) {
  transpose_small(/*bytes=*/1, m, n, (const char*)src, src_ld, (char*)dst, dst_ld);
}
