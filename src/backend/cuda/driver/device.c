// The device: context and memory.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/driver/backend.h"
#include "backend/cuda/driver/cuda.h"

static carnot_cuda* of(carnot_device* device) { return carnot_cuda_of(device); }

carnot_status* carnot_cuda_enter(carnot_cuda* cuda) {
  CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
  return NULL;
}

void carnot_cuda_device_close(carnot_device* device) {
  carnot_cuda* cuda = of(device);
  carnot_cuda_programs_settle(device);
  if (cuda->lt) cuda->cublasLtDestroy(cuda->lt);
  if (cuda->cudnn_absent) cuda->cudnnBackendDestroyDescriptor(cuda->cudnn_absent);
  for (int i = 0; i < CARNOT_CUDA_CUDNN_HANDLES; i++)
    if (cuda->cudnn_handles[i].handle) cuda->cudnnDestroy(cuda->cudnn_handles[i].handle);
  for (size_t i = 0; i < cuda->module_count; i++) cuda->cuModuleUnload(cuda->modules[i]);
  if (cuda->context) cuda->cuDevicePrimaryCtxRelease_v2(cuda->device);
  void* const libraries[] = {cuda->dnn, cuda->blas, cuda->nvrtc, cuda->driver};
  for (size_t i = 0; i < 4; i++)
    if (libraries[i]) dlclose(libraries[i]);
  pthread_mutex_destroy(&cuda->mutex);
  pthread_mutex_destroy(&cuda->library_mutex);
  pthread_cond_destroy(&cuda->cudnn_changed);
  pthread_cond_destroy(&cuda->compiled);
  free(cuda->entries);
  free(cuda->modules);
  free(cuda);
}

carnot_status* carnot_cuda_device_open(int ordinal, const char* arch, carnot_device** out_device) {
  *out_device = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda), "a CUDA device", &memory));
  carnot_cuda* cuda = memory;
  cuda->base.ordinal = ordinal;
  pthread_mutex_init(&cuda->mutex, NULL);
  pthread_mutex_init(&cuda->library_mutex, NULL);
  pthread_cond_init(&cuda->cudnn_changed, NULL);
  pthread_cond_init(&cuda->compiled, NULL);
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
    carnot_cuda_device_close(&cuda->base);
    return status;
  }
  *out_device = &cuda->base;
  return NULL;
}

carnot_status* carnot_cuda_device_alloc(carnot_device* device, size_t bytes, void** out_address) {
  *out_address = NULL;
  CARNOT_TRY(carnot_cuda_enter(of(device)));
  CUdeviceptr address;
  CARNOT_TRY_AT(
      carnot_cuda_check(of(device), of(device)->cuMemAlloc_v2(&address, bytes), "cuMemAlloc"),
      "%zu bytes on %s", bytes, device->name);
  *out_address = (void*)(uintptr_t)address;
  return NULL;
}

void carnot_cuda_device_free(carnot_device* device, void* address) {
  if (!address) return;
  carnot_status_free(carnot_cuda_enter(of(device)));
  of(device)->cuMemFree_v2(carnot_cuda_address(address));
}

carnot_status* carnot_cuda_host_alloc(carnot_device* device, size_t bytes, void** out_memory) {
  *out_memory = NULL;
  CARNOT_TRY(carnot_cuda_enter(of(device)));
  CARNOT_TRY_AT(carnot_cuda_check(of(device), of(device)->cuMemHostAlloc(out_memory, bytes, 0),
                                  "cuMemHostAlloc"),
                "%zu bytes of pinned memory", bytes);
  return NULL;
}

void carnot_cuda_host_free(carnot_device* device, void* memory) {
  if (!memory) return;
  carnot_status_free(carnot_cuda_enter(of(device)));
  of(device)->cuMemFreeHost(memory);
}

carnot_address carnot_cuda_address_kind(carnot_device* device, const void* address) {
  if (carnot_cuda_enter(of(device))) return CARNOT_ADDRESS_HOST;
  unsigned kind = 0;
  CUresult result = of(device)->cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                      carnot_cuda_address(address));
  bool there =
      result == CUDA_SUCCESS && (kind == CU_MEMORYTYPE_DEVICE || kind == CU_MEMORYTYPE_UNIFIED);
  return there ? CARNOT_ADDRESS_DEVICE : CARNOT_ADDRESS_HOST;
}
