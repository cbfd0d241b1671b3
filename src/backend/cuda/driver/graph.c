// CUDA graphs: capture of a stream, launch, and the edges in front of library kernels.
#include <stdlib.h>

#include "backend/cuda/driver/backend.h"
#include "backend/cuda/driver/cuda.h"

struct carnot_device_graph {
  CUgraphExec exec;
};

static carnot_cuda* of_queue(carnot_stream* queue) { return carnot_cuda_of(queue->device); }
static carnot_cuda_queue* cast(carnot_stream* queue) { return (carnot_cuda_queue*)queue; }

carnot_status* carnot_cuda_capture_begin(carnot_stream* queue) {
  carnot_cuda* cuda = of_queue(queue);
  CARNOT_TRY(carnot_cuda_enter(cuda));
  carnot_cuda_queue* q = cast(queue);
  CARNOT_CUDA_TRY(cuda, cuStreamBeginCapture_v2(q->own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  q->records = true;
  q->lent = q->stream, q->stream = q->own;  // not every stream of a caller can be recorded
  return NULL;
}

static carnot_status* instantiate(carnot_cuda* cuda, CUgraph graph, carnot_device_graph** out) {
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_device_graph), "a recording", &memory));
  carnot_device_graph* made = memory;
  carnot_status* status = carnot_cuda_check(
      cuda, cuda->cuGraphInstantiateWithFlags(&made->exec, graph, 0), "cuGraphInstantiate");
  if (status) {
    free(made);
    return status;
  }
  *out = made;
  return NULL;
}

void carnot_cuda_graph_destroy(carnot_stream* queue, carnot_device_graph* graph) {
  carnot_status_free(carnot_cuda_enter(of_queue(queue)));
  of_queue(queue)->cuGraphExecDestroy(graph->exec);
  free(graph);
}

carnot_status* carnot_cuda_capture_end(carnot_stream* queue, carnot_device_graph** graph) {
  carnot_cuda* cuda = of_queue(queue);
  carnot_device_graph* old = *graph;
  CUgraph recorded = NULL;
  carnot_cuda_queue* q = cast(queue);
  *graph = NULL;
  q->records = false;
  q->stream = q->lent;
  carnot_status* status =
      carnot_cuda_check(cuda, cuda->cuStreamEndCapture(q->own, &recorded), "cuStreamEndCapture");
  if (!status) status = carnot_cuda_graph_fence_libraries(cuda, recorded);
  CUgraphExecUpdateResultInfo why;
  if (!status && old && cuda->cuGraphExecUpdate_v2(old->exec, recorded, &why) == CUDA_SUCCESS)
    *graph = old;
  else if (old)
    carnot_cuda_graph_destroy(queue, old);
  if (!status && !*graph) status = instantiate(cuda, recorded, graph);
  if (recorded) cuda->cuGraphDestroy(recorded);
  return status;
}

carnot_status* carnot_cuda_graph_launch(carnot_stream* queue, carnot_device_graph* graph) {
  carnot_cuda* cuda = of_queue(queue);
  CARNOT_TRY(carnot_cuda_enter(cuda));
  CARNOT_CUDA_TRY(cuda, cuGraphLaunch(graph->exec, cast(queue)->stream));
  return NULL;
}

bool carnot_cuda_stream_is_capturing(carnot_stream* queue) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  of_queue(queue)->cuStreamIsCapturing(cast(queue)->stream, &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// ---- edges of captured graphs ----

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

carnot_status* carnot_cuda_graph_fence_libraries(carnot_cuda* cuda, CUgraph graph) {
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
