// GEMM of bytes with small K: a block keeps all weights in shared memory, a warp takes 32 rows at a
// time from global memory into the fragments of the integer mma. Many warps and no barriers hide
// the latency of rows that need more epilogue than products.
#pragma once

#include "kernel/cuda/common/tensor_core.cuh"
#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

#if __CUDA_ARCH__ >= 800

template <class X, int STEPS>
struct gemm_int8_small {
  enum {
    TILES = 2,  // of 16 rows
    THREADS = CARNOT_CUDA_GEMM_INT8_SMALL_THREADS,
    ROWS = CARNOT_CUDA_GEMM_INT8_SMALL_ROWS
  };
  const carnot_cuda_gemm_int8_small_params& p;
  char* weights;
  half8 *bias, *scale;  // four numbers each
  int lane, chunks;
  int8_epilogue out;

  DEVICE_ONLY gemm_int8_small(const carnot_cuda_gemm_int8_small_params& params) : p(params) {}

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    lane = threadIdx.x & 31, chunks = (p.filters + 31) / 32;
    int bytes = chunks * STEPS * 1024;
    weights = memory, bias = (half8*)(memory + bytes), scale = bias + chunks * 8;
    for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16)
      cp_async16(shared_address(weights + i), (const char*)p.w + i, 16);
    cp_async_commit();
    for (int i = threadIdx.x; i < chunks * 8; i += THREADS) {
      half8 none = {};
      bias[i] = i < p.filters / 4 ? ((const half8*)p.epilogue.bias)[i] : none;
      scale[i] = i < p.filters / 4 ? ((const half8*)p.epilogue.scale)[i] : none;
    }
    cp_async_wait<0>();
    __syncthreads();
    out.keep(p.epilogue, p.y, p.rows, p.filters);
  }

  // Fragments of 32 rows from |m| on.
  DEVICE_ONLY void read_rows(i64 m, u32 (*a)[TILES][4]) {
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        i64 row = m + t * 16 + h * 8 + (lane >> 2);
        const byte8* x = (const byte8*)((const X*)p.x + row * p.channels) + (lane & 3);
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
          byte8 v = {};
          if (row < p.rows && s * 32 + (lane & 3) * 8 < p.channels) v = x[s * 4];
          a[s][t][h] = v.four[0], a[s][t][h + 2] = v.four[1];
        }
      }
  }
  template <int FORM, bool BOUNDED, bool NARROW>
  DEVICE_ONLY void walk() {
    i64 warp = (i64)blockIdx.x * (THREADS / 32) + threadIdx.x / 32,
        warps = (i64)gridDim.x * (THREADS / 32);
#pragma unroll 1
    for (i64 m = warp * ROWS; m < p.rows; m += warps * ROWS) {
      u32 a[STEPS][TILES][4];
      read_rows(m, a);
#pragma unroll 1
      for (int c = 0; c < chunks; c++) {
        int n = c * 4 + (lane & 3);
        byte8 residual[TILES][2] = {};
        if constexpr (FORM != CARNOT_CUDA_INT8_REQUANTIZE)
#pragma unroll
          for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int h = 0; h < 2; h++)
              residual[t][h] = out.residual_at(m + t * 16 + h * 8 + (lane >> 2), n);
        i32 sums[TILES][4][4] = {};
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
          for (int j = 0; j < 4; j += 2) {
            half8 b = *(const half8*)(weights + (c * STEPS + s) * 1024 + j * 256 + lane * 16);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
              mma<X>::multiply(sums[t][j], a[s][t], b.two[0], b.two[1]);
              mma<X>::multiply(sums[t][j + 1], a[s][t], b.two[2], b.two[3]);
            }
          }
        out.use_channels<NARROW>(bias + c * 8 + (lane & 3) * 2, scale + c * 8 + (lane & 3) * 2);
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            i32 v[8];
#pragma unroll
            for (int e = 0; e < 8; e++) v[e] = sums[t][e >> 1][2 * h + (e & 1)];
            byte8 y = out.template bytes_of<FORM, BOUNDED, NARROW>(v, residual[t][h]);
            i64 row = m + t * 16 + h * 8 + (lane >> 2);
            if (out.has(row, n)) ((byte8*)p.y)[row * out.filters + n] = y;
          }
      }
    }
  }
  template <int FORM>
  DEVICE_ONLY void walk() {
    if (!int8_epilogue::is_narrow(p.epilogue, p.filters))
      walk<FORM, true, false>();
    else if (p.epilogue.is_bounded)
      walk<FORM, true, true>();
    else
      walk<FORM, false, true>();
  }
  DEVICE_ONLY void run() {
    start();
    wait_for_previous();
    if (p.epilogue.form == CARNOT_CUDA_INT8_REQUANTIZE)
      walk<CARNOT_CUDA_INT8_REQUANTIZE>();
    else if (p.epilogue.form == CARNOT_CUDA_INT8_RESIDUAL)
      walk<CARNOT_CUDA_INT8_RESIDUAL>();
    else
      walk<CARNOT_CUDA_INT8_TWICE>();
  }
};

#endif
