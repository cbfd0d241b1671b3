// Graphs of operations as cuDNN's descriptors.
#ifndef CARNOT_BACKEND_CUDA_DNN_GRAPH_H_
#define CARNOT_BACKEND_CUDA_DNN_GRAPH_H_

#include "backend/cuda/dnn.h"

// Descriptors that live together. After a failure the calls below do nothing.
typedef struct carnot_cuda_dnn_graph {
  carnot_cuda* cuda;
  cudnnHandle_t handle;  // NULL for a device that is absent
  cudnnBackendDescriptor_t made[48];
  int count;
  cudnnStatus_t status;  // the first failure
} carnot_cuda_dnn_graph;

cudnnBackendDescriptor_t carnot_cuda_dnn_make(carnot_cuda_dnn_graph* g,
                                              cudnnBackendDescriptorType_t type);
void carnot_cuda_dnn_set(carnot_cuda_dnn_graph* g, cudnnBackendDescriptor_t d,
                         cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, const void* value);
cudnnBackendDescriptor_t carnot_cuda_dnn_finish(carnot_cuda_dnn_graph* g,
                                                cudnnBackendDescriptor_t d);
void carnot_cuda_dnn_drop(carnot_cuda_dnn_graph* g);
// The graph of |key|.
cudnnBackendDescriptor_t carnot_cuda_dnn_operations(carnot_cuda_dnn_graph* g,
                                                    const carnot_cuda_dnn_key* key);

#endif
