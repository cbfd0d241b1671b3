// Whole tensors as one type of number: float32, float64 or int64.
#include "ops/util.h"

// The data of |t| when its type is |dtype|, else a buffer for elements of |size| bytes. NULL for an
// absent tensor.
static carnot_status* data_or_buffer(const carnot_call* call, const carnot_tensor* t,
                                     carnot_dtype dtype, size_t size, void** out) {
  *out = t ? t->data : NULL;
  if (!t || t->dtype == dtype) return NULL;
  return carnot_call_alloc(call, (size_t)carnot_tensor_count(t) * size, out);
}

// True when elements of |t| are converted between its data and |memory|.
static bool converts(const carnot_tensor* t, const void* memory) { return t && memory != t->data; }

carnot_status* carnot_call_f32_out(const carnot_call* call, carnot_tensor* t, float** out) {
  void* memory;
  *out = NULL;
  CARNOT_TRY(data_or_buffer(call, t, CARNOT_DTYPE_F32, sizeof(float), &memory));
  *out = memory;
  return NULL;
}

carnot_status* carnot_call_f32(const carnot_call* call, const carnot_tensor* t, const float** out) {
  void* memory;
  *out = NULL;
  CARNOT_TRY(data_or_buffer(call, t, CARNOT_DTYPE_F32, sizeof(float), &memory));
  if (converts(t, memory))
    carnot_load_block_f32(t->dtype, t->data, 0, 1, (size_t)carnot_tensor_count(t), memory);
  *out = memory;
  return NULL;
}

void carnot_write_f32(carnot_tensor* t, const float* from) {
  if (converts(t, from))
    carnot_store_block_f32(t->dtype, t->data, 0, 1, (size_t)carnot_tensor_count(t), from);
}

carnot_status* carnot_call_f64_out(const carnot_call* call, carnot_tensor* t, double** out) {
  void* memory;
  *out = NULL;
  CARNOT_TRY(data_or_buffer(call, t, CARNOT_DTYPE_F64, sizeof(double), &memory));
  *out = memory;
  return NULL;
}

carnot_status* carnot_call_f64(const carnot_call* call, const carnot_tensor* t,
                               const double** out) {
  void* memory;
  *out = NULL;
  CARNOT_TRY(data_or_buffer(call, t, CARNOT_DTYPE_F64, sizeof(double), &memory));
  if (converts(t, memory))
    carnot_load_block_f64(t->dtype, t->data, 0, 1, (size_t)carnot_tensor_count(t), memory);
  *out = memory;
  return NULL;
}

void carnot_write_f64(carnot_tensor* t, const double* from) {
  if (converts(t, from))
    carnot_store_block_f64(t->dtype, t->data, 0, 1, (size_t)carnot_tensor_count(t), from);
}

carnot_status* carnot_call_i64_out(const carnot_call* call, carnot_tensor* t, int64_t** out) {
  void* memory;
  *out = NULL;
  CARNOT_TRY(data_or_buffer(call, t, CARNOT_DTYPE_I64, sizeof(int64_t), &memory));
  *out = memory;
  return NULL;
}

carnot_status* carnot_call_i64(const carnot_call* call, const carnot_tensor* t,
                               const int64_t** out) {
  void* memory;
  *out = NULL;
  CARNOT_TRY(data_or_buffer(call, t, CARNOT_DTYPE_I64, sizeof(int64_t), &memory));
  if (converts(t, memory))
    carnot_load_block_i64(t->dtype, t->data, 0, 1, (size_t)carnot_tensor_count(t), memory);
  *out = memory;
  return NULL;
}

void carnot_write_i64(carnot_tensor* t, const int64_t* from) {
  if (converts(t, from))
    carnot_store_block_i64(t->dtype, t->data, 0, 1, (size_t)carnot_tensor_count(t), from);
}
