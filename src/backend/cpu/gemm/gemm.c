// GEMM over float32: with packed constant weights (MatMul and Gemm alike), and of two activations.
#include <stdlib.h>

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/epilogue.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"

enum { kMaxColumns = 1 << 18, kMatmulColumns = 64 };

typedef struct gemm_params {
  int64_t k, n;
  float alpha;  // of a GEMM of two activations; packed weights are multiplied by it already
  int32_t has_bias;
  int32_t trans_a, trans_b;
  int32_t weights;  // carnot_dtype of the packed ones
  carnot_epilogue_plan epilogue_plan;
} gemm_params;

static const carnot_plan_node* anchor_of(const carnot_problem* problem) {
  return &problem->region->nodes[0];
}

static double float_attr(const carnot_plan_node* node, const char* name) {
  return carnot_attr_float(carnot_op_get(node->op), &node->attrs, name);
}
static bool int_attr(const carnot_plan_node* node, const char* name) {
  return carnot_attr_int(carnot_op_get(node->op), &node->attrs, name) != 0;
}

static void want_row_major(carnot_problem* problem) {
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
}

// ---- constant weights ----

// The addend of Gemm as a vector over columns, times beta; NULL when it is taken.
static const char* take_addend(const carnot_problem* problem, const carnot_plan_node* node,
                               int64_t n, float* bias) {
  const carnot_operand_desc* c = &problem->inputs[node->inputs[2]];
  if (node->inputs[2] >= problem->input_count || !carnot_is_f32_constant(c))
    return "the addend is not constant float32";
  int64_t count = carnot_tensor_count(c->tensor);
  bool vector = count == n && c->rank >= 1 && c->dims[c->rank - 1] == n;
  if (!vector && count != 1) return "the addend is no vector over columns";
  float beta = (float)float_attr(node, "beta");
  for (int64_t i = 0; i < n; i++) bias[i] = beta * ((const float*)c->tensor->data)[vector ? i : 0];
  return NULL;
}

static const char* describe_gemm(const carnot_problem* problem, gemm_params* p, float* bias,
                                 char* reason, size_t size) {
  const carnot_plan_node* node = anchor_of(problem);
  *p = (gemm_params){.alpha = 1};
  if ((node->op != CARNOT_OP_MATMUL && node->op != CARNOT_OP_GEMM) ||
      node->inputs[0] >= problem->input_count)
    return "";
  const carnot_operand_desc *a = &problem->inputs[node->inputs[0]],
                            *b = &problem->inputs[node->inputs[1]];
  const char* why = carnot_not_f32(a, "the left operand", 1, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  if (!carnot_is_f32_constant(b) || b->rank != 2)
    return "the right operand is no constant float32 matrix";
  if (int_attr(node, "transA")) return "the left operand is transposed";
  if (a->rank == 1 && problem->region->node_count > 1) return "the left operand is a vector";
  p->trans_b = int_attr(node, "transB");
  p->k = b->dims[p->trans_b ? 1 : 0];
  p->n = b->dims[p->trans_b ? 0 : 1];
  p->alpha = (float)float_attr(node, "alpha");
  if (a->dims[a->rank - 1] != p->k && a->dims[a->rank - 1] != -1) return "the sizes do not match";
  if (p->k < 1 || p->n < 1 || p->n > kMaxColumns)
    return carnot_because(reason, size, "%lld columns, takes up to %d", (long long)p->n,
                          kMaxColumns);
  memset(bias, 0, (size_t)p->n * sizeof(*bias));
  bool has_bias =
      node->op == CARNOT_OP_GEMM && node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE;
  why = has_bias ? take_addend(problem, node, p->n, bias) : NULL;
  if (why) return why;
  why =
      carnot_epilogue_plan_make(problem, 1, bias, p->n, &has_bias, &p->epilogue_plan, reason, size);
  p->has_bias = has_bias;
  return why;
}

static const char* gemm_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = anchor_of(problem);
  if ((node->op != CARNOT_OP_MATMUL && node->op != CARNOT_OP_GEMM) ||
      node->inputs[1] >= problem->input_count)
    return "";
  const carnot_operand_desc* b = &problem->inputs[node->inputs[1]];
  int64_t columns = b->rank == 2 ? carnot_max_i64(b->dims[0], b->dims[1]) : 1;
  float* bias = malloc((size_t)carnot_max_i64(1, columns) * sizeof(float));
  if (!bias) return "no memory";
  gemm_params p;
  const char* why = describe_gemm(problem, &p, bias, reason, size);
  free(bias);
  if (!why) want_row_major(problem);
  return why;
}

static const char* reject_as(carnot_problem* problem, carnot_dtype dtype, char* reason,
                             size_t size) {
  const char* why = gemm_reject(problem, reason, size);
  if (why) return why;
  if (dtype == CARNOT_DTYPE_F16 && float_attr(anchor_of(problem), "alpha") != 1)
    return "alpha goes into the weights, which float16 may not hold";
  const carnot_operand_desc* b = &problem->inputs[anchor_of(problem)->inputs[1]];
  return carnot_packed_weights_reject(problem, b->tensor, dtype, reason, size);
}

static const char* gemm_f16_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_as(problem, CARNOT_DTYPE_F16, reason, size);
}
static const char* gemm_bf16_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_as(problem, CARNOT_DTYPE_BF16, reason, size);
}

static carnot_packed_weights_shape weights_shape(const gemm_params* p) {
  return (carnot_packed_weights_shape){1, p->k, p->n};
}

static void pack_wide(const gemm_params* p, const float* b, float* packed) {
  carnot_pack_k1n16_f32(p->k, p->n, b, p->trans_b ? 1 : p->n, p->trans_b ? p->k : 1, packed);
  int64_t count = carnot_packed_k1n16_count(p->k, p->n);
  for (int64_t i = 0; i < count && p->alpha != 1; i++) packed[i] *= p->alpha;
}

static carnot_status* pack_weights(const gemm_params* p, const float* b, void* packed) {
  if (p->weights == CARNOT_DTYPE_F32) {
    pack_wide(p, b, packed);
    return NULL;
  }
  void* wide;
  CARNOT_TRY(carnot_calloc((size_t)carnot_packed_k1n16_count(p->k, p->n), sizeof(float),
                           "weights before packing", &wide));
  pack_wide(p, b, wide);
  carnot_packed_weights_pack((carnot_dtype)p->weights, weights_shape(p), wide, packed);
  free(wide);
  return NULL;
}

static carnot_status* prepare_as(const carnot_problem* problem, carnot_dtype dtype,
                                 carnot_prepared* out) {
  const carnot_plan_node* node = anchor_of(problem);
  const carnot_operand_desc* b = &problem->inputs[node->inputs[1]];
  void *params, *bias, *packed;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(gemm_params), "parameters", &params));
  size_t columns = carnot_align_up((size_t)carnot_max_i64(b->dims[0], b->dims[1]), 16);
  CARNOT_TRY(carnot_arena_try(out->arena, columns, sizeof(float), "a bias", &bias));
  gemm_params* p = params;
  char reason[256];
  const char* why = describe_gemm(problem, p, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  p->weights = (int32_t)dtype;
  size_t bytes = carnot_packed_weights_bytes(dtype, weights_shape(p));
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", &packed));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  CARNOT_TRY(pack_weights(p, b->tensor->data, packed));
  out->params = p;
  out->param_bytes = sizeof(*p);
  out->constant_count = 2;
  out->constants[0].packing = carnot_packed_weights_packing(dtype);
  out->constants[0].data = packed;
  out->constants[0].bytes = bytes;
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = carnot_align_up((size_t)p->n, 16) * sizeof(float);
  out->packed_inputs = (uint64_t)1 << node->inputs[1];
  if (node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE)
    out->packed_inputs |= (uint64_t)1 << node->inputs[2];
  return NULL;
}

static carnot_status* gemm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_F32, out);
}
static carnot_status* gemm_f16_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_F16, out);
}
static carnot_status* gemm_bf16_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_BF16, out);
}

static carnot_status* check_common(const carnot_step_view* step, uint32_t constants) {
  CARNOT_CHECK(step->param_bytes == sizeof(gemm_params) && step->constant_count == constants,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %u",
               step->param_bytes, step->constant_count, sizeof(gemm_params), constants);
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK((node->op == CARNOT_OP_MATMUL || node->op == CARNOT_OP_GEMM) &&
                   node->inputs[0] < step->input_count && node->inputs[1] < step->input_count,
               INVALID_MODEL, "the step holds no matrix product");
  return carnot_epilogue_plan_validate(&((const gemm_params*)step->params)->epilogue_plan,
                                       step->input_count);
}

static carnot_status* gemm_validate(const carnot_step_view* step) {
  CARNOT_TRY(check_common(step, 2));
  const gemm_params* p = step->params;
  CARNOT_CHECK(p->k >= 1 && p->n >= 1 && p->k < (int64_t)1 << 31 && p->n <= kMaxColumns,
               INVALID_MODEL, "a matrix of [%lld,%lld]", (long long)p->k, (long long)p->n);
  CARNOT_CHECK(carnot_packed_weights_known((carnot_dtype)p->weights), INVALID_MODEL,
               "packed weights of type %d", p->weights);
  size_t wanted = carnot_packed_weights_bytes((carnot_dtype)p->weights, weights_shape(p));
  CARNOT_CHECK(
      step->constant_bytes[0] == wanted && step->constant_bytes[1] >= (size_t)p->n * sizeof(float),
      INVALID_MODEL, "packed weights of %zu bytes, a bias of %zu", step->constant_bytes[0],
      step->constant_bytes[1]);
  return NULL;
}

static bool gemm_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const gemm_params* p = step->params;
  if (input == node->inputs[0] || carnot_epilogue_plan_uses_input(&p->epilogue_plan, input))
    return true;
  return !(node->inputs[1] == input || (node->input_count > 2 && node->inputs[2] == input));
}

typedef struct gemm_state {
  carnot_work_partition partition;
  int64_t batch, m, n, k;
  int64_t lda, a_stride, b_rs, b_cs;
  int64_t batch_dims[CARNOT_MAX_RANK], a_batch[CARNOT_MAX_RANK], b_batch[CARNOT_MAX_RANK];
  int batch_rank;
  bool swap_a;  // the left operand is stored transposed
} gemm_state;

static carnot_status* gemm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  gemm_state* state = memory;
  const gemm_params* p = step->params;
  *out_workspace_bytes = 0;
  const carnot_operand* a = &inputs[step->region->nodes[0].inputs[0]];
  CARNOT_CHECK(a->format.dtype == CARNOT_DTYPE_F32 && outputs[0].format.dtype == CARNOT_DTYPE_F32 &&
                   a->rank >= 1 && outputs[0].rank >= 1 && a->dims[a->rank - 1] == p->k &&
                   outputs[0].dims[outputs[0].rank - 1] == p->n && carnot_cpu_is_dense(a) &&
                   carnot_cpu_is_dense(&outputs[0]),
               INVALID_ARGUMENT, "operands do not fit packed weights of [%lld,%lld]",
               (long long)p->k, (long long)p->n);
  state->m = carnot_dims_count(a->dims, a->rank - 1);
  CARNOT_CHECK(state->m == carnot_dims_count(outputs[0].dims, outputs[0].rank - 1),
               INVALID_ARGUMENT, "%lld rows give others", (long long)state->m);
  state->partition = carnot_work_partition_make(step->tactic->isa, state->m, p->n, p->k);
  return carnot_epilogue_plan_check_shapes(&p->epilogue_plan, inputs, &outputs[0], p->n);
}

typedef struct gemm_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const gemm_params* params;
  const gemm_state* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} gemm_run;

static void gemm_part(void* argument, int64_t part) {
  const gemm_run* run = argument;
  const gemm_params* p = run->params;
  carnot_gemm_f32 gemm = {.m = run->state->m, .n = p->n, .k = p->k, .lda = p->k, .ldc = p->n};
  gemm.a = run->inputs[run->step->region->nodes[0].inputs[0]].data;
  gemm.b = run->step->constants[0];
  gemm.c = run->outputs[0].data;
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &gemm.epilogue);
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->state->partition, part, &m0, &m1, &n0, &n1);
  carnot_packed_weights_gemm(run->kernels, (carnot_dtype)p->weights)(&gemm, m0, m1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, gemm.c, p->n, m0, m1, n0,
                           n1);
}

static carnot_status* gemm_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  gemm_run run = {carnot_cpu_kernels_of(step->tactic->isa),
                  step,
                  step->params,
                  state,
                  inputs,
                  outputs,
                  workspace};
  carnot_executor_parallel(executor, carnot_work_partition_count(&run.state->partition), gemm_part,
                           &run);
  return NULL;
}

static void work_with(const carnot_problem* problem, double weight_bytes, double* out_flops,
                      double* out_bytes) {
  const carnot_plan_node* node = anchor_of(problem);
  const carnot_operand_desc *a = &problem->inputs[node->inputs[0]],
                            *b = &problem->inputs[node->inputs[1]];
  const carnot_operand_desc* c = &problem->outputs[0];
  double out = (double)carnot_dims_count(c->dims, c->rank);
  double k = (double)a->dims[int_attr(node, "transA") && a->rank > 1 ? a->rank - 2 : a->rank - 1];
  *out_flops = 2 * out * k;
  *out_bytes = 4 * (out + (double)carnot_dims_count(a->dims, a->rank)) +
               weight_bytes * (double)carnot_dims_count(b->dims, b->rank);
}

static void product_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  work_with(problem, 4, out_flops, out_bytes);
}
static void half_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  work_with(problem, 2, out_flops, out_bytes);
}

// ---- two activations ----

static const char* matmul_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = anchor_of(problem);
  if (node->op != CARNOT_OP_MATMUL || node->inputs[0] >= problem->input_count ||
      node->inputs[1] >= problem->input_count)
    return "the region does not begin with a MatMul";
  const char* why = carnot_not_f32(&problem->inputs[node->inputs[0]], "the left operand", 2,
                                   CARNOT_MAX_RANK, reason, size);
  if (!why)
    why = carnot_not_f32(&problem->inputs[node->inputs[1]], "the right operand", 2, CARNOT_MAX_RANK,
                         reason, size);
  if (why) return why;
  if (int_attr(node, "transA")) return "the left operand is transposed";
  if (float_attr(node, "alpha") != 1) return "the product of activations is scaled";
  carnot_epilogue_plan epilogue_plan;
  bool has_bias = false;
  const carnot_operand_desc* y = &problem->outputs[0];
  why = carnot_epilogue_plan_make(problem, 1, NULL, y->dims[y->rank - 1], &has_bias, &epilogue_plan,
                                  reason, size);
  if (!why) want_row_major(problem);
  return why;
}

static carnot_status* matmul_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_plan_node* node = anchor_of(problem);
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(gemm_params), "parameters", &params));
  gemm_params* p = params;
  p->alpha = (float)float_attr(node, "alpha");
  p->trans_b = int_attr(node, "transB");
  bool has_bias = false;
  char reason[256];
  const carnot_operand_desc* y = &problem->outputs[0];
  const char* why = carnot_epilogue_plan_make(problem, 1, NULL, y->dims[y->rank - 1], &has_bias,
                                              &p->epilogue_plan, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = p;
  out->param_bytes = sizeof(*p);
  return NULL;
}

static carnot_status* matmul_validate(const carnot_step_view* step) {
  CARNOT_TRY(check_common(step, 0));
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
  gemm_state* state = memory;
  const gemm_params* p = step->params;
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand *a = &inputs[node->inputs[0]], *b = &inputs[node->inputs[1]],
                       *c = &outputs[0];
  CARNOT_CHECK(a->format.dtype == CARNOT_DTYPE_F32 && b->format.dtype == CARNOT_DTYPE_F32 &&
                   c->format.dtype == CARNOT_DTYPE_F32 && a->rank >= 2 && b->rank >= 2 &&
                   c->rank >= 2 && carnot_cpu_is_dense(c),
               INVALID_ARGUMENT, "operands of a product are no float32 matrices");
  state->m = a->dims[a->rank - 2];
  state->k = a->dims[a->rank - 1];
  int row = p->trans_b ? b->rank - 1 : b->rank - 2, column = p->trans_b ? b->rank - 2 : b->rank - 1;
  state->n = b->dims[column];
  CARNOT_CHECK(b->dims[row] == state->k && c->dims[c->rank - 2] == state->m &&
                   c->dims[c->rank - 1] == state->n &&
                   (a->strides[a->rank - 1] == 1 || state->k == 1),
               INVALID_ARGUMENT, "the sizes of a product do not match");
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
  return carnot_epilogue_plan_check_shapes(&p->epilogue_plan, inputs, c, state->n);
}

static void matmul_part(void* argument, int64_t part) {
  const gemm_run* run = argument;
  const gemm_state* state = run->state;
  int64_t per_batch = carnot_work_partition_count(&state->partition), batch = part / per_batch,
          rest = batch, a_at = 0, b_at = 0;
  for (int d = state->batch_rank - 1; d >= 0; d--) {
    int64_t index = rest % state->batch_dims[d];
    rest /= state->batch_dims[d];
    a_at += index * state->a_batch[d];
    b_at += index * state->b_batch[d];
  }
  const carnot_plan_node* node = &run->step->region->nodes[0];
  carnot_matmul_f32 product = {.rs = state->b_rs, .cs = state->b_cs};
  product.gemm = (carnot_gemm_f32){
      .m = state->m, .n = state->n, .k = state->k, .lda = state->lda, .ldc = state->n};
  product.gemm.a = (const float*)run->inputs[node->inputs[0]].data + a_at;
  product.gemm.b = (const float*)run->inputs[node->inputs[1]].data + b_at;
  float* c = run->outputs[0].data;
  product.gemm.c = c + batch * state->m * state->n;
  product.workspace = run->workspace + part * carnot_matmul_f32_workspace(state->k);
  const carnot_epilogue_plan* epilogue_plan = &run->params->epilogue_plan;
  carnot_epilogue_plan_bind(epilogue_plan, run->inputs, NULL, &product.gemm.epilogue);
  if (product.gemm.epilogue.residual)
    product.gemm.epilogue.residual += batch * state->m * product.gemm.epilogue.residual_ld;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&state->partition, part % per_batch, &m0, &m1, &n0, &n1);
  // The tactics of the levels with BF16 dot products compute in BF16.
  bool half = run->step->tactic->isa >= CARNOT_ISA_AVX512_BF16;
  (half ? run->kernels->matmul_bf16 : run->kernels->matmul_f32)(&product, m0, m1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, epilogue_plan, run->inputs, c, state->n,
                           batch * state->m + m0, batch * state->m + m1, n0, n1);
}

static carnot_status* matmul_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  gemm_run run = {carnot_cpu_kernels_of(step->tactic->isa),
                  step,
                  step->params,
                  state,
                  inputs,
                  outputs,
                  workspace};
  carnot_executor_parallel(executor,
                           carnot_work_partition_count(&run.state->partition) * run.state->batch,
                           matmul_part, &run);
  return NULL;
}

#define GEMM_TACTIC                                                                    \
  .anchor = CARNOT_OP_COUNT, .validate = gemm_validate, .uses_input = gemm_uses_input, \
  .configure = gemm_configure, .run = gemm_run_all
CARNOT_CPU_TACTICS(gemm_f32, GEMM_TACTIC, .reject = gemm_reject, .prepare = gemm_prepare,
                   .work = product_work);
CARNOT_CPU_F16_TACTICS(gemm_f16, GEMM_TACTIC, .reject = gemm_f16_reject,
                       .prepare = gemm_f16_prepare, .work = half_work);
CARNOT_CPU_BF16_TACTICS(gemm_bf16, GEMM_TACTIC, .reject = gemm_bf16_reject,
                        .prepare = gemm_bf16_prepare, .work = half_work);
#define MATMUL_TACTIC                                                             \
  .anchor = CARNOT_OP_MATMUL, .reject = matmul_reject, .prepare = matmul_prepare, \
  .validate = matmul_validate, .configure = matmul_configure, .run = matmul_run,  \
  .work = product_work
CARNOT_CPU_TACTICS(matmul_f32, MATMUL_TACTIC);
CARNOT_CPU_NATIVE_BF16_TACTICS(matmul_bf16, MATMUL_TACTIC);
