// GEMM: MatMul with broadcast batches and Gemm, by cuBLASLt or the built-in SIMT kernel, with
// bias, residual and ReLU or GELU in the epilogue of the library and the rest of the region as a
// pointwise chain over the result. 16-bit floats accumulate in float32; float32 is computed as
// such unless TF32 is allowed.
#include <math.h>
#include <string.h>

#include "backend/cuda/copy/strided_copy.h"
#include "backend/cuda/gemm/gemm_epilogue.h"
#include "backend/cuda/library/cublaslt.h"
#include "kernel/cuda/gemm/gemm_simt_params.h"

typedef carnot_cuda_gemm_region product;

typedef struct gemm_params {
  int32_t fast_fp32;
  uint32_t residual;  // input of the size of the result that is added after the bias; NONE
  carnot_cuda_cublaslt_choice choice;
} gemm_params;

// cuBLASLt's GELU is the tanh form, at most 4.8e-4 from the exact one: less than 16-bit rounding
// at magnitude 1. So 16-bit results use it for both forms.
static carnot_cuda_cublaslt_activation activation_of(const carnot_cuda_epilogue* e) {
  bool relu = e->kind == CARNOT_CUDA_CLAMP && e->low == 0 && e->high == INFINITY;
  bool gelu = e->kind == CARNOT_CUDA_GELU || e->kind == CARNOT_CUDA_GELU_TANH;
  return relu   ? CARNOT_CUDA_CUBLASLT_RELU
         : gelu ? CARNOT_CUDA_CUBLASLT_GELU
                : CARNOT_CUDA_CUBLASLT_NONE;
}
static bool takes_relu(const carnot_cuda_epilogue* e) {
  return activation_of(e) == CARNOT_CUDA_CUBLASLT_RELU;
}
static bool takes_both(const carnot_cuda_epilogue* e) {
  return activation_of(e) != CARNOT_CUDA_CUBLASLT_NONE;
}

static const char* describe(const carnot_problem* problem, bool library, product* out, char* reason,
                            size_t size) {
  bool gelu = library && carnot_cuda_is_half(problem->outputs[0].format.dtype);
  const carnot_cuda_gemm_takes takes = {library, gelu ? takes_both : takes_relu};
  return carnot_cuda_gemm_describe(problem, &takes, out, reason, size);
}

static bool is_whole(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_I32 || dtype == CARNOT_DTYPE_I64 || dtype == CARNOT_DTYPE_U32 ||
         dtype == CARNOT_DTYPE_U64;
}
// The SIMT kernel takes float64 and integers as well.
static const char* not_number(const carnot_operand_desc* t, char* reason, size_t size) {
  bool whole = t->kind == CARNOT_VALUE_TENSOR && t->rank >= 0 && is_whole(t->format.dtype);
  return whole ? NULL : carnot_cuda_not_real(t, reason, size);
}

static const char* gemm_reject(carnot_problem* problem, bool library, char* reason, size_t size) {
  product p;
  const char* why = describe(problem, library, &p, reason, size);
  if (why) return why;
  carnot_cuda_want_row_major(problem);
  const carnot_operand_desc *a = &problem->inputs[problem->region->nodes[0].inputs[0]],
                            *b = &problem->inputs[problem->region->nodes[0].inputs[1]];
  why = library ? carnot_cuda_not_float(a, reason, size) : not_number(a, reason, size);
  if (why) return why;
  if (b->kind != CARNOT_VALUE_TENSOR || b->rank < 1 || a->rank < 1)
    return "an operand has no known rank";
  if (a->format.dtype != b->format.dtype) return "the operands have different types";
  if (is_whole(a->format.dtype) && (p.alpha != 1 || (p.c != CARNOT_PLAN_NONE && p.beta != 1)))
    return "integers by a scale";
  return NULL;
}

static const char* gemm_simt_reject(carnot_problem* problem, char* reason, size_t size) {
  return gemm_reject(problem, false, reason, size);
}

static const char* gemm_cublaslt_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_gemm(problem->region->nodes[0].op)) return "";
  const char* missing = carnot_cuda_lacks_cublaslt(carnot_cuda_of(problem->device));
  if (missing) return missing;
  return gemm_reject(problem, true, reason, size);
}

static carnot_status* gemm_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(gemm_params), INVALID_MODEL, "%u bytes of parameters",
               step->param_bytes);
  uint32_t residual = ((const gemm_params*)step->params)->residual;
  CARNOT_CHECK(residual == CARNOT_PLAN_NONE || residual < step->input_count, INVALID_MODEL,
               "the residual is input %u of %u", residual, step->input_count);
  return NULL;
}

// ---- shape ----

typedef struct gemm_state {
  carnot_cuda_cublaslt_plan* plan;  // NULL: the SIMT kernel
  CUfunction function;
  carnot_cuda_gemm_simt_params own;
  bool adds_c;  // the output is filled with C first
  uint32_t c, residual;
  bool bias;
  float alpha, beta;
  int64_t outer_count, k;
  int outer_rank;
  int64_t outer_dims[5], outer_a[5], outer_b[5], outer_c[5];  // in bytes
  size_t y_bytes;
  carnot_cuda_strided_copy fill;
  uint32_t a_input, b_input;
  carnot_cuda_chain_state chain;
} gemm_state;
_Static_assert(sizeof(gemm_state) <= CARNOT_STATE_BYTES, "the state has its size");

typedef struct batches {
  int rank;
  int64_t dims[CARNOT_MAX_RANK], a[CARNOT_MAX_RANK], b[CARNOT_MAX_RANK], c[CARNOT_MAX_RANK];
} batches;

// The batch axes of the result with the distances of both operands, joined where they can be.
static carnot_status* read_batches(const carnot_operand* a, const carnot_operand* b,
                                   const carnot_operand* y, int drop_a, int drop_b, int drop_y,
                                   batches* out) {
  *out = (batches){.rank = 0};
  int rank = y->rank - drop_y;
  for (int d = 0; d < rank; d++) {
    int at_a = d - rank + a->rank - drop_a, at_b = d - rank + b->rank - drop_b;
    int64_t sa = at_a >= 0 && a->dims[at_a] > 1 ? a->strides[at_a] : 0;
    int64_t sb = at_b >= 0 && b->dims[at_b] > 1 ? b->strides[at_b] : 0;
    CARNOT_CHECK((at_a < 0 || a->dims[at_a] == 1 || a->dims[at_a] == y->dims[d]) &&
                     (at_b < 0 || b->dims[at_b] == 1 || b->dims[at_b] == y->dims[d]),
                 INVALID_ARGUMENT, "batches do not fit along axis %d", d);
    if (y->dims[d] == 1) continue;
    int r = out->rank;
    bool joins = r && out->a[r - 1] == sa * y->dims[d] && out->b[r - 1] == sb * y->dims[d] &&
                 out->c[r - 1] == y->strides[d] * y->dims[d];
    if (!joins) out->dims[out->rank++] = y->dims[d];
    if (joins) out->dims[r - 1] *= y->dims[d];
    r = out->rank - 1;
    out->a[r] = sa, out->b[r] = sb, out->c[r] = y->strides[d];
  }
  return NULL;
}

// Of the address and of distances in elements, up to 16 bytes.
static int alignment_of(const carnot_operand* t, const int64_t* distances, int count) {
  uintptr_t bits = (uintptr_t)t->data | 16;
  for (int i = 0; i < count; i++) bits |= (uintptr_t)(distances[i] * carnot_cuda_bytes(t));
  return (int)(bits & -bits);
}

typedef struct extents {
  int64_t m, n, k;
  int drop_a, drop_b, drop_y;  // axes that are no batches
} extents;

static carnot_status* read_extents(const product* p, const carnot_operand* a,
                                   const carnot_operand* b, const carnot_operand* y, extents* e) {
  e->drop_a = a->rank > 1 ? 2 : 1, e->drop_b = b->rank > 1 ? 2 : 1;
  e->drop_y = e->drop_a + e->drop_b - 2;
  bool ta = p->trans_a && a->rank > 1, tb = p->trans_b && b->rank > 1;
  e->m = a->rank > 1 ? a->dims[a->rank - (ta ? 1 : 2)] : 1;
  e->k = a->rank > 1 ? a->dims[a->rank - (ta ? 2 : 1)] : a->dims[0];
  e->n = b->rank > 1 ? b->dims[b->rank - (tb ? 2 : 1)] : 1;
  int64_t k = b->rank > 1 ? b->dims[b->rank - (tb ? 1 : 2)] : b->dims[0];
  CARNOT_CHECK(k == e->k && y->rank >= e->drop_y, INVALID_ARGUMENT,
               "a product over %lld and %lld elements", (long long)e->k, (long long)k);
  int64_t rows = 1;
  for (int i = 0; i < e->drop_y; i++) rows *= y->dims[y->rank - 1 - i];
  CARNOT_CHECK(rows == e->m * e->n, INVALID_ARGUMENT, "the result has another size");
  return NULL;
}

static carnot_status* fill_with_c(const carnot_step_view* step, const carnot_operand* c,
                                  const carnot_operand* y, gemm_state* s) {
  int64_t strides[CARNOT_MAX_RANK] = {0};
  CARNOT_CHECK(c->rank <= y->rank && c->format.dtype == y->format.dtype, INVALID_ARGUMENT,
               "C has rank %d", c->rank);
  for (int d = 0; d < c->rank; d++) {
    int at = d + y->rank - c->rank;
    CARNOT_CHECK(c->dims[d] == 1 || c->dims[d] == y->dims[at], INVALID_ARGUMENT,
                 "C does not broadcast to the result");
    if (c->dims[d] > 1) strides[at] = c->strides[d];
  }
  s->adds_c = true;
  return carnot_cuda_strided_copy_make(step, y->rank, y->dims, strides, 0, y->strides, 0,
                                       carnot_cuda_bytes(y), &s->fill);
}

// The first |rank| batch axes are walked by one call each.
static void set_outer(const batches* t, int rank, int bytes, gemm_state* s) {
  for (int i = 0; i < rank; i++) {
    s->outer_dims[i] = t->dims[i];
    s->outer_a[i] = t->a[i] * bytes, s->outer_b[i] = t->b[i] * bytes;
    s->outer_c[i] = t->c[i] * bytes;
  }
  s->outer_rank = rank > 0 ? rank : 0;
  s->outer_count = carnot_dims_count(t->dims, s->outer_rank);
}

static const carnot_cuda_kernel_id kGemmSimt[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_REAL_TYPES(CARNOT_CUDA_BY_TYPE, gemm_simt) CARNOT_CUDA_BY_TYPE(i32, I32, gemm_simt)
        CARNOT_CUDA_BY_TYPE(i64, I64, gemm_simt)};

static carnot_status* set_own(const carnot_step_view* step, const extents* e, const product* p,
                              const batches* t, const carnot_operand* a, const carnot_operand* b,
                              gemm_state* s) {
  bool ta = p->trans_a && a->rank > 1, tb = p->trans_b && b->rank > 1;
  int last = t->rank - 1;
  bool batched = t->rank > 0;
  s->own = (carnot_cuda_gemm_simt_params){.m = e->m,
                                          .n = e->n,
                                          .k = e->k,
                                          .batch = batched ? t->dims[last] : 1,
                                          .a_b = batched ? t->a[last] : 0,
                                          .b_b = batched ? t->b[last] : 0,
                                          .c_b = batched ? t->c[last] : 0,
                                          .a_m = ta ? 1 : e->k,
                                          .a_k = ta ? e->m : 1,
                                          .b_k = tb ? 1 : e->n,
                                          .b_n = tb ? e->k : 1,
                                          .c_m = e->n,
                                          .c_n = 1,
                                          .alpha = p->alpha,
                                          .beta = s->adds_c ? p->beta : 0,
                                          .relu = takes_relu(&p->activation)};
  CARNOT_CHECK(t->rank <= 5, UNSUPPORTED, "batches over %d axes that do not join", t->rank);
  set_outer(t, last, carnot_cuda_bytes(a), s);
  // Of unsigned numbers the low bits are the same.
  carnot_dtype type = a->format.dtype == CARNOT_DTYPE_U32   ? CARNOT_DTYPE_I32
                      : a->format.dtype == CARNOT_DTYPE_U64 ? CARNOT_DTYPE_I64
                                                            : a->format.dtype;
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kGemmSimt, type, &s->function);
}

// The library's description; |t| keeps the batches that are walked by one call each.
static carnot_status* make_key(const extents* e, const product* p, bool fast, batches* t,
                               const carnot_operand* a, const carnot_operand* b,
                               const carnot_operand* y, const carnot_operand* added,
                               carnot_cuda_cublaslt_gemm* key) {
  bool ta = p->trans_a && a->rank > 1, tb = p->trans_b && b->rank > 1;
  memset(key, 0, sizeof(*key));
  key->m = e->m, key->n = e->n, key->k = e->k, key->batch = 1, key->type = (int32_t)a->format.dtype;
  key->trans_a = ta, key->trans_b = tb;
  key->a_ld = ta ? e->m : e->k, key->b_ld = tb ? e->k : e->n;
  // Batches that share B are folded into the rows of A.
  int last = t->rank - 1;
  if (t->rank && !ta && t->b[last] == 0 && t->a[last] == e->m * e->k && t->c[last] == e->m * e->n) {
    key->m *= t->dims[last];
    t->rank--, last--;
  }
  if (t->rank) {
    key->batch = t->dims[last], key->a_batch = t->a[last], key->b_batch = t->b[last];
    key->c_batch = t->c[last];
    t->rank--;
  }
  CARNOT_CHECK(t->rank <= 4, UNSUPPORTED, "batches over %d axes that do not join", t->rank);
  key->bias = p->c_is_bias, key->activation = (int32_t)activation_of(&p->activation),
  key->fast = fast;
  key->beta = p->residual != CARNOT_PLAN_NONE || (p->c != CARNOT_PLAN_NONE && !p->c_is_bias);
  int64_t of_a[5] = {key->a_batch}, of_b[5] = {key->b_batch}, of_c[5] = {key->c_batch};
  for (int i = 0; i < t->rank; i++)
    of_a[i + 1] = t->a[i], of_b[i + 1] = t->b[i], of_c[i + 1] = t->c[i];
  const int all[] = {alignment_of(a, of_a, t->rank + 1), alignment_of(b, of_b, t->rank + 1),
                     alignment_of(y, of_c, t->rank + 1),
                     alignment_of(added ? added : y, of_c, t->rank + 1)};
  key->alignment = all[0];
  for (int i = 1; i < 4; i++) key->alignment = all[i] < key->alignment ? all[i] : key->alignment;
  return NULL;
}

static carnot_status* set_lt(const carnot_step_view* step, const extents* e, product* p, batches* t,
                             const carnot_operand* a, const carnot_operand* b,
                             const carnot_operand* y, const carnot_operand* added, gemm_state* s) {
  const gemm_params* params = step->params;
  carnot_cuda_cublaslt_gemm key;
  CARNOT_TRY(make_key(e, p, params->fast_fp32, t, a, b, y, added, &key));
  set_outer(t, t->rank, carnot_cuda_bytes(a), s);
  return carnot_cuda_cublaslt_find(carnot_cuda_of_step(step), &key, &params->choice, &s->plan);
}

static bool is_known(const carnot_operand_desc* t) {
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 1) return false;
  return true;
}

// The fastest algorithm at the optimal sizes. What cannot be timed goes by the heuristic.
static carnot_status* time_algos(const carnot_problem* problem, const product* p,
                                 carnot_cuda_cublaslt_choice* out) {
  const uint32_t* inputs = problem->region->nodes[0].inputs;
  const carnot_operand_desc* types[] = {&problem->inputs[inputs[0]], &problem->inputs[inputs[1]],
                                        &problem->outputs[0]};
  for (int i = 0; i < 3; i++)
    if (!is_known(types[i])) return NULL;
  carnot_operand operands[3];
  for (int i = 0; i < 3; i++)
    operands[i] = carnot_cuda_operand_of(types[i], CARNOT_LAYOUT_ROW_MAJOR);
  const carnot_operand *a = &operands[0], *b = &operands[1], *y = &operands[2];
  extents e;
  batches t;
  carnot_cuda_cublaslt_gemm key;
  CARNOT_TRY(read_extents(p, a, b, y, &e));
  CARNOT_TRY(read_batches(a, b, y, e.drop_a, e.drop_b, e.drop_y, &t));
  CARNOT_TRY(make_key(&e, p, problem->fast_fp32, &t, a, b, y, NULL, &key));
  return carnot_cuda_cublaslt_choose(problem, &key, out);
}

static void choose_algo(const carnot_problem* problem, const product* p,
                        carnot_cuda_cublaslt_choice* out) {
  carnot_status* status = time_algos(problem, p, out);
  if (status) *out = (carnot_cuda_cublaslt_choice){0};
  carnot_status_free(status);
}

static carnot_status* prepare(const carnot_problem* problem, bool library, carnot_prepared* out) {
  product p;
  char reason[256];
  const char* why = describe(problem, library, &p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(gemm_params), "parameters", &params));
  gemm_params* made = params;
  *made = (gemm_params){.fast_fp32 = problem->fast_fp32, .residual = p.residual};
  if (problem->previous && problem->previous->param_bytes == sizeof(*made))
    *made = *(const gemm_params*)problem->previous->params;
  if (library && problem->allow_timing) choose_algo(problem, &p, &made->choice);
  out->params = params;
  out->param_bytes = sizeof(gemm_params);
  return carnot_cuda_chain_prepare(problem, &p.chain, problem->inputs[0].format.dtype, out);
}

static carnot_status* gemm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare(problem, false, out);
}
static carnot_status* gemm_cublaslt_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare(problem, true, out);
}

static carnot_status* shape_with(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, gemm_state* s, bool library,
                                 bool gelu, size_t* out_workspace_bytes) {
  const carnot_operand* y = &outputs[0];
  product p;
  uint32_t residual = library ? ((const gemm_params*)step->params)->residual : CARNOT_PLAN_NONE;
  CARNOT_TRY(carnot_cuda_gemm_of_step(
      step, inputs, y, residual,
      gelu && carnot_cuda_is_half(y->format.dtype) ? takes_both : takes_relu, &p));
  *s = (gemm_state){.alpha = p.alpha,
                    .beta = p.residual == CARNOT_PLAN_NONE ? p.beta : 1,
                    .c = p.c,
                    .residual = p.residual,
                    .outer_count = 1};
  s->a_input = p.a, s->b_input = p.b;
  const carnot_operand *a = &inputs[p.a], *b = &inputs[p.b];
  bool own_type = !library && (is_whole(a->format.dtype) || a->format.dtype == CARNOT_DTYPE_F64);
  CARNOT_CHECK((carnot_cuda_is_float(a->format.dtype) || own_type) &&
                   a->format.dtype == b->format.dtype && a->format.dtype == y->format.dtype &&
                   a->rank > 0 && b->rank > 0,
               INVALID_ARGUMENT, "operands of %s and %s", carnot_dtype_name(a->format.dtype),
               carnot_dtype_name(b->format.dtype));
  extents e;
  CARNOT_TRY(read_extents(&p, a, b, y, &e));
  s->k = e.k;
  s->y_bytes = (size_t)(carnot_dims_count(y->dims, y->rank) * carnot_cuda_bytes(y));
  bool own =
      p.residual == CARNOT_PLAN_NONE && activation_of(&p.activation) != CARNOT_CUDA_CUBLASLT_GELU;
  CARNOT_CHECK(own || e.k > 0, UNSUPPORTED, "a product over no elements with an epilogue");
  s->bias = p.c_is_bias && library && e.k > 0;
  if (p.c != CARNOT_PLAN_NONE && !s->bias) CARNOT_TRY(fill_with_c(step, &inputs[p.c], y, s));
  batches t;
  CARNOT_TRY(read_batches(a, b, y, e.drop_a, e.drop_b, e.drop_y, &t));
  if (library && e.k > 0)
    CARNOT_TRY(set_lt(step, &e, &p, &t, a, b, y,
                      p.residual == CARNOT_PLAN_NONE ? NULL : &inputs[p.residual], s));
  else
    CARNOT_TRY(set_own(step, &e, &p, &t, a, b, s));
  *out_workspace_bytes = s->plan ? carnot_cuda_cublaslt_workspace(s->plan) : 0;
  return carnot_cuda_chain_shape(step, &p.chain, inputs, outputs, &s->chain);
}

static carnot_status* gemm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  return shape_with(step, inputs, outputs, state, false, false, out_workspace_bytes);
}
static carnot_status* gemm_cublaslt_shape(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* state,
                                          size_t* out_workspace_bytes) {
  const char* missing = carnot_cuda_lacks_cublaslt(carnot_cuda_of_step(step));
  CARNOT_CHECK(!missing, NOT_FOUND, "this step calls a library: %s", missing);
  carnot_status* status = shape_with(step, inputs, outputs, state, true, true, out_workspace_bytes);
  if (carnot_status_code(status) != CARNOT_UNSUPPORTED) return status;
  // Without an algorithm with a GELU epilogue, GELU is a generated program; the one in the step
  // does not contain it.
  carnot_status_free(status);
  carnot_step_view plain = *step;
  plain.constant_count = 0;
  return shape_with(&plain, inputs, outputs, state, true, false, out_workspace_bytes);
}

// ---- run ----

static carnot_status* multiply(const carnot_step_view* step, gemm_state* s, const char* a,
                               const char* b, const char* c, char* y, const void* bias,
                               void* workspace) {
  if (!s->plan) {
    carnot_cuda_gemm_simt_params own = s->own;
    own.a = a, own.b = b, own.c = y;
    const int64_t grid[3] = {carnot_ceildiv(own.n, 32), carnot_ceildiv(own.m, 32), own.batch};
    return carnot_cuda_launch(step, s->function, grid, 256, &own);
  }
  CARNOT_TRY(carnot_cuda_fence_before_library(step));
  const carnot_cuda_cublaslt_operands operands = {.a = a,
                                                  .b = b,
                                                  .c = c,
                                                  .bias = bias,
                                                  .y = y,
                                                  .workspace = workspace,
                                                  .alpha = s->alpha,
                                                  .beta = s->beta};
  return carnot_cuda_cublaslt_run(carnot_cuda_of_step(step), s->plan, &operands,
                                  carnot_cuda_queue_of(step)->stream);
}

static carnot_status* gemm_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)executor;
  gemm_state* s = state;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const carnot_operand* y = &outputs[0];
  if (s->adds_c)
    CARNOT_TRY(carnot_cuda_strided_copy_run(step, &s->fill, inputs[s->c].data, y->data));
  if (!s->k && !s->adds_c)
    CARNOT_CUDA_TRY(cuda, cuMemsetD8Async(carnot_cuda_address(y->data), 0, s->y_bytes,
                                          carnot_cuda_queue_of(step)->stream));
  for (int64_t i = 0; s->k && i < s->outer_count; i++) {
    int64_t at = i, a = 0, b = 0, c = 0;
    for (int d = s->outer_rank - 1; d >= 0; d--) {
      int64_t here = at % s->outer_dims[d];
      at /= s->outer_dims[d];
      a += here * s->outer_a[d], b += here * s->outer_b[d], c += here * s->outer_c[d];
    }
    char* to = (char*)y->data + c;
    const char* added = s->residual != CARNOT_PLAN_NONE ? (const char*)inputs[s->residual].data + c
                        : s->adds_c                     ? to
                                                        : NULL;
    CARNOT_TRY(multiply(step, s, (const char*)inputs[s->a_input].data + a,
                        (const char*)inputs[s->b_input].data + b, added, to,
                        s->bias ? inputs[s->c].data : NULL, workspace));
  }
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

#define GEMM_TACTIC(variable, text, library, reject_fn, prepare_fn, shape_fn)      \
  const carnot_tactic carnot_cuda_##variable = {.name = text,                      \
                                                .anchor = CARNOT_OP_COUNT,         \
                                                .numerics = CARNOT_NUMERICS_EXACT, \
                                                .device = true,                    \
                                                .sources = library,                \
                                                .fallback = !(library),            \
                                                .reject = reject_fn,               \
                                                .prepare = prepare_fn,             \
                                                .validate = gemm_check,            \
                                                .configure = shape_fn,             \
                                                .run = gemm_run,                   \
                                                .work = carnot_cuda_gemm_work};
GEMM_TACTIC(gemm_cublaslt, "cuda_gemm_cublaslt", 1u << CARNOT_SOURCE_CUBLAS_LT,
            gemm_cublaslt_reject, gemm_cublaslt_prepare, gemm_cublaslt_shape)
GEMM_TACTIC(gemm_simt, "cuda_gemm_32x32", 0, gemm_simt_reject, gemm_prepare, gemm_shape)
