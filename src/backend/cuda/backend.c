// The module's table: device, memory, queues and recordings by the driver.
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/rows.h"

struct carnot_device_graph {
  CUgraphExec exec;
};

static carnot_cuda* of(carnot_device* device) { return carnot_cuda_of(device); }
static carnot_cuda* of_queue(carnot_queue* queue) { return carnot_cuda_of(queue->device); }
static carnot_cuda_queue* cast(carnot_queue* queue) { return (carnot_cuda_queue*)queue; }

static carnot_status* enter(carnot_cuda* cuda) {
  CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
  return NULL;
}

// ---- device ----

static void close_device(carnot_device* device) {
  carnot_cuda* cuda = of(device);
  if (cuda->lt) cuda->cublasLtDestroy(cuda->lt);
  if (cuda->dnn_absent) cuda->cudnnBackendDestroyDescriptor(cuda->dnn_absent);
  for (int i = 0; i < CARNOT_CUDA_DNN_HANDLES; i++)
    if (cuda->dnn_handles[i].handle) cuda->cudnnDestroy(cuda->dnn_handles[i].handle);
  for (size_t i = 0; i < cuda->module_count; i++) cuda->cuModuleUnload(cuda->modules[i]);
  if (cuda->context) cuda->cuDevicePrimaryCtxRelease_v2(cuda->device);
  void* const libraries[] = {cuda->dnn, cuda->blas, cuda->nvrtc, cuda->driver};
  for (size_t i = 0; i < 4; i++)
    if (libraries[i]) dlclose(libraries[i]);
  pthread_mutex_destroy(&cuda->mutex);
  pthread_cond_destroy(&cuda->dnn_changed);
  free(cuda->entries);
  free(cuda->modules);
  free(cuda);
}

static carnot_status* open_device(int ordinal, const char* arch, carnot_device** out_device) {
  *out_device = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda), "a CUDA device", &memory));
  carnot_cuda* cuda = memory;
  cuda->base.backend = &carnot_cuda_backend;
  cuda->base.ordinal = ordinal;
  pthread_mutex_init(&cuda->mutex, NULL);
  pthread_cond_init(&cuda->dnn_changed, NULL);
  carnot_status* status = NULL;
  if (ordinal >= 0) {
    status = carnot_cuda_open_driver(cuda, ordinal);
  } else {
    int version = atoi(arch + 3);
    snprintf(cuda->base.arch, sizeof(cuda->base.arch), "%.15s", arch);
    snprintf(cuda->base.name, sizeof(cuda->base.name), "absent %s", arch);
    cuda->major = version / 10, cuda->minor = version % 10;
    cuda->base.has_clusters = cuda->major >= 9;
    if (version < 75 || version > 130)
      status = CARNOT_ERROR(UNSUPPORTED, "architecture %s: sm_75 and newer are built for", arch);
  }
  if (status) {
    close_device(&cuda->base);
    return status;
  }
  *out_device = &cuda->base;
  return NULL;
}

static carnot_status* alloc(carnot_device* device, size_t bytes, void** out_address) {
  *out_address = NULL;
  CARNOT_TRY(enter(of(device)));
  CUdeviceptr address;
  CARNOT_TRY_AT(
      carnot_cuda_check(of(device), of(device)->cuMemAlloc_v2(&address, bytes), "cuMemAlloc"),
      "%zu bytes on %s", bytes, device->name);
  *out_address = (void*)(uintptr_t)address;
  return NULL;
}

static void free_memory(carnot_device* device, void* address) {
  if (!address) return;
  carnot_status_free(enter(of(device)));
  of(device)->cuMemFree_v2(carnot_cuda_address(address));
}

static carnot_status* alloc_host(carnot_device* device, size_t bytes, void** out_memory) {
  *out_memory = NULL;
  CARNOT_TRY(enter(of(device)));
  CARNOT_TRY_AT(carnot_cuda_check(of(device), of(device)->cuMemHostAlloc(out_memory, bytes, 0),
                                  "cuMemHostAlloc"),
                "%zu bytes of pinned memory", bytes);
  return NULL;
}

static void free_host(carnot_device* device, void* memory) {
  if (!memory) return;
  carnot_status_free(enter(of(device)));
  of(device)->cuMemFreeHost(memory);
}

static carnot_address address_of(carnot_device* device, const void* address) {
  if (enter(of(device))) return CARNOT_ADDRESS_HOST;
  unsigned kind = 0;
  CUresult result = of(device)->cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                      carnot_cuda_address(address));
  bool there =
      result == CUDA_SUCCESS && (kind == CU_MEMORYTYPE_DEVICE || kind == CU_MEMORYTYPE_UNIFIED);
  return there ? CARNOT_ADDRESS_DEVICE : CARNOT_ADDRESS_HOST;
}

// ---- queue ----

static void queue_destroy(carnot_queue* base) {
  if (!base) return;
  carnot_cuda* cuda = of_queue(base);
  carnot_cuda_queue* queue = cast(base);
  carnot_status_free(enter(cuda));
  for (size_t i = 0; i < queue->mark_capacity; i++)
    if (queue->marks[i]) cuda->cuEventDestroy_v2(queue->marks[i]);
  if (queue->own) cuda->cuStreamDestroy_v2(queue->own);
  free(queue->marks);
  free(queue);
}

static carnot_status* queue_create(carnot_device* device, carnot_queue** out_queue) {
  *out_queue = NULL;
  void* memory;
  CARNOT_TRY(enter(of(device)));
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
    queue_destroy(&queue->base);
    return status;
  }
  *out_queue = &queue->base;
  return NULL;
}

static void queue_borrow(carnot_queue* queue, void* stream) {
  cast(queue)->stream = stream ? stream : CU_STREAM_LEGACY;
}

static void queue_return(carnot_queue* queue) { cast(queue)->stream = cast(queue)->own; }

static carnot_status* copy(carnot_queue* queue, void* dst, const void* src, size_t bytes,
                           carnot_copy kind) {
  carnot_cuda* cuda = of_queue(queue);
  CUstream stream = cast(queue)->stream;
  CARNOT_TRY(enter(cuda));
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

static carnot_status* synchronize(carnot_queue* queue) {
  carnot_cuda* cuda = of_queue(queue);
  CARNOT_TRY(enter(cuda));
  CARNOT_CUDA_TRY(cuda, cuStreamSynchronize(cast(queue)->stream));
  return NULL;
}

// ---- recordings ----

static carnot_status* record_begin(carnot_queue* queue) {
  carnot_cuda* cuda = of_queue(queue);
  CARNOT_TRY(enter(cuda));
  carnot_cuda_queue* q = cast(queue);
  CARNOT_CUDA_TRY(cuda, cuStreamBeginCapture_v2(q->own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  q->records = true;
  q->lent = q->stream, q->stream = q->own;  // not every stream of a caller can be recorded
  return NULL;
}

static carnot_status* instantiate(carnot_cuda* cuda, CUgraph graph, carnot_device_graph** out) {
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_device_graph), "a recording", &memory));
  carnot_device_graph* made = memory;
  carnot_status* status = carnot_cuda_check(
      cuda, cuda->cuGraphInstantiateWithFlags(&made->exec, graph, 0), "cuGraphInstantiate");
  if (status) {
    free(made);
    return status;
  }
  *out = made;
  return NULL;
}

static void graph_destroy(carnot_queue* queue, carnot_device_graph* graph) {
  carnot_status_free(enter(of_queue(queue)));
  of_queue(queue)->cuGraphExecDestroy(graph->exec);
  free(graph);
}

static carnot_status* record_end(carnot_queue* queue, carnot_device_graph** graph) {
  carnot_cuda* cuda = of_queue(queue);
  carnot_device_graph* old = *graph;
  CUgraph recorded = NULL;
  carnot_cuda_queue* q = cast(queue);
  *graph = NULL;
  q->records = false;
  q->stream = q->lent;
  carnot_status* status =
      carnot_cuda_check(cuda, cuda->cuStreamEndCapture(q->own, &recorded), "cuStreamEndCapture");
  if (!status) status = carnot_cuda_tie_libraries(cuda, recorded);
  CUgraphExecUpdateResultInfo why;
  if (!status && old && cuda->cuGraphExecUpdate_v2(old->exec, recorded, &why) == CUDA_SUCCESS)
    *graph = old;
  else if (old)
    graph_destroy(queue, old);
  if (!status && !*graph) status = instantiate(cuda, recorded, graph);
  if (recorded) cuda->cuGraphDestroy(recorded);
  return status;
}

static carnot_status* graph_launch(carnot_queue* queue, carnot_device_graph* graph) {
  carnot_cuda* cuda = of_queue(queue);
  CARNOT_TRY(enter(cuda));
  CARNOT_CUDA_TRY(cuda, cuGraphLaunch(graph->exec, cast(queue)->stream));
  return NULL;
}

static bool is_recording(carnot_queue* queue) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  of_queue(queue)->cuStreamIsCapturing(cast(queue)->stream, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// ---- marks ----

static carnot_status* mark(carnot_queue* base, uint32_t index) {
  carnot_cuda* cuda = of_queue(base);
  carnot_cuda_queue* queue = cast(base);
  CARNOT_TRY(enter(cuda));
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

static carnot_status* between(carnot_queue* base, uint32_t first, uint32_t second,
                              uint64_t* out_ns) {
  carnot_cuda* cuda = of_queue(base);
  float ms = 0;
  CARNOT_CUDA_TRY(cuda,
                  cuEventElapsedTime(&ms, cast(base)->marks[first], cast(base)->marks[second]));
  *out_ns = (uint64_t)((double)ms * 1e6);
  return NULL;
}

// ---- profilers ----

static void span(const char* name) {
  if (name)
    nvtxRangePushA(name);
  else
    nvtxRangePop();
}

const carnot_backend carnot_cuda_backend = {.abi = CARNOT_BACKEND_ABI,
                                            .problem_bytes = sizeof(carnot_problem),
                                            .view_bytes = sizeof(carnot_step_view),
                                            .name = "cuda",
                                            .rows = carnot_cuda_rows,
                                            .open = open_device,
                                            .close = close_device,
                                            .alloc = alloc,
                                            .free = free_memory,
                                            .alloc_host = alloc_host,
                                            .free_host = free_host,
                                            .address_of = address_of,
                                            .queue_create = queue_create,
                                            .queue_destroy = queue_destroy,
                                            .queue_borrow = queue_borrow,
                                            .queue_return = queue_return,
                                            .is_recording = is_recording,
                                            .copy = copy,
                                            .synchronize = synchronize,
                                            .record_begin = record_begin,
                                            .record_end = record_end,
                                            .graph_launch = graph_launch,
                                            .graph_destroy = graph_destroy,
                                            .mark = mark,
                                            .between = between,
                                            .span = span,
                                            .measure = carnot_cuda_measure,
                                            .libraries = carnot_cuda_libraries};

const carnot_backend* carnot_backend_entry(void);
__attribute__((visibility("default"))) const carnot_backend* carnot_backend_entry(void) {
  return &carnot_cuda_backend;
}
