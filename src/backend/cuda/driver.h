// The CUDA driver and NVRTC, opened when asked for: the core needs neither to build nor to run.
//
// One carnot_cuda is one device's primary context on the calling thread. Not for several threads at
// once.
#ifndef CARNOT_BACKEND_CUDA_DRIVER_H_
#define CARNOT_BACKEND_CUDA_DRIVER_H_

#include <cuda.h>
#include <nvrtc.h>

#include "base/status.h"

// X(result, name, parameters): the driver's functions in use.
// clang-format off
#define CARNOT_CUDA_FUNCTIONS(X)                                                                   \
  X(cuInit, (unsigned))                                                                            \
  X(cuDriverGetVersion, (int*))                                                                    \
  X(cuDeviceGetCount, (int*))                                                                      \
  X(cuDeviceGet, (CUdevice*, int))                                                                 \
  X(cuDeviceGetName, (char*, int, CUdevice)) X(cuDeviceGetAttribute,                               \
                                               (int*, CUdevice_attribute, CUdevice))               \
      X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice)) X(                                       \
          cuDevicePrimaryCtxRelease_v2, (CUdevice)) X(cuCtxSetCurrent, (CUcontext))                \
          X(cuMemAlloc_v2, (CUdeviceptr*, size_t)) X(cuMemFree_v2, (CUdeviceptr)) X(               \
              cuMemcpyHtoD_v2, (CUdeviceptr, const void*, size_t)) X(cuMemcpyDtoH_v2,              \
                                                                     (void*, CUdeviceptr, size_t)) \
              X(cuModuleLoadData, (CUmodule*, const void*)) X(cuModuleUnload, (CUmodule)) X(       \
                  cuModuleGetFunction,                                                             \
                  (CUfunction*, CUmodule, const char*)) X(cuStreamCreate, (CUstream*, unsigned))   \
                  X(cuStreamDestroy_v2, (CUstream)) X(cuStreamSynchronize, (CUstream)) X(          \
                      cuStreamBeginCapture_v2,                                                     \
                      (CUstream, CUstreamCaptureMode)) X(cuStreamEndCapture, (CUstream, CUgraph*)) \
                      X(cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long))  \
                          X(cuGraphLaunch, (CUgraphExec, CUstream))                                \
                              X(cuGraphExecDestroy, (CUgraphExec)) X(cuGraphDestroy, (CUgraph))    \
                                  X(cuLaunchKernel,                                                \
                                    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, \
                                     unsigned, unsigned, CUstream, void**, void**))                \
                                      X(cuGetErrorString, (CUresult, const char**))
// clang-format on

// clang-format off
#define CARNOT_NVRTC_FUNCTIONS(X)                                                           \
  X(nvrtcVersion, (int*, int*))                                                             \
  X(nvrtcCreateProgram,                                                                     \
    (nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(nvrtcCompileProgram, (nvrtcProgram, int, const char* const*))                           \
  X(nvrtcDestroyProgram, (nvrtcProgram*))                                                   \
  X(nvrtcGetCUBINSize, (nvrtcProgram, size_t*))                                             \
  X(nvrtcGetCUBIN, (nvrtcProgram, char*))                                                   \
  X(nvrtcGetProgramLogSize, (nvrtcProgram, size_t*)) X(nvrtcGetProgramLog, (nvrtcProgram, char*))
// clang-format on

typedef struct carnot_cuda {
  void *driver, *nvrtc;
#define CARNOT_CUDA_POINTER(name, parameters) CUresult(*name) parameters;
  CARNOT_CUDA_FUNCTIONS(CARNOT_CUDA_POINTER)
#undef CARNOT_CUDA_POINTER
#define CARNOT_NVRTC_POINTER(name, parameters) nvrtcResult(*name) parameters;
  CARNOT_NVRTC_FUNCTIONS(CARNOT_NVRTC_POINTER)
#undef CARNOT_NVRTC_POINTER
  CUdevice device;
  CUcontext context;
  int major, minor;
  char name[128];
  CUmodule module;  // the kernels of source.c
} carnot_cuda;

// Where CUDA rows record: what the executor is to CPU rows.
typedef struct carnot_cuda_queue {
  carnot_cuda* cuda;
  CUstream stream;
} carnot_cuda_queue;

// NOT_FOUND when there is no driver or device, with what was looked for; VERSION_MISMATCH names
// versions found and wanted.
carnot_status* carnot_cuda_open(int device, carnot_cuda** out_cuda) CARNOT_MUST_USE;
void carnot_cuda_close(carnot_cuda* cuda);
// An error that names the call and what the driver says of its result; NULL on success.
carnot_status* carnot_cuda_check(const carnot_cuda* cuda, CUresult result,
                                 const char* call) CARNOT_MUST_USE;
#define CARNOT_CUDA_TRY(cuda, call) CARNOT_TRY(carnot_cuda_check((cuda), (cuda)->call, #call))

// Source to machine code for one architecture, without a device: |arch| as in "sm_90". The caller
// frees *out_cubin.
carnot_status* carnot_cuda_compile(carnot_cuda* cuda, const char* source, const char* arch,
                                   char** out_cubin) CARNOT_MUST_USE;
// Opens NVRTC alone, for compiling where there is no driver.
carnot_status* carnot_cuda_open_compiler(carnot_cuda** out_cuda) CARNOT_MUST_USE;

// The device source of all own kernels (source.c).
extern const char carnot_cuda_source[];

#endif  // CARNOT_BACKEND_CUDA_DRIVER_H_
