// Plans of cuDNN's graph interface: the graph of a convolution, the library's engines for it, runs.
#include "backend/cuda/dnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

// ---- devices that are not there ----

// What the library asks of a device, of the usual board of each architecture.
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
  CARNOT_CHECK(cuda->dnn_version >= kLeastDeviceless, UNSUPPORTED,
               "cuDNN is %d, plans for a device that is absent need %d", cuda->dnn_version,
               kLeastDeviceless);
  cudnnBackendDescriptor_t made = NULL;
  bool ok = cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made) == 0 &&
            cuda->cudnnBackendSetAttribute(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, bytes, text) == 0 &&
            cuda->cudnnBackendFinalize(made) == 0;
  if (!ok && made) cuda->cudnnBackendDestroyDescriptor(made);
  CARNOT_CHECK(ok, UNSUPPORTED, "cuDNN %d does not plan for %s", cuda->dnn_version,
               cuda->base.name);
  cuda->dnn_absent = made;
  return NULL;
}

// ---- descriptors ----

typedef struct graph {
  carnot_cuda* cuda;
  cudnnHandle_t handle;  // NULL for a device that is absent
  cudnnBackendDescriptor_t made[48];
  int count;
  cudnnStatus_t status;  // the first failure
} graph;

static cudnnBackendDescriptor_t make(graph* g, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t d = NULL;
  if (g->status == CUDNN_STATUS_SUCCESS && g->count < 48)
    g->status = g->cuda->cudnnBackendCreateDescriptor(type, &d);
  if (d) g->made[g->count++] = d;
  return d;
}
static void set(graph* g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void* value) {
  if (g->status == CUDNN_STATUS_SUCCESS)
    g->status = g->cuda->cudnnBackendSetAttribute(d, name, type, count, value);
}
static cudnnBackendDescriptor_t finish(graph* g, cudnnBackendDescriptor_t d) {
  if (g->status == CUDNN_STATUS_SUCCESS) g->status = g->cuda->cudnnBackendFinalize(d);
  return d;
}
static void drop(graph* g) {
  for (int i = g->count - 1; i >= 0; i--) g->cuda->cudnnBackendDestroyDescriptor(g->made[i]);
  g->count = 0;
}

static cudnnDataType_t data_type(int32_t dtype) {
  return dtype == CARNOT_DTYPE_F32   ? CUDNN_DATA_FLOAT
         : dtype == CARNOT_DTYPE_F16 ? CUDNN_DATA_HALF
                                     : CUDNN_DATA_BFLOAT16;
}

static cudnnBackendDescriptor_t tensor(graph* g, int64_t id, cudnnDataType_t type, int rank,
                                       const int64_t* dims, const int64_t* strides,
                                       bool is_virtual) {
  cudnnBackendDescriptor_t d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  int64_t alignment = 16;
  set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims);
  set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides);
  set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  return finish(g, d);
}

static cudnnBackendDescriptor_t pointwise(graph* g, cudnnPointwiseMode_t mode,
                                          cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                          cudnnBackendDescriptor_t y) {
  cudnnBackendDescriptor_t p = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  set(g, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(g, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  finish(g, p);
  cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p);
  set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
  if (b) set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &b);
  set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
  return finish(g, op);
}

typedef struct extents {
  int rank;
  int64_t x[5], w[5], y[5], x_s[5], w_s[5], y_s[5], bias[5], bias_s[5];
  int64_t pre[3], post[3], dilation[3], step[3];
} extents;

static void read_extents(const carnot_cuda_dnn_key* key, extents* e) {
  const carnot_cuda_window* t = &key->window;
  int first = 3 - key->spatial;
  *e = (extents){.rank = 2 + key->spatial};
  e->x[0] = e->y[0] = t->n, e->x[1] = t->channels, e->y[1] = t->filters;
  e->w[0] = t->filters, e->w[1] = t->channels / t->groups;
  e->x_s[0] = t->x_n, e->x_s[1] = t->x_c, e->y_s[0] = t->y_n, e->y_s[1] = t->y_c;
  for (int d = 0; d < key->spatial; d++) {
    int s = first + d;
    e->x[2 + d] = t->in[s], e->y[2 + d] = t->out[s], e->w[2 + d] = t->kernel[s];
    e->x_s[2 + d] = t->x_s[s] ? t->x_s[s] : t->in[2] * t->x_s[2];
    e->y_s[2 + d] = t->y_s[s] ? t->y_s[s] : t->out[2] * t->y_s[2];
    e->pre[d] = t->begin[s], e->post[d] = t->end[s];
    e->dilation[d] = t->dilation[s], e->step[d] = t->step[s];
  }
  int64_t stride = 1, order[5] = {0};
  bool half = carnot_cuda_is_half((carnot_dtype)key->dtype);
  for (int i = 0; i < e->rank; i++)
    order[i] = !half ? e->rank - 1 - i : i == 0 ? 1 : i == e->rank - 1 ? 0 : e->rank - i;
  for (int i = 0; i < e->rank; i++) {
    e->w_s[order[i]] = stride;
    stride *= e->w[order[i]];
    e->bias[i] = i == 1 ? t->filters : 1;
    e->bias_s[i] = i == 0 ? t->filters : i == 1 ? 1 : half ? t->filters : 1;
  }
}

static cudnnBackendDescriptor_t operations(graph* g, const carnot_cuda_dnn_key* key) {
  extents e;
  read_extents(key, &e);
  cudnnDataType_t type = data_type(key->dtype), compute = CUDNN_DATA_FLOAT;
  int64_t spatial = key->spatial;
  int left = key->bias + key->residual + (key->activation != CARNOT_CUDA_NO_ACTIVATION);
  cudnnBackendDescriptor_t ops[4],
      x = tensor(g, CARNOT_CUDA_DNN_X, type, e.rank, e.x, e.x_s, false);
  cudnnBackendDescriptor_t w = tensor(g, CARNOT_CUDA_DNN_W, type, e.rank, e.w, e.w_s, false);
  int64_t next = CARNOT_CUDA_DNN_VIRTUAL;
#define RESULT()                                                 \
  (left-- ? tensor(g, next++, compute, e.rank, e.y, e.y_s, true) \
          : tensor(g, CARNOT_CUDA_DNN_Y, type, e.rank, e.y, e.y_s, false))
  cudnnBackendDescriptor_t at = RESULT();
  cudnnBackendDescriptor_t conv = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  set(g, conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
  set(g, conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  set(g, conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  set(g, conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial, e.pre);
  set(g, conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial, e.post);
  set(g, conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial, e.dilation);
  set(g, conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial, e.step);
  finish(g, conv);
  cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  float one = 1, zero = 0;
  set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
  set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
  set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
      &conv);
  set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
  set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
  set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &at);
  ops[0] = finish(g, op);
  int64_t count = 1;
  if (key->bias) {
    cudnnBackendDescriptor_t b = tensor(g, CARNOT_CUDA_DNN_BIAS, type, e.rank, e.bias, e.bias_s,
                                        false),
                             y = RESULT();
    ops[count++] = pointwise(g, CUDNN_POINTWISE_ADD, at, b, y);
    at = y;
  }
  if (key->residual) {
    cudnnBackendDescriptor_t b = tensor(g, CARNOT_CUDA_DNN_RESIDUAL, type, e.rank, e.y, e.y_s,
                                        false),
                             y = RESULT();
    ops[count++] = pointwise(g, CUDNN_POINTWISE_ADD, at, b, y);
    at = y;
  }
  if (key->activation) {
    cudnnBackendDescriptor_t y = RESULT();
    bool silu = key->activation == CARNOT_CUDA_SILU;
    ops[count++] =
        pointwise(g, silu ? CUDNN_POINTWISE_SWISH_FWD : CUDNN_POINTWISE_RELU_FWD, at, NULL, y);
  }
#undef RESULT
  cudnnBackendDescriptor_t all = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(g, all, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, ops);
  if (g->handle) set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
  return finish(g, all);
}

// Engines that cut float32 short or give other bits each time are left out.
static bool is_allowed(graph* g, cudnnBackendDescriptor_t config, const carnot_cuda_dnn_key* key) {
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
  g->cuda->cudnnBackendDestroyDescriptor(engine);
  if (status != CUDNN_STATUS_SUCCESS) return false;
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

static bool plan_of(graph* g, cudnnBackendDescriptor_t config, carnot_cuda_dnn_plan* out) {
  carnot_cuda* cuda = g->cuda;
  cudnnBackendDescriptor_t plan = NULL;
  int64_t found = 0;
  bool ok =
      cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) == 0 &&
      (cuda->dnn_absent
           ? cuda->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &cuda->dnn_absent)
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

static bool search(graph* g, cudnnBackendDescriptor_t ops, cudnnBackendHeurMode_t mode,
                   const carnot_cuda_dnn_key* key, carnot_cuda_dnn_plan* out) {
  cudnnBackendDescriptor_t heuristics = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ops);
  set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (g->cuda->dnn_absent)
    set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &g->cuda->dnn_absent);
  finish(g, heuristics);
  cudnnBackendDescriptor_t configs[CARNOT_CUDA_DNN_CONFIGS];
  int64_t found = 0;
  int made = 0;
  bool ok = false;
  while (g->status == CUDNN_STATUS_SUCCESS && made < CARNOT_CUDA_DNN_CONFIGS &&
         g->cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                               &configs[made]) == 0)
    made++;
  if (made == CARNOT_CUDA_DNN_CONFIGS &&
      g->cuda->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, CARNOT_CUDA_DNN_CONFIGS,
                                        &found, configs) == CUDNN_STATUS_SUCCESS)
    for (int64_t i = 0; i < found && i < CARNOT_CUDA_DNN_CONFIGS && !ok; i++) {
      out->choice = (int32_t)((key->choice + i) % found);
      ok = is_allowed(g, configs[out->choice], key) && plan_of(g, configs[out->choice], out);
    }
  for (int i = 0; i < made; i++) g->cuda->cudnnBackendDestroyDescriptor(configs[i]);
  return ok;
}

// A NULL plan where the library has no engine for it.
static carnot_status* make_plan(carnot_cuda* cuda, const carnot_cuda_dnn_key* key,
                                cudnnHandle_t* handle, carnot_cuda_dnn_plan* out) {
  if (cuda->base.ordinal >= 0) {
    CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
    if (!*handle)
      CARNOT_CHECK(cuda->cudnnCreate(handle) == CUDNN_STATUS_SUCCESS, UNSUPPORTED,
                   "cuDNN %d does not start on %s", cuda->dnn_version, cuda->base.name);
  }
  graph g = {.cuda = cuda, .handle = *handle};
  cudnnBackendDescriptor_t ops = operations(&g, key);
  if (g.status == CUDNN_STATUS_SUCCESS && !search(&g, ops, CUDNN_HEUR_MODE_A, key, out)) {
    g.status = CUDNN_STATUS_SUCCESS;
    search(&g, ops, CUDNN_HEUR_MODE_FALLBACK, key, out);
  }
  drop(&g);
  return NULL;
}

// ---- plans that are kept: the mutex is held, and given up while the library works ----

static int32_t take_handle(carnot_cuda* cuda) {
  for (;;) {
    for (int32_t i = 0; i < CARNOT_CUDA_DNN_HANDLES; i++)
      if (!cuda->dnn_handles[i].is_busy) {
        cuda->dnn_handles[i].is_busy = true;
        return i;
      }
    pthread_cond_wait(&cuda->dnn_changed, &cuda->mutex);
  }
}

static carnot_status* make_kept(carnot_cuda* cuda, const carnot_cuda_dnn_key* key,
                                carnot_cuda_dnn_plan* plan) {
  if (cuda->base.ordinal < 0 && !cuda->dnn_absent) CARNOT_TRY(describe_absent(cuda));
  plan->state = CARNOT_CUDA_DNN_IN_WORK;
  plan->handle = take_handle(cuda);
  pthread_mutex_unlock(&cuda->mutex);
  carnot_status* status = make_plan(cuda, key, &cuda->dnn_handles[plan->handle].handle, plan);
  pthread_mutex_lock(&cuda->mutex);
  cuda->dnn_handles[plan->handle].is_busy = false;
  plan->state = status ? CARNOT_CUDA_DNN_UNMADE : CARNOT_CUDA_DNN_MADE;
  pthread_cond_broadcast(&cuda->dnn_changed);
  return status;
}

static carnot_status* place_of(carnot_cuda* cuda, const carnot_cuda_dnn_key* key,
                               carnot_cuda_dnn_plan** out) {
  uint64_t hash = carnot_hash(key, sizeof(*key), 43);
  void** found = carnot_cuda_cached(cuda, hash);
  *out = found ? *found : NULL;
  if (found) return NULL;
  void* memory = NULL;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda_dnn_plan), "a plan of cuDNN", &memory));
  carnot_status* status = carnot_cuda_keep(cuda, hash, memory);
  if (status) free(memory);
  *out = status ? NULL : memory;
  return status;
}

carnot_status* carnot_cuda_dnn_find(carnot_cuda* cuda, const carnot_cuda_dnn_key* key,
                                    carnot_cuda_dnn_plan** out_plan) {
  pthread_mutex_lock(&cuda->mutex);
  carnot_cuda_dnn_plan* plan;
  carnot_status* status = place_of(cuda, key, &plan);
  while (!status && plan->state == CARNOT_CUDA_DNN_IN_WORK)
    pthread_cond_wait(&cuda->dnn_changed, &cuda->mutex);
  if (!status && plan->state == CARNOT_CUDA_DNN_UNMADE) status = make_kept(cuda, key, plan);
  pthread_mutex_unlock(&cuda->mutex);
  *out_plan = status ? NULL : plan;
  return status;
}

void carnot_cuda_dnn_foresee(carnot_cuda* cuda, const carnot_cuda_dnn_key* key) {
  pthread_mutex_lock(&cuda->mutex);
  carnot_cuda_dnn_plan* plan;
  carnot_status* status = place_of(cuda, key, &plan);
  if (!status && plan->state == CARNOT_CUDA_DNN_UNMADE) status = make_kept(cuda, key, plan);
  pthread_mutex_unlock(&cuda->mutex);
  carnot_status_free(status);  // whoever needs the plan is told
}

// ---- runs ----

carnot_status* carnot_cuda_dnn_execute(carnot_cuda* cuda, CUstream stream,
                                       const carnot_cuda_dnn_plan* plan, int count,
                                       const int64_t* ids, void* const* addresses,
                                       void* workspace) {
  graph g = {.cuda = cuda};
  cudnnBackendDescriptor_t pack = make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses);
  set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
  set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  finish(&g, pack);
  cudnnStatus_t status = g.status;
  // A handle serves all queues of the device.
  pthread_mutex_lock(&cuda->mutex);
  while (cuda->dnn_handles[plan->handle].is_busy)
    pthread_cond_wait(&cuda->dnn_changed, &cuda->mutex);
  cudnnHandle_t handle = cuda->dnn_handles[plan->handle].handle;
  if (status == CUDNN_STATUS_SUCCESS) status = cuda->cudnnSetStream(handle, (cudaStream_t)stream);
  if (status == CUDNN_STATUS_SUCCESS) status = cuda->cudnnBackendExecute(handle, plan->plan, pack);
  pthread_mutex_unlock(&cuda->mutex);
  drop(&g);
  CARNOT_CHECK(status == CUDNN_STATUS_SUCCESS, INTERNAL, "cudnnBackendExecute gave status %d",
               (int)status);
  return NULL;
}
