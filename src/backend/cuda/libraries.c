// NVIDIA's libraries, opened when first needed.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

enum { kLeastDriver = 12030, kLeastDnn = 90000, kLeastNvrtc = 12 };

static carnot_status* resolve(void* library, const char* name, void* slot) {
  void* symbol = dlsym(library, name);
  CARNOT_CHECK(symbol, VERSION_MISMATCH, "the library lacks %s: it is older than this build needs",
               name);
  memcpy(slot, &symbol, sizeof(symbol));
  return NULL;
}

static void* open_first(const char* const* names) {
  void* library = NULL;
  for (int i = 0; names[i] && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  return library;
}

carnot_status* carnot_cuda_check(const carnot_cuda* cuda, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return NULL;
  const char* words = NULL;
  if (cuda->cuGetErrorString) cuda->cuGetErrorString(result, &words);
  carnot_code code = result == CUDA_ERROR_OUT_OF_MEMORY ? CARNOT_OUT_OF_MEMORY : CARNOT_INTERNAL;
  return carnot_status_make(code, __FILE__, __LINE__, "%.60s gave error %d: %s", call, (int)result,
                            words ? words : "unknown");
}

static carnot_status* describe(carnot_cuda* cuda, int ordinal) {
  int count = 0;
  CARNOT_CUDA_TRY(cuda, cuDeviceGetCount(&count));
  CARNOT_CHECK(ordinal < count, NOT_FOUND, "there is no CUDA device %d: the driver knows %d",
               ordinal, count);
  CARNOT_CUDA_TRY(cuda, cuDeviceGet(&cuda->device, ordinal));
  CARNOT_CUDA_TRY(cuda, cuDeviceGetName(cuda->base.name, sizeof(cuda->base.name), cuda->device));
  const struct {
    CUdevice_attribute attribute;
    int* out;
  } facts[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &cuda->major},
               {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &cuda->minor},
               {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &cuda->block_bytes},
               {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &cuda->base.multiprocessor_count}};
  for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
    CARNOT_CUDA_TRY(cuda, cuDeviceGetAttribute(facts[i].out, facts[i].attribute, cuda->device));
  CARNOT_CUDA_TRY(cuda, cuDeviceTotalMem_v2(&cuda->base.memory_bytes, cuda->device));
  snprintf(cuda->base.arch, sizeof(cuda->base.arch), "sm_%d%d", cuda->major, cuda->minor);
  cuda->base.has_clusters = cuda->major >= 9;
  return NULL;
}

carnot_status* carnot_cuda_open_driver(carnot_cuda* cuda, int ordinal) {
  const char* other = getenv("CARNOT_CUDA_DRIVER");  // tests have a stand-in
  cuda->driver = dlopen(other ? other : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CARNOT_CHECK(cuda->driver, NOT_FOUND,
               "no CUDA driver: libcuda.so.1 was not found (engines can still be built with "
               "--backend=cuda:sm_NN)");
#define RESOLVE(name, parameters) CARNOT_TRY(resolve(cuda->driver, #name, &cuda->name));
  CARNOT_CUDA_FUNCTIONS(RESOLVE)
#undef RESOLVE
  CARNOT_CUDA_TRY(cuda, cuInit(0));
  int version = 0;
  CARNOT_CUDA_TRY(cuda, cuDriverGetVersion(&version));
  CARNOT_CHECK(version >= kLeastDriver, VERSION_MISMATCH,
               "the CUDA driver speaks version %d, %d or newer is needed", version, kLeastDriver);
  cuda->driver_version = version;
  CARNOT_TRY(describe(cuda, ordinal));
  CARNOT_CUDA_TRY(cuda, cuDevicePrimaryCtxRetain(&cuda->context, cuda->device));
  CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
  return NULL;
}

static carnot_status* open_nvrtc(carnot_cuda* cuda) {
  static const char* const kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
  if (!cuda->nvrtc) cuda->nvrtc = open_first(kNames);
  CARNOT_CHECK(
      cuda->nvrtc, NOT_FOUND,
      "NVRTC was not found (libnvrtc.so.13 or .12): pointwise programs cannot be compiled; "
      "engines run without it where their machine code is allowed");
#define RESOLVE(name, parameters) CARNOT_TRY(resolve(cuda->nvrtc, #name, &cuda->name));
  CARNOT_NVRTC_FUNCTIONS(RESOLVE)
#undef RESOLVE
  int major = 0, minor = 0;
  cuda->nvrtcVersion(&major, &minor);
  CARNOT_CHECK(major >= kLeastNvrtc, VERSION_MISMATCH, "NVRTC is %d.%d, %d.0 or newer is needed",
               major, minor, kLeastNvrtc);
  cuda->nvrtc_version = major * 100 + minor;
  return NULL;
}

carnot_status* carnot_cuda_need_nvrtc(carnot_cuda* cuda) {
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status = cuda->nvrtc_version ? NULL : open_nvrtc(cuda);
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

static carnot_status* open_blas(carnot_cuda* cuda) {
  static const char* const kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
  cuda->blas = open_first(kNames);
  CARNOT_CHECK(cuda->blas, NOT_FOUND, "cuBLASLt was not found");
#define RESOLVE(name, parameters) CARNOT_TRY(resolve(cuda->blas, #name, &cuda->name));
  CARNOT_BLAS_FUNCTIONS(RESOLVE)
#undef RESOLVE
  CARNOT_TRY(resolve(cuda->blas, "cublasLtGetVersion", &cuda->cublasLtGetVersion));
  if (cuda->base.ordinal < 0) return NULL;
  CARNOT_CHECK(cuda->cublasLtCreate(&cuda->lt) == CUBLAS_STATUS_SUCCESS, UNSUPPORTED,
               "cuBLASLt does not start on this device");
  return NULL;
}

static carnot_status* open_dnn(carnot_cuda* cuda) {
  static const char* const kNames[] = {"libcudnn.so.9", NULL};
  cuda->dnn = open_first(kNames);
  CARNOT_CHECK(cuda->dnn, NOT_FOUND, "cuDNN 9 was not found");
#define RESOLVE(name, parameters) CARNOT_TRY(resolve(cuda->dnn, #name, &cuda->name));
  CARNOT_DNN_FUNCTIONS(RESOLVE)
#undef RESOLVE
  CARNOT_TRY(resolve(cuda->dnn, "cudnnGetVersion", &cuda->cudnnGetVersion));
  cuda->dnn_version = (int)cuda->cudnnGetVersion();
  CARNOT_CHECK(cuda->dnn_version >= kLeastDnn, VERSION_MISMATCH, "cuDNN is %d, %d is needed",
               cuda->dnn_version, kLeastDnn);
  return NULL;
}

// Tried once; what is missing then stays so.
static bool have(carnot_cuda* cuda, carnot_status* (*open)(carnot_cuda*), bool* tried,
                 bool* works) {
  pthread_mutex_lock(&cuda->mutex);
  if (!*tried) {
    carnot_status* status = open(cuda);
    *works = status == NULL;
    carnot_status_free(status);
    *tried = true;
  }
  pthread_mutex_unlock(&cuda->mutex);
  return *works;
}

bool carnot_cuda_has_blas(carnot_cuda* cuda) {
  return have(cuda, open_blas, &cuda->blas_tried, &cuda->blas_works);
}
bool carnot_cuda_has_dnn(carnot_cuda* cuda) {
  return have(cuda, open_dnn, &cuda->dnn_tried, &cuda->dnn_works);
}
