// Depthwise convolution over channels-last float32 operands, or BF16 in their place: one filter per
// channel.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv.h"

static const char* depthwise_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (why) return why;
  if (p.window.rank > 2) return "a window of three dimensions";
  if (!carnot_conv_is_depthwise(&p))
    return carnot_because(reason, size, "group is %lld of %lld channels", (long long)p.group,
                          (long long)p.channels);
  return carnot_conv_reject_bf16(problem, &p.epilogue_plan, /*takes_gate=*/true);
}

// The level whose instructions round to BF16: for float32 alone it has what the one below has.
static const char* depthwise_bf16_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->inputs[0].format.dtype != CARNOT_DTYPE_BF16 &&
      problem->outputs[0].format.dtype != CARNOT_DTYPE_BF16)
    return "operands and result are float32";
  return depthwise_reject(problem, reason, size);
}

static carnot_status* depthwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  const carnot_operand_desc* w = carnot_conv_weights(problem);
  int64_t taps = carnot_conv_taps(p);
  void* packed;
  p->weights = CARNOT_WEIGHTS_F32;
  size_t bytes = (size_t)carnot_packed_k1n16_count(taps, p->channels) * sizeof(float);
  CARNOT_TRY(carnot_conv_alloc_weights(out, carnot_packed_weights_packing(CARNOT_WEIGHTS_F32),
                                       bytes, &packed));
  carnot_pack_k1n16_f32(taps, p->channels, w->tensor->data, 1, taps, packed);
  return NULL;
}

static carnot_status* depthwise_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  CARNOT_CHECK(carnot_conv_is_depthwise(p), INVALID_MODEL,
               "%lld groups of %lld channels are not depthwise", (long long)p->group,
               (long long)p->channels);
  return carnot_conv_check_packed(
      step, (size_t)carnot_packed_k1n16_count(carnot_conv_taps(p), p->channels) * sizeof(float));
}

typedef struct depthwise_state {
  carnot_window_geometry geometry;
  int64_t rows_per_part, row_count;
} depthwise_state;

static carnot_status* depthwise_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  depthwise_state* state = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure(step, inputs, outputs, &state->geometry));
  CARNOT_TRY(carnot_conv_check_bf16(&((const carnot_conv_params*)step->params)->epilogue_plan,
                                    /*takes_gate=*/true, inputs, outputs));
  const carnot_window_geometry* geometry = &state->geometry;
  state->row_count = geometry->n * geometry->p;
  state->rows_per_part =
      carnot_rows_per_part(state->row_count, geometry->q * geometry->c * geometry->r * geometry->s);
  return NULL;
}

typedef struct depthwise_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const depthwise_state* state;
  const carnot_operand *inputs, *outputs;
} depthwise_run;

static void depthwise_part(void* argument, int64_t part) {
  const depthwise_run* run = argument;
  const carnot_conv_params* p = run->step->params;
  const carnot_window_geometry* geometry = &run->state->geometry;
  carnot_depthwise_f32 conv = {CARNOT_WINDOW_FIELDS(geometry),
                               .c = geometry->c,
                               .src = run->inputs[0].data,
                               .src_n = geometry->src_n,
                               .src_h = geometry->src_h,
                               .src_w = geometry->src_w,
                               .weights = run->step->constants[0],
                               .dst = run->outputs[0].data,
                               .ld = geometry->ld,
                               .src_is_bf16 = run->inputs[0].format.dtype == CARNOT_DTYPE_BF16,
                               .dst_is_bf16 = run->outputs[0].format.dtype == CARNOT_DTYPE_BF16};
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &conv.epilogue);
  int64_t row0 = part * run->state->rows_per_part;
  int64_t row1 = carnot_min_i64(row0 + run->state->rows_per_part, run->state->row_count);
  run->kernels->depthwise_f32(&conv, row0, row1);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, conv.dst, geometry->ld,
                           row0 * geometry->q, row1 * geometry->q, 0, geometry->c);
}

static carnot_status* depthwise_run_all(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  (void)workspace;
  depthwise_run run = {carnot_cpu_kernels_of(step->tactic->isa), step, state, inputs, outputs};
  carnot_executor_parallel(executor, carnot_ceildiv(run.state->row_count, run.state->rows_per_part),
                           depthwise_part, &run);
  return NULL;
}

static void depthwise_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 4, out_flops, out_bytes);
}

#define DEPTHWISE(reject_function)                                                         \
  .anchor = CARNOT_OP_CONV, .strided_outputs = true, .takes_bf16 = true,                   \
  .reject = reject_function, .prepare = depthwise_prepare, .validate = depthwise_validate, \
  .uses_input = carnot_conv_uses_input, .configure = depthwise_configure,                  \
  .run = depthwise_run_all, .work = depthwise_work
CARNOT_CPU_TACTIC(depthwise_f32, avx512bf16, AVX512_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  DEPTHWISE(depthwise_bf16_reject));
CARNOT_CPU_TACTICS(depthwise_f32, DEPTHWISE(depthwise_reject));
