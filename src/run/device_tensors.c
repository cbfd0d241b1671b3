// The user's tensors of an engine for an accelerator: where they are on the device, and the copies
// before and after a run.
#include <stdlib.h>

#include "run/context.h"

static carnot_status* take_pinned(carnot_context* context, carnot_run_binding* binding,
                                  size_t bytes) {
  if (binding->pinned && bytes <= binding->pinned_bytes) return NULL;
  const carnot_backend* backend = carnot_session_backend(&context->device);
  backend->free_host(context->device.stream->device, binding->pinned);
  binding->pinned = NULL;
  binding->pinned_bytes = 0;
  CARNOT_TRY(backend->alloc_host(context->device.stream->device, bytes + 1, &binding->pinned));
  binding->pinned_bytes = bytes;
  return NULL;
}

carnot_status* carnot_place_on_device(carnot_context* context, uint32_t index, size_t bytes,
                                      void** out_data) {
  carnot_run_binding* binding = &context->bindings[index];
  const carnot_plan_binding* b = &context->plan->bindings[index];
  *out_data = NULL;
  if (!context->device.host_io && carnot_waits_for_memory(binding, bytes)) return NULL;
  if (context->device.host_io || !binding->address) {
    CARNOT_TRY(carnot_device_session_grow(&context->device, bytes, &binding->device_memory,
                                          &binding->device_bytes));
    *out_data = binding->device_memory;
    return NULL;
  }
  CARNOT_CHECK(carnot_session_backend(&context->device)
                       ->address_of(context->device.stream->device, binding->address) ==
                   CARNOT_ADDRESS_DEVICE,
               INVALID_ARGUMENT,
               "tensor %s of this engine for %s wants device memory, %p is host memory", b->name,
               context->plan->device, binding->address);
  CARNOT_CHECK(b->is_input || bytes <= binding->capacity_bytes, OUT_OF_RANGE,
               "output %s takes %zu bytes, its memory holds %zu", b->name, bytes,
               binding->capacity_bytes);
  *out_data = binding->address;
  return NULL;
}

static carnot_status* send_input(carnot_context* context, uint32_t index) {
  carnot_run_binding* binding = &context->bindings[index];
  carnot_rt_value cell = carnot_stored_cell(&context->plan->bindings[index], &binding->cell);
  size_t bytes = carnot_tensor_bytes(&cell.tensor);
  if (!bytes) return NULL;
  CARNOT_TRY(take_pinned(context, binding, bytes));
  memcpy(binding->pinned, binding->address, bytes);
  return carnot_session_backend(&context->device)
      ->copy(context->device.stream, binding->device_memory, binding->pinned, bytes,
             CARNOT_COPY_UPLOAD);
}

// A host step may read an input that lies in device memory only through a copy, which is a step.
carnot_status* carnot_device_begin(carnot_context* context) {
  CARNOT_CHECK(!context->hooks.watch || !context->device.defer, UNSUPPORTED,
               "the values of a run that is only put into a stream cannot be watched");
  context->device.direct =
      context->device.defer &&
      carnot_session_backend(&context->device)->is_recording(context->device.stream);
  CARNOT_TRY(carnot_device_session_mark(&context->device, CARNOT_MARK_START));
  for (uint32_t i = 0;
       context->device.host_io && !context->device.keep_tensors && i < context->plan->binding_count;
       i++)
    if (context->plan->bindings[i].is_input &&
        carnot_is_on_device(context, context->plan->bindings[i].value))
      CARNOT_TRY(send_input(context, i));
  return carnot_device_session_mark(&context->device, CARNOT_MARK_UPLOADED);
}

carnot_status* carnot_device_computed(carnot_context* context) {
  return carnot_device_session_mark(&context->device, CARNOT_MARK_COMPUTED);
}

// The result as the user sees it: in device memory, or copied to the host.
carnot_status* carnot_device_deliver(carnot_context* context, uint32_t index) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  const carnot_plan_value* v = &context->plan->values[b->value];
  carnot_run_binding* binding = &context->bindings[index];
  const carnot_run_value* value = &context->values[b->value];
  bool on_device = v->format.memory == CARNOT_MEMORY_DEVICE;
  size_t bytes = carnot_tensor_bytes(&value->cell.tensor);
  const void* from = on_device ? value->device_data : value->cell.tensor.data;
  CARNOT_CHECK(from || !bytes, INVALID_MODEL, "no step makes output %s of %zu bytes", b->name,
               bytes);
  carnot_dims dims = {.rank = binding->cell.tensor.rank};
  memcpy(dims.d, binding->cell.tensor.dims, sizeof(dims.d));
  void* to = binding->address;
  if (binding->allocate && !binding->asked) {
    CARNOT_TRY(carnot_ask_allocator(context, index, bytes, &to));
  } else if (to) {
    CARNOT_CHECK(bytes <= binding->capacity_bytes, OUT_OF_RANGE,
                 "output %s takes %zu bytes, its memory holds %zu", b->name, bytes,
                 binding->capacity_bytes);
  } else if (context->device.host_io) {
    CARNOT_TRY(take_pinned(context, binding, bytes));
    to = binding->pinned;
  } else {
    CARNOT_TRY(carnot_device_session_grow(&context->device, bytes, &binding->device_memory,
                                          &binding->device_bytes));
    to = binding->device_memory;
  }
  carnot_copy_kind kind = context->device.host_io ? CARNOT_COPY_DOWNLOAD
                          : on_device             ? CARNOT_COPY_INSIDE
                                                  : CARNOT_COPY_UPLOAD;
  if (bytes && from != to && !context->device.keep_tensors)
    CARNOT_TRY(carnot_session_backend(&context->device)
                   ->copy(context->device.stream, to, from, bytes, kind));
  binding->cell.tensor.data = to;
  if (binding->notify) binding->notify(binding->allocate_user, b->name, &dims);
  return NULL;
}

carnot_status* carnot_device_end(carnot_context* context) {
  if (context->device.defer) return NULL;
  const carnot_backend* backend = carnot_session_backend(&context->device);
  CARNOT_TRY(carnot_device_session_mark(&context->device, CARNOT_MARK_DONE));
  CARNOT_TRY(backend->synchronize(context->device.stream));
  for (uint32_t i = 0; context->device.time_io && i < 3; i++)
    CARNOT_TRY(backend->between(context->device.stream, CARNOT_MARK_START + i,
                                CARNOT_MARK_START + i + 1, &context->device.io_ns[i]));
  return NULL;
}
