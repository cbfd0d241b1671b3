// Convolution of few channels a group, or of few channels to few filters, over channels-last
// float32 operands, or BF16 in their place, sums in registers.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv.h"

// K of a sum, which is one chain of additions: a longer one loses digits.
enum { kMostDepth = 320 };
// Filters of a single group: its pixels are copied for every panel of them.
enum { kMostFilters = 16 };

// Rows and columns of the filter: a 1-D one has one row.
static int64_t columns_of(const carnot_conv_params* p) {
  return p->window.kernel[p->window.rank - 1];
}
static int64_t rows_of(const carnot_conv_params* p) { return carnot_conv_taps(p) / columns_of(p); }

// Why the kernel does not take the convolution, or NULL.
static const char* refuse(const carnot_conv_params* p, char* reason, size_t size) {
  if (p->window.rank > 2) return "a window of three dimensions";
  const int64_t channels = p->channels / p->group, filters = p->filters / p->group;
  if (p->group == 1 && filters > kMostFilters)
    return carnot_because(reason, size, "%lld filters of a single group, takes up to %d",
                          (long long)filters, kMostFilters);
  if (channels > CARNOT_CONV2D_GROUPED_CHANNELS)
    return carnot_because(reason, size, "%lld channels a group, takes up to %d",
                          (long long)channels, CARNOT_CONV2D_GROUPED_CHANNELS);
  if (p->group > 1 && filters < 16 && (16 % filters || channels > filters))
    return carnot_because(reason, size, "%lld channels and %lld filters a group",
                          (long long)channels, (long long)filters);
  if (carnot_conv_taps(p) > kMostDepth / channels)
    return carnot_because(reason, size, "K is %lld, takes up to %d",
                          (long long)(carnot_conv_taps(p) * channels), kMostDepth);
  const int last = p->window.rank - 1;
  const carnot_conv2d_grouped_f32 conv = {.s = p->window.kernel[last],
                                          .stride_w = p->window.strides[last],
                                          .dilation_w = p->window.dilations[last]};
  const int64_t columns = carnot_conv2d_grouped_columns(&conv, CARNOT_CONV2D_GROUPED_PIXELS);
  if (columns > CARNOT_CONV2D_GROUPED_COLUMNS)
    return carnot_because(reason, size, "%lld columns under %d results, takes up to %d",
                          (long long)columns, CARNOT_CONV2D_GROUPED_PIXELS,
                          CARNOT_CONV2D_GROUPED_COLUMNS);
  return NULL;
}

static const char* grouped_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (why) return why;
  if (carnot_conv_is_depthwise(&p)) return "the depthwise tactics take depthwise convolutions";
  why = refuse(&p, reason, size);
  return why ? why : carnot_conv_reject_bf16(problem, &p.epilogue_plan, /*takes_gate=*/false);
}

static size_t packed_bytes(const carnot_conv_params* p) {
  return (size_t)(carnot_conv2d_grouped_panels(p->group, p->filters / p->group) * 16 *
                  carnot_conv_taps(p) * (p->channels / p->group)) *
         sizeof(float);
}

static carnot_status* grouped_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  void* packed;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = CARNOT_WEIGHTS_F32;
  CARNOT_TRY(carnot_conv_alloc_weights(out, "groups k1n16 f32", packed_bytes(p), &packed));
  carnot_pack_conv2d_grouped_f32(p->group, p->filters / p->group, p->channels / p->group,
                                 rows_of(p), columns_of(p),
                                 carnot_conv_weights(problem)->tensor->data, packed);
  return NULL;
}

static carnot_status* grouped_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  char reason[256];
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  const char* why = refuse(p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the convolution: %s", why);
  return carnot_conv_check_packed(step, packed_bytes(p));
}

typedef struct grouped_state {
  carnot_window_geometry geometry;
  int64_t panels, rows_per_part, row_count;
} grouped_state;

static carnot_status* grouped_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  grouped_state* state = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure(step, inputs, outputs, &state->geometry));
  const carnot_conv_params* p = step->params;
  CARNOT_TRY(carnot_conv_check_bf16(&p->epilogue_plan, /*takes_gate=*/false, inputs, outputs));
  const carnot_window_geometry* geometry = &state->geometry;
  state->panels = carnot_conv2d_grouped_panels(p->group, p->filters / p->group);
  state->row_count = geometry->n * geometry->p;
  const int64_t rows =
      carnot_rows_per_part(state->row_count, geometry->q * 16 * geometry->r * geometry->s *
                                                 carnot_ceildiv(p->channels / p->group, 4));
  state->rows_per_part =
      carnot_ceildiv(rows, CARNOT_CONV2D_GROUPED_ROWS) * CARNOT_CONV2D_GROUPED_ROWS;
  return NULL;
}

typedef struct grouped_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const grouped_state* state;
  const carnot_operand *inputs, *outputs;
} grouped_run;

static void grouped_part(void* argument, int64_t part) {
  const grouped_run* run = argument;
  const carnot_conv_params* p = run->step->params;
  const carnot_window_geometry* geometry = &run->state->geometry;
  const int64_t filters = p->filters / p->group;
  carnot_conv2d_grouped_f32 conv = {
      CARNOT_WINDOW_FIELDS(geometry),
      .groups = p->group,
      .c = p->channels / p->group,
      .k = filters,
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
  const int64_t panel = part % run->state->panels;
  const int64_t row0 = part / run->state->panels * run->state->rows_per_part;
  const int64_t row1 = carnot_min_i64(row0 + run->state->rows_per_part, run->state->row_count);
  run->kernels->conv2d_grouped_f32(&conv, panel, panel + 1, row0, row1);
  const int64_t first = carnot_conv2d_grouped_first(filters, panel);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, conv.dst, geometry->ld,
                           row0 * geometry->q, row1 * geometry->q, first,
                           first + carnot_conv2d_grouped_count(p->group, filters, panel));
}

static carnot_status* grouped_run_all(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  (void)workspace;
  grouped_run run = {carnot_cpu_kernels_of(step->tactic->isa), step, state, inputs, outputs};
  carnot_executor_parallel(
      executor, run.state->panels * carnot_ceildiv(run.state->row_count, run.state->rows_per_part),
      grouped_part, &run);
  return NULL;
}

static void grouped_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 4, out_flops, out_bytes);
}

CARNOT_CPU_TACTICS(conv_grouped_f32, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                   .takes_bf16 = true, .reject = grouped_reject, .prepare = grouped_prepare,
                   .validate = grouped_validate, .uses_input = carnot_conv_uses_input,
                   .configure = grouped_configure, .run = grouped_run_all, .work = grouped_work);
