#include "triton/reply.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "triton/convert.h"
#include "triton/text.h"

carnot_status* carnot_triton_reply_find(carnot_triton_instance* instance, int64_t rows) {
  const carnot_triton_model* model = instance->model;
  for (uint32_t i = 0; i < model->output_count; i++) {
    const char* name = model->tensors[model->input_count + i].name;
    CARNOT_TRY(carnot_context_output_value(instance->context, name, &instance->results[i]));
    if (rows == 0) continue;
    carnot_dims dims = carnot_data_dims(instance->results[i]);
    CARNOT_CHECK(dims.rank > 0 && dims.d[0] == rows, INTERNAL,
                 "output %s has %" PRId64 " rows for a batch of %" PRId64
                 ": its first dimension is no batch; set max_batch_size: 1",
                 name, dims.rank > 0 ? dims.d[0] : 1, rows);
  }
  return NULL;
}

// Elements [first, first + count) of |value| to output |name| of |response|.
static carnot_status* write_output(TRITONBACKEND_Response* response, const char* name,
                                   const carnot_data* value, const carnot_dims* dims, size_t first,
                                   size_t count) {
  carnot_dtype dtype = carnot_data_dtype(value);
  bool is_text = dtype == CARNOT_DTYPE_STRING;
  size_t bytes =
      is_text ? carnot_triton_text_bytes(value, first, count) : carnot_dtype_bytes(dtype, count);
  TRITONBACKEND_Output* output;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ResponseOutput(
      response, &output, name, carnot_triton_type(dtype), dims->d, (uint32_t)dims->rank)));
  void* data;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t number = 0;
  CARNOT_TRY(
      carnot_triton_from_error(TRITONBACKEND_OutputBuffer(output, &data, bytes, &memory, &number)));
  CARNOT_CHECK(memory != TRITONSERVER_MEMORY_GPU, UNSUPPORTED,
               "output %s was asked for in the memory of a GPU, must be host memory", name);
  if (is_text)
    carnot_triton_text_write(value, first, count, data);
  else if (bytes)
    memcpy(data, (const char*)carnot_data_numbers(value) + carnot_dtype_bytes(dtype, first), bytes);
  return NULL;
}

static carnot_status* write_outputs(const carnot_triton_instance* instance,
                                    const carnot_triton_request* request, int64_t all,
                                    int64_t first, TRITONBACKEND_Response* response) {
  const carnot_triton_model* model = instance->model;
  for (uint32_t i = 0; i < model->output_count; i++) {
    if (!request->wants[i]) continue;
    carnot_dims dims = carnot_data_dims(instance->results[i]);
    size_t count = 1;
    for (int d = all ? 1 : 0; d < dims.rank; d++) count *= (size_t)dims.d[d];
    size_t begin = all ? count * (size_t)first : 0;
    if (all) {
      dims.d[0] = request->rows;
      count *= (size_t)request->rows;
    }
    CARNOT_TRY(write_output(response, model->tensors[model->input_count + i].name,
                            instance->results[i], &dims, begin, count));
  }
  return NULL;
}

carnot_status* carnot_triton_reply_write(const carnot_triton_instance* instance,
                                         const carnot_triton_request* request, int64_t all,
                                         int64_t first, TRITONBACKEND_Response** out_response) {
  *out_response = NULL;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ResponseNew(out_response, request->handle)));
  return write_outputs(instance, request, all, first, *out_response);
}
