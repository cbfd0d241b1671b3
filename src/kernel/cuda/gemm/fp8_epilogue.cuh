// The epilogue of the tensor core GEMMs of FP8 operands: scale, bias, residual, activation, and a
// result of 16-bit floats, float32 or FP8.
#pragma once

#include "kernel/cuda/common/fp8.cuh"
#include "kernel/cuda/common/wgmma.cuh"
#include "kernel/cuda/gemm/epilogue.cuh"

#if HAS_WGMMA

struct __align__(8) fp8x8 {
  u32 four[2];
};
// Stores vector |at| of eight results of type Y.
template <class Y>
struct store8 {
  static DEVICE_ONLY void of(void* to, i64 at, const f32* v, f32) { pack<Y>(to, at, v); }
};
template <>
struct store8<f32> {
  static DEVICE_ONLY void of(void* to, i64 at, const f32* v, f32) {
    for (int i = 0; i < 2; i++)
      ((float4*)to)[at * 2 + i] = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
  }
};
template <>
struct store8<e4m3> {
  static DEVICE_ONLY void of(void* to, i64 at, const f32* v, f32 factor) {
    fp8x8 y;
    for (int i = 0; i < 2; i++) y.four[i] = store_e4m3_four(v + 4 * i, factor);
    ((fp8x8*)to)[at] = y;
  }
};

// The numbers of eight adjacent channels, vector |n| of them; zeros where there are none.
DEVICE void read_channels8(const void* from, i64 n, f32* to) {
  for (int i = 0; i < 2; i++) {
    float4 four = from ? ((const float4*)from)[n * 2 + i] : make_float4(0, 0, 0, 0);
    to[4 * i] = four.x, to[4 * i + 1] = four.y, to[4 * i + 2] = four.z, to[4 * i + 3] = four.w;
  }
}

// In the place of gemm_epilogue. H: type of the residual; Y: of the result.
template <class H, class Y>
struct fp8_epilogue : gemm_epilogue<H> {
  f32 shift[8], scale[8], factor;

  DEVICE_ONLY void keep(const carnot_cuda_gemm_tile_params& p) {
    gemm_epilogue<H>::keep(p);
    factor = p.factor;
    asm volatile("" : "+f"(factor));
  }
  DEVICE_ONLY void read_bias(const carnot_cuda_gemm_tile_params& p, int n) {
    bool has = n < this->filters;
    read_channels8(has ? p.bias : 0, n, shift);
    read_channels8(has ? p.scale : 0, n, scale);
  }
  template <int FORM>
  DEVICE_ONLY void put(f32* v, const half8& residual, i64 row, int n) {
    if (!this->has(row, n)) return;
    for (int e = 0; e < 8; e++) v[e] = fmaf(v[e], scale[e], shift[e]) + half8_at<H>(residual, e);
    if (this->activation) activate8(this->activation, this->low, this->high, v);
    store8<Y>::of(this->to, row * this->pitch + n, v, factor);
  }
};

#endif
