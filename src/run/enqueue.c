// Runs in a caller's stream.
#include "run/context.h"

static carnot_status* enqueue(carnot_context* context) {
  CARNOT_TRY(carnot_context_resolve(context));
  context->defer = !carnot_device_has_host_steps(context) ||
                   context->stream->device->backend->is_recording(context->stream);
  return carnot_context_run_now(context);
}

carnot_status* carnot_context_enqueue_now(carnot_context* context, void* stream) {
  CARNOT_CHECK(context->stream && !context->host_io, FAILED_PRECONDITION,
               "only an engine for an accelerator with tensors in its memory goes into a stream");
  context->stream->device->backend->stream_borrow(context->stream, stream);
  carnot_status* status = enqueue(context);
  context->defer = false;
  context->stream->device->backend->stream_return(context->stream);
  return status;
}

carnot_status* carnot_context_wait_now(carnot_context* context, void* stream) {
  CARNOT_CHECK(context->stream, FAILED_PRECONDITION, "only accelerators have streams");
  context->stream->device->backend->stream_borrow(context->stream, stream);
  carnot_status* status = context->stream->device->backend->synchronize(context->stream);
  context->stream->device->backend->stream_return(context->stream);
  return status;
}
