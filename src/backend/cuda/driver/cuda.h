// What the files of the CUDA module share: libraries opened on demand, the device, its streams,
// kernels and generated programs, launches.
#ifndef CARNOT_BACKEND_CUDA_DRIVER_CUDA_H_
#define CARNOT_BACKEND_CUDA_DRIVER_CUDA_H_

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nvrtc.h>
#include <pthread.h>

#include "backend/cuda/driver/kernels.h"
#include "backend/device.h"

// clang-format off
// X(name, parameters): the functions used of each library.
#define CARNOT_CUDA_FUNCTIONS(X)                                                                  \
  X(cuInit, (unsigned))                                                                           \
  X(cuDriverGetVersion, (int*))                                                                   \
  X(cuDeviceGetCount, (int*))                                                                     \
  X(cuDeviceGet, (CUdevice*, int))                                                                \
  X(cuDeviceGetName, (char*, int, CUdevice))                                                      \
  X(cuDeviceGetAttribute, (int*, CUdevice_attribute, CUdevice))                                   \
  X(cuDeviceTotalMem_v2, (size_t*, CUdevice))                                                     \
  X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                             \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                     \
  X(cuCtxSetCurrent, (CUcontext))                                                                 \
  X(cuMemAlloc_v2, (CUdeviceptr*, size_t))                                                        \
  X(cuMemFree_v2, (CUdeviceptr))                                                                  \
  X(cuMemHostAlloc, (void**, size_t, unsigned))                                                   \
  X(cuMemFreeHost, (void*))                                                                       \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, size_t, CUstream))                           \
  X(cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, size_t, CUstream))                                 \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                           \
  X(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                              \
  X(cuPointerGetAttribute, (void*, CUpointer_attribute, CUdeviceptr))                             \
  X(cuModuleLoadData, (CUmodule*, const void*))                                                   \
  X(cuModuleUnload, (CUmodule))                                                                   \
  X(cuModuleGetFunction, (CUfunction*, CUmodule, const char*))                                    \
  X(cuFuncGetModule, (CUmodule*, CUfunction))                                                     \
  X(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int))                                  \
  X(cuOccupancyMaxActiveClusters, (int*, CUfunction, const CUlaunchConfig*))                      \
  X(cuTensorMapEncodeTiled,                                                                       \
    (CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,                     \
     const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,              \
     CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))                        \
  X(cuTensorMapEncodeIm2col,                                                                      \
    (CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,                     \
     const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,        \
     CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,                           \
     CUtensorMapFloatOOBfill))                                                                    \
  X(cuStreamCreate, (CUstream*, unsigned))                                                        \
  X(cuStreamDestroy_v2, (CUstream))                                                               \
  X(cuStreamSynchronize, (CUstream))                                                              \
  X(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus*))                                      \
  X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                     \
  X(cuStreamEndCapture, (CUstream, CUgraph*))                                                     \
  X(cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long))                     \
  X(cuGraphLaunch, (CUgraphExec, CUstream))                                                       \
  X(cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*))                   \
  X(cuGraphExecDestroy, (CUgraphExec))                                                            \
  X(cuGraphDestroy, (CUgraph))                                                                    \
  X(cuGraphGetEdges_v2, (CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, size_t*))         \
  X(cuGraphAddDependencies_v2,                                                                    \
    (CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, size_t))            \
  X(cuGraphRemoveDependencies_v2,                                                                 \
    (CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, size_t))            \
  X(cuGraphGetNodes, (CUgraph, CUgraphNode*, size_t*))                                            \
  X(cuGraphNodeGetType, (CUgraphNode, CUgraphNodeType*))                                          \
  X(cuGraphKernelNodeGetAttribute,                                                                \
    (CUgraphNode, CUkernelNodeAttrID, CUkernelNodeAttrValue*))                                    \
  X(cuGraphKernelNodeGetParams_v2, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS*))                       \
  X(cuEventCreate, (CUevent*, unsigned))                                                          \
  X(cuEventDestroy_v2, (CUevent))                                                                 \
  X(cuEventRecord, (CUevent, CUstream))                                                           \
  X(cuEventRecordWithFlags, (CUevent, CUstream, unsigned))                                        \
  X(cuEventElapsedTime, (float*, CUevent, CUevent))                                               \
  X(cuLaunchKernelEx, (const CUlaunchConfig*, CUfunction, void**, void**))                        \
  X(cuGetErrorString, (CUresult, const char**))

#define CARNOT_NVRTC_FUNCTIONS(X)                                                                 \
  X(nvrtcVersion, (int*, int*))                                                                   \
  X(nvrtcCreateProgram,                                                                           \
    (nvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*))       \
  X(nvrtcCompileProgram, (nvrtcProgram, int, const char* const*))                                 \
  X(nvrtcDestroyProgram, (nvrtcProgram*))                                                         \
  X(nvrtcGetNumSupportedArchs, (int*))                                                            \
  X(nvrtcGetSupportedArchs, (int*))                                                               \
  X(nvrtcGetPTXSize, (nvrtcProgram, size_t*))                                                     \
  X(nvrtcGetPTX, (nvrtcProgram, char*))                                                           \
  X(nvrtcGetCUBINSize, (nvrtcProgram, size_t*))                                                   \
  X(nvrtcGetCUBIN, (nvrtcProgram, char*))                                                         \
  X(nvrtcGetProgramLogSize, (nvrtcProgram, size_t*))                                              \
  X(nvrtcGetProgramLog, (nvrtcProgram, char*))

#define CARNOT_BLAS_FUNCTIONS(X)                                                                  \
  X(cublasLtCreate, (cublasLtHandle_t*))                                                          \
  X(cublasLtDestroy, (cublasLtHandle_t))                                                          \
  X(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t))       \
  X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t))                                            \
  X(cublasLtMatmulDescSetAttribute,                                                               \
    (cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*, size_t))                  \
  X(cublasLtMatrixLayoutCreate, (cublasLtMatrixLayout_t*, cudaDataType, uint64_t, uint64_t,       \
                                 int64_t))                                                        \
  X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t))                                        \
  X(cublasLtMatrixLayoutSetAttribute,                                                             \
    (cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*, size_t))               \
  X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t*))                                \
  X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t))                                \
  X(cublasLtMatmulPreferenceSetAttribute,                                                         \
    (cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void*, size_t))      \
  X(cublasLtMatmulAlgoGetHeuristic,                                                               \
    (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,      \
     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,             \
     cublasLtMatmulHeuristicResult_t*, int*))                                                     \
  X(cublasLtMatmulAlgoGetIds,                                                                     \
    (cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t,       \
     cudaDataType_t, cudaDataType_t, int, int*, int*))                                            \
  X(cublasLtMatmulAlgoInit,                                                                       \
    (cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t,       \
     cudaDataType_t, cudaDataType_t, int, cublasLtMatmulAlgo_t*))                                 \
  X(cublasLtMatmulAlgoConfigGetAttribute,                                                         \
    (const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t, void*, size_t, size_t*))  \
  X(cublasLtMatmulAlgoConfigSetAttribute,                                                         \
    (cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t, const void*, size_t))           \
  X(cublasLtMatmulAlgoCheck,                                                                      \
    (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,      \
     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*,                 \
     cublasLtMatmulHeuristicResult_t*))                                                           \
  X(cublasLtMatmul,                                                                               \
    (cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,    \
     const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,       \
     void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t))

#define CARNOT_DNN_FUNCTIONS(X)                                                                   \
  X(cudnnCreate, (cudnnHandle_t*))                                                                \
  X(cudnnDestroy, (cudnnHandle_t))                                                                \
  X(cudnnSetStream, (cudnnHandle_t, cudaStream_t))                                                \
  X(cudnnBackendCreateDescriptor, (cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t*))      \
  X(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t))                                    \
  X(cudnnBackendFinalize, (cudnnBackendDescriptor_t))                                             \
  X(cudnnBackendSetAttribute, (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,             \
                               cudnnBackendAttributeType_t, int64_t, const void*))                \
  X(cudnnBackendGetAttribute, (const cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,       \
                               cudnnBackendAttributeType_t, int64_t, int64_t*, void*))            \
  X(cudnnBackendExecute, (cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t))
// clang-format on

// A library that is opened when first needed; |missing|: why it cannot be used, "" when it can.
typedef struct carnot_cuda_library {
  bool tried;
  char missing[256];
} carnot_cuda_library;

// A kernel of a generated program (program.c).
typedef struct carnot_cuda_program carnot_cuda_program;
typedef struct carnot_cuda_cudnn_job carnot_cuda_cudnn_job;  // library/cudnn_plan.c

enum { CARNOT_CUDA_CUDNN_HANDLES = 16 };  // threads that cuDNN plans for at once

// One pointer per library function; the version functions, which return size_t, apart.
typedef struct carnot_cuda {
  carnot_device base;
  void *driver, *nvrtc, *blas, *dnn;
#define POINTER(name, parameters) CUresult(*name) parameters;
  CARNOT_CUDA_FUNCTIONS(POINTER)
#undef POINTER
#define POINTER(name, parameters) nvrtcResult(*name) parameters;
  CARNOT_NVRTC_FUNCTIONS(POINTER)
#undef POINTER
#define POINTER(name, parameters) cublasStatus_t(*name) parameters;
  CARNOT_BLAS_FUNCTIONS(POINTER)
#undef POINTER
#define POINTER(name, parameters) cudnnStatus_t(*name) parameters;
  CARNOT_DNN_FUNCTIONS(POINTER)
#undef POINTER
  size_t (*cublasLtGetVersion)(void);
  size_t (*cudnnGetVersion)(void);
  int driver_version, nvrtc_version, cudnn_version;
  pthread_mutex_t library_mutex;  // guards the two
  carnot_cuda_library cublaslt_library, cudnn_library;
  CUdevice device;
  CUcontext context;
  int major, minor;
  int block_bytes;  // most shared memory of a block
  cublasLtHandle_t lt;
  pthread_mutex_t mutex;  // guards what follows
  struct {
    cudnnHandle_t handle;
    bool is_busy;
  } cudnn_handles[CARNOT_CUDA_CUDNN_HANDLES];
  bool has_planned;                             // with cuDNN
  pthread_cond_t cudnn_changed;                 // a handle is free, a plan is made
  carnot_cuda_cudnn_job* cudnn_jobs;            // plans to make
  cudnnBackendDescriptor_t cudnn_absent;        // the device properties of an absent device
  CUmodule families[CARNOT_CUDA_FAMILY_COUNT];  // NULL: not loaded yet
  CUfunction kernels[CARNOT_CUDA_KERNEL_COUNT];
  struct carnot_cuda_entry* entries;
  size_t entry_count, entry_capacity;
  CUmodule* modules;
  size_t module_count, module_capacity;
  // Programs to compile, those that are not loaded yet, and the threads that compile.
  carnot_cuda_program *queued, *unsettled;
  int compiler_count;
  int starting_count;       // threads that start libraries or make plans
  bool is_blas_starting;    // one of them starts cuBLASLt
  pthread_cond_t compiled;  // one of these is done
} carnot_cuda;

typedef struct carnot_cuda_stream {
  carnot_stream base;
  CUstream own, handle;  // |handle|: where work goes, |own| or the caller's
  CUstream lent;         // what |handle| becomes again when the recording ends
  bool records;          // into a graph of its own
  CUevent* marks;
  size_t mark_capacity;
} carnot_cuda_stream;

static inline carnot_cuda* carnot_cuda_of(carnot_device* device) { return (carnot_cuda*)device; }
static inline carnot_cuda_stream* carnot_cuda_stream_of(const carnot_step_view* step) {
  return (carnot_cuda_stream*)step->stream;
}
static inline carnot_cuda* carnot_cuda_of_step(const carnot_step_view* step) {
  return (carnot_cuda*)step->stream->device;
}
static inline CUdeviceptr carnot_cuda_address(const void* p) { return (CUdeviceptr)(uintptr_t)p; }

// The error of a driver call with the call's name and the driver's text; NULL on success.
carnot_status* carnot_cuda_check(const carnot_cuda* cuda, CUresult result,
                                 const char* call) CARNOT_MUST_USE;
#define CARNOT_CUDA_TRY(cuda, call) CARNOT_TRY(carnot_cuda_check((cuda), (cuda)->call, #call))

// ---- libraries (dynamic_library.c): NOT_FOUND and VERSION_MISMATCH say what is needed and what
// works without it ----
carnot_status* carnot_cuda_open_driver(carnot_cuda* cuda, int ordinal) CARNOT_MUST_USE;
carnot_status* carnot_cuda_need_nvrtc(carnot_cuda* cuda) CARNOT_MUST_USE;
// NULL where the library can be used, else what was found and what is required.
const char* carnot_cuda_lacks_cublaslt(carnot_cuda* cuda);
const char* carnot_cuda_lacks_cudnn(carnot_cuda* cuda);
// Starts libraries of |sources| that take long in the background; settle waits for them
// (library/start.c).
void carnot_cuda_start_libraries(carnot_device* device, uint32_t sources);
// The processor's time that this thread has used.
uint64_t carnot_cuda_thread_ns(void);
uint64_t carnot_cuda_clock_ns(void);
size_t carnot_cuda_libraries(carnot_device* device, carnot_device_library* out, size_t capacity);

// ---- kernels and programs (module.c, nvrtc.c, launch.c) ----

// A kernel of kernels.def; its family's module is loaded on first use. INVALID_MODEL for
// CARNOT_CUDA_KERNEL_NONE.
carnot_status* carnot_cuda_kernel(carnot_cuda* cuda, carnot_cuda_kernel_id kernel,
                                  CUfunction* out_function) CARNOT_MUST_USE;
// The kernel of |kernels|, a table by dtype, for |dtype|; INVALID_MODEL where it has none.
carnot_status* carnot_cuda_kernel_for(carnot_cuda* cuda, const carnot_cuda_kernel_id* kernels,
                                      carnot_dtype dtype, CUfunction* out_function) CARNOT_MUST_USE;
// Loads a family ahead of its first use: for kernels that are looked up while a graph is captured.
carnot_status* carnot_cuda_load_family(carnot_cuda* cuda,
                                       carnot_cuda_family family) CARNOT_MUST_USE;
// Source to machine code for the device's architecture, present or not; the caller frees it.
carnot_status* carnot_cuda_compile(carnot_cuda* cuda, const char* source, char** out_cubin,
                                   size_t* out_bytes) CARNOT_MUST_USE;
// The same, compiled once a process and user (program_cache.c); the module keeps the bytes.
carnot_status* carnot_cuda_compile_cached(carnot_cuda* cuda, const char* source,
                                          const char** out_cubin,
                                          size_t* out_bytes) CARNOT_MUST_USE;
typedef struct carnot_cuda_program_text {
  const char* source;  // with |kernel| (a literal) alone, or the whole
  const char* kernel;
  const char* whole;  // with all kernels, as the builder compiled it; may be |source|
  const void* cubin;  // of the whole, from the engine; used where the host allows it; may be NULL
} carnot_cuda_program_text;
// A kernel, made once a process: from the engine's code, from what this user compiled before, or by
// threads of the module while the caller goes on.
carnot_status* carnot_cuda_program_begin(carnot_cuda_stream* stream,
                                         const carnot_cuda_program_text* text,
                                         carnot_cuda_program** out_program) CARNOT_MUST_USE;
// Waits for the program. It must have been settled where a graph is being captured.
carnot_status* carnot_cuda_program_end(carnot_cuda* cuda, carnot_cuda_program* program,
                                       CUfunction* out_function) CARNOT_MUST_USE;
// Waits for all programs that were begun and loads them; whoever runs one that failed gets the
// error.
void carnot_cuda_programs_settle(carnot_device* device);
// Code in files of this user (program_cache.c). read: false where there is none; the caller frees
// *out_code. write: nothing where it cannot be kept.
bool carnot_cuda_program_cache_read(const char* arch, const char* source, char** out_code,
                                    size_t* out_bytes);
void carnot_cuda_program_cache_write(const char* arch, const char* source, const char* code,
                                     size_t bytes);
// Loads a fatbin or cubin as a module that lives as long as the device. The mutex is held by the
// caller.
carnot_status* carnot_cuda_load_image(carnot_cuda* cuda, const void* image,
                                      CUmodule* out_module) CARNOT_MUST_USE;
// The slot of the cached object of |key|; NULL when there is none yet. The mutex is held by the
// caller.
void** carnot_cuda_cached(carnot_cuda* cuda, uint64_t key);
carnot_status* carnot_cuda_keep(carnot_cuda* cuda, uint64_t key, void* object) CARNOT_MUST_USE;

// |grid| blocks of |threads|; the kernel takes one struct and begins with wait_for_previous.
carnot_status* carnot_cuda_launch(const carnot_step_view* step, CUfunction function,
                                  const int64_t grid[3], unsigned threads,
                                  void* params) CARNOT_MUST_USE;
// A kernel without that: it starts when all before it have ended.
carnot_status* carnot_cuda_launch_after(const carnot_step_view* step, CUfunction function,
                                        const int64_t grid[3], unsigned threads,
                                        void* params) CARNOT_MUST_USE;
// Clusters of |cluster| blocks with |shared_bytes| of dynamic shared memory each; the kernel begins
// with wait_for_previous.
carnot_status* carnot_cuda_launch_clusters(const carnot_step_view* step, CUfunction function,
                                           const int64_t grid[3], unsigned threads,
                                           const int64_t cluster[3], size_t shared_bytes,
                                           void* params) CARNOT_MUST_USE;
// How many such clusters the device holds at a time.
carnot_status* carnot_cuda_cluster_count(carnot_cuda* cuda, CUfunction function, unsigned threads,
                                         const int64_t cluster[3], size_t shared_bytes,
                                         int* out_count) CARNOT_MUST_USE;
// Most blocks of a cluster that every device of this kind takes.
static inline int carnot_cuda_cluster_limit(const carnot_cuda* cuda) {
  return cuda->major >= 9 ? 8 : 1;
}
// |function| may have all of a block's shared memory as dynamic memory.
carnot_status* carnot_cuda_allow_shared(carnot_cuda* cuda, CUfunction function) CARNOT_MUST_USE;
// Most blocks of a cluster that this device takes of |function|, which may have all shared memory.
int carnot_cuda_widest_cluster(carnot_cuda* cuda, CUfunction function, unsigned threads,
                               size_t shared_bytes);
// Call before launching a library kernel: such kernels may start by programmatic dependent
// launch and read before they wait. Graphs that this module captures are repaired when the
// capture ends (carnot_cuda_graph_fence_libraries); elsewhere an empty kernel separates them.
carnot_status* carnot_cuda_fence_before_library(const carnot_step_view* step) CARNOT_MUST_USE;
// Kernels of libraries in |graph| start when the kernel before them has ended.
carnot_status* carnot_cuda_graph_fence_libraries(carnot_cuda* cuda, CUgraph graph) CARNOT_MUST_USE;
// One thread an item.
carnot_status* carnot_cuda_launch_threads(const carnot_step_view* step, CUfunction function,
                                          int64_t count, void* params) CARNOT_MUST_USE;

carnot_status* carnot_cuda_measure_roofline(carnot_device* device,
                                            carnot_device_peaks* out) CARNOT_MUST_USE;

// ---- autotuning (library/autotune.c) ----

// Runs one candidate; an error excludes it.
typedef carnot_status* carnot_cuda_autotune_fn(void* user, void* way, CUstream stream);
// The fastest of |count| ways that were timed before: the timing cache holds them as |name|_<i>
// under |key| and the device's name. False when it lacks one.
bool carnot_cuda_autotune_cached(const carnot_problem* problem, uint64_t key, const char* name,
                                 int count, int* out_best);
// Times |count| ways to compute one thing, each recorded into a graph, in alternating rounds; the
// fastest, an earlier one where they differ by less than 2 %. The times go to the timing cache.
carnot_status* carnot_cuda_autotune(const carnot_problem* problem, uint64_t key, const char* name,
                                    carnot_cuda_autotune_fn* run, void* user, void** ways,
                                    int count, int* out_best) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_DRIVER_CUDA_H_
