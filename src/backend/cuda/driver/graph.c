// CUDA graphs: capture of a stream, launch, and the edges in front of library kernels.
#include <stdlib.h>

#include "backend/cuda/driver/backend.h"
#include "backend/cuda/driver/cuda.h"
#include "base/hash.h"

struct carnot_device_graph {
  CUgraphExec exec;
  uint64_t kept;  // hash_kept of what it was made from
};

static carnot_cuda* device_of(carnot_stream* stream) { return carnot_cuda_of(stream->device); }
static carnot_cuda_stream* cast(carnot_stream* stream) { return (carnot_cuda_stream*)stream; }

carnot_status* carnot_cuda_capture_begin(carnot_stream* stream) {
  carnot_cuda* cuda = device_of(stream);
  CARNOT_TRY(carnot_cuda_enter(cuda));
  carnot_cuda_stream* s = cast(stream);
  CARNOT_CUDA_TRY(cuda, cuStreamBeginCapture_v2(s->own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  s->records = true;
  s->lent = s->handle, s->handle = s->own;  // not every stream of a caller can be recorded
  return NULL;
}

// What an update of an executable graph keeps of the old one, though the new one has another: the
// cluster size of a node whose new kernel has none (seen with driver CUDA 13.0; that kernel's
// blocks arrive at barriers of each other and wait for ever), and perhaps the kind of an edge.
static carnot_status* hash_clusters(carnot_cuda* cuda, CUgraph graph, uint64_t* hash) {
  size_t count = 0;
  CARNOT_CUDA_TRY(cuda, cuGraphGetNodes(graph, NULL, &count));
  if (!count) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(count, sizeof(CUgraphNode), "nodes of a graph", &memory));
  CUgraphNode* nodes = memory;
  carnot_status* status =
      carnot_cuda_check(cuda, cuda->cuGraphGetNodes(graph, nodes, &count), "cuGraphGetNodes");
  for (size_t i = 0; i < count && !status; i++) {
    CUgraphNodeType type;
    CUkernelNodeAttrValue value = {.clusterDim = {0}};
    if (cuda->cuGraphNodeGetType(nodes[i], &type) || type != CU_GRAPH_NODE_TYPE_KERNEL ||
        cuda->cuGraphKernelNodeGetAttribute(nodes[i], CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                            &value))
      continue;
    const unsigned size[4] = {(unsigned)i, value.clusterDim.x, value.clusterDim.y,
                              value.clusterDim.z};
    *hash = carnot_hash(size, sizeof(size), *hash);
  }
  free(memory);
  return status;
}

typedef struct edge_list {
  CUgraphNode *from, *to;
  CUgraphEdgeData* edges;
  size_t count;
} edge_list;

// |from| is the caller's memory; NULL without edges, since the driver refuses arrays of no
// elements.
static carnot_status* edges_of(carnot_cuda* cuda, CUgraph graph, edge_list* out) {
  *out = (edge_list){.from = NULL};
  CARNOT_CUDA_TRY(cuda, cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &out->count));
  if (!out->count) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(out->count, 2 * sizeof(CUgraphNode) + sizeof(CUgraphEdgeData),
                           "edges of a graph", &memory));
  out->from = memory, out->to = out->from + out->count;
  out->edges = (CUgraphEdgeData*)(out->to + out->count);
  return carnot_cuda_check(
      cuda, cuda->cuGraphGetEdges_v2(graph, out->from, out->to, out->edges, &out->count),
      "cuGraphGetEdges");
}

static carnot_status* hash_kept(carnot_cuda* cuda, CUgraph graph, uint64_t* out) {
  edge_list list;
  *out = 0;
  CARNOT_TRY(hash_clusters(cuda, graph, out));
  carnot_status* status = edges_of(cuda, graph, &list);
  for (size_t i = 0; i < list.count && !status; i++)
    *out = carnot_hash(&list.edges[i].type, sizeof(list.edges[i].type), *out);
  free(list.from);
  return status;
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

void carnot_cuda_graph_destroy(carnot_stream* stream, carnot_device_graph* graph) {
  carnot_status_free(carnot_cuda_enter(device_of(stream)));
  device_of(stream)->cuGraphExecDestroy(graph->exec);
  free(graph);
}

carnot_status* carnot_cuda_capture_end(carnot_stream* stream, carnot_device_graph** graph) {
  carnot_cuda* cuda = device_of(stream);
  carnot_device_graph* old = *graph;
  CUgraph recorded = NULL;
  carnot_cuda_stream* s = cast(stream);
  *graph = NULL;
  s->records = false;
  s->handle = s->lent;
  carnot_status* status =
      carnot_cuda_check(cuda, cuda->cuStreamEndCapture(s->own, &recorded), "cuStreamEndCapture");
  if (!status) status = carnot_cuda_graph_fence_libraries(cuda, recorded);
  uint64_t kept = 0;
  if (!status) status = hash_kept(cuda, recorded, &kept);
  CUgraphExecUpdateResultInfo why;
  if (!status && old && old->kept == kept &&
      cuda->cuGraphExecUpdate_v2(old->exec, recorded, &why) == CUDA_SUCCESS)
    *graph = old;
  else if (old)
    carnot_cuda_graph_destroy(stream, old);
  if (!status && !*graph) status = instantiate(cuda, recorded, graph);
  if (!status) (*graph)->kept = kept;
  if (recorded) cuda->cuGraphDestroy(recorded);
  return status;
}

carnot_status* carnot_cuda_graph_launch(carnot_stream* stream, carnot_device_graph* graph) {
  carnot_cuda* cuda = device_of(stream);
  CARNOT_TRY(carnot_cuda_enter(cuda));
  CARNOT_CUDA_TRY(cuda, cuGraphLaunch(graph->exec, cast(stream)->handle));
  return NULL;
}

bool carnot_cuda_stream_is_capturing(carnot_stream* stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  device_of(stream)->cuStreamIsCapturing(cast(stream)->handle, &status);
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
  static const CUgraphEdgeData kFull = {.type = CU_GRAPH_DEPENDENCY_TYPE_DEFAULT};
  edge_list l;
  carnot_status* status = edges_of(cuda, graph, &l);
  for (size_t i = 0; i < l.count && !status; i++) {
    if (l.edges[i].type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || is_own(cuda, l.to[i])) continue;
    status = carnot_cuda_check(
        cuda, cuda->cuGraphRemoveDependencies_v2(graph, &l.from[i], &l.to[i], &l.edges[i], 1),
        "cuGraphRemoveDependencies");
    if (!status)
      status = carnot_cuda_check(
          cuda, cuda->cuGraphAddDependencies_v2(graph, &l.from[i], &l.to[i], &kFull, 1),
          "cuGraphAddDependencies");
  }
  free(l.from);
  return status;
}
