// Shows the results of device steps to the watcher of a context, as host memory.
#include <stdlib.h>

#include "run/context.h"

// The bytes that |value| lies in: from its lowest element to its highest.
static void extent(const carnot_run_value* value, int64_t* out_first, int64_t* out_count) {
  const carnot_tensor* t = &value->cell.tensor;
  int64_t low = 0, high = 0;
  for (int d = 0; d < t->rank; d++)
    *(value->strides[d] < 0 ? &low : &high) += (t->dims[d] - 1) * value->strides[d];
  *out_first = low, *out_count = carnot_tensor_count(t) ? high - low + 1 : 0;
}

carnot_status* carnot_device_show(carnot_context* context, uint32_t index) {
  const carnot_plan_step* step = &context->plan->steps[index];
  void** copies;
  void* memory;
  CARNOT_TRY(carnot_calloc((size_t)step->output_count + 1, sizeof(void*), "copies", &memory));
  copies = memory;
  carnot_status* status = NULL;
  for (uint32_t i = 0; i < step->output_count && !status; i++) {
    if (step->outputs[i] == CARNOT_PLAN_NONE) continue;
    carnot_run_value* value = &context->values[step->outputs[i]];
    const carnot_dtype dtype = carnot_plan_stored_dtype(&context->plan->values[step->outputs[i]],
                                                        value->cell.tensor.dtype);
    int64_t first, count, bytes = carnot_dtype_bits(dtype) / 8;
    if (!carnot_is_on_device(context, step->outputs[i]) || !value->device_data || !bytes) continue;
    extent(value, &first, &count);
    status = carnot_calloc((size_t)(count * bytes) + 1, 1, "a watched value", &copies[i]);
    if (!status && count)
      status = carnot_session_backend(&context->device)
                   ->copy(context->device.stream, copies[i],
                          (const char*)value->device_data + first * bytes, (size_t)(count * bytes),
                          CARNOT_COPY_DOWNLOAD);
    if (!status) value->cell.tensor.data = (char*)copies[i] - first * bytes;
  }
  if (!status)
    status = carnot_session_backend(&context->device)->synchronize(context->device.stream);
  if (!status) status = context->hooks.watch(context->hooks.watch_user, context, index);
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (copies[i]) context->values[step->outputs[i]].cell.tensor.data = NULL;
    free(copies[i]);
  }
  free(copies);
  return status;
}
