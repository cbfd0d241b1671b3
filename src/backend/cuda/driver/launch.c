// Kernel launches: programmatic dependent launch, clusters, dynamic shared memory and occupancy.
#include "backend/cuda/driver/cuda.h"
#include "kernel/cuda/common/params.h"

typedef struct launch_options {
  bool early;  // may begin before the previous kernel has ended
  size_t shared_bytes;
  const int64_t* cluster;  // NULL: none
} launch_options;

static carnot_status* launch(const carnot_step_view* step, CUfunction function,
                             const int64_t grid[3], unsigned threads, void* params,
                             launch_options options) {
  carnot_cuda_stream* stream = carnot_cuda_stream_of(step);
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
                           .hStream = stream->handle,
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

carnot_status* carnot_cuda_fence_before_library(const carnot_step_view* step) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  if (carnot_cuda_stream_of(step)->records || cuda->major < 9) return NULL;
  static const int64_t kOne[3] = {1, 1, 1};
  CUfunction nothing;
  int unused = 0;
  CARNOT_TRY(carnot_cuda_kernel(cuda, CARNOT_CUDA_KERNEL_empty, &nothing));
  return carnot_cuda_launch_after(step, nothing, kOne, 32, &unused);
}

carnot_status* carnot_cuda_launch_threads(const carnot_step_view* step, CUfunction function,
                                          int64_t count, void* params) {
  const int64_t grid[3] = {carnot_ceildiv(count, CARNOT_CUDA_THREADS), 1, 1};
  return count ? carnot_cuda_launch(step, function, grid, CARNOT_CUDA_THREADS, params) : NULL;
}
