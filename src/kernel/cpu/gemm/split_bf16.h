// Splitting of float32 numbers in bfloat16 parts: in three by truncation, x = x0 + x1 + x2 exactly,
// or in two that are nearest to x and to what x0 leaves of it.
// Private to the kernels that multiply the parts.
#ifndef CARNOT_KERNEL_CPU_GEMM_SPLIT_BF16_H_
#define CARNOT_KERNEL_CPU_GEMM_SPLIT_BF16_H_

#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // the latter: clang before 15

#include <math.h>

#include "kernel/cpu/common/simd.h"
#include "kernel/cpu/gemm/pack_split.h"

// Magnitudes seen, per lane: bits of |x| twice, greatest, of all rows and of the row that is read;
// and the least of those less one, so that zeros are passed over.
typedef struct split_range {
  __m512i greatest, row, least;
  uint32_t floor;  // a magnitude in the same form, see split_floor
  bool is_below;   // the greatest of some row is less, and not zero
} split_range;

CARNOT_INLINE split_range split_range_none(uint32_t floor) {
  return (split_range){_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_set1_epi32(-1), floor,
                       false};
}

CARNOT_INLINE void split_range_add(split_range* r, __m512 x) {
  const __m512i twice = _mm512_slli_epi32((__m512i)x, 1);
  r->row = _mm512_max_epu32(r->row, twice);
  r->least = _mm512_min_epu32(r->least, _mm512_sub_epi32(twice, _mm512_set1_epi32(1)));
}

CARNOT_INLINE void split_range_end_row(split_range* r) {
  const __m512i floor = _mm512_set1_epi32((int32_t)r->floor);
  const bool any = _mm512_test_epi32_mask(r->row, r->row),
             reaches = _mm512_cmpge_epu32_mask(r->row, floor);
  r->is_below |= any && !reaches;
  r->greatest = _mm512_max_epu32(r->greatest, r->row);
  r->row = _mm512_setzero_si512();
}

static inline double split_greatest(const split_range* r) {
  const uint32_t bits = _mm512_reduce_max_epu32(r->greatest) >> 1;
  float x;
  memcpy(&x, &bits, sizeof x);
  return isfinite(x) ? x : INFINITY;
}

// Of the numbers that are not zero; 1 where all are.
static inline double split_least(const split_range* r) {
  const uint32_t found = _mm512_reduce_min_epu32(r->least), bits = (found + 1) >> 1;
  float x;
  memcpy(&x, &bits, sizeof x);
  return found == UINT32_MAX ? 1 : x;
}

// Tile instructions treat subnormal operands as zero and flush subnormal results, which changes
// each of |k| terms by less than 2^-122 max(1, |b|). Where no b is zero, a row of A that has a
// number of this magnitude has terms beside which that is less than float32 rounds. Twice its bits.
static inline uint32_t split_floor(const carnot_split_range* b, int64_t k) {
  const double most = b->greatest > 1 ? b->greatest : 1,
               floor = (double)k * 0x1p-98 * most / (double)b->least;
  if (!b->none_is_zero || !(floor < 0x1p126)) return UINT32_MAX;
  const float x = floor > 0x1p-126 ? (float)floor : 0x1p-126f;
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits << 1;
}

// Whether sums of |k| products of numbers in these ranges come out as with float32 multiply-adds:
// nothing is infinite or NaN, nothing overflows, and nothing is flushed, or too little to count.
static inline bool split_is_exact(const split_range* a, const carnot_split_range* b, int64_t k) {
  const double greatest = split_greatest(a), least = split_least(a) * b->least;
  return greatest < 0x1p127 && greatest * b->greatest * (double)k < 0x1p126 &&
         (least >= 0x1p-100 || (a->floor < UINT32_MAX && !a->is_below));
}

// 16 pairs (low, high) as |parts| vectors of pairs of bfloat16, low in the lower halves.
CARNOT_INLINE void split_pairs(int parts, __m512 low, __m512 high, __m512i* out) {
  const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
  CARNOT_UNROLL
  for (int i = 0; i < parts; ++i) {
    __m512i l = (__m512i)low, h = (__m512i)high;
    if (parts == 2) {
      l = _mm512_add_epi32(l, _mm512_set1_epi32(0x8000));
      h = _mm512_add_epi32(h, _mm512_set1_epi32(0x8000));
    }
    // (l >> 16) | (h & upper)
    out[i] = _mm512_ternarylogic_epi32(_mm512_srli_epi32(l, 16), h, upper, 0xf8);
    low = _mm512_sub_ps(low, (__m512)_mm512_and_si512(l, upper));
    high = _mm512_sub_ps(high, (__m512)_mm512_and_si512(h, upper));
  }
}

#endif
#endif
