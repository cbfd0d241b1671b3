// Streams: creation, borrowing of a caller's stream, copies, and events for timing.
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/driver/backend.h"
#include "backend/cuda/driver/cuda.h"

static carnot_cuda* of(carnot_device* device) { return carnot_cuda_of(device); }
static carnot_cuda* device_of(carnot_stream* stream) { return carnot_cuda_of(stream->device); }
static carnot_cuda_stream* cast(carnot_stream* stream) { return (carnot_cuda_stream*)stream; }

void carnot_cuda_stream_destroy(carnot_stream* base) {
  if (!base) return;
  carnot_cuda* cuda = device_of(base);
  carnot_cuda_stream* stream = cast(base);
  carnot_status_free(carnot_cuda_enter(cuda));
  for (size_t i = 0; i < stream->mark_capacity; i++)
    if (stream->marks[i]) cuda->cuEventDestroy_v2(stream->marks[i]);
  if (stream->own) cuda->cuStreamDestroy_v2(stream->own);
  free(stream->marks);
  free(stream);
}

carnot_status* carnot_cuda_stream_create(carnot_device* device, carnot_stream** out_stream) {
  *out_stream = NULL;
  void* memory;
  CARNOT_TRY(carnot_cuda_enter(of(device)));
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda_stream), "a stream", &memory));
  carnot_cuda_stream* stream = memory;
  stream->base.device = device;
  carnot_status* status = carnot_cuda_check(
      of(device), of(device)->cuStreamCreate(&stream->own, CU_STREAM_NON_BLOCKING),
      "cuStreamCreate");
  stream->handle = stream->own;
  // Copies and empty kernels are looked up while graphs are captured, where no module can be
  // loaded.
  if (!status) status = carnot_cuda_load_family(of(device), CARNOT_CUDA_FAMILY_copy);
  if (status) {
    carnot_cuda_stream_destroy(&stream->base);
    return status;
  }
  *out_stream = &stream->base;
  return NULL;
}

void carnot_cuda_stream_borrow(carnot_stream* stream, void* handle) {
  cast(stream)->handle = handle ? handle : CU_STREAM_LEGACY;
}

void carnot_cuda_stream_return(carnot_stream* stream) { cast(stream)->handle = cast(stream)->own; }

carnot_status* carnot_cuda_stream_copy(carnot_stream* stream, void* dst, const void* src,
                                       size_t bytes, carnot_copy_kind kind) {
  carnot_cuda* cuda = device_of(stream);
  CUstream handle = cast(stream)->handle;
  CARNOT_TRY(carnot_cuda_enter(cuda));
  switch (kind) {
    case CARNOT_COPY_UPLOAD:
      CARNOT_CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2(carnot_cuda_address(dst), src, bytes, handle));
      break;
    case CARNOT_COPY_DOWNLOAD:
      CARNOT_CUDA_TRY(cuda, cuMemcpyDtoHAsync_v2(dst, carnot_cuda_address(src), bytes, handle));
      break;
    default:
      CARNOT_CUDA_TRY(cuda, cuMemcpyDtoDAsync_v2(carnot_cuda_address(dst), carnot_cuda_address(src),
                                                 bytes, handle));
  }
  return NULL;
}

carnot_status* carnot_cuda_stream_synchronize(carnot_stream* stream) {
  carnot_cuda* cuda = device_of(stream);
  CARNOT_TRY(carnot_cuda_enter(cuda));
  CARNOT_CUDA_TRY(cuda, cuStreamSynchronize(cast(stream)->handle));
  return NULL;
}

carnot_status* carnot_cuda_stream_mark(carnot_stream* base, uint32_t index) {
  carnot_cuda* cuda = device_of(base);
  carnot_cuda_stream* stream = cast(base);
  CARNOT_TRY(carnot_cuda_enter(cuda));
  if (index >= stream->mark_capacity) {
    size_t old = stream->mark_capacity;
    void* marks = stream->marks;
    CARNOT_TRY(
        carnot_grow(&marks, &stream->mark_capacity, (size_t)index + 1, sizeof(CUevent), "marks"));
    stream->marks = marks;
    memset(stream->marks + old, 0, (stream->mark_capacity - old) * sizeof(CUevent));
  }
  if (!stream->marks[index])
    CARNOT_CUDA_TRY(cuda, cuEventCreate(&stream->marks[index], CU_EVENT_DEFAULT));
  // In a recording, a mark is passed each time the graph runs.
  unsigned flags = stream->records ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
  CARNOT_CUDA_TRY(cuda, cuEventRecordWithFlags(stream->marks[index], stream->handle, flags));
  return NULL;
}

carnot_status* carnot_cuda_stream_elapsed(carnot_stream* base, uint32_t first, uint32_t second,
                                          uint64_t* out_ns) {
  carnot_cuda* cuda = device_of(base);
  float ms = 0;
  CARNOT_CUDA_TRY(cuda,
                  cuEventElapsedTime(&ms, cast(base)->marks[first], cast(base)->marks[second]));
  *out_ns = (uint64_t)((double)ms * 1e6);
  return NULL;
}
