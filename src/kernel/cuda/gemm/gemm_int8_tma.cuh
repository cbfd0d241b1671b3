// The epilogue of gemm_tma.cuh's GEMMs of 8-bit integers: requantization of int32 sums.
#pragma once

#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/gemm/gemm_tma.cuh"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

#if HAS_WGMMA

struct gemm_int8_tma_epilogue : int8_epilogue {
  DEVICE_ONLY gemm_int8_tma_epilogue(const carnot_cuda_int8_epilogue& p) { all = &p; }
  DEVICE_ONLY void keep(const carnot_cuda_gemm_tile_params& p) {
    int8_epilogue::keep(*all, p.y, p.rows, p.filters);
    pin();
  }
  DEVICE_ONLY void read_bias(const carnot_cuda_gemm_tile_params&, int n) { read_channels(*all, n); }
};

template <class X, int BM, int BN>
DEVICE_ONLY void gemm_int8_tma(const carnot_cuda_gemm_int8_tma_params& p) {
  gemm_tma<X, BM, BN, gemm_int8_tma_epilogue, i32, 0>(p.gemm, p.epilogue).run();
}

#endif
