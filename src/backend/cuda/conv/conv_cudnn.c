// Convolutions by cuDNN, with the epilogues that its engines fuse.
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/conv/conv.h"
#include "backend/cuda/library/cudnn_plan.h"
#include "base/hash.h"

enum { kEngines = 5 };  // engines that are timed, in the order of the heuristic
_Static_assert((int)kEngines <= (int)CARNOT_PREPLAN_PARTS, "preplan builds the plan of each");

typedef struct cudnn_params {
  int32_t fast_fp32, packed, choice;
  int32_t fused;  // the graph has what kFused allows; else the convolution alone
  carnot_cuda_cudnn_engine engine;
} cudnn_params;

typedef struct cudnn_state {
  carnot_cuda_cudnn_plan* plan;
  CUfunction direct;  // where the library has no engine
  carnot_cuda_sliding_window window;
  uint32_t weights, bias, residual;  // inputs; NONE
  carnot_cuda_conv_cast cast;
  carnot_cuda_chain_state chain;
} cudnn_state;
_Static_assert(sizeof(cudnn_state) <= CARNOT_STATE_BYTES, "the state has its size");

static bool is_half(carnot_dtype t) { return carnot_cuda_is_half(t); }
// Graphs of 16-bit floats fuse bias, residual, and ReLU or SiLU; of float32, the bias is left to
// the chain. cuDNN's engines with a clip at both ends took 20 to 100 times as long.
static const carnot_epilogue_mask kFused = {CARNOT_EPILOGUE_ONE_BIAS, /*residual=*/true,
                                            CARNOT_FUSED_BIT(RELU) | CARNOT_FUSED_BIT(SILU)},
                                  kUnfused = {.biases = CARNOT_EPILOGUE_ONE_BIAS};

// ---- build ----

// The convolution with all that |c| takes along, or alone.
static carnot_status* make_key(const carnot_plan_node* node, const carnot_operand* x,
                               const carnot_operand* w, const carnot_operand* y,
                               const carnot_cuda_conv* c, bool fused, bool fast,
                               carnot_cuda_cudnn_key* out) {
  memset(out, 0, sizeof(*out));
  CARNOT_TRY(carnot_cuda_sliding_window_make(node, x, w, y, &out->conv.window));
  out->conv.window.groups = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group");
  out->dtype = (int32_t)x->format.dtype;
  out->conv.spatial = x->rank == 5 ? 3 : 2;
  out->conv.bias = fused && c->bias != CARNOT_PLAN_NONE;
  out->conv.residual = fused && c->residual != CARNOT_PLAN_NONE;
  out->conv.activation = fused ? (int32_t)c->activation.kind : 0;
  out->fast = fast;
  return NULL;
}

// The region with all that a graph of its type may fuse, or with bias and all else in the chain.
static const char* read_conv(const carnot_problem* problem, bool fused, carnot_cuda_conv* out,
                             char* reason, size_t size) {
  const char* why = carnot_cuda_conv_read(problem, fused ? &kFused : &kUnfused, out, reason, size);
  if (!why && !fused && out->bias != CARNOT_PLAN_NONE &&
      !carnot_cuda_chain_add_bias(&out->chain, out->bias))
    return "too many operands";
  return why;
}

// The problem at the optimal sizes of the profile, as 16-bit floats.
static carnot_status* key_of(const carnot_problem* problem, const carnot_cuda_conv* c, bool fused,
                             carnot_cuda_cudnn_key* out) {
  const carnot_operand_desc input = carnot_cuda_conv_input(problem);
  const carnot_layout last = CARNOT_LAYOUT_CHANNELS_LAST;
  const carnot_operand x = carnot_cuda_operand_of(&input, last),
                       w = carnot_cuda_operand_of(&problem->inputs[c->weights], last),
                       y = carnot_cuda_operand_of(&problem->outputs[0], last);
  return make_key(carnot_conv_node(problem->region), &x, &w, &y, c, fused, problem->fast_fp32, out);
}

// Whether cuDNN has an engine for the fused graph, and else for the convolution alone.
// *out_found is true where cuDNN cannot be asked.
static bool has_fused_engine(const carnot_problem* problem, const carnot_cuda_conv* c,
                             bool* out_found) {
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  carnot_cuda_cudnn_key key;
  carnot_cuda_cudnn_plan* plan = NULL;
  carnot_status* status = key_of(problem, c, /*fused=*/true, &key);
  if (!status) status = carnot_cuda_cudnn_find(cuda, &key, NULL, &plan);
  const bool fused = status || plan->plan;
  if (!fused) status = key_of(problem, c, /*fused=*/false, &key);
  if (!fused && !status) status = carnot_cuda_cudnn_find(cuda, &key, NULL, &plan);
  *out_found = status || plan->plan;
  carnot_status_free(status);
  return fused;
}

static const char* cudnn_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_conv_node(problem->region)->op != CARNOT_OP_CONV) return "";
  const char* missing = carnot_cuda_lacks_cudnn(carnot_cuda_of(problem->device));
  if (missing) return missing;
  const carnot_operand_desc input = carnot_cuda_conv_input(problem), *x = &input;
  bool half = is_half(x->format.dtype);
  carnot_cuda_conv c;
  const char* why = read_conv(problem, half, &c, reason, size);
  if (!why) why = carnot_cuda_not_float(x, reason, size);
  if (why) return why;
  if (x->rank < 3 || x->rank > 5)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 to 5", x->rank);
  const carnot_operand_desc* w = &problem->inputs[c.weights];
  if (w->format.dtype != x->format.dtype || w->rank != x->rank)
    return "the weights have another type or rank than the input";
  if (half && !carnot_is_known(w)) return "the weights are not constant";
  carnot_cuda_want_row_major(problem);
  if (!half) return NULL;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  if (!c.problem.casts) problem->inputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  if (c.residual != CARNOT_PLAN_NONE)
    problem->inputs[c.residual].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  bool found;
  const bool fused = has_fused_engine(problem, &c, &found);
  if (!found)
    return carnot_cuda_reject_reason(reason, size, "cuDNN %d has no engine for it",
                                     carnot_cuda_of(problem->device)->cudnn_version);
  return fused ? NULL : read_conv(problem, /*fused=*/false, &c, reason, size);
}

static const char kTimings[] = "cuda_conv_cudnn";
static uint64_t timings_key(const carnot_cuda* cuda, const carnot_cuda_cudnn_key* key) {
  return carnot_hash(key, sizeof(*key), (uint64_t)cuda->cudnn_version);
}

// Builds the plans that selection will ask for: whether an engine exists, and those that are
// timed.
static void cudnn_preplan(const carnot_problem* problem, int part) {
  char reason[256];
  carnot_cuda_conv c;
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  if (part >= (problem->allow_timing ? kEngines : 1) || carnot_cuda_lacks_cudnn(cuda) ||
      carnot_conv_node(problem->region)->op != CARNOT_OP_CONV)
    return;
  const carnot_operand_desc x = carnot_cuda_conv_input(problem);
  if (!is_half(x.format.dtype) || x.rank < 3 || x.rank > 5 ||
      read_conv(problem, /*fused=*/true, &c, reason, sizeof(reason)) ||
      problem->inputs[c.weights].format.dtype != x.format.dtype ||
      !problem->inputs[c.weights].is_constant)
    return;
  bool found;
  carnot_cuda_cudnn_key key;
  carnot_status* status = key_of(problem, &c, has_fused_engine(problem, &c, &found), &key);
  int best;
  bool known =
      part && !status &&
      carnot_cuda_autotune_cached(problem, timings_key(cuda, &key), kTimings, kEngines, &best);
  key.choice = part;
  if (!status && !known) carnot_cuda_cudnn_foresee(cuda, &key);
  carnot_status_free(status);
}

static uint64_t cudnn_load_ns(const carnot_problem* problem, const carnot_prepared* prepared) {
  char reason[256];
  carnot_cuda_conv c;
  carnot_cuda_cudnn_key key;
  const cudnn_params* params = prepared->params;
  if (!is_half(carnot_cuda_conv_input(problem).format.dtype) ||
      read_conv(problem, params->fused, &c, reason, sizeof(reason)))
    return 0;
  carnot_status* status = key_of(problem, &c, params->fused, &key);
  key.choice = params->choice;
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  uint64_t ns = status ? 0 : carnot_cuda_cudnn_made_ns(cuda, &key, &params->engine);
  carnot_status_free(status);
  return ns;
}

static carnot_status* cudnn_validate(const carnot_step_view* step) {
  CARNOT_CHECK(
      step->param_bytes == sizeof(cudnn_params) &&
          (!((const cudnn_params*)step->params)->packed || step->constant_count) &&
          (unsigned)((const cudnn_params*)step->params)->choice < CARNOT_CUDA_CUDNN_CONFIGS,
      INVALID_MODEL, "%u bytes of parameters, %u constants", step->param_bytes,
      step->constant_count);
  return NULL;
}

static bool cudnn_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = carnot_conv_node(step->region);
  return !(((const cudnn_params*)step->params)->packed && node->input_count > 1 &&
           node->inputs[1] == input);
}

// ---- configure and run ----

static carnot_status* check_operands(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* x, const carnot_operand* y,
                                     const carnot_cuda_conv* c,
                                     const carnot_cuda_sliding_window* t) {
  const carnot_operand* w = &inputs[c->weights];
  bool packed = ((const cudnn_params*)step->params)->packed;
  CARNOT_CHECK(carnot_cuda_is_float(x->format.dtype) && packed == is_half(x->format.dtype) &&
                   t->groups > 0 && w->format.dtype == x->format.dtype &&
                   w->dims[0] == t->filters && w->dims[1] * t->groups == t->channels,
               INVALID_ARGUMENT, "weights do not fit %lld channels in %lld groups",
               (long long)t->channels, (long long)t->groups);
  CARNOT_CHECK(
      !packed || step->constant_bytes[0] == (size_t)carnot_dims_count(w->dims, w->rank) * 2,
      INVALID_MODEL, "packed weights of another size");
  CARNOT_TRY(carnot_cuda_conv_check_bias(c, inputs, y, t->filters, /*alignment=*/1));
  for (int d = 0; c->residual != CARNOT_PLAN_NONE && d < y->rank; d++)
    CARNOT_CHECK(inputs[c->residual].strides[d] == y->strides[d] || y->dims[d] == 1,
                 INVALID_ARGUMENT, "the residual has another layout than the result");
  return NULL;
}

static carnot_status* cudnn_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  *out_workspace_bytes = 0;
  const char* missing = carnot_cuda_lacks_cudnn(cuda);
  CARNOT_CHECK(!missing, NOT_FOUND, "this step calls a library: %s", missing);
  const carnot_plan_node* node = carnot_conv_node(step->region);
  const carnot_operand* y = &outputs[0];
  carnot_operand x;
  carnot_cuda_conv_cast cast;
  CARNOT_TRY(carnot_cuda_conv_cast_shape(step, &inputs[0], y->format.dtype, &cast, &x));
  const cudnn_params* params = step->params;
  bool fused = params->fused && is_half(x.format.dtype);
  cudnn_state* s = state;
  carnot_cuda_conv c;
  int64_t bytes;
  for (;; fused = false) {
    CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, outputs, fused ? &kFused : &kUnfused, &c));
    carnot_cuda_cudnn_key key;
    CARNOT_TRY(make_key(node, &x, &inputs[c.weights], y, &c, fused, params->fast_fp32, &key));
    CARNOT_TRY(check_operands(step, inputs, &x, y, &c, &key.conv.window));
    key.choice = params->choice;
    *s = (cudnn_state){.weights = c.weights,
                       .bias = CARNOT_PLAN_NONE,
                       .residual = c.residual,
                       .cast = cast,
                       .window = key.conv.window};
    if (fused) s->bias = c.bias;
    if (!fused && c.bias != CARNOT_PLAN_NONE)
      CARNOT_CHECK(carnot_cuda_chain_add_bias(&c.chain, c.bias), UNSUPPORTED, "too many operands");
    CARNOT_TRY(carnot_cuda_cudnn_begin(cuda, &key, fused == params->fused ? &params->engine : NULL,
                                       &s->plan, &bytes));
    if (bytes >= 0 || !fused) break;
  }
  CARNOT_CHECK(
      bytes >= 0 || !params->packed, UNSUPPORTED,
      "cuDNN %d has no engine for a convolution of %lld channels, %lld filters, %lld groups",
      cuda->cudnn_version, (long long)s->window.channels, (long long)s->window.filters,
      (long long)s->window.groups);
  if (bytes < 0)
    CARNOT_TRY(carnot_cuda_kernel(cuda, CARNOT_CUDA_KERNEL_conv_direct_f32, &s->direct));
  *out_workspace_bytes = cast.bytes;
  if (bytes > 0) *out_workspace_bytes += (size_t)bytes;
  // The engine has code for the chain behind the graph that it was built with.
  carnot_step_view without_code = *step;
  if (fused != params->fused) without_code.constant_count = 0;
  return carnot_cuda_chain_shape(&without_code, &c.chain, inputs, outputs, &s->chain);
}

// ---- timing of the library's engines ----

// Operands in device memory, and the engines that run over them.
typedef struct engine_timing {
  carnot_cuda* cuda;
  void* memory;
  int count;
  int64_t ids[CARNOT_CUDA_CUDNN_TENSORS];
  void* addresses[CARNOT_CUDA_CUDNN_TENSORS];
  void* workspace;
} engine_timing;

static carnot_status* run_engine(void* user, void* plan, CUstream stream) {
  engine_timing* t = user;
  CARNOT_CHECK(plan, UNSUPPORTED, "this engine has no plan for the problem");
  return carnot_cuda_cudnn_execute(t->cuda, stream, plan, t->count, t->ids, t->addresses,
                                   t->workspace);
}

// Operands one after the other, the workspace last.
static carnot_status* make_operands(engine_timing* t, const carnot_cuda_cudnn_key* key,
                                    const int64_t* bytes) {
  static const int64_t kIds[] = {CARNOT_CUDA_CUDNN_X, CARNOT_CUDA_CUDNN_W, CARNOT_CUDA_CUDNN_Y,
                                 CARNOT_CUDA_CUDNN_BIAS, CARNOT_CUDA_CUDNN_RESIDUAL};
  const bool used[] = {true, true, true, key->conv.bias != 0, key->conv.residual != 0};
  size_t total = (size_t)kCarnotCudaDnnWorkspace;
  for (int i = 0; i < 5; i++) total += carnot_align_up((size_t)bytes[i], 256);
  CARNOT_TRY(t->cuda->base.backend->alloc(&t->cuda->base, total, &t->memory));
  char* at = t->memory;
  for (int i = 0; i < 5; i++) {
    if (used[i]) t->ids[t->count] = kIds[i], t->addresses[t->count++] = at;
    at += carnot_align_up((size_t)bytes[i], 256);
  }
  t->workspace = at;
  carnot_cuda* cuda = t->cuda;
  CARNOT_CUDA_TRY(cuda, cuMemsetD8Async(carnot_cuda_address(t->memory), 0x3c,
                                        total - (size_t)kCarnotCudaDnnWorkspace, NULL));
  return carnot_cuda_check(cuda, cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
}

// Engines that do not take this problem have no plan and are not chosen.
static carnot_status* time_engines(const carnot_problem* problem, carnot_cuda_cudnn_key key,
                                   uint64_t hash, const int64_t* bytes, int* out_best) {
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  void* plans[kEngines] = {NULL};
  for (int i = 0; i < kEngines; i++) {
    carnot_cuda_cudnn_plan* plan;
    key.choice = i;
    CARNOT_TRY(carnot_cuda_cudnn_find(cuda, &key, NULL, &plan));
    if (plan->plan && plan->choice == i) plans[i] = plan;
  }
  engine_timing t = {.cuda = cuda};
  carnot_status* status = make_operands(&t, &key, bytes);
  if (!status)
    status =
        carnot_cuda_autotune(problem, hash, kTimings, run_engine, &t, plans, kEngines, out_best);
  cuda->base.backend->free(&cuda->base, t.memory);
  return status;
}

// The fastest engine for the optimal sizes; the timing cache keeps the times.
static carnot_status* choose_engine(const carnot_problem* problem, const carnot_cuda_conv* c,
                                    cudnn_params* out) {
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  carnot_cuda_cudnn_key key;
  carnot_cuda_cudnn_plan* plan;
  CARNOT_TRY(key_of(problem, c, out->fused, &key));
  uint64_t hash = timings_key(cuda, &key);
  int best = 0;
  const carnot_operand_desc x = carnot_cuda_conv_input(problem), *w = &problem->inputs[c->weights],
                            *y = &problem->outputs[0];
  const int64_t whole = carnot_dims_count(y->dims, y->rank) * 2;
  const int64_t bytes[5] = {carnot_dims_count(x.dims, x.rank) * 2,
                            carnot_dims_count(w->dims, w->rank) * 2, whole,
                            key.conv.window.filters * 2, whole};
  if (!carnot_cuda_autotune_cached(problem, hash, kTimings, kEngines, &best))
    CARNOT_TRY(time_engines(problem, key, hash, bytes, &best));
  out->choice = key.choice = best;
  CARNOT_TRY(carnot_cuda_cudnn_find(cuda, &key, NULL, &plan));
  out->engine = plan->engine;  // loading does not ask the heuristic
  return NULL;
}

static carnot_status* cudnn_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_conv c;
  char reason[256];
  const carnot_dtype dtype = carnot_cuda_conv_input(problem).format.dtype;
  const bool half = is_half(dtype);
  const cudnn_params* before = problem->previous ? problem->previous->params : NULL;
  if (before && problem->previous->param_bytes != sizeof(*before)) before = NULL;
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(cudnn_params), "parameters", &params));
  cudnn_params* made = params;
  *made = (cudnn_params){.fast_fp32 = problem->fast_fp32, .packed = half, .fused = half};
  if (before) *made = *before;
  const char* why = read_conv(problem, made->fused, &c, reason, sizeof(reason));
  bool found;
  if (!why && half && !before && !has_fused_engine(problem, &c, &found)) {
    made->fused = false;
    why = read_conv(problem, /*fused=*/false, &c, reason, sizeof(reason));
  }
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  if (half && problem->allow_timing) CARNOT_TRY(choose_engine(problem, &c, made));
  out->params = params;
  out->param_bytes = sizeof(cudnn_params);
  if (half) {
    CARNOT_TRY(carnot_cuda_conv_pack(&problem->inputs[c.weights], 1, 1, out));
    out->packed_inputs = 1ull << c.weights;
  }
  return carnot_cuda_chain_prepare(problem, &c.chain, dtype, out);
}

static carnot_status* cudnn_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)executor;
  cudnn_state* s = state;
  int64_t ids[CARNOT_CUDA_CUDNN_TENSORS] = {CARNOT_CUDA_CUDNN_X, CARNOT_CUDA_CUDNN_W,
                                            CARNOT_CUDA_CUDNN_Y};
  void* addresses[CARNOT_CUDA_CUDNN_TENSORS] = {inputs[0].data, NULL, outputs[0].data};
  CARNOT_TRY(carnot_cuda_conv_cast_run(step, &s->cast, workspace, &addresses[0]));
  bool packed = ((const cudnn_params*)step->params)->packed;
  const void* weights = packed ? step->constants[0] : inputs[s->weights].data;
  memcpy(&addresses[1], &weights, sizeof(weights));
  if (s->direct) {
    s->window.x = addresses[0], s->window.w = weights, s->window.y = outputs[0].data;
    int64_t count = carnot_dims_count(outputs[0].dims, outputs[0].rank);
    CARNOT_TRY(carnot_cuda_launch_threads(step, s->direct, count, &s->window));
    return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
  }
  int count = 3;
  if (s->bias != CARNOT_PLAN_NONE)
    ids[count] = CARNOT_CUDA_CUDNN_BIAS, addresses[count++] = inputs[s->bias].data;
  if (s->residual != CARNOT_PLAN_NONE)
    ids[count] = CARNOT_CUDA_CUDNN_RESIDUAL, addresses[count++] = inputs[s->residual].data;
  CARNOT_TRY(carnot_cuda_fence_before_library(step));
  CARNOT_TRY(carnot_cuda_cudnn_execute(carnot_cuda_of_step(step),
                                       carnot_cuda_stream_of(step)->handle, s->plan, count, ids,
                                       addresses, (char*)workspace + s->cast.bytes));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_conv_cudnn = {.name = "cuda_conv_cudnn",
                                              .anchor = CARNOT_OP_CONV,
                                              .numerics = CARNOT_NUMERICS_EXACT,
                                              .device = true,
                                              .sources = 1u << CARNOT_SOURCE_CUDNN,
                                              .preplan = cudnn_preplan,
                                              .load_ns = cudnn_load_ns,
                                              .reject = cudnn_reject,
                                              .prepare = cudnn_prepare,
                                              .validate = cudnn_validate,
                                              .uses_input = cudnn_uses_input,
                                              .configure = cudnn_configure,
                                              .run = cudnn_run,
                                              .work = carnot_cuda_conv_work};
