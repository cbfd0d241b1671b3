// Depthwise convolution of bytes by 3x3 and 5x5 filters, 64 channels at a time by byte dot products
// (VNNI) or 32 by vpmaddwd (AVX2); private to depthwise_u8s8.c. The bytes of a channel under a
// column of the filter are the operands of one or more dot products, each of a group of rows: four
// of bytes, or two that are extended to 16 bits. They are interleaved once a column of the input
// and serve every result that the column is under. Interleaved, vector k of four holds channels 16
// L + 4 k to 16 L + 4 k + 3 in its lane L; by vpmaddwd, vector 2 h + k of four holds channels 16 h
// + 8 L + 4 k to 16 h + 8 L + 4 k + 3. Functions take the side of the filter as a constant.
#ifndef CARNOT_KERNEL_CPU_CONV_DEPTHWISE_COLUMNS_U8S8_H_
#define CARNOT_KERNEL_CPU_CONV_DEPTHWISE_COLUMNS_U8S8_H_

#include "kernel/cpu/conv/depthwise_u8s8.h"
#include "kernel/cpu/gemm/store_int8.h"

#if defined(__AVX512VNNI__)
typedef __m512i column_sums;
typedef __m512 column_floats;
#define ADD_DOT(sum, x, weights) _mm512_dpbusd_epi32(sum, x, weights)
#define EACH_BYTE(x)             _mm512_set1_epi8(x)
enum { kChannels = 64, kGroupRows = 4, kPartVectors = 4 };
#else
typedef __m256i column_sums;
typedef __m256 column_floats;
#define ADD_DOT(sum, x, weights) _mm256_add_epi32(sum, _mm256_madd_epi16(x, weights))
#define EACH_BYTE(x)             _mm256_set1_epi8(x)
enum { kChannels = 32, kGroupRows = 2, kPartVectors = 2 };  // 16 registers hold a half
#endif

enum { kMostSide = 5, kMostGroups = (kMostSide + kGroupRows - 1) / kGroupRows };

typedef struct columns_u8s8 {
  const carnot_depthwise_u8s8* conv;
  int64_t c;  // the first channel
  int64_t count;
  column_sums weights[kMostSide][kMostGroups][4], bias[4];
  column_floats scale[4];
  bool is_plain;  // results are bytes without a residual, see takes_small
  bool is_float;  // results are float32 with no more than an offset and bounds
  row_bounds bounds;
#if defined(__AVX512VNNI__)
  __mmask64 mask;  // of channels that exist
  __m512 offset[4];
#endif
} columns_u8s8;

CARNOT_INLINE int groups_of(int side) { return (side + kGroupRows - 1) / kGroupRows; }

#if defined(__AVX512VNNI__)

// Four vectors as a 4x4 matrix of lanes, transposed: from channels in order to interleaved ones and
// back.
CARNOT_INLINE void transpose_lanes(__m512i* x) {
  const __m512i a = _mm512_shuffle_i32x4(x[0], x[1], 0x44),
                b = _mm512_shuffle_i32x4(x[0], x[1], 0xee),
                c = _mm512_shuffle_i32x4(x[2], x[3], 0x44),
                d = _mm512_shuffle_i32x4(x[2], x[3], 0xee);
  x[0] = _mm512_shuffle_i32x4(a, c, 0x88), x[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
  x[2] = _mm512_shuffle_i32x4(b, d, 0x88), x[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

// Byte |from| of each four to byte |to|.
CARNOT_INLINE __m512i move_byte(__m512i x, int from, int to) {
  const __m512i byte =
      _mm512_and_si512(_mm512_srl_epi32(x, _mm_cvtsi32_si128(8 * from)), _mm512_set1_epi32(255));
  return _mm512_sll_epi32(byte, _mm_cvtsi32_si128(8 * to));
}

// The taps of a column of the filter, from the fours of taps of t4n32.
CARNOT_INLINE void load_columns_u8s8(int side, columns_u8s8* k) {
  enum { kMostFours = (kMostSide * kMostSide + 3) / 4 };
  const int four_count = (side * side + 3) / 4;
  const int8_t* panel = k->conv->weights + k->c / 32 * four_count * 128;
  for (int v = 0; v < 4; ++v) {
    __m512i fours[kMostFours];
    CARNOT_UNROLL
    for (int t = 0; t < four_count; ++t) {
      const int8_t* from = panel + t * 128 + v * 32;
      const __m256i low = _mm256_loadu_si256((const __m256i*)from),
                    high = k->count > 32
                               ? _mm256_loadu_si256((const __m256i*)(from + four_count * 128))
                               : _mm256_setzero_si256();
      fours[t] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    CARNOT_UNROLL
    for (int s = 0; s < side; ++s) {
      __m512i groups[kMostGroups] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
      CARNOT_UNROLL
      for (int r = 0; r < side; ++r) {
        const int tap = side * r + s;
        groups[r / kGroupRows] = _mm512_or_si512(
            groups[r / kGroupRows], move_byte(fours[tap / 4], tap % 4, r % kGroupRows));
      }
      CARNOT_UNROLL
      for (int g = 0; g < groups_of(side); ++g) k->weights[s][g][v] = groups[g];
    }
  }
}

CARNOT_INLINE void set_columns(int side, const carnot_depthwise_u8s8* p, int64_t c,
                               columns_u8s8* k) {
  const carnot_int8_epilogue* e = &p->epilogue;
  k->conv = p, k->c = c, k->count = min_i64(64, p->c - c);
  k->mask = ~UINT64_C(0) >> (64 - k->count);
  k->is_plain = takes_small(e) && form_of(e) == SMALL_PLAIN;
  k->bounds = bounds_of(e);
  k->is_float =
      e->output == CARNOT_INT8_OUTPUT_F32 && !e->residual_type && !e->is_twice && !k->bounds.later;
  load_columns_u8s8(side, k);
  __m512i scale[4];
  for (int v = 0; v < 4; ++v) {
    const __mmask16 part = (__mmask16)(k->mask >> 16 * v);
    const bool fast = k->is_plain || k->is_float;
    k->bias[v] = fast && e->bias ? _mm512_maskz_loadu_epi32(part, e->bias + c + 16 * v)
                                 : _mm512_setzero_si512();
    scale[v] =
        fast ? _mm512_maskz_loadu_epi32(part, e->scale + c + 16 * v) : _mm512_setzero_si512();
    k->offset[v] = k->is_float && e->offset ? _mm512_maskz_loadu_ps(part, e->offset + c + 16 * v)
                                            : _mm512_setzero_ps();
  }
  transpose_lanes(k->bias);  // added to interleaved sums
  if (!k->is_float) transpose_lanes(scale);
  for (int v = 0; v < 4; ++v) k->scale[v] = _mm512_castsi512_ps(scale[v]);
}

// Stores the sums of result |m| as float32.
CARNOT_INLINE void store_float_columns(const columns_u8s8* k, int64_t m, __m512i* sums,
                                       range_lanes* range) {
  float* dst = (float*)k->conv->dst + m * k->conv->ld + k->c;
  const bool has_offset = k->conv->epilogue.offset != NULL;
  transpose_lanes(sums);
  CARNOT_UNROLL
  for (int v = 0; v < 4; ++v) {
    const __mmask16 part = (__mmask16)(k->mask >> 16 * v);
    __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[v]), k->scale[v]);
    if (has_offset) y = _mm512_add_ps(y, k->offset[v]);
    if (k->bounds.any) y = v_min_to(k->bounds.hi, v_max_to(k->bounds.lo, y));
    _mm512_mask_storeu_ps(dst + 16 * v, part, y);
    extend(range, _mm512_maskz_mov_ps(part, y));
  }
}

// Stores the sums of result |m|.
CARNOT_INLINE void store_columns(const columns_u8s8* k, int64_t m, __m512i* sums,
                                 range_lanes* range) {
  const carnot_depthwise_u8s8* p = k->conv;
  const carnot_int8_epilogue* e = &p->epilogue;
  const int64_t at = m * p->ld + k->c;
  if (k->is_float) {
    store_float_columns(k, m, sums, range);
    return;
  }
  if (!k->is_plain) {
    int32_t in_order[kMostSums] __attribute__((aligned(64)));
    transpose_lanes(sums);
    for (int v = 0; v < 4; ++v) _mm512_store_si512(in_order + 16 * v, sums[v]);
    store_sums(e, e->bias, p->dst, at, m, k->c, k->count, in_order);
    return;
  }
  CARNOT_UNROLL
  for (int v = 0; v < 4; ++v)
    sums[v] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[v]), k->scale[v]));
  const bool is_signed = e->output == CARNOT_INT8_OUTPUT_S8;
  const __m512i z = _mm512_set1_epi16((int16_t)e->zero_point),
                a = _mm512_adds_epi16(_mm512_packs_epi32(sums[0], sums[1]), z),
                b = _mm512_adds_epi16(_mm512_packs_epi32(sums[2], sums[3]), z);
  const __m512i lo = _mm512_set1_epi8((char)e->low), hi = _mm512_set1_epi8((char)e->high);
  const __m512i y = is_signed ? _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(a, b), lo), hi)
                              : _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a, b), lo), hi);
  _mm512_mask_storeu_epi8((uint8_t*)p->dst + at, k->mask, y);
}

// The bytes under the rows of one column, in groups of four vectors.
CARNOT_INLINE void interleave(int side, const columns_u8s8* k, const uint8_t* const* rows,
                              __m512i flip, int v, __m512i out[kMostGroups][kPartVectors]) {
  (void)v;
  const __m512i zero = _mm512_setzero_si512();
  CARNOT_UNROLL
  for (int g = 0; g < groups_of(side); ++g) {
    __m512i x[4];
    CARNOT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = 4 * g + i;
      x[i] = r < side ? _mm512_xor_si512(_mm512_maskz_loadu_epi8(k->mask, rows[r]), flip) : zero;
    }
    const __m512i a = _mm512_unpacklo_epi8(x[0], x[1]), b = _mm512_unpackhi_epi8(x[0], x[1]),
                  c = _mm512_unpacklo_epi8(x[2], x[3]), d = _mm512_unpackhi_epi8(x[2], x[3]);
    out[g][0] = _mm512_unpacklo_epi16(a, c), out[g][1] = _mm512_unpackhi_epi16(a, c);
    out[g][2] = _mm512_unpacklo_epi16(b, d), out[g][3] = _mm512_unpackhi_epi16(b, d);
  }
}

#else

// Sums from interleaved to channels in order.
CARNOT_INLINE void order_sums(const __m256i* x, __m256i* out) {
  CARNOT_UNROLL
  for (int h = 0; h < 4; h += 2) {
    out[h] = _mm256_permute2x128_si256(x[h], x[h + 1], 0x20);
    out[h + 1] = _mm256_permute2x128_si256(x[h], x[h + 1], 0x31);
  }
}

// The first |count| of 32 numbers, interleaved; 0 for the others and without |from|.
CARNOT_INLINE void interleave_numbers(const void* from, int64_t count, __m256i* out) {
  int32_t all[kChannels] = {0};
  if (from) memcpy(all, from, (size_t)count * sizeof *all);
  for (int v = 0; v < 4; ++v) {
    const int32_t* low = all + v / 2 * 16 + v % 2 * 4;
    out[v] = _mm256_set_m128i(_mm_loadu_si128((const __m128i*)(low + 8)),
                              _mm_loadu_si128((const __m128i*)low));
  }
}

// Byte |from| of each four, with its sign in 32 bits.
CARNOT_INLINE __m256i tap_of_four(__m256i x, int from) {
  return _mm256_srai_epi32(_mm256_sll_epi32(x, _mm_cvtsi32_si128(24 - 8 * from)), 24);
}

// The taps of a column of the filter, from the fours of taps of t4n32.
CARNOT_INLINE void load_columns_u8s8(int side, columns_u8s8* k) {
  enum { kMostFours = (kMostSide * kMostSide + 3) / 4 };
  const int four_count = (side * side + 3) / 4;
  const int8_t* panel = k->conv->weights + k->c / 32 * four_count * 128;
  for (int v = 0; v < 4; ++v) {
    __m256i fours[kMostFours];
    CARNOT_UNROLL
    for (int t = 0; t < four_count; ++t) {
      const int8_t* from = panel + t * 128 + v % 2 * 32 + v / 2 * 16;
      fours[t] = _mm256_set_m128i(_mm_loadu_si128((const __m128i*)(from + 64)),
                                  _mm_loadu_si128((const __m128i*)from));
    }
    CARNOT_UNROLL
    for (int s = 0; s < side; ++s) {
      CARNOT_UNROLL
      for (int r = 0; r < side; r += 2) {
        const int tap = side * r + s, next = r + 1 < side ? tap + side : tap;
        const __m256i low = tap_of_four(fours[tap / 4], tap % 4),
                      high = r + 1 < side ? tap_of_four(fours[next / 4], next % 4)
                                          : _mm256_setzero_si256();
        k->weights[s][r / 2][v] = _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa);
      }
    }
  }
}

CARNOT_INLINE void set_columns(int side, const carnot_depthwise_u8s8* p, int64_t c,
                               columns_u8s8* k) {
  const carnot_int8_epilogue* e = &p->epilogue;
  __m256i scale[4];
  k->conv = p, k->c = c, k->count = min_i64(kChannels, p->c - c);
  k->is_plain = takes_small(e) && form_of(e) == SMALL_PLAIN;
  k->is_float = false;
  load_columns_u8s8(side, k);
  interleave_numbers(k->is_plain && e->bias ? e->bias + c : NULL, k->count, k->bias);
  interleave_numbers(k->is_plain ? e->scale + c : NULL, k->count, scale);
  for (int v = 0; v < 4; ++v) k->scale[v] = _mm256_castsi256_ps(scale[v]);
}

// Stores the sums of result |m|.
CARNOT_INLINE void store_columns(const columns_u8s8* k, int64_t m, __m256i* sums,
                                 range_lanes* range) {
  const carnot_depthwise_u8s8* p = k->conv;
  const carnot_int8_epilogue* e = &p->epilogue;
  const int64_t at = m * p->ld + k->c;
  (void)range;
  if (!k->is_plain) {
    int32_t in_order[kMostSums] __attribute__((aligned(64)));
    __m256i ordered[4];
    order_sums(sums, ordered);
    for (int v = 0; v < 4; ++v) _mm256_store_si256((__m256i*)in_order + v, ordered[v]);
    store_sums(e, e->bias, p->dst, at, m, k->c, k->count, in_order);
    return;
  }
  CARNOT_UNROLL
  for (int v = 0; v < 4; ++v)
    sums[v] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(sums[v]), k->scale[v]));
  const bool is_signed = e->output == CARNOT_INT8_OUTPUT_S8;
  const __m256i z = _mm256_set1_epi16((int16_t)e->zero_point),
                a = _mm256_adds_epi16(_mm256_packs_epi32(sums[0], sums[1]), z),
                b = _mm256_adds_epi16(_mm256_packs_epi32(sums[2], sums[3]), z);
  const __m256i lo = _mm256_set1_epi8((char)e->low), hi = _mm256_set1_epi8((char)e->high);
  __m256i y = is_signed ? _mm256_min_epi8(_mm256_max_epi8(_mm256_packs_epi16(a, b), lo), hi)
                        : _mm256_min_epu8(_mm256_max_epu8(_mm256_packus_epi16(a, b), lo), hi);
  y = _mm256_permute4x64_epi64(y, 0xd8);
  if (k->count == kChannels) {
    _mm256_storeu_si256((__m256i*)((uint8_t*)p->dst + at), y);
  } else {
    uint8_t bytes[kChannels];
    _mm256_storeu_si256((__m256i*)bytes, y);
    memcpy((uint8_t*)p->dst + at, bytes, (size_t)k->count);
  }
}

// 16 channels of which |left| exist, extended to 16 bits.
CARNOT_INLINE __m256i load_channels(const uint8_t* p, int64_t left, __m128i flip) {
  __m128i x = _mm_setzero_si128();
  if (left >= 16) {
    x = _mm_loadu_si128((const __m128i*)p);
  } else if (left > 0) {
    uint8_t bytes[16] = {0};
    memcpy(bytes, p, (size_t)left);
    x = _mm_loadu_si128((const __m128i*)bytes);
  }
  return _mm256_cvtepu8_epi16(_mm_xor_si128(x, flip));
}

// The bytes under the rows of one column: vectors v and v + 1.
CARNOT_INLINE void interleave(int side, const columns_u8s8* k, const uint8_t* const* rows,
                              __m256i flip, int v, __m256i out[kMostGroups][kPartVectors]) {
  const __m128i flip16 = _mm256_castsi256_si128(flip);
  const int64_t c = 8 * v, left = k->count - c;
  CARNOT_UNROLL
  for (int g = 0; g < groups_of(side); ++g) {
    const __m256i a = load_channels(rows[2 * g] + c, left, flip16),
                  b = 2 * g + 1 < side ? load_channels(rows[2 * g + 1] + c, left, flip16)
                                       : _mm256_setzero_si256();
    out[g][0] = _mm256_unpacklo_epi16(a, b), out[g][1] = _mm256_unpackhi_epi16(a, b);
  }
}

#endif

// |sum| and a column of bytes multiplied by column |s| of the filter.
CARNOT_INLINE column_sums add_column(int side, const columns_u8s8* k, column_sums sum,
                                     column_sums x[kMostGroups][kPartVectors], int s, int v) {
  CARNOT_UNROLL
  for (int g = 0; g < groups_of(side); ++g)
    sum = ADD_DOT(sum, x[g][v % kPartVectors], k->weights[s][g][v]);
  return sum;
}

// Row |y| of results of an image from |src| on, the first of which is |m|. |stride| is 1 or 2:
// columns j of the padded input are tap 0 of result j / stride, and so on.
CARNOT_INLINE void row_of_columns(int side, const columns_u8s8* k, const uint8_t* src, int64_t y,
                                  int64_t m, int stride) {
  const carnot_depthwise_u8s8* p = k->conv;
  const uint8_t* border = (const uint8_t*)p->border + k->c;
  const uint8_t* rows[kMostSide];
  int64_t step[kMostSide];
  CARNOT_UNROLL
  for (int r = 0; r < side; ++r) {
    const int64_t h = y * p->stride_h + r - p->pad_h;
    const bool inside = (uint64_t)h < (uint64_t)p->h;
    rows[r] = inside ? src + h * p->src_h + k->c : border;
    step[r] = inside ? p->src_w : 0;
  }
  const column_sums flip = EACH_BYTE(p->src_signed ? (char)0x80 : 0);
  const int64_t last = (p->q - 1) * stride + side - 1;
  const int open = (side - 1) / stride;  // results whose sums have begun, the newest first
  float* const kept = k->is_float ? p->epilogue.range : NULL;
  range_lanes range = load_range(kept);
  column_sums sums[kMostSide - 1][4];
  CARNOT_UNROLL
  for (int i = 0; i < open; ++i)
    for (int v = 0; v < 4; ++v) sums[i][v] = k->bias[v];
  for (int64_t j = 0; j <= last; ++j) {
    const int64_t w = j - p->pad_w;
    const bool inside = (uint64_t)w < (uint64_t)p->w;
    const uint8_t* at[kMostSide];
    CARNOT_UNROLL
    for (int r = 0; r < side; ++r) at[r] = inside ? rows[r] + w * step[r] : border;
    column_sums x[kMostGroups][kPartVectors], done[4];
    CARNOT_UNROLL
    for (int v = 0; v < 4; ++v) {
      if (v % kPartVectors == 0) interleave(side, k, at, flip, v, x);
      if (stride == 2 && j % 2) {
        CARNOT_UNROLL
        for (int i = 0; i < open; ++i)
          sums[i][v] = add_column(side, k, sums[i][v], x, 2 * i + 1, v);
        continue;
      }
      done[v] = add_column(side, k, sums[open - 1][v], x, side - 1, v);
      CARNOT_UNROLL
      for (int i = open - 1; i > 0; --i)
        sums[i][v] = add_column(side, k, sums[i - 1][v], x, stride * i, v);
      sums[0][v] = add_column(side, k, k->bias[v], x, 0, v);
    }
    if (j >= side - 1 && (stride == 1 || j % 2 == 0))
      store_columns(k, m + (j - side + 1) / stride, done, &range);
  }
  store_range(range, kept);
}

// Whether the sizes are those of this loop.
CARNOT_INLINE bool takes_columns(const carnot_depthwise_u8s8* p) {
  return p->r == p->s && (p->r == 3 || p->r == 5) && p->dilation_h == 1 && p->dilation_w == 1 &&
         p->stride_w <= 2;
}

CARNOT_INLINE void run_columns_of(int side, int stride, const carnot_depthwise_u8s8* p,
                                  int64_t row0, int64_t row1) {
  for (int64_t c = 0; c < p->c; c += kChannels) {
    columns_u8s8 k;
    set_columns(side, p, c, &k);
    for (int64_t row = row0; row < row1; ++row) {
      const uint8_t* src = (const uint8_t*)p->src + row / p->p * p->src_n;
      row_of_columns(side, &k, src, row % p->p, row * p->q, stride);
    }
  }
}

static void run_columns(const carnot_depthwise_u8s8* p, int64_t row0, int64_t row1) {
  const bool is_dense = p->stride_w == 1;
  if (p->r == 3)
    is_dense ? run_columns_of(3, 1, p, row0, row1) : run_columns_of(3, 2, p, row0, row1);
  else
    is_dense ? run_columns_of(5, 1, p, row0, row1) : run_columns_of(5, 2, p, row0, row1);
}

#endif
