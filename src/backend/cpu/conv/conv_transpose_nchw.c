// Transposed convolution of row-major pictures and volumes whose taps do not overlap, as the last
// layers of segmentation networks have: every pixel gives all taps of all filters, a convolution of
// one tap, whose rows are then interleaved.
//   y[k, d*sd + a, h*sh + b, w*sw + e] = activation(bias[k] + sum_c x[c,d,h,w] *
//   weights[c,k,a,b,e])
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/conv_transpose.h"

// Filters of a part are whole blocks of the packed weights; floats of its scratch, which stay in
// L2.
enum { kScratch = 1 << 16, kMostTaps = 64 };

static int64_t tap_count(const carnot_transposed_params* p) {
  return carnot_dims_count(p->window.kernel, CARNOT_TRANSPOSED_AXES);
}

static const char* check_window(const carnot_transposed_params* p) {
  for (int i = 0; i < CARNOT_TRANSPOSED_AXES; i++)
    if (p->window.kernel[i] != p->window.strides[i] || p->window.begin[i] != 0 ||
        p->window.kernel[i] < 1 || p->window.dilations[i] != 1)
      return "taps overlap or reach beyond the result";
  return tap_count(p) > kMostTaps ? "more than 64 taps" : NULL;
}

// Along axis |i| of three.
static int64_t size_along(int rank, const int64_t* dims, int i) {
  const int d = rank - CARNOT_TRANSPOSED_AXES + i;
  return d < 2 ? 1 : dims[d];
}

static const char* reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_layout given = problem->inputs[0].format.layout;
  carnot_transposed_params p;
  const char* why = carnot_transposed_read(problem, &p, reason, size);
  if (!why) why = check_window(&p);
  if (why) return why;
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  for (int i = 0; i < CARNOT_TRANSPOSED_AXES; i++) {
    const int64_t in = size_along(x->rank, x->dims, i), out = size_along(y->rank, y->dims, i);
    if (in < 1 || out != in * p.window.strides[i]) return "the result is cut or padded";
  }
  if (given != CARNOT_LAYOUT_ROW_MAJOR) return "the input is not row-major";
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static size_t packed_bytes(const carnot_transposed_params* p) {
  return (size_t)(p->channels / p->group * p->filters * tap_count(p)) * sizeof(float);
}

static carnot_status* prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  void *params, *packed, *bias;
  char reason[256];
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_transposed_params), "parameters", &params));
  carnot_transposed_params* p = params;
  const char* why = carnot_transposed_read(problem, p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  const int64_t taps = tap_count(p), filters = p->filters / p->group * taps;
  CARNOT_TRY(
      carnot_arena_try(out->arena, (size_t)(p->filters * taps), sizeof(float), "a bias", &bias));
  CARNOT_TRY(carnot_conv_alloc_weights(out, "gk12 f32", packed_bytes(p), &packed));
  carnot_conv_nchw_pack(p->group, filters, p->channels / p->group,
                        problem->inputs[node->inputs[1]].tensor->data, 1, filters, packed);
  const float* given = p->has_bias ? problem->inputs[node->inputs[2]].tensor->data : NULL;
  for (int64_t i = 0; i < p->filters * taps; i++) ((float*)bias)[i] = given ? given[i / taps] : 0;
  out->params = p;
  out->param_bytes = sizeof(*p);
  out->constant_count = 2;
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = (size_t)(p->filters * taps) * sizeof(float);
  out->packed_inputs = (uint64_t)1 << node->inputs[1];
  if (p->has_bias) out->packed_inputs |= (uint64_t)1 << node->inputs[2];
  return NULL;
}

static carnot_status* validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_transposed_check_params(step));
  const carnot_transposed_params* p = step->params;
  for (int i = 0; i < CARNOT_TRANSPOSED_AXES; i++)
    CARNOT_CHECK(p->window.kernel[i] >= 1 && p->window.kernel[i] <= kMostTaps, INVALID_MODEL,
                 "%lld taps along axis %d", (long long)p->window.kernel[i], i);
  const char* why = check_window(p);
  CARNOT_CHECK(!why, INVALID_MODEL, "the window: %s", why);
  CARNOT_CHECK(step->constant_bytes[0] == packed_bytes(p) &&
                   step->constant_bytes[1] == (size_t)(p->filters * tap_count(p)) * sizeof(float),
               INVALID_MODEL, "packed weights of %zu bytes, a bias of %zu", step->constant_bytes[0],
               step->constant_bytes[1]);
  return NULL;
}

static bool uses_input(const carnot_step_view* step, uint32_t input) {
  return input == 0 || step->region->nodes[0].op != CARNOT_OP_CONV_TRANSPOSE;
}

typedef struct interleaved_state {
  int64_t planes, depth, height, width;             // images * groups; of the input
  int64_t filters, filters_per_part, filter_parts;  // a filter counts once for each tap
  int64_t rows_per_part, row_parts;                 // of depth * height
} interleaved_state;

static carnot_status* configure(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* memory,
                                size_t* out_workspace_bytes) {
  interleaved_state* s = memory;
  const carnot_transposed_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(x->rank >= 3 && x->rank <= 2 + CARNOT_TRANSPOSED_AXES && y->rank == x->rank &&
                   x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 &&
                   carnot_cpu_is_dense(x) && carnot_cpu_is_dense(y) && x->dims[0] == y->dims[0] &&
                   x->dims[1] == p->channels && y->dims[1] == p->filters,
               INVALID_ARGUMENT,
               "operands do not fit packed weights of %lld channels, %lld filters",
               (long long)p->channels, (long long)p->filters);
  for (int i = 0; i < CARNOT_TRANSPOSED_AXES; i++)
    CARNOT_CHECK(
        size_along(y->rank, y->dims, i) == size_along(x->rank, x->dims, i) * p->window.strides[i],
        INVALID_ARGUMENT, "axis %d of the result does not fit the stride %lld", i,
        (long long)p->window.strides[i]);
  const int64_t taps = tap_count(p);
  *s = (interleaved_state){.planes = x->dims[0] * p->group,
                           .depth = size_along(x->rank, x->dims, 0),
                           .height = size_along(x->rank, x->dims, 1),
                           .width = size_along(x->rank, x->dims, 2),
                           .filters = p->filters / p->group * taps};
  // The least number of filters that is whole in blocks and in taps.
  s->filters_per_part = CARNOT_CONV2D_NCHW_BLOCK;
  while (s->filters_per_part % taps) s->filters_per_part += CARNOT_CONV2D_NCHW_BLOCK;
  s->filter_parts = carnot_ceildiv(s->filters, s->filters_per_part);
  const int64_t rows = s->depth * s->height,
                fit = carnot_max_i64(1, kScratch / (s->filters_per_part * s->width)),
                wanted = carnot_ceildiv(carnot_parts(step->threads), s->planes * s->filter_parts);
  s->rows_per_part = carnot_max_i64(1, carnot_min_i64(fit, carnot_ceildiv(rows, wanted)));
  s->row_parts = carnot_ceildiv(rows, s->rows_per_part);
  *out_workspace_bytes = (size_t)(s->planes * s->filter_parts * s->row_parts * s->filters_per_part *
                                  s->rows_per_part * s->width) *
                         sizeof(float);
  return NULL;
}

typedef struct interleaved_run {
  const carnot_cpu_kernels* kernels;
  const carnot_transposed_params* params;
  const interleaved_state* s;
  const float *x, *weights, *bias;
  float *y, *scratch;
} interleaved_run;

typedef struct part_of_plane {
  int64_t plane, row0, rows, filter0, filters;
} part_of_plane;

static void multiply(const interleaved_run* run, const part_of_plane* part, float* sums) {
  const carnot_transposed_params* p = run->params;
  const interleaved_state* s = run->s;
  const int64_t channels = p->channels / p->group, group = part->plane % p->group,
                pixels = part->rows * s->width, plane = s->depth * s->height * s->width;
  const carnot_conv2d_nchw_f32 conv = {
      .h = 1,
      .w = pixels,
      .p = 1,
      .q = pixels,
      .r = 1,
      .s = 1,
      .stride_h = 1,
      .stride_w = 1,
      .dilation_h = 1,
      .dilation_w = 1,
      .c = channels,
      .k = part->filters,
      .src = run->x + part->plane * channels * plane + part->row0 * s->width,
      .weights = run->weights + (group * s->filters + part->filter0) * channels,
      .bias = run->bias + group * s->filters + part->filter0,
      .dst = sums,
      .src_plane = plane,
      .dst_plane = pixels,
      .activation = (carnot_kernel_activation)p->activation,
      .a = p->a,
      .b = p->b};
  run->kernels->conv2d_nchw_f32(&conv, 0, 1, NULL);
}

// The rows of the taps along the width become one row of the result.
static void interleave(const interleaved_run* run, const part_of_plane* part, const float* sums) {
  const interleaved_state* s = run->s;
  const int64_t* strides = run->params->window.strides;
  const int64_t taps = tap_count(run->params), across = strides[2], pixels = part->rows * s->width;
  const int64_t row_floats = s->width * across, plane = s->depth * s->height * s->width * taps;
  for (int64_t f = 0; f < part->filters; f += across) {
    const int64_t filter = part->filter0 + f, tap = filter % taps / across;
    const int64_t below = tap % strides[1], behind = tap / strides[1];
    float* y = run->y + (part->plane * s->filters + filter) / taps * plane;
    for (int64_t row = 0; row < part->rows; row++) {
      const int64_t d = (part->row0 + row) / s->height, h = (part->row0 + row) % s->height;
      const int64_t at =
          (d * strides[0] + behind) * s->height * strides[1] + h * strides[1] + below;
      run->kernels->transpose_f32(across, s->width, sums + f * pixels + row * s->width, pixels,
                                  y + at * row_floats, across);
    }
  }
}

static void run_part(void* argument, int64_t at) {
  const interleaved_run* run = argument;
  const interleaved_state* s = run->s;
  const int64_t of_plane = s->filter_parts * s->row_parts;
  part_of_plane part = {.plane = at / of_plane,
                        .row0 = at % of_plane / s->filter_parts * s->rows_per_part,
                        .filter0 = at % s->filter_parts * s->filters_per_part};
  part.rows = carnot_min_i64(s->rows_per_part, s->depth * s->height - part.row0);
  part.filters = carnot_min_i64(s->filters_per_part, s->filters - part.filter0);
  float* sums = run->scratch + at * s->filters_per_part * s->rows_per_part * s->width;
  multiply(run, &part, sums);
  interleave(run, &part, sums);
}

static carnot_status* run_all(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  const interleaved_state* s = state;
  interleaved_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                         .params = step->params,
                         .s = s,
                         .x = inputs[0].data,
                         .weights = step->constants[0],
                         .bias = step->constants[1],
                         .y = outputs[0].data,
                         .scratch = workspace};
  carnot_executor_parallel(executor, s->planes * s->filter_parts * s->row_parts, run_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(conv_transpose_nchw_f32, .anchor = CARNOT_OP_CONV_TRANSPOSE, .reject = reject,
                   .prepare = prepare, .validate = validate, .uses_input = uses_input,
                   .configure = configure, .run = run_all);
