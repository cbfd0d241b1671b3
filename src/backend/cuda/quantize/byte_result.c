// Results that kernels of 16-bit floats store as bytes: type, scale and zero point.
#include "backend/cuda/quantize/byte_result.h"

#include <float.h>

static carnot_cuda_byte_type type_of(carnot_dtype dtype) {
  switch (dtype) {
    case CARNOT_DTYPE_U8: return CARNOT_CUDA_BYTE_U8;
    case CARNOT_DTYPE_I8: return CARNOT_CUDA_BYTE_S8;
    case CARNOT_DTYPE_F8E4M3FN: return CARNOT_CUDA_BYTE_FP8;
    default: return CARNOT_CUDA_BYTE_NONE;
  }
}

const char* carnot_cuda_end_read(const carnot_problem* problem, const carnot_quantized_end* end,
                                 float* out_scale, int* out_zero) {
  const carnot_operand_desc *scale = &problem->inputs[end->scale],
                            *zero =
                                end->zero == CARNOT_PLAN_NONE ? NULL : &problem->inputs[end->zero];
  if (!carnot_is_known(scale) || scale->format.dtype != CARNOT_DTYPE_F32 ||
      carnot_tensor_count(scale->tensor) != 1 ||
      (zero && (!carnot_is_known(zero) || carnot_tensor_count(zero->tensor) != 1)))
    return "it has not one known float32 scale and zero point";
  *out_scale = *(const float*)scale->tensor->data;
  *out_zero = zero ? (int)carnot_load_f64(zero->format.dtype, zero->tensor->data, 0) : 0;
  return *out_scale >= FLT_MIN && *out_scale <= FLT_MAX ? NULL : "the scale is no normal number";
}

const char* carnot_cuda_byte_result_read(const carnot_problem* problem,
                                         const carnot_quantized_end* end, uint32_t output,
                                         carnot_cuda_byte_result* out) {
  *out = (carnot_cuda_byte_result){.type = (int)type_of(problem->outputs[output].format.dtype)};
  const char* why = carnot_cuda_end_read(problem, end, &out->scale, &out->zero);
  if (why) return why;
  if (out->type == CARNOT_CUDA_BYTE_NONE) return "the result is not int8, uint8 or float8e4m3fn";
  if (out->type == CARNOT_CUDA_BYTE_FP8 && out->zero) return "a zero point of FP8 other than 0";
  return NULL;
}

bool carnot_cuda_byte_result_fits(const carnot_cuda_byte_result* result, carnot_dtype dtype) {
  return result->type != CARNOT_CUDA_BYTE_NONE && result->type == (int)type_of(dtype);
}
