// Convolution of few filters, as in the last layers of image networks. A GEMM would use 3 of the 16
// columns of a panel; here vectors hold pixels. The rows under the filter are transposed to one
// plane per channel, each of them once for all output rows that read it.
#include <string.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/conv.h"

enum {
  kMaxTaps = 64,
  kRowsBytes = 640 * 1024,  // of the transposed rows of a strip of columns, in L2
  kLeastStrip = 128,        // outputs
  kStripUnit = 384          // outputs: whole tiles of one to four filters
};

static const char* check_params(const carnot_conv_params* p, char* reason, size_t size) {
  const carnot_sliding_window* w = &p->window;
  if (w->rank != 2 || p->group != 1) return "takes two spatial dimensions and one group";
  if (p->filters < 1 || p->filters > CARNOT_CONV2D_PLANES_FILTERS)
    return carnot_because(reason, size, "%lld filters, takes up to %d", (long long)p->filters,
                          CARNOT_CONV2D_PLANES_FILTERS);
  if (p->channels < 1 || p->channels > CARNOT_CONV_MAX_CHANNELS)
    return carnot_because(reason, size, "%lld channels, takes up to %d", (long long)p->channels,
                          CARNOT_CONV_MAX_CHANNELS);
  for (int i = 0; i < 2; i++)
    if (w->kernel[i] < 1 || (w->kernel[i] - 1) * w->dilations[i] >= kMaxTaps)
      return carnot_because(reason, size, "a filter over %lld pixels, takes up to %d",
                            (long long)((w->kernel[i] - 1) * w->dilations[i] + 1), kMaxTaps);
  if (w->strides[1] != 1) return "the window steps by more than a column";
  return carnot_epilogue_plan_has_full_operand(&p->epilogue_plan)
             ? "an operand of the result's shape follows"
             : NULL;
}

static size_t weight_bytes(const carnot_conv_params* p) {
  return (size_t)(p->filters * p->channels * carnot_conv_taps(p)) * sizeof(float);
}

// ---- build ----

static const char* planes_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (!why) why = check_params(&p, reason, size);
  if (!why) problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static carnot_status* planes_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  void* packed;
  CARNOT_TRY(carnot_conv_alloc_weights(out, "[R,C,S,K] f32", weight_bytes(p), &packed));
  const float* weights = carnot_conv_weights(problem)->tensor->data;
  const int64_t rows = p->window.kernel[0], columns = p->window.kernel[1];
  for (int64_t k = 0; k < p->filters; k++)
    for (int64_t c = 0; c < p->channels; c++)
      for (int64_t r = 0; r < rows; r++)
        for (int64_t s = 0; s < columns; s++)
          ((float*)packed)[((r * p->channels + c) * columns + s) * p->filters + k] =
              weights[((k * p->channels + c) * rows + r) * columns + s];
  return NULL;
}

// ---- load and run ----

static carnot_status* planes_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  char reason[256];
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  const char* why = check_params(p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the step is no convolution of few filters: %s", why);
  return carnot_conv_check_packed(step, weight_bytes(p));
}

typedef struct planes_state {
  carnot_window_geometry geometry;
  int64_t rows_per_part, parts_per_image;
  int64_t strip;    // output columns that are computed together
  int64_t ld, row;  // floats of a channel and of a transposed row
  int64_t held;     // rows that are held
  int64_t floats;   // of a part's workspace
} planes_state;

static carnot_status* planes_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  planes_state* s = memory;
  const carnot_window_geometry* g = &s->geometry;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure_row_major(step, inputs, outputs, &s->geometry));
  s->held = (g->r - 1) * g->dilation_h + 1;
  const int64_t fit = kRowsBytes / (int64_t)sizeof(float) / (s->held * g->c);
  s->strip = fit >= kStripUnit ? fit / kStripUnit * kStripUnit : kLeastStrip;
  s->strip = carnot_min_i64(g->q, s->strip);
  s->ld = carnot_conv2d_planes_ld(s->strip, g->s, g->dilation_w);
  s->row = g->c * s->ld;
  s->floats = (int64_t)carnot_align_up((size_t)(s->held * s->row), 16);
  s->rows_per_part = carnot_conv_rows_per_part(step->threads, g->p, s->held);
  s->parts_per_image = carnot_ceildiv(g->p, s->rows_per_part);
  *out_workspace_bytes = (size_t)(s->floats * s->parts_per_image * g->n) * sizeof(float);
  return NULL;
}

typedef struct planes_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const planes_state* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} planes_run;

// Transposes the pixels of input row |h| of image |n| under |count| outputs from |q0| on.
static void transpose_row(const planes_run* run, int64_t n, int64_t h, int64_t q0, int64_t count,
                          float* to) {
  const planes_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const int64_t width = count + (g->s - 1) * g->dilation_w, w0 = q0 - g->pad_w,
                begin = carnot_min_i64(width, carnot_max_i64(0, -w0)),
                end = carnot_max_i64(begin, carnot_min_i64(width, g->w - w0));
  const float* src = (const float*)run->inputs[0].data + n * g->src_n + h * g->src_h;
  if (begin < end)
    run->kernels->transpose_f32(end - begin, g->c, src + (w0 + begin) * g->src_w, g->src_w,
                                to + begin, s->ld);
  for (int64_t c = 0; c < g->c && end - begin < width; c++) {
    memset(to + c * s->ld, 0, (size_t)begin * sizeof(float));
    memset(to + c * s->ld + end, 0, (size_t)(width - end) * sizeof(float));
  }
}

// Outputs [q0, q0 + count) of rows [p0, p1) of image |n|.
static void compute_strip(const planes_run* run, int64_t n, int64_t p0, int64_t p1, int64_t q0,
                          int64_t count, float* held) {
  const planes_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const carnot_conv_params* params = run->step->params;
  float* dst = (float*)run->outputs[0].data + n * g->k * g->p * g->q;
  const float* rows[kMaxTaps];
  carnot_conv2d_planes_f32 conv = {.q = count,
                                   .k = g->k,
                                   .r = g->r,
                                   .c = g->c,
                                   .s = g->s,
                                   .dilation = g->dilation_w,
                                   .rows = rows,
                                   .ld = s->ld,
                                   .weights = run->step->constants[0],
                                   .dst_ld = g->p * g->q};
  carnot_epilogue_plan_bind(&params->epilogue_plan, run->inputs,
                            params->has_bias ? run->step->constants[1] : NULL, &conv.epilogue);
  int64_t next = 0;  // the first row that is not held yet
  for (int64_t p = p0; p < p1; p++) {
    const int64_t first = p * g->stride_h - g->pad_h;
    next = carnot_max_i64(next, carnot_max_i64(0, first));
    for (; next < g->h && next < first + s->held; next++)
      transpose_row(run, n, next, q0, count, held + next % s->held * s->row);
    for (int64_t r = 0; r < g->r; r++) {
      const int64_t h = first + r * g->dilation_h;
      rows[r] = h < 0 || h >= g->h ? NULL : held + h % s->held * s->row;
    }
    conv.dst = dst + p * g->q + q0;
    run->kernels->conv2d_planes_f32(&conv);
  }
}

static void planes_part(void* argument, int64_t part) {
  const planes_run* run = argument;
  const planes_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const int64_t n = part / s->parts_per_image, p0 = part % s->parts_per_image * s->rows_per_part,
                p1 = carnot_min_i64(p0 + s->rows_per_part, g->p);
  float* held = run->workspace + carnot_executor_scratch(part) * s->floats;
  for (int64_t q = 0; q < g->q; q += s->strip)
    compute_strip(run, n, p0, p1, q, carnot_min_i64(s->strip, g->q - q), held);
  const carnot_conv_params* p = run->step->params;
  carnot_epilogue_plan_run_by_channel(run->kernels, &p->epilogue_plan, run->inputs,
                                      (float*)run->outputs[0].data + n * g->k * g->p * g->q,
                                      g->p * g->q, g->k, p0 * g->q, p1 * g->q);
}

static carnot_status* planes_run_all(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  planes_run run = {
      carnot_cpu_kernels_of(step->tactic->isa), step, state, inputs, outputs, workspace};
  carnot_executor_parallel(executor, run.state->parts_per_image * run.state->geometry.n,
                           planes_part, &run);
  return NULL;
}

static void planes_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 4, out_flops, out_bytes);
}

CARNOT_CPU_TACTICS(conv_planes_f32, .anchor = CARNOT_OP_CONV, .reject = planes_reject,
                   .prepare = planes_prepare, .validate = planes_validate,
                   .uses_input = carnot_conv_uses_input, .configure = planes_configure,
                   .run = planes_run_all, .work = planes_work);
