// Runs squeeze-and-excitation before a 1x1 convolution: partial sums of pixels, the two dense
// layers of the gate, then blocks of pixels that are scaled and convolved.
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/squeeze_excite.h"

enum {
  kSlotBytes = 256 << 10,  // of scaled pixels, which stay in L2 with the weights
  kLeastPixels = 64,       // that a buffer holds: weights are read once for each
  kPixelUnit = 32          // pixels of a block and its multiples
};

// ---- configure ----

static carnot_work_partition partition_of(const carnot_squeeze_excite_state* s,
                                          const carnot_step_view* step,
                                          const carnot_conv_params* p) {
  const carnot_window_geometry* g = &s->geometry;
  const int64_t m = g->n * s->pixels;
  const carnot_weights_type type = (carnot_weights_type)p->weights;
  if (type == CARNOT_WEIGHTS_BF16_TILES) {
    const carnot_conv2d_bf16_tiles call =
        carnot_conv_stage_tiles(p, m, carnot_conv_stage_src(p, true, NULL), g->ld);
    return carnot_conv_tiles_partition(step->threads, &call);
  }
  if (!carnot_packed_weights_split(type))
    return carnot_work_partition_make(step->tactic->isa, step->threads, m, p->filters, p->channels);
  return carnot_work_partition_make_split(step->threads,
                                          &(carnot_split_work){.m = m,
                                                               .n = p->filters,
                                                               .depth = p->channels,
                                                               .taps = 1,
                                                               .row_unit = kPixelUnit,
                                                               .unit_pixels = kPixelUnit});
}

// Scratch of the kernel of BF16 tiles for |pixels|.
static carnot_status* find_scratch(const carnot_conv_params* p, int64_t pixels, int64_t ld,
                                   int64_t* out_bytes) {
  const carnot_conv2d_bf16_tiles call =
      carnot_conv_stage_tiles(p, pixels, carnot_conv_stage_src(p, true, NULL), ld);
  CARNOT_CHECK(carnot_conv2d_bf16_tiles_fits(&call), INVALID_MODEL,
               "pixels of %lld channels do not fit in L2", (long long)p->channels);
  *out_bytes = carnot_conv2d_bf16_tiles_scratch(&call);
  return NULL;
}

static carnot_status* find_buffers(const carnot_squeeze_excite_params* params,
                                   carnot_squeeze_excite_state* s) {
  const carnot_conv_params* p = &params->stages[CARNOT_PROJECT];
  const int64_t all = s->geometry.n * s->pixels;
  int64_t scratch = 0;
  s->scaled_is_bf16 = p->weights == CARNOT_WEIGHTS_BF16_TILES;
  s->scales_first = s->partition.n_count > 1;
  const int64_t bytes = carnot_conv_stage_src(p, s->scaled_is_bf16, NULL).ld *
                        (s->scaled_is_bf16 ? 2 : 4),
                fit = carnot_max_i64(kLeastPixels, kSlotBytes / bytes / kPixelUnit * kPixelUnit);
  s->scaled_pixels = s->scales_first ? all : carnot_min_i64(all, fit);
  s->scaled_bytes = (int64_t)carnot_align_up((size_t)(s->scaled_pixels * bytes), 64);
  if (s->scaled_is_bf16) CARNOT_TRY(find_scratch(p, s->scaled_pixels, s->geometry.ld, &scratch));
  scratch = (int64_t)carnot_align_up((size_t)scratch, 64);
  s->slot_bytes = (s->scales_first ? 0 : s->scaled_bytes) + scratch;
  s->slot_count = carnot_min_i64(CARNOT_CONV_MAX_SLOTS, carnot_work_partition_count(&s->partition));
  return NULL;
}

// Pixels of input rows that lie apart are summed row by row.
static void cut_sums(carnot_squeeze_excite_state* s) {
  const carnot_window_geometry* g = &s->geometry;
  s->pixels = g->h * g->w;
  s->sum_pixels = g->src_h == g->src_w * g->w ? carnot_rows_per_part(s->pixels, g->c) : g->w;
  s->sum_count = carnot_ceildiv(s->pixels, s->sum_pixels);
  s->ld = (int64_t)carnot_align_up((size_t)g->c, 16);
}

carnot_status* carnot_squeeze_excite_configure(const carnot_step_view* step,
                                               const carnot_operand* inputs,
                                               const carnot_operand* outputs, void* state,
                                               size_t* out_workspace_bytes) {
  const carnot_squeeze_excite_params* params = step->params;
  const carnot_conv_params* p = &params->stages[CARNOT_PROJECT];
  carnot_squeeze_excite_state* s = state;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  *out_workspace_bytes = 0;
  *s = (carnot_squeeze_excite_state){0};
  CARNOT_CHECK(x->rank == 4 && y->rank == 4 && carnot_cpu_is_f32_value(step, x) &&
                   carnot_cpu_is_f32_value(step, y),
               INVALID_MODEL, "operands of rank %d and %d", x->rank, y->rank);
  CARNOT_TRY(carnot_window_geometry_of(&p->window, x, y, &s->geometry));
  const carnot_window_geometry* g = &s->geometry;
  CARNOT_CHECK(g->c == p->channels && g->k == p->filters && g->p == g->h && g->q == g->w,
               INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)g->c, (long long)g->k, (long long)p->channels, (long long)p->filters);
  carnot_operand dense = *y;  // what the dense layers make is float32
  dense.format.dtype = CARNOT_DTYPE_F32;
  for (int i = 0; i < CARNOT_SQUEEZE_EXCITE_STAGES; i++)
    CARNOT_TRY(carnot_epilogue_plan_check(step, &params->stages[i].epilogue_plan, inputs,
                                          i == CARNOT_PROJECT ? y : &dense,
                                          params->stages[i].filters));
  cut_sums(s);
  s->partition = partition_of(s, step, p);
  for (int i = 0; i < 2; i++)
    s->dense[i] = carnot_work_partition_make(step->tactic->isa, step->threads, g->n,
                                             params->stages[i].filters, params->stages[i].channels);
  CARNOT_TRY(find_buffers(params, s));
  const int64_t vectors = g->n * s->ld * (int64_t)sizeof(float);
  s->hidden_ld = (int64_t)carnot_align_up((size_t)params->stages[CARNOT_SQUEEZE].filters, 16);
  s->means = vectors * s->sum_count;
  s->hidden = s->means + vectors;
  s->gates = s->hidden + g->n * s->hidden_ld * (int64_t)sizeof(float);
  s->scaled = s->gates + vectors;
  s->slots = s->scaled + (s->scales_first ? s->scaled_bytes : 0);
  *out_workspace_bytes = (size_t)(s->slots + s->slot_count * s->slot_bytes);
  return NULL;
}

// ---- run ----

typedef struct block_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const carnot_squeeze_excite_params* params;
  const carnot_squeeze_excite_state* state;
  const carnot_operand *inputs, *outputs;
  char* workspace;
  const float* biases[CARNOT_SQUEEZE_EXCITE_STAGES];
  int stage;               // dense layer that runs
  _Atomic uint32_t taken;  // bit set of slots
} block_run;

static float* vectors_at(const block_run* run, int64_t offset) {
  return (float*)(void*)(run->workspace + offset);
}

// Pixel |m| of the input.
static carnot_pixels pixel_at(const block_run* run, int64_t m) {
  const carnot_window_geometry* g = &run->state->geometry;
  const int64_t image = m / run->state->pixels, at = m % run->state->pixels;
  return carnot_pixels_of(&run->inputs[0],
                          image * g->src_n + at / g->w * g->src_h + at % g->w * g->src_w, g->src_w);
}

static void sum_part(void* argument, int64_t part) {
  const block_run* run = argument;
  const carnot_squeeze_excite_state* s = run->state;
  const int64_t first = part % s->sum_count * s->sum_pixels,
                image = part / s->sum_count * s->pixels;
  const carnot_pixels src = pixel_at(run, image + first);
  const carnot_reduce_f32 sum = {.reduction = CARNOT_KERNEL_REDUCTION_SUM,
                                 .n = carnot_min_i64(s->sum_pixels, s->pixels - first),
                                 .inner = s->geometry.c,
                                 .src = src.data,
                                 .src_axis = src.ld,
                                 .dst = vectors_at(run, 0) + part * s->ld,
                                 .src_is_bf16 = src.is_bf16};
  run->kernels->reduce_f32(&sum, 0, 1, 0, s->geometry.c);
}

// The means of all images from their partial sums.
static void find_means(const block_run* run) {
  const carnot_squeeze_excite_state* s = run->state;
  float* means = vectors_at(run, s->means);
  const carnot_reduce_f32 sum = {.reduction = CARNOT_KERNEL_REDUCTION_SUM,
                                 .n = s->sum_count,
                                 .inner = s->geometry.c,
                                 .src = vectors_at(run, 0),
                                 .src_outer = s->sum_count * s->ld,
                                 .src_axis = s->ld,
                                 .dst = means,
                                 .dst_outer = s->ld};
  run->kernels->reduce_f32(&sum, 0, s->geometry.n, 0, s->geometry.c);
  for (int64_t n = 0; n < s->geometry.n; n++)
    for (int64_t c = 0; c < s->geometry.c; c++) means[n * s->ld + c] /= (float)s->pixels;
}

static void dense_part(void* argument, int64_t part) {
  const block_run* run = argument;
  const carnot_squeeze_excite_state* s = run->state;
  const bool squeezes = run->stage == CARNOT_SQUEEZE;
  const carnot_conv_params* p = &run->params->stages[run->stage];
  float *src = vectors_at(run, squeezes ? s->means : s->hidden),
        *dst = vectors_at(run, squeezes ? s->hidden : s->gates);
  const int64_t lda = squeezes ? s->ld : s->hidden_ld, ldc = squeezes ? s->hidden_ld : s->ld;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&s->dense[run->stage], part, &m0, &m1, &n0, &n1);
  carnot_conv_stage_point point = {.kernels = run->kernels,
                                   .params = p,
                                   .weights = run->step->constants[run->stage],
                                   .src = {src + m0 * lda, false, lda, false},
                                   .dst = {dst + m0 * ldc, false, ldc, false}};
  point.epilogue = carnot_conv_stage_epilogue(p, run->biases[run->stage], run->inputs, 0,
                                              &point.residual_is_bf16);
  carnot_conv_stage_run_point(&point, m1 - m0, n0, n1);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, dst, ldc, m0, m1, n0, n1);
}

// Scales pixels [m, end) into |dst|, of evenly spaced pixels of one image at a time.
static void scale_pixels(const block_run* run, int64_t m, int64_t end, carnot_pixels dst) {
  const carnot_squeeze_excite_state* s = run->state;
  const carnot_window_geometry* g = &s->geometry;
  const int64_t run_pixels = g->src_h == g->src_w * g->w ? s->pixels : g->w;
  for (int64_t count; m < end; m += count) {
    count = carnot_min_i64(end - m, run_pixels - m % run_pixels);
    const carnot_pixels src = pixel_at(run, m);
    const carnot_scale_channels_f32 scale = {
        .m = count,
        .c = g->c,
        .src = src.data,
        .src_ld = src.ld,
        .scale = vectors_at(run, s->gates) + m / s->pixels * s->ld,
        .dst = dst.data,
        .dst_ld = dst.ld,
        .src_is_bf16 = src.is_bf16,
        .dst_is_bf16 = dst.is_bf16};
    run->kernels->scale_channels_f32(&scale);
    carnot_conv_stage_pad(dst, g->c, count);
    dst.data = carnot_pixels_element(dst.data, dst.is_bf16, count * dst.ld);
  }
}

static carnot_pixels scaled_at(const block_run* run, void* buffer, int64_t m) {
  const carnot_squeeze_excite_state* s = run->state;
  carnot_pixels pixels =
      carnot_conv_stage_src(&run->params->stages[CARNOT_PROJECT], s->scaled_is_bf16, buffer);
  pixels.data = carnot_pixels_element(buffer, pixels.is_bf16, m * pixels.ld);
  return pixels;
}

static void scale_part(void* argument, int64_t part) {
  const block_run* run = argument;
  const carnot_squeeze_excite_state* s = run->state;
  const int64_t all = s->geometry.n * s->pixels,
                per_part = carnot_rows_per_part(all, s->geometry.c), m = part * per_part;
  scale_pixels(run, m, carnot_min_i64(all, m + per_part),
               scaled_at(run, run->workspace + s->scaled, m));
}

// Filters [n0,n1) of pixels [m0,m1), which |point| reads.
static void project(const block_run* run, carnot_conv_stage_point* point, int64_t m0, int64_t m1,
                    int64_t n0, int64_t n1) {
  const carnot_conv_params* p = point->params;
  const int64_t ld = run->state->geometry.ld;
  point->dst = carnot_pixels_of(&run->outputs[0], m0 * ld, ld);
  point->epilogue = carnot_conv_stage_epilogue(p, run->biases[CARNOT_PROJECT], run->inputs, m0,
                                               &point->residual_is_bf16);
  carnot_conv_stage_run_point(point, m1 - m0, n0, n1);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, run->outputs[0].data, ld,
                           m0, m1, n0, n1);
}

static void project_part(void* argument, int64_t part) {
  block_run* run = argument;
  const carnot_squeeze_excite_state* s = run->state;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&s->partition, part, &m0, &m1, &n0, &n1);
  const int slot = carnot_conv_take_slot(&run->taken, s->slot_count);
  char* buffer = run->workspace + s->slots + slot * s->slot_bytes;
  carnot_conv_stage_point point = {.kernels = run->kernels,
                                   .params = &run->params->stages[CARNOT_PROJECT],
                                   .weights = run->step->constants[CARNOT_PROJECT]};
  if (s->scales_first) {
    point.src = scaled_at(run, run->workspace + s->scaled, m0);
    point.scratch = buffer;
    project(run, &point, m0, m1, n0, n1);
  } else {
    point.src = scaled_at(run, buffer, 0);
    point.scratch = buffer + s->scaled_bytes;
    for (int64_t m = m0, end; m < m1; m = end) {
      end = carnot_min_i64(m1, m + s->scaled_pixels);
      scale_pixels(run, m, end, point.src);
      project(run, &point, m, end, n0, n1);
    }
  }
  carnot_conv_return_slot(&run->taken, slot);
}

carnot_status* carnot_squeeze_excite_run(const carnot_step_view* step, void* state,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* workspace,
                                         carnot_executor* executor) {
  block_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                   .step = step,
                   .params = step->params,
                   .state = state,
                   .inputs = inputs,
                   .outputs = outputs,
                   .workspace = workspace};
  const carnot_squeeze_excite_state* s = state;
  carnot_conv_stages_biases(step, run.params->stages, CARNOT_SQUEEZE_EXCITE_STAGES, run.biases);
  carnot_executor_parallel(executor, s->geometry.n * s->sum_count, sum_part, &run);
  find_means(&run);
  for (run.stage = CARNOT_SQUEEZE; run.stage <= CARNOT_EXCITE; run.stage++)
    carnot_executor_parallel(executor, carnot_work_partition_count(&s->dense[run.stage]),
                             dense_part, &run);
  if (s->scales_first) {
    const int64_t all = s->geometry.n * s->pixels;
    carnot_executor_parallel(
        executor, carnot_ceildiv(all, carnot_rows_per_part(all, s->geometry.c)), scale_part, &run);
  }
  carnot_executor_parallel(executor, carnot_work_partition_count(&s->partition), project_part,
                           &run);
  return NULL;
}
