// Depthwise integer convolution: four taps of 32 channels at a time, interleaved to the order of
// byte dot products.
#include "kernel/cpu/conv/depthwise_u8s8.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/store_int8.h"

#if defined(__AVX2__)
#include "kernel/cpu/conv/depthwise_columns_u8s8.h"
#endif

enum { kPanel = 32 };

#if defined(__AVX2__)

CARNOT_INLINE __m256i load_panel(const uint8_t* p, int64_t left) {
  if (left >= kPanel) return _mm256_loadu_si256((const __m256i*)p);
#if defined(__AVX512BW__)
  return _mm256_maskz_loadu_epi8((__mmask32)((UINT64_C(1) << left) - 1), p);
#else
  uint8_t bytes[kPanel] = {0};
  memcpy(bytes, p, (size_t)left);
  return _mm256_loadu_si256((const __m256i*)bytes);
#endif
}

// |out|[j] holds, for channels 4j to 4j + 3 of each half of the panel, the bytes of the four taps.
CARNOT_INLINE void load_four(const uint8_t* const* taps, int64_t at, int64_t left, __m256i flip,
                             __m256i* out) {
  __m256i x[4];
  CARNOT_UNROLL
  for (int t = 0; t < 4; ++t) x[t] = _mm256_xor_si256(load_panel(taps[t] + at, left), flip);
  const __m256i a = _mm256_unpacklo_epi8(x[0], x[1]), b = _mm256_unpackhi_epi8(x[0], x[1]),
                c = _mm256_unpacklo_epi8(x[2], x[3]), d = _mm256_unpackhi_epi8(x[2], x[3]);
  out[0] = _mm256_unpacklo_epi16(a, c), out[1] = _mm256_unpackhi_epi16(a, c);
  out[2] = _mm256_unpacklo_epi16(b, d), out[3] = _mm256_unpackhi_epi16(b, d);
}

#if defined(__AVX512VNNI__)

CARNOT_INLINE void panel_sums(const uint8_t* const* taps, int64_t tap_count, int64_t at,
                              int64_t left, bool is_signed, const int8_t* weights, int32_t* sums) {
  const __m256i flip = _mm256_set1_epi8(is_signed ? (char)0x80 : 0);
  __m256i acc[4];
  CARNOT_UNROLL
  for (int j = 0; j < 4; ++j) acc[j] = _mm256_setzero_si256();
  for (int64_t t = 0; t < tap_count; t += 4, weights += 128) {
    __m256i x[4];
    load_four(taps + t, at, left, flip, x);
    CARNOT_UNROLL
    for (int j = 0; j < 4; ++j) {
      acc[j] =
          _mm256_dpbusd_epi32(acc[j], x[j], _mm256_loadu_si256((const __m256i*)(weights + 32 * j)));
    }
  }
  CARNOT_UNROLL
  for (int j = 0; j < 4; ++j) {
    _mm_storeu_si128((__m128i*)(sums + 4 * j), _mm256_castsi256_si128(acc[j]));
    _mm_storeu_si128((__m128i*)(sums + 16 + 4 * j), _mm256_extracti128_si256(acc[j], 1));
  }
}

#else

// Without a byte dot product: bytes widened to int16, pairs of taps multiplied and added exactly.
CARNOT_INLINE __m256i pair_sums(__m128i x, const int8_t* weights) {
  const __m128i w = _mm_loadu_si128((const __m128i*)weights);
  return _mm256_madd_epi16(_mm256_cvtepu8_epi16(x), _mm256_cvtepi8_epi16(w));
}

CARNOT_INLINE void panel_sums(const uint8_t* const* taps, int64_t tap_count, int64_t at,
                              int64_t left, bool is_signed, const int8_t* weights, int32_t* sums) {
  const __m256i flip = _mm256_set1_epi8(is_signed ? (char)0x80 : 0);
  __m256i low[4], high[4];  // two sums a channel
  CARNOT_UNROLL
  for (int j = 0; j < 4; ++j) low[j] = high[j] = _mm256_setzero_si256();
  for (int64_t t = 0; t < tap_count; t += 4, weights += 128) {
    __m256i x[4];
    load_four(taps + t, at, left, flip, x);
    CARNOT_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int8_t* w = weights + 32 * j;
      low[j] = _mm256_add_epi32(low[j], pair_sums(_mm256_castsi256_si128(x[j]), w));
      high[j] = _mm256_add_epi32(high[j], pair_sums(_mm256_extracti128_si256(x[j], 1), w + 16));
    }
  }
  CARNOT_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m256i both = _mm256_hadd_epi32(low[j], high[j]);  // channels 0, 1 | 2, 3 of each half
    const __m256i ordered = _mm256_permute4x64_epi64(both, 0xd8);
    _mm_storeu_si128((__m128i*)(sums + 4 * j), _mm256_castsi256_si128(ordered));
    _mm_storeu_si128((__m128i*)(sums + 16 + 4 * j), _mm256_extracti128_si256(ordered, 1));
  }
}

#endif

#else

CARNOT_INLINE void panel_sums(const uint8_t* const* taps, int64_t tap_count, int64_t at,
                              int64_t left, bool is_signed, const int8_t* weights, int32_t* sums) {
  for (int64_t c = 0; c < kPanel; ++c) {
    const int8_t* w = weights + c % 16 / 4 * 32 + c / 16 * 16 + c % 4 * 4;
    int32_t sum = 0;
    for (int64_t t = 0; t < tap_count && c < left; ++t) {
      sum += (uint8_t)(taps[t][at + c] ^ (is_signed ? 0x80 : 0)) * w[t / 4 * 128 + t % 4];
    }
    sums[c] = sum;
  }
}

#endif

// All channels of one pixel.
CARNOT_INLINE void pixel(const carnot_depthwise_u8s8* p, const uint8_t* const* taps,
                         int64_t tap_count, bool is_signed, int64_t m) {
  const int64_t panel = (tap_count + 3) / 4 * 128;
  int32_t sums[kMostSums];
  for (int64_t c = 0; c < p->c; c += kMostSums) {
    const int64_t count = min_i64(kMostSums, p->c - c);
    for (int64_t j = 0; j < count; j += kPanel) {
      panel_sums(taps, tap_count, c + j, count - j, is_signed,
                 p->weights + (c + j) / kPanel * panel, sums + j);
    }
    store_sums(&p->epilogue, p->epilogue.bias, p->dst, m * p->ld + c, m, c, count, sums);
  }
}

// The pixels under the taps of output pixel (y, q); those in the padding and beyond the last tap
// read the border.
static void find_taps(const carnot_depthwise_u8s8* p, const uint8_t* src, int64_t y, int64_t q,
                      const uint8_t** taps) {
  for (int64_t r = 0; r < p->r; ++r) {
    const int64_t h = y * p->stride_h + r * p->dilation_h - p->pad_h;
    int64_t w = q * p->stride_w - p->pad_w;
    for (int64_t s = 0; s < p->s; ++s, w += p->dilation_w) {
      const bool inside = (uint64_t)h < (uint64_t)p->h && (uint64_t)w < (uint64_t)p->w;
      *taps++ = inside ? src + h * p->src_h + w * p->src_w : (const uint8_t*)p->border;
    }
  }
  for (int i = 0; i < 3; ++i) *taps++ = p->border;  // their weights are 0
}

// Every column under output pixel q is inside.
CARNOT_INLINE bool is_inner(const carnot_depthwise_u8s8* p, int64_t q) {
  const int64_t w = q * p->stride_w - p->pad_w;
  return w >= 0 && w + (p->s - 1) * p->dilation_w < p->w;
}

static void row_of_pixels(const carnot_depthwise_u8s8* p, int64_t row, bool is_signed) {
  const int64_t image = row / p->p, y = row % p->p, tap_count = p->r * p->s;
  const int64_t step = p->stride_w * p->src_w;
  const uint8_t* taps[CARNOT_DEPTHWISE_INT8_MAX_TAPS + 3];
  const uint8_t* src = (const uint8_t*)p->src + image * p->src_n;
  for (int64_t q = 0; q < p->q; ++q) {
    if (q > 0 && is_inner(p, q - 1) && is_inner(p, q)) {
      for (int64_t t = 0; t < tap_count; ++t) {
        taps[t] += taps[t] == (const uint8_t*)p->border ? 0 : step;
      }
    } else {
      find_taps(p, src, y, q, taps);
    }
    if (tap_count == 9) {
      pixel(p, taps, 9, is_signed, row * p->q + q);
    } else {
      pixel(p, taps, tap_count, is_signed, row * p->q + q);
    }
  }
}

void CARNOT_KERNEL(depthwise_u8s8)(const carnot_depthwise_u8s8* p, int64_t row0, int64_t row1) {
#if defined(__AVX2__)
  if (takes_columns(p)) {
    run_columns(p, row0, row1);
    return;
  }
#endif
  for (int64_t row = row0; row < row1; ++row) {
    if (p->src_signed) {
      row_of_pixels(p, row, /*is_signed=*/true);
    } else {
      row_of_pixels(p, row, /*is_signed=*/false);
    }
  }
}
