// Multistage GEMM of 8-bit integers (gemm_multistage.cuh) with its whole epilogue.
#pragma once

#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/gemm/gemm_multistage.cuh"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

#if __CUDA_ARCH__ >= 800

struct gemm_int8_epilogue : int8_epilogue {
  DEVICE_ONLY void keep(const carnot_cuda_gemm_int8_params& p) {
    int8_epilogue::keep(p.epilogue, p.gemm.y, p.gemm.rows, p.gemm.filters);
    pin();
  }
  DEVICE_ONLY void read_bias(const carnot_cuda_gemm_int8_params& p, int n) {
    read_channels(p.epilogue, n);
  }
};

// |X|: u8 or i8, loaded by |BYTES|. Outside of the image are zero points, so that one sum of the
// weights corrects all rows; they are stored from a register, as loads of one address by many
// blocks would wait for one another.
template <class X, int BYTES>
struct gemm_bytes {
  typedef X operand;
  typedef i8 weight;
  typedef i32 sum;
  typedef carnot_cuda_gemm_int8_params params;
  typedef gemm_int8_epilogue epilogue;
  enum { GENERAL = false, LOAD = BYTES };
  static DEVICE_ONLY const carnot_cuda_gemm_tile_params& tile(const params& p) { return p.gemm; }
  static DEVICE_ONLY void load_x(const params& p, u32 to, i64 from, bool there) {
    u32 z = p.outside;
    if (there)
      cp_async<BYTES>(to, (const X*)p.gemm.x + from, BYTES);
    else if constexpr (BYTES == 16)
      asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" ::"r"(to), "r"(z) : "memory");
    else if constexpr (BYTES == 8)
      asm volatile("st.shared.v2.b32 [%0], {%1,%1};" ::"r"(to), "r"(z) : "memory");
    else
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(z) : "memory");
  }
  static DEVICE_ONLY int pitch(const params& p) { return p.w_pitch; }
};

#endif
