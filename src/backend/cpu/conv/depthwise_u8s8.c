// Depthwise QLinearConv in float32, whose sums of these integers are exact.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/qlinear_conv.h"
#include "kernel/cpu/conv/depthwise_f32.h"
#include "kernel/cpu/pointwise/convert.h"

enum { kExact = 1 << 24 };

static const char* depthwise_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_qlinear_conv_params p;
  const char* why = carnot_qlinear_read(problem, &p, reason, size);
  if (why) return why;
  if (p.group != p.channels || p.filters != p.channels)
    return carnot_because(reason, size, "group is %lld of %lld channels", (long long)p.group,
                          (long long)p.channels);
  const carnot_tensor* bias = carnot_qlinear_constant(problem, CARNOT_QLINEAR_BIAS);
  int64_t most = carnot_qlinear_taps(&p) * 255 * 128;
  for (int64_t f = 0; bias && f < p.filters; f++)
    if (llabs((long long)((const int32_t*)bias->data)[f]) + most >= kExact)
      return "sums with the bias exceed the integers that float32 holds exactly";
  return carnot_qlinear_want_channels_last(
      problem, most < kExact ? NULL : "sums exceed the integers that float32 holds exactly");
}

static carnot_status* depthwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *packed, *bias, *divisors, *wide;
  char reason[256];
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_qlinear_conv_params), "parameters", &params));
  const char* why = carnot_qlinear_read(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  const carnot_qlinear_conv_params* p = params;
  const carnot_tensor *w = carnot_qlinear_constant(problem, CARNOT_QLINEAR_W),
                      *w_scale = carnot_qlinear_constant(problem, CARNOT_QLINEAR_W_SCALE),
                      *bias_q = carnot_qlinear_constant(problem, CARNOT_QLINEAR_BIAS);
  int64_t taps = carnot_qlinear_taps(p), c = p->channels;
  size_t bytes = (size_t)carnot_packed_k1n16_count(taps, c) * sizeof(float);
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", &packed));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)(taps * c), sizeof(float), "weights", &wide));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)c, sizeof(float), "bias", &bias));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)c, sizeof(float), "scales", &divisors));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  for (int64_t i = 0; i < taps * c; i++) ((float*)wide)[i] = ((const int8_t*)w->data)[i];
  carnot_pack_k1n16_f32(taps, c, wide, 1, taps, packed);
  double outer =
      (double)*(const float*)carnot_qlinear_constant(problem, CARNOT_QLINEAR_Y_SCALE)->data /
      (double)*(const float*)carnot_qlinear_constant(problem, CARNOT_QLINEAR_X_SCALE)->data;
  for (int64_t f = 0; f < c; f++) {
    ((float*)bias)[f] = bias_q ? (float)((const int32_t*)bias_q->data)[f] : 0;
    double scale = (double)((const float*)w_scale->data)[carnot_tensor_count(w_scale) > 1 ? f : 0];
    ((float*)divisors)[f] = (float)(outer / scale);
  }
  void* data[] = {packed, bias, divisors};
  const char* packings[] = {"k1n16 f32", "f32 bias", "f32 scales"};
  size_t sizes[] = {bytes, (size_t)c * sizeof(float), (size_t)c * sizeof(float)};
  for (int i = 0; i < 3; i++) {
    out->constants[i].packing = packings[i];
    out->constants[i].data = data[i];
    out->constants[i].bytes = sizes[i];
  }
  out->constant_count = 3;
  out->params = params;
  out->param_bytes = sizeof(carnot_qlinear_conv_params);
  out->packed_inputs = 1u << CARNOT_QLINEAR_W | 1u << CARNOT_QLINEAR_BIAS;
  return NULL;
}

static carnot_status* depthwise_validate(const carnot_step_view* step) {
  const carnot_qlinear_conv_params* p = NULL;
  CARNOT_TRY(carnot_qlinear_check_params(step, 3, &p));
  CARNOT_CHECK(p->group == p->channels && p->filters == p->channels, INVALID_MODEL,
               "%lld groups of %lld channels are not depthwise", (long long)p->group,
               (long long)p->channels);
  size_t wanted[] = {
      (size_t)carnot_packed_k1n16_count(carnot_qlinear_taps(p), p->channels) * sizeof(float),
      (size_t)p->channels * sizeof(float), (size_t)p->channels * sizeof(float)};
  return carnot_qlinear_check_constants(step, wanted, 3);
}

typedef struct depthwise_state {
  carnot_window_geometry geometry;
  int64_t row_count, rows_per_part, pixels_per_part;
} depthwise_state;

static carnot_status* depthwise_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  depthwise_state* s = memory;
  CARNOT_TRY(carnot_qlinear_configure(step, inputs, outputs, &s->geometry));
  const carnot_window_geometry* geometry = &s->geometry;
  CARNOT_CHECK(
      (geometry->h == 1 || geometry->src_h == geometry->src_w * geometry->w) &&
          (geometry->n == 1 || geometry->src_n == geometry->src_w * geometry->w * geometry->h),
      INVALID_MODEL, "the input's pixels are not evenly spaced");
  s->row_count = geometry->n * geometry->p;
  s->rows_per_part =
      carnot_rows_per_part(s->row_count, geometry->q * geometry->c * geometry->r * geometry->s);
  s->pixels_per_part = carnot_rows_per_part(geometry->n * geometry->h * geometry->w, geometry->c);
  *out_workspace_bytes = (size_t)(geometry->n * geometry->c) * sizeof(float) *
                         (size_t)(geometry->h * geometry->w + geometry->p * geometry->q);
  return NULL;
}

typedef struct depthwise_run {
  const carnot_cpu_kernels* kernels;
  const depthwise_state* s;
  const carnot_step_view* step;
  const char* x;
  char* y;
  float *wide_x, *wide_y;
} depthwise_run;

static void widen_part(void* argument, int64_t part) {
  const depthwise_run* run = argument;
  const carnot_qlinear_conv_params* p = run->step->params;
  const carnot_window_geometry* geometry = &run->s->geometry;
  static const float kOne = 1;
  const uint8_t zero = (uint8_t)p->x_zero;
  const carnot_quantize q = {
      .n = geometry->c, .is_signed = p->x_signed, .scale = &kOne, .zero_point = &zero};
  int64_t first = part * run->s->pixels_per_part, pixels = geometry->n * geometry->h * geometry->w;
  int64_t end = carnot_min_i64(first + run->s->pixels_per_part, pixels);
  run->kernels->dequantize_f32(&q, end - first, run->x + first * geometry->src_w, geometry->src_w,
                               run->wide_x + first * geometry->c, geometry->c);
}

static void depthwise_part(void* argument, int64_t part) {
  const depthwise_run* run = argument;
  const carnot_qlinear_conv_params* p = run->step->params;
  const carnot_window_geometry* geometry = &run->s->geometry;
  const carnot_depthwise_f32 conv = {CARNOT_WINDOW_FIELDS(geometry),
                                     .c = geometry->c,
                                     .src = run->wide_x,
                                     .src_n = geometry->h * geometry->w * geometry->c,
                                     .src_h = geometry->w * geometry->c,
                                     .src_w = geometry->c,
                                     .weights = run->step->constants[0],
                                     .dst = run->wide_y,
                                     .ld = geometry->c,
                                     .epilogue = {.bias = run->step->constants[1]}};
  int64_t row0 = part * run->s->rows_per_part;
  int64_t row1 = carnot_min_i64(row0 + run->s->rows_per_part, run->s->row_count);
  run->kernels->depthwise_f32(&conv, row0, row1);
  uint8_t zeros[CARNOT_QLINEAR_MAX_CHANNELS];
  memset(zeros, p->y_zero & 255, (size_t)geometry->c);
  const carnot_quantize q = {.n = geometry->c,
                             .is_signed = p->y_signed,
                             .per_column = true,
                             .scale = run->step->constants[2],
                             .zero_point = zeros};
  int64_t first = row0 * geometry->q;
  run->kernels->quantize_f32(&q, (row1 - row0) * geometry->q, run->wide_y + first * geometry->c,
                             geometry->c, run->y + first * geometry->ld, geometry->ld);
}

static carnot_status* depthwise_run_all(const carnot_step_view* step, void* memory,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  const depthwise_state* s = memory;
  int64_t pixels = s->geometry.n * s->geometry.h * s->geometry.w;
  depthwise_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                       .s = s,
                       .step = step,
                       .x = inputs[CARNOT_QLINEAR_X].data,
                       .y = outputs[0].data,
                       .wide_x = workspace,
                       .wide_y = (float*)workspace + pixels * s->geometry.c};
  carnot_executor_parallel(executor, carnot_ceildiv(pixels, s->pixels_per_part), widen_part, &run);
  carnot_executor_parallel(executor, carnot_ceildiv(s->row_count, s->rows_per_part), depthwise_part,
                           &run);
  return NULL;
}

CARNOT_CPU_TACTICS(qlinear_depthwise_u8s8, .anchor = CARNOT_OP_QLINEAR_CONV,
                   .strided_outputs = true, .reject = depthwise_reject,
                   .prepare = depthwise_prepare, .validate = depthwise_validate,
                   .uses_input = carnot_qlinear_uses_input, .configure = depthwise_configure,
                   .run = depthwise_run_all, .work = carnot_qlinear_work);
