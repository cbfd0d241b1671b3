// The weights that the device steps of an engine read: copied once an engine and device.
#include <stdlib.h>

#include "run/context.h"

static void mark_needed(const carnot_context* context, const void** needed) {
  const carnot_plan* plan = context->plan;
  for (uint32_t i = 0; i < plan->value_count; i++) {
    const carnot_plan_value* v = &plan->values[i];
    if (v->storage == CARNOT_STORAGE_CONSTANT && v->format.memory == CARNOT_MEMORY_DEVICE)
      needed[v->index] = context->weights->data[v->index];
  }
  for (uint32_t s = 0; s < plan->step_count; s++)
    for (uint32_t k = 0; k < plan->steps[s].variant_count; k++)
      for (uint32_t c = 0; c < plan->steps[s].variants[k].constant_count; c++) {
        uint32_t blob = plan->steps[s].variants[k].constants[c];
        if (carnot_blob_is_read_there(context->steps[s].tactics[k], &plan->blobs[blob]))
          needed[blob] = context->weights->data[blob];
      }
}

static carnot_status* upload(carnot_context* context, carnot_device_weights* out) {
  const carnot_plan* plan = context->plan;
  const carnot_backend* backend = carnot_session_backend(&context->device);
  mark_needed(context, out->data);
  size_t total = 0;
  for (uint32_t i = 0; i < plan->blob_count; i++)
    if (out->data[i] && plan->blobs[i].tensor.dtype != CARNOT_DTYPE_STRING)
      total += carnot_align_up(carnot_tensor_bytes(&plan->blobs[i].tensor), 256);
  CARNOT_TRY_AT(backend->alloc(context->device.stream->device, total + 1, &out->memory), "weights");
  char* at = out->memory;
  for (uint32_t i = 0; i < plan->blob_count; i++) {
    const void* host = out->data[i];
    out->data[i] = NULL;
    if (!host || plan->blobs[i].tensor.dtype == CARNOT_DTYPE_STRING) continue;
    size_t bytes = carnot_tensor_bytes(&plan->blobs[i].tensor);  // a stripped blob's own are 0
    CARNOT_TRY(backend->copy(context->device.stream, at, host, bytes, CARNOT_COPY_UPLOAD));
    out->data[i] = at;
    at += carnot_align_up(bytes, 256);
  }
  return backend->synchronize(context->device.stream);
}

static void free_weights(void* device, void* memory) {
  ((carnot_device*)device)->backend->free(device, memory);
}

static carnot_status* upload_once(carnot_context* context) {
  carnot_device* device = context->device.stream->device;
  for (const carnot_device_weights* u = context->weights->uploads; u; u = u->next)
    if (u->device == device) return NULL;
  void *memory, *data = NULL;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_device_weights), "weights", &memory));
  carnot_device_weights* made = memory;
  made->device = device;
  made->free = free_weights;
  carnot_status* status =
      carnot_calloc((size_t)context->plan->blob_count + 1, sizeof(void*), "weights", &data);
  made->data = data;
  if (!status) status = upload(context, made);
  if (status) {
    free_weights(device, made->memory);
    free(made->data);
    free(made);
    return status;
  }
  made->next = context->weights->uploads;
  context->weights->uploads = made;
  return NULL;
}

carnot_status* carnot_context_upload(carnot_context* context) {
  pthread_mutex_lock(&context->engine->mutex);
  carnot_status* status = upload_once(context);
  pthread_mutex_unlock(&context->engine->mutex);
  return status;
}
