// Convolutions as plans of cuDNN's graph interface.
#ifndef CARNOT_BACKEND_CUDA_DNN_H_
#define CARNOT_BACKEND_CUDA_DNN_H_

#include "backend/cuda/window.h"

enum { CARNOT_CUDA_DNN_CONFIGS = 32 };
static const int64_t kCarnotCudaDnnWorkspace = 256 << 20;  // most bytes that a plan may ask for

// Identifiers of the tensors in the graph.
enum {
  CARNOT_CUDA_DNN_X = 1,
  CARNOT_CUDA_DNN_W,
  CARNOT_CUDA_DNN_Y,
  CARNOT_CUDA_DNN_BIAS,
  CARNOT_CUDA_DNN_RESIDUAL,
  CARNOT_CUDA_DNN_VIRTUAL,
  CARNOT_CUDA_DNN_TENSORS = 8
};

// A convolution with what follows it. All bytes count: zeroed before it is filled.
typedef struct carnot_cuda_dnn_key {
  carnot_cuda_window window;
  int32_t dtype, spatial, bias, residual, activation, fast;
  int32_t choice;  // of the library's engines, in its order
} carnot_cuda_dnn_key;

typedef struct carnot_cuda_dnn_plan {
  cudnnBackendDescriptor_t plan;  // NULL where the library has no engine
  int64_t workspace_bytes;
  int32_t choice;  // what it became: the first from the wanted one on that works
  int32_t handle;  // that it was made with
  enum { CARNOT_CUDA_DNN_UNMADE, CARNOT_CUDA_DNN_IN_WORK, CARNOT_CUDA_DNN_MADE } state;
} carnot_cuda_dnn_plan;

// The plan of |key|, made once; the module keeps it. For an absent device the library is asked
// without one (from cuDNN 9.8 on; an older one gives UNSUPPORTED). Any thread: what another one is
// making is waited for.
carnot_status* carnot_cuda_dnn_find(carnot_cuda* cuda, const carnot_cuda_dnn_key* key,
                                    carnot_cuda_dnn_plan** out_plan) CARNOT_MUST_USE;
// Makes the plan of |key| unless somebody did or does: find will have it. Any thread.
void carnot_cuda_dnn_foresee(carnot_cuda* cuda, const carnot_cuda_dnn_key* key);
// Runs |plan| over |count| tensors.
carnot_status* carnot_cuda_dnn_execute(carnot_cuda* cuda, CUstream stream,
                                       const carnot_cuda_dnn_plan* plan, int count,
                                       const int64_t* ids, void* const* addresses,
                                       void* workspace) CARNOT_MUST_USE;

#endif
