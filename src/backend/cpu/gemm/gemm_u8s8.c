// Quantized GEMM with constant weights, accumulated in INT32, with its whole epilogue, by dot
// products of rows or AMX tiles: MatMul and Gemm of a matrix [.., M,K] by [K,N] or its transpose.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/quantize/int8_region.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"

enum { kMaxColumns = 1 << 24 };

// Stored in engines.
typedef struct gemm_params {
  int64_t k, n;
  int32_t trans_b, reserved;
  carnot_int8_region region;
} gemm_params;

static carnot_quantized_shape weights_of(const gemm_params* p) {
  return (carnot_quantized_shape){.axis = p->trans_b ? 0 : 1, .channels = p->n, .depth = p->k};
}

static carnot_int8_weights_shape shape_of(const gemm_params* p) {
  return (carnot_int8_weights_shape){1, 1, p->k, p->n};
}

static const char* read_problem(const carnot_problem* problem, carnot_quantized_region* view,
                                gemm_params* out, char* reason, size_t size) {
  uint32_t anchor;
  const carnot_plan_node* node = carnot_quantized_anchor(problem->region, &anchor);
  if (!node || (node->op != CARNOT_OP_MATMUL && node->op != CARNOT_OP_GEMM)) return "";
  const uint32_t inputs = problem->input_count;
  const carnot_quantized_operand a = carnot_quantized_operand_of(problem->region, anchor, 0,
                                                                 inputs),
                                 b = carnot_quantized_operand_of(problem->region, anchor, 1,
                                                                 inputs);
  if (a.value == CARNOT_PLAN_NONE || b.value == CARNOT_PLAN_NONE || b.scale == CARNOT_PLAN_NONE)
    return "the matrices are not both quantized";
  const carnot_operand_desc *at = &problem->inputs[a.value], *bt = &problem->inputs[b.value];
  if (at->rank < 1 || bt->rank != 2 || !carnot_is_known(bt))
    return "the second operand is no constant matrix";
  const carnot_op_row* row = carnot_op_get(node->op);
  if (carnot_attr_int(row, &node->attrs, "transA")) return "the first operand is transposed";
  *out = (gemm_params){.trans_b = carnot_attr_int(row, &node->attrs, "transB") != 0};
  out->k = bt->dims[out->trans_b ? 1 : 0], out->n = bt->dims[out->trans_b ? 0 : 1];
  if (out->k < 1 || out->n < 1 || out->n > kMaxColumns || at->dims[at->rank - 1] != out->k)
    return carnot_because(reason, size, "rows of %lld meet weights of [%lld,%lld]",
                          (long long)at->dims[at->rank - 1], (long long)out->k, (long long)out->n);
  const carnot_quantized_shape weights = weights_of(out);
  return carnot_int8_region_read(problem, /*channel_axis=*/1, &weights, view, &out->region, reason,
                                 size);
}

static const char* gemm_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_quantized_region view;
  gemm_params p;
  const char* why = read_problem(problem, &view, &p, reason, size);
  if (!why && carnot_int8_uses_tiles(problem->tactic))
    why = carnot_int8_gemm_tiles_reject(&problem->inputs[p.region.x], reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* make_constants(const carnot_problem* problem,
                                     const carnot_quantized_region* view, gemm_params* p,
                                     int8_t* centered, carnot_prepared* out) {
  const carnot_quantized_shape weights = weights_of(p);
  const carnot_int8_weights_shape shape = shape_of(p);
  const int32_t shift = carnot_int8_shift(problem->tactic, p->region.x_signed);
  CARNOT_TRY(carnot_int8_region_prepare(problem, view, &p->region, &weights, shift, centered, out));
  return carnot_int8_pack(problem->tactic, &shape, centered, p->trans_b ? p->k : 1, 0,
                          p->trans_b ? 1 : p->n, CARNOT_INT8_WEIGHTS, out);
}

static carnot_status* gemm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *centered;
  char reason[256];
  carnot_quantized_region view;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(gemm_params), "parameters", &params));
  const char* why = read_problem(problem, &view, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  gemm_params* p = params;
  CARNOT_TRY(carnot_calloc((size_t)(p->k * p->n), 1, "weights before packing", &centered));
  carnot_status* status = make_constants(problem, &view, p, centered, out);
  free(centered);
  out->params = params;
  out->param_bytes = sizeof(gemm_params);
  return status;
}

static carnot_status* gemm_validate(const carnot_step_view* step) {
  CARNOT_CHECK(
      step->param_bytes == sizeof(gemm_params) && step->constant_count == CARNOT_INT8_CONSTANTS,
      INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %d",
      step->param_bytes, step->constant_count, sizeof(gemm_params), CARNOT_INT8_CONSTANTS);
  const gemm_params* p = step->params;
  CARNOT_CHECK(p->k >= 1 && p->n >= 1 && p->k < (int64_t)1 << 31 && p->n <= kMaxColumns,
               INVALID_MODEL, "weights of [%lld,%lld]", (long long)p->k, (long long)p->n);
  const carnot_int8_weights_shape shape = shape_of(p);
  CARNOT_CHECK(
      step->constant_bytes[CARNOT_INT8_WEIGHTS] == carnot_int8_group_bytes(step->tactic, &shape),
      INVALID_MODEL, "packed weights of %zu bytes for [%lld,%lld]",
      step->constant_bytes[CARNOT_INT8_WEIGHTS], (long long)p->k, (long long)p->n);
  return carnot_int8_region_validate(&p->region, step, p->n);
}

static bool gemm_uses_input(const carnot_step_view* step, uint32_t input) {
  const gemm_params* p = step->params;
  return (int64_t)input == p->region.x || carnot_int8_region_uses(&p->region, input);
}

static carnot_status* gemm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  const gemm_params* p = step->params;
  const carnot_operand *a = &inputs[p->region.x], *y = &outputs[0];
  *out_workspace_bytes = 0;
  CARNOT_CHECK(a->rank >= 1 && y->rank >= 1 && a->dims[a->rank - 1] == p->k &&
                   y->dims[y->rank - 1] == p->n && carnot_cpu_is_dense(a) && carnot_cpu_is_dense(y),
               INVALID_ARGUMENT, "operands do not fit packed weights of [%lld,%lld]",
               (long long)p->k, (long long)p->n);
  const int64_t m = carnot_dims_count(a->dims, a->rank - 1);
  CARNOT_CHECK(m == carnot_dims_count(y->dims, y->rank - 1), INVALID_ARGUMENT,
               "%lld rows give %lld", (long long)m,
               (long long)carnot_dims_count(y->dims, y->rank - 1));
  carnot_work_partition* partition = memory;
  *partition = carnot_int8_gemm_partition(step, m, p->n, p->k);
  *out_workspace_bytes = carnot_int8_gemm_workspace(step->tactic, partition, p->k);
  return carnot_int8_region_configure(&p->region, /*channel_axis=*/1, inputs, y);
}

static carnot_status* gemm_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  const gemm_params* p = step->params;
  const carnot_work_partition* partition = memory;
  const carnot_gemm_u8s8 gemm = {
      .m = partition->m,
      .n = p->n,
      .k = p->k,
      .a = inputs[p->region.x].data,
      .lda = p->k,
      .a_signed = p->region.x_signed,
      .b = step->constants[CARNOT_INT8_WEIGHTS],
      .dst = outputs[0].data,
      .ld = p->n,
      .epilogue = carnot_int8_region_epilogue(&p->region, /*channel_axis=*/1, step, inputs)};
  carnot_int8_gemm_run(step, partition, &gemm, workspace, executor);
  return NULL;
}

static bool gemm_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const gemm_params* p = step->params;
  return !carnot_int8_uses_tiles(step->tactic) &&
         carnot_int8_region_may_share(&p->region, step, input, output);
}

#define GEMM_TACTIC                                                                \
  .reject = gemm_reject, .prepare = gemm_prepare, .validate = gemm_validate,       \
  .uses_input = gemm_uses_input, .configure = gemm_configure, .run = gemm_run_all, \
  .may_share = gemm_may_share, .work = carnot_int8_region_work
CARNOT_CPU_TACTICS(gemm_u8s8, GEMM_TACTIC, .anchor = CARNOT_OP_COUNT);
CARNOT_CPU_TACTIC(gemm_s8_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  .config = carnot_int8_tiles, GEMM_TACTIC, .anchor = CARNOT_OP_COUNT);
