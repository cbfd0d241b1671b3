// cuDNN execution plans: built once per device and problem, shared by all steps.
#ifndef CARNOT_BACKEND_CUDA_LIBRARY_CUDNN_PLAN_H_
#define CARNOT_BACKEND_CUDA_LIBRARY_CUDNN_PLAN_H_

#include "backend/cuda/library/cudnn_graph.h"

enum { CARNOT_CUDA_CUDNN_CONFIGS = 32 };
static const int64_t kCarnotCudaDnnWorkspace = 256 << 20;  // most workspace bytes of a plan

// An engine of one version of the library with its settings, as an engine file stores it, and what
// its plan took for one problem on one board; zeroed: unknown.
enum { CARNOT_CUDA_CUDNN_KNOBS = 16 };
typedef struct carnot_cuda_cudnn_engine {
  int32_t version, knob_count;
  int64_t index;
  struct {
    int64_t type, value;
  } knobs[CARNOT_CUDA_CUDNN_KNOBS];
  uint64_t problem;  // hash of key and board that the next is of
  int64_t workspace_bytes;
} carnot_cuda_cudnn_engine;

typedef struct carnot_cuda_cudnn_plan {
  cudnnBackendDescriptor_t plan;  // NULL where the library has no engine
  carnot_cuda_cudnn_engine engine;
  int64_t workspace_bytes;
  bool is_promised;  // its steps have |promised_bytes| of workspace
  int64_t promised_bytes;
  uint64_t made_ns;  // processor's time of making it, and the time of the first run's call
  bool has_run;
  int32_t choice;  // the engine in use: the first from the requested one on that works
  int32_t handle;  // that it was made with
  enum { CARNOT_CUDA_CUDNN_UNMADE, CARNOT_CUDA_CUDNN_IN_WORK, CARNOT_CUDA_CUDNN_MADE } state;
} carnot_cuda_cudnn_plan;

// The plan of |key|, built once and owned by the module: with |engine| where it is not NULL and of
// this version of the library, which saves its heuristic (200 ms the first time), else by the
// heuristic. For an absent device it is built without a handle (from cuDNN 9.8 on; older versions:
// UNSUPPORTED). Any thread; waits for a plan that another thread is building.
carnot_status* carnot_cuda_cudnn_find(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                                      const carnot_cuda_cudnn_engine* engine,
                                      carnot_cuda_cudnn_plan** out_plan) CARNOT_MUST_USE;
// The same, but where |engine| knows what the plan takes for |key| on this board, threads of the
// module make it while the caller goes on; execute waits for it. *out_workspace_bytes is -1 where
// the library has no engine.
carnot_status* carnot_cuda_cudnn_begin(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                                       const carnot_cuda_cudnn_engine* engine,
                                       carnot_cuda_cudnn_plan** out_plan,
                                       int64_t* out_workspace_bytes) CARNOT_MUST_USE;
// Opens the library and makes its first handle, which take long.
void carnot_cuda_cudnn_start(carnot_cuda* cuda);
// Time to build the plan of |key| with |engine| (may be NULL) when an engine is loaded; 0 where it
// was not built.
uint64_t carnot_cuda_cudnn_made_ns(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                                   const carnot_cuda_cudnn_engine* engine);
// Makes the plan of |key| unless somebody did or does: find will have it. Any thread.
void carnot_cuda_cudnn_foresee(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key);
// Runs |plan| over |count| tensors; the first time its kernels are loaded.
carnot_status* carnot_cuda_cudnn_execute(carnot_cuda* cuda, CUstream stream,
                                         carnot_cuda_cudnn_plan* plan, int count,
                                         const int64_t* ids, void* const* addresses,
                                         void* workspace) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_LIBRARY_CUDNN_PLAN_H_
