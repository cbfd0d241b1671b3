// Convolution with few filters (small K), as in the last layers of image networks: a GEMM for each
// tap would use 3 of the 16 columns of a panel. Here the taps of a filter row are columns of one
// GEMM, and its results are added with a shift.
//   t[w, s*K + k] = sum_{r,c} src[p + r - pad_h, w, c] * weights[k, r, s, c]
//   dst[p,q,k] = act(bias[k] + sum_s t[q + s - pad_w, s*K + k] + residual)
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/conv.h"

enum { kMaxFewFilters = 8, kMaxTaps = 64 };

static int64_t columns_of(const carnot_conv_params* p) { return p->filters * p->window.kernel[1]; }

static int64_t depth_of(const carnot_conv_params* p) { return p->channels * p->window.kernel[0]; }

static const char* check_fit(const carnot_conv_params* p, char* reason, size_t size) {
  const carnot_sliding_window* w = &p->window;
  if (w->rank != 2 || p->group != 1) return "takes two spatial dimensions and one group";
  if (p->filters < 1 || p->filters > kMaxFewFilters)
    return carnot_because(reason, size, "%lld filters, takes up to %d", (long long)p->filters,
                          kMaxFewFilters);
  if (p->channels < 1 || p->channels > CARNOT_CONV_MAX_CHANNELS)
    return carnot_because(reason, size, "%lld channels, takes up to %d", (long long)p->channels,
                          CARNOT_CONV_MAX_CHANNELS);
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
static carnot_pw_program activation_program(const carnot_epilogue_plan* epilogue_plan) {
  carnot_pw_program program = {.instruction_count = 1,
                               .register_count = 2,
                               .input_count = 1,
                               .output_count = 1,
                               .output_register = {1}};
  program.instructions[0] =
      (carnot_pw_instruction){.fn = carnot_epilogue_activation_fn(epilogue_plan),
                              .dst = 1,
                              .a = epilogue_plan->a,
                              .b = epilogue_plan->b};
  return program;
}

static const char* small_k_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_CONV || node->inputs[1] >= problem->input_count) return "";
  const carnot_operand_desc* w = carnot_conv_weights(problem);
  if (w->rank != 4 || w->dims[0] < 1 || w->dims[0] > kMaxFewFilters)
    return carnot_because(reason, size, "not a 2-D convolution of up to %d filters",
                          kMaxFewFilters);
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  return why ? why : check_fit(&p, reason, size);
}

static carnot_status* small_k_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  int64_t n = columns_of(p), k = depth_of(p), count = carnot_packed_k1n16_count(k, n),
          width = p->window.kernel[1];
  void* packed;
  CARNOT_TRY(
      carnot_conv_alloc_weights(out, "rows k1n16 f32", (size_t)count * sizeof(float), &packed));
  const float* weights = carnot_conv_weights(problem)->tensor->data;
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
  return NULL;
}

static carnot_status* small_k_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  CARNOT_CHECK(step->output_count == 1, INVALID_MODEL, "%u outputs", step->output_count);
  char reason[256];
  const char* why = check_fit(p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the convolution: %s", why);
  return carnot_conv_check_packed(
      step, (size_t)carnot_packed_k1n16_count(depth_of(p), columns_of(p)) * sizeof(float));
}

typedef struct small_k_state {
  carnot_window_geometry geometry;
  int64_t rows_per_part, row_count;
} small_k_state;

static carnot_status* small_k_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  const carnot_conv_params* p = step->params;
  small_k_state* s = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure(step, inputs, outputs, &s->geometry));
  const carnot_window_geometry* geometry = &s->geometry;
  s->row_count = geometry->n * geometry->p;
  s->rows_per_part = carnot_max_i64(1, carnot_ceildiv(s->row_count, 32));
  *out_workspace_bytes =
      (size_t)(carnot_ceildiv(s->row_count, s->rows_per_part) * geometry->w * columns_of(p)) *
      sizeof(float);
  return NULL;
}

typedef struct small_k_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const small_k_state* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} small_k_run;

// One output row from its sums by column.
static void add_shifted(const carnot_conv_params* p, const carnot_window_geometry* geometry,
                        const carnot_epilogue_f32* e, const float* t, int64_t row, float* dst) {
  int64_t filters = p->filters, n = columns_of(p);
  for (int64_t q = 0; q < geometry->q; q++) {
    int64_t first = q - geometry->pad_w, s0 = carnot_max_i64(0, -first),
            s1 = carnot_min_i64(geometry->s, geometry->w - first);
    float sum[kMaxFewFilters];
    for (int64_t k = 0; k < filters; k++) sum[k] = e->bias ? e->bias[k] : 0;
    for (int64_t s = s0; s < s1; s++) {
      const float* at = t + (first + s) * n + s * filters;
      for (int64_t k = 0; k < filters; k++) sum[k] += at[k];
    }
    int64_t pixel = row * geometry->q + q;
    for (int64_t k = 0; k < filters; k++)
      dst[pixel * geometry->ld + k] =
          sum[k] + (e->residual ? e->residual[pixel * e->residual_ld + k] : 0);
  }
}

static void small_k_part(void* argument, int64_t part) {
  const small_k_run* run = argument;
  const carnot_conv_params* p = run->step->params;
  const carnot_window_geometry* geometry = &run->state->geometry;
  float* sums = run->workspace + part * geometry->w * columns_of(p);
  float* dst = run->outputs[0].data;
  carnot_epilogue_f32 epilogue;
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &epilogue);
  int64_t row0 = part * run->state->rows_per_part,
          row1 = carnot_min_i64(row0 + run->state->rows_per_part, run->state->row_count);
  for (int64_t row = row0; row < row1; row++) {
    carnot_conv2d_f32 conv = {.n = 1,
                              .h = geometry->h,
                              .w = geometry->w,
                              .c = geometry->c,
                              .p = 1,
                              .q = geometry->w,
                              .k = columns_of(p),
                              .r = geometry->r,
                              .s = 1,
                              .stride_h = 1,
                              .stride_w = 1,
                              .dilation_h = 1,
                              .dilation_w = 1,
                              .pad_h = geometry->pad_h - row % geometry->p,
                              .src_h = geometry->src_h,
                              .src_w = geometry->src_w,
                              .zeros = carnot_conv_zeros,
                              .weights = run->step->constants[0],
                              .dst = sums,
                              .ld = columns_of(p)};
    conv.src = (const float*)run->inputs[0].data + row / geometry->p * geometry->src_n;
    run->kernels->conv2d_f32(&conv, 0, conv.q, 0, conv.k);
    add_shifted(p, geometry, &epilogue, sums, row, dst);
  }
  if (p->epilogue_plan.activation != CARNOT_KERNEL_ACTIVATION_NONE && row0 < row1) {
    carnot_pw_program program = activation_program(&p->epilogue_plan);
    bool dense = geometry->ld == geometry->k;
    int64_t pixels = (row1 - row0) * geometry->q;
    carnot_pw_operand tile = {dst + row0 * geometry->q * geometry->ld, geometry->ld, 1};
    run->kernels->pointwise(&program, &tile, &tile, 0, dense ? 1 : pixels,
                            dense ? pixels * geometry->k : geometry->k);
  }
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, dst, geometry->ld,
                           row0 * geometry->q, row1 * geometry->q, 0, geometry->k);
}

static carnot_status* small_k_run_all(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  small_k_run run = {
      carnot_cpu_kernels_of(step->tactic->isa), step, state, inputs, outputs, workspace};
  carnot_executor_parallel(executor, carnot_ceildiv(run.state->row_count, run.state->rows_per_part),
                           small_k_part, &run);
  return NULL;
}

static void small_k_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_conv_work(problem, 4, out_flops, out_bytes);
}

CARNOT_CPU_TACTICS(conv_small_k_f32, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                   .reject = small_k_reject, .prepare = small_k_prepare,
                   .validate = small_k_validate, .uses_input = carnot_conv_uses_input,
                   .configure = small_k_configure, .run = small_k_run_all, .work = small_k_work);
