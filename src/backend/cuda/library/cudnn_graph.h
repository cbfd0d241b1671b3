// cuDNN backend operation graphs of convolutions and attention.
#ifndef CARNOT_BACKEND_CUDA_LIBRARY_CUDNN_GRAPH_H_
#define CARNOT_BACKEND_CUDA_LIBRARY_CUDNN_GRAPH_H_

#include "backend/cuda/conv/conv.h"

// Identifiers of the tensors in the graph.
enum {
  CARNOT_CUDA_CUDNN_X = 1,
  CARNOT_CUDA_CUDNN_W,
  CARNOT_CUDA_CUDNN_Y,
  CARNOT_CUDA_CUDNN_BIAS,
  CARNOT_CUDA_CUDNN_RESIDUAL,
  CARNOT_CUDA_CUDNN_Q,
  CARNOT_CUDA_CUDNN_K,
  CARNOT_CUDA_CUDNN_V,
  CARNOT_CUDA_CUDNN_SCALE,       // float32, in host memory
  CARNOT_CUDA_CUDNN_VIRTUAL,     // from here on
  CARNOT_CUDA_CUDNN_TENSORS = 5  // most that a graph reads and writes
};

// The problem of a plan. Its bytes are the key: zeroed before it is filled.
typedef struct carnot_cuda_cudnn_key {
  enum { CARNOT_CUDA_CUDNN_CONV, CARNOT_CUDA_CUDNN_ATTENTION } kind;
  int32_t dtype, fast;
  int32_t choice;  // of the library's engines, in its order
  union {
    struct {
      carnot_cuda_sliding_window window;  // no addresses
      int32_t spatial, bias, residual, activation;
    } conv;  // with what follows it
    struct {
      carnot_cuda_attention_params call;  // no addresses, no mask
      int64_t heads;                      // of all batches
    } attention;
  };
} carnot_cuda_cudnn_key;

// Descriptors that live together. After a failure the calls below do nothing.
typedef struct carnot_cuda_cudnn_graph {
  carnot_cuda* cuda;
  cudnnHandle_t handle;  // NULL for a device that is absent
  cudnnBackendDescriptor_t made[48];
  int count;
  cudnnStatus_t status;  // the first failure
} carnot_cuda_cudnn_graph;

cudnnBackendDescriptor_t carnot_cuda_cudnn_make(carnot_cuda_cudnn_graph* g,
                                                cudnnBackendDescriptorType_t type);
void carnot_cuda_cudnn_set(carnot_cuda_cudnn_graph* g, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t count, const void* value);
cudnnBackendDescriptor_t carnot_cuda_cudnn_finish(carnot_cuda_cudnn_graph* g,
                                                  cudnnBackendDescriptor_t d);
void carnot_cuda_cudnn_drop(carnot_cuda_cudnn_graph* g);
// The graph of |key|.
cudnnBackendDescriptor_t carnot_cuda_cudnn_operations(carnot_cuda_cudnn_graph* g,
                                                      const carnot_cuda_cudnn_key* key);

#endif  // CARNOT_BACKEND_CUDA_LIBRARY_CUDNN_GRAPH_H_
