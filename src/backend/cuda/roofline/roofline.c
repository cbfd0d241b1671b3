// Device microbenchmarks: arithmetic throughput, copy bandwidth, launch latency.
#include <stdlib.h>

#include "backend/cuda/driver/cuda.h"
#include "kernel/cuda/roofline/roofline_params.h"

enum { kPasses = 6, kRounds = 4000, kLaunches = 64, kThreads = 256, kBlocksEach = 2, kCopiers = 8 };
static const size_t kCopyBytes = (size_t)512 << 20;

typedef struct experiment {
  carnot_device* device;
  carnot_stream* stream;
  carnot_step_view view;
  char* memory;  // kCopyBytes twice
} experiment;

typedef carnot_status* body(experiment* e, CUfunction function);

static carnot_status* run_peak(experiment* e, CUfunction function) {
  carnot_cuda_roofline_params p = {.rounds = kRounds, .out = (float*)e->memory};
  const int64_t grid[3] = {kBlocksEach * (int64_t)e->device->multiprocessor_count, 1, 1};
  return carnot_cuda_launch(&e->view, function, grid, kThreads, &p);
}

static int64_t copy_threads(const experiment* e) {
  return (int64_t)kThreads * kCopiers * e->device->multiprocessor_count;
}
// Pieces of 16 bytes a thread, which takes four at a time.
static int copy_rounds(const experiment* e) {
  return (int)((int64_t)kCopyBytes / 16 / copy_threads(e)) & ~3;
}

static carnot_status* run_copy(experiment* e, CUfunction function) {
  carnot_cuda_roofline_params p = {.rounds = copy_rounds(e), .out = (float*)e->memory};
  const int64_t grid[3] = {copy_threads(e) / kThreads, 1, 1};
  return carnot_cuda_launch(&e->view, function, grid, kThreads, &p);
}

static carnot_status* run_launches(experiment* e, CUfunction function) {
  static const int64_t kOne[3] = {1, 1, 1};
  int unused = 0;
  for (int i = 0; i < kLaunches; i++)
    CARNOT_TRY(carnot_cuda_launch_after(&e->view, function, kOne, 32, &unused));
  return NULL;
}

static carnot_status* run_early(experiment* e, CUfunction function) {
  static const int64_t kOne[3] = {1, 1, 1};
  int unused = 0;
  for (int i = 0; i < kLaunches; i++)
    CARNOT_TRY(carnot_cuda_launch(&e->view, function, kOne, 32, &unused));
  return NULL;
}

// The least microseconds of |run| as a recorded graph.
static carnot_status* least_us(experiment* e, body* run, carnot_cuda_kernel_id kernel,
                               double* out) {
  const carnot_backend* backend = e->device->backend;
  carnot_device_graph* graph = NULL;
  CUfunction function;
  *out = 0;
  CARNOT_TRY(carnot_cuda_kernel(carnot_cuda_of(e->device), kernel, &function));
  CARNOT_TRY(backend->record_begin(e->stream));
  carnot_status* status = run(e, function);
  carnot_status* ended = backend->record_end(e->stream, &graph);
  if (status) carnot_status_free(ended);
  CARNOT_TRY(status ? status : ended);
  for (int i = 0; i < kPasses && !status; i++) {
    uint64_t ns = 0;
    status = backend->mark(e->stream, 0);
    if (!status) status = backend->graph_launch(e->stream, graph);
    if (!status) status = backend->mark(e->stream, 1);
    if (!status) status = backend->synchronize(e->stream);
    if (!status) status = backend->between(e->stream, 0, 1, &ns);
    if (i && (*out == 0 || (double)ns * 1e-3 < *out)) *out = (double)ns * 1e-3;
  }
  backend->graph_destroy(e->stream, graph);
  return status;
}

static carnot_status* measure_all(experiment* e, carnot_device_peaks* out) {
  carnot_cuda* cuda = carnot_cuda_of(e->device);
  double us, threads = (double)kThreads * kBlocksEach * e->device->multiprocessor_count;
  CARNOT_TRY(least_us(e, run_peak, CARNOT_CUDA_KERNEL_roofline_f32, &us));
  out->f32_gflops = threads * kRounds * 16 * 2 / us * 1e-3;
  double each = cuda->major == 9 ? 4 * 64.0 * 128 * 16 * 2 / 128 : 16 * 16.0 * 8 * 16 * 2 / 32;
  if (cuda->major >= 8) {
    CARNOT_TRY(least_us(e, run_peak, CARNOT_CUDA_KERNEL_roofline_f16, &us));
    out->f16_gflops = threads * kRounds * each / us * 1e-3;
    CARNOT_TRY(least_us(e, run_peak, CARNOT_CUDA_KERNEL_roofline_bf16, &us));
    out->bf16_gflops = threads * kRounds * each / us * 1e-3;
  }
  CARNOT_TRY(least_us(e, run_copy, CARNOT_CUDA_KERNEL_roofline_copy, &us));
  out->copy_gbs = 2 * 16.0 * (double)(copy_threads(e) * copy_rounds(e)) / us * 1e-3;
  CARNOT_TRY(least_us(e, run_launches, CARNOT_CUDA_KERNEL_empty, &us));
  out->launch_us = us / kLaunches;
  CARNOT_TRY(least_us(e, run_early, CARNOT_CUDA_KERNEL_empty_pdl, &us));
  out->early_launch_us = us / kLaunches;
  return NULL;
}

carnot_status* carnot_cuda_measure_roofline(carnot_device* device, carnot_device_peaks* out) {
  *out = (carnot_device_peaks){0};
  experiment e = {.device = device};
  void* memory;
  CARNOT_TRY(device->backend->alloc(device, 2 * kCopyBytes, &memory));
  e.memory = memory;
  carnot_status* status = device->backend->stream_create(device, &e.stream);
  e.view.stream = e.stream;
  if (!status) status = measure_all(&e, out);
  device->backend->stream_destroy(e.stream);
  device->backend->free(device, memory);
  return status;
}
