// GEMM by oneDNN with constant weights (MatMul and Gemm alike), float32 or BF16 in memory.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/onednn/onednn_step.h"

static void cut(const carnot_cpu_gemm_params* p, int64_t m, carnot_dtype src,
                const carnot_onednn_result* result, bool is_open, carnot_onednn_parts* out) {
  const carnot_onednn_shape whole = {
      .is_matmul = 1, .dtype = src, .has_bias = p->has_bias, .n = m, .c = p->k, .k = p->n};
  memset(out, 0, sizeof(*out));
  out->is_open = is_open;
  carnot_onednn_cut_matmul(&whole, result, out);
}

// ---- build ----

static void cut_problem(const carnot_problem* problem, const carnot_cpu_gemm_params* p,
                        carnot_onednn_parts* out) {
  const int residual = p->epilogue_plan.residual;
  const carnot_operand_desc* a = &problem->inputs[problem->region->nodes[0].inputs[0]];
  const carnot_onednn_result result = {
      &p->epilogue_plan, problem->outputs[0].format.dtype,
      residual < 0 ? CARNOT_DTYPE_INVALID : problem->inputs[residual].format.dtype};
  cut(p, carnot_dims_count(a->dims, a->rank - 1), a->format.dtype, &result,
      carnot_onednn_is_open(problem), out);
}

static const char* gemm_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cpu_gemm_params p;
  const char* why = carnot_cpu_gemm_read_params(problem, &p, reason, size);
  if (why) return why;
  const uint32_t a = problem->region->nodes[0].inputs[0];
  carnot_cpu_gemm_want_row_major(problem);
  why = carnot_onednn_reject_problem(problem, &problem->inputs[a], reason, size);
  if (!why) why = carnot_onednn_reject_epilogue(problem, &p.epilogue_plan);
  if (why) return why;
  if (p.alpha != 1) return "alpha is not 1";
  if (carnot_cpu_gemm_rounds_residual(problem, a)) return "the sum with a residual stays float32";
  carnot_onednn_parts parts;
  cut_problem(problem, &p, &parts);
  return carnot_onednn_reject_parts(&parts, reason, size);
}

static carnot_status* gemm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cpu_gemm_params* p = NULL;
  CARNOT_TRY(carnot_cpu_gemm_prepare_params(problem, out, &p));
  carnot_onednn_parts parts;
  cut_problem(problem, p, &parts);
  const carnot_onednn_weights weights = {
      problem->inputs[problem->region->nodes[0].inputs[1]].tensor->data,
      /*row_stride=*/p->trans_b ? 1 : p->n, /*column_stride=*/p->trans_b ? p->k : 1};
  return carnot_onednn_prepare(&parts, &weights, out);
}

// ---- load and run ----

static carnot_status* gemm_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cpu_gemm_validate(step, /*constants=*/2));
  const carnot_cpu_gemm_params* p = step->params;
  CARNOT_CHECK(p->k >= 1 && p->n >= 1 && p->k <= INT32_MAX && p->n <= INT32_MAX, INVALID_MODEL,
               "a matrix of [%lld,%lld]", (long long)p->k, (long long)p->n);
  CARNOT_CHECK(step->constant_bytes[1] >= (size_t)p->n * sizeof(float), INVALID_MODEL,
               "a bias of %zu bytes, must have %lld numbers", step->constant_bytes[1],
               (long long)p->n);
  return carnot_onednn_validate(step);
}

static const carnot_operand* left_operand(const carnot_step_view* step,
                                          const carnot_operand* inputs) {
  return &inputs[step->region->nodes[0].inputs[0]];
}

static carnot_status* gemm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  const carnot_cpu_gemm_params* p = step->params;
  const carnot_operand *a = left_operand(step, inputs), *y = &outputs[0];
  const int residual = p->epilogue_plan.residual;
  carnot_cpu_gemm_state* state = memory;
  CARNOT_TRY(carnot_cpu_gemm_configure_rows(step, p, a, y, state));
  CARNOT_TRY(carnot_epilogue_plan_check(step, &p->epilogue_plan, inputs, y, p->n));
  CARNOT_CHECK(residual < 0 || carnot_cpu_is_dense(&inputs[residual]), INVALID_MODEL,
               "rows of the residual lie apart in memory");
  const carnot_onednn_result result = {
      &p->epilogue_plan, y->format.dtype,
      residual < 0 ? CARNOT_DTYPE_INVALID : inputs[residual].format.dtype};
  carnot_onednn_parts parts;
  cut(p, state->m, a->format.dtype, &result, carnot_onednn_step_is_open(step), &parts);
  return carnot_onednn_configure(step, &parts, &result, out_workspace_bytes);
}

static carnot_status* gemm_run(const carnot_step_view* step, void* memory,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)memory;
  const carnot_cpu_gemm_params* p = step->params;
  return carnot_onednn_run(step, &p->epilogue_plan, left_operand(step, inputs),
                           p->has_bias ? step->constants[1] : NULL, inputs, outputs, workspace,
                           executor);
}

static void gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_cpu_gemm_work(problem, problem->tactic->takes_bf16 ? 2 : 4, out_flops, out_bytes);
}

#define GEMM_TACTIC                                                                        \
  .sources = 1u << CARNOT_SOURCE_ONEDNN, .anchor = CARNOT_OP_COUNT, .reject = gemm_reject, \
  .prepare = gemm_prepare, .validate = gemm_validate, .open = carnot_onednn_step_open,     \
  .close = carnot_onednn_step_close, .uses_input = carnot_cpu_gemm_uses_input,             \
  .configure = gemm_configure, .run = gemm_run, .work = gemm_work
CARNOT_CPU_TACTIC(gemm_onednn_f32, avx2, AVX2, .numerics = CARNOT_NUMERICS_EXACT, GEMM_TACTIC);
CARNOT_CPU_TACTIC(gemm_onednn_bf16, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,
                  .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true, GEMM_TACTIC);
