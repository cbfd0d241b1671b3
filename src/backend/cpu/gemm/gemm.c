// GEMM over float32 with packed constant weights (MatMul and Gemm alike).
#include "backend/cpu/gemm/gemm.h"

#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"

enum { kMaxColumns = 1 << 18, kLeastSplitRows = 8 };

const char* carnot_cpu_gemm_take_c(const carnot_problem* problem, const carnot_gemm_problem* gemm,
                                   int64_t n, float* bias) {
  const carnot_operand_desc* c = &problem->inputs[gemm->c];
  if (!carnot_is_f32_constant(c)) return "C is not constant float32";
  int64_t count = carnot_tensor_count(c->tensor);
  bool vector = count == n && c->rank >= 1 && c->dims[c->rank - 1] == n;
  if (!vector && count != 1) return "C is no vector over columns";
  for (int64_t i = 0; i < n; i++)
    bias[i] = gemm->beta * ((const float*)c->tensor->data)[vector ? i : 0];
  return NULL;
}

// Reads the region; |bias| [columns of B] receives the sum of all biases.
static const char* read_region(const carnot_problem* problem, carnot_gemm_problem* gemm,
                               carnot_cpu_gemm_params* p, float* bias, char* reason, size_t size) {
  *p = (carnot_cpu_gemm_params){.alpha = 1};
  const char* why = carnot_gemm_read(problem->region, problem->input_count, gemm);
  if (why) return why;
  const carnot_operand_desc *a = &problem->inputs[gemm->a], *b = &problem->inputs[gemm->b];
  why = carnot_not_f32_value(problem, a, "the left operand", 1, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  if (!carnot_is_f32_constant(b) || b->rank != 2)
    return "the right operand is no constant float32 matrix";
  if (gemm->trans_a) return "the left operand is transposed";
  if (a->rank == 1 && problem->region->node_count > 1) return "the left operand is a vector";
  p->trans_b = gemm->trans_b;
  p->k = b->dims[p->trans_b ? 1 : 0];
  p->n = b->dims[p->trans_b ? 0 : 1];
  p->alpha = gemm->alpha;
  if (a->dims[a->rank - 1] != p->k && a->dims[a->rank - 1] != -1) return "the sizes do not match";
  if (p->k < 1 || p->n < 1 || p->n > kMaxColumns)
    return carnot_because(reason, size, "%lld columns, takes up to %d", (long long)p->n,
                          kMaxColumns);
  memset(bias, 0, (size_t)p->n * sizeof(*bias));
  bool has_bias = gemm->c != CARNOT_PLAN_NONE;
  why = has_bias ? carnot_cpu_gemm_take_c(problem, gemm, p->n, bias) : NULL;
  if (why) return why;
  why = carnot_epilogue_plan_make(problem, /*anchor=*/0, 1, bias, p->n, &has_bias,
                                  &p->epilogue_plan, reason, size);
  p->has_bias = has_bias;
  return why;
}

// Known to have fewer than pay for splitting them.
static bool has_few_rows(const carnot_operand_desc* a) {
  for (int d = 0; d < a->rank - 1; d++)
    if (a->dims[d] < 0) return false;
  return carnot_dims_count(a->dims, a->rank - 1) < kLeastSplitRows;
}

// Whether the weights may have the type of the tactic's precision.
static const char* reject_weights(const carnot_problem* problem, const carnot_gemm_problem* gemm,
                                  char* reason, size_t size) {
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  if (type == CARNOT_WEIGHTS_F32) return NULL;
  if (type != CARNOT_WEIGHTS_BF16 && type != CARNOT_WEIGHTS_BF16_TILES && gemm->alpha != 1)
    return "alpha goes into the weights, which the type may not hold";
  const carnot_operand_desc* a = &problem->inputs[gemm->a];
  if (carnot_packed_weights_split(type) && has_few_rows(a))
    return carnot_because(reason, size, "%lld rows, takes %d and more",
                          (long long)carnot_dims_count(a->dims, a->rank - 1), kLeastSplitRows);
  return carnot_packed_weights_reject(problem, problem->inputs[gemm->b].tensor, type, reason, size);
}

const char* carnot_cpu_gemm_read_params(const carnot_problem* problem, carnot_cpu_gemm_params* out,
                                        char* reason, size_t size) {
  carnot_gemm_problem gemm;
  const char* why = carnot_gemm_read(problem->region, problem->input_count, &gemm);
  if (why) return why;
  const carnot_operand_desc* b = &problem->inputs[gemm.b];
  int64_t columns = b->rank == 2 ? carnot_max_i64(b->dims[0], b->dims[1]) : 1;
  float* bias = malloc((size_t)carnot_max_i64(1, columns) * sizeof(float));
  if (!bias) return CARNOT_REJECT_NO_MEMORY;
  why = read_region(problem, &gemm, out, bias, reason, size);
  free(bias);
  return why;
}

const char* carnot_cpu_gemm_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cpu_gemm_params p;
  const char* why = carnot_cpu_gemm_read_params(problem, &p, reason, size);
  if (why) return why;
  carnot_cpu_gemm_want_row_major(problem);
  carnot_gemm_problem gemm;
  why = carnot_gemm_read(problem->region, problem->input_count, &gemm);
  return why ? why : reject_weights(problem, &gemm, reason, size);
}

static carnot_packed_weights_shape weights_shape(const carnot_cpu_gemm_params* p) {
  return (carnot_packed_weights_shape){1, p->k, p->n};
}

carnot_status* carnot_cpu_gemm_prepare_params(const carnot_problem* problem, carnot_prepared* out,
                                              carnot_cpu_gemm_params** out_params) {
  const carnot_operand_desc* b = &problem->inputs[problem->region->nodes[0].inputs[1]];
  void *params, *bias;
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_cpu_gemm_params), "parameters", &params));
  size_t columns = carnot_align_up((size_t)carnot_max_i64(b->dims[0], b->dims[1]), 16);
  CARNOT_TRY(carnot_arena_try(out->arena, columns, sizeof(float), "a bias", &bias));
  carnot_cpu_gemm_params* p = params;
  char reason[256];
  carnot_gemm_problem gemm;
  const char* why = read_region(problem, &gemm, p, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  *out_params = p;
  out->params = p;
  out->param_bytes = sizeof(*p);
  out->constant_count = 2;
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = carnot_align_up((size_t)p->n, 16) * sizeof(float);
  out->packed_inputs = (uint64_t)1 << gemm.b;
  if (gemm.c != CARNOT_PLAN_NONE) out->packed_inputs |= (uint64_t)1 << gemm.c;
  return NULL;
}

carnot_status* carnot_cpu_gemm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  carnot_cpu_gemm_params* p = NULL;
  CARNOT_TRY(carnot_cpu_gemm_prepare_params(problem, out, &p));
  p->weights = (int32_t)type;
  void* packed;
  size_t bytes = carnot_packed_weights_bytes(type, weights_shape(p));
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", &packed));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  const float* b = problem->inputs[problem->region->nodes[0].inputs[1]].tensor->data;
  const carnot_weights_matrix matrix = {b, p->trans_b ? 1 : p->n, p->trans_b ? p->k : 1, p->alpha};
  CARNOT_TRY(
      carnot_packed_weights_pack_matrix(out->executor, type, weights_shape(p), matrix, packed));
  out->constants[0].packing = carnot_packed_weights_packing(type);
  out->constants[0].data = packed;
  out->constants[0].bytes = bytes;
  return NULL;
}

bool carnot_cpu_gemm_rounds_residual(const carnot_problem* problem, uint32_t a) {
  const carnot_region* region = problem->region;
  const carnot_operand_desc* y = &problem->outputs[0];
  bool adds = false, rounds = y->format.dtype == CARNOT_DTYPE_BF16;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (i == a || t->is_constant || t->rank != y->rank) continue;
    adds = true;
    rounds |= t->format.dtype == CARNOT_DTYPE_BF16;
  }
  return region->node_count > 1 && adds && rounds;
}

void carnot_cpu_gemm_want_row_major(carnot_problem* problem) {
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
}

carnot_status* carnot_cpu_gemm_validate(const carnot_step_view* step, uint32_t constants) {
  CARNOT_CHECK(
      step->param_bytes == sizeof(carnot_cpu_gemm_params) && step->constant_count == constants,
      INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %u",
      step->param_bytes, step->constant_count, sizeof(carnot_cpu_gemm_params), constants);
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(carnot_is_gemm(node->op) && node->inputs[0] < step->input_count &&
                   node->inputs[1] < step->input_count,
               INVALID_MODEL, "the step holds no GEMM");
  return carnot_epilogue_plan_validate(
      &((const carnot_cpu_gemm_params*)step->params)->epilogue_plan, step->input_count);
}

void carnot_cpu_gemm_work(const carnot_problem* problem, int b_bytes, double* out_flops,
                          double* out_bytes) {
  const uint32_t* inputs = problem->region->nodes[0].inputs;
  const carnot_operand_desc *a = &problem->inputs[inputs[0]], *b = &problem->inputs[inputs[1]],
                            *y = &problem->outputs[0];
  *out_flops = carnot_gemm_flops(problem);
  *out_bytes =
      carnot_dtype_bits(y->format.dtype) / 8.0 * (double)carnot_dims_count(y->dims, y->rank) +
      carnot_dtype_bits(a->format.dtype) / 8.0 * (double)carnot_dims_count(a->dims, a->rank) +
      b_bytes * (double)carnot_dims_count(b->dims, b->rank);
}

carnot_status* carnot_cpu_gemm_validate_packed(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cpu_gemm_validate(step, 2));
  const carnot_cpu_gemm_params* p = step->params;
  CARNOT_CHECK(p->k >= 1 && p->n >= 1 && p->k < (int64_t)1 << 31 && p->n <= kMaxColumns,
               INVALID_MODEL, "a matrix of [%lld,%lld]", (long long)p->k, (long long)p->n);
  CARNOT_CHECK(p->weights == (int32_t)carnot_packed_weights_type(step->tactic), INVALID_MODEL,
               "packed weights of type %d, must be %d", p->weights,
               (int)carnot_packed_weights_type(step->tactic));
  size_t wanted = carnot_packed_weights_bytes((carnot_weights_type)p->weights, weights_shape(p));
  CARNOT_CHECK(
      step->constant_bytes[0] == wanted && step->constant_bytes[1] >= (size_t)p->n * sizeof(float),
      INVALID_MODEL, "packed weights of %zu bytes, a bias of %zu", step->constant_bytes[0],
      step->constant_bytes[1]);
  return NULL;
}

bool carnot_cpu_gemm_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_cpu_gemm_params* p = step->params;
  if (input == node->inputs[0] || carnot_epilogue_plan_uses_input(&p->epilogue_plan, input))
    return true;
  return !(node->inputs[1] == input || (node->input_count > 2 && node->inputs[2] == input));
}

carnot_status* carnot_cpu_gemm_configure_rows(const carnot_step_view* step,
                                              const carnot_cpu_gemm_params* p,
                                              const carnot_operand* a, const carnot_operand* y,
                                              carnot_cpu_gemm_state* state) {
  CARNOT_CHECK(carnot_cpu_is_f32_value(step, a) && carnot_cpu_is_f32_value(step, y), INVALID_MODEL,
               "operands are %s and %s", carnot_dtype_name(a->format.dtype),
               carnot_dtype_name(y->format.dtype));
  CARNOT_CHECK(a->rank >= 1 && y->rank >= 1 && a->dims[a->rank - 1] == p->k &&
                   y->dims[y->rank - 1] == p->n && carnot_cpu_is_dense(a) && carnot_cpu_is_dense(y),
               INVALID_ARGUMENT, "operands do not fit packed weights of [%lld,%lld]",
               (long long)p->k, (long long)p->n);
  state->batch = 1;
  state->m = carnot_dims_count(a->dims, a->rank - 1);
  CARNOT_CHECK(state->m == carnot_dims_count(y->dims, y->rank - 1), INVALID_ARGUMENT,
               "%lld rows give others", (long long)state->m);
  state->partition =
      carnot_work_partition_make(step->tactic->isa, step->threads, state->m, p->n, p->k);
  return NULL;
}

carnot_status* carnot_cpu_gemm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* memory,
                                         size_t* out_workspace_bytes) {
  const carnot_cpu_gemm_params* p = step->params;
  *out_workspace_bytes = 0;
  carnot_cpu_gemm_state* state = memory;
  const carnot_operand* a = &inputs[step->region->nodes[0].inputs[0]];
  CARNOT_TRY(carnot_cpu_gemm_configure_rows(step, p, a, &outputs[0], state));
  if (carnot_packed_weights_split((carnot_weights_type)p->weights))
    state->partition = carnot_work_partition_make_split(
        step->threads,
        &(carnot_split_work){state->m, p->n, p->k, 1, CARNOT_SPLIT_ROWS, CARNOT_SPLIT_ROWS, 0});
  return carnot_epilogue_plan_check(step, &p->epilogue_plan, inputs, &outputs[0], p->n);
}

static void gemm_part(void* argument, int64_t part) {
  const carnot_cpu_gemm_run* run = argument;
  const carnot_cpu_gemm_params* p = run->params;
  carnot_gemm_f32 gemm = {.m = run->state->m, .n = p->n, .k = p->k, .lda = p->k, .ldc = p->n};
  gemm.a = run->inputs[run->step->region->nodes[0].inputs[0]].data;
  gemm.b = run->step->constants[0];
  gemm.c = run->outputs[0].data;
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &gemm.epilogue);
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->state->partition, part, &m0, &m1, &n0, &n1);
  carnot_packed_weights_gemm(run->kernels, (carnot_weights_type)p->weights)(&gemm, m0, m1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, gemm.c, p->n, m0, m1, n0,
                           n1);
}

carnot_status* carnot_cpu_gemm_run_parts(const carnot_step_view* step,
                                         const carnot_cpu_gemm_state* state,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* workspace,
                                         carnot_executor* executor,
                                         void (*part)(void* run, int64_t part)) {
  carnot_cpu_gemm_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                             .step = step,
                             .params = step->params,
                             .state = state,
                             .inputs = inputs,
                             .outputs = outputs,
                             .workspace = workspace};
  carnot_executor_parallel(executor, carnot_work_partition_count(&state->partition) * state->batch,
                           part, &run);
  return NULL;
}

static carnot_status* gemm_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  return carnot_cpu_gemm_run_parts(step, state, inputs, outputs, workspace, executor, gemm_part);
}

static bool gemm_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const carnot_cpu_gemm_params* p = step->params;
  const bool apart = carnot_packed_weights_split((carnot_weights_type)p->weights);
  return (apart || p->k <= CARNOT_RESIDUAL_IN_PLACE_DEPTH) &&
         carnot_epilogue_plan_may_share(&p->epilogue_plan, step, input, output);
}

static void gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  const int b_bytes = type == CARNOT_WEIGHTS_F32 ? 4 : carnot_packed_weights_split(type) ? 6 : 2;
  carnot_cpu_gemm_work(problem, b_bytes, out_flops, out_bytes);
}

#define GEMM_TACTIC                                                                                \
  .anchor = CARNOT_OP_COUNT, .reject = carnot_cpu_gemm_reject, .prepare = carnot_cpu_gemm_prepare, \
  .validate = carnot_cpu_gemm_validate_packed, .uses_input = carnot_cpu_gemm_uses_input,           \
  .configure = carnot_cpu_gemm_configure, .run = gemm_run_all, .may_share = gemm_may_share,        \
  .work = gemm_work
CARNOT_CPU_TACTICS(gemm_f32, GEMM_TACTIC);
CARNOT_CPU_SPLIT_TACTICS(gemm, GEMM_TACTIC);
CARNOT_CPU_F16_TACTICS(gemm_f16, GEMM_TACTIC);
CARNOT_CPU_BF16_TACTICS(gemm_bf16, GEMM_TACTIC);
