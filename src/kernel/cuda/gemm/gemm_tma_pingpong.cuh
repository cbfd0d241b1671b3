// Ping-pong GEMM of 16-bit floats (gemm_pingpong.cuh): bias, residual and activation. The tensor
// map of the weights permutes the filters.
#pragma once

#include "kernel/cuda/gemm/gemm_pingpong.cuh"

#if HAS_WGMMA

// The box of filters from |filter| on, in that order.
DEVICE void fetch_filters(u32 to, const void* map, int column, int filter, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2,%3,%3,%3,%4}], [%5];" ::"r"(to),
      "l"(map), "r"(column), "r"(0), "r"(filter / 32), "r"(barrier)
      : "memory");
}
// v / (1 + 2^(v (c[0] + t (c[1] + t c[2])))), t = min(v v, 36), of eight values, step by step:
// independent instructions hide the latency.
DEVICE void gate8(f32* v, const f32* c) {
  f32 z[8];
#pragma unroll
  for (int k = 0; k < 8; k++) {
    f32 t = fminf(v[k] * v[k], 36);
    z[k] = v[k] * (c[0] + t * (c[1] + t * c[2]));
  }
#pragma unroll
  for (int k = 0; k < 8; k++) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(z[k]));
#pragma unroll
  for (int k = 0; k < 8; k++) z[k] += 1;
#pragma unroll
  for (int k = 0; k < 8; k++) asm volatile("rcp.approx.ftz.f32 %0, %0;" : "+f"(z[k]));
#pragma unroll
  for (int k = 0; k < 8; k++) v[k] *= z[k];
}

// PITCHED: the rows of results are not next to one another.
template <class T, int BN, bool PITCHED>
struct gemm_tma_pingpong : gemm_pingpong<gemm_tma_pingpong<T, BN, PITCHED>, T, f32, BN, true> {
  typedef gemm_pingpong<gemm_tma_pingpong<T, BN, PITCHED>, T, f32, BN, true> base_type;
  using base_type::has, base_type::release, base_type::sum, base_type::vector_at;
  using base_type::p, base_type::n, base_type::pieces, base_type::GROUPS;

  DEVICE_ONLY gemm_tma_pingpong(const carnot_cuda_gemm_pingpong_params& params)
      : base_type(params) {}

  DEVICE_ONLY void fetch_filters_of(u32 to, int step, int column, u32 barrier) {
    fetch_filters(to, &p.w, step * STAGE_DEPTH, column, barrier);
  }

  // The lane's eight columns in a matrix whose rows are |pitch| columns apart.
  DEVICE_ONLY half8* vector(const void* matrix, int pitch, int i, int g) {
    if constexpr (PITCHED)
      return this->template vector_of<half8>(matrix, pitch, i, g);
    else
      return (half8*)matrix + vector_at(i, g);
  }

  DEVICE_ONLY half8 read_bias(int g) {
    half8 bias = {};
    if (p.gemm.bias && g * 4 < n) bias = ((const half8*)p.gemm.bias)[pieces - n + g * 4];
    return bias;
  }
  // Before all else: results that are stored meanwhile would keep the stages from the next tiles.
  DEVICE_ONLY void add_residual(bool is_tile) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      asm volatile("" ::: "memory");  // no reads ahead of their turn: registers are few
      if (g % 4 == 0) this->find_staged_residual(g / 4, is_tile);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        half8 residual = this->staged_residual(i, g);
#pragma unroll
        for (int k = 0; k < 8; k++) sum(i, g, k) += half8_at<T>(residual, k);
      }
      if ((g % 4 == 3 || g + 1 == GROUPS) && is_tile) this->release_staged_residual();
    }
  }
  template <bool GATE, bool RESIDUAL>
  DEVICE_ONLY void finish_as(int last) {
    u32 low = mma<T>::pair(p.gemm.low, p.gemm.low), high = mma<T>::pair(p.gemm.high, p.gemm.high);
    half8 next_bias = read_bias(0);
    wgmma_wait<0>();
    if (last >= 0) release(last);
    if constexpr (RESIDUAL) add_residual(last >= 0);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      asm volatile("" ::: "memory");  // no reads ahead of their turn: registers are few
      half8 bias = next_bias;
      if (g + 1 < GROUPS) next_bias = read_bias(g + 1);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        f32 v[8];
        half8 y;
#pragma unroll
        for (int k = 0; k < 8; k++) v[k] = sum(i, g, k) + half8_at<T>(bias, k);
        if (GATE) gate8(v, p.c);
#pragma unroll
        for (int k = 0; k < 4; k++) {
          y.two[k] = mma<T>::pair(v[2 * k], v[2 * k + 1]);
          if (!GATE) y.two[k] = mma<T>::clamp(y.two[k], low, high);
        }
        if (has(i, g)) *vector(p.gemm.y, p.gemm.pitch, i, g) = y;
      }
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
