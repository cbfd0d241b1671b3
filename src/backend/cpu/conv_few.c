// Convolution with few filters, as the last layers of image networks have: a product of one column
// block for each tap would fill 16 columns with 3. Here the taps of a filter row are columns of one
// product; shifted sums follow.
//   t[w, s*K + k] = sum_{r,c} src[p + r - pad_h, w, c] * weights[k, r, s, c]
//   dst[p,q,k] = act(bias[k] + sum_s t[q + s - pad_w, s*K + k] + residual)
#include <stdlib.h>

#include "backend/cpu/conv.h"
#include "backend/cpu/rows.h"

enum { kMaxFewFilters = 8, kMaxZeroChannels = 8192, kMaxTaps = 64 };

static const float kZeros[kMaxZeroChannels];

static int64_t columns_of(const carnot_conv_params* p) { return p->filters * p->window.kernel[1]; }

static int64_t depth_of(const carnot_conv_params* p) { return p->channels * p->window.kernel[0]; }

static const char* check_fit(const carnot_conv_params* p, char* reason, size_t size) {
  const carnot_sliding_window* w = &p->window;
  if (w->rank != 2 || p->group != 1) return "takes two spatial dimensions and one group";
  if (p->filters < 1 || p->filters > kMaxFewFilters)
    return carnot_because(reason, size, "%lld filters, takes up to %d", (long long)p->filters,
                          kMaxFewFilters);
  if (p->channels < 1 || p->channels > kMaxZeroChannels)
    return carnot_because(reason, size, "%lld channels, takes up to %d", (long long)p->channels,
                          kMaxZeroChannels);
  for (int i = 0; i < 2; i++) {
    if (w->kernel[i] < 1 || w->kernel[i] > kMaxTaps)
      return carnot_because(reason, size, "a filter of %lld taps", (long long)w->kernel[i]);
    if (w->strides[i] != 1 || w->dilations[i] != 1) return "the window is strided or dilated";
    if (w->begin[i] < 0 || w->begin[i] > kMaxTaps || (unsigned)w->auto_pad > CARNOT_PAD_VALID)
      return "the padding is out of range";
  }
  bool pays = carnot_ceildiv(columns_of(p), 16) * 2 <= w->kernel[1];
  if (!pays)
    return carnot_because(reason, size, "%lld filters of %lld taps a row save less than half",
                          (long long)p->filters, (long long)w->kernel[1]);
  return NULL;
}

// The activation as a program, for the whole row at once.
static carnot_pw_program activation_of(const carnot_tail* tail) {
  static const uint8_t kFns[CARNOT_ACTIVATION_COUNT] = {
      [CARNOT_ACTIVATION_RELU] = CARNOT_PW_RELU,
      [CARNOT_ACTIVATION_CLIP] = CARNOT_PW_CLAMP,
      [CARNOT_ACTIVATION_LEAKY_RELU] = CARNOT_PW_LEAKY_RELU,
      [CARNOT_ACTIVATION_SIGMOID] = CARNOT_PW_SIGMOID,
      [CARNOT_ACTIVATION_SILU] = CARNOT_PW_SWISH,
      [CARNOT_ACTIVATION_HARD_SWISH] = CARNOT_PW_HARD_SWISH,
      [CARNOT_ACTIVATION_TANH] = CARNOT_PW_TANH,
      [CARNOT_ACTIVATION_GELU_ERF] = CARNOT_PW_GELU_ERF};
  carnot_pw_program program = {.instruction_count = 1,
                               .register_count = 2,
                               .input_count = 1,
                               .output_count = 1,
                               .output_register = {1}};
  program.instructions[0] =
      (carnot_pw_instruction){.fn = kFns[tail->activation], .dst = 1, .a = tail->a, .b = tail->b};
  return program;
}

static const char* few_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_CONV || node->inputs[0] != 0 || node->inputs[1] >= problem->input_count)
    return "";
  const carnot_operand_desc* w = &problem->inputs[node->inputs[1]];
  if (w->rank != 4 || w->dims[0] < 1 || w->dims[0] > kMaxFewFilters)
    return "the filters are not few";
  float bias[kMaxFewFilters];
  carnot_conv_params p;
  const char* why = carnot_conv_describe(problem, &p, bias, reason, size);
  if (!why) why = check_fit(&p, reason, size);
  if (why) return why;
  for (uint32_t i = 1; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->inputs[0].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  if (p.tail.residual >= 0)
    problem->inputs[p.tail.residual].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  for (int i = 0; i < p.tail.operand_count; i++)
    if (p.tail.operands[i].shape == CARNOT_TAIL_FULL)
      problem->inputs[p.tail.operands[i].input].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static carnot_status* few_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  void *params, *bias, *memory;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_conv_params), "parameters", &params));
  CARNOT_TRY(carnot_arena_try(out->arena, 16, sizeof(float), "a bias", &bias));
  carnot_conv_params* p = params;
  char reason[256];
  const char* why = carnot_conv_describe(problem, p, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  int64_t n = columns_of(p), k = depth_of(p), count = carnot_packed_k1n16_count(k, n),
          width = p->window.kernel[1];
  CARNOT_TRY(
      carnot_arena_try(out->arena, (size_t)count + 16, sizeof(float), "packed weights", &memory));
  float* packed = (float*)carnot_align_up((uintptr_t)memory, 64);
  const float* weights = problem->inputs[node->inputs[1]].tensor->data;
  float* b = malloc((size_t)(k * n) * sizeof(float));
  if (!b) return CARNOT_NO_MEMORY((size_t)(k * n) * sizeof(float), "weights");
  for (int64_t f = 0; f < p->filters; f++)
    for (int64_t c = 0; c < p->channels; c++)
      for (int64_t r = 0; r < p->window.kernel[0]; r++)
        for (int64_t s = 0; s < width; s++)
          b[(r * p->channels + c) * n + s * p->filters + f] =
              weights[((f * p->channels + c) * p->window.kernel[0] + r) * width + s];
  carnot_pack_k1n16_f32(k, n, b, n, 1, packed);
  free(b);
  out->params = p;
  out->param_bytes = sizeof(*p);
  out->constant_count = 2;
  out->constants[0].packing = "rows k1n16 f32";
  out->constants[0].data = packed;
  out->constants[0].bytes = (size_t)count * sizeof(float);
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = 16 * sizeof(float);
  out->packed_inputs = (uint64_t)1 << node->inputs[1];
  if (node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE)
    out->packed_inputs |= (uint64_t)1 << node->inputs[2];
  return NULL;
}

static carnot_status* few_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_conv_params) && step->constant_count == 2,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 2",
               step->param_bytes, step->constant_count, sizeof(carnot_conv_params));
  const carnot_conv_params* p = step->params;
  CARNOT_CHECK(step->region->nodes[0].op == CARNOT_OP_CONV && step->input_count >= 2 &&
                   step->output_count == 1,
               INVALID_MODEL, "the step holds no convolution");
  CARNOT_TRY(carnot_tail_check(&p->tail, step->input_count));
  char reason[256];
  const char* why = check_fit(p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the convolution: %s", why);
  CARNOT_CHECK(
      step->constant_bytes[0] ==
              (size_t)carnot_packed_k1n16_count(depth_of(p), columns_of(p)) * sizeof(float) &&
          step->constant_bytes[1] >= (size_t)p->filters * sizeof(float),
      INVALID_MODEL, "packed weights of %zu bytes, a bias of %zu", step->constant_bytes[0],
      step->constant_bytes[1]);
  return NULL;
}

static bool few_reads(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = &step->region->nodes[0];
  return !((node->input_count > 1 && node->inputs[1] == input) ||
           (node->input_count > 2 && node->inputs[2] == input));
}

typedef struct few_state {
  carnot_plane plane;
  int64_t rows_per_part, row_count;
} few_state;

static carnot_status* few_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* memory,
                                size_t* out_workspace_bytes) {
  const carnot_conv_params* p = step->params;
  few_state* s = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_plane_make(&p->window, &inputs[0], &outputs[0], &s->plane));
  const carnot_plane* plane = &s->plane;
  CARNOT_CHECK(plane->c == p->channels && plane->k == p->filters, INVALID_ARGUMENT,
               "%lld channels give %lld, packed are %lld and %lld", (long long)plane->c,
               (long long)plane->k, (long long)p->channels, (long long)p->filters);
  s->row_count = plane->n * plane->p;
  s->rows_per_part = carnot_max_i64(1, carnot_ceildiv(s->row_count, 32));
  *out_workspace_bytes =
      (size_t)(carnot_ceildiv(s->row_count, s->rows_per_part) * plane->w * columns_of(p)) *
      sizeof(float);
  return carnot_tail_shapes(&p->tail, inputs, &outputs[0], p->filters);
}

typedef struct few_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const few_state* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} few_run;

// One output row from its sums by column.
static void add_shifted(const carnot_conv_params* p, const carnot_plane* plane,
                        const carnot_epilogue_f32* e, const float* t, int64_t row, float* dst) {
  int64_t filters = p->filters, n = columns_of(p);
  for (int64_t q = 0; q < plane->q; q++) {
    int64_t first = q - plane->pad_w, s0 = carnot_max_i64(0, -first),
            s1 = carnot_min_i64(plane->s, plane->w - first);
    float sum[kMaxFewFilters];
    for (int64_t k = 0; k < filters; k++) sum[k] = e->bias ? e->bias[k] : 0;
    for (int64_t s = s0; s < s1; s++) {
      const float* at = t + (first + s) * n + s * filters;
      for (int64_t k = 0; k < filters; k++) sum[k] += at[k];
    }
    int64_t pixel = row * plane->q + q;
    for (int64_t k = 0; k < filters; k++)
      dst[pixel * plane->ld + k] =
          sum[k] + (e->residual ? e->residual[pixel * e->residual_ld + k] : 0);
  }
}

static void few_part(void* argument, int64_t part) {
  const few_run* run = argument;
  const carnot_conv_params* p = run->step->params;
  const carnot_plane* plane = &run->state->plane;
  float* sums = run->workspace + part * plane->w * columns_of(p);
  float* dst = run->outputs[0].data;
  carnot_epilogue_f32 epilogue;
  carnot_tail_epilogue(&p->tail, run->inputs, p->has_bias ? run->step->constants[1] : NULL,
                       &epilogue);
  int64_t row0 = part * run->state->rows_per_part,
          row1 = carnot_min_i64(row0 + run->state->rows_per_part, run->state->row_count);
  for (int64_t row = row0; row < row1; row++) {
    carnot_conv2d_f32 conv = {.n = 1,
                              .h = plane->h,
                              .w = plane->w,
                              .c = plane->c,
                              .p = 1,
                              .q = plane->w,
                              .k = columns_of(p),
                              .r = plane->r,
                              .s = 1,
                              .stride_h = 1,
                              .stride_w = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .pad_h = plane->pad_h - row % plane->p,
                              .src_h = plane->src_h,
                              .src_w = plane->src_w,
                              .zeros = kZeros,
                              .weights = run->step->constants[0],
                              .dst = sums,
                              .ld = columns_of(p)};
    conv.src = (const float*)run->inputs[0].data + row / plane->p * plane->src_n;
    run->kernels->conv2d_f32(&conv, 0, conv.q, 0, conv.k);
    add_shifted(p, plane, &epilogue, sums, row, dst);
  }
  if (p->tail.activation != CARNOT_ACTIVATION_NONE && row0 < row1) {
    carnot_pw_program program = activation_of(&p->tail);
    bool dense = plane->ld == plane->k;
    int64_t pixels = (row1 - row0) * plane->q;
    carnot_pw_operand tile = {dst + row0 * plane->q * plane->ld, plane->ld, 1};
    run->kernels->pointwise(&program, &tile, &tile, 0, dense ? 1 : pixels,
                            dense ? pixels * plane->k : plane->k);
  }
  carnot_tail_run(run->kernels, &p->tail, run->inputs, dst, plane->ld, row0 * plane->q,
                  row1 * plane->q, 0, plane->k);
}

static carnot_status* few_run_all(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  few_run run = {carnot_cpu_kernels_of(step->tactic->isa), step, state, inputs, outputs, workspace};
  carnot_executor_parallel(executor, carnot_ceildiv(run.state->row_count, run.state->rows_per_part),
                           few_part, &run);
  return NULL;
}

static void few_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *x = &problem->inputs[0],
                            *w = &problem->inputs[problem->region->nodes[0].inputs[1]],
                            *y = &problem->outputs[0];
  double out = (double)carnot_dims_count(y->dims, y->rank),
         weights = (double)carnot_dims_count(w->dims, w->rank);
  *out_flops = 2 * out / (double)carnot_max_i64(1, y->dims[1]) * weights;
  *out_bytes = 4 * (out + weights + (double)carnot_dims_count(x->dims, x->rank));
}

CARNOT_CPU_ROWS(conv_few_f32, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                .reject = few_reject, .prepare = few_prepare, .validate = few_check,
                .uses_input = few_reads, .configure = few_shape, .run = few_run_all,
                .work = few_work);
