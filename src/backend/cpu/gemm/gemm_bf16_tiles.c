// GEMM by AMX tiles with packed constant weights; operands and results are float32 or BF16 in
// memory. It is the 1x1 convolution over one row of pixels.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/gemm.h"

enum { kLeastRows = 16, kRowUnit = 32 };

static carnot_conv2d_bf16_tiles call_of(int64_t m, int64_t k, int64_t n, bool a_is_bf16) {
  return (carnot_conv2d_bf16_tiles){.conv = {.n = 1,
                                             .h = 1,
                                             .w = m,
                                             .c = k,
                                             .p = 1,
                                             .q = m,
                                             .k = n,
                                             .r = 1,
                                             .s = 1,
                                             .stride_h = 1,
                                             .stride_w = 1,
                                             .dilation_h = 1,
                                             .dilation_w = 1,
                                             .src_n = m * k,
                                             .src_h = m * k,
                                             .src_w = k,
                                             .ld = n},
                                    .src_is_bf16 = a_is_bf16};
}

static size_t scratch_of(const carnot_conv2d_bf16_tiles* call) {
  return carnot_align_up((size_t)carnot_conv2d_bf16_tiles_scratch(call), 64);
}

// What layers add to a residual may be far smaller than the residual, as in transformers with
// outlier channels: the sum stays float32. The residual itself may be a BF16 norm.
static bool rounds_residual(const carnot_problem* problem, uint32_t a) {
  const carnot_operand_desc* y = &problem->outputs[0];
  bool adds = false;
  for (uint32_t i = 0; i < problem->input_count; i++)
    adds |= i != a && !problem->inputs[i].is_constant && problem->inputs[i].rank == y->rank;
  return problem->region->node_count > 1 && adds && y->format.dtype == CARNOT_DTYPE_BF16;
}

static const char* gemm_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_gemm_reject(problem, reason, size);
  if (why) return why;
  carnot_gemm_problem gemm;
  why = carnot_gemm_read(problem->region, problem->input_count, &gemm);
  if (why) return why;
  if (rounds_residual(problem, gemm.a)) return "the sum with a residual stays float32";
  const carnot_operand_desc* a = &problem->inputs[gemm.a];
  const int64_t k = a->dims[a->rank - 1];
  int64_t rows = 1;
  for (int d = 0; d + 1 < a->rank; d++) rows = a->dims[d] < 0 || rows < 0 ? -1 : rows * a->dims[d];
  if (rows >= 0 && rows < kLeastRows)
    return carnot_because(reason, size, "%lld rows, takes %d and more", (long long)rows,
                          kLeastRows);
  const carnot_conv2d_bf16_tiles call =
      call_of(INT32_MAX, k, 16, a->format.dtype == CARNOT_DTYPE_BF16);
  return k < 1 || carnot_conv2d_bf16_tiles_fits(&call)
             ? NULL
             : carnot_because(reason, size, "rows of %lld elements do not fit in L2", (long long)k);
}

// BF16 rows are read in place, mostly from L2; float32 rows are rounded by every part.
static carnot_work_partition partition_of(int64_t m, int64_t k, int64_t n, bool a_is_bf16) {
  const double a_bytes = (double)(m * k) * (a_is_bf16 ? 1 : 6);
  return carnot_work_partition_make_least(m, n, k, kRowUnit, a_bytes, (double)(k * n) * 2);
}

static carnot_status* gemm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  CARNOT_TRY(carnot_cpu_gemm_configure(step, inputs, outputs, memory, out_workspace_bytes));
  const carnot_cpu_gemm_params* p = step->params;
  carnot_cpu_gemm_state* state = memory;
  const carnot_operand* a = &inputs[step->region->nodes[0].inputs[0]];
  const bool a_is_bf16 = a->format.dtype == CARNOT_DTYPE_BF16;
  state->partition = partition_of(state->m, p->k, p->n, a_is_bf16);
  const carnot_conv2d_bf16_tiles call = call_of(state->m, p->k, p->n, a_is_bf16);
  CARNOT_CHECK(p->weights == CARNOT_WEIGHTS_BF16_TILES && carnot_conv2d_bf16_tiles_fits(&call),
               INVALID_MODEL, "rows of %lld elements do not fit in L2", (long long)p->k);
  *out_workspace_bytes = scratch_of(&call) * (size_t)carnot_work_partition_count(&state->partition);
  return NULL;
}

static void gemm_part(void* argument, int64_t part) {
  const carnot_cpu_gemm_run* run = argument;
  const carnot_cpu_gemm_params* p = run->params;
  const carnot_epilogue_plan* plan = &p->epilogue_plan;
  const carnot_operand *a = &run->inputs[run->step->region->nodes[0].inputs[0]],
                       *y = &run->outputs[0];
  carnot_conv2d_bf16_tiles call =
      call_of(run->state->m, p->k, p->n, a->format.dtype == CARNOT_DTYPE_BF16);
  call.dst_is_bf16 = y->format.dtype == CARNOT_DTYPE_BF16;
  call.scratch = (char*)run->workspace + (size_t)part * scratch_of(&call);
  call.conv.src = a->data;
  call.conv.dst = y->data;
  call.conv.weights = run->step->constants[0];
  carnot_epilogue_plan_bind(plan, run->inputs, p->has_bias ? run->step->constants[1] : NULL,
                            &call.conv.epilogue);
  call.residual_is_bf16 =
      plan->residual >= 0 && run->inputs[plan->residual].format.dtype == CARNOT_DTYPE_BF16;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->state->partition, part, &m0, &m1, &n0, &n1);
  run->kernels->conv2d_bf16_tiles(&call, m0, m1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, plan, run->inputs, y->data, p->n, m0, m1, n0, n1);
}

static carnot_status* gemm_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  return carnot_cpu_gemm_run_parts(step, state, inputs, outputs, workspace, executor, gemm_part);
}

static void gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_cpu_gemm_work(problem, /*b_bytes=*/2, out_flops, out_bytes);
}

CARNOT_CPU_TACTIC(gemm_bf16_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,
                  .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true, .anchor = CARNOT_OP_COUNT,
                  .reject = gemm_reject, .prepare = carnot_cpu_gemm_prepare,
                  .validate = carnot_cpu_gemm_validate_packed,
                  .uses_input = carnot_cpu_gemm_uses_input, .configure = gemm_configure,
                  .run = gemm_run_all, .work = gemm_work);
