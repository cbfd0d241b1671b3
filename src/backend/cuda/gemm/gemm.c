// GEMM: MatMul with broadcast batches and Gemm, by cuBLASLt or the built-in SIMT kernel, with
// bias, residual and ReLU or GELU in the epilogue of the library and the rest of the region as a
// pointwise chain over the result. 16-bit floats accumulate in float32; float32 is computed as
// such unless TF32 is allowed.
#include "backend/cuda/copy/strided_copy.h"
#include "backend/cuda/gemm/gemm_cublaslt.h"
#include "kernel/cuda/gemm/gemm_simt_params.h"

// The config of a tactic.
typedef struct gemm_config {
  bool library;  // cuBLASLt, else the SIMT kernel
  // What the kernel fuses, and what with a 16-bit result.
  carnot_epilogue_mask epilogue, half_epilogue;
} gemm_config;

typedef struct gemm_params {
  int32_t fast_fp32;
  uint32_t residual;  // input of the size of the result that is added after the bias; NONE
  carnot_cuda_cublaslt_choice choice;
} gemm_params;

static const char* read_region(const carnot_problem* problem, carnot_cuda_gemm_region* out,
                               char* reason, size_t size) {
  const gemm_config* config = problem->tactic->config;
  const bool half = carnot_cuda_is_half(problem->outputs[0].format.dtype);
  return carnot_cuda_gemm_read(problem, half ? &config->half_epilogue : &config->epilogue, out,
                               reason, size);
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

static const char* gemm_reject(carnot_problem* problem, char* reason, size_t size) {
  const gemm_config* config = problem->tactic->config;
  if (!carnot_is_gemm(problem->region->nodes[0].op)) return "";
  carnot_cuda_gemm_region p;
  const char* why =
      config->library ? carnot_cuda_lacks_cublaslt(carnot_cuda_of(problem->device)) : NULL;
  if (!why) why = read_region(problem, &p, reason, size);
  if (why) return why;
  carnot_cuda_want_row_major(problem);
  const carnot_operand_desc *a = &problem->inputs[p.gemm.a], *b = &problem->inputs[p.gemm.b];
  why = config->library ? carnot_cuda_not_float(a, reason, size) : not_number(a, reason, size);
  if (why) return why;
  if (b->kind != CARNOT_VALUE_TENSOR || b->rank < 1 || a->rank < 1)
    return "an operand has no known rank";
  if (a->format.dtype != b->format.dtype) return "the operands have different types";
  if (is_whole(a->format.dtype) &&
      (p.gemm.alpha != 1 || (p.c != CARNOT_PLAN_NONE && p.gemm.beta != 1)))
    return "alpha or beta scales integers";
  return NULL;
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
static void set_outer(const carnot_cuda_gemm_batches* t, int rank, int bytes, gemm_state* s) {
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

static carnot_status* set_own(const carnot_step_view* step, const carnot_gemm_sizes* e,
                              const carnot_cuda_gemm_region* p, const carnot_cuda_gemm_batches* t,
                              const carnot_operand* a, const carnot_operand* b, gemm_state* s) {
  bool ta = p->gemm.trans_a && a->rank > 1, tb = p->gemm.trans_b && b->rank > 1;
  int last = t->rank - 1;
  bool batched = t->rank > 0;
  s->own = (carnot_cuda_gemm_simt_params){
      .m = e->m,
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
      .alpha = p->gemm.alpha,
      .beta = s->adds_c ? p->gemm.beta : 0,
      .relu = carnot_cuda_gemm_cublaslt_activation(&p->activation) == CARNOT_CUDA_CUBLASLT_RELU};
  CARNOT_CHECK(t->rank <= 5, UNSUPPORTED, "batches over %d axes that do not join", t->rank);
  set_outer(t, last, carnot_cuda_bytes(a), s);
  // Of unsigned numbers the low bits are the same.
  carnot_dtype type = a->format.dtype == CARNOT_DTYPE_U32   ? CARNOT_DTYPE_I32
                      : a->format.dtype == CARNOT_DTYPE_U64 ? CARNOT_DTYPE_I64
                                                            : a->format.dtype;
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kGemmSimt, type, &s->function);
}

static carnot_status* set_lt(const carnot_step_view* step, const carnot_gemm_sizes* e,
                             carnot_cuda_gemm_region* p, carnot_cuda_gemm_batches* t,
                             const carnot_operand* a, const carnot_operand* b,
                             const carnot_operand* y, const carnot_operand* added, gemm_state* s) {
  const gemm_params* params = step->params;
  carnot_cuda_cublaslt_gemm key;
  CARNOT_TRY(carnot_cuda_gemm_cublaslt_key(e, p, params->fast_fp32, t, a, b, y, added, &key));
  set_outer(t, t->rank, carnot_cuda_bytes(a), s);
  return carnot_cuda_cublaslt_find(carnot_cuda_of_step(step), &key, &params->choice, &s->plan);
}

static carnot_status* gemm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const gemm_config* config = problem->tactic->config;
  carnot_cuda_gemm_region p;
  char reason[256];
  const char* why = read_region(problem, &p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(gemm_params), "parameters", &params));
  gemm_params* made = params;
  *made = (gemm_params){.fast_fp32 = problem->fast_fp32, .residual = p.residual};
  if (problem->previous && problem->previous->param_bytes == sizeof(*made))
    *made = *(const gemm_params*)problem->previous->params;
  if (config->library && problem->allow_timing)
    carnot_cuda_gemm_cublaslt_choose(problem, &p, &made->choice);
  out->params = params;
  out->param_bytes = sizeof(gemm_params);
  return carnot_cuda_chain_prepare(problem, &p.chain, problem->inputs[0].format.dtype, out);
}

static carnot_status* shape_with(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, gemm_state* s,
                                 const carnot_epilogue_mask* mask, size_t* out_workspace_bytes) {
  const bool library = ((const gemm_config*)step->tactic->config)->library;
  const carnot_operand* y = &outputs[0];
  carnot_cuda_gemm_region p;
  uint32_t residual = library ? ((const gemm_params*)step->params)->residual : CARNOT_PLAN_NONE;
  CARNOT_TRY(carnot_cuda_gemm_of_step(step, inputs, y, residual, mask, &p));
  *s = (gemm_state){.alpha = p.gemm.alpha,
                    .beta = p.residual == CARNOT_PLAN_NONE ? p.gemm.beta : 1,
                    .c = p.c,
                    .residual = p.residual,
                    .outer_count = 1};
  s->a_input = p.gemm.a, s->b_input = p.gemm.b;
  const carnot_operand *a = &inputs[p.gemm.a], *b = &inputs[p.gemm.b];
  bool own_type = !library && (is_whole(a->format.dtype) || a->format.dtype == CARNOT_DTYPE_F64);
  CARNOT_CHECK((carnot_cuda_is_float(a->format.dtype) || own_type) &&
                   a->format.dtype == b->format.dtype && a->format.dtype == y->format.dtype &&
                   a->rank > 0 && b->rank > 0,
               INVALID_ARGUMENT, "operands of %s and %s", carnot_dtype_name(a->format.dtype),
               carnot_dtype_name(b->format.dtype));
  carnot_gemm_sizes e;
  CARNOT_TRY(carnot_cuda_gemm_sizes_of(&p.gemm, a, b, y, &e));
  s->k = e.k;
  s->y_bytes = (size_t)(carnot_dims_count(y->dims, y->rank) * carnot_cuda_bytes(y));
  bool own = p.residual == CARNOT_PLAN_NONE &&
             carnot_cuda_gemm_cublaslt_activation(&p.activation) != CARNOT_CUDA_CUBLASLT_GELU;
  CARNOT_CHECK(own || e.k > 0, UNSUPPORTED, "a GEMM over no elements with an epilogue");
  s->bias = p.c_is_bias && library && e.k > 0;
  if (p.c != CARNOT_PLAN_NONE && !s->bias) CARNOT_TRY(fill_with_c(step, &inputs[p.c], y, s));
  carnot_cuda_gemm_batches t;
  CARNOT_TRY(carnot_cuda_gemm_batches_of(a, b, y, &e, &t));
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
  const gemm_config* config = step->tactic->config;
  const char* missing =
      config->library ? carnot_cuda_lacks_cublaslt(carnot_cuda_of_step(step)) : NULL;
  CARNOT_CHECK(!missing, NOT_FOUND, "this step calls a library: %s", missing);
  const bool half = carnot_cuda_is_half(outputs[0].format.dtype);
  carnot_status* status =
      shape_with(step, inputs, outputs, state, half ? &config->half_epilogue : &config->epilogue,
                 out_workspace_bytes);
  if (!config->library || carnot_status_code(status) != CARNOT_UNSUPPORTED) return status;
  // Without an algorithm with a GELU epilogue, GELU is a generated program; the one in the step
  // does not contain it.
  carnot_status_free(status);
  carnot_step_view plain = *step;
  plain.constant_count = 0;
  return shape_with(&plain, inputs, outputs, state, &config->epilogue, out_workspace_bytes);
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
                                  carnot_cuda_stream_of(step)->handle);
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
                                          carnot_cuda_stream_of(step)->handle));
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

#define GEMM_TACTIC(variable, text, library_sources, ...)                                    \
  const carnot_tactic carnot_cuda_##variable = {.name = text,                                \
                                                .anchor = CARNOT_OP_COUNT,                   \
                                                .config = &(const gemm_config){__VA_ARGS__}, \
                                                .numerics = CARNOT_NUMERICS_EXACT,           \
                                                .device = true,                              \
                                                .sources = library_sources,                  \
                                                .fallback = !(library_sources),              \
                                                .reject = gemm_reject,                       \
                                                .prepare = gemm_prepare,                     \
                                                .validate = gemm_check,                      \
                                                .configure = gemm_shape,                     \
                                                .run = gemm_run,                             \
                                                .work = carnot_cuda_gemm_work}
#define EPILOGUE(with_residual, activation_bits) \
  { .biases = CARNOT_EPILOGUE_ONE_BIAS, .residual = with_residual, .activations = activation_bits }
GEMM_TACTIC(gemm_cublaslt, "cuda_gemm_cublaslt", 1u << CARNOT_SOURCE_CUBLAS_LT, .library = true,
            .epilogue = EPILOGUE(true, CARNOT_FUSED_BIT(RELU)),
            .half_epilogue = EPILOGUE(true, CARNOT_FUSED_BIT(RELU) | CARNOT_FUSED_BIT(GELU_ERF) |
                                                CARNOT_FUSED_BIT(GELU_TANH)));
GEMM_TACTIC(gemm_simt, "cuda_gemm_simt_32x32", 0, .library = false,
            .epilogue = EPILOGUE(false, CARNOT_FUSED_BIT(RELU)),
            .half_epilogue = EPILOGUE(false, CARNOT_FUSED_BIT(RELU)));
