// Convolution of few channels as im2col and a GEMM of split float32: a tap of few channels would
// fill little of the depth of a tile, all taps fill it together. Outputs are made in chunks whose
// matrix stays in L2. With multiply-adds, which have no depth to fill, im2col was no faster.
#include <string.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/conv.h"

enum {
  kMostChannels = 32,
  kMostDepth = 1024,
  kMatrixBytes = 192 * 1024,
  kMostOutputs = 1024  // of a chunk
};

static int64_t depth_of(const carnot_conv_params* p) { return p->channels * carnot_conv_taps(p); }

static carnot_packed_weights_shape weights_shape(const carnot_conv_params* p) {
  return (carnot_packed_weights_shape){1, depth_of(p), p->filters};
}

static size_t weight_bytes(const carnot_conv_params* p) {
  return carnot_packed_weights_bytes((carnot_weights_type)p->weights, weights_shape(p));
}

static const char* check_params(const carnot_conv_params* p, char* reason, size_t size) {
  const carnot_sliding_window* w = &p->window;
  if (w->rank > 2) return "a window of three dimensions";
  if (p->group != 1 || p->channels > kMostChannels)
    return carnot_because(reason, size, "%lld channels in %lld groups, takes up to %d in one",
                          (long long)p->channels, (long long)p->group, kMostChannels);
  if (carnot_conv_taps(p) == 1) return "the pixels are rows of a matrix";
  if (depth_of(p) > kMostDepth)
    return carnot_because(reason, size, "a sum of %lld terms, takes up to %d",
                          (long long)depth_of(p), kMostDepth);
  const int64_t rows = w->rank > 1 ? w->kernel[0] : 1,
                runs = w->dilations[w->rank - 1] > 1 ? carnot_conv_taps(p) : rows;
  return runs > CARNOT_IM2COL_MAX_RUNS
             ? carnot_because(reason, size, "a filter of %lld runs of pixels, takes up to %d",
                              (long long)runs, CARNOT_IM2COL_MAX_RUNS)
             : NULL;
}

// ---- build ----

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_layout given = problem->inputs[0].format.layout;
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (!why) why = check_params(&p, reason, size);
  if (!why)
    why = carnot_packed_weights_reject(problem, carnot_conv_weights(problem)->tensor, type, reason,
                                       size);
  if (!why && given != CARNOT_LAYOUT_CHANNELS_LAST)
    problem->inputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  carnot_conv_params* p;
  void* packed;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = (int32_t)type;
  CARNOT_TRY(carnot_conv_alloc_weights(out, carnot_packed_weights_packing(type), weight_bytes(p),
                                       &packed));
  return carnot_conv_pack_taps(type, weights_shape(p), p->channels,
                               carnot_conv_weights(problem)->tensor->data, packed);
}

// ---- load and run ----

static carnot_status* conv_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  char reason[256];
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  const char* why = check_params(p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the step is no convolution by im2col: %s", why);
  CARNOT_CHECK(p->weights == (int32_t)carnot_packed_weights_type(step->tactic), INVALID_MODEL,
               "packed weights of type %d, must be %d", p->weights,
               (int)carnot_packed_weights_type(step->tactic));
  return carnot_conv_check_packed(step, weight_bytes(p));
}

typedef struct conv_state {
  carnot_window_geometry geometry;
  int64_t src_c, rows_per_part, parts_per_image;
  int64_t outputs;         // of a chunk
  int64_t held_rows, row;  // of input under a chunk, and the floats of one
  int64_t floats;          // of a part's workspace: held rows, then the matrix
} conv_state;

static carnot_im2col_f32 im2col_of(const conv_state* s, const float* held) {
  const carnot_window_geometry* g = &s->geometry;
  return (carnot_im2col_f32){.c = g->c,
                             .q = g->q,
                             .r = g->r,
                             .s = g->s,
                             .stride_h = g->stride_h,
                             .stride_w = g->stride_w,
                             .dilation_h = g->dilation_h,
                             .dilation_w = g->dilation_w,
                             .held = held,
                             .held_rows = s->held_rows};
}

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  conv_state* s = memory;
  const carnot_window_geometry* g = &s->geometry;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure_pixels(step, inputs, outputs, &s->src_c, &s->geometry));
  CARNOT_CHECK(s->src_c == 1 || g->src_w == 1, INVALID_MODEL,
               "neither channels nor columns of the input lie side by side");
  const int64_t depth = g->r * g->s * g->c, span = (g->r - 1) * g->dilation_h + 1,
                fit = kMatrixBytes / (int64_t)sizeof(float) / depth / CARNOT_SPLIT_ROWS;
  s->outputs = carnot_min_i64(carnot_min_i64(fit * CARNOT_SPLIT_ROWS, kMostOutputs),
                              carnot_max_i64(1, g->p * g->q));
  const int64_t rows = carnot_ceildiv(s->outputs, carnot_max_i64(1, g->q)) + 1;
  s->held_rows = (carnot_min_i64(g->p, rows) - 1) * g->stride_h + span;
  const carnot_im2col_f32 im2col = im2col_of(s, NULL);
  s->row = carnot_im2col_held_row(&im2col);
  s->floats = (int64_t)carnot_align_up(
      (size_t)(s->held_rows * s->row + s->outputs * depth + CARNOT_IM2COL_SLACK), 16);
  s->rows_per_part = carnot_conv_rows_per_part(step->threads, g->p, span);
  s->parts_per_image = carnot_ceildiv(g->p, s->rows_per_part);
  *out_workspace_bytes = (size_t)(s->floats * s->parts_per_image * g->n) * sizeof(float);
  return NULL;
}

typedef struct conv_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const conv_state* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} conv_run;

// Copies input row |h| of image |n| to |to|, channels side by side, zeros where it is padding.
static void hold_row(const conv_run* run, int64_t n, int64_t h, float* to) {
  const conv_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const carnot_im2col_f32 im2col = im2col_of(s, NULL);
  const int64_t width = carnot_im2col_held_width(&im2col),
                begin = carnot_min_i64(width, carnot_max_i64(0, g->pad_w)),
                end = carnot_max_i64(begin, carnot_min_i64(width, g->w + g->pad_w)),
                count = h < 0 || h >= g->h ? 0 : end - begin;
  const float* src = (const float*)run->inputs[0].data + n * g->src_n + h * g->src_h +
                     (begin - g->pad_w) * g->src_w;
  memset(to, 0, (size_t)(begin * g->c) * sizeof(float));
  memset(to + (begin + count) * g->c, 0, (size_t)(s->row - (begin + count) * g->c) * sizeof(float));
  to += begin * g->c;
  if (s->src_c != 1) {
    if (count) run->kernels->transpose_f32(g->c, count, src, s->src_c, to, g->c);
    return;
  }
  if (g->src_w == g->c) {
    if (count) memcpy(to, src, (size_t)(count * g->c) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; i++)
    memcpy(to + i * g->c, src + i * g->src_w, (size_t)g->c * sizeof(float));
}

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const conv_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const carnot_conv_params* p = run->step->params;
  const int64_t n = part / s->parts_per_image, p0 = part % s->parts_per_image * s->rows_per_part,
                p1 = carnot_min_i64(p0 + s->rows_per_part, g->p), pixel = n * g->p * g->q;
  float* held = run->workspace + carnot_executor_scratch(part) * s->floats;
  float *matrix = held + s->held_rows * s->row, *dst = run->outputs[0].data;
  const carnot_im2col_f32 im2col = im2col_of(s, held);
  carnot_gemm_f32 gemm = {.n = g->k,
                          .k = depth_of(p),
                          .a = matrix,
                          .lda = depth_of(p),
                          .b = run->step->constants[0],
                          .ldc = g->ld};
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &gemm.epilogue);
  const float* residual = gemm.epilogue.residual;
  int64_t next =
      p0 * g->stride_h;  // rows of the input with its padding: the first that is not held
  for (int64_t m = p0 * g->q; m < p1 * g->q; m += gemm.m) {
    gemm.m = carnot_min_i64(s->outputs, p1 * g->q - m);
    const int64_t first = m / g->q * g->stride_h,
                  end = (m + gemm.m - 1) / g->q * g->stride_h + (g->r - 1) * g->dilation_h + 1;
    for (next = carnot_max_i64(next, first); next < end; next++)
      hold_row(run, n, next - g->pad_h, held + next % s->held_rows * s->row);
    run->kernels->im2col_f32(&im2col, m, m + gemm.m, matrix);
    gemm.c = dst + (pixel + m) * g->ld;
    if (residual) gemm.epilogue.residual = residual + (pixel + m) * gemm.epilogue.residual_ld;
    carnot_packed_weights_gemm(run->kernels, (carnot_weights_type)p->weights)(&gemm, 0, gemm.m, 0,
                                                                              gemm.n);
  }
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, dst, g->ld,
                           pixel + p0 * g->q, pixel + p1 * g->q, 0, g->k);
}

static carnot_status* conv_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  conv_run run = {
      carnot_cpu_kernels_of(step->tactic->isa), step, state, inputs, outputs, workspace};
  carnot_executor_parallel(executor, run.state->parts_per_image * run.state->geometry.n, conv_part,
                           &run);
  return NULL;
}

static void conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 6, out_flops, out_bytes);
}

CARNOT_CPU_SPLIT_TACTICS(conv_im2col, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                         .reject = conv_reject, .prepare = conv_prepare, .validate = conv_validate,
                         .uses_input = carnot_conv_uses_input, .configure = conv_configure,
                         .run = conv_run_all, .work = conv_work);
