// Packed weights by type: sizes, conversion, kernels.
#include "backend/cpu/common/packed_weights.h"

#include <math.h>

#include "kernel/cpu/gemm/pack_half.h"
#include "kernel/cpu/gemm/pack_split.h"

carnot_weights_type carnot_packed_weights_type(const carnot_tactic* tactic) {
  if (tactic->numerics == CARNOT_NUMERICS_SPLIT6) return CARNOT_WEIGHTS_SPLIT6;
  if (tactic->numerics == CARNOT_NUMERICS_SPLIT3) return CARNOT_WEIGHTS_SPLIT3;
  if (tactic->takes_bf16 && tactic->precision == CARNOT_DTYPE_BF16)
    return CARNOT_WEIGHTS_BF16_TILES;
  return tactic->precision == CARNOT_DTYPE_F16    ? CARNOT_WEIGHTS_F16
         : tactic->precision == CARNOT_DTYPE_BF16 ? CARNOT_WEIGHTS_BF16
                                                  : CARNOT_WEIGHTS_F32;
}

const char* carnot_packed_weights_packing(carnot_weights_type type) {
  return type == CARNOT_WEIGHTS_F16          ? "k1n16 f16"
         : type == CARNOT_WEIGHTS_BF16       ? "k2n16 bf16"
         : type == CARNOT_WEIGHTS_BF16_TILES ? "k2n16d32 bf16"
         : carnot_packed_weights_split(type) ? "k32n16 bf16x3"
                                             : "k1n16 f32";
}

size_t carnot_packed_weights_bytes(carnot_weights_type type, carnot_packed_weights_shape shape) {
  if (carnot_packed_weights_split(type))
    return (size_t)carnot_packed_split_bytes(shape.taps, shape.depth, shape.n);
  int64_t count = carnot_packed_k1n16_count(shape.taps * shape.depth, shape.n);
  if (type == CARNOT_WEIGHTS_F32) return (size_t)count * sizeof(float);
  if (type == CARNOT_WEIGHTS_BF16)
    count = carnot_packed_k2n16_count(shape.taps, shape.depth, shape.n);
  if (type == CARNOT_WEIGHTS_BF16_TILES)
    count = carnot_packed_k2n16d32_count(shape.taps, shape.depth, shape.n);
  return (size_t)count * sizeof(uint16_t);
}

void carnot_packed_weights_pack(carnot_weights_type type, carnot_packed_weights_shape shape,
                                const float* k1n16, void* packed) {
  if (carnot_packed_weights_split(type))
    carnot_pack_k32n16_bf16x3(shape.taps, shape.depth, shape.n, k1n16, packed);
  else if (type == CARNOT_WEIGHTS_BF16_TILES)
    carnot_pack_k2n16d32_bf16(shape.taps, shape.depth, shape.n, k1n16, packed);
  else if (type == CARNOT_WEIGHTS_BF16)
    carnot_pack_k2n16_bf16(shape.taps, shape.depth, shape.n, k1n16, packed);
  else
    carnot_pack_k1n16_f16(carnot_packed_k1n16_count(shape.taps * shape.depth, shape.n), k1n16,
                          packed);
}

static bool exact_in_f16(const float* x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float back = carnot_half_to_float(carnot_half_from_float(x[i]));
    if (back != x[i] && !isnan(x[i])) return false;
  }
  return true;
}

// 65520 is the least number that rounds to infinity.
static bool beyond_f16(const float* x, int64_t count, float* out_greatest) {
  float greatest = 0;
  for (int64_t i = 0; i < count; i++) {
    float size = fabsf(x[i]);
    greatest = size > greatest && size < INFINITY ? size : greatest;
  }
  *out_greatest = greatest;
  return greatest >= 65520;
}

static bool is_beyond_parts(float x) {
  const float size = fabsf(x);
  return (size < 0x1p-100f && size > 0) || !(size < INFINITY);
}

// What BF16 parts do not hold exactly, and what tile instructions do not multiply as floats.
static bool beyond_parts(const float* x, int64_t count, float* out_found) {
  enum { kBlock = 256 };  // that the compiler takes in vectors
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t end = carnot_min_i64(i + kBlock, count);
    int beyond = 0;
    for (int64_t j = i; j < end; j++) {
      beyond |= is_beyond_parts(x[j]);
    }
    for (int64_t j = i; beyond && j < end; j++) {
      *out_found = x[j];
      if (is_beyond_parts(x[j])) return true;
    }
  }
  return false;
}

void carnot_packed_weights_pack_conv(carnot_weights_type type, carnot_packed_weights_shape shape,
                                     const float* weights, float* wide, void* packed) {
  const bool wider = type != CARNOT_WEIGHTS_F32;
  carnot_pack_conv_k1n16_f32(shape.n, shape.depth, shape.taps, weights, wider ? wide : packed);
  if (wider) carnot_packed_weights_pack(type, shape, wide, packed);
}

const char* carnot_packed_weights_reject(const carnot_problem* problem,
                                         const carnot_tensor* weights, carnot_weights_type type,
                                         char* reason, size_t size) {
  const float* x = weights->data;
  int64_t count = carnot_tensor_count(weights);
  float found;
  if (carnot_packed_weights_split(type))
    return beyond_parts(x, count, &found)
               ? carnot_because(reason, size, "a weight of %g is not split in parts", found)
               : NULL;
  if (type != CARNOT_WEIGHTS_F16) return NULL;
  if (problem->exact_f16)
    return exact_in_f16(x, count) ? NULL
                                  : "float16 is not allowed here and would round the weights";
  if (beyond_f16(x, count, &found))
    return carnot_because(reason, size, "a weight of %g is beyond float16 (65504)", found);
  return NULL;
}

carnot_gemm_f32_fn* carnot_packed_weights_gemm(const carnot_cpu_kernels* kernels,
                                               carnot_weights_type type) {
  return type == CARNOT_WEIGHTS_F16      ? kernels->gemm_f16
         : type == CARNOT_WEIGHTS_BF16   ? kernels->gemm_bf16
         : type == CARNOT_WEIGHTS_SPLIT6 ? kernels->gemm_split6_f32
         : type == CARNOT_WEIGHTS_SPLIT3 ? kernels->gemm_split3_f32
                                         : kernels->gemm_f32;
}

carnot_conv2d_f32_fn* carnot_packed_weights_conv2d(const carnot_cpu_kernels* kernels,
                                                   carnot_weights_type type) {
  return type == CARNOT_WEIGHTS_F16      ? kernels->conv2d_f16
         : type == CARNOT_WEIGHTS_BF16   ? kernels->conv2d_bf16
         : type == CARNOT_WEIGHTS_SPLIT6 ? kernels->conv2d_split6_f32
         : type == CARNOT_WEIGHTS_SPLIT3 ? kernels->conv2d_split3_f32
                                         : kernels->conv2d_f32;
}
