// Runs in a caller's stream.
#include "run/context.h"

static carnot_status* enqueue(carnot_context* context) {
  CARNOT_TRY(carnot_context_resolve(context));
  context->device.defer =
      !carnot_device_has_host_steps(context) ||
      context->device.stream->device->backend->is_recording(context->device.stream);
  return carnot_context_run_now(context);
}

carnot_status* carnot_context_enqueue_now(carnot_context* context, void* stream) {
  CARNOT_CHECK(context->device.stream && !context->device.host_io, FAILED_PRECONDITION,
               "only an engine for an accelerator with tensors in its memory goes into a stream");
  context->device.stream->device->backend->stream_borrow(context->device.stream, stream);
  carnot_status* status = enqueue(context);
  context->device.defer = false;
  context->device.stream->device->backend->stream_return(context->device.stream);
  return status;
}

carnot_status* carnot_context_wait_now(carnot_context* context, void* stream) {
  CARNOT_CHECK(context->device.stream, FAILED_PRECONDITION, "only accelerators have streams");
  context->device.stream->device->backend->stream_borrow(context->device.stream, stream);
  carnot_status* status =
      context->device.stream->device->backend->synchronize(context->device.stream);
  context->device.stream->device->backend->stream_return(context->device.stream);
  return status;
}
