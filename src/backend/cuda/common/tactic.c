// What the tactics of all families share: rejection reasons, types, activations, host operands,
// layouts.
#include "backend/cuda/common/tactic.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char* carnot_cuda_reject_reason(char* reason, size_t size, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(reason, size, format, args);
  va_end(args);
  return reason;
}

const char* carnot_cuda_type(carnot_dtype dtype) {
  switch (dtype) {
    case CARNOT_DTYPE_F32: return "f32";
    case CARNOT_DTYPE_F64: return "f64";
    case CARNOT_DTYPE_F16: return "f16";
    case CARNOT_DTYPE_BF16: return "bf16";
    case CARNOT_DTYPE_I64: return "i64";
    case CARNOT_DTYPE_I32: return "i32";
    case CARNOT_DTYPE_I16: return "i16";
    case CARNOT_DTYPE_I8: return "i8";
    case CARNOT_DTYPE_U64: return "u64";
    case CARNOT_DTYPE_U32: return "u32";
    case CARNOT_DTYPE_U16: return "u16";
    case CARNOT_DTYPE_U8: return "u8";
    case CARNOT_DTYPE_BOOL: return "b8";
    default: return NULL;
  }
}

const char* carnot_cuda_not_float(const carnot_operand_desc* t, char* reason, size_t size) {
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return "an operand has no known rank";
  if (!carnot_cuda_is_float(t->format.dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s",
                                     carnot_dtype_name(t->format.dtype));
  return NULL;
}

const char* carnot_cuda_not_real(const carnot_operand_desc* t, char* reason, size_t size) {
  return t->kind == CARNOT_VALUE_TENSOR && t->rank >= 0 && t->format.dtype == CARNOT_DTYPE_F64
             ? NULL
             : carnot_cuda_not_float(t, reason, size);
}

carnot_cuda_epilogue carnot_cuda_epilogue_from(const carnot_epilogue_activation* activation) {
  static const carnot_cuda_activation kKinds[CARNOT_FUSED_COUNT] = {
      [CARNOT_FUSED_RELU] = CARNOT_CUDA_CLAMP,
      [CARNOT_FUSED_CLAMP] = CARNOT_CUDA_CLAMP,
      [CARNOT_FUSED_SIGMOID] = CARNOT_CUDA_SIGMOID,
      [CARNOT_FUSED_SILU] = CARNOT_CUDA_SILU,
      [CARNOT_FUSED_HARD_SIGMOID] = CARNOT_CUDA_HARD_SIGMOID,
      [CARNOT_FUSED_HARD_SWISH] = CARNOT_CUDA_HARD_SWISH,
      [CARNOT_FUSED_GELU_ERF] = CARNOT_CUDA_GELU,
      [CARNOT_FUSED_GELU_TANH] = CARNOT_CUDA_GELU_TANH};
  carnot_cuda_epilogue e = {.kind = kKinds[activation->kind]};
  if (activation->kind == CARNOT_FUSED_RELU) {
    e.high = INFINITY;
  } else if (e.kind == CARNOT_CUDA_CLAMP || e.kind == CARNOT_CUDA_HARD_SIGMOID) {
    e.low = activation->a, e.high = activation->b;
  }
  return e;
}

carnot_cuda_epilogue carnot_cuda_epilogue_of(const carnot_plan_node* node) {
  const carnot_epilogue_activation activation = carnot_epilogue_activation_of(node);
  return carnot_cuda_epilogue_from(&activation);
}

carnot_status* carnot_cuda_ints(const carnot_operand* operand, int64_t* out, int capacity,
                                int* out_count) {
  *out_count = -1;
  if (operand->format.dtype == CARNOT_DTYPE_INVALID) return NULL;
  int64_t count = carnot_dims_count(operand->dims, operand->rank);
  CARNOT_CHECK(operand->format.memory == CARNOT_MEMORY_HOST && (operand->data || !count) &&
                   count <= capacity && carnot_dtype_is_integer(operand->format.dtype),
               INVALID_MODEL, "a list of %lld %s is not in host memory when shapes are set",
               (long long)count, carnot_dtype_name(operand->format.dtype));
  for (int64_t i = 0; i < count; i++)
    out[i] = carnot_load_i64(operand->format.dtype, operand->data, (size_t)i);
  *out_count = (int)count;
  return NULL;
}

// The dimension that is |i|th in memory.
static int stored_dim(const carnot_operand* t, bool channels_last, int i) {
  return !channels_last ? i : i == t->rank - 1 ? 1 : i == 0 ? 0 : i + 1;
}

bool carnot_cuda_is_dense(const carnot_operand* t, bool channels_last) {
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = stored_dim(t, channels_last, i);
    if (t->dims[d] != 1 && t->strides[d] != stride) return false;
    stride *= t->dims[d];
  }
  return (uintptr_t)t->data % 16 == 0;
}

int64_t carnot_cuda_row_pitch(const carnot_operand* t, bool channels_last) {
  const int inner = stored_dim(t, channels_last, t->rank - 1);
  int64_t pitch = 0, rows = 1;
  for (int i = t->rank - 2; i >= 0; i--) {
    int d = stored_dim(t, channels_last, i);
    if (t->dims[d] == 1) continue;
    if (!pitch) pitch = t->strides[d];
    if (t->strides[d] != pitch * rows) return 0;
    rows *= t->dims[d];
  }
  if (!pitch) pitch = t->dims[inner];
  const bool aligned = pitch == t->dims[inner] || pitch * carnot_cuda_bytes(t) % 16 == 0;
  return aligned && pitch >= t->dims[inner] && pitch <= INT32_MAX &&
                 (t->dims[inner] == 1 || t->strides[inner] == 1) && (uintptr_t)t->data % 16 == 0
             ? pitch
             : 0;
}

carnot_operand carnot_cuda_operand_of(const carnot_operand_desc* t, carnot_layout layout) {
  carnot_operand o = {
      .format.memory = CARNOT_MEMORY_DEVICE, .format.dtype = t->format.dtype, .rank = t->rank};
  memcpy(o.dims, t->dims, sizeof(o.dims));
  carnot_layout_strides(layout, t->rank, t->dims, o.strides);
  return o;
}

carnot_status* carnot_cuda_on_device(const carnot_operand* operands, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    CARNOT_CHECK(operands[i].format.dtype == CARNOT_DTYPE_INVALID ||
                     operands[i].format.memory == CARNOT_MEMORY_DEVICE,
                 INVALID_MODEL, "operand %u of a device step is not in device memory", i);
  return NULL;
}

bool carnot_cuda_is_channels_last(const carnot_operand* t) {
  int64_t stride = t->dims[1];
  bool dense = t->dims[1] == 1 || t->strides[1] == 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (d == 1) continue;
    dense = dense && (t->dims[d] == 1 || t->strides[d] == stride);
    stride *= t->dims[d];
  }
  return dense && (uintptr_t)t->data % 16 == 0;
}
