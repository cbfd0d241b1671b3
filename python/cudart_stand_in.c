// Stands in for libcudart.so where there is no driver: device memory is host memory, every call is
// done when it returns. For programs that call the CUDA runtime through ctypes; opt-in, see
// carnot/alias.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
enum { SUCCESS = 0, INVALID_VALUE = 1, MEMORY_ALLOCATION = 2, NOT_SUPPORTED = 801 };

static int allocate(void** out_memory, size_t bytes) {
  if (!out_memory) return INVALID_VALUE;
  *out_memory = NULL;
  if (bytes > (size_t)-1 - 256) return MEMORY_ALLOCATION;
  if (bytes) *out_memory = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
  return bytes && !*out_memory ? MEMORY_ALLOCATION : SUCCESS;
}

static int copy(void* dst, const void* src, size_t bytes) {
  if (bytes && (!dst || !src)) return INVALID_VALUE;
  if (bytes) memmove(dst, src, bytes);
  return SUCCESS;
}

EXPORT int cudaMalloc(void** memory, size_t bytes) { return allocate(memory, bytes); }
EXPORT int cudaMallocHost(void** memory, size_t bytes) { return allocate(memory, bytes); }
EXPORT int cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  (void)flags;
  return allocate(memory, bytes);
}
EXPORT int cudaMallocManaged(void** memory, size_t bytes, unsigned flags) {
  (void)flags;
  return allocate(memory, bytes);
}
EXPORT int cudaMallocAsync(void** memory, size_t bytes, void* stream) {
  (void)stream;
  return allocate(memory, bytes);
}
EXPORT int cudaFree(void* memory) {
  free(memory);
  return SUCCESS;
}
EXPORT int cudaFreeHost(void* memory) { return cudaFree(memory); }
EXPORT int cudaFreeAsync(void* memory, void* stream) {
  (void)stream;
  return cudaFree(memory);
}

// A memory pool is an address of its own; what comes from it is ordinary memory.
EXPORT int cudaMemPoolCreate(void** pool, const void* properties) {
  (void)properties;
  return allocate(pool, 1);
}
EXPORT int cudaMemPoolDestroy(void* pool) { return cudaFree(pool); }
EXPORT int cudaMemPoolSetAttribute(void* pool, int attribute, void* value) {
  (void)attribute;
  return pool && value ? SUCCESS : INVALID_VALUE;
}
EXPORT int cudaMemPoolTrimTo(void* pool, size_t bytes) {
  (void)bytes;
  return pool ? SUCCESS : INVALID_VALUE;
}
EXPORT int cudaMallocFromPoolAsync(void** memory, size_t bytes, void* pool, void* stream) {
  (void)stream;
  return pool ? allocate(memory, bytes) : INVALID_VALUE;
}

EXPORT int cudaMemcpy(void* dst, const void* src, size_t bytes, int kind) {
  (void)kind;
  return copy(dst, src, bytes);
}
EXPORT int cudaMemcpyAsync(void* dst, const void* src, size_t bytes, int kind, void* stream) {
  (void)kind;
  (void)stream;
  return copy(dst, src, bytes);
}
EXPORT int cudaMemset(void* memory, int value, size_t bytes) {
  if (bytes && !memory) return INVALID_VALUE;
  if (bytes) memset(memory, value, bytes);
  return SUCCESS;
}
EXPORT int cudaMemsetAsync(void* memory, int value, size_t bytes, void* stream) {
  (void)stream;
  return cudaMemset(memory, value, bytes);
}

// A stream and an event are a time each, so that handles are addresses of their own.
static int create(void** out_handle) {
  if (!out_handle) return INVALID_VALUE;
  *out_handle = calloc(1, sizeof(struct timespec));
  return *out_handle ? SUCCESS : MEMORY_ALLOCATION;
}
EXPORT int cudaStreamCreate(void** stream) { return create(stream); }
EXPORT int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  (void)flags;
  return create(stream);
}
EXPORT int cudaStreamDestroy(void* stream) { return cudaFree(stream); }
EXPORT int cudaStreamSynchronize(void* stream) {
  (void)stream;
  return SUCCESS;
}
EXPORT int cudaStreamQuery(void* stream) { return cudaStreamSynchronize(stream); }
EXPORT int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  (void)event;
  (void)flags;
  return cudaStreamSynchronize(stream);
}
EXPORT int cudaDeviceSynchronize(void) { return SUCCESS; }
EXPORT int cudaEventCreate(void** event) { return create(event); }
EXPORT int cudaEventCreateWithFlags(void** event, unsigned flags) {
  (void)flags;
  return create(event);
}
EXPORT int cudaEventDestroy(void* event) { return cudaFree(event); }
EXPORT int cudaEventRecord(void* event, void* stream) {
  (void)stream;
  if (!event) return INVALID_VALUE;
  clock_gettime(CLOCK_MONOTONIC, event);
  return SUCCESS;
}
EXPORT int cudaEventSynchronize(void* event) { return event ? SUCCESS : INVALID_VALUE; }
EXPORT int cudaEventElapsedTime(float* out_ms, const void* start, const void* end) {
  if (!out_ms || !start || !end) return INVALID_VALUE;
  const struct timespec *a = start, *b = end;
  *out_ms =
      (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
  return SUCCESS;
}

EXPORT int cudaGetDeviceCount(int* out_count) {
  if (!out_count) return INVALID_VALUE;
  *out_count = 1;
  return SUCCESS;
}
EXPORT int cudaGetDevice(int* out_device) {
  if (!out_device) return INVALID_VALUE;
  *out_device = 0;
  return SUCCESS;
}
// The device has no compute capability and no multiprocessor: every attribute is 0.
EXPORT int cudaDeviceGetAttribute(int* out_value, int attribute, int device) {
  (void)attribute;
  if (!out_value || device != 0) return INVALID_VALUE;
  *out_value = 0;
  return SUCCESS;
}
EXPORT int cudaRuntimeGetVersion(int* out_version) {
  if (!out_version) return INVALID_VALUE;
  *out_version = 12000;
  return SUCCESS;
}
EXPORT int cudaDriverGetVersion(int* out_version) { return cudaRuntimeGetVersion(out_version); }
EXPORT int cudaMemGetInfo(size_t* out_free, size_t* out_total) {
  if (!out_free || !out_total) return INVALID_VALUE;
  *out_free = *out_total = (size_t)8 << 30;
  return SUCCESS;
}
EXPORT int cudaSetDevice(int device) { return device == 0 ? SUCCESS : INVALID_VALUE; }
EXPORT int cudaGetLastError(void) { return SUCCESS; }
EXPORT int cudaPeekAtLastError(void) { return SUCCESS; }
EXPORT int cudaLaunchKernel(void) { return NOT_SUPPORTED; }
EXPORT const char* cudaGetErrorName(int code) {
  switch (code) {
    case SUCCESS: return "cudaSuccess";
    case INVALID_VALUE: return "cudaErrorInvalidValue";
    case MEMORY_ALLOCATION: return "cudaErrorMemoryAllocation";
    case NOT_SUPPORTED: return "cudaErrorNotSupported";
    default: return "unrecognized error code";
  }
}
EXPORT const char* cudaGetErrorString(int code) {
  return code == NOT_SUPPORTED ? "there is no CUDA device: kernels cannot be launched"
                               : cudaGetErrorName(code);
}
