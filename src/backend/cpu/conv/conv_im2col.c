// Convolution of few channels by split float32. A tap of few channels would fill little of the
// depth of a tile. im2col and a GEMM fill it with all taps; outputs are made in chunks whose matrix
// stays in L2. conv_row_taps fills it with the taps of a filter row, which are one run of numbers
// where pixels lie channels last: a convolution of R x 1 taps over overlapping pixels of S * C
// channels, which splits a pixel once for all rows of the filter and copies nothing but padding.
// With multiply-adds, which have no depth to fill, im2col was no faster.
#include <string.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/conv.h"

enum {
  kMostChannels = 32,
  kMostRowChannels = 160,  // of conv_row_taps
  kMostDepth = 1024,
  kSliceDepth = 32,           // of a tile
  kMatrixBytes = 192 * 1024,  // and of the rows of a chunk of conv_row_taps
  kMostOutputs = 1024         // of a chunk, and of a row that kernels take at a time
};

typedef struct im2col_config {
  bool by_rows;  // conv_row_taps
} im2col_config;

static bool is_by_rows(const carnot_tactic* tactic) {
  return ((const im2col_config*)tactic->config)->by_rows;
}

static int64_t depth_of(const carnot_conv_params* p) { return p->channels * carnot_conv_taps(p); }

static int64_t filter_rows(const carnot_conv_params* p) {
  return p->window.rank > 1 ? p->window.kernel[0] : 1;
}

static carnot_packed_weights_shape weights_shape(const carnot_conv_params* p, bool by_rows) {
  const int64_t taps = by_rows ? filter_rows(p) : 1;
  return (carnot_packed_weights_shape){taps, depth_of(p) / taps, p->filters};
}

static size_t weight_bytes(const carnot_conv_params* p, bool by_rows) {
  return carnot_packed_weights_bytes((carnot_weights_type)p->weights, weights_shape(p, by_rows));
}

// Slices of K are filled too little: twice as many as all taps together would take, or no fewer
// than tap by tap.
static const char* check_rows(const carnot_conv_params* p, char* reason, size_t size) {
  const int64_t rows = filter_rows(p), all = carnot_ceildiv(depth_of(p), kSliceDepth),
                by_rows = rows * carnot_ceildiv(depth_of(p) / rows, kSliceDepth),
                by_taps = carnot_conv_taps(p) * carnot_ceildiv(p->channels, kSliceDepth);
  if (p->window.dilations[p->window.rank - 1] > 1 || p->window.kernel[p->window.rank - 1] == 1)
    return "the taps of a filter row are no run of numbers";
  if (depth_of(p) / rows > CARNOT_CONV_MAX_CHANNELS)
    return carnot_because(reason, size, "%lld numbers in a filter row, takes up to %d",
                          (long long)(depth_of(p) / rows), CARNOT_CONV_MAX_CHANNELS);
  return by_rows > 2 * all || by_rows >= by_taps
             ? carnot_because(reason, size,
                              "%lld slices of %d numbers by filter rows, %lld by taps, %lld of all",
                              (long long)by_rows, kSliceDepth, (long long)by_taps, (long long)all)
             : NULL;
}

static const char* check_params(const carnot_conv_params* p, bool by_rows, char* reason,
                                size_t size) {
  const carnot_sliding_window* w = &p->window;
  if (w->rank > 2) return "a window of three dimensions";
  const int most = by_rows ? kMostRowChannels : kMostChannels;
  if (p->group != 1 || p->channels > most)
    return carnot_because(reason, size, "%lld channels in %lld groups, takes up to %d in one",
                          (long long)p->channels, (long long)p->group, most);
  if (carnot_conv_taps(p) == 1) return "the pixels are rows of a matrix";
  if (by_rows) return check_rows(p, reason, size);
  if (depth_of(p) > kMostDepth)
    return carnot_because(reason, size, "a sum of %lld terms, takes up to %d",
                          (long long)depth_of(p), kMostDepth);
  const int64_t runs = w->dilations[w->rank - 1] > 1 ? carnot_conv_taps(p) : filter_rows(p);
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
  if (!why) why = check_params(&p, is_by_rows(problem->tactic), reason, size);
  if (!why)
    why = carnot_packed_weights_reject(problem, carnot_conv_weights(problem)->tensor, type, reason,
                                       size);
  if (!why && given != CARNOT_LAYOUT_CHANNELS_LAST)
    problem->inputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  const bool by_rows = is_by_rows(problem->tactic);
  carnot_conv_params* p;
  void* packed;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = (int32_t)type;
  CARNOT_TRY(carnot_conv_alloc_weights(out, carnot_packed_weights_packing(type),
                                       weight_bytes(p, by_rows), &packed));
  return carnot_conv_pack_taps(type, weights_shape(p, by_rows), p->channels,
                               carnot_conv_weights(problem)->tensor->data, packed);
}

// ---- load and run ----

static carnot_status* conv_validate(const carnot_step_view* step) {
  const bool by_rows = is_by_rows(step->tactic);
  const carnot_conv_params* p = NULL;
  char reason[256];
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  const char* why = check_params(p, by_rows, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the step is no convolution of few channels: %s", why);
  CARNOT_CHECK(p->weights == (int32_t)carnot_packed_weights_type(step->tactic), INVALID_MODEL,
               "packed weights of type %d, must be %d", p->weights,
               (int)carnot_packed_weights_type(step->tactic));
  return carnot_conv_check_packed(step, weight_bytes(p, by_rows));
}

typedef struct conv_state {
  carnot_window_geometry geometry;
  int64_t src_c, rows_per_part, parts_per_image;
  int64_t outputs;         // of a chunk of im2col
  int64_t rows;            // of outputs of a chunk of conv_row_taps
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

// Input rows, with their padding, under |count| output rows.
static int64_t rows_under(const carnot_window_geometry* g, int64_t count) {
  return (count - 1) * g->stride_h + (g->r - 1) * g->dilation_h + 1;
}

// The matrix of a chunk and the input rows under it.
static void set_chunk_of_outputs(conv_state* s) {
  const carnot_window_geometry* g = &s->geometry;
  const int64_t depth = g->r * g->s * g->c,
                fit = kMatrixBytes / (int64_t)sizeof(float) / depth / CARNOT_SPLIT_ROWS;
  s->outputs = carnot_min_i64(carnot_min_i64(fit * CARNOT_SPLIT_ROWS, kMostOutputs),
                              carnot_max_i64(1, g->p * g->q));
  const int64_t rows = carnot_ceildiv(s->outputs, carnot_max_i64(1, g->q)) + 1;
  s->held_rows = rows_under(g, carnot_min_i64(g->p, rows));
  s->floats = s->held_rows * s->row + s->outputs * depth;
}

// Chunks of even height.
static void set_chunk_of_rows(conv_state* s) {
  const carnot_window_geometry* g = &s->geometry;
  const int64_t held = kMatrixBytes / (int64_t)sizeof(float) / s->row,
                fit = (held - rows_under(g, 1)) / g->stride_h + 1,
                chunks = carnot_ceildiv(s->rows_per_part, carnot_max_i64(1, fit));
  s->rows = carnot_ceildiv(s->rows_per_part, chunks);
  s->held_rows = rows_under(g, s->rows);
  s->floats = s->held_rows * s->row;
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
  const carnot_im2col_f32 im2col = im2col_of(s, NULL);
  s->row = carnot_im2col_held_row(&im2col);
  s->rows_per_part = carnot_conv_rows_per_part(step->threads, g->p, rows_under(g, 1));
  s->parts_per_image = carnot_ceildiv(g->p, s->rows_per_part);
  if (is_by_rows(step->tactic))
    set_chunk_of_rows(s);
  else
    set_chunk_of_outputs(s);
  s->floats = (int64_t)carnot_align_up((size_t)(s->floats + CARNOT_IM2COL_SLACK), 16);
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

// Output rows [p0, p1) of image |n|.
typedef struct conv_rows {
  int64_t n, p0, p1;
  float* held;
  carnot_epilogue_f32 epilogue;  // of output 0 of the image
  float* dst;
} conv_rows;

static void rows_by_im2col(const conv_run* run, const conv_rows* part) {
  const conv_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const carnot_conv_params* p = run->step->params;
  float *held = part->held, *matrix = held + s->held_rows * s->row;
  const carnot_im2col_f32 im2col = im2col_of(s, held);
  carnot_gemm_f32 gemm = {.n = g->k,
                          .k = depth_of(p),
                          .a = matrix,
                          .lda = depth_of(p),
                          .b = run->step->constants[0],
                          .ldc = g->ld,
                          .epilogue = part->epilogue};
  const float* residual = gemm.epilogue.residual;
  // Rows of the input with its padding: the first that is not held.
  int64_t next = part->p0 * g->stride_h;
  for (int64_t m = part->p0 * g->q; m < part->p1 * g->q; m += gemm.m) {
    gemm.m = carnot_min_i64(s->outputs, part->p1 * g->q - m);
    const int64_t first = m / g->q * g->stride_h,
                  end = (m + gemm.m - 1) / g->q * g->stride_h + rows_under(g, 1);
    for (next = carnot_max_i64(next, first); next < end; next++)
      hold_row(run, part->n, next - g->pad_h, held + next % s->held_rows * s->row);
    run->kernels->im2col_f32(&im2col, m, m + gemm.m, matrix);
    gemm.c = part->dst + m * g->ld;
    if (residual) gemm.epilogue.residual = residual + m * gemm.epilogue.residual_ld;
    carnot_packed_weights_gemm(run->kernels, (carnot_weights_type)p->weights)(&gemm, 0, gemm.m, 0,
                                                                              gemm.n);
  }
}

// Output rows from |p0| on by |count|, of which the input rows are held; columns [q0, q1).
static void multiply_rows(const conv_run* run, const conv_rows* part, int64_t p0, int64_t count,
                          int64_t q0, int64_t q1) {
  const conv_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const carnot_conv_params* p = run->step->params;
  const int64_t m = p0 * g->q + q0;
  carnot_conv2d_f32 conv = {.n = 1,
                            .h = rows_under(g, count),
                            .w = q1 - q0,
                            .c = g->s * g->c,
                            .p = count,
                            .q = q1 - q0,
                            .k = g->k,
                            .r = g->r,
                            .s = 1,
                            .stride_h = g->stride_h,
                            .stride_w = 1,
                            .dilation_h = g->dilation_h,
                            .dilation_w = 1,
                            .src = part->held + q0 * g->stride_w * g->c,
                            .src_h = s->row,
                            .src_w = g->stride_w * g->c,
                            .weights = run->step->constants[0],
                            .zeros = carnot_conv_zeros,
                            .dst = part->dst + m * g->ld,
                            .ld = g->ld,
                            .epilogue = part->epilogue};
  if (conv.epilogue.residual) conv.epilogue.residual += m * conv.epilogue.residual_ld;
  carnot_packed_weights_conv2d(run->kernels, (carnot_weights_type)p->weights)(
      &conv, 0, count * conv.q, 0, g->k);
}

static void rows_by_taps(const conv_run* run, const conv_rows* part) {
  const conv_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  int64_t first = part->p0 * g->stride_h, next = first;  // rows that are held
  for (int64_t p = part->p0, count; p < part->p1; p += count) {
    count = carnot_min_i64(s->rows, part->p1 - p);
    const int64_t begin = p * g->stride_h, end = begin + rows_under(g, count);
    if (begin < next)
      memmove(part->held, part->held + (begin - first) * s->row,
              (size_t)((next - begin) * s->row) * sizeof(float));
    for (first = begin, next = carnot_max_i64(next, begin); next < end; next++)
      hold_row(run, part->n, next - g->pad_h, part->held + (next - first) * s->row);
    if (g->q <= kMostOutputs) {
      multiply_rows(run, part, p, count, 0, g->q);
      continue;
    }
    // The kernel takes no row as long: pieces of one row at a time.
    conv_rows one = *part;
    for (int64_t i = 0; i < count; i++, one.held += g->stride_h * s->row)
      for (int64_t q = 0; q < g->q; q += kMostOutputs)
        multiply_rows(run, &one, p + i, 1, q, carnot_min_i64(q + kMostOutputs, g->q));
  }
}

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const conv_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const carnot_conv_params* p = run->step->params;
  const int64_t n = part / s->parts_per_image, p0 = part % s->parts_per_image * s->rows_per_part,
                pixel = n * g->p * g->q;
  float* dst = run->outputs[0].data;
  conv_rows rows = {.n = n,
                    .p0 = p0,
                    .p1 = carnot_min_i64(p0 + s->rows_per_part, g->p),
                    .held = run->workspace + carnot_executor_scratch(part) * s->floats,
                    .dst = dst + pixel * g->ld};
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &rows.epilogue);
  if (rows.epilogue.residual) rows.epilogue.residual += pixel * rows.epilogue.residual_ld;
  if (is_by_rows(run->step->tactic))
    rows_by_taps(run, &rows);
  else
    rows_by_im2col(run, &rows);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, dst, g->ld,
                           pixel + p0 * g->q, pixel + rows.p1 * g->q, 0, g->k);
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

static const im2col_config kIm2col = {.by_rows = false}, kRowTaps = {.by_rows = true};

#define FEW_CHANNELS_TACTIC                                                                 \
  .anchor = CARNOT_OP_CONV, .strided_outputs = true, .reject = conv_reject,                 \
  .prepare = conv_prepare, .validate = conv_validate, .uses_input = carnot_conv_uses_input, \
  .configure = conv_configure, .run = conv_run_all, .work = conv_work
CARNOT_CPU_SPLIT_TACTICS(conv_im2col, .config = &kIm2col, FEW_CHANNELS_TACTIC);
CARNOT_CPU_SPLIT_TACTICS(conv_row_taps, .config = &kRowTaps, FEW_CHANNELS_TACTIC);
