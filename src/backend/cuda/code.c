// Machine code: the own kernels, generated programs, and launches.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "base/hash.h"

// Each family of kernels for all architectures, made by nvcc when this module was built (images.S).
#define FAMILY(name) extern const char carnot_cuda_image_##name[];
#include "kernel/cuda/families.def"

typedef struct carnot_cuda_entry {
  uint64_t key;
  void* object;
} carnot_cuda_entry;

void** carnot_cuda_cached(carnot_cuda* cuda, uint64_t key) {
  for (size_t i = 0; i < cuda->entry_count; i++)
    if (cuda->entries[i].key == key) return &cuda->entries[i].object;
  return NULL;
}

carnot_status* carnot_cuda_keep(carnot_cuda* cuda, uint64_t key, void* object) {
  void* entries = cuda->entries;
  CARNOT_TRY(carnot_grow(&entries, &cuda->entry_capacity, cuda->entry_count + 1,
                         sizeof(carnot_cuda_entry), "cached code"));
  cuda->entries = entries;
  cuda->entries[cuda->entry_count++] = (carnot_cuda_entry){key, object};
  return NULL;
}

static carnot_status* load(carnot_cuda* cuda, const void* image, CUmodule* out_module) {
  CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
  CARNOT_CUDA_TRY(cuda, cuModuleLoadData(out_module, image));
  void* modules = cuda->modules;
  CARNOT_TRY(carnot_grow(&modules, &cuda->module_capacity, cuda->module_count + 1, sizeof(CUmodule),
                         "modules"));
  cuda->modules = modules;
  cuda->modules[cuda->module_count++] = *out_module;
  return NULL;
}

// Name and family of each kernel, and the image of each family.
typedef struct kernel_info {
  const char* name;
  carnot_cuda_family family;
} kernel_info;
#define CONCAT_(a, b) a##b
#define CONCAT(a, b)  CONCAT_(a, b)
static const kernel_info kKernels[CARNOT_CUDA_KERNEL_COUNT] = {
    {NULL, CARNOT_CUDA_FAMILY_COUNT},
#define KERNEL(name, ...) {#name, CONCAT(CARNOT_CUDA_FAMILY_, CARNOT_CUDA_FAMILY)},
#include "kernel/cuda/kernels.def"
};
static const char* const kImages[CARNOT_CUDA_FAMILY_COUNT] = {
#define FAMILY(name) carnot_cuda_image_##name,
#include "kernel/cuda/families.def"
};

// The mutex is held by the caller.
static carnot_status* load_family(carnot_cuda* cuda, carnot_cuda_family family) {
  return cuda->families[family] ? NULL : load(cuda, kImages[family], &cuda->families[family]);
}

static carnot_status* find_kernel(carnot_cuda* cuda, carnot_cuda_kernel_id kernel) {
  if (cuda->kernels[kernel]) return NULL;
  const kernel_info* info = &kKernels[kernel];
  CARNOT_TRY(load_family(cuda, info->family));
  CARNOT_TRY_AT(
      carnot_cuda_check(cuda,
                        cuda->cuModuleGetFunction(&cuda->kernels[kernel],
                                                  cuda->families[info->family], info->name),
                        "cuModuleGetFunction"),
      "kernel %s", info->name);
  return NULL;
}

carnot_status* carnot_cuda_kernel(carnot_cuda* cuda, carnot_cuda_kernel_id kernel,
                                  CUfunction* out_function) {
  CARNOT_CHECK(kernel != CARNOT_CUDA_KERNEL_NONE, INVALID_MODEL,
               "no kernel for these types and sizes");
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status = find_kernel(cuda, kernel);
  *out_function = cuda->kernels[kernel];
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

carnot_status* carnot_cuda_kernel_for(carnot_cuda* cuda, const carnot_cuda_kernel_id* kernels,
                                      carnot_dtype dtype, CUfunction* out_function) {
  CARNOT_CHECK(carnot_dtype_valid(dtype) && kernels[dtype] != CARNOT_CUDA_KERNEL_NONE,
               INVALID_MODEL, "no kernel for %s", carnot_dtype_name(dtype));
  return carnot_cuda_kernel(cuda, kernels[dtype], out_function);
}

carnot_status* carnot_cuda_load_family(carnot_cuda* cuda, carnot_cuda_family family) {
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status = load_family(cuda, family);
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

// ---- generated programs ----

// What to compile for: the device's own code, or, where this NVRTC is older than the device, the
// newest intermediate code that it knows, which the driver translates.
static bool choose_target(carnot_cuda* cuda, char* option, size_t size) {
  int count = 0, best = 0, archs[64], wanted = cuda->major * 10 + cuda->minor;
  bool known = cuda->nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count > 64 ||
               cuda->nvrtcGetSupportedArchs(archs) != NVRTC_SUCCESS;
  for (int i = 0; !known && i < count; i++) {
    if (archs[i] <= wanted && archs[i] > best) best = archs[i];
    known = archs[i] == wanted;
  }
  if (known || !best)
    snprintf(option, size, "--gpu-architecture=%s", cuda->base.arch);
  else
    snprintf(option, size, "--gpu-architecture=compute_%d", best);
  return known || !best;
}

static carnot_status* read_code(carnot_cuda* cuda, nvrtcProgram program, bool machine_code,
                                char** out_cubin, size_t* out_bytes) {
  bool ok = (machine_code ? cuda->nvrtcGetCUBINSize : cuda->nvrtcGetPTXSize)(program, out_bytes) ==
                NVRTC_SUCCESS &&
            *out_bytes;
  *out_cubin = ok ? malloc(*out_bytes) : NULL;
  ok = *out_cubin && (machine_code ? cuda->nvrtcGetCUBIN : cuda->nvrtcGetPTX)(
                         program, *out_cubin) == NVRTC_SUCCESS;
  CARNOT_CHECK(ok, INTERNAL, "NVRTC gives no machine code for %s", cuda->base.arch);
  return NULL;
}

carnot_status* carnot_cuda_compile(carnot_cuda* cuda, const char* source, char** out_cubin,
                                   size_t* out_bytes) {
  *out_cubin = NULL;
  CARNOT_TRY(carnot_cuda_need_nvrtc(cuda));
  nvrtcProgram program;
  CARNOT_CHECK(
      cuda->nvrtcCreateProgram(&program, source, "program.cu", 0, NULL, NULL) == NVRTC_SUCCESS,
      INTERNAL, "NVRTC takes no program");
  char option[64];
  bool machine_code = choose_target(cuda, option, sizeof(option));
  const char* options[] = {option, "--std=c++17", "-default-device"};
  carnot_status* status = NULL;
  if (cuda->nvrtcCompileProgram(program, 3, options) != NVRTC_SUCCESS) {
    size_t size = 0;
    cuda->nvrtcGetProgramLogSize(program, &size);
    char* log = calloc(1, size + 1);
    if (log) cuda->nvrtcGetProgramLog(program, log);
    status = CARNOT_ERROR(INTERNAL, "a generated program does not compile for %s: %.1500s",
                          cuda->base.arch, log ? log : "");
    free(log);
  } else {
    status = read_code(cuda, program, machine_code, out_cubin, out_bytes);
  }
  cuda->nvrtcDestroyProgram(&program);
  return status;
}

typedef struct compiled {
  char* cubin;
  size_t bytes;
} compiled;

carnot_status* carnot_cuda_compile_cached(carnot_cuda* cuda, const char* source,
                                          const char** out_cubin, size_t* out_bytes) {
  uint64_t key = carnot_hash(source, strlen(source), 31);
  pthread_mutex_lock(&cuda->mutex);
  void** found = carnot_cuda_cached(cuda, key);
  compiled* made = found ? *found : NULL;
  pthread_mutex_unlock(&cuda->mutex);
  if (!made) {
    void* memory;
    CARNOT_TRY(carnot_calloc(1, sizeof(compiled), "machine code", &memory));
    made = memory;
    carnot_status* status = carnot_cuda_compile(cuda, source, &made->cubin, &made->bytes);
    if (status) free(made);
    if (status) return status;
    pthread_mutex_lock(&cuda->mutex);
    status = carnot_cuda_keep(cuda, key, made);
    pthread_mutex_unlock(&cuda->mutex);
    if (status) return status;
  }
  *out_cubin = made->cubin;
  *out_bytes = made->bytes;
  return NULL;
}

static carnot_status* make_program(carnot_cuda_queue* queue, const char* source, const void* cubin,
                                   CUmodule* out_module) {
  carnot_cuda* cuda = carnot_cuda_of(queue->base.device);
  if (cubin && queue->base.allow_code) return load(cuda, cubin, out_module);
  const char* made;
  size_t bytes;
  pthread_mutex_unlock(&cuda->mutex);
  carnot_status* status = carnot_cuda_compile_cached(cuda, source, &made, &bytes);
  pthread_mutex_lock(&cuda->mutex);
  return status ? status : load(cuda, made, out_module);
}

static carnot_status* find_program(carnot_cuda_queue* queue, const char* source, const char* name,
                                   const void* cubin, CUfunction* out_function) {
  carnot_cuda* cuda = carnot_cuda_of(queue->base.device);
  uint64_t key = carnot_hash(source, strlen(source), 29);
  void** found = carnot_cuda_cached(cuda, key);
  CUmodule module = found ? *found : NULL;
  if (!module) {
    CARNOT_TRY(make_program(queue, source, cubin, &module));
    CARNOT_TRY(carnot_cuda_keep(cuda, key, module));
  }
  return carnot_cuda_check(cuda, cuda->cuModuleGetFunction(out_function, module, name), name);
}

carnot_status* carnot_cuda_program(carnot_cuda_queue* queue, const char* source, const char* name,
                                   const void* cubin, CUfunction* out_function) {
  carnot_cuda* cuda = carnot_cuda_of(queue->base.device);
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status = find_program(queue, source, name, cubin, out_function);
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

// ---- launches ----

typedef struct launch_options {
  bool early;  // may begin before the previous kernel has ended
  size_t shared_bytes;
  const int64_t* cluster;  // NULL: none
} launch_options;

static carnot_status* launch(const carnot_step_view* step, CUfunction function,
                             const int64_t grid[3], unsigned threads, void* params,
                             launch_options options) {
  carnot_cuda_queue* queue = carnot_cuda_queue_of(step);
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  CARNOT_CHECK(grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] <= 65535, UNSUPPORTED,
               "a grid of %lld x %lld x %lld blocks is too large", (long long)grid[0],
               (long long)grid[1], (long long)grid[2]);
  void* arguments[] = {params};
  // Programmatic dependent launch: the kernel begins with wait_for_previous (types.cuh).
  CUlaunchAttribute attributes[2];
  unsigned count = 0;
  if (options.early && cuda->major >= 9)
    attributes[count++] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                            .value.programmaticStreamSerializationAllowed = 1};
  const int64_t* c = options.cluster;
  if (c && c[0] * c[1] * c[2] > 1)
    attributes[count++] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                            .value.clusterDim = {(unsigned)c[0], (unsigned)c[1], (unsigned)c[2]}};
  CUlaunchConfig config = {.gridDimX = (unsigned)grid[0],
                           .gridDimY = (unsigned)grid[1],
                           .gridDimZ = (unsigned)grid[2],
                           .blockDimX = threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = (unsigned)options.shared_bytes,
                           .hStream = queue->stream,
                           .attrs = attributes,
                           .numAttrs = count};
  CARNOT_CUDA_TRY(cuda, cuLaunchKernelEx(&config, function, arguments, NULL));
  return NULL;
}

carnot_status* carnot_cuda_launch(const carnot_step_view* step, CUfunction function,
                                  const int64_t grid[3], unsigned threads, void* params) {
  return launch(step, function, grid, threads, params, (launch_options){.early = true});
}

carnot_status* carnot_cuda_launch_after(const carnot_step_view* step, CUfunction function,
                                        const int64_t grid[3], unsigned threads, void* params) {
  return launch(step, function, grid, threads, params, (launch_options){.early = false});
}

carnot_status* carnot_cuda_launch_clusters(const carnot_step_view* step, CUfunction function,
                                           const int64_t grid[3], unsigned threads,
                                           const int64_t cluster[3], size_t shared_bytes,
                                           void* params) {
  return launch(step, function, grid, threads, params,
                (launch_options){true, shared_bytes, cluster});
}

carnot_status* carnot_cuda_cluster_count(carnot_cuda* cuda, CUfunction function, unsigned threads,
                                         const int64_t cluster[3], size_t shared_bytes,
                                         int* out_count) {
  CUlaunchAttribute attribute = {
      .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
      .value.clusterDim = {(unsigned)cluster[0], (unsigned)cluster[1], (unsigned)cluster[2]}};
  CUlaunchConfig config = {.gridDimX = (unsigned)cluster[0],
                           .gridDimY = (unsigned)cluster[1],
                           .gridDimZ = (unsigned)cluster[2],
                           .blockDimX = threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = (unsigned)shared_bytes,
                           .attrs = &attribute,
                           .numAttrs = 1};
  CARNOT_CUDA_TRY(cuda, cuOccupancyMaxActiveClusters(out_count, function, &config));
  return NULL;
}

carnot_status* carnot_cuda_allow_shared(carnot_cuda* cuda, CUfunction function) {
  CARNOT_CUDA_TRY(cuda,
                  cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     cuda->block_bytes - 1024));
  return NULL;
}

int carnot_cuda_widest_cluster(carnot_cuda* cuda, CUfunction function, unsigned threads,
                               size_t shared_bytes) {
  enum { kWide = 16 };
  const int64_t wide[3] = {kWide, 1, 1};
  int count = 0;
  bool takes =
      cuda->base.has_clusters &&
      !cuda->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  if (takes)
    carnot_status_free(
        carnot_cuda_cluster_count(cuda, function, threads, wide, shared_bytes, &count));
  return count > 0 ? kWide : carnot_cuda_cluster_limit(cuda);
}

carnot_status* carnot_cuda_before_library(const carnot_step_view* step) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  if (carnot_cuda_queue_of(step)->records || cuda->major < 9) return NULL;
  static const int64_t kOne[3] = {1, 1, 1};
  CUfunction nothing;
  int unused = 0;
  CARNOT_TRY(carnot_cuda_kernel(cuda, CARNOT_CUDA_KERNEL_empty, &nothing));
  return carnot_cuda_launch_after(step, nothing, kOne, 32, &unused);
}

// ---- edges of recorded graphs ----

static bool is_own(carnot_cuda* cuda, CUgraphNode node) {
  CUgraphNodeType type;
  CUDA_KERNEL_NODE_PARAMS params = {.func = NULL};
  CUmodule module;
  if (cuda->cuGraphNodeGetType(node, &type) || type != CU_GRAPH_NODE_TYPE_KERNEL ||
      cuda->cuGraphKernelNodeGetParams_v2(node, &params) || !params.func ||
      cuda->cuFuncGetModule(&module, params.func))
    return false;
  bool found = false;
  pthread_mutex_lock(&cuda->mutex);
  for (size_t i = 0; i < cuda->module_count && !found; i++) found = cuda->modules[i] == module;
  pthread_mutex_unlock(&cuda->mutex);
  return found;
}

carnot_status* carnot_cuda_tie_libraries(carnot_cuda* cuda, CUgraph graph) {
  size_t count = 0;
  CARNOT_CUDA_TRY(cuda, cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &count));
  if (!count) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(count, 2 * sizeof(CUgraphNode) + sizeof(CUgraphEdgeData),
                           "edges of a graph", &memory));
  CUgraphNode *from = memory, *to = from + count;
  CUgraphEdgeData* edges = (CUgraphEdgeData*)(to + count);
  carnot_status* status = carnot_cuda_check(
      cuda, cuda->cuGraphGetEdges_v2(graph, from, to, edges, &count), "cuGraphGetEdges");
  static const CUgraphEdgeData kFull = {.type = CU_GRAPH_DEPENDENCY_TYPE_DEFAULT};
  for (size_t i = 0; i < count && !status; i++) {
    if (edges[i].type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || is_own(cuda, to[i])) continue;
    status = carnot_cuda_check(
        cuda, cuda->cuGraphRemoveDependencies_v2(graph, &from[i], &to[i], &edges[i], 1),
        "cuGraphRemoveDependencies");
    if (!status)
      status = carnot_cuda_check(
          cuda, cuda->cuGraphAddDependencies_v2(graph, &from[i], &to[i], &kFull, 1),
          "cuGraphAddDependencies");
  }
  free(memory);
  return status;
}

carnot_status* carnot_cuda_launch_each(const carnot_step_view* step, CUfunction function,
                                       int64_t count, void* params) {
  const int64_t grid[3] = {carnot_ceildiv(count, CARNOT_CUDA_THREADS), 1, 1};
  return count ? carnot_cuda_launch(step, function, grid, CARNOT_CUDA_THREADS, params) : NULL;
}
