// Conversions between float32 and FP16, BF16 and 8-bit quantized elements.
#include "kernel/cpu/pointwise/convert.h"

#include "kernel/cpu/common/kernels_isa.h"

void CARNOT_KERNEL(f32_of_f16)(int64_t n, const uint16_t* src, float* dst) {
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(dst + i, v_load_f16(src + i));
  if (i < n) v_store_n(dst + i, v_load_f16_n(src + i, n - i), n - i);
}

void CARNOT_KERNEL(f32_of_bf16)(int64_t n, const uint16_t* src, float* dst) {
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(dst + i, v_load_bf16(src + i));
  if (i < n) v_store_n(dst + i, v_load_bf16_n(src + i, n - i), n - i);
}

void CARNOT_KERNEL(f16_of_f32)(int64_t n, const float* src, uint16_t* dst) {
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store_f16(dst + i, v_load(src + i));
  if (i < n) v_store_f16_n(dst + i, v_load_n(src + i, n - i), n - i);
}

void CARNOT_KERNEL(bf16_of_f32)(int64_t n, const float* src, uint16_t* dst) {
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store_bf16(dst + i, v_load(src + i));
  if (i < n) v_store_bf16_n(dst + i, v_load_n(src + i, n - i), n - i);
}

// ---- quantization ----

static int32_t zero_point_at(const carnot_quantize* p, int64_t j) {
  if (!p->zero_point) return 0;
  return p->is_signed ? ((const int8_t*)p->zero_point)[j] : ((const uint8_t*)p->zero_point)[j];
}

// A vector of zero points as floats; exact.
CARNOT_INLINE vf32 zero_points(const carnot_quantize* p, int64_t j, int64_t left) {
  if (!p->per_column) return v_set((float)zero_point_at(p, 0));
  float lanes[V_LANES] = {0};
  for (int64_t i = 0; i < min_i64(left, V_LANES); ++i) lanes[i] = (float)zero_point_at(p, j + i);
  return v_load(lanes);
}

CARNOT_INLINE vf32 scales(const carnot_quantize* p, int64_t j, int64_t left) {
  if (!p->per_column) return v_set(*p->scale);
  return v_load_upto(p->scale + j, left);
}

void CARNOT_KERNEL(range_f32)(int64_t n, const float* x, float out[2]) {
  enum { kChains = 4 };
  vf32 low[kChains], high[kChains];
  for (int c = 0; c < kChains; ++c) low[c] = high[c] = v_zero();
  int64_t i = 0;
  for (; i + kChains * V_LANES <= n; i += kChains * V_LANES) {
    CARNOT_UNROLL
    for (int c = 0; c < kChains; ++c) {
      const vf32 v = v_load(x + i + c * V_LANES);
      low[c] = v_min_to(v, low[c]), high[c] = v_max_to(v, high[c]);
    }
  }
  for (; i < n; i += V_LANES) {
    const vf32 v = v_load_upto(x + i, n - i);
    low[0] = v_min_to(v, low[0]), high[0] = v_max_to(v, high[0]);
  }
  for (int c = 1; c < kChains; ++c)
    low[0] = v_min_to(low[c], low[0]), high[0] = v_max_to(high[c], high[0]);
  float lows[V_LANES], highs[V_LANES];
  v_store(lows, low[0]), v_store(highs, high[0]);
  out[0] = out[1] = 0;
  for (int j = 0; j < V_LANES; ++j) {
    if (lows[j] < out[0]) out[0] = lows[j];
    if (highs[j] > out[1]) out[1] = highs[j];
  }
}

// rint(x / scale) where that is below 1024, and as far beyond the range of a byte elsewhere: by a
// product, which is within 2^-12 of the quotient, and by a division only where a tie is that near.
CARNOT_INLINE vf32 rounded_quotient(vf32 x, vf32 scale, vf32 inverse) {
  const vf32 y = v_mul(x, inverse), q = v_round(y);
  const vmask near_tie = v_lt(v_set(0.5F - 0x1p-11F), v_abs(v_sub(y, q)));
  return v_m_any(near_tie) ? v_round(v_div(x, scale)) : q;
}

// One scale for all, whose inverse is normal.
static void quantize_by_inverse(const carnot_quantize* p, int64_t rows, const float* src,
                                int64_t src_ld, uint8_t* dst, int64_t dst_ld) {
  const vf32 lo = v_set(p->is_signed ? -128 : 0), hi = v_set(p->is_signed ? 127 : 255);
  const vf32 scale = v_set(*p->scale), inverse = v_set(1 / *p->scale);
  const vf32 zero = v_set((float)zero_point_at(p, 0));
  const int64_t n = p->n;
  for (int64_t row = 0; row < rows; ++row, src += src_ld, dst += dst_ld)
    for (int64_t j = 0; j < n; j += V_LANES) {
      vf32 q = rounded_quotient(v_load_upto(src + j, n - j), scale, inverse);
      q = v_add(v_select(v_is_nan(q), v_zero(), q), zero);
      v_store_bytes_upto(dst + j, v_to_int(v_min_to(hi, v_max_to(lo, q))), n - j);
    }
}

void CARNOT_KERNEL(quantize_f32)(const carnot_quantize* p, int64_t rows, const float* src,
                                 int64_t src_ld, void* dst, int64_t dst_ld) {
  if (!p->per_column && *p->scale >= 0x1p-100F && *p->scale <= 0x1p100F) {
    quantize_by_inverse(p, rows, src, src_ld, dst, dst_ld);
    return;
  }
  const vf32 lo = v_set(p->is_signed ? -128 : 0), hi = v_set(p->is_signed ? 127 : 255);
  for (int64_t row = 0; row < rows; ++row) {
    const float* x = src + row * src_ld;
    uint8_t* y = (uint8_t*)dst + row * dst_ld;
    for (int64_t j = 0; j < p->n; j += V_LANES) {
      const int64_t left = p->n - j;
      vf32 q = v_round(v_div(v_load_upto(x + j, left), scales(p, j, left)));
      q = v_select(v_is_nan(q), v_zero(), q);
      q = v_min_to(hi, v_max_to(lo, v_add(q, zero_points(p, j, left))));
      v_store_bytes_n(y + j, v_to_int(q), min_i64(left, V_LANES));
    }
  }
}

CARNOT_INLINE void dequantize_row(const carnot_quantize* p, bool is_signed, const uint8_t* x,
                                  float* y) {
  if (!p->per_column) {
    const float scale = *p->scale;
    const int32_t zero = zero_point_at(p, 0);
    for (int64_t j = 0; j < p->n; ++j) {
      y[j] = (float)((is_signed ? (int8_t)x[j] : x[j]) - zero) * scale;
    }
    return;
  }
  for (int64_t j = 0; j < p->n; ++j) {
    y[j] = (float)((is_signed ? (int8_t)x[j] : x[j]) - zero_point_at(p, j)) * p->scale[j];
  }
}

void CARNOT_KERNEL(dequantize_f32)(const carnot_quantize* p, int64_t rows, const void* src,
                                   int64_t src_ld, float* dst, int64_t dst_ld) {
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* x = (const uint8_t*)src + row * src_ld;
    if (p->is_signed) {
      dequantize_row(p, /*is_signed=*/true, x, dst + row * dst_ld);
    } else {
      dequantize_row(p, /*is_signed=*/false, x, dst + row * dst_ld);
    }
  }
}
