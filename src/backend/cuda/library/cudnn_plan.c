// cuDNN execution plans: handles, devices that are absent, the cache of plans, execution.
#include "backend/cuda/library/cudnn_plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/library/cudnn_graph.h"
#include "base/hash.h"

// ---- devices that are not there ----

// Device properties that cuDNN requires, of a common board of each architecture.
static const struct board {
  int arch, multiprocessors, shared_bytes, blocks, threads, l2_mib, memory_gib, mhz, memory_mhz;
} kBoards[] = {
    {75, 40, 65536, 16, 1024, 4, 16, 1590, 5001},        // T4
    {80, 108, 166912, 32, 2048, 40, 40, 1410, 1215},     // A100
    {86, 72, 101376, 16, 1536, 6, 24, 1695, 6251},       // A10
    {89, 58, 101376, 24, 1536, 48, 24, 2040, 6251},      // L4
    {90, 132, 232448, 32, 2048, 60, 141, 1980, 3201},    // H200
    {100, 148, 232448, 32, 2048, 126, 180, 1965, 3996},  // B200
};
enum { kLeastDeviceless = 90800 };

static carnot_status* describe_absent(carnot_cuda* cuda) {
  int arch = cuda->major * 10 + cuda->minor;
  const struct board* b = kBoards;
  while (b + 1 < kBoards + sizeof(kBoards) / sizeof(kBoards[0]) && b[1].arch <= arch) b++;
  char text[1024];
  int bytes = snprintf(
      text, sizeof(text),
      "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
      "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
      "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
      "\"reservedSharedMemoryPerBlock\":%d,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":%d,"
      "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":%d,\"pciDeviceId\":0,\"isTccDriver\":0,"
      "\"supportCoopLaunch\":1,\"totalGlobalMem\":%lld,\"smClockRateKHz\":%d,"
      "\"memClockRateKHz\":%d,\"l2CacheSize\":%d,\"cudaDeviceId\":0,\"deviceVer\":%d,"
      "\"driverVer\":13000,\"deviceName\":\"%s\"}",
      b->multiprocessors, b->shared_bytes, arch >= 80 ? 1024 : 0, b->blocks, b->threads,
      (long long)b->memory_gib << 30, b->mhz * 1000, b->memory_mhz * 1000, b->l2_mib << 20,
      arch * 10, cuda->base.name);
  CARNOT_CHECK(cuda->cudnn_version >= kLeastDeviceless, UNSUPPORTED,
               "cuDNN is %d, plans for a device that is absent need %d", cuda->cudnn_version,
               kLeastDeviceless);
  cudnnBackendDescriptor_t made = NULL;
  bool ok = cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made) == 0 &&
            cuda->cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, bytes, text) == 0 &&
            cuda->cudnnBackendFinalize(made) == 0;
  if (!ok && made) cuda->cudnnBackendDestroyDescriptor(made);
  CARNOT_CHECK(ok, UNSUPPORTED, "cuDNN %d does not plan for %s", cuda->cudnn_version,
               cuda->base.name);
  cuda->cudnn_absent = made;
  return NULL;
}

// ---- plans ----

static const double kLargeFlops = 2e9;

static double flops_of(const carnot_cuda_sliding_window* w) {
  double flops = 2.0 * (double)w->n * (double)w->filters * (double)w->channels / (double)w->groups;
  for (int d = 0; d < 3; d++) flops *= (double)w->out[d] * (double)w->kernel[d];
  return flops;
}

// Small convolutions are not planned with engines that compile at run time: their plans take 50 to
// 200 ms each, in a build and again when an engine is loaded, and gain some percent of a run. Nor,
// where own kernels take the channels, with those that call cuBLASLt, whose start takes 200 ms.
static bool is_slow_to_load(carnot_cuda_cudnn_graph* g, cudnnBackendDescriptor_t engine,
                            const carnot_cuda_cudnn_key* key) {
  cudnnBackendBehaviorNote_t notes[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
  int64_t found = 0;
  if (key->kind != CARNOT_CUDA_CUDNN_CONV || flops_of(&key->conv.window) >= kLargeFlops ||
      g->cuda->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
                                        CUDNN_TYPE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT,
                                        &found, notes) != CUDNN_STATUS_SUCCESS)
    return false;
  const bool eights = key->conv.window.channels % 8 == 0 && key->conv.window.filters % 8 == 0;
  for (int64_t i = 0; i < found && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
    if (notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION ||
        (notes[i] == CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY && eights))
      return true;
  return false;
}

// Engines that cut float32 short or give other bits each time are left out.
static bool is_allowed(carnot_cuda_cudnn_graph* g, cudnnBackendDescriptor_t config,
                       const carnot_cuda_cudnn_key* key) {
  cudnnBackendDescriptor_t engine = NULL;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  int64_t found = 0;
  if (g->cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)) return false;
  cudnnStatus_t status = g->cuda->cudnnBackendGetAttribute(
      config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found, &engine);
  if (status == CUDNN_STATUS_SUCCESS)
    status = g->cuda->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                               CUDNN_TYPE_NUMERICAL_NOTE,
                                               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &found, notes);
  const bool is_slow = is_slow_to_load(g, engine, key);
  g->cuda->cudnnBackendDestroyDescriptor(engine);
  if (status != CUDNN_STATUS_SUCCESS || is_slow) return false;
  bool exact = key->dtype == CARNOT_DTYPE_F32 && !key->fast;
  for (int64_t i = 0; i < found && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) {
    cudnnBackendNumericalNote_t n = notes[i];
    if (n == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
        n == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
      return false;
    if (exact &&
        (n == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || n == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
         n == CUDNN_NUMERICAL_NOTE_FFT || n == CUDNN_NUMERICAL_NOTE_WINOGRAD ||
         n == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
         n == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 ||
         n == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13))
      return false;
  }
  return true;
}

static bool plan_of(carnot_cuda_cudnn_graph* g, cudnnBackendDescriptor_t config,
                    carnot_cuda_cudnn_plan* out) {
  carnot_cuda* cuda = g->cuda;
  cudnnBackendDescriptor_t plan = NULL;
  int64_t found = 0;
  bool ok =
      cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) == 0 &&
      (cuda->cudnn_absent
           ? cuda->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &cuda->cudnn_absent)
           : cuda->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                            CUDNN_TYPE_HANDLE, 1, &g->handle)) == 0 &&
      cuda->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) == 0 &&
      cuda->cudnnBackendFinalize(plan) == 0 &&
      cuda->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &found, &out->workspace_bytes) == 0 &&
      out->workspace_bytes <= kCarnotCudaDnnWorkspace;
  if (ok)
    out->plan = plan;
  else if (plan)
    cuda->cudnnBackendDestroyDescriptor(plan);
  return ok;
}

// ---- engines as they are stored ----

// The number and the settings of the engine of |config|; zeroed where they cannot be read.
static void read_engine(carnot_cuda_cudnn_graph* g, cudnnBackendDescriptor_t config,
                        carnot_cuda_cudnn_engine* out) {
  carnot_cuda* cuda = g->cuda;
  cudnnBackendDescriptor_t engine = NULL, knobs[CARNOT_CUDA_CUDNN_KNOBS];
  int64_t found = 0, count = 0;
  int made = 0;
  while (made < CARNOT_CUDA_CUDNN_KNOBS &&
         cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[made]) ==
             0)
    made++;
  bool ok =
      made == CARNOT_CUDA_CUDNN_KNOBS &&
      cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == 0 &&
      cuda->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found, &engine) == 0 &&
      cuda->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                     &found, &out->index) == 0 &&
      cuda->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, CARNOT_CUDA_CUDNN_KNOBS, &count,
                                     knobs) == 0 &&
      count <= CARNOT_CUDA_CUDNN_KNOBS;
  for (int64_t i = 0; i < count && ok; i++) {
    cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
    ok = cuda->cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                        CUDNN_TYPE_KNOB_TYPE, 1, &found, &type) == 0 &&
         cuda->cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                        CUDNN_TYPE_INT64, 1, &found, &out->knobs[i].value) == 0;
    out->knobs[i].type = type;
  }
  out->version = cuda->cudnn_version;
  out->knob_count = (int32_t)count;
  if (!ok) *out = (carnot_cuda_cudnn_engine){0};
  if (engine) cuda->cudnnBackendDestroyDescriptor(engine);
  for (int i = 0; i < made; i++) cuda->cudnnBackendDestroyDescriptor(knobs[i]);
}

// The plan of a stored engine; false where this library does not take it for |ops|.
static bool restore(carnot_cuda_cudnn_graph* g, cudnnBackendDescriptor_t ops,
                    const carnot_cuda_cudnn_key* key, const carnot_cuda_cudnn_engine* stored,
                    carnot_cuda_cudnn_plan* out) {
  if (!stored || stored->version != g->cuda->cudnn_version || stored->knob_count < 0 ||
      stored->knob_count > CARNOT_CUDA_CUDNN_KNOBS)
    return false;
  cudnnBackendDescriptor_t engine = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR),
                           knobs[CARNOT_CUDA_CUDNN_KNOBS];
  carnot_cuda_cudnn_set(g, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        1, &ops);
  carnot_cuda_cudnn_set(g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                        &stored->index);
  if (g->cuda->cudnn_absent)
    carnot_cuda_cudnn_set(g, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                          &g->cuda->cudnn_absent);
  carnot_cuda_cudnn_finish(g, engine);
  for (int i = 0; i < stored->knob_count; i++) {
    const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)stored->knobs[i].type;
    knobs[i] = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    carnot_cuda_cudnn_set(g, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                          &type);
    carnot_cuda_cudnn_set(g, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                          &stored->knobs[i].value);
    carnot_cuda_cudnn_finish(g, knobs[i]);
  }
  cudnnBackendDescriptor_t config = carnot_cuda_cudnn_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  carnot_cuda_cudnn_set(g, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                        &engine);
  if (stored->knob_count)
    carnot_cuda_cudnn_set(g, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, stored->knob_count, knobs);
  carnot_cuda_cudnn_finish(g, config);
  const bool ok =
      g->status == CUDNN_STATUS_SUCCESS && is_allowed(g, config, key) && plan_of(g, config, out);
  g->status = CUDNN_STATUS_SUCCESS;
  if (ok) out->engine = *stored, out->choice = key->choice;
  return ok;
}

// Of a problem on this board.
static uint64_t problem_of(const carnot_cuda* cuda, const carnot_cuda_cudnn_key* key) {
  const uint64_t board = carnot_hash(cuda->base.name, strlen(cuda->base.name),
                                     (uint64_t)cuda->base.multiprocessor_count);
  return carnot_hash(key, sizeof(*key), board);
}

// ---- plans by the heuristic ----

static bool search(carnot_cuda_cudnn_graph* g, cudnnBackendDescriptor_t ops,
                   cudnnBackendHeurMode_t mode, const carnot_cuda_cudnn_key* key,
                   carnot_cuda_cudnn_plan* out) {
  cudnnBackendDescriptor_t heuristics =
      carnot_cuda_cudnn_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  carnot_cuda_cudnn_set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ops);
  carnot_cuda_cudnn_set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (g->cuda->cudnn_absent)
    carnot_cuda_cudnn_set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->cuda->cudnn_absent);
  carnot_cuda_cudnn_finish(g, heuristics);
  cudnnBackendDescriptor_t configs[CARNOT_CUDA_CUDNN_CONFIGS];
  int64_t found = 0;
  int made = 0;
  bool ok = false;
  while (g->status == CUDNN_STATUS_SUCCESS && made < CARNOT_CUDA_CUDNN_CONFIGS &&
         g->cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                               &configs[made]) == 0)
    made++;
  if (made == CARNOT_CUDA_CUDNN_CONFIGS &&
      g->cuda->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, CARNOT_CUDA_CUDNN_CONFIGS,
                                        &found, configs) == CUDNN_STATUS_SUCCESS)
    for (int64_t i = 0; i < found && i < CARNOT_CUDA_CUDNN_CONFIGS && !ok; i++) {
      out->choice = (int32_t)((key->choice + i) % found);
      ok = is_allowed(g, configs[out->choice], key) && plan_of(g, configs[out->choice], out);
      if (ok) read_engine(g, configs[out->choice], &out->engine);
      out->engine.problem = problem_of(g->cuda, key);
      out->engine.workspace_bytes = out->workspace_bytes;
    }
  for (int i = 0; i < made; i++) g->cuda->cudnnBackendDestroyDescriptor(configs[i]);
  return ok;
}

// A NULL plan where the library has no engine for it.
static carnot_status* make_plan(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                                const carnot_cuda_cudnn_engine* engine, cudnnHandle_t* handle,
                                carnot_cuda_cudnn_plan* out) {
  if (cuda->base.ordinal >= 0) {
    CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
    if (!*handle)
      CARNOT_CHECK(cuda->cudnnCreate(handle) == CUDNN_STATUS_SUCCESS, UNSUPPORTED,
                   "cuDNN %d does not start on %s", cuda->cudnn_version, cuda->base.name);
  }
  const uint64_t begin_ns = carnot_cuda_thread_ns();
  carnot_cuda_cudnn_graph g = {.cuda = cuda, .handle = *handle};
  cudnnBackendDescriptor_t ops = carnot_cuda_cudnn_operations(&g, key);
  if (g.status == CUDNN_STATUS_SUCCESS && !restore(&g, ops, key, engine, out) &&
      !search(&g, ops, CUDNN_HEUR_MODE_A, key, out)) {
    g.status = CUDNN_STATUS_SUCCESS;
    search(&g, ops, CUDNN_HEUR_MODE_FALLBACK, key, out);
  }
  carnot_cuda_cudnn_drop(&g);
  out->made_ns = carnot_cuda_thread_ns() - begin_ns;
  return NULL;
}

// ---- plans that are kept: the mutex is held, and given up while the library works ----

static int32_t take_handle(carnot_cuda* cuda) {
  for (;;) {
    for (int32_t i = 0; i < CARNOT_CUDA_CUDNN_HANDLES; i++)
      if (!cuda->cudnn_handles[i].is_busy) {
        cuda->cudnn_handles[i].is_busy = true;
        return i;
      }
    pthread_cond_wait(&cuda->cudnn_changed, &cuda->mutex);
  }
}

static carnot_status* make_kept(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                                const carnot_cuda_cudnn_engine* engine,
                                carnot_cuda_cudnn_plan* plan) {
  if (cuda->base.ordinal < 0 && !cuda->cudnn_absent) CARNOT_TRY(describe_absent(cuda));
  plan->state = CARNOT_CUDA_CUDNN_IN_WORK;
  plan->handle = take_handle(cuda);
  // The library opens its engines for the first plan, whichever that is.
  const bool is_first = !cuda->has_planned;
  cuda->has_planned = true;
  const uint64_t begin_ns = carnot_cuda_thread_ns();
  pthread_mutex_unlock(&cuda->mutex);
  carnot_status* status =
      make_plan(cuda, key, engine, &cuda->cudnn_handles[plan->handle].handle, plan);
  pthread_mutex_lock(&cuda->mutex);
  if (is_first) cuda->base.start_ns[CARNOT_SOURCE_CUDNN] += carnot_cuda_thread_ns() - begin_ns;
  cuda->cudnn_handles[plan->handle].is_busy = false;
  plan->state = status ? CARNOT_CUDA_CUDNN_UNMADE : CARNOT_CUDA_CUDNN_MADE;
  pthread_cond_broadcast(&cuda->cudnn_changed);
  return status;
}

static uint64_t hash_of(const carnot_cuda_cudnn_key* key, const carnot_cuda_cudnn_engine* engine) {
  const uint64_t hash = carnot_hash(key, sizeof(*key), 43);
  return engine ? carnot_hash(engine, sizeof(*engine), hash) : hash;
}

static carnot_status* place_of(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                               const carnot_cuda_cudnn_engine* engine,
                               carnot_cuda_cudnn_plan** out) {
  const uint64_t hash = hash_of(key, engine);
  void** found = carnot_cuda_cached(cuda, hash);
  *out = found ? *found : NULL;
  if (found) return NULL;
  void* memory = NULL;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda_cudnn_plan), "a plan of cuDNN", &memory));
  carnot_status* status = carnot_cuda_keep(cuda, hash, memory);
  if (status) free(memory);
  *out = status ? NULL : memory;
  return status;
}

carnot_status* carnot_cuda_cudnn_find(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                                      const carnot_cuda_cudnn_engine* engine,
                                      carnot_cuda_cudnn_plan** out_plan) {
  pthread_mutex_lock(&cuda->mutex);
  carnot_cuda_cudnn_plan* plan;
  carnot_status* status = place_of(cuda, key, engine, &plan);
  while (!status && plan->state == CARNOT_CUDA_CUDNN_IN_WORK)
    pthread_cond_wait(&cuda->cudnn_changed, &cuda->mutex);
  if (!status && plan->state == CARNOT_CUDA_CUDNN_UNMADE)
    status = make_kept(cuda, key, engine, plan);
  pthread_mutex_unlock(&cuda->mutex);
  *out_plan = status ? NULL : plan;
  return status;
}

uint64_t carnot_cuda_cudnn_made_ns(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                                   const carnot_cuda_cudnn_engine* engine) {
  pthread_mutex_lock(&cuda->mutex);
  void** found = carnot_cuda_cached(cuda, hash_of(key, engine));
  const carnot_cuda_cudnn_plan* plan = found ? *found : NULL;
  uint64_t ns = plan && plan->state == CARNOT_CUDA_CUDNN_MADE ? plan->made_ns : 0;
  pthread_mutex_unlock(&cuda->mutex);
  return ns;
}

void carnot_cuda_cudnn_foresee(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key) {
  pthread_mutex_lock(&cuda->mutex);
  carnot_cuda_cudnn_plan* plan;
  carnot_status* status = place_of(cuda, key, NULL, &plan);
  if (!status && plan->state == CARNOT_CUDA_CUDNN_UNMADE) status = make_kept(cuda, key, NULL, plan);
  pthread_mutex_unlock(&cuda->mutex);
  carnot_status_free(status);  // whoever needs the plan gets the error
}

// ---- plans that threads make; the mutex is held ----

struct carnot_cuda_cudnn_job {
  carnot_cuda_cudnn_job* next;
  carnot_cuda_cudnn_plan* plan;
  carnot_cuda_cudnn_key key;
  carnot_cuda_cudnn_engine engine;
};

static void* make_queued(void* arg) {
  carnot_cuda* cuda = arg;
  pthread_mutex_lock(&cuda->mutex);
  while (cuda->cudnn_jobs) {
    carnot_cuda_cudnn_job* job = cuda->cudnn_jobs;
    cuda->cudnn_jobs = job->next;
    // Whoever runs the plan finds it without an engine.
    carnot_status_free(make_kept(cuda, &job->key, &job->engine, job->plan));
    free(job);
  }
  cuda->starting_count--;
  pthread_cond_broadcast(&cuda->compiled);
  pthread_mutex_unlock(&cuda->mutex);
  return NULL;
}

enum { kMostPlanners = 8 };

static carnot_status* queue(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                            const carnot_cuda_cudnn_engine* engine, carnot_cuda_cudnn_plan* plan) {
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda_cudnn_job), "a plan of cuDNN", &memory));
  carnot_cuda_cudnn_job* job = memory;
  *job = (carnot_cuda_cudnn_job){cuda->cudnn_jobs, plan, *key, *engine};
  plan->state = CARNOT_CUDA_CUDNN_IN_WORK;
  plan->is_promised = true, plan->promised_bytes = engine->workspace_bytes;
  cuda->cudnn_jobs = job;
  pthread_t thread;
  if (cuda->starting_count < kMostPlanners && !pthread_create(&thread, NULL, make_queued, cuda)) {
    pthread_detach(thread);
    cuda->starting_count++;
    return NULL;
  }
  if (cuda->starting_count) return NULL;  // another thread takes it
  cuda->cudnn_jobs = job->next;
  free(job);
  return make_kept(cuda, key, engine, plan);
}

carnot_status* carnot_cuda_cudnn_begin(carnot_cuda* cuda, const carnot_cuda_cudnn_key* key,
                                       const carnot_cuda_cudnn_engine* engine,
                                       carnot_cuda_cudnn_plan** out_plan,
                                       int64_t* out_workspace_bytes) {
  const bool is_known = engine && cuda->base.ordinal >= 0 && engine->workspace_bytes >= 0 &&
                        engine->version == cuda->cudnn_version &&
                        engine->problem == problem_of(cuda, key);
  if (!is_known) {
    CARNOT_TRY(carnot_cuda_cudnn_find(cuda, key, engine, out_plan));
    *out_workspace_bytes = (*out_plan)->plan ? (*out_plan)->workspace_bytes : -1;
    return NULL;
  }
  pthread_mutex_lock(&cuda->mutex);
  carnot_cuda_cudnn_plan* plan;
  carnot_status* status = place_of(cuda, key, engine, &plan);
  if (!status && plan->state == CARNOT_CUDA_CUDNN_UNMADE) status = queue(cuda, key, engine, plan);
  pthread_mutex_unlock(&cuda->mutex);
  *out_plan = status ? NULL : plan;
  *out_workspace_bytes = engine->workspace_bytes;
  return status;
}

void carnot_cuda_cudnn_start(carnot_cuda* cuda) {
  if (carnot_cuda_lacks_cudnn(cuda)) return;
  pthread_mutex_lock(&cuda->mutex);
  const int32_t at = take_handle(cuda);
  pthread_mutex_unlock(&cuda->mutex);
  cudnnHandle_t* handle = &cuda->cudnn_handles[at].handle;
  const uint64_t begin_ns = carnot_cuda_clock_ns();
  const bool is_first = at == 0 && !*handle;
  if (!*handle && cuda->cudnnCreate(handle) != CUDNN_STATUS_SUCCESS) *handle = NULL;
  pthread_mutex_lock(&cuda->mutex);
  if (is_first) cuda->base.start_ns[CARNOT_SOURCE_CUDNN] += carnot_cuda_clock_ns() - begin_ns;
  cuda->cudnn_handles[at].is_busy = false;
  pthread_cond_broadcast(&cuda->cudnn_changed);
  pthread_mutex_unlock(&cuda->mutex);
}

// ---- runs ----

static carnot_status* wait_for_plan(carnot_cuda* cuda, const carnot_cuda_cudnn_plan* plan) {
  pthread_mutex_lock(&cuda->mutex);
  while (plan->state == CARNOT_CUDA_CUDNN_IN_WORK)
    pthread_cond_wait(&cuda->cudnn_changed, &cuda->mutex);
  pthread_mutex_unlock(&cuda->mutex);
  CARNOT_CHECK(plan->plan && (!plan->is_promised || plan->workspace_bytes <= plan->promised_bytes),
               UNSUPPORTED,
               "cuDNN %d does not plan as it did when the engine was built: build it again",
               cuda->cudnn_version);
  return NULL;
}

carnot_status* carnot_cuda_cudnn_execute(carnot_cuda* cuda, CUstream stream,
                                         carnot_cuda_cudnn_plan* plan, int count,
                                         const int64_t* ids, void* const* addresses,
                                         void* workspace) {
  CARNOT_TRY(wait_for_plan(cuda, plan));
  carnot_cuda_cudnn_graph g = {.cuda = cuda};
  cudnnBackendDescriptor_t pack = carnot_cuda_cudnn_make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  carnot_cuda_cudnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                        addresses);
  carnot_cuda_cudnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
  carnot_cuda_cudnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                        &workspace);
  carnot_cuda_cudnn_finish(&g, pack);
  cudnnStatus_t status = g.status;
  // A handle serves all queues of the device.
  pthread_mutex_lock(&cuda->mutex);
  while (cuda->cudnn_handles[plan->handle].is_busy)
    pthread_cond_wait(&cuda->cudnn_changed, &cuda->mutex);
  cudnnHandle_t handle = cuda->cudnn_handles[plan->handle].handle;
  if (status == CUDNN_STATUS_SUCCESS) status = cuda->cudnnSetStream(handle, (cudaStream_t)stream);
  uint64_t begin_ns = plan->has_run ? 0 : carnot_cuda_clock_ns();
  if (status == CUDNN_STATUS_SUCCESS) status = cuda->cudnnBackendExecute(handle, plan->plan, pack);
  if (!plan->has_run) plan->made_ns += carnot_cuda_clock_ns() - begin_ns;
  plan->has_run = true;
  pthread_mutex_unlock(&cuda->mutex);
  carnot_cuda_cudnn_drop(&g);
  CARNOT_CHECK(status == CUDNN_STATUS_SUCCESS, INTERNAL, "cudnnBackendExecute gave status %d",
               (int)status);
  return NULL;
}
