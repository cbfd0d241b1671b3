// QLinearConv with constant weights of s8 around zero and constant scales and zero points: 1-D and
// 2-D windows over channels-last activations, accumulated in INT32.
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/window_geometry.h"
#include "kernel/cpu/conv/depthwise_f32.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"
#include "kernel/cpu/pointwise/convert.h"

enum { kX, kXScale, kXZero, kW, kWScale, kWZero, kYScale, kYZero, kBias, kInputs };
enum { kMaxChannels = 1 << 14, kMaxFilters = 1 << 16 };

typedef struct conv_params {
  carnot_sliding_window window;
  int64_t group, channels, filters;
  int32_t x_zero, y_zero;
  int32_t x_signed, y_signed;
} conv_params;

static const carnot_tensor* constant(const carnot_problem* p, uint32_t i) {
  return i < p->input_count && carnot_is_known(&p->inputs[i]) ? p->inputs[i].tensor : NULL;
}
static int64_t taps_of(const carnot_sliding_window* w) {
  return w->kernel[0] * (w->rank == 2 ? w->kernel[1] : 1);
}

// What must be constant, and how many elements it may have besides one.
static const char* check_constants(const carnot_problem* problem, int64_t filters) {
  static const struct {
    uint32_t input;
    bool per_filter, is_scale;
  } kNeeded[] = {{kXScale, false, true}, {kXZero, false, false}, {kWScale, true, true},
                 {kWZero, true, false},  {kYScale, false, true}, {kYZero, false, false}};
  for (size_t i = 0; i < sizeof(kNeeded) / sizeof(kNeeded[0]); i++) {
    const carnot_tensor* t = constant(problem, kNeeded[i].input);
    if (!t) return "a scale or zero point is not constant";
    int64_t count = carnot_tensor_count(t);
    if (count != 1 && !(kNeeded[i].per_filter && count == filters))
      return "a scale or zero point has another size";
    if (kNeeded[i].is_scale && t->dtype != CARNOT_DTYPE_F32) return "a scale is not float32";
  }
  const carnot_tensor* zero = constant(problem, kWZero);
  for (int64_t i = 0; i < carnot_tensor_count(zero); i++)
    if (carnot_load_i64(zero->dtype, zero->data, (size_t)i)) return "the weights' zero is not 0";
  if (problem->input_count > kBias && problem->inputs[kBias].kind == CARNOT_VALUE_TENSOR) {
    const carnot_tensor* bias = constant(problem, kBias);
    if (!bias || bias->dtype != CARNOT_DTYPE_I32 || carnot_tensor_count(bias) != filters)
      return "the bias is no constant list of int32";
  }
  return NULL;
}

static const char* describe(const carnot_problem* problem, conv_params* out, char* reason,
                            size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_QLINEAR_CONV || problem->region->node_count != 1) return "";
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != CARNOT_PLAN_NONE && node->inputs[i] != i) return "operands repeat";
  const carnot_operand_desc *x = &problem->inputs[kX], *y = &problem->outputs[0];
  const carnot_tensor* w = constant(problem, kW);
  if (!carnot_is_8bit(x->format.dtype) || !carnot_is_8bit(y->format.dtype) || x->rank < 3 ||
      x->rank > 4)
    return "the activations are no images of 8 bits";
  if (!w || w->dtype != CARNOT_DTYPE_I8 || w->rank != x->rank)
    return "the weights are not constant int8";
  const carnot_op_row* row = carnot_op_get(node->op);
  *out = (conv_params){.group = carnot_attr_int(row, &node->attrs, "group")};
  carnot_type weights = {.kind = CARNOT_VALUE_TENSOR, .dtype = w->dtype, .rank = w->rank};
  for (int i = 0; i < w->rank; i++) weights.dims[i] = carnot_sym_of(w->dims[i]);
  carnot_status* status =
      carnot_sliding_window_read(row, &node->attrs, x->rank - 2, &weights, &out->window);
  if (status) {
    carnot_because(reason, size, "%s", carnot_status_message(status));
    carnot_status_free(status);
    return reason;
  }
  out->filters = w->dims[0];
  out->channels = w->dims[1] * out->group;
  if (out->filters < 1 || out->filters > kMaxFilters || w->dims[1] < 1 ||
      out->channels > kMaxChannels || out->filters % out->group)
    return carnot_because(reason, size, "%lld channels and %lld filters", (long long)out->channels,
                          (long long)out->filters);
  if (x->dims[1] >= 0 && x->dims[1] != out->channels)
    return carnot_because(reason, size, "the input has %lld channels, the weights are for %lld",
                          (long long)x->dims[1], (long long)out->channels);
  if (taps_of(&out->window) > CARNOT_INT8_MAX_TAPS)
    return carnot_because(reason, size, "%lld taps, takes up to %d",
                          (long long)taps_of(&out->window), CARNOT_INT8_MAX_TAPS);
  const char* why = check_constants(problem, out->filters);
  if (why) return why;
  const carnot_tensor *x_zero = constant(problem, kXZero), *y_zero = constant(problem, kYZero);
  out->x_zero = (int32_t)carnot_load_i64(x_zero->dtype, x_zero->data, 0);
  out->y_zero = (int32_t)carnot_load_i64(y_zero->dtype, y_zero->data, 0);
  out->x_signed = x->format.dtype == CARNOT_DTYPE_I8;
  out->y_signed = y->format.dtype == CARNOT_DTYPE_I8;
  return NULL;
}

static const char* want_channels_last(carnot_problem* problem, const char* why) {
  if (!why)
    problem->inputs[kX].format.layout = problem->outputs[0].format.layout =
        CARNOT_LAYOUT_CHANNELS_LAST;
  return why;
}

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  conv_params p;
  const char* why = describe(problem, &p, reason, size);
  if (!why && p.group > 1 && p.channels / p.group < 4)
    why = "its groups have fewer than 4 channels";
  return want_channels_last(problem, why);
}

static size_t group_bytes(const conv_params* p) {
  return (size_t)carnot_packed_k4n16_bytes(taps_of(&p->window), p->channels / p->group,
                                           p->filters / p->group);
}

// Bias, scale and the border of one channel after another.
static carnot_status* fill_vectors(const carnot_problem* problem, const conv_params* p,
                                   carnot_prepared* out) {
  const carnot_tensor *w = constant(problem, kW), *w_scale = constant(problem, kWScale),
                      *bias = constant(problem, kBias);
  void *sums, *scales, *border;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)p->filters, sizeof(int32_t), "bias", &sums));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)p->filters, sizeof(float), "scales", &scales));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)p->channels + 64, 1, "border", &border));
  memset(border, p->x_zero & 255, (size_t)p->channels + 64);
  double outer = (double)*(const float*)constant(problem, kXScale)->data /
                 (double)*(const float*)constant(problem, kYScale)->data;
  int64_t each = carnot_tensor_count(w) / p->filters;
  for (int64_t f = 0; f < p->filters; f++) {
    int64_t sum = 0;
    for (int64_t i = 0; i < each; i++) sum += ((const int8_t*)w->data)[f * each + i];
    int64_t shift = -(p->x_zero + (p->x_signed ? 128 : 0)) * sum;
    ((int32_t*)sums)[f] =
        (int32_t)(uint32_t)((uint64_t)shift +
                            (bias ? (uint64_t)((const int32_t*)bias->data)[f] : 0));
    double scale = (double)((const float*)w_scale->data)[carnot_tensor_count(w_scale) > 1 ? f : 0];
    ((float*)scales)[f] = (float)(outer * scale);
  }
  void* data[] = {sums, scales, border};
  const char* packings[] = {"i32 bias", "f32 scales", "u8 border"};
  size_t bytes[] = {(size_t)p->filters * sizeof(int32_t), (size_t)p->filters * sizeof(float),
                    (size_t)p->channels + 64};
  for (int i = 0; i < 3; i++) {
    out->constants[1 + i].packing = packings[i];
    out->constants[1 + i].data = data[i];
    out->constants[1 + i].bytes = bytes[i];
  }
  out->constant_count = 4;
  return NULL;
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *packed;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(conv_params), "parameters", &params));
  const char* why = describe(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const conv_params* p = params;
  const int8_t* w = constant(problem, kW)->data;
  int64_t taps = taps_of(&p->window), c = p->channels / p->group, k = p->filters / p->group;
  size_t bytes = group_bytes(p);
  CARNOT_TRY(
      carnot_arena_try(out->arena, bytes * (size_t)p->group + 64, 1, "packed weights", &packed));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  for (int64_t g = 0; g < p->group; g++)
    carnot_pack_k4n16_s8(taps, c, k, w + g * k * c * taps, c * taps, 1, taps,
                         (int8_t*)packed + (size_t)g * bytes);
  out->params = params;
  out->param_bytes = sizeof(conv_params);
  out->constants[0].packing = "k4n16 s8";
  out->constants[0].data = packed;
  out->constants[0].bytes = bytes * (size_t)p->group;
  out->packed_inputs = 1u << kW | 1u << kBias;
  return fill_vectors(problem, p, out);
}

static carnot_status* check_params(const carnot_step_view* step, uint32_t constants,
                                   const conv_params** out) {
  CARNOT_CHECK(step->param_bytes == sizeof(conv_params) && step->constant_count == constants,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %u",
               step->param_bytes, step->constant_count, sizeof(conv_params), constants);
  const conv_params* p = step->params;
  const carnot_sliding_window* w = &p->window;
  CARNOT_CHECK(step->region->nodes[0].op == CARNOT_OP_QLINEAR_CONV && step->input_count >= kBias,
               INVALID_MODEL, "the step holds no quantized convolution");
  CARNOT_TRY(carnot_sliding_window_check(w, 1, 2));
  CARNOT_CHECK(p->group >= 1 && p->channels >= 1 && p->channels <= kMaxChannels &&
                   p->filters >= 1 && p->filters <= kMaxFilters && p->channels % p->group == 0 &&
                   p->filters % p->group == 0 && taps_of(w) <= CARNOT_INT8_MAX_TAPS,
               INVALID_MODEL, "%lld channels, %lld filters, %lld groups", (long long)p->channels,
               (long long)p->filters, (long long)p->group);
  *out = p;
  return NULL;
}

static carnot_status* check_constant_bytes(const carnot_step_view* step, const size_t* wanted,
                                           int count) {
  for (int i = 0; i < count; i++)
    CARNOT_CHECK(step->constant_bytes[i] == wanted[i], INVALID_MODEL,
                 "packed constant %d has %zu bytes, must have %zu", i, step->constant_bytes[i],
                 wanted[i]);
  return NULL;
}

static carnot_status* conv_validate(const carnot_step_view* step) {
  const conv_params* p = NULL;
  CARNOT_TRY(check_params(step, 4, &p));
  size_t wanted[] = {group_bytes(p) * (size_t)p->group, (size_t)p->filters * sizeof(int32_t),
                     (size_t)p->filters * sizeof(float), (size_t)p->channels + 64};
  return check_constant_bytes(step, wanted, 4);
}

static bool conv_uses_input(const carnot_step_view* step, uint32_t input) {
  (void)step;
  return input == kX;
}

typedef struct conv_state {
  carnot_window_geometry geometry;
  carnot_work_partition partition;
} conv_state;

static carnot_status* shape_common(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs,
                                   carnot_window_geometry* geometry) {
  const conv_params* p = step->params;
  CARNOT_CHECK(inputs[kX].format.dtype == (p->x_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8) &&
                   outputs[0].format.dtype == (p->y_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8),
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(inputs[kX].format.dtype),
               carnot_dtype_name(outputs[0].format.dtype));
  CARNOT_TRY(carnot_window_geometry_of(&p->window, &inputs[kX], &outputs[0], geometry));
  CARNOT_CHECK(geometry->c == p->channels && geometry->k == p->filters, INVALID_ARGUMENT,
               "%lld channels give %lld, packed are %lld and %lld", (long long)geometry->c,
               (long long)geometry->k, (long long)p->channels, (long long)p->filters);
  return NULL;
}

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  conv_state* s = memory;
  const conv_params* p = step->params;
  *out_workspace_bytes = 0;
  CARNOT_TRY(shape_common(step, inputs, outputs, &s->geometry));
  const carnot_window_geometry* geometry = &s->geometry;
  s->partition = carnot_work_partition_make(
      step->tactic->isa, geometry->n * geometry->p * geometry->q, p->filters / p->group,
      p->channels / p->group * geometry->r * geometry->s);
  return NULL;
}

typedef struct conv_run {
  const carnot_cpu_kernels* kernels;
  const conv_params* p;
  const conv_state* s;
  const carnot_step_view* step;
  const char* x;
  char* y;
} conv_run;

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const conv_params* p = run->p;
  const carnot_window_geometry* geometry = &run->s->geometry;
  int64_t group = part / carnot_work_partition_count(&run->s->partition), m0, m1, n0, n1;
  int64_t c = p->channels / p->group, k = p->filters / p->group;
  carnot_work_partition_part(&run->s->partition,
                             part % carnot_work_partition_count(&run->s->partition), &m0, &m1, &n0,
                             &n1);
  carnot_conv2d_u8s8 conv = {
      .n = geometry->n,
      .h = geometry->h,
      .w = geometry->w,
      .c = c,
      .p = geometry->p,
      .q = geometry->q,
      .k = k,
      .r = geometry->r,
      .s = geometry->s,
      .stride_h = geometry->stride_h,
      .stride_w = geometry->stride_w,
      .dilation_h = geometry->dilation_h,
      .dilation_w = geometry->dilation_w,
      .pad_h = geometry->pad_h,
      .pad_w = geometry->pad_w,
      .src = run->x + group * c,
      .src_n = geometry->src_n,
      .src_h = geometry->src_h,
      .src_w = geometry->src_w,
      .src_signed = p->x_signed,
      .weights = (const int8_t*)run->step->constants[0] + (size_t)group * group_bytes(p),
      .border = run->step->constants[3],
      .dst = run->y + group * k,
      .ld = geometry->ld,
      .epilogue = {.bias = (const int32_t*)run->step->constants[1] + group * k,
                   .scale = (const float*)run->step->constants[2] + group * k,
                   .output = p->y_signed ? CARNOT_INT8_OUTPUT_S8 : CARNOT_INT8_OUTPUT_U8,
                   .inverse_scale = 1,
                   .zero_point = p->y_zero}};
  run->kernels->conv2d_u8s8(&conv, m0, m1, n0, n1);
}

static carnot_status* conv_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  // The AVX-512 tactic uses the VNNI kernels where the machine has them.
  carnot_isa isa = step->tactic->isa == CARNOT_ISA_AVX512 ? step->machine_isa : step->tactic->isa;
  conv_run run = {.kernels = carnot_cpu_kernels_of(isa),
                  .p = step->params,
                  .s = memory,
                  .step = step,
                  .x = inputs[kX].data,
                  .y = outputs[0].data};
  carnot_executor_parallel(executor, run.p->group * carnot_work_partition_count(&run.s->partition),
                           conv_part, &run);
  return NULL;
}

// ---- depthwise: in float32, whose sums of these integers are exact ----

enum { kExact = 1 << 24 };

static const char* depthwise_reject(carnot_problem* problem, char* reason, size_t size) {
  conv_params p;
  const char* why = describe(problem, &p, reason, size);
  if (why) return why;
  if (p.group != p.channels || p.filters != p.channels)
    return carnot_because(reason, size, "group is %lld of %lld channels", (long long)p.group,
                          (long long)p.channels);
  const carnot_tensor* bias = constant(problem, kBias);
  int64_t most = taps_of(&p.window) * 255 * 128;
  for (int64_t f = 0; bias && f < p.filters; f++)
    if (llabs((long long)((const int32_t*)bias->data)[f]) + most >= kExact)
      return "sums with the bias pass what float32 holds";
  return want_channels_last(problem, most < kExact ? NULL : "sums pass what float32 holds");
}

static carnot_status* depthwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *packed, *bias, *divisors, *wide;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(conv_params), "parameters", &params));
  const char* why = describe(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const conv_params* p = params;
  const carnot_tensor *w = constant(problem, kW), *w_scale = constant(problem, kWScale),
                      *bias_q = constant(problem, kBias);
  int64_t taps = taps_of(&p->window), c = p->channels;
  size_t bytes = (size_t)carnot_packed_k1n16_count(taps, c) * sizeof(float);
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", &packed));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)(taps * c), sizeof(float), "weights", &wide));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)c, sizeof(float), "bias", &bias));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)c, sizeof(float), "scales", &divisors));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  for (int64_t i = 0; i < taps * c; i++) ((float*)wide)[i] = ((const int8_t*)w->data)[i];
  carnot_pack_k1n16_f32(taps, c, wide, 1, taps, packed);
  double outer = (double)*(const float*)constant(problem, kYScale)->data /
                 (double)*(const float*)constant(problem, kXScale)->data;
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
  out->param_bytes = sizeof(conv_params);
  out->packed_inputs = 1u << kW | 1u << kBias;
  return NULL;
}

static carnot_status* depthwise_validate(const carnot_step_view* step) {
  const conv_params* p = NULL;
  CARNOT_TRY(check_params(step, 3, &p));
  CARNOT_CHECK(p->group == p->channels && p->filters == p->channels, INVALID_MODEL,
               "%lld groups of %lld channels are not depthwise", (long long)p->group,
               (long long)p->channels);
  size_t wanted[] = {
      (size_t)carnot_packed_k1n16_count(taps_of(&p->window), p->channels) * sizeof(float),
      (size_t)p->channels * sizeof(float), (size_t)p->channels * sizeof(float)};
  return check_constant_bytes(step, wanted, 3);
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
  CARNOT_TRY(shape_common(step, inputs, outputs, &s->geometry));
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
  const conv_params* p = run->step->params;
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
  const conv_params* p = run->step->params;
  const carnot_window_geometry* geometry = &run->s->geometry;
  const carnot_depthwise_f32 conv = {.n = geometry->n,
                                     .h = geometry->h,
                                     .w = geometry->w,
                                     .c = geometry->c,
                                     .p = geometry->p,
                                     .q = geometry->q,
                                     .r = geometry->r,
                                     .s = geometry->s,
                                     .stride_h = geometry->stride_h,
                                     .stride_w = geometry->stride_w,
                                     .dilation_h = geometry->dilation_h,
                                     .dilation_w = geometry->dilation_w,
                                     .pad_h = geometry->pad_h,
                                     .pad_w = geometry->pad_w,
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
  uint8_t zeros[kMaxChannels];
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
                       .x = inputs[kX].data,
                       .y = outputs[0].data,
                       .wide_x = workspace,
                       .wide_y = (float*)workspace + pixels * s->geometry.c};
  carnot_executor_parallel(executor, carnot_ceildiv(pixels, s->pixels_per_part), widen_part, &run);
  carnot_executor_parallel(executor, carnot_ceildiv(s->row_count, s->rows_per_part), depthwise_part,
                           &run);
  return NULL;
}

static void conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *x = &problem->inputs[kX], *y = &problem->outputs[0];
  double results = (double)carnot_dims_count(y->dims, y->rank),
         weights = (double)carnot_tensor_count(problem->inputs[kW].tensor);
  *out_flops = 2 * results * weights / (double)carnot_max_i64(1, problem->inputs[kW].dims[0]);
  *out_bytes = results + weights + (double)carnot_dims_count(x->dims, x->rank);
}

CARNOT_CPU_TACTICS(qlinear_conv_u8s8, .anchor = CARNOT_OP_QLINEAR_CONV, .strided_outputs = true,
                   .reject = conv_reject, .prepare = conv_prepare, .validate = conv_validate,
                   .uses_input = conv_uses_input, .configure = conv_configure, .run = conv_run_all,
                   .work = conv_work);
CARNOT_CPU_TACTICS(qlinear_depthwise_u8s8, .anchor = CARNOT_OP_QLINEAR_CONV,
                   .strided_outputs = true, .reject = depthwise_reject,
                   .prepare = depthwise_prepare, .validate = depthwise_validate,
                   .uses_input = conv_uses_input, .configure = depthwise_configure,
                   .run = depthwise_run_all, .work = conv_work);
