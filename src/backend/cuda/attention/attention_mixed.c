// Attention regions of 16-bit floats whose heads are mixed before or behind the softmax (talking
// heads), as one kernel. Heads are read and written in place, by strides.
#include "backend/cuda/attention/attention.h"
#include "kernel/cuda/attention/attention_mixed_params.h"

enum {
  kMostHeads = CARNOT_CUDA_MIXED_HEADS,
  kThreads = CARNOT_CUDA_MIXED_THREADS,
  kLeastShared = 63 << 10  // what a block of every device has
};

typedef struct mixed_params {
  carnot_attention_params attention;
  carnot_attention_mixes mixes;
} mixed_params;

typedef struct mixed_state {
  CUfunction function;
  carnot_cuda_attention_mixed_params params;
  carnot_cuda_attention_offsets at;
  int64_t grid[3];
  size_t shared_bytes;
} mixed_state;
_Static_assert(sizeof(mixed_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const struct {
  int queries;
  carnot_cuda_kernel_id kernels[CARNOT_DTYPE_COUNT];
} kForms[] = {
#define FORM(queries) \
  {queries, {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, attention_mixed_##queries)}},
    CARNOT_CUDA_ATTENTION_MIXED_QUERIES(FORM)
#undef FORM
};
enum { kFormCount = sizeof(kForms) / sizeof(kForms[0]) };

// Odd rows of scores: heads of a position lie in different banks.
static int pitch_of(int64_t keys) { return (int)(keys | 1); }

// Of a block (attention_mixed.cuh: place).
static size_t shared_bytes(int queries, int64_t heads, int64_t keys, int64_t size) {
  const int64_t rows = queries * heads, floats = rows * (size + pitch_of(keys) + 1) +
                                                 kThreads / 32 * 4 * queries * 8 +
                                                 2 * (kMostHeads * kMostHeads + kMostHeads);
  return (size_t)floats * 4;
}

// ---- build ----

static const char* mixed_reject(carnot_problem* problem, char* reason, size_t size) {
  mixed_params p;
  if (problem->region->node_count < 3) return "";
  carnot_dtype dtype = problem->outputs[0].format.dtype;
  if (!carnot_cuda_is_half(dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s", carnot_dtype_name(dtype));
  const char* why =
      carnot_attention_read_mixed(problem, dtype, &p.attention, &p.mixes, reason, size);
  if (!why) why = carnot_cuda_attention_reject_heads(problem, &p.attention, reason, size);
  if (why) return why;
  if (p.attention.mask >= 0) return "a mask";
  const int at = p.mixes.weights[0] < 0;
  const carnot_operand_desc *w = &problem->inputs[p.mixes.weights[at]],
                            *q = &problem->inputs[p.attention.q.input],
                            *k = &problem->inputs[p.attention.k.input];
  const int64_t heads = w->dims[0], keys = k->dims[p.attention.k.perm[p.attention.k.rank - 2]];
  if (heads > kMostHeads ||
      shared_bytes(kForms[0].queries, heads, keys, q->dims[q->rank - 1]) > kLeastShared)
    return carnot_cuda_reject_reason(reason, size,
                                     "%lld keys of %lld heads; takes up to %d heads whose scores "
                                     "of two queries fit in %d bytes of shared memory",
                                     (long long)keys, (long long)heads, (int)kMostHeads,
                                     (int)kLeastShared);
  carnot_cuda_want_row_major(problem);
  return NULL;
}

static carnot_status* mixed_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* memory;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(mixed_params), "parameters", &memory));
  mixed_params* p = memory;
  const char* why = carnot_attention_read_mixed(problem, problem->outputs[0].format.dtype,
                                                &p->attention, &p->mixes, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = p;
  out->param_bytes = sizeof(*p);
  return NULL;
}

static carnot_status* mixed_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(mixed_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(mixed_params));
  const mixed_params* p = step->params;
  for (int m = 0; m < 2; m++)
    CARNOT_CHECK(p->mixes.weights[m] >= -1 && p->mixes.bias[m] >= -1 &&
                     p->mixes.weights[m] < (int64_t)step->input_count &&
                     p->mixes.bias[m] < (int64_t)step->input_count,
                 INVALID_MODEL, "weights %d and bias %d of %u inputs", p->mixes.weights[m],
                 p->mixes.bias[m], step->input_count);
  return carnot_attention_check_views(&p->attention, step);
}

static bool mixed_reads(const carnot_step_view* step, uint32_t input) {
  const mixed_params* p = step->params;
  const int32_t at = (int32_t)input;
  bool reads =
      at == p->attention.q.input || at == p->attention.k.input || at == p->attention.v.input;
  for (int m = 0; m < 2; m++) reads = reads || at == p->mixes.weights[m] || at == p->mixes.bias[m];
  return reads;
}

// ---- configure and run ----

static carnot_status* check_mixes(const mixed_params* p, const carnot_operand* inputs,
                                  carnot_dtype dtype, int heads) {
  for (int m = 0; m < 2; m++) {
    if (p->mixes.weights[m] < 0) continue;
    const carnot_operand *w = &inputs[p->mixes.weights[m]],
                         *bias = p->mixes.bias[m] < 0 ? NULL : &inputs[p->mixes.bias[m]];
    CARNOT_TRY(carnot_cuda_on_device(w, 1));
    if (bias) CARNOT_TRY(carnot_cuda_on_device(bias, 1));
    CARNOT_CHECK(
        w->format.dtype == dtype && carnot_dims_count(w->dims, w->rank) == (int64_t)heads * heads &&
            (!bias ||
             (bias->format.dtype == dtype && carnot_dims_count(bias->dims, bias->rank) == heads)),
        INVALID_ARGUMENT, "the weights do not mix %d heads", heads);
  }
  return NULL;
}

// The most queries a block that fit and leave the multiprocessors busy.
static int choose_form(const carnot_cuda* cuda, const carnot_cuda_attention_params* c,
                       int64_t outer) {
  int form = 0;
  for (int i = 1; i < kFormCount; i++) {
    const int64_t blocks = outer * carnot_ceildiv(c->queries, kForms[i].queries);
    const size_t bytes = shared_bytes(kForms[i].queries, c->inner, c->keys, c->size);
    if (2 * bytes <= (size_t)cuda->block_bytes - 1024 &&
        blocks >= 2 * cuda->base.multiprocessor_count)
      form = i;
  }
  return form;
}

static carnot_status* mixed_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const mixed_params* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  mixed_state* s = state;
  *s = (mixed_state){.grid = {1, 1, 1}};
  carnot_cuda_attention_params* c = &s->params.call;
  CARNOT_TRY(carnot_cuda_attention_describe(
      &p->attention, inputs[p->attention.q.input].format.dtype, NULL, inputs, outputs, c, &s->at));
  CARNOT_TRY(check_mixes(p, inputs, outputs[0].format.dtype, c->inner));
  const int64_t outer = c->outer;
  const int form = choose_form(cuda, c, outer);
  s->shared_bytes = shared_bytes(kForms[form].queries, c->inner, c->keys, c->size);
  CARNOT_CHECK(s->at.aligned && c->inner <= kMostHeads && outer <= 65535 &&
                   s->shared_bytes <= (size_t)cuda->block_bytes - 1024,
               UNSUPPORTED, "%d heads of %d keys in %lld batches", c->inner, c->keys,
               (long long)outer);
  s->params.pitch = pitch_of(c->keys);
  s->grid[0] = carnot_ceildiv(c->queries, kForms[form].queries), s->grid[1] = outer;
  CARNOT_TRY(
      carnot_cuda_kernel_for(cuda, kForms[form].kernels, outputs[0].format.dtype, &s->function));
  return carnot_cuda_allow_shared(cuda, s->function);
}

static carnot_status* mixed_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  static const int64_t kNoCluster[3] = {1, 1, 1};
  const mixed_params* p = step->params;
  mixed_state* s = state;
  carnot_cuda_attention_params* c = &s->params.call;
  c->q = (const char*)inputs[p->attention.q.input].data + s->at.q;
  c->k = (const char*)inputs[p->attention.k.input].data + s->at.k;
  c->v = (const char*)inputs[p->attention.v.input].data + s->at.v;
  c->y = (char*)outputs[0].data + s->at.y;
  for (int m = 0; m < 2; m++) {
    s->params.weights[m] = p->mixes.weights[m] < 0 ? NULL : inputs[p->mixes.weights[m]].data;
    s->params.bias[m] = p->mixes.bias[m] < 0 ? NULL : inputs[p->mixes.bias[m]].data;
  }
  return carnot_cuda_launch_clusters(step, s->function, s->grid, kThreads, kNoCluster,
                                     s->shared_bytes, &s->params);
}

const carnot_tactic carnot_cuda_attention_mixed = {.name = "cuda_attention_mixed",
                                                   .anchor = CARNOT_OP_SOFTMAX,
                                                   .numerics = CARNOT_NUMERICS_HALF,
                                                   .device = true,
                                                   .reject = mixed_reject,
                                                   .prepare = mixed_prepare,
                                                   .validate = mixed_validate,
                                                   .uses_input = mixed_reads,
                                                   .configure = mixed_configure,
                                                   .run = mixed_run};
