// Convolution by cuDNN's graph interface. Halves stand channels last, with bias, residual and
// activation in the library's kernel; float32 stands row-major and is convolved alone without
// shortcuts, and one generated program adds what follows.
#include <string.h>

#include "backend/cuda/window.h"
#include "base/hash.h"

enum { kMaxConfigs = 32, kMaxTensors = 8 };
static const int64_t kWorkspaceLimit = 256 << 20;

// Identifiers of the tensors in the graph.
enum { kX = 1, kW, kY, kBias, kResidual, kFirstVirtual };

typedef struct dnn_key {
  carnot_cuda_window window;
  int32_t dtype, spatial, bias, residual, activation, fast;
  int32_t choice;  // of the library's engines, in its order
} dnn_key;

typedef struct dnn_plan {
  cudnnBackendDescriptor_t plan;
  int64_t workspace_bytes;
  int32_t choice;  // what it became: the first from the wanted one on that works
} dnn_plan;

typedef struct dnn_params {
  int32_t fast_fp32, packed, choice;
} dnn_params;

typedef struct dnn_state {
  dnn_plan* plan;
  CUfunction own;  // where the library has no engine
  carnot_cuda_window window;
  uint32_t weights, bias, residual;  // inputs; NONE
  carnot_cuda_conv_cast cast;
  carnot_cuda_chain_state chain;
} dnn_state;
_Static_assert(sizeof(dnn_state) <= CARNOT_STATE_BYTES, "the state has its size");

static bool is_half(carnot_dtype t) { return carnot_cuda_is_half(t); }
// Halves take residual and activation along.
static carnot_cuda_takes takes(carnot_dtype t) {
  return is_half(t) ? CARNOT_CUDA_TAKES_RESIDUAL : CARNOT_CUDA_TAKES_BIAS;
}

// ---- build ----

static const char* dnn_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_conv_node(problem->region)->op != CARNOT_OP_CONV) return "";
  const char* missing = carnot_cuda_lacks_dnn(carnot_cuda_of(problem->device));
  if (missing) return missing;
  const carnot_operand_type input = carnot_cuda_conv_input(problem), *x = &input;
  bool half = is_half(x->dtype);
  carnot_cuda_conv c;
  const char* why = carnot_cuda_conv_describe(problem, takes(x->dtype), &c, reason, size);
  if (!why) why = carnot_cuda_not_float(x, reason, size);
  if (why) return why;
  if (!half && c.bias != CARNOT_PLAN_NONE && !carnot_cuda_chain_add_bias(&c.chain, c.bias))
    return "too many operands";
  if (x->rank < 3 || x->rank > 5)
    return carnot_cuda_because(reason, size, "rank %d, takes 3 to 5", x->rank);
  const carnot_operand_type* w = &problem->inputs[c.weights];
  if (w->dtype != x->dtype || w->rank != x->rank) return "weights of another type";
  if (half && (!w->is_constant || !w->tensor || !w->tensor->data))
    return "the weights are not constant";
  carnot_cuda_want_row_major(problem);
  if (!half) return NULL;
  problem->outputs[0].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  if (!carnot_cuda_conv_casts(problem->region))
    problem->inputs[0].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  if (c.residual != CARNOT_PLAN_NONE)
    problem->inputs[c.residual].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static carnot_status* dnn_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(dnn_params) &&
                   (!((const dnn_params*)step->params)->packed || step->constant_count) &&
                   (unsigned)((const dnn_params*)step->params)->choice < kMaxConfigs,
               INVALID_MODEL, "%u bytes of parameters, %u constants", step->param_bytes,
               step->constant_count);
  return NULL;
}

static bool dnn_reads(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = carnot_cuda_conv_node(step->region);
  return !(((const dnn_params*)step->params)->packed && node->input_count > 1 &&
           node->inputs[1] == input);
}

// ---- the library's descriptors ----

typedef struct graph {
  carnot_cuda* cuda;
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

static void read_extents(const dnn_key* key, extents* e) {
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
  bool half = is_half((carnot_dtype)key->dtype);
  for (int i = 0; i < e->rank; i++)
    order[i] = !half ? e->rank - 1 - i : i == 0 ? 1 : i == e->rank - 1 ? 0 : e->rank - i;
  for (int i = 0; i < e->rank; i++) {
    e->w_s[order[i]] = stride;
    stride *= e->w[order[i]];
    e->bias[i] = i == 1 ? t->filters : 1;
    e->bias_s[i] = i == 0 ? t->filters : i == 1 ? 1 : half ? t->filters : 1;
  }
}

static cudnnBackendDescriptor_t operations(graph* g, const dnn_key* key) {
  extents e;
  read_extents(key, &e);
  cudnnDataType_t type = data_type(key->dtype), compute = CUDNN_DATA_FLOAT;
  int64_t spatial = key->spatial;
  int left = key->bias + key->residual + (key->activation != CARNOT_CUDA_NO_ACTIVATION);
  cudnnBackendDescriptor_t ops[4], x = tensor(g, kX, type, e.rank, e.x, e.x_s, false);
  cudnnBackendDescriptor_t w = tensor(g, kW, type, e.rank, e.w, e.w_s, false);
  int64_t next = kFirstVirtual;
#define RESULT()                                                 \
  (left-- ? tensor(g, next++, compute, e.rank, e.y, e.y_s, true) \
          : tensor(g, kY, type, e.rank, e.y, e.y_s, false))
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
    cudnnBackendDescriptor_t b = tensor(g, kBias, type, e.rank, e.bias, e.bias_s, false),
                             y = RESULT();
    ops[count++] = pointwise(g, CUDNN_POINTWISE_ADD, at, b, y);
    at = y;
  }
  if (key->residual) {
    cudnnBackendDescriptor_t b = tensor(g, kResidual, type, e.rank, e.y, e.y_s, false),
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
  set(g, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->cuda->dnn_handle);
  return finish(g, all);
}

// Engines that cut float32 short or give other bits each time are left out.
static bool is_allowed(graph* g, cudnnBackendDescriptor_t config, const dnn_key* key) {
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

static bool plan_of(graph* g, cudnnBackendDescriptor_t config, dnn_plan* out) {
  carnot_cuda* cuda = g->cuda;
  cudnnBackendDescriptor_t plan = NULL;
  int64_t found = 0;
  bool ok =
      cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) == 0 &&
      cuda->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                     &cuda->dnn_handle) == 0 &&
      cuda->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) == 0 &&
      cuda->cudnnBackendFinalize(plan) == 0 &&
      cuda->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &found, &out->workspace_bytes) == 0 &&
      out->workspace_bytes <= kWorkspaceLimit;
  if (ok)
    out->plan = plan;
  else if (plan)
    cuda->cudnnBackendDestroyDescriptor(plan);
  return ok;
}

static bool search(graph* g, cudnnBackendDescriptor_t ops, cudnnBackendHeurMode_t mode,
                   const dnn_key* key, dnn_plan* out) {
  cudnnBackendDescriptor_t heuristics = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ops);
  set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  finish(g, heuristics);
  cudnnBackendDescriptor_t configs[kMaxConfigs];
  int64_t found = 0;
  int made = 0;
  bool ok = false;
  while (g->status == CUDNN_STATUS_SUCCESS && made < kMaxConfigs &&
         g->cuda->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                               &configs[made]) == 0)
    made++;
  if (made == kMaxConfigs &&
      g->cuda->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, kMaxConfigs, &found,
                                        configs) == CUDNN_STATUS_SUCCESS)
    for (int64_t i = 0; i < found && i < kMaxConfigs && !ok; i++) {
      out->choice = (int32_t)((key->choice + i) % found);
      ok = is_allowed(g, configs[out->choice], key) && plan_of(g, configs[out->choice], out);
    }
  for (int i = 0; i < made; i++) g->cuda->cudnnBackendDestroyDescriptor(configs[i]);
  return ok;
}

// NULL plan where the library has no engine for it.
static carnot_status* make_plan(carnot_cuda* cuda, const dnn_key* key, dnn_plan* out) {
  if (!cuda->dnn_handle)
    CARNOT_CHECK(cuda->cudnnCreate(&cuda->dnn_handle) == CUDNN_STATUS_SUCCESS, UNSUPPORTED,
                 "cuDNN %d does not start on %s", cuda->dnn_version, cuda->base.name);
  graph g = {.cuda = cuda};
  cudnnBackendDescriptor_t ops = operations(&g, key);
  if (g.status == CUDNN_STATUS_SUCCESS && !search(&g, ops, CUDNN_HEUR_MODE_A, key, out)) {
    g.status = CUDNN_STATUS_SUCCESS;
    search(&g, ops, CUDNN_HEUR_MODE_FALLBACK, key, out);
  }
  drop(&g);
  return NULL;
}

static carnot_status* find_plan(carnot_cuda* cuda, const dnn_key* key, dnn_plan** out_plan) {
  uint64_t hash = carnot_hash(key, sizeof(*key), 43);
  pthread_mutex_lock(&cuda->mutex);
  void** found = carnot_cuda_cached(cuda, hash);
  *out_plan = found ? *found : NULL;
  carnot_status* status = NULL;
  if (!found) {
    void* memory = NULL;
    status = carnot_calloc(1, sizeof(dnn_plan), "a plan of cuDNN", &memory);
    if (!status) status = make_plan(cuda, key, memory);
    if (!status) status = carnot_cuda_keep(cuda, hash, memory);
    *out_plan = memory;
  }
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

// ---- shape and run ----

static carnot_status* check_operands(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* x, const carnot_operand* y,
                                     const carnot_cuda_conv* c, const carnot_cuda_window* t) {
  const carnot_operand* w = &inputs[c->weights];
  bool packed = ((const dnn_params*)step->params)->packed;
  CARNOT_CHECK(carnot_cuda_is_float(x->dtype) && packed == is_half(x->dtype) && t->groups > 0 &&
                   w->dtype == x->dtype && w->dims[0] == t->filters &&
                   w->dims[1] * t->groups == t->channels,
               INVALID_ARGUMENT, "weights do not fit %lld channels in %lld groups",
               (long long)t->channels, (long long)t->groups);
  CARNOT_CHECK(
      !packed || step->constant_bytes[0] == (size_t)carnot_dims_count(w->dims, w->rank) * 2,
      INVALID_MODEL, "packed weights of another size");
  if (c->bias != CARNOT_PLAN_NONE) {
    const carnot_operand* bias = &inputs[c->bias];
    CARNOT_CHECK(carnot_dims_count(bias->dims, bias->rank) == t->filters && bias->dtype == x->dtype,
                 INVALID_ARGUMENT, "a bias of other than %lld numbers", (long long)t->filters);
  }
  for (int d = 0; c->residual != CARNOT_PLAN_NONE && d < y->rank; d++)
    CARNOT_CHECK(inputs[c->residual].strides[d] == y->strides[d] || y->dims[d] == 1,
                 INVALID_ARGUMENT, "the residual stands in another layout");
  return NULL;
}

static carnot_status* dnn_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  *out_workspace_bytes = 0;
  const char* missing = carnot_cuda_lacks_dnn(cuda);
  CARNOT_CHECK(!missing, NOT_FOUND, "this step calls a library: %s", missing);
  const carnot_plan_node* node = carnot_cuda_conv_node(step->region);
  const carnot_operand* y = &outputs[0];
  carnot_operand x;
  carnot_cuda_conv_cast cast;
  CARNOT_TRY(carnot_cuda_conv_cast_shape(step, &inputs[0], y->dtype, &cast, &x));
  bool fused = is_half(x.dtype);
  dnn_state* s = state;
  carnot_cuda_conv c;
  for (;; fused = false) {
    CARNOT_TRY(carnot_cuda_conv_of_step(
        step, inputs, outputs, fused ? CARNOT_CUDA_TAKES_RESIDUAL : CARNOT_CUDA_TAKES_BIAS, &c));
    dnn_key key;
    memset(&key, 0, sizeof(key));
    CARNOT_TRY(carnot_cuda_window_make(node, &x, &inputs[c.weights], y, &key.window));
    key.window.groups = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group");
    CARNOT_TRY(check_operands(step, inputs, &x, y, &c, &key.window));
    key.dtype = (int32_t)x.dtype;
    key.spatial = x.rank == 5 ? 3 : 2;
    key.bias = fused && c.bias != CARNOT_PLAN_NONE;
    key.residual = fused && c.residual != CARNOT_PLAN_NONE;
    key.activation = fused ? (int32_t)c.activation.kind : 0;
    key.fast = ((const dnn_params*)step->params)->fast_fp32;
    key.choice = ((const dnn_params*)step->params)->choice;
    *s = (dnn_state){.weights = c.weights,
                     .bias = CARNOT_PLAN_NONE,
                     .residual = c.residual,
                     .cast = cast,
                     .window = key.window};
    if (fused) s->bias = c.bias;
    if (!fused && c.bias != CARNOT_PLAN_NONE)
      CARNOT_CHECK(carnot_cuda_chain_add_bias(&c.chain, c.bias), UNSUPPORTED, "too many operands");
    CARNOT_TRY(find_plan(cuda, &key, &s->plan));
    if (s->plan->plan || !fused) break;
  }
  bool packed = ((const dnn_params*)step->params)->packed;
  CARNOT_CHECK(
      s->plan->plan || !packed, UNSUPPORTED,
      "cuDNN %d has no engine for a convolution of %lld channels, %lld filters, %lld groups",
      cuda->dnn_version, (long long)s->window.channels, (long long)s->window.filters,
      (long long)s->window.groups);
  if (!s->plan->plan) CARNOT_TRY(carnot_cuda_kernel(cuda, "conv_f32", &s->own));
  *out_workspace_bytes = cast.bytes;
  if (s->plan->plan) *out_workspace_bytes += (size_t)s->plan->workspace_bytes;
  return carnot_cuda_chain_shape(step, &c.chain, inputs, outputs, &s->chain);
}

static carnot_status* execute(carnot_cuda* cuda, CUstream stream, const dnn_plan* plan, int count,
                              const int64_t* ids, void* const* addresses, void* workspace) {
  graph g = {.cuda = cuda};
  cudnnBackendDescriptor_t pack = make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses);
  set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
  set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  finish(&g, pack);
  cudnnStatus_t status = g.status;
  // One handle serves all queues of the device.
  pthread_mutex_lock(&cuda->mutex);
  if (status == CUDNN_STATUS_SUCCESS)
    status = cuda->cudnnSetStream(cuda->dnn_handle, (cudaStream_t)stream);
  if (status == CUDNN_STATUS_SUCCESS)
    status = cuda->cudnnBackendExecute(cuda->dnn_handle, plan->plan, pack);
  pthread_mutex_unlock(&cuda->mutex);
  drop(&g);
  CARNOT_CHECK(status == CUDNN_STATUS_SUCCESS, INTERNAL, "cudnnBackendExecute gave status %d",
               (int)status);
  return NULL;
}

// ---- timing of the library's engines ----

enum { kEngines = 5 };
static const char kTimings[] = "cuda_conv_cudnn";

typedef struct contest {
  carnot_cuda* cuda;
  void* memory;
  int count;
  int64_t ids[kMaxTensors];
  void* addresses[kMaxTensors];
  void* workspace;
} contest;

static carnot_status* run_engine(void* user, void* plan, CUstream stream) {
  contest* c = user;
  CARNOT_CHECK(plan, UNSUPPORTED, "no plan by this engine");
  return execute(c->cuda, stream, plan, c->count, c->ids, c->addresses, c->workspace);
}

// Operands one behind the other, the workspace last.
static carnot_status* make_operands(contest* c, const dnn_key* key, const int64_t* bytes) {
  static const int64_t kIds[] = {kX, kW, kY, kBias, kResidual};
  const bool used[] = {true, true, true, key->bias != 0, key->residual != 0};
  size_t total = (size_t)kWorkspaceLimit;
  for (int i = 0; i < 5; i++) total += carnot_align_up((size_t)bytes[i], 256);
  CARNOT_TRY(c->cuda->base.backend->alloc(&c->cuda->base, total, &c->memory));
  char* at = c->memory;
  for (int i = 0; i < 5; i++) {
    if (used[i]) c->ids[c->count] = kIds[i], c->addresses[c->count++] = at;
    at += carnot_align_up((size_t)bytes[i], 256);
  }
  c->workspace = at;
  carnot_cuda* cuda = c->cuda;
  CARNOT_CUDA_TRY(cuda, cuMemsetD8Async(carnot_cuda_address(c->memory), 0x3c,
                                        total - (size_t)kWorkspaceLimit, NULL));
  return carnot_cuda_check(cuda, cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
}

// Engines that do not serve this problem have no plan and lose.
static carnot_status* hold_contest(const carnot_problem* problem, dnn_key key, uint64_t hash,
                                   const int64_t* bytes, int* out_best) {
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  void* ways[kEngines] = {NULL};
  for (int i = 0; i < kEngines; i++) {
    dnn_plan* plan;
    key.choice = i;
    CARNOT_TRY(find_plan(cuda, &key, &plan));
    if (plan->plan && plan->choice == i) ways[i] = plan;
  }
  contest c = {.cuda = cuda};
  carnot_status* status = make_operands(&c, &key, bytes);
  if (!status)
    status =
        carnot_cuda_race_noted(problem, hash, kTimings, run_engine, &c, ways, kEngines, out_best);
  cuda->base.backend->free(&cuda->base, c.memory);
  return status;
}

static carnot_operand operand_of(const carnot_operand_type* t) {
  carnot_operand o = {.dtype = t->dtype, .rank = t->rank};
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = i == t->rank - 1 ? 1 : i == 0 ? 0 : i + 1;  // channels last
    o.dims[d] = t->dims[d];
    o.strides[d] = stride;
    stride *= t->dims[d];
  }
  return o;
}

// The fastest engine for the optimal sizes; the timing cache keeps the times.
static carnot_status* choose_engine(const carnot_problem* problem, const carnot_cuda_conv* c,
                                    int32_t* out_choice) {
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  const carnot_plan_node* node = carnot_cuda_conv_node(problem->region);
  const carnot_operand_type input = carnot_cuda_conv_input(problem);
  const carnot_operand x = operand_of(&input), w = operand_of(&problem->inputs[c->weights]),
                       y = operand_of(&problem->outputs[0]);
  dnn_key key;
  memset(&key, 0, sizeof(key));
  CARNOT_TRY(carnot_cuda_window_make(node, &x, &w, &y, &key.window));
  key.window.groups = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group");
  key.dtype = (int32_t)x.dtype;
  key.spatial = x.rank == 5 ? 3 : 2;
  key.bias = c->bias != CARNOT_PLAN_NONE, key.residual = c->residual != CARNOT_PLAN_NONE;
  key.activation = (int32_t)c->activation.kind;
  key.fast = problem->fast_fp32;
  uint64_t hash = carnot_hash(&key, sizeof(key), (uint64_t)cuda->dnn_version);
  int best = 0;
  int64_t filters = key.window.filters;
  const int64_t whole = carnot_dims_count(y.dims, y.rank) * 2;
  const int64_t bytes[5] = {carnot_dims_count(x.dims, x.rank) * 2,
                            carnot_dims_count(w.dims, w.rank) * 2, whole, filters * 2, whole};
  if (!carnot_cuda_race_known(problem, hash, kTimings, kEngines, &best))
    CARNOT_TRY(hold_contest(problem, key, hash, bytes, &best));
  *out_choice = best;
  return NULL;
}

static carnot_status* dnn_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_conv c;
  char reason[256];
  carnot_dtype dtype = carnot_cuda_conv_input(problem).dtype;
  const char* why = carnot_cuda_conv_describe(problem, takes(dtype), &c, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  if (!is_half(dtype) && c.bias != CARNOT_PLAN_NONE)
    CARNOT_CHECK(carnot_cuda_chain_add_bias(&c.chain, c.bias), INTERNAL, "too many operands");
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(dnn_params), "parameters", &params));
  dnn_params* made = params;
  *made = (dnn_params){problem->fast_fp32, is_half(dtype), 0};
  if (problem->standing && problem->standing->param_bytes == sizeof(*made))
    *made = *(const dnn_params*)problem->standing->params;
  if (is_half(dtype) && problem->times) CARNOT_TRY(choose_engine(problem, &c, &made->choice));
  out->params = params;
  out->param_bytes = sizeof(dnn_params);
  if (is_half(dtype)) {
    CARNOT_TRY(carnot_cuda_conv_pack(&problem->inputs[c.weights], out));
    out->packed_inputs = 1ull << c.weights;
  }
  return carnot_cuda_chain_prepare(problem, &c.chain, dtype, out);
}

static carnot_status* dnn_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)executor;
  dnn_state* s = state;
  int64_t ids[kMaxTensors] = {kX, kW, kY};
  void* addresses[kMaxTensors] = {inputs[0].data, NULL, outputs[0].data};
  CARNOT_TRY(carnot_cuda_conv_cast_run(step, &s->cast, workspace, &addresses[0]));
  bool packed = ((const dnn_params*)step->params)->packed;
  const void* weights = packed ? step->constants[0] : inputs[s->weights].data;
  memcpy(&addresses[1], &weights, sizeof(weights));
  if (s->own) {
    s->window.x = addresses[0], s->window.w = weights, s->window.y = outputs[0].data;
    int64_t count = carnot_dims_count(outputs[0].dims, outputs[0].rank);
    CARNOT_TRY(carnot_cuda_launch_each(step, s->own, count, &s->window));
    return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
  }
  int count = 3;
  if (s->bias != CARNOT_PLAN_NONE) ids[count] = kBias, addresses[count++] = inputs[s->bias].data;
  if (s->residual != CARNOT_PLAN_NONE)
    ids[count] = kResidual, addresses[count++] = inputs[s->residual].data;
  CARNOT_TRY(carnot_cuda_before_library(step));
  CARNOT_TRY(execute(carnot_cuda_of_step(step), carnot_cuda_queue_of(step)->stream, s->plan, count,
                     ids, addresses, (char*)workspace + s->cast.bytes));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic_row carnot_cuda_conv_dnn = {.name = "cuda_conv_cudnn",
                                                .anchor = CARNOT_OP_CONV,
                                                .numerics = "exact",
                                                .device = true,
                                                .sources = 1u << CARNOT_SOURCE_CUDNN,
                                                .reject = dnn_reject,
                                                .prepare = dnn_prepare,
                                                .check = dnn_check,
                                                .reads = dnn_reads,
                                                .shape = dnn_shape,
                                                .run = dnn_run,
                                                .work = carnot_cuda_conv_work};
