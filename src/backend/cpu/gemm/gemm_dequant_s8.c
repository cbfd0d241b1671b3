// GEMM of activations that the step rounds to 8 bits, a scale for each block of a row, by weights
// of 2, 4 or 8 bits. Only where the model asks for it: attribute activation_bits of MatMul is 8.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/gemm_dequant.h"
#include "backend/cpu/quantize/int8_region.h"
#include "tactic/problem/weight_only.h"

static const char* s8_reject(carnot_problem* problem, char* reason, size_t size) {
  uint32_t anchor;
  const carnot_plan_node* node = carnot_weight_only_anchor(problem->region, &anchor);
  if (!node) return "";
  if (node->op != CARNOT_OP_MATMUL ||
      carnot_attr_int(carnot_op_get(node->op), &node->attrs, "activation_bits") != 8)
    return "the model does not ask for activations in 8 bits";
  return carnot_cpu_dequant_reject(problem, reason, size);
}

// Rounded rows in the workspace: numbers, then scales and sums.
static carnot_dequant_rows rows_in(const carnot_cpu_dequant_params* p, int64_t m, void* workspace,
                                   size_t* out_bytes) {
  const carnot_dequant_shape shape = carnot_cpu_dequant_shape(p);
  const size_t numbers = carnot_align_up((size_t)(m * carnot_dequant_row_bytes(&shape)), 64);
  const size_t scales = (size_t)(m * carnot_dequant_blocks(&shape));
  *out_bytes = numbers + 2 * scales * sizeof(float);
  if (!workspace) return (carnot_dequant_rows){NULL, NULL, NULL};
  float* first = (float*)((char*)workspace + numbers);
  return (carnot_dequant_rows){workspace, first, first + scales};
}

static carnot_status* s8_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* memory,
                                   size_t* out_workspace_bytes) {
  carnot_cpu_gemm_state* state = memory;
  const carnot_cpu_dequant_params* p = step->params;
  CARNOT_TRY(carnot_cpu_gemm_configure_rows(step, &p->gemm, &inputs[p->a], &outputs[0], state));
  rows_in(p, state->m, NULL, out_workspace_bytes);
  return carnot_epilogue_plan_check(step, &p->gemm.epilogue_plan, inputs, &outputs[0], p->gemm.n);
}

typedef struct s8_run {
  carnot_cpu_gemm_run run;
  carnot_dequant_rows rows;
  int64_t rows_per_part;
} s8_run;

static void round_part(void* argument, int64_t part) {
  const s8_run* r = argument;
  const carnot_cpu_dequant_params* p = r->run.step->params;
  const carnot_dequant_shape shape = carnot_cpu_dequant_shape(p);
  const int64_t begin = part * r->rows_per_part,
                end = carnot_min_i64(begin + r->rows_per_part, r->run.state->m);
  r->run.kernels->round_rows_s8(&shape, r->run.inputs[p->a].data, p->gemm.k, begin, end, &r->rows);
}

static void gemm_part(void* argument, int64_t part) {
  const s8_run* r = argument;
  const carnot_cpu_dequant_params* p = r->run.step->params;
  const carnot_gemm_dequant_f32 call = carnot_cpu_dequant_call(&r->run);
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&r->run.state->partition, part, &m0, &m1, &n0, &n1);
  r->run.kernels->gemm_dequant_s8(&call, &r->rows, m0, m1, n0, n1);
  carnot_epilogue_plan_run(r->run.kernels, &p->gemm.epilogue_plan, r->run.inputs, call.gemm.c,
                           p->gemm.n, m0, m1, n0, n1);
}

static carnot_status* s8_run_all(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  const carnot_cpu_dequant_params* p = step->params;
  const carnot_cpu_gemm_state* s = state;
  size_t bytes;
  s8_run r = {.run = {.kernels = carnot_int8_kernels(step),
                      .step = step,
                      .params = &p->gemm,
                      .state = s,
                      .inputs = inputs,
                      .outputs = outputs},
              .rows = rows_in(p, s->m, workspace, &bytes),
              .rows_per_part = carnot_rows_per_part(s->m, p->gemm.k)};
  carnot_executor_parallel(executor, carnot_ceildiv(s->m, r.rows_per_part), round_part, &r);
  carnot_executor_parallel(executor, carnot_work_partition_count(&s->partition), gemm_part, &r);
  return NULL;
}

CARNOT_CPU_TACTICS(gemm_dequant_s8, .anchor = CARNOT_OP_DEQUANTIZE_LINEAR, .reject = s8_reject,
                   .prepare = carnot_cpu_dequant_prepare, .validate = carnot_cpu_dequant_validate,
                   .uses_input = carnot_cpu_dequant_uses_input, .configure = s8_configure,
                   .run = s8_run_all, .work = carnot_cpu_dequant_work);
