// Convolution of few float32 channels, the first layer of a network, read in the layout that it
// has.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv.h"

enum { kMostChannels = 4, kMostTaps = 256 };

// Columns under the pixels that the kernel computes at once.
static int64_t columns_of(const carnot_conv_params* p) {
  const int last = p->window.rank - 1;
  const carnot_conv2d_few_f32 conv = {.s = p->window.kernel[last],
                                      .stride_w = p->window.strides[last],
                                      .dilation_w = p->window.dilations[last]};
  return carnot_conv2d_few_columns(&conv, CARNOT_CONV2D_FEW_PIXELS);
}

static const char* few_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_layout given = problem->inputs[0].format.layout;
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (why) return why;
  if (p.window.rank > 2) return "a window of three dimensions";
  if (p.group != 1 || p.channels > kMostChannels)
    return carnot_because(reason, size, "%lld channels in %lld groups, takes up to %d in one",
                          (long long)p.channels, (long long)p.group, kMostChannels);
  if (carnot_conv_taps(&p) * p.channels > kMostTaps)
    return carnot_because(reason, size, "a sum of %lld products, takes up to %d",
                          (long long)(carnot_conv_taps(&p) * p.channels), kMostTaps);
  if (columns_of(&p) > CARNOT_CONV2D_FEW_MAX_COLUMNS)
    return carnot_because(reason, size, "%lld columns under %d results, takes up to %d",
                          (long long)columns_of(&p), CARNOT_CONV2D_FEW_PIXELS,
                          CARNOT_CONV2D_FEW_MAX_COLUMNS);
  why = carnot_conv_reject_bf16(problem, &p.epilogue_plan, /*takes_gate=*/true);
  if (why) return why;
  if (problem->inputs[0].format.dtype != CARNOT_DTYPE_F32) return "the input is stored as BF16";
  if (given != CARNOT_LAYOUT_CHANNELS_LAST)
    problem->inputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static int64_t depth_of(const carnot_conv_params* p) { return p->channels * carnot_conv_taps(p); }

static carnot_status* few_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  void* packed;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = CARNOT_WEIGHTS_F32;
  const int64_t depth = depth_of(p);
  CARNOT_TRY(carnot_conv_alloc_weights(
      out, carnot_packed_weights_packing(CARNOT_WEIGHTS_F32),
      (size_t)carnot_packed_k1n16_count(depth, p->filters) * sizeof(float), &packed));
  carnot_pack_k1n16_f32(depth, p->filters, carnot_conv_weights(problem)->tensor->data, 1, depth,
                        packed);
  return NULL;
}

carnot_status* carnot_conv_few_check(const carnot_conv_params* p) {
  CARNOT_CHECK(p->group == 1 && p->channels <= kMostChannels && carnot_conv_taps(p) <= kMostTaps,
               INVALID_MODEL, "%lld channels in %lld groups, a window of %lld elements",
               (long long)p->channels, (long long)p->group, (long long)carnot_conv_taps(p));
  CARNOT_CHECK(columns_of(p) <= CARNOT_CONV2D_FEW_MAX_COLUMNS, INVALID_MODEL,
               "%lld columns under %d results", (long long)columns_of(p), CARNOT_CONV2D_FEW_PIXELS);
  return NULL;
}

static carnot_status* few_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  CARNOT_TRY(carnot_conv_few_check(p));
  return carnot_conv_check_packed(
      step, (size_t)carnot_packed_k1n16_count(depth_of(p), p->filters) * sizeof(float));
}

typedef struct few_state {
  carnot_window_geometry geometry;
  int64_t src_c, rows_per_part, row_count;
} few_state;

static carnot_status* few_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* memory,
                                    size_t* out_workspace_bytes) {
  few_state* state = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure_pixels(step, inputs, outputs, &state->src_c, &state->geometry));
  CARNOT_TRY(carnot_conv_check_bf16(&((const carnot_conv_params*)step->params)->epilogue_plan,
                                    /*takes_gate=*/true, inputs, outputs));
  const carnot_window_geometry* geometry = &state->geometry;
  state->row_count = geometry->n * geometry->p;
  state->rows_per_part = carnot_rows_per_part(
      state->row_count, geometry->q * geometry->k * geometry->r * geometry->s * geometry->c / 4);
  return NULL;
}

typedef struct few_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const few_state* state;
  const carnot_operand *inputs, *outputs;
} few_run;

static void few_part(void* argument, int64_t part) {
  const few_run* run = argument;
  const carnot_conv_params* p = run->step->params;
  const carnot_window_geometry* geometry = &run->state->geometry;
  carnot_conv2d_few_f32 conv = {CARNOT_WINDOW_FIELDS(geometry),
                                .c = geometry->c,
                                .k = geometry->k,
                                .src = run->inputs[0].data,
                                .src_n = geometry->src_n,
                                .src_c = run->state->src_c,
                                .src_h = geometry->src_h,
                                .src_w = geometry->src_w,
                                .weights = run->step->constants[0],
                                .dst = run->outputs[0].data,
                                .ld = geometry->ld,
                                .dst_is_bf16 = run->outputs[0].format.dtype == CARNOT_DTYPE_BF16};
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &conv.epilogue);
  const int64_t row0 = part * run->state->rows_per_part;
  const int64_t row1 = carnot_min_i64(row0 + run->state->rows_per_part, run->state->row_count);
  run->kernels->conv2d_few_f32(&conv, row0, row1);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, conv.dst, geometry->ld,
                           row0 * geometry->q, row1 * geometry->q, 0, geometry->k);
}

static carnot_status* few_run_all(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace;
  few_run run = {carnot_cpu_kernels_of(step->tactic->isa), step, state, inputs, outputs};
  carnot_executor_parallel(executor, carnot_ceildiv(run.state->row_count, run.state->rows_per_part),
                           few_part, &run);
  return NULL;
}

static void few_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 4, out_flops, out_bytes);
}

CARNOT_CPU_TACTICS(conv_few_f32, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                   .takes_bf16 = true, .reject = few_reject, .prepare = few_prepare,
                   .validate = few_validate, .uses_input = carnot_conv_uses_input,
                   .configure = few_configure, .run = few_run_all, .work = few_work);
