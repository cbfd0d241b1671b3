// Results of kernels of 16-bit floats, stored as bytes.
#pragma once

#include "kernel/cuda/common/fp8.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/quantize/byte_result_params.h"

struct __align__(8) result_bytes {
  u32 four[2];
};
// Four results, rounded to T as they would be stored, as bytes: integers by the rule of
// tactic/problem/quantized.h; of FP8, which promises no bits, the scale's reciprocal is |factor|.
template <class T>
DEVICE u32 quantize_four(const carnot_cuda_byte_result& r, f32 factor, const f32* from) {
  f32 v[4];
  for (int e = 0; e < 4; e++) v[e] = load(store_as<T>::of(from[e]));
  if (r.type == CARNOT_CUDA_BYTE_FP8) return store_e4m3_four(v, factor);
  int low = r.type == CARNOT_CUDA_BYTE_S8 ? -128 : 0;
  u32 four = 0;
  for (int e = 0; e < 4; e++) {
    int i = lo(hi(__float2int_rn(__fdiv_rn(v[e], r.scale)), -(1 << 30)), 1 << 30) + r.zero;
    four |= (u32)(u8)lo(hi(i, low), low + 255) << e * 8;
  }
  return four;
}
template <class T>
DEVICE result_bytes quantize_eight(const carnot_cuda_byte_result& r, f32 factor, const f32* v) {
  return {{quantize_four<T>(r, factor, v), quantize_four<T>(r, factor, v + 4)}};
}
