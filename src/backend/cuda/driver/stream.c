// Streams: creation, borrowing of a caller's stream, copies, and events for timing.
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/driver/backend.h"
#include "backend/cuda/driver/cuda.h"

static carnot_cuda* of(carnot_device* device) { return carnot_cuda_of(device); }
static carnot_cuda* of_queue(carnot_stream* queue) { return carnot_cuda_of(queue->device); }
static carnot_cuda_queue* cast(carnot_stream* queue) { return (carnot_cuda_queue*)queue; }

void carnot_cuda_stream_destroy(carnot_stream* base) {
  if (!base) return;
  carnot_cuda* cuda = of_queue(base);
  carnot_cuda_queue* queue = cast(base);
  carnot_status_free(carnot_cuda_enter(cuda));
  for (size_t i = 0; i < queue->mark_capacity; i++)
    if (queue->marks[i]) cuda->cuEventDestroy_v2(queue->marks[i]);
  if (queue->own) cuda->cuStreamDestroy_v2(queue->own);
  free(queue->marks);
  free(queue);
}

carnot_status* carnot_cuda_stream_create(carnot_device* device, carnot_stream** out_queue) {
  *out_queue = NULL;
  void* memory;
  CARNOT_TRY(carnot_cuda_enter(of(device)));
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda_queue), "a queue", &memory));
  carnot_cuda_queue* queue = memory;
  queue->base.device = device;
  carnot_status* status =
      carnot_cuda_check(of(device), of(device)->cuStreamCreate(&queue->own, CU_STREAM_NON_BLOCKING),
                        "cuStreamCreate");
  queue->stream = queue->own;
  // Copies and empty kernels are looked up while graphs are captured, where no module can be
  // loaded.
  if (!status) status = carnot_cuda_load_family(of(device), CARNOT_CUDA_FAMILY_copy);
  if (status) {
    carnot_cuda_stream_destroy(&queue->base);
    return status;
  }
  *out_queue = &queue->base;
  return NULL;
}

void carnot_cuda_stream_borrow(carnot_stream* queue, void* stream) {
  cast(queue)->stream = stream ? stream : CU_STREAM_LEGACY;
}

void carnot_cuda_stream_return(carnot_stream* queue) { cast(queue)->stream = cast(queue)->own; }

carnot_status* carnot_cuda_stream_copy(carnot_stream* queue, void* dst, const void* src,
                                       size_t bytes, carnot_copy_kind kind) {
  carnot_cuda* cuda = of_queue(queue);
  CUstream stream = cast(queue)->stream;
  CARNOT_TRY(carnot_cuda_enter(cuda));
  switch (kind) {
    case CARNOT_COPY_UPLOAD:
      CARNOT_CUDA_TRY(cuda, cuMemcpyHtoDAsync_v2(carnot_cuda_address(dst), src, bytes, stream));
      break;
    case CARNOT_COPY_DOWNLOAD:
      CARNOT_CUDA_TRY(cuda, cuMemcpyDtoHAsync_v2(dst, carnot_cuda_address(src), bytes, stream));
      break;
    default:
      CARNOT_CUDA_TRY(cuda, cuMemcpyDtoDAsync_v2(carnot_cuda_address(dst), carnot_cuda_address(src),
                                                 bytes, stream));
  }
  return NULL;
}

carnot_status* carnot_cuda_stream_synchronize(carnot_stream* queue) {
  carnot_cuda* cuda = of_queue(queue);
  CARNOT_TRY(carnot_cuda_enter(cuda));
  CARNOT_CUDA_TRY(cuda, cuStreamSynchronize(cast(queue)->stream));
  return NULL;
}

carnot_status* carnot_cuda_stream_mark(carnot_stream* base, uint32_t index) {
  carnot_cuda* cuda = of_queue(base);
  carnot_cuda_queue* queue = cast(base);
  CARNOT_TRY(carnot_cuda_enter(cuda));
  if (index >= queue->mark_capacity) {
    size_t old = queue->mark_capacity;
    void* marks = queue->marks;
    CARNOT_TRY(
        carnot_grow(&marks, &queue->mark_capacity, (size_t)index + 1, sizeof(CUevent), "marks"));
    queue->marks = marks;
    memset(queue->marks + old, 0, (queue->mark_capacity - old) * sizeof(CUevent));
  }
  if (!queue->marks[index])
    CARNOT_CUDA_TRY(cuda, cuEventCreate(&queue->marks[index], CU_EVENT_DEFAULT));
  // In a recording, a mark is passed each time the graph runs.
  unsigned flags = queue->records ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
  CARNOT_CUDA_TRY(cuda, cuEventRecordWithFlags(queue->marks[index], queue->stream, flags));
  return NULL;
}

carnot_status* carnot_cuda_stream_elapsed(carnot_stream* base, uint32_t first, uint32_t second,
                                          uint64_t* out_ns) {
  carnot_cuda* cuda = of_queue(base);
  float ms = 0;
  CARNOT_CUDA_TRY(cuda,
                  cuEventElapsedTime(&ms, cast(base)->marks[first], cast(base)->marks[second]));
  *out_ns = (uint64_t)((double)ms * 1e6);
  return NULL;
}
