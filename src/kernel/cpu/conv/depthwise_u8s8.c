// Depthwise integer convolution: pairs of taps multiplied and added as int16, exactly.
#include "kernel/cpu/conv/depthwise_u8s8.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/store_int8.h"

enum { kPanel = 16 };

#if defined(__AVX512BW__)

// Two rows of 16 bytes as pairs of int16, channel by channel.
CARNOT_INLINE __m512i byte_pairs(const uint8_t* a, const uint8_t* b, int64_t left, bool is_signed) {
  const __mmask16 lanes = left >= kPanel ? 0xffff : v_lanes(left);
  const __m128i x = _mm_maskz_loadu_epi8(lanes, a), y = _mm_maskz_loadu_epi8(lanes, b);
  const __m256i pairs = _mm256_set_m128i(_mm_unpackhi_epi8(x, y), _mm_unpacklo_epi8(x, y));
  return is_signed ? _mm512_cvtepi8_epi16(pairs) : _mm512_cvtepu8_epi16(pairs);
}

CARNOT_INLINE void panel_sums(const uint8_t* const* taps, int64_t tap_count, int64_t at,
                              int64_t left, bool is_signed, const int16_t* weights, int32_t* sums) {
  __m512i acc = _mm512_setzero_si512();
  for (int64_t t = 0; t < tap_count; t += 2, weights += 2 * kPanel) {
    const __m512i x = byte_pairs(taps[t] + at, taps[t + 1] + at, left, is_signed);
    acc = _mm512_add_epi32(acc, _mm512_madd_epi16(x, _mm512_loadu_si512(weights)));
  }
  _mm512_storeu_si512(sums, acc);
}

#elif defined(__AVX2__)

CARNOT_INLINE __m128i load_bytes(const uint8_t* p, int64_t left) {
  if (left >= kPanel) return _mm_loadu_si128((const __m128i*)p);
  uint8_t bytes[kPanel] = {0};
  memcpy(bytes, p, (size_t)left);
  return _mm_loadu_si128((const __m128i*)bytes);
}

CARNOT_INLINE __m256i widen(__m128i x, bool is_signed) {
  return is_signed ? _mm256_cvtepi8_epi16(x) : _mm256_cvtepu8_epi16(x);
}

CARNOT_INLINE void panel_sums(const uint8_t* const* taps, int64_t tap_count, int64_t at,
                              int64_t left, bool is_signed, const int16_t* weights, int32_t* sums) {
  __m256i low = _mm256_setzero_si256(), high = low;
  for (int64_t t = 0; t < tap_count; t += 2, weights += 2 * kPanel) {
    const __m128i x = load_bytes(taps[t] + at, left), y = load_bytes(taps[t + 1] + at, left);
    const __m256i* w = (const __m256i*)weights;
    const __m256i a = widen(_mm_unpacklo_epi8(x, y), is_signed),
                  b = widen(_mm_unpackhi_epi8(x, y), is_signed);
    low = _mm256_add_epi32(low, _mm256_madd_epi16(a, _mm256_loadu_si256(w)));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(b, _mm256_loadu_si256(w + 1)));
  }
  _mm256_storeu_si256((__m256i*)sums, low);
  _mm256_storeu_si256((__m256i*)sums + 1, high);
}

#else

CARNOT_INLINE void panel_sums(const uint8_t* const* taps, int64_t tap_count, int64_t at,
                              int64_t left, bool is_signed, const int16_t* weights, int32_t* sums) {
  for (int64_t c = 0; c < kPanel; ++c) {
    int32_t sum = 0;
    for (int64_t t = 0; t < tap_count && c < left; ++t) {
      const uint8_t x = taps[t][at + c];
      sum += (is_signed ? (int8_t)x : x) * weights[t / 2 * 2 * kPanel + 2 * c + t % 2];
    }
    sums[c] = sum;
  }
}

#endif

// All channels of one pixel.
CARNOT_INLINE void pixel(const carnot_depthwise_u8s8* p, const uint8_t* const* taps,
                         int64_t tap_count, bool is_signed, int64_t m) {
  const int64_t panel = (tap_count + 1) / 2 * 2 * kPanel;
  int32_t sums[kMostSums];
  for (int64_t c = 0; c < p->c; c += kMostSums) {
    const int64_t count = min_i64(kMostSums, p->c - c);
    for (int64_t j = 0; j < count; j += kPanel) {
      panel_sums(taps, tap_count, c + j, count - j, is_signed,
                 p->weights + (c + j) / kPanel * panel, sums + j);
    }
    store_sums(&p->epilogue, p->dst, m * p->ld + c, m, c, count, sums);
  }
}

static void row_of_pixels(const carnot_depthwise_u8s8* p, int64_t row, bool is_signed) {
  const int64_t image = row / p->p, y = row % p->p, tap_count = p->r * p->s;
  const uint8_t* taps[CARNOT_DEPTHWISE_INT8_MAX_TAPS + 1];
  const uint8_t* src = (const uint8_t*)p->src + image * p->src_n;
  for (int64_t q = 0; q < p->q; ++q) {
    const uint8_t** out = taps;
    for (int64_t r = 0; r < p->r; ++r) {
      const int64_t h = y * p->stride_h + r * p->dilation_h - p->pad_h;
      int64_t w = q * p->stride_w - p->pad_w;
      for (int64_t s = 0; s < p->s; ++s, w += p->dilation_w) {
        const bool inside = (uint64_t)h < (uint64_t)p->h && (uint64_t)w < (uint64_t)p->w;
        *out++ = inside ? src + h * p->src_h + w * p->src_w : (const uint8_t*)p->border;
      }
    }
    *out = (const uint8_t*)p->border;  // the partner of an odd last tap has weight 0
    if (tap_count == 9) {
      pixel(p, taps, 9, is_signed, row * p->q + q);
    } else {
      pixel(p, taps, tap_count, is_signed, row * p->q + q);
    }
  }
}

void CARNOT_KERNEL(depthwise_u8s8)(const carnot_depthwise_u8s8* p, int64_t row0, int64_t row1) {
  for (int64_t row = row0; row < row1; ++row) {
    if (p->src_signed) {
      row_of_pixels(p, row, /*is_signed=*/true);
    } else {
      row_of_pixels(p, row, /*is_signed=*/false);
    }
  }
}
