// Timing of candidates on the device.
#include <float.h>

#include "backend/cuda/cuda.h"

enum { kMaxWays = 16, kRepeats = 10, kRounds = 3 };

typedef struct race {
  carnot_cuda* cuda;
  CUstream stream;
  CUevent begin, end;
  CUgraphExec graphs[kMaxWays];
  float best_ms[kMaxWays];
} race;

static carnot_status* record(race* r, carnot_cuda_racer* run, void* user, void* way,
                             CUgraphExec* out) {
  carnot_cuda* cuda = r->cuda;
  CARNOT_CUDA_TRY(cuda, cuStreamBeginCapture_v2(r->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  carnot_status* status = NULL;
  for (int i = 0; i < kRepeats && !status; i++) status = run(user, way, r->stream);
  CUgraph graph = NULL;
  carnot_status* ended =
      carnot_cuda_check(cuda, cuda->cuStreamEndCapture(r->stream, &graph), "cuStreamEndCapture");
  if (status) {
    carnot_status_free(ended);
  } else {
    status = ended;
  }
  if (!status)
    status = carnot_cuda_check(cuda, cuda->cuGraphInstantiateWithFlags(out, graph, 0),
                               "cuGraphInstantiateWithFlags");
  if (graph) cuda->cuGraphDestroy(graph);
  return status;
}

static carnot_status* time_once(race* r, int way, float* out_ms) {
  carnot_cuda* cuda = r->cuda;
  CARNOT_CUDA_TRY(cuda, cuEventRecord(r->begin, r->stream));
  CARNOT_CUDA_TRY(cuda, cuGraphLaunch(r->graphs[way], r->stream));
  CARNOT_CUDA_TRY(cuda, cuEventRecord(r->end, r->stream));
  CARNOT_CUDA_TRY(cuda, cuStreamSynchronize(r->stream));
  return carnot_cuda_check(cuda, cuda->cuEventElapsedTime(out_ms, r->begin, r->end),
                           "cuEventElapsedTime");
}

static carnot_status* run_rounds(race* r, carnot_cuda_racer* run, void* user, void** ways,
                                 int count) {
  carnot_cuda* cuda = r->cuda;
  CARNOT_CUDA_TRY(cuda, cuStreamCreate(&r->stream, CU_STREAM_NON_BLOCKING));
  CARNOT_CUDA_TRY(cuda, cuEventCreate(&r->begin, CU_EVENT_DEFAULT));
  CARNOT_CUDA_TRY(cuda, cuEventCreate(&r->end, CU_EVENT_DEFAULT));
  for (int i = 0; i < count; i++) {
    // One that cannot be recorded or run is out.
    carnot_status* status = record(r, run, user, ways[i], &r->graphs[i]);
    r->best_ms[i] = status ? FLT_MAX : FLT_MAX / 2;
    carnot_status_free(status);
  }
  for (int round = -1; round < kRounds; round++)  // the first warms up
    for (int i = 0; i < count; i++) {
      if (!r->graphs[i]) continue;
      float ms;
      CARNOT_TRY(time_once(r, i, &ms));
      if (round >= 0 && ms < r->best_ms[i]) r->best_ms[i] = ms;
    }
  return NULL;
}

carnot_status* carnot_cuda_race(carnot_cuda* cuda, carnot_cuda_racer* run, void* user, void** ways,
                                int count, int* out_best) {
  race r = {.cuda = cuda};
  if (count > kMaxWays) count = kMaxWays;
  CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
  carnot_status* status = run_rounds(&r, run, user, ways, count);
  *out_best = 0;
  for (int i = 1; i < count && !status; i++)
    if (r.best_ms[i] < 0.98f * r.best_ms[*out_best]) *out_best = i;
  for (int i = 0; i < count; i++)
    if (r.graphs[i]) cuda->cuGraphExecDestroy(r.graphs[i]);
  if (r.begin) cuda->cuEventDestroy_v2(r.begin);
  if (r.end) cuda->cuEventDestroy_v2(r.end);
  if (r.stream) cuda->cuStreamDestroy_v2(r.stream);
  return status;
}
