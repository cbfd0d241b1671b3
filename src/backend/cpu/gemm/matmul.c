// MatMul of two float32 activations, with broadcast batches.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/gemm.h"

static const char* read_region(const carnot_problem* problem, carnot_gemm_problem* gemm,
                               carnot_epilogue_plan* epilogue_plan, char* reason, size_t size) {
  if (problem->region->nodes[0].op != CARNOT_OP_MATMUL) return "";
  const char* why = carnot_gemm_read(problem->region, problem->input_count, gemm);
  if (!why)
    why = carnot_not_f32(&problem->inputs[gemm->a], "the left operand", 2, CARNOT_MAX_RANK, reason,
                         size);
  if (!why)
    why = carnot_not_f32(&problem->inputs[gemm->b], "the right operand", 2, CARNOT_MAX_RANK, reason,
                         size);
  if (why) return why;
  if (gemm->trans_a) return "the left operand is transposed";
  if (gemm->alpha != 1) return "alpha is not 1";
  bool has_bias = false;
  const carnot_operand_desc* y = &problem->outputs[0];
  return carnot_epilogue_plan_make(problem, /*anchor=*/0, 1, NULL, y->dims[y->rank - 1], &has_bias,
                                   epilogue_plan, reason, size);
}

static const char* matmul_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_gemm_problem gemm;
  carnot_epilogue_plan epilogue_plan;
  const char* why = read_region(problem, &gemm, &epilogue_plan, reason, size);
  if (!why) carnot_cpu_gemm_want_row_major(problem);
  return why;
}

static carnot_status* matmul_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_cpu_gemm_params), "parameters", &params));
  carnot_cpu_gemm_params* p = params;
  carnot_gemm_problem gemm;
  char reason[256];
  const char* why = read_region(problem, &gemm, &p->epilogue_plan, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  p->alpha = gemm.alpha;
  p->trans_b = gemm.trans_b;
  out->params = p;
  out->param_bytes = sizeof(*p);
  return NULL;
}

static carnot_status* matmul_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cpu_gemm_validate(step, 0));
  CARNOT_CHECK(step->region->nodes[0].op == CARNOT_OP_MATMUL, INVALID_MODEL,
               "the step holds no MatMul");
  return NULL;
}

static carnot_status* batch_strides(const carnot_operand* t, const carnot_operand* out,
                                    int64_t* strides) {
  CARNOT_CHECK(t->rank <= out->rank, INVALID_ARGUMENT,
               "an operand has more dimensions than the result");
  for (int d = 0; d < out->rank - 2; d++) {
    int at = d - (out->rank - t->rank);
    int64_t dim = at < 0 ? 1 : t->dims[at];
    CARNOT_CHECK(dim == 1 || dim == out->dims[d], INVALID_ARGUMENT,
                 "batch dimension %d is %lld, must be 1 or %lld", d, (long long)dim,
                 (long long)out->dims[d]);
    strides[d] = dim == 1 ? 0 : t->strides[at];
  }
  return NULL;
}

static carnot_status* matmul_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  carnot_cpu_gemm_state* state = memory;
  const carnot_cpu_gemm_params* p = step->params;
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand *a = &inputs[node->inputs[0]], *b = &inputs[node->inputs[1]],
                       *c = &outputs[0];
  CARNOT_CHECK(a->format.dtype == CARNOT_DTYPE_F32 && b->format.dtype == CARNOT_DTYPE_F32 &&
                   c->format.dtype == CARNOT_DTYPE_F32 && a->rank >= 2 && b->rank >= 2 &&
                   c->rank >= 2 && carnot_cpu_is_dense(c),
               INVALID_ARGUMENT, "the operands are no float32 matrices");
  state->m = a->dims[a->rank - 2];
  state->k = a->dims[a->rank - 1];
  int row = p->trans_b ? b->rank - 1 : b->rank - 2, column = p->trans_b ? b->rank - 2 : b->rank - 1;
  state->n = b->dims[column];
  CARNOT_CHECK(b->dims[row] == state->k && c->dims[c->rank - 2] == state->m &&
                   c->dims[c->rank - 1] == state->n &&
                   (a->strides[a->rank - 1] == 1 || state->k == 1),
               INVALID_ARGUMENT, "the sizes of the matrices do not match");
  state->lda = a->strides[a->rank - 2];
  state->b_rs = b->strides[row];
  state->b_cs = b->strides[column];
  state->batch_rank = c->rank - 2;
  memcpy(state->batch_dims, c->dims, sizeof(state->batch_dims));
  CARNOT_TRY(batch_strides(a, c, state->a_batch));
  CARNOT_TRY(batch_strides(b, c, state->b_batch));
  state->batch = carnot_dims_count(c->dims, c->rank - 2);
  state->partition = carnot_work_partition_make(step->tactic->isa, state->m, state->n, state->k);
  if (state->batch >= 8)
    state->partition = (carnot_work_partition){state->m, state->n, state->m, state->n, 1, 1};
  *out_workspace_bytes = (size_t)(carnot_matmul_f32_workspace(state->k) * state->batch *
                                  carnot_work_partition_count(&state->partition)) *
                         sizeof(float);
  return carnot_epilogue_plan_check(step, &p->epilogue_plan, inputs, c, state->n);
}

static void matmul_part(void* argument, int64_t part) {
  const carnot_cpu_gemm_run* run = argument;
  const carnot_cpu_gemm_state* state = run->state;
  int64_t per_batch = carnot_work_partition_count(&state->partition), batch = part / per_batch,
          rest = batch, a_at = 0, b_at = 0;
  for (int d = state->batch_rank - 1; d >= 0; d--) {
    int64_t index = rest % state->batch_dims[d];
    rest /= state->batch_dims[d];
    a_at += index * state->a_batch[d];
    b_at += index * state->b_batch[d];
  }
  const carnot_plan_node* node = &run->step->region->nodes[0];
  carnot_matmul_f32 matmul = {.rs = state->b_rs, .cs = state->b_cs};
  matmul.gemm = (carnot_gemm_f32){
      .m = state->m, .n = state->n, .k = state->k, .lda = state->lda, .ldc = state->n};
  matmul.gemm.a = (const float*)run->inputs[node->inputs[0]].data + a_at;
  matmul.gemm.b = (const float*)run->inputs[node->inputs[1]].data + b_at;
  float* c = run->outputs[0].data;
  matmul.gemm.c = c + batch * state->m * state->n;
  matmul.workspace = run->workspace + part * carnot_matmul_f32_workspace(state->k);
  const carnot_epilogue_plan* epilogue_plan = &run->params->epilogue_plan;
  carnot_epilogue_plan_bind(epilogue_plan, run->inputs, NULL, &matmul.gemm.epilogue);
  if (matmul.gemm.epilogue.residual)
    matmul.gemm.epilogue.residual += batch * state->m * matmul.gemm.epilogue.residual_ld;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&state->partition, part % per_batch, &m0, &m1, &n0, &n1);
  bool half = run->step->tactic->precision == CARNOT_DTYPE_BF16;
  (half ? run->kernels->matmul_bf16 : run->kernels->matmul_f32)(&matmul, m0, m1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, epilogue_plan, run->inputs, c, state->n,
                           batch * state->m + m0, batch * state->m + m1, n0, n1);
}

static carnot_status* matmul_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  return carnot_cpu_gemm_run_parts(step, state, inputs, outputs, workspace, executor, matmul_part);
}

static void matmul_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_cpu_gemm_work(problem, /*b_bytes=*/4, out_flops, out_bytes);
}

#define MATMUL_TACTIC                                                             \
  .anchor = CARNOT_OP_MATMUL, .reject = matmul_reject, .prepare = matmul_prepare, \
  .validate = matmul_validate, .configure = matmul_configure, .run = matmul_run,  \
  .work = matmul_work
CARNOT_CPU_TACTICS(matmul_f32, MATMUL_TACTIC);
CARNOT_CPU_NATIVE_BF16_TACTICS(matmul_bf16, MATMUL_TACTIC);
