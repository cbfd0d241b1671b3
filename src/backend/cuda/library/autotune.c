// Times the algorithms of a library on the device, recorded into graphs.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cuda/driver/cuda.h"
#include "base/hash.h"

enum { kMaxWays = 16, kRepeats = 10, kRounds = 3, kHopeless = 4, kLoadingMs = 200 };

typedef struct race {
  carnot_cuda* cuda;
  CUstream stream;
  CUevent begin, end;
  CUgraphExec graphs[kMaxWays];
  float best_ms[kMaxWays];
} race;

static carnot_status* record(race* r, carnot_cuda_autotune_fn* run, void* user, void* way,
                             int repeats, CUgraphExec* out) {
  carnot_cuda* cuda = r->cuda;
  CARNOT_CUDA_TRY(cuda, cuStreamBeginCapture_v2(r->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  carnot_status* status = NULL;
  for (int i = 0; i < repeats && !status; i++) status = run(user, way, r->stream);
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

static carnot_status* time_once(race* r, CUgraphExec graph, float* out_ms) {
  carnot_cuda* cuda = r->cuda;
  CARNOT_CUDA_TRY(cuda, cuEventRecord(r->begin, r->stream));
  CARNOT_CUDA_TRY(cuda, cuGraphLaunch(graph, r->stream));
  CARNOT_CUDA_TRY(cuda, cuEventRecord(r->end, r->stream));
  CARNOT_CUDA_TRY(cuda, cuStreamSynchronize(r->stream));
  return carnot_cuda_check(cuda, cuda->cuEventElapsedTime(out_ms, r->begin, r->end),
                           "cuEventElapsedTime");
}

// Milliseconds of one run, of the second where the first, which may load code, is not far behind
// by itself.
static carnot_status* time_one(race* r, carnot_cuda_autotune_fn* run, void* user, void* way,
                               float fastest_ms, float* out_ms) {
  CUgraphExec graph = NULL;
  CARNOT_TRY(record(r, run, user, way, 1, &graph));
  carnot_status* status = time_once(r, graph, out_ms);
  if (!status && *out_ms < kHopeless * fastest_ms + kLoadingMs)
    status = time_once(r, graph, out_ms);
  r->cuda->cuGraphExecDestroy(graph);
  return status;
}

static carnot_status* run_rounds(race* r, carnot_cuda_autotune_fn* run, void* user, void** ways,
                                 int count) {
  carnot_cuda* cuda = r->cuda;
  float fastest_ms = FLT_MAX / (4 * kHopeless);
  CARNOT_CUDA_TRY(cuda, cuStreamCreate(&r->stream, CU_STREAM_NON_BLOCKING));
  CARNOT_CUDA_TRY(cuda, cuEventCreate(&r->begin, CU_EVENT_DEFAULT));
  CARNOT_CUDA_TRY(cuda, cuEventCreate(&r->end, CU_EVENT_DEFAULT));
  for (int i = 0; i < count; i++) {
    // One that cannot be recorded or run is out, and one that is far behind is not run again.
    float ms = FLT_MAX;
    carnot_status* status = time_one(r, run, user, ways[i], fastest_ms, &ms);
    r->best_ms[i] = status ? FLT_MAX : ms * kRepeats;
    if (!status && ms < fastest_ms) fastest_ms = ms;
    if (!status && ms <= kHopeless * fastest_ms)
      status = record(r, run, user, ways[i], kRepeats, &r->graphs[i]);
    carnot_status_free(status);
  }
  for (int round = -1; round < kRounds; round++)  // the first warms up
    for (int i = 0; i < count; i++) {
      if (!r->graphs[i] || r->best_ms[i] > kHopeless * fastest_ms * kRepeats) continue;
      float ms;
      CARNOT_TRY(time_once(r, r->graphs[i], &ms));
      if (round == 0 || (round > 0 && ms < r->best_ms[i])) r->best_ms[i] = ms;
    }
  return NULL;
}

// The nanoseconds of one repeat each; kNever of what cannot run.
static const uint64_t kNever = 1000000000000000;

static carnot_status* time_all(carnot_cuda* cuda, carnot_cuda_autotune_fn* run, void* user,
                               void** ways, int count, uint64_t* out_ns) {
  race r = {.cuda = cuda};
  CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
  carnot_status* status = run_rounds(&r, run, user, ways, count);
  for (int i = 0; i < count && !status; i++)
    out_ns[i] =
        r.best_ms[i] < FLT_MAX / 4 ? (uint64_t)((double)r.best_ms[i] * 1e6 / kRepeats) : kNever;
  for (int i = 0; i < count; i++)
    if (r.graphs[i]) cuda->cuGraphExecDestroy(r.graphs[i]);
  if (r.begin) cuda->cuEventDestroy_v2(r.begin);
  if (r.end) cuda->cuEventDestroy_v2(r.end);
  if (r.stream) cuda->cuStreamDestroy_v2(r.stream);
  return status;
}

static int fastest(const uint64_t* ns, int count) {
  int best = 0;
  for (int i = 1; i < count; i++)
    if (ns[i] < ns[best] - ns[best] / 50) best = i;
  return best;
}

// ---- the timing cache ----

static uint64_t key_on(const carnot_problem* problem, uint64_t key) {
  return carnot_hash(problem->device->name, strlen(problem->device->name), key);
}

bool carnot_cuda_autotune_cached(const carnot_problem* problem, uint64_t key, const char* name,
                                 int count, int* out_best) {
  const carnot_timings* timings = problem->timings;
  uint64_t ns[kMaxWays];
  if (count > kMaxWays) count = kMaxWays;
  for (int i = 0; i < count; i++) {
    char text[64];
    snprintf(text, sizeof(text), "%s_%d", name, i);
    if (!timings || !timings->find(timings->cache, key_on(problem, key), text, &ns[i]))
      return false;
  }
  *out_best = fastest(ns, count);
  return true;
}

carnot_status* carnot_cuda_autotune(const carnot_problem* problem, uint64_t key, const char* name,
                                    carnot_cuda_autotune_fn* run, void* user, void** ways,
                                    int count, int* out_best) {
  const carnot_timings* timings = problem->timings;
  uint64_t ns[kMaxWays];
  *out_best = 0;
  if (count > kMaxWays) count = kMaxWays;
  CARNOT_TRY(time_all(carnot_cuda_of(problem->device), run, user, ways, count, ns));
  for (int i = 0; i < count && timings; i++) {
    char text[64];
    snprintf(text, sizeof(text), "%s_%d", name, i);
    CARNOT_TRY(timings->get_or_insert(timings->cache, key_on(problem, key), text, &ns[i]));
  }
  *out_best = fastest(ns, count);
  return NULL;
}
