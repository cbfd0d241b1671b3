// GEMM of float32 activations by weights of 2, 4 or 8 bits, which stay packed (weight_only.h).
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/gemm_dequant.h"
#include "tactic/problem/weight_only.h"

enum { kMaxColumns = 1 << 24 };

// One zero point for all weights, or several.
static void read_zeros(const carnot_problem* problem, const carnot_weight_only_problem* view,
                       carnot_cpu_dequant_params* out) {
  const int64_t blocks = carnot_ceildiv(view->k, view->block);
  out->zero = carnot_weight_only_zero(problem, view, 0, 0);
  out->has_zeros = 0;
  for (int64_t n = 0; n < view->n && !out->has_zeros; n++)
    for (int64_t b = 0; b < blocks && !out->has_zeros; b++)
      out->has_zeros = carnot_weight_only_zero(problem, view, b, n) != out->zero;
}

// |bias| [columns] receives the sum of all biases.
static const char* read_epilogue(const carnot_problem* problem,
                                 const carnot_weight_only_problem* view,
                                 carnot_cpu_dequant_params* out, float* bias, char* reason,
                                 size_t size) {
  carnot_cpu_gemm_params* p = &out->gemm;
  bool has_bias = carnot_gemm_adds_c(&view->gemm);
  memset(bias, 0, (size_t)p->n * sizeof(*bias));
  const char* why = has_bias ? carnot_cpu_gemm_take_c(problem, &view->gemm, p->n, bias) : NULL;
  if (!why)
    why = carnot_epilogue_plan_make(problem, view->anchor, /*channel_axis=*/1, bias, p->n,
                                    &has_bias, &p->epilogue_plan, reason, size);
  p->has_bias = has_bias;
  return why;
}

static const char* read_problem(const carnot_problem* problem, carnot_weight_only_problem* view,
                                carnot_cpu_dequant_params* out, char* reason, size_t size) {
  const char* why = carnot_weight_only_read(problem, view, reason, size);
  if (why) return why;
  const carnot_operand_desc* a = &problem->inputs[view->gemm.a];
  *out =
      (carnot_cpu_dequant_params){.gemm = {.k = view->k, .n = view->n, .alpha = view->gemm.alpha},
                                  .block = view->block,
                                  .a = (int32_t)view->gemm.a,
                                  .bits = view->bits};
  why = carnot_not_f32(a, "the left operand", 1, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  if (view->gemm.trans_a) return "the left operand is transposed";
  if (a->rank == 1 && problem->region->node_count > view->anchor + 1)
    return "the left operand is a vector";
  if (a->dims[a->rank - 1] != view->k && a->dims[a->rank - 1] != -1)
    return carnot_because(reason, size, "rows of %lld meet %lld weights",
                          (long long)a->dims[a->rank - 1], (long long)view->k);
  if (view->n > kMaxColumns) return "too many columns";
  if (view->bits != 2 && view->bits != 4 && view->bits != 8)
    return carnot_because(reason, size, "weights of %d bits", view->bits);
  return NULL;
}

const char* carnot_cpu_dequant_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_weight_only_problem view;
  carnot_cpu_dequant_params p;
  const char* why = read_problem(problem, &view, &p, reason, size);
  if (why) return why;
  float* bias = malloc((size_t)p.gemm.n * sizeof(float));
  if (!bias) return CARNOT_REJECT_NO_MEMORY;
  why = read_epilogue(problem, &view, &p, bias, reason, size);
  free(bias);
  if (!why) carnot_cpu_gemm_want_row_major(problem);
  return why;
}

// ---- prepare ----

static carnot_status* new_constant(carnot_prepared* out, uint32_t index, const char* packing,
                                   size_t bytes, void** out_data) {
  void* data;
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, packing, &data));
  data = (void*)carnot_align_up((uintptr_t)data, 64);
  memset(data, 0, bytes);
  out->constants[index].packing = packing;
  out->constants[index].data = data;
  out->constants[index].bytes = bytes;
  *out_data = data;
  return NULL;
}

static carnot_status* pack_weights(const carnot_problem* problem,
                                   const carnot_weight_only_problem* view,
                                   const carnot_cpu_dequant_params* p, carnot_prepared* out) {
  const carnot_dequant_shape shape = carnot_cpu_dequant_shape(p);
  const char* packing = p->bits == 2 ? "k16n16 u2" : p->bits == 4 ? "k8n16 u4" : "k4n16 u8";
  void *packed, *numbers;
  CARNOT_TRY(new_constant(out, CARNOT_DEQUANT_WEIGHTS, packing,
                          (size_t)carnot_dequant_bytes(&shape), &packed));
  CARNOT_TRY(carnot_calloc((size_t)view->k, (size_t)view->n, "weights before packing", &numbers));
  carnot_weight_only_numbers(problem, view, numbers);
  carnot_pack_dequant(&shape, numbers, /*rs=*/1, /*cs=*/view->k, packed);
  free(numbers);
  return NULL;
}

// Scales times alpha, and zero points.
static carnot_status* pack_scales(const carnot_problem* problem,
                                  const carnot_weight_only_problem* view,
                                  const carnot_cpu_dequant_params* p, carnot_prepared* out) {
  const carnot_dequant_shape shape = carnot_cpu_dequant_shape(p);
  const int64_t blocks = carnot_dequant_blocks(&shape);
  const size_t count = (size_t)carnot_dequant_scale_count(&shape);
  void *scales, *zeros = NULL;
  CARNOT_TRY(
      new_constant(out, CARNOT_DEQUANT_SCALES, "n16 f32 scales", count * sizeof(float), &scales));
  if (p->has_zeros)
    CARNOT_TRY(new_constant(out, CARNOT_DEQUANT_ZEROS, "n16 u8 zero points", count, &zeros));
  for (int64_t n = 0; n < view->n; n++) {
    for (int64_t b = 0; b < blocks; b++) {
      const int64_t at = (n / 16 * blocks + b) * 16 + n % 16;
      ((float*)scales)[at] = carnot_weight_only_scale(problem, view, b, n) * p->gemm.alpha;
      if (zeros) ((uint8_t*)zeros)[at] = (uint8_t)carnot_weight_only_zero(problem, view, b, n);
    }
  }
  return NULL;
}

carnot_status* carnot_cpu_dequant_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *bias;
  char reason[256];
  carnot_weight_only_problem view;
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_cpu_dequant_params), "parameters", &params));
  carnot_cpu_dequant_params* p = params;
  const char* why = read_problem(problem, &view, p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const size_t columns = carnot_align_up((size_t)p->gemm.n, 16);
  CARNOT_TRY(new_constant(out, CARNOT_DEQUANT_BIAS, "dense f32", columns * sizeof(float), &bias));
  why = read_epilogue(problem, &view, p, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  read_zeros(problem, &view, p);
  CARNOT_TRY(pack_weights(problem, &view, p, out));
  CARNOT_TRY(pack_scales(problem, &view, p, out));
  out->constant_count = p->has_zeros ? CARNOT_DEQUANT_ZEROS + 1 : CARNOT_DEQUANT_ZEROS;
  out->params = p;
  out->param_bytes = sizeof(*p);
  out->packed_inputs = (uint64_t)1 << view.weights | (uint64_t)1 << view.scales;
  if (view.zeros != CARNOT_PLAN_NONE) out->packed_inputs |= (uint64_t)1 << view.zeros;
  if (view.gemm.c != CARNOT_PLAN_NONE) out->packed_inputs |= (uint64_t)1 << view.gemm.c;
  return NULL;
}

// ---- validate, configure ----

static carnot_status* check_constants(const carnot_step_view* step,
                                      const carnot_cpu_dequant_params* p) {
  const carnot_dequant_shape shape = carnot_cpu_dequant_shape(p);
  const size_t scales = (size_t)carnot_dequant_scale_count(&shape);
  CARNOT_CHECK(
      step->constant_count == (p->has_zeros ? CARNOT_DEQUANT_ZEROS + 1 : CARNOT_DEQUANT_ZEROS) &&
          step->constant_bytes[CARNOT_DEQUANT_WEIGHTS] == (size_t)carnot_dequant_bytes(&shape) &&
          step->constant_bytes[CARNOT_DEQUANT_SCALES] == scales * sizeof(float) &&
          step->constant_bytes[CARNOT_DEQUANT_BIAS] >= (size_t)p->gemm.n * sizeof(float) &&
          (!p->has_zeros || step->constant_bytes[CARNOT_DEQUANT_ZEROS] == scales),
      INVALID_MODEL, "%u constants of %zu, %zu, %zu bytes for weights of [%lld,%lld]",
      step->constant_count, step->constant_bytes[CARNOT_DEQUANT_WEIGHTS],
      step->constant_bytes[CARNOT_DEQUANT_SCALES], step->constant_bytes[CARNOT_DEQUANT_BIAS],
      (long long)p->gemm.k, (long long)p->gemm.n);
  return NULL;
}

carnot_status* carnot_cpu_dequant_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_cpu_dequant_params) &&
                   step->constant_count >= CARNOT_DEQUANT_ZEROS,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %d or %d",
               step->param_bytes, step->constant_count, sizeof(carnot_cpu_dequant_params),
               CARNOT_DEQUANT_ZEROS, CARNOT_DEQUANT_ZEROS + 1);
  const carnot_cpu_dequant_params* p = step->params;
  CARNOT_CHECK(p->gemm.k >= 1 && p->gemm.n >= 1 && p->gemm.k < (int64_t)1 << 31 &&
                   p->gemm.n <= kMaxColumns && p->block >= 1 && p->block < (int64_t)1 << 31,
               INVALID_MODEL, "weights of [%lld,%lld] in blocks of %lld", (long long)p->gemm.k,
               (long long)p->gemm.n, (long long)p->block);
  CARNOT_CHECK(p->bits == 2 || p->bits == 4 || p->bits == 8, INVALID_MODEL, "weights of %d bits",
               p->bits);
  CARNOT_CHECK(p->a >= 0 && (uint32_t)p->a < step->input_count && p->zero >= 0 && p->zero <= 255,
               INVALID_MODEL, "input %d of %u, zero point %d", p->a, step->input_count, p->zero);
  CARNOT_TRY(check_constants(step, p));
  return carnot_epilogue_plan_validate(&p->gemm.epilogue_plan, step->input_count);
}

bool carnot_cpu_dequant_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_cpu_dequant_params* p = step->params;
  return (int64_t)input == p->a || carnot_epilogue_plan_uses_input(&p->gemm.epilogue_plan, input);
}

static carnot_status* dequant_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  carnot_cpu_gemm_state* state = memory;
  const carnot_cpu_dequant_params* p = step->params;
  const carnot_operand* a = &inputs[p->a];
  CARNOT_TRY(carnot_cpu_gemm_configure_rows(step, &p->gemm, a, &outputs[0], state));
  *out_workspace_bytes = 0;
  if (state->m > CARNOT_DEQUANT_FEW_ROWS)
    *out_workspace_bytes = (size_t)(carnot_dequant_workspace(p->gemm.k) *
                                    carnot_work_partition_count(&state->partition)) *
                           sizeof(float);
  return carnot_epilogue_plan_check(step, &p->gemm.epilogue_plan, inputs, &outputs[0], p->gemm.n);
}

// ---- run ----

carnot_gemm_dequant_f32 carnot_cpu_dequant_call(const carnot_cpu_gemm_run* run) {
  const carnot_cpu_dequant_params* p = run->step->params;
  const int64_t k = p->gemm.k, n = p->gemm.n;
  carnot_gemm_dequant_f32 call = {
      .gemm = {.m = run->state->m, .n = n, .k = k, .lda = k, .ldc = n},
      .shape = carnot_cpu_dequant_shape(p),
      .scales = run->step->constants[CARNOT_DEQUANT_SCALES],
      .zeros = p->has_zeros ? run->step->constants[CARNOT_DEQUANT_ZEROS] : NULL,
      .zero = p->zero};
  call.gemm.a = run->inputs[p->a].data;
  call.gemm.b = run->step->constants[CARNOT_DEQUANT_WEIGHTS];
  call.gemm.c = run->outputs[0].data;
  carnot_epilogue_plan_bind(&p->gemm.epilogue_plan, run->inputs,
                            p->gemm.has_bias ? run->step->constants[CARNOT_DEQUANT_BIAS] : NULL,
                            &call.gemm.epilogue);
  return call;
}

static void dequant_part(void* argument, int64_t part) {
  const carnot_cpu_gemm_run* run = argument;
  const carnot_cpu_dequant_params* p = run->step->params;
  carnot_gemm_dequant_f32 call = carnot_cpu_dequant_call(run);
  if (run->workspace)
    call.workspace =
        run->workspace + carnot_executor_scratch(part) * carnot_dequant_workspace(p->gemm.k);
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->state->partition, part, &m0, &m1, &n0, &n1);
  run->kernels->gemm_dequant_f32(&call, m0, m1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, &p->gemm.epilogue_plan, run->inputs, call.gemm.c,
                           p->gemm.n, m0, m1, n0, n1);
}

static carnot_status* dequant_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  return carnot_cpu_gemm_run_parts(step, state, inputs, outputs, workspace, executor, dequant_part);
}

void carnot_cpu_dequant_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_weight_only_problem view;
  char reason[256];
  *out_flops = *out_bytes = 0;
  if (carnot_weight_only_read(problem, &view, reason, sizeof(reason))) return;
  const carnot_operand_desc* y = &problem->outputs[0];
  const double results = (double)carnot_dims_count(y->dims, y->rank), k = (double)view.k,
               n = (double)view.n;
  *out_flops = 2 * results * k;
  *out_bytes = n * k * view.bits / 8 + 4 * (n * k / (double)view.block + results + results / n * k);
}

CARNOT_CPU_TACTICS(gemm_dequant_f32, .anchor = CARNOT_OP_DEQUANTIZE_LINEAR,
                   .reject = carnot_cpu_dequant_reject, .prepare = carnot_cpu_dequant_prepare,
                   .validate = carnot_cpu_dequant_validate,
                   .uses_input = carnot_cpu_dequant_uses_input, .configure = dequant_configure,
                   .run = dequant_run, .work = carnot_cpu_dequant_work);
