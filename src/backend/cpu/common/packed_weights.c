// Packed weights in float32, FP16 and BF16: sizes, conversion, kernels.
#include "backend/cpu/common/packed_weights.h"

#include <math.h>

#include "kernel/cpu/gemm/pack_half.h"

const char* carnot_packed_weights_packing(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F16    ? "k1n16 f16"
         : dtype == CARNOT_DTYPE_BF16 ? "k2n16 bf16"
                                      : "k1n16 f32";
}

bool carnot_packed_weights_known(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F32 || dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16;
}

size_t carnot_packed_weights_bytes(carnot_dtype dtype, carnot_packed_weights_shape shape) {
  int64_t count = carnot_packed_k1n16_count(shape.taps * shape.depth, shape.n);
  if (dtype == CARNOT_DTYPE_F32) return (size_t)count * sizeof(float);
  if (dtype == CARNOT_DTYPE_BF16)
    count = carnot_packed_k2n16_count(shape.taps, shape.depth, shape.n);
  return (size_t)count * sizeof(uint16_t);
}

void carnot_packed_weights_pack(carnot_dtype dtype, carnot_packed_weights_shape shape,
                                const float* k1n16, void* packed) {
  if (dtype == CARNOT_DTYPE_BF16)
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

const char* carnot_packed_weights_reject(const carnot_problem* problem,
                                         const carnot_tensor* weights, carnot_dtype dtype,
                                         char* reason, size_t size) {
  if (dtype != CARNOT_DTYPE_F16) return NULL;
  const float* x = weights->data;
  int64_t count = carnot_tensor_count(weights);
  if (problem->exact_f16)
    return exact_in_f16(x, count) ? NULL
                                  : "float16 is not allowed here and would round the weights";
  float greatest;
  if (beyond_f16(x, count, &greatest))
    return carnot_because(reason, size, "a weight of %g is beyond float16 (65504)", greatest);
  return NULL;
}

carnot_gemm_f32_fn* carnot_packed_weights_gemm(const carnot_cpu_kernels* kernels,
                                               carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F16    ? kernels->gemm_f16
         : dtype == CARNOT_DTYPE_BF16 ? kernels->gemm_bf16
                                      : kernels->gemm_f32;
}

carnot_conv2d_f32_fn* carnot_packed_weights_conv2d(const carnot_cpu_kernels* kernels,
                                                   carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F16    ? kernels->conv2d_f16
         : dtype == CARNOT_DTYPE_BF16 ? kernels->conv2d_bf16
                                      : kernels->conv2d_f32;
}
