// The driver and NVIDIA's libraries (NVRTC, cuBLASLt, cuDNN), opened by dlopen when first needed.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cuda/driver/cuda.h"

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
  const char* other = getenv("CARNOT_CUDA_DRIVER");  // the stand-in driver of the tests
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
  CARNOT_CHECK(cuda->nvrtc, NOT_FOUND,
               "NVRTC was not found (libnvrtc.so.13 or .12 is needed): pointwise programs cannot "
               "be compiled; "
               "engines run without it where their machine code is allowed");
#define RESOLVE(name, parameters) CARNOT_TRY_AT(resolve(cuda->nvrtc, #name, &cuda->name), "NVRTC");
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

// The first call that is about algorithms takes 130 ms: a part of the start.
static void warm_blas(carnot_cuda* cuda) {
  const cudaDataType_t half = CUDA_R_16F;
  cublasLtMatmulAlgo_t unused;
  int id, count = 0;
  if (cuda->cublasLtMatmulAlgoGetIds(cuda->lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, half, half, half,
                                     half, 1, &id, &count) == CUBLAS_STATUS_SUCCESS &&
      count)
    cuda->cublasLtMatmulAlgoInit(cuda->lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, half, half, half, half,
                                 id, &unused);
}

static carnot_status* open_blas(carnot_cuda* cuda) {
  static const char* const kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
  cuda->blas = open_first(kNames);
  CARNOT_CHECK(cuda->blas, NOT_FOUND,
               "cuBLASLt was not found (libcublasLt.so.13 or .12 is needed); engines built without "
               "it run GEMMs by built-in kernels");
#define RESOLVE(name, parameters)                        \
  CARNOT_TRY_AT(resolve(cuda->blas, #name, &cuda->name), \
                "cuBLASLt: GEMMs run by built-in "       \
                "kernels");
  CARNOT_BLAS_FUNCTIONS(RESOLVE)
#undef RESOLVE
  CARNOT_TRY(resolve(cuda->blas, "cublasLtGetVersion", &cuda->cublasLtGetVersion));
  if (cuda->base.ordinal < 0) return NULL;
  CARNOT_CHECK(cuda->cublasLtCreate(&cuda->lt) == CUBLAS_STATUS_SUCCESS, UNSUPPORTED,
               "cuBLASLt does not start on this device; engines built without it run GEMMs by "
               "built-in kernels");
  warm_blas(cuda);
  return NULL;
}

static carnot_status* open_dnn(carnot_cuda* cuda) {
  static const char* const kNames[] = {"libcudnn.so.9", NULL};
  cuda->dnn = open_first(kNames);
  CARNOT_CHECK(cuda->dnn, NOT_FOUND,
               "cuDNN was not found (libcudnn.so.9 is needed); engines built without it run "
               "convolutions by built-in kernels");
#define RESOLVE(name, parameters)                       \
  CARNOT_TRY_AT(resolve(cuda->dnn, #name, &cuda->name), \
                "cuDNN: convolutions run by built-in kernels");
  CARNOT_DNN_FUNCTIONS(RESOLVE)
#undef RESOLVE
  CARNOT_TRY(resolve(cuda->dnn, "cudnnGetVersion", &cuda->cudnnGetVersion));
  cuda->cudnn_version = (int)cuda->cudnnGetVersion();
  CARNOT_CHECK(cuda->cudnn_version >= kLeastDnn, VERSION_MISMATCH,
               "cuDNN is %d, %d or newer is needed; engines built without it run convolutions by "
               "built-in kernels",
               cuda->cudnn_version, kLeastDnn);
  return NULL;
}

static uint64_t read_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
uint64_t carnot_cuda_thread_ns(void) { return read_ns(CLOCK_THREAD_CPUTIME_ID); }
uint64_t carnot_cuda_clock_ns(void) { return read_ns(CLOCK_MONOTONIC); }

// Tried once; a missing library stays missing.
static const char* lacks(carnot_cuda* cuda, carnot_status* (*open)(carnot_cuda*),
                         carnot_tactic_source source, carnot_cuda_library* library) {
  pthread_mutex_lock(&cuda->library_mutex);
  if (!library->tried) {
    uint64_t begin_ns = carnot_cuda_thread_ns();  // a cold disk is not the library's cost
    carnot_status* status = open(cuda);
    cuda->base.start_ns[source] = carnot_cuda_thread_ns() - begin_ns;
    if (status)
      snprintf(library->missing, sizeof(library->missing), "%s", carnot_status_message(status));
    carnot_status_free(status);
    library->tried = true;
  }
  pthread_mutex_unlock(&cuda->library_mutex);
  return library->missing[0] ? library->missing : NULL;
}

const char* carnot_cuda_lacks_cublaslt(carnot_cuda* cuda) {
  return lacks(cuda, open_blas, CARNOT_SOURCE_CUBLAS_LT, &cuda->cublaslt_library);
}
const char* carnot_cuda_lacks_cudnn(carnot_cuda* cuda) {
  return lacks(cuda, open_dnn, CARNOT_SOURCE_CUDNN, &cuda->cudnn_library);
}

// "12.4" of 12040 (unit 1000), "9.19.0" of 91900 (10000).
static void write_version(char* out, size_t size, int version, int unit, bool patch) {
  int minor = version % unit / (unit / 100);
  if (patch)
    snprintf(out, size, "%d.%d.%d", version / unit, minor, version % 100);
  else
    snprintf(out, size, "%d.%d", version / unit, minor);
}

size_t carnot_cuda_libraries(carnot_device* device, carnot_device_library* out, size_t capacity) {
  carnot_cuda* cuda = carnot_cuda_of(device);
  carnot_device_library all[] = {
      {.name = "CUDA driver"}, {.name = "NVRTC"}, {.name = "cuBLASLt"}, {.name = "cuDNN"}};
  carnot_status* status = carnot_cuda_need_nvrtc(cuda);
  const char *blas = carnot_cuda_lacks_cublaslt(cuda), *dnn = carnot_cuda_lacks_cudnn(cuda),
             *missing[] = {
                 device->ordinal < 0 ? "the device is absent: engines are built for it" : NULL,
                 status ? carnot_status_message(status) : NULL, blas, dnn};
  for (size_t i = 0; i < 4; i++)
    if (missing[i]) snprintf(all[i].missing, sizeof(all[i].missing), "%s", missing[i]);
  carnot_status_free(status);
  if (!missing[0])
    write_version(all[0].version, sizeof(all[0].version), cuda->driver_version, 1000, false);
  if (!missing[1])
    write_version(all[1].version, sizeof(all[1].version), cuda->nvrtc_version, 100, false);
  if (!blas)
    write_version(all[2].version, sizeof(all[2].version), (int)cuda->cublasLtGetVersion(), 10000,
                  true);
  if (!dnn) write_version(all[3].version, sizeof(all[3].version), cuda->cudnn_version, 10000, true);
  size_t count = capacity < 4 ? capacity : 4;
  memcpy(out, all, count * sizeof(*out));
  return count;
}
