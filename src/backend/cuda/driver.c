#include "backend/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { kLeastDriver = 12000 };

static carnot_status* resolve(void* library, const char* name, void* slot) {
  void* symbol = dlsym(library, name);
  CARNOT_CHECK(symbol, VERSION_MISMATCH,
               "the CUDA library lacks %s: it is older than this build needs", name);
  memcpy(slot, &symbol, sizeof(symbol));
  return NULL;
}

carnot_status* carnot_cuda_check(const carnot_cuda* cuda, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return NULL;
  const char* words = NULL;
  if (cuda->cuGetErrorString) cuda->cuGetErrorString(result, &words);
  return CARNOT_ERROR(INTERNAL, "%.60s gave error %d: %s", call, (int)result,
                      words ? words : "unknown");
}

static carnot_status* open_nvrtc(carnot_cuda* cuda) {
  static const char* const kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]) && !cuda->nvrtc; i++)
    cuda->nvrtc = dlopen(kNames[i], RTLD_NOW | RTLD_LOCAL);
  CARNOT_CHECK(cuda->nvrtc, NOT_FOUND,
               "NVRTC was not found (libnvrtc.so.13 or .12): engines that hold their kernels run "
               "without it");
#define RESOLVE(name, parameters) CARNOT_TRY(resolve(cuda->nvrtc, #name, &cuda->name));
  CARNOT_NVRTC_FUNCTIONS(RESOLVE)
#undef RESOLVE
  return NULL;
}

static carnot_status* open_driver(carnot_cuda* cuda, int device) {
  cuda->driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CARNOT_CHECK(cuda->driver, NOT_FOUND, "no CUDA driver: libcuda.so.1 was not found");
#define RESOLVE(name, parameters) CARNOT_TRY(resolve(cuda->driver, #name, &cuda->name));
  CARNOT_CUDA_FUNCTIONS(RESOLVE)
#undef RESOLVE
  CARNOT_CUDA_TRY(cuda, cuInit(0));
  int version = 0, count = 0;
  CARNOT_CUDA_TRY(cuda, cuDriverGetVersion(&version));
  CARNOT_CHECK(version >= kLeastDriver, VERSION_MISMATCH,
               "the CUDA driver speaks version %d, %d is needed", version, kLeastDriver);
  CARNOT_CUDA_TRY(cuda, cuDeviceGetCount(&count));
  CARNOT_CHECK(device >= 0 && device < count, NOT_FOUND, "CUDA device %d of %d", device, count);
  CARNOT_CUDA_TRY(cuda, cuDeviceGet(&cuda->device, device));
  CARNOT_CUDA_TRY(cuda, cuDeviceGetName(cuda->name, sizeof(cuda->name), cuda->device));
  CARNOT_CUDA_TRY(cuda,
                  cuDeviceGetAttribute(&cuda->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                       cuda->device));
  CARNOT_CUDA_TRY(cuda,
                  cuDeviceGetAttribute(&cuda->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                       cuda->device));
  CARNOT_CUDA_TRY(cuda, cuDevicePrimaryCtxRetain(&cuda->context, cuda->device));
  CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
  return NULL;
}

carnot_status* carnot_cuda_compile(carnot_cuda* cuda, const char* source, const char* arch,
                                   char** out_cubin) {
  *out_cubin = NULL;
  nvrtcProgram program;
  CARNOT_CHECK(
      cuda->nvrtcCreateProgram(&program, source, "carnot.cu", 0, NULL, NULL) == NVRTC_SUCCESS,
      INTERNAL, "NVRTC takes no program");
  char option[64];
  snprintf(option, sizeof(option), "--gpu-architecture=%s", arch);
  // FP32 means FP32: no contraction into approximate functions.
  const char* options[] = {option, "--std=c++17", "--fmad=true", "-default-device"};
  nvrtcResult result = cuda->nvrtcCompileProgram(program, 4, options);
  carnot_status* status = NULL;
  size_t size = 0;
  if (result != NVRTC_SUCCESS) {
    cuda->nvrtcGetProgramLogSize(program, &size);
    char* log = calloc(1, size + 1);
    if (log) cuda->nvrtcGetProgramLog(program, log);
    status = CARNOT_ERROR(INTERNAL, "kernels do not compile for %s: %s", arch, log ? log : "");
    free(log);
  } else if (cuda->nvrtcGetCUBINSize(program, &size) != NVRTC_SUCCESS ||
             !(*out_cubin = malloc(size)) ||
             cuda->nvrtcGetCUBIN(program, *out_cubin) != NVRTC_SUCCESS) {
    status = CARNOT_ERROR(INTERNAL, "NVRTC gives no machine code for %s", arch);
  }
  cuda->nvrtcDestroyProgram(&program);
  return status;
}

static carnot_status* load_kernels(carnot_cuda* cuda) {
  char arch[32], *cubin;
  snprintf(arch, sizeof(arch), "sm_%d%d", cuda->major, cuda->minor);
  CARNOT_TRY(carnot_cuda_compile(cuda, carnot_cuda_source, arch, &cubin));
  carnot_status* status =
      carnot_cuda_check(cuda, cuda->cuModuleLoadData(&cuda->module, cubin), "cuModuleLoadData");
  free(cubin);
  return status;
}

static carnot_status* finish(carnot_status* status, carnot_cuda* cuda, carnot_cuda** out_cuda) {
  if (status) {
    carnot_cuda_close(cuda);
    cuda = NULL;
  }
  *out_cuda = cuda;
  return status;
}

carnot_status* carnot_cuda_open(int device, carnot_cuda** out_cuda) {
  *out_cuda = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda), "a CUDA device", &memory));
  carnot_cuda* cuda = memory;
  carnot_status* status = open_driver(cuda, device);
  if (!status) status = open_nvrtc(cuda);
  if (!status) status = load_kernels(cuda);
  return finish(status, cuda, out_cuda);
}

carnot_status* carnot_cuda_open_compiler(carnot_cuda** out_cuda) {
  *out_cuda = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda), "a CUDA compiler", &memory));
  return finish(open_nvrtc(memory), memory, out_cuda);
}

void carnot_cuda_close(carnot_cuda* cuda) {
  if (!cuda) return;
  if (cuda->module) cuda->cuModuleUnload(cuda->module);
  if (cuda->context) cuda->cuDevicePrimaryCtxRelease_v2(cuda->device);
  if (cuda->nvrtc) dlclose(cuda->nvrtc);
  if (cuda->driver) dlclose(cuda->driver);
  free(cuda);
}
