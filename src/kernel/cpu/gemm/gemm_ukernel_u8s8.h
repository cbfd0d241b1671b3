// The INT8 micro-kernel (register tile) by VNNI and in plain C; private to gemm_u8s8.c.
//   sums[i * kSumLd + j] = bias[j] + sum_{t,k} (rows[t * row_count + i][k] ^ (flip ? 0x80 : 0)) *
//   b[t, k, j]
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_U8S8_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_U8S8_H_

#include "kernel/cpu/common/simd.h"
#include "kernel/cpu/gemm/loop_u8s8.h"

// Bytes fetched into L2 meanwhile, |step| for each 4 bytes of a row.
typedef struct fetch_stream {
  const uint8_t* at;
  int64_t step;
} fetch_stream;

enum { kFlip = (int)0x80808080u };  // turns s8 into u8 by adding 128

typedef struct gemm_ukernel_u8s8 {
  const uint8_t* const* rows;
  int64_t taps, depth;  // bytes of a row under a tap
  const int8_t* b;
  int64_t b_panel;      // bytes from one panel to the next
  const int32_t* bias;  // a number for each column of the tile
  int32_t* sums;
  // Weights and pixels of later tiles.
  fetch_stream weights, pixels;
} gemm_ukernel_u8s8;

#if defined(__AVX512VNNI__)

#define TILE_ROWS   14
#define TILE_PANELS 2

// Pointers and counters that the compiler shall neither gather in a vector nor replace by others:
// there are no registers left.
#define KEEP_SCALAR(x)    __asm__("" : "+r"(x))
#define KEEP_IN_MEMORY(x) __asm__("" : "+m"(x))

CARNOT_INLINE void tile_step(int row_count, int panels, const int8_t* b, int64_t b_panel,
                             const uint32_t* a, uint32_t flip, __m512i* acc) {
  __m512i bv[TILE_PANELS];
  CARNOT_UNROLL
  for (int j = 0; j < panels; ++j) bv[j] = _mm512_loadu_si512(b + j * b_panel);
  CARNOT_UNROLL
  for (int x = 0; x < row_count * panels; ++x) {
    const __m512i av = _mm512_set1_epi32((int32_t)(a[x / panels] ^ flip));
    acc[x] = _mm512_dpbusd_epi32(acc[x], av, bv[x % panels]);
  }
}

// Unsigned rows broadcast straight from memory, signed ones are flipped on the way.
CARNOT_INLINE void tile_tap(int row_count, int panels, bool flip, const gemm_ukernel_u8s8* t,
                            int64_t tap, __m512i* acc) {
  const uint8_t* row[TILE_ROWS];
  CARNOT_UNROLL
  for (int i = 0; i < row_count; ++i) {
    row[i] = t->rows[tap * row_count + i];
    KEEP_SCALAR(row[i]);
  }
  const __m512i mask = _mm512_set1_epi32(kFlip);
  const int64_t steps = (t->depth + 3) / 4 * tap;
  const int8_t* b = t->b + steps * 64;
  const uint8_t *weights = t->weights.at + steps * t->weights.step,
                *pixels = t->pixels.at + steps * t->pixels.step;
  int64_t k = 0, panel = t->b_panel, weights_step = t->weights.step, pixels_step = t->pixels.step;
  for (; k + 4 <= t->depth; k += 4, b += 64) {
    __m512i bv[TILE_PANELS];
    KEEP_SCALAR(k);
    KEEP_IN_MEMORY(panel);
    KEEP_IN_MEMORY(weights_step);
    KEEP_IN_MEMORY(pixels_step);
    CARNOT_UNROLL
    for (int j = 0; j < panels; ++j) bv[j] = _mm512_loadu_si512(b + j * panel);
    _mm_prefetch((const char*)weights, _MM_HINT_T1);
    _mm_prefetch((const char*)pixels, _MM_HINT_T1);
    weights += weights_step, pixels += pixels_step;
    CARNOT_UNROLL
    for (int x = 0; x < row_count * panels; ++x) {
      __m512i av = _mm512_set1_epi32((int32_t)bytes4(row[x / panels] + k));
      if (flip) av = _mm512_xor_si512(av, mask);
      acc[x] = _mm512_dpbusd_epi32(acc[x], av, bv[x % panels]);
    }
  }
  if (k < t->depth) {
    uint32_t a[TILE_ROWS];
    for (int i = 0; i < row_count; ++i) a[i] = bytes_left(row[i] + k, t->depth - k);
    tile_step(row_count, panels, b, t->b_panel, a, flip ? kFlip : 0, acc);
  }
}

CARNOT_INLINE void tile_body(int row_count, int panels, bool flip, const gemm_ukernel_u8s8* t) {
  __m512i acc[TILE_ROWS * TILE_PANELS];
  CARNOT_UNROLL
  for (int x = 0; x < row_count * panels; ++x) {
    acc[x] = _mm512_loadu_si512(t->bias + x % panels * 16);
  }
  for (int64_t tap = 0; tap < t->taps; ++tap) tile_tap(row_count, panels, flip, t, tap, acc);
  CARNOT_UNROLL
  for (int x = 0; x < row_count * panels; ++x) {
    _mm512_storeu_si512(t->sums + x / panels * kSumLd + x % panels * 16, acc[x]);
  }
}

#else

#define TILE_ROWS   2
#define TILE_PANELS 1

CARNOT_INLINE void tile_body(int row_count, int panels, bool flip, const gemm_ukernel_u8s8* t) {
  (void)panels;
  const int64_t tap_bytes = (t->depth + 3) / 4 * 64;
  for (int i = 0; i < row_count; ++i) {
    int32_t acc[16];
    memcpy(acc, t->bias, sizeof acc);
    for (int64_t tap = 0; tap < t->taps; ++tap) {
      const uint8_t* row = t->rows[tap * row_count + i];
      for (int64_t k = 0; k < t->depth; ++k) {
        const int32_t a = flip ? row[k] ^ 0x80 : row[k];
        const int8_t* b = t->b + tap * tap_bytes + k / 4 * 64 + k % 4;
        for (int j = 0; j < 16; ++j) acc[j] += a * b[4 * j];
      }
    }
    memcpy(t->sums + i * kSumLd, acc, sizeof acc);
  }
}

#endif
#endif
