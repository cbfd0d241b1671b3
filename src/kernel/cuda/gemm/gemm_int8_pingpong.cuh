// Ping-pong GEMM of 8-bit integers (gemm_pingpong.cuh): requantization in registers.
#pragma once

#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/gemm/gemm_pingpong.cuh"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

#if HAS_WGMMA

// One tap of filters from |filter| on.
DEVICE void fetch_tap(u32 to, const void* map, int channel, int tap, int filter, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2,%3,%4}], [%5];" ::"r"(to),
      "l"(map), "r"(channel), "r"(tap), "r"(filter), "r"(barrier)
      : "memory");
}

template <class X, int BN>
struct gemm_int8_pingpong : gemm_pingpong<gemm_int8_pingpong<X, BN>, X, i32, BN, false, 0,
                                          CARNOT_CUDA_GEMM_INT8_PINGPONG_RESIDENT(BN),
                                          CARNOT_CUDA_GEMM_INT8_PINGPONG_SLOT(BN), true> {
  typedef gemm_pingpong<gemm_int8_pingpong<X, BN>, X, i32, BN, false, 0,
                        CARNOT_CUDA_GEMM_INT8_PINGPONG_RESIDENT(BN),
                        CARNOT_CUDA_GEMM_INT8_PINGPONG_SLOT(BN), true>
      base_type;
  using base_type::has, base_type::release, base_type::sum, base_type::depth;
  using base_type::p, base_type::n, base_type::pieces, base_type::GROUPS, base_type::below;
  enum {
    SLOT = CARNOT_CUDA_GEMM_INT8_PINGPONG_SLOT(BN),
    ROLLED = BN == 96 || BN == 128  // the epilogue is a loop; other tiles lack the registers
  };
  const carnot_cuda_gemm_int8_pingpong_params& all;
  bool is_narrow;

  DEVICE_ONLY gemm_int8_pingpong(const carnot_cuda_gemm_int8_pingpong_params& params)
      : base_type(params.gemm), all(params) {
    this->has_residual = params.epilogue.form != CARNOT_CUDA_INT8_REQUANTIZE;
    is_narrow = int8_epilogue::is_narrow(params.epilogue, params.gemm.gemm.filters);
  }

  DEVICE_ONLY void fetch_filters_of(u32 to, int step, int column, u32 barrier) {
    int tap = step / p.chunks;
    fetch_tap(to, &p.w, (step - tap * p.chunks) * depth(), tap, column, barrier);
  }
  DEVICE_ONLY void fetch_residual(u32 to, int m, int column, u32 barrier) {
    tma_load_tiled(to, &p.residual, column, m, barrier, 0, false);
  }
  // The residual of 8 columns in the slot, whose rows of BN bytes have the swizzle of that width.
  DEVICE_ONLY byte8 staged(u32 slot, int i, int g) {
    int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + below(i),
        chunk = g * 2 + threadIdx.x % 4 / 2, flip = BN == 128 ? row % 8 : row / 2 % 4;
    u32 at = slot + row * BN + ((chunk ^ flip) << 4) + threadIdx.x % 2 * 8;
    byte8 v;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.four[0]), "=r"(v.four[1]) : "r"(at));
    return v;
  }

  // What the results of 32 columns need besides their sums; a residual that is not staged.
  struct added {
    half8 bias[2], scale[2];
    byte8 residual[4];
  };
  const half8 *biases, *scales;  // of the lane's first columns
  DEVICE_ONLY void find_channels() {
    int at = (pieces - n) * 2;
    biases = (const half8*)all.epilogue.bias + at, scales = (const half8*)all.epilogue.scale + at;
    if (ROLLED) asm volatile("" : "+l"(biases), "+l"(scales));
  }
  template <int FORM>
  DEVICE_ONLY added read(int g) {
    added r = {};
    if (g * 4 >= n) return r;
    if (!ROLLED) find_channels();
    for (int i = 0; i < 2; i++) r.bias[i] = biases[g * 8 + i], r.scale[i] = scales[g * 8 + i];
    if constexpr (FORM != CARNOT_CUDA_INT8_REQUANTIZE && !SLOT)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (has(i, g))
          r.residual[i] =
              *this->template vector_of<byte8>(all.epilogue.residual, p.gemm.filters, i, g);
    return r;
  }
  template <int FORM, bool BOUNDED, bool NARROW>
  DEVICE_ONLY void finish_as(int last) {
    constexpr bool STAGED = FORM != CARNOT_CUDA_INT8_REQUANTIZE && SLOT;
    int8_epilogue out;
    out.keep(all.epilogue, p.gemm.y, p.gemm.rows, p.gemm.filters);
    if (ROLLED) find_channels();
    added next = read<FORM>(0);
    byte8* to[4];  // the next vector of each row
#pragma unroll
    for (int i = 0; i < 4; i++)
      to[i] = this->template vector_of<byte8>(p.gemm.y, p.gemm.filters, i, 0);
    wgmma_wait<0>();
    if (last >= 0) release(last);
    if (STAGED && last >= 0) this->wait_for_residual();
#pragma unroll(ROLLED ? 1 : GROUPS)
    for (int g = 0; g < GROUPS; g++) {
      if (last >= 0 && g * 4 >= n + (int)threadIdx.x % 4) break;  // no lane has columns left
      asm volatile("" ::: "memory");  // no reads ahead of their turn: registers are few
      added mine = ROLLED || !g ? next : read<FORM>(g);
      if (ROLLED && g + 1 < GROUPS) next = read<FORM>(g + 1);
      out.use_channels<NARROW>(mine.bias, mine.scale);
      i32 v[4][8];
      if (ROLLED) this->take_sums(g, v, [&](i32 sum, int k) { return add_here(sum, out.bias[k]); });
#pragma unroll
      for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int k = 0; !ROLLED && k < 8; k++) v[i][k] = out.biased(sum(i, g, k), k);
        byte8 residual = mine.residual[i];
        if constexpr (STAGED) residual = staged(this->residual_slot(), i, g);
        byte8 y = out.template bytes_of_biased<FORM, BOUNDED, NARROW>(v[i], residual);
        byte8* at =
            ROLLED ? to[i] : this->template vector_of<byte8>(p.gemm.y, p.gemm.filters, i, g);
        if (has(i, g)) *at = y;
        to[i] += 4;
      }
    }
    if (STAGED && last >= 0) this->release_residual();
  }
  template <int FORM>
  DEVICE_ONLY void finish_as(int last) {
    if (!is_narrow)
      finish_as<FORM, true, false>(last);
    else if (all.epilogue.is_bounded)
      finish_as<FORM, true, true>(last);
    else
      finish_as<FORM, false, true>(last);
  }
  DEVICE_ONLY void finish(int last) {
    if (all.epilogue.form == CARNOT_CUDA_INT8_REQUANTIZE)
      finish_as<CARNOT_CUDA_INT8_REQUANTIZE>(last);
    else if (all.epilogue.form == CARNOT_CUDA_INT8_RESIDUAL)
      finish_as<CARNOT_CUDA_INT8_RESIDUAL>(last);
    else
      finish_as<CARNOT_CUDA_INT8_TWICE>(last);
  }
};

#endif
