// Depthwise convolution of bytes by 3x3 filters, 64 channels at a time; private to
// depthwise_u8s8.c. The three bytes of a channel under a column of the filter are one operand of a
// byte dot product. They are interleaved once a column of the input and serve every result that the
// column is under. Interleaved, vector k of four holds channels 16 L + 4 k to 16 L + 4 k + 3 in its
// lane L.
#ifndef CARNOT_KERNEL_CPU_CONV_DEPTHWISE_COLUMNS_U8S8_H_
#define CARNOT_KERNEL_CPU_CONV_DEPTHWISE_COLUMNS_U8S8_H_

#include "kernel/cpu/conv/depthwise_u8s8.h"
#include "kernel/cpu/gemm/store_int8.h"

typedef struct columns_u8s8 {
  const carnot_depthwise_u8s8* conv;
  int64_t c;  // the first channel
  int64_t count;
  __mmask64 mask;  // of channels that exist
  __m512i weights[3][4], bias[4];
  __m512 scale[4];
  bool is_plain;  // results are bytes without a residual, see takes_small
  bool is_float;  // results are float32 with no more than an offset and bounds
  row_bounds bounds;
  __m512 offset[4];
} columns_u8s8;

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
static void load_columns_u8s8(columns_u8s8* k) {
  enum { kPanelBytes = 3 * 128 };
  const int8_t* panel = k->conv->weights + k->c / 32 * kPanelBytes;
  for (int v = 0; v < 4; ++v) {
    __m512i fours[3];
    for (int t = 0; t < 3; ++t) {
      const int8_t* from = panel + t * 128 + v * 32;
      fours[t] = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i*)from));
      const __m256i high = k->count > 32 ? _mm256_loadu_si256((const __m256i*)(from + kPanelBytes))
                                         : _mm256_setzero_si256();
      fours[t] = _mm512_inserti64x4(fours[t], high, 1);
    }
    for (int s = 0; s < 3; ++s) {
      k->weights[s][v] = _mm512_setzero_si512();
      for (int r = 0; r < 3; ++r) {
        const int tap = 3 * r + s;
        k->weights[s][v] = _mm512_or_si512(k->weights[s][v], move_byte(fours[tap / 4], tap % 4, r));
      }
    }
  }
}

static columns_u8s8 columns_at(const carnot_depthwise_u8s8* p, int64_t c) {
  columns_u8s8 k = {.conv = p, .c = c, .count = min_i64(64, p->c - c)};
  const carnot_int8_epilogue* e = &p->epilogue;
  k.mask = ~UINT64_C(0) >> (64 - k.count);
  k.is_plain = takes_small(e) && form_of(e) == SMALL_PLAIN;
  k.bounds = bounds_of(e);
  k.is_float =
      e->output == CARNOT_INT8_OUTPUT_F32 && !e->residual_type && !e->is_twice && !k.bounds.later;
  load_columns_u8s8(&k);
  __m512i scale[4];
  for (int v = 0; v < 4; ++v) {
    const __mmask16 part = (__mmask16)(k.mask >> 16 * v);
    const bool fast = k.is_plain || k.is_float;
    k.bias[v] = fast && e->bias ? _mm512_maskz_loadu_epi32(part, e->bias + c + 16 * v)
                                : _mm512_setzero_si512();
    scale[v] =
        fast ? _mm512_maskz_loadu_epi32(part, e->scale + c + 16 * v) : _mm512_setzero_si512();
    k.offset[v] = k.is_float && e->offset ? _mm512_maskz_loadu_ps(part, e->offset + c + 16 * v)
                                          : _mm512_setzero_ps();
  }
  transpose_lanes(k.bias);  // added to interleaved sums
  if (!k.is_float) transpose_lanes(scale);
  for (int v = 0; v < 4; ++v) k.scale[v] = _mm512_castsi512_ps(scale[v]);
  return k;
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
    store_sums(e, p->dst, at, m, k->c, k->count, in_order);
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

// The bytes under three rows of one column.
CARNOT_INLINE void interleave(const columns_u8s8* k, const uint8_t* const* rows, __m512i flip,
                              __m512i* out) {
  __m512i x[3];
  CARNOT_UNROLL
  for (int r = 0; r < 3; ++r)
    x[r] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(k->mask, rows[r]), flip);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i a = _mm512_unpacklo_epi8(x[0], x[1]), b = _mm512_unpackhi_epi8(x[0], x[1]),
                c = _mm512_unpacklo_epi8(x[2], zero), d = _mm512_unpackhi_epi8(x[2], zero);
  out[0] = _mm512_unpacklo_epi16(a, c), out[1] = _mm512_unpackhi_epi16(a, c);
  out[2] = _mm512_unpacklo_epi16(b, d), out[3] = _mm512_unpackhi_epi16(b, d);
}

// Row |y| of results of an image from |src| on, the first of which is |m|. |stride| is 1 or 2:
// columns j of the padded input are tap 0 of result j / stride, and so on.
CARNOT_INLINE void row_of_columns(const columns_u8s8* k, const uint8_t* src, int64_t y, int64_t m,
                                  int stride) {
  const carnot_depthwise_u8s8* p = k->conv;
  const uint8_t* border = (const uint8_t*)p->border + k->c;
  const uint8_t* rows[3];
  int64_t step[3];
  for (int r = 0; r < 3; ++r) {
    const int64_t h = y * p->stride_h + r - p->pad_h;
    const bool inside = (uint64_t)h < (uint64_t)p->h;
    rows[r] = inside ? src + h * p->src_h + k->c : border;
    step[r] = inside ? p->src_w : 0;
  }
  const __m512i flip = _mm512_set1_epi8(p->src_signed ? (char)0x80 : 0);
  const int64_t last = (p->q - 1) * stride + 2;
  float* const kept = k->is_float ? p->epilogue.range : NULL;
  range_lanes range = load_range(kept);
  __m512i oldest[4], newest[4];
  for (int v = 0; v < 4; ++v) oldest[v] = newest[v] = k->bias[v];
  for (int64_t j = 0; j <= last; ++j) {
    const int64_t w = j - p->pad_w;
    const bool inside = (uint64_t)w < (uint64_t)p->w;
    const uint8_t* at[3];
    for (int r = 0; r < 3; ++r) at[r] = inside ? rows[r] + w * step[r] : border;
    __m512i x[4], done[4];
    interleave(k, at, flip, x);
    CARNOT_UNROLL
    for (int v = 0; v < 4; ++v) {
      if (stride == 1) {
        done[v] = _mm512_dpbusd_epi32(oldest[v], x[v], k->weights[2][v]);
        oldest[v] = _mm512_dpbusd_epi32(newest[v], x[v], k->weights[1][v]);
        newest[v] = _mm512_dpbusd_epi32(k->bias[v], x[v], k->weights[0][v]);
      } else if (j % 2) {
        newest[v] = _mm512_dpbusd_epi32(newest[v], x[v], k->weights[1][v]);
      } else {
        done[v] = _mm512_dpbusd_epi32(newest[v], x[v], k->weights[2][v]);
        newest[v] = _mm512_dpbusd_epi32(k->bias[v], x[v], k->weights[0][v]);
      }
    }
    if (j >= 2 && (stride == 1 || j % 2 == 0)) store_columns(k, m + (j - 2) / stride, done, &range);
  }
  store_range(range, kept);
}

// Whether the sizes are those of this loop.
CARNOT_INLINE bool takes_columns(const carnot_depthwise_u8s8* p) {
  return p->r == 3 && p->s == 3 && p->dilation_h == 1 && p->dilation_w == 1 && p->stride_w <= 2;
}

static void run_columns(const carnot_depthwise_u8s8* p, int64_t row0, int64_t row1) {
  for (int64_t c = 0; c < p->c; c += 64) {
    const columns_u8s8 k = columns_at(p, c);
    for (int64_t row = row0; row < row1; ++row) {
      const uint8_t* src = (const uint8_t*)p->src + row / p->p * p->src_n;
      if (p->stride_w == 1)
        row_of_columns(&k, src, row % p->p, row * p->q, 1);
      else
        row_of_columns(&k, src, row % p->p, row * p->q, 2);
    }
  }
}

#endif
