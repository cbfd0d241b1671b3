// Ping-pong GEMM of FP8 operands (gemm_pingpong.cuh): scale, bias, residual and activation. The
// tensor map of the weights permutes the filters.
#pragma once

#include "kernel/cuda/gemm/fp8_epilogue.cuh"
#include "kernel/cuda/gemm/gemm_tma_pingpong.cuh"

#if HAS_WGMMA

// |v| in [low, high], NaN as it is: one instruction a bound.
DEVICE f32 clamped(f32 v, f32 low, f32 high) {
  asm("max.NaN.f32 %0, %0, %1;\nmin.NaN.f32 %0, %0, %2;" : "+f"(v) : "f"(low), "f"(high));
  return v;
}

// H: type of the residual; Y: of the result.
template <class H, class Y, int BN>
struct gemm_fp8_pingpong : gemm_pingpong<gemm_fp8_pingpong<H, Y, BN>, e4m3, f32, BN, true> {
  typedef gemm_pingpong<gemm_fp8_pingpong<H, Y, BN>, e4m3, f32, BN, true> base_type;
  using base_type::has, base_type::release, base_type::sum, base_type::depth;
  using base_type::p, base_type::n, base_type::pieces, base_type::GROUPS;
  enum { EARLY = BN == 128 };  // reads of the next 32 columns: wide tiles lack the registers

  DEVICE_ONLY gemm_fp8_pingpong(const carnot_cuda_gemm_pingpong_params& params)
      : base_type(params) {}

  DEVICE_ONLY void fetch_filters_of(u32 to, int step, int column, u32 barrier) {
    fetch_filters(to, &p.w, step * depth(), column, barrier);
  }

  // Scales and biases of a lane's eight columns of these.
  struct channels {
    f32 scale[8], shift[8];
  };
  DEVICE_ONLY channels read_channels(int g) {
    channels c;
    bool any = g * 4 < n;
    read_channels8(any ? p.gemm.scale : 0, pieces - n + g * 4, c.scale);
    read_channels8(any ? p.gemm.bias : 0, pieces - n + g * 4, c.shift);
    return c;
  }
  template <bool GATE, bool RESIDUAL>
  DEVICE_ONLY void finish_as(int last) {
    channels next;
    if (EARLY) next = read_channels(0);
    wgmma_wait<0>();
    if (last >= 0) release(last);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      asm volatile("" ::: "memory");  // no reads ahead of their turn: registers are few
      channels c = EARLY ? next : read_channels(g);
      if (EARLY && g + 1 < GROUPS) next = read_channels(g + 1);
      if (RESIDUAL && g % 4 == 0) this->find_staged_residual(g / 4, last >= 0);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        f32 v[8];
        half8 residual;
        if (RESIDUAL) residual = this->staged_residual(i, g);
#pragma unroll
        for (int k = 0; k < 8; k++) {
          v[k] = fmaf(sum(i, g, k), c.scale[k], c.shift[k]);
          if (RESIDUAL) v[k] += half8_at<H>(residual, k);
          if (!GATE) v[k] = clamped(v[k], p.gemm.low, p.gemm.high);
        }
        if (GATE) gate8(v, p.c);
        typedef Y vector[8];
        if (has(i, g))
          store8<Y>::of(this->template vector_of<vector>(p.gemm.y, p.gemm.pitch, i, g), 0, v,
                        p.gemm.factor);
      }
      if (RESIDUAL && (g % 4 == 3 || g + 1 == GROUPS) && last >= 0) this->release_staged_residual();
    }
  }
  DEVICE_ONLY void finish(int last) {
    if (p.gate)
      finish_as<true, false>(last);
    else if (p.gemm.residual)
      finish_as<false, true>(last);
    else
      finish_as<false, false>(last);
  }
};

#endif
