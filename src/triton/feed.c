#include "triton/feed.h"

#include <string.h>

#include "base/status.h"
#include "triton/convert.h"
#include "triton/text.h"

// Part |index| of an input, in memory of the host.
static carnot_status* buffer_of(const carnot_triton_input* input, const char* name, uint32_t index,
                                const void** out_data, uint64_t* out_bytes) {
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t number = 0;
  CARNOT_TRY(carnot_triton_from_error(
      TRITONBACKEND_InputBuffer(input->handle, index, out_data, out_bytes, &memory, &number)));
  CARNOT_CHECK(memory != TRITONSERVER_MEMORY_GPU, UNSUPPORTED,
               "input %s is in the memory of a GPU, must be in host memory", name);
  return NULL;
}

// Lends the memory of one request: *out_data stays NULL where it is not in one aligned piece.
static carnot_status* lend(const carnot_triton_input* input, const char* name,
                           const void** out_data) {
  *out_data = NULL;
  if (input->buffer_count != 1) return NULL;
  const void* data;
  uint64_t bytes;
  CARNOT_TRY(buffer_of(input, name, 0, &data, &bytes));
  int element = carnot_dtype_bits(input->dtype) / 8;
  if (bytes == input->bytes && (element <= 1 || (uintptr_t)data % (uintptr_t)element == 0))
    *out_data = data;
  return NULL;
}

// Copies input |index| of all |members| into the instance's memory.
static carnot_status* gather(carnot_triton_instance* instance, uint32_t index,
                             carnot_triton_request* const* members, uint32_t count) {
  const char* name = instance->model->tensors[index].name;
  carnot_triton_buffer* buffer = &instance->gathered[index];
  size_t total = 0, at = 0;
  for (uint32_t m = 0; m < count; m++) total += members[m]->inputs[index].bytes;
  CARNOT_TRY(carnot_triton_buffer_reserve(buffer, total));
  for (uint32_t m = 0; m < count; m++) {
    const carnot_triton_input* input = &members[m]->inputs[index];
    size_t end = at + input->bytes;
    for (uint32_t b = 0; b < input->buffer_count; b++) {
      const void* data;
      uint64_t bytes;
      CARNOT_TRY(buffer_of(input, name, b, &data, &bytes));
      CARNOT_CHECK(bytes <= end - at, INVALID_ARGUMENT, "input %s has more than its %zu bytes",
                   name, (size_t)input->bytes);
      if (bytes) memcpy(buffer->data + at, data, bytes);
      at += bytes;
    }
    CARNOT_CHECK(at == end, INVALID_ARGUMENT, "input %s has less than its %zu bytes", name,
                 (size_t)input->bytes);
  }
  return NULL;
}

// The value of input |index| in the instance's values.
static carnot_status* make_value(carnot_triton_instance* instance, uint32_t index,
                                 carnot_triton_request* const* members, uint32_t count) {
  const carnot_tensor_info* tensor = &instance->model->tensors[index];
  const carnot_triton_input* input = &members[0]->inputs[index];
  const carnot_dims* dims = &instance->dims[index];
  carnot_data** value = &instance->values[2 * index];
  bool is_optional = tensor->kind == CARNOT_DATA_OPTIONAL;
  if (!input->handle) return carnot_data_create_optional(NULL, value);
  if (is_optional) value++;
  if (input->dtype == CARNOT_DTYPE_STRING) {
    CARNOT_TRY(gather(instance, index, members, count));
    size_t total = 0;
    for (uint32_t m = 0; m < count; m++) total += members[m]->inputs[index].bytes;
    CARNOT_TRY_AT(carnot_triton_text_read(dims, instance->gathered[index].data, total, value),
                  "input %s", tensor->name);
  } else {
    const void* data = NULL;
    if (count == 1) CARNOT_TRY(lend(input, tensor->name, &data));
    if (!data) CARNOT_TRY(gather(instance, index, members, count));
    CARNOT_TRY(carnot_data_create_tensor(input->dtype, dims,
                                         data ? data : instance->gathered[index].data, value));
  }
  return is_optional ? carnot_data_create_optional(*value, value - 1) : NULL;
}

carnot_status* carnot_triton_feed(carnot_triton_instance* instance,
                                  carnot_triton_request* const* members, uint32_t count) {
  const carnot_triton_model* model = instance->model;
  for (uint32_t i = 0; i < model->input_count; i++) {
    CARNOT_TRY(make_value(instance, i, members, count));
    CARNOT_TRY(carnot_context_set_input_value(instance->context, model->tensors[i].name,
                                              instance->values[2 * i]));
  }
  return NULL;
}

void carnot_triton_feed_drop(carnot_triton_instance* instance) {
  carnot_status_free(carnot_context_clear_addresses(instance->context));
  for (uint32_t i = 0; i < 2 * instance->model->input_count; i++) {
    carnot_data_destroy(instance->values[i]);
    instance->values[i] = NULL;
  }
}
