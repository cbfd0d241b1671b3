// MatMul of two float32 or float64 activations, with broadcast batches.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/gemm.h"

static bool is_f64(const carnot_tactic* tactic) { return tactic->precision == CARNOT_DTYPE_F64; }

// A reason why the operand is no matrix, or batch of them, of the tactic's type.
static const char* not_matrix(const carnot_problem* problem, uint32_t input, const char* what,
                              char* reason, size_t size) {
  carnot_operand_desc t = problem->inputs[input];
  if (is_f64(problem->tactic)) {
    if (t.format.dtype != CARNOT_DTYPE_F64)
      return carnot_because(reason, size, "%s is %s, takes float64", what,
                            carnot_dtype_name(t.format.dtype));
    t.format.dtype = CARNOT_DTYPE_F32;  // the rest of what is asked is the same
  }
  return carnot_not_f32(&t, what, 2, CARNOT_MAX_RANK, reason, size);
}

static const char* read_region(const carnot_problem* problem, carnot_gemm_problem* gemm,
                               carnot_epilogue_plan* epilogue_plan, char* reason, size_t size) {
  if (problem->region->nodes[0].op != CARNOT_OP_MATMUL) return "";
  const char* why = carnot_gemm_read(problem->region, problem->input_count, gemm);
  if (!why) why = not_matrix(problem, gemm->a, "the left operand", reason, size);
  if (!why) why = not_matrix(problem, gemm->b, "the right operand", reason, size);
  if (why) return why;
  if (gemm->trans_a) return "the left operand is transposed";
  if (gemm->alpha != 1) return "alpha is not 1";
  if (is_f64(problem->tactic) && problem->region->node_count > 1)
    return "float64 takes no epilogue";
  bool has_bias = false;
  const carnot_operand_desc* y = &problem->outputs[0];
  return carnot_epilogue_plan_make(problem, /*anchor=*/0, 1, NULL, y->dims[y->rank - 1], &has_bias,
                                   epilogue_plan, reason, size);
}

// A constant matrix that gemm_f32 packs at build is packed here in each run: mostly 1.05 to 2 times
// the time, but for fewer columns than a vector has.
static const char* reject_constant(const carnot_problem* problem, char* reason, size_t size) {
  enum { kLeastColumns = 16 };
  carnot_cpu_gemm_params gemm;
  if (problem->tactic->precision != CARNOT_DTYPE_INVALID) return NULL;
  const char* why = carnot_cpu_gemm_read_params(problem, &gemm, reason, size);
  if (why || gemm.n < kLeastColumns) return NULL;
  return "the right operand is constant, which gemm_f32 packs at build";
}

static const char* matmul_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_gemm_problem gemm;
  carnot_epilogue_plan epilogue_plan;
  const char* why = read_region(problem, &gemm, &epilogue_plan, reason, size);
  if (!why) why = reject_constant(problem, reason, size);
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

// Every part packs the columns that it reads: whole columns, unless they are few.
static carnot_work_partition partition_f64(int threads, int64_t m, int64_t n, int64_t k) {
  enum { kPanel = 24, kLeastPanels = 4, kMostParts = 16 };
  const int64_t panels = carnot_ceildiv(n, kPanel);
  if (panels < kLeastPanels) return carnot_work_partition_make(CARNOT_ISA_SCALAR, threads, m, n, k);
  const int64_t columns = carnot_ceildiv(panels, kMostParts) * kPanel;
  return (carnot_work_partition){m, n, m, columns, 1, carnot_ceildiv(n, columns)};
}

// Bytes of workspace of a part.
static size_t part_workspace(const carnot_step_view* step, int64_t k) {
  return is_f64(step->tactic) ? (size_t)carnot_matmul_f64_workspace(k) * sizeof(double)
                              : (size_t)carnot_matmul_f32_workspace(k) * sizeof(float);
}

static carnot_status* matmul_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  carnot_cpu_gemm_state* state = memory;
  const carnot_cpu_gemm_params* p = step->params;
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand *a = &inputs[node->inputs[0]], *b = &inputs[node->inputs[1]],
                       *c = &outputs[0];
  const carnot_dtype dtype = is_f64(step->tactic) ? CARNOT_DTYPE_F64 : CARNOT_DTYPE_F32;
  CARNOT_CHECK(a->format.dtype == dtype && b->format.dtype == dtype && c->format.dtype == dtype &&
                   a->rank >= 2 && b->rank >= 2 && c->rank >= 2 && carnot_cpu_is_dense(c),
               INVALID_ARGUMENT, "the operands are no %s matrices", carnot_dtype_name(dtype));
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
  state->partition = is_f64(step->tactic)
                         ? partition_f64(step->threads, state->m, state->n, state->k)
                         : carnot_work_partition_make(step->tactic->isa, step->threads, state->m,
                                                      state->n, state->k);
  if (state->batch >= 8)
    state->partition = (carnot_work_partition){state->m, state->n, state->m, state->n, 1, 1};
  *out_workspace_bytes = part_workspace(step, state->k) * (size_t)state->batch *
                         (size_t)carnot_work_partition_count(&state->partition);
  return carnot_epilogue_plan_check(step, &p->epilogue_plan, inputs, c, state->n);
}

static void part_f64(const carnot_cpu_gemm_run* run, int64_t batch, int64_t a_at, int64_t b_at,
                     int64_t part, const int64_t* cut) {
  const carnot_cpu_gemm_state* state = run->state;
  const carnot_plan_node* node = &run->step->region->nodes[0];
  const carnot_matmul_f64 matmul = {
      .k = state->k,
      .a = (const double*)run->inputs[node->inputs[0]].data + a_at,
      .lda = state->lda,
      .b = (const double*)run->inputs[node->inputs[1]].data + b_at,
      .rs = state->b_rs,
      .cs = state->b_cs,
      .c = (double*)run->outputs[0].data + batch * state->m * state->n,
      .ldc = state->n,
      .workspace = (double*)run->workspace +
                   carnot_executor_scratch(part) * carnot_matmul_f64_workspace(state->k)};
  run->kernels->matmul_f64(&matmul, cut[0], cut[1], cut[2], cut[3]);
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
  int64_t cut[4];  // rows, columns
  carnot_work_partition_part(&state->partition, part % per_batch, &cut[0], &cut[1], &cut[2],
                             &cut[3]);
  if (is_f64(run->step->tactic)) {
    part_f64(run, batch, a_at, b_at, part, cut);
    return;
  }
  const carnot_plan_node* node = &run->step->region->nodes[0];
  carnot_matmul_f32 matmul = {.rs = state->b_rs, .cs = state->b_cs};
  matmul.gemm = (carnot_gemm_f32){
      .m = state->m, .n = state->n, .k = state->k, .lda = state->lda, .ldc = state->n};
  matmul.gemm.a = (const float*)run->inputs[node->inputs[0]].data + a_at;
  matmul.gemm.b = (const float*)run->inputs[node->inputs[1]].data + b_at;
  float* c = run->outputs[0].data;
  matmul.gemm.c = c + batch * state->m * state->n;
  matmul.workspace =
      run->workspace + carnot_executor_scratch(part) * carnot_matmul_f32_workspace(state->k);
  const carnot_epilogue_plan* epilogue_plan = &run->params->epilogue_plan;
  carnot_epilogue_plan_bind(epilogue_plan, run->inputs, NULL, &matmul.gemm.epilogue);
  if (matmul.gemm.epilogue.residual)
    matmul.gemm.epilogue.residual += batch * state->m * matmul.gemm.epilogue.residual_ld;
  bool half = run->step->tactic->precision == CARNOT_DTYPE_BF16;
  (half ? run->kernels->matmul_bf16 : run->kernels->matmul_f32)(&matmul, cut[0], cut[1], cut[2],
                                                                cut[3]);
  carnot_epilogue_plan_run(run->kernels, epilogue_plan, run->inputs, c, state->n,
                           batch * state->m + cut[0], batch * state->m + cut[1], cut[2], cut[3]);
}

static carnot_status* matmul_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  return carnot_cpu_gemm_run_parts(step, state, inputs, outputs, workspace, executor, matmul_part);
}

static void matmul_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_cpu_gemm_work(problem, /*b_bytes=*/is_f64(problem->tactic) ? 8 : 4, out_flops, out_bytes);
}

#define MATMUL_TACTIC                                                             \
  .anchor = CARNOT_OP_MATMUL, .reject = matmul_reject, .prepare = matmul_prepare, \
  .validate = matmul_validate, .configure = matmul_configure, .run = matmul_run,  \
  .work = matmul_work
CARNOT_CPU_TACTICS(matmul_f32, MATMUL_TACTIC);
CARNOT_CPU_TACTICS(matmul_f64, .precision = CARNOT_DTYPE_F64, MATMUL_TACTIC);
CARNOT_CPU_NATIVE_BF16_TACTICS(matmul_bf16, MATMUL_TACTIC);
