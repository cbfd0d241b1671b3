// The backend that the module exports: its table of functions and its entry point.
#include "backend/cuda/driver/backend.h"

#include <nvtx3/nvToolsExt.h>
#include <string.h>

#include "backend/cuda/common/tactic.h"
#include "backend/cuda/driver/cuda.h"

static void span(const char* name) {
  if (name)
    nvtxRangePushA(name);
  else
    nvtxRangePop();
}

static const carnot_backend kBackend = {.abi = CARNOT_BACKEND_ABI,
                                        .problem_bytes = sizeof(carnot_problem),
                                        .view_bytes = sizeof(carnot_step_view),
                                        .name = "cuda",
                                        .tactics = carnot_cuda_tactics,
                                        .open = carnot_cuda_device_open,
                                        .close = carnot_cuda_device_close,
                                        .alloc = carnot_cuda_device_alloc,
                                        .free = carnot_cuda_device_free,
                                        .alloc_host = carnot_cuda_host_alloc,
                                        .free_host = carnot_cuda_host_free,
                                        .address_of = carnot_cuda_address_kind,
                                        .stream_create = carnot_cuda_stream_create,
                                        .stream_destroy = carnot_cuda_stream_destroy,
                                        .stream_borrow = carnot_cuda_stream_borrow,
                                        .stream_return = carnot_cuda_stream_return,
                                        .is_recording = carnot_cuda_stream_is_capturing,
                                        .copy = carnot_cuda_stream_copy,
                                        .synchronize = carnot_cuda_stream_synchronize,
                                        .start_libraries = carnot_cuda_start_libraries,
                                        .settle = carnot_cuda_programs_settle,
                                        .record_begin = carnot_cuda_capture_begin,
                                        .record_end = carnot_cuda_capture_end,
                                        .graph_launch = carnot_cuda_graph_launch,
                                        .graph_destroy = carnot_cuda_graph_destroy,
                                        .mark = carnot_cuda_stream_mark,
                                        .between = carnot_cuda_stream_elapsed,
                                        .span = span,
                                        .measure = carnot_cuda_measure_roofline,
                                        .libraries = carnot_cuda_libraries};

// core_functions.S.
extern carnot_core_function* carnot_core_slots[CARNOT_CORE_FUNCTION_COUNT];

const carnot_backend* carnot_backend_entry(const carnot_core_functions* core);
__attribute__((visibility("default"))) const carnot_backend* carnot_backend_entry(
    const carnot_core_functions* core) {
  if (core->count != CARNOT_CORE_FUNCTION_COUNT) return NULL;
  memcpy(carnot_core_slots, core->functions, sizeof(core->functions));
  return &kBackend;
}
