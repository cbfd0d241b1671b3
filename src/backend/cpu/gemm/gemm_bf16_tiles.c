// GEMM by AMX tiles with packed constant weights; operands and results are float32 or BF16 in
// memory. It is the 1x1 convolution over one row of pixels.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/gemm.h"

enum { kLeastRows = 16, kRowUnit = 32 };

static carnot_conv2d_bf16_tiles call_of(int64_t m, int64_t k, int64_t n, bool a_is_bf16) {
  carnot_conv2d_bf16_tiles call = carnot_conv2d_bf16_tiles_of_gemm(m, k, n, /*lda=*/k, /*ldc=*/n);
  call.src_is_bf16 = a_is_bf16;
  return call;
}

static size_t scratch_of(const carnot_conv2d_bf16_tiles* call) {
  return carnot_align_up((size_t)carnot_conv2d_bf16_tiles_scratch(call), 64);
}

static const char* gemm_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_gemm_reject(problem, reason, size);
  if (why) return why;
  carnot_gemm_problem gemm;
  why = carnot_gemm_read(problem->region, problem->input_count, &gemm);
  if (why) return why;
  if (carnot_cpu_gemm_rounds_residual(problem, gemm.a))
    return "the sum with a residual stays float32";
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

static const carnot_operand* left_operand(const carnot_step_view* step,
                                          const carnot_operand* inputs) {
  return &inputs[step->region->nodes[0].inputs[0]];
}

static bool is_bf16(const carnot_operand* t) { return t->format.dtype == CARNOT_DTYPE_BF16; }

// Whether float32 rows are rounded before the parts begin, each of which would round them again:
// rows of whole tiles are then read in place.
static bool rounds_first(const carnot_operand* a, int64_t k) { return !is_bf16(a) && k % 32 == 0; }

static size_t rounded_bytes(const carnot_operand* a, int64_t m, int64_t k) {
  return rounds_first(a, k) ? carnot_align_up((size_t)(m * k) * sizeof(uint16_t), 64) : 0;
}

// BF16 rows are read in place, mostly from L2; float32 rows are rounded by every part.
static carnot_work_partition partition_of(int threads, int64_t m, int64_t k, int64_t n,
                                          bool a_is_bf16) {
  const double a_bytes = (double)(m * k) * (a_is_bf16 ? 1 : 6);
  return carnot_work_partition_make_least(threads, m, n, k, kRowUnit, a_bytes, (double)(k * n) * 2);
}

static carnot_status* gemm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  CARNOT_TRY(carnot_cpu_gemm_configure(step, inputs, outputs, memory, out_workspace_bytes));
  const carnot_cpu_gemm_params* p = step->params;
  carnot_cpu_gemm_state* state = memory;
  const carnot_operand* a = left_operand(step, inputs);
  const bool a_is_bf16 = is_bf16(a) || rounds_first(a, p->k);
  state->partition = partition_of(step->threads, state->m, p->k, p->n, a_is_bf16);
  const carnot_conv2d_bf16_tiles call = call_of(state->m, p->k, p->n, a_is_bf16);
  CARNOT_CHECK(p->weights == CARNOT_WEIGHTS_BF16_TILES && carnot_conv2d_bf16_tiles_fits(&call),
               INVALID_MODEL, "rows of %lld elements do not fit in L2", (long long)p->k);
  *out_workspace_bytes = rounded_bytes(a, state->m, p->k) +
                         scratch_of(&call) * (size_t)carnot_work_partition_count(&state->partition);
  return NULL;
}

static void gemm_part(void* argument, int64_t part) {
  const carnot_cpu_gemm_run* run = argument;
  const carnot_cpu_gemm_params* p = run->params;
  const carnot_epilogue_plan* plan = &p->epilogue_plan;
  const carnot_operand *a = left_operand(run->step, run->inputs), *y = &run->outputs[0];
  const bool rounded = rounds_first(a, p->k);
  carnot_conv2d_bf16_tiles call = call_of(run->state->m, p->k, p->n, is_bf16(a) || rounded);
  call.dst_is_bf16 = is_bf16(y);
  call.scratch = (char*)run->workspace + rounded_bytes(a, run->state->m, p->k) +
                 (size_t)carnot_executor_scratch(part) * scratch_of(&call);
  call.conv.src = rounded ? run->workspace : a->data;
  call.conv.dst = y->data;
  call.conv.weights = run->step->constants[0];
  carnot_epilogue_plan_bind(plan, run->inputs, p->has_bias ? run->step->constants[1] : NULL,
                            &call.conv.epilogue);
  call.residual_is_bf16 = plan->residual >= 0 && is_bf16(&run->inputs[plan->residual]);
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->state->partition, part, &m0, &m1, &n0, &n1);
  run->kernels->conv2d_bf16_tiles(&call, m0, m1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, plan, run->inputs, y->data, p->n, m0, m1, n0, n1);
}

typedef struct rounding {
  const carnot_cpu_kernels* kernels;
  const float* src;
  uint16_t* dst;
  int64_t count, per_part;
} rounding;

static void round_part(void* argument, int64_t part) {
  const rounding* r = argument;
  const int64_t at = part * r->per_part;
  r->kernels->bf16_of_f32(carnot_min_i64(r->per_part, r->count - at), r->src + at, r->dst + at);
}

static carnot_status* gemm_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  const int64_t m = ((const carnot_cpu_gemm_state*)state)->m,
                k = ((const carnot_cpu_gemm_params*)step->params)->k;
  const carnot_operand* a = left_operand(step, inputs);
  if (rounds_first(a, k)) {
    rounding r = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .src = a->data,
                  .dst = workspace,
                  .count = m * k};
    r.per_part = carnot_rows_per_part(r.count, /*row_elements=*/1);
    carnot_executor_parallel(executor, carnot_ceildiv(r.count, r.per_part), round_part, &r);
  }
  return carnot_cpu_gemm_run_parts(step, state, inputs, outputs, workspace, executor, gemm_part);
}

static bool gemm_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const carnot_cpu_gemm_params* p = step->params;
  return carnot_epilogue_plan_may_share(&p->epilogue_plan, step, input, output);
}

static void gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_cpu_gemm_work(problem, /*b_bytes=*/2, out_flops, out_bytes);
}

CARNOT_CPU_TACTIC(gemm_bf16_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,
                  .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true, .anchor = CARNOT_OP_COUNT,
                  .reject = gemm_reject, .prepare = carnot_cpu_gemm_prepare,
                  .validate = carnot_cpu_gemm_validate_packed,
                  .uses_input = carnot_cpu_gemm_uses_input, .configure = gemm_configure,
                  .run = gemm_run_all, .may_share = gemm_may_share, .work = gemm_work);
