// Copies of tensors as data of their own.
#include "api/builder/network.h"
#include "ops/execute.h"

carnot_status* carnot_data_copy_tensor(const carnot_tensor* tensor, carnot_data** out_data) {
  size_t bytes = carnot_tensor_bytes(tensor), text_bytes = 0;
  bool is_text = tensor->dtype == CARNOT_DTYPE_STRING;
  const carnot_strview* texts = is_text ? tensor->data : NULL;
  for (int64_t i = 0; is_text && i < carnot_tensor_count(tensor); i++) text_bytes += texts[i].size;
  // Kernels read numbers at any alignment up to a cache line.
  enum { kAlignment = 64 };
  void* memory;
  CARNOT_CHECK(bytes < SIZE_MAX / 2 && text_bytes < SIZE_MAX / 4, OUT_OF_RANGE,
               "a tensor of %zu bytes", bytes);
  CARNOT_TRY(
      carnot_calloc(1, sizeof(carnot_data) + bytes + text_bytes + kAlignment, "a tensor", &memory));
  carnot_data* data = memory;
  data->kind = CARNOT_VALUE_TENSOR;
  data->tensor = *tensor;
  char* elements = (char*)(((uintptr_t)(data + 1) + kAlignment - 1) & ~(uintptr_t)(kAlignment - 1));
  data->tensor.data = elements;
  if (bytes) memcpy(elements, tensor->data, bytes);
  char* text = elements + bytes;
  for (int64_t i = 0; is_text && i < carnot_tensor_count(tensor); i++) {
    if (texts[i].size) memcpy(text, texts[i].data, texts[i].size);
    ((carnot_strview*)data->tensor.data)[i].data = text;
    text += texts[i].size;
  }
  *out_data = data;
  return NULL;
}
