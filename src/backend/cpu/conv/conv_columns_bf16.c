// Convolution of few filters by AMX tiles: the columns of the filter, or pairs of them where two
// pixels fill the depth of a tile, are channels of their own of a convolution with a filter of one
// column or two, and what they give is summed with its shifts. A tile multiplies 16 columns, of
// which few filters fill few: 9x9 pixels of 16 channels to 3 take 45 tile multiplications, and 9
// so.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv.h"

enum {
  kLeastChannels = 16,
  kMostColumns = 64,
  kSumsBytes = 512 * 1024  // of a block of rows
};

// Columns of the filter that are one tap.
static int64_t joined_of(const carnot_conv_params* p) {
  return carnot_bf16_tiles_joined_columns(p->channels, p->window.kernel[1], p->window.dilations[1]);
}

static int64_t shifts_of(const carnot_conv_params* p) {
  return carnot_ceildiv(p->window.kernel[1], joined_of(p));
}

// Pixels from one shift to the next.
static int64_t shift_of(const carnot_conv_params* p) {
  return joined_of(p) * p->window.dilations[1];
}

static int64_t columns_of(const carnot_conv_params* p) { return shifts_of(p) * p->filters; }

static carnot_packed_weights_shape weights_shape(const carnot_conv_params* p) {
  return (carnot_packed_weights_shape){p->window.kernel[0], p->channels * joined_of(p),
                                       columns_of(p)};
}

static size_t packed_bytes(const carnot_conv_params* p) {
  return carnot_packed_weights_bytes(CARNOT_WEIGHTS_BF16_TILES, weights_shape(p));
}

// ---- build ----

// |rows| output rows of an image from |p0| on, to rows of all columns.
static carnot_conv2d_bf16_tiles call_of(const carnot_conv_params* p,
                                        const carnot_window_geometry* g, int64_t p0, int64_t rows) {
  return (carnot_conv2d_bf16_tiles){.conv = {.n = 1,
                                             .h = g->h,
                                             .w = g->w,
                                             .c = p->channels,
                                             .p = rows,
                                             .q = g->q + (shifts_of(p) - 1) * shift_of(p),
                                             .k = columns_of(p),
                                             .r = g->r,
                                             .s = joined_of(p),
                                             .stride_h = g->stride_h,
                                             .stride_w = 1,
                                             .dilation_h = g->dilation_h,
                                             .dilation_w = 1,
                                             .pad_h = g->pad_h - p0 * g->stride_h,
                                             .pad_w = g->pad_w,
                                             .src_n = g->src_n,
                                             .src_h = g->src_h,
                                             .src_w = g->src_w,
                                             .ld = columns_of(p)},
                                    .joined = joined_of(p)};
}

static const char* check_params(const carnot_conv_params* p, char* reason, size_t size) {
  if (p->window.rank != 2) return "the window has not two dimensions";
  const int64_t columns = columns_of(p), filters = p->filters;
  if (p->group != 1) return "the channels are in groups";
  if (p->window.strides[1] != 1) return "the window steps by more than a column";
  if (p->channels < kLeastChannels || p->channels > CARNOT_CONV_MAX_CHANNELS)
    return carnot_because(reason, size, "%lld channels, takes %d to %d", (long long)p->channels,
                          kLeastChannels, CARNOT_CONV_MAX_CHANNELS);
  if (columns > kMostColumns ||
      2 * carnot_ceildiv(columns, 16) > shifts_of(p) * carnot_ceildiv(filters, 16))
    return carnot_because(reason, size, "%lld filters fill their tiles", (long long)filters);
  return carnot_epilogue_plan_has_full_operand(&p->epilogue_plan)
             ? "an operand of the result's shape follows"
             : NULL;
}

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (!why) why = check_params(&p, reason, size);
  if (why) return why;
  if (problem->outputs[0].format.dtype != CARNOT_DTYPE_F32) return "the result stays float32";
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  const carnot_window_geometry g = carnot_window_geometry_of_any_size(&p.window, p.channels);
  carnot_conv2d_bf16_tiles call = call_of(&p, &g, 0, /*rows=*/1);
  call.src_is_bf16 = problem->inputs[0].format.dtype == CARNOT_DTYPE_BF16;
  return carnot_conv2d_bf16_tiles_fits(&call) ? NULL
                                              : "the pixels under the window do not fit in L2";
}

// [K,C,R,S] as filters [shifts,K] of a tap's columns, [C,R,joined], zeros behind the last.
static void split_columns(const carnot_conv_params* p, const float* weights, float* split) {
  const int64_t s = p->window.kernel[1], rows = p->channels * p->window.kernel[0],
                joined = joined_of(p);
  for (int64_t k = 0; k < p->filters; k++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < shifts_of(p) * joined; j++)
        split[((j / joined * p->filters + k) * rows + i) * joined + j % joined] =
            j < s ? weights[(k * rows + i) * s + j] : 0;
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = CARNOT_WEIGHTS_BF16_TILES;
  const carnot_packed_weights_shape shape = weights_shape(p);
  void *packed, *split;
  CARNOT_TRY(carnot_conv_alloc_weights(
      out, carnot_packed_weights_packing(CARNOT_WEIGHTS_BF16_TILES), packed_bytes(p), &packed));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)(shape.taps * shape.depth * shape.n),
                              sizeof(float), "the columns of a filter", &split));
  split_columns(p, carnot_conv_weights(problem)->tensor->data, split);
  return carnot_conv_pack_taps(CARNOT_WEIGHTS_BF16_TILES, shape, p->channels, split, packed);
}

// ---- load and run ----

static carnot_status* conv_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  char reason[256];
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  const char* why = check_params(p, reason, sizeof(reason));
  CARNOT_CHECK(!why && p->weights == CARNOT_WEIGHTS_BF16_TILES &&
                   p->window.kernel[0] <= CARNOT_BF16_TILES_MAX_TAPS,
               INVALID_MODEL, "the step is no convolution of few filters: %s",
               why ? why : "its weights are packed otherwise");
  return carnot_conv_check_packed(step, packed_bytes(p));
}

typedef struct conv_state {
  carnot_window_geometry geometry;
  int64_t rows, rows_per_part, parts_per_image;  // |rows| of a block
  int64_t sums, shifted, workspace;  // where a part's workspace holds them, and its bytes
} conv_state;

// The shifted sum of one output row, without pointers.
static carnot_sum_columns_f32 sum_of(const carnot_conv_params* p, const carnot_window_geometry* g,
                                     int64_t src_ld) {
  return (carnot_sum_columns_f32){.q = g->q,
                                  .k = p->filters,
                                  .s = shifts_of(p),
                                  .dilation = shift_of(p),
                                  .src_ld = src_ld,
                                  .dst_ld = g->p * g->q};
}

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  conv_state* s = memory;
  const carnot_conv_params* p = step->params;
  const carnot_window_geometry* g = &s->geometry;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure_row_major(step, inputs, outputs, &s->geometry));
  carnot_conv2d_bf16_tiles call = call_of(p, g, 0, /*rows=*/1);
  const int64_t row = call.conv.q * call.conv.ld * (int64_t)sizeof(float);
  s->rows_per_part = carnot_ceildiv(g->p, carnot_parts(step->threads));
  s->rows = carnot_min_i64(s->rows_per_part, carnot_max_i64(1, kSumsBytes / row));
  s->parts_per_image = carnot_ceildiv(g->p, s->rows_per_part);
  call = call_of(p, g, 0, s->rows);
  call.src_is_bf16 = inputs[0].format.dtype == CARNOT_DTYPE_BF16;
  CARNOT_CHECK(carnot_conv2d_bf16_tiles_fits(&call), INVALID_MODEL,
               "the pixels under the window do not fit in L2");
  const carnot_sum_columns_f32 sum = sum_of(p, g, call.conv.ld);
  s->sums = (int64_t)carnot_align_up((size_t)carnot_conv2d_bf16_tiles_scratch(&call), 64);
  s->shifted = s->sums + (int64_t)carnot_align_up((size_t)(s->rows * row), 64);
  s->workspace = (int64_t)carnot_align_up(
      (size_t)s->shifted + (size_t)carnot_sum_columns_scratch(&sum) * sizeof(float), 64);
  *out_workspace_bytes = (size_t)(s->workspace * s->parts_per_image * g->n);
  return NULL;
}

typedef struct conv_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const conv_state* state;
  const carnot_operand *inputs, *outputs;
  char* workspace;
} conv_run;

// |rows| rows of image |n| from |p0| on.
static void compute_rows(const conv_run* run, int64_t n, int64_t p0, int64_t rows,
                         char* workspace) {
  const carnot_conv_params* p = run->step->params;
  const carnot_window_geometry* g = &run->state->geometry;
  const carnot_operand *x = &run->inputs[0], *y = &run->outputs[0];
  const int64_t bytes = carnot_dtype_bits(x->format.dtype) / 8;
  float* sums = (float*)(void*)(workspace + run->state->sums);
  float* dst = (float*)y->data + n * p->filters * g->p * g->q;
  carnot_conv2d_bf16_tiles call = call_of(p, g, p0, rows);
  call.src_is_bf16 = x->format.dtype == CARNOT_DTYPE_BF16;
  call.scratch = workspace;
  call.conv.src = (const float*)(const void*)((const char*)x->data + n * g->src_n * bytes);
  call.conv.dst = sums;
  call.conv.weights = run->step->constants[0];
  run->kernels->conv2d_bf16_tiles(&call, 0, rows * call.conv.q, 0, call.conv.k);
  carnot_sum_columns_f32 sum = sum_of(p, g, call.conv.ld);
  sum.scratch = (float*)(void*)(workspace + run->state->shifted);
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &sum.epilogue);
  for (int64_t i = 0; i < rows; i++) {
    sum.src = sums + i * call.conv.q * call.conv.ld;
    sum.dst = dst + (p0 + i) * g->q;
    run->kernels->sum_columns_f32(&sum);
  }
  carnot_epilogue_plan_run_by_channel(run->kernels, &p->epilogue_plan, run->inputs, dst,
                                      g->p * g->q, p->filters, p0 * g->q, (p0 + rows) * g->q);
}

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const conv_state* s = run->state;
  const int64_t n = part / s->parts_per_image, begin = part % s->parts_per_image * s->rows_per_part,
                end = carnot_min_i64(begin + s->rows_per_part, s->geometry.p);
  for (int64_t p0 = begin; p0 < end; p0 += s->rows)
    compute_rows(run, n, p0, carnot_min_i64(s->rows, end - p0),
                 run->workspace + carnot_executor_scratch(part) * s->workspace);
}

static carnot_status* conv_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  conv_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .step = step,
                  .state = memory,
                  .inputs = inputs,
                  .outputs = outputs,
                  .workspace = workspace};
  carnot_executor_parallel(executor, run.state->parts_per_image * run.state->geometry.n, conv_part,
                           &run);
  return NULL;
}

static void conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 2, out_flops, out_bytes);
}

CARNOT_CPU_TACTIC(conv_columns_bf16, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,
                  .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true, .anchor = CARNOT_OP_CONV,
                  .reject = conv_reject, .prepare = conv_prepare, .validate = conv_validate,
                  .uses_input = carnot_conv_uses_input, .configure = conv_configure,
                  .run = conv_run_all, .work = conv_work);
