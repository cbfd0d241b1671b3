// The epilogue of gemm_tma.cuh's GEMMs of 8-bit integers: requantization of int32 sums.
#pragma once

#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/gemm/gemm_tma.cuh"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

#if HAS_WGMMA

struct gemm_int8_tma_epilogue : int8_epilogue {
  bool has_narrow_sums;

  DEVICE_ONLY gemm_int8_tma_epilogue(const carnot_cuda_int8_epilogue& p) { all = &p; }
  DEVICE_ONLY void keep(const carnot_cuda_gemm_tile_params& p) {
    int8_epilogue::keep(*all, p.y, p.rows, p.filters);
    has_narrow_sums = form != CARNOT_CUDA_INT8_GENERAL && is_narrow(*all, p.filters);
    pin();
  }
  DEVICE_ONLY void read_bias(const carnot_cuda_gemm_tile_params&, int n) {
    if (has_narrow_sums)
      read_channels<true>(*all, n);
    else
      read_channels(*all, n);
  }
  template <int FORM>
  DEVICE_ONLY void put(const i32* sums, const byte8& residual, i64 row, int n) {
    if (FORM != CARNOT_CUDA_INT8_GENERAL && has_narrow_sums)
      int8_epilogue::put<FORM, true, true>(sums, residual, row, n);
    else
      int8_epilogue::put<FORM>(sums, residual, row, n);
  }
};

template <class X, int BM, int BN>
DEVICE_ONLY void gemm_int8_tma(const carnot_cuda_gemm_int8_tma_params& p) {
  gemm_tma<X, BM, BN, gemm_int8_tma_epilogue, i32, 0>(p.gemm, p.epilogue).run();
}

#endif
