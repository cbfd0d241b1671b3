// QLinearConv accumulated in INT32: 1-D and 2-D windows over channels-last activations.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/qlinear_conv.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_qlinear_conv_params p;
  const char* why = carnot_qlinear_read(problem, &p, reason, size);
  if (!why && p.group > 1 && p.channels / p.group < 4)
    why = "its groups have fewer than 4 channels";
  return carnot_qlinear_want_channels_last(problem, why);
}

static size_t group_bytes(const carnot_qlinear_conv_params* p) {
  return (size_t)carnot_packed_k4n16_bytes(carnot_qlinear_taps(p), p->channels / p->group,
                                           p->filters / p->group);
}

// Bias, scale and the border of one channel after another.
static carnot_status* fill_vectors(const carnot_problem* problem,
                                   const carnot_qlinear_conv_params* p, carnot_prepared* out) {
  const carnot_tensor *w = carnot_qlinear_constant(problem, CARNOT_QLINEAR_W),
                      *w_scale = carnot_qlinear_constant(problem, CARNOT_QLINEAR_W_SCALE),
                      *bias = carnot_qlinear_constant(problem, CARNOT_QLINEAR_BIAS);
  void *sums, *scales, *border;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)p->filters, sizeof(int32_t), "bias", &sums));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)p->filters, sizeof(float), "scales", &scales));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)p->channels + 64, 1, "border", &border));
  memset(border, p->x_zero & 255, (size_t)p->channels + 64);
  double outer =
      (double)*(const float*)carnot_qlinear_constant(problem, CARNOT_QLINEAR_X_SCALE)->data /
      (double)*(const float*)carnot_qlinear_constant(problem, CARNOT_QLINEAR_Y_SCALE)->data;
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
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_qlinear_conv_params), "parameters", &params));
  const char* why = carnot_qlinear_read(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  const carnot_qlinear_conv_params* p = params;
  const int8_t* w = carnot_qlinear_constant(problem, CARNOT_QLINEAR_W)->data;
  int64_t taps = carnot_qlinear_taps(p), c = p->channels / p->group, k = p->filters / p->group;
  size_t bytes = group_bytes(p);
  CARNOT_TRY(
      carnot_arena_try(out->arena, bytes * (size_t)p->group + 64, 1, "packed weights", &packed));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  for (int64_t g = 0; g < p->group; g++)
    carnot_pack_k4n16_s8(taps, c, k, w + g * k * c * taps, c * taps, 1, taps,
                         (int8_t*)packed + (size_t)g * bytes);
  out->params = params;
  out->param_bytes = sizeof(carnot_qlinear_conv_params);
  out->constants[0].packing = "k4n16 s8";
  out->constants[0].data = packed;
  out->constants[0].bytes = bytes * (size_t)p->group;
  out->packed_inputs = 1u << CARNOT_QLINEAR_W | 1u << CARNOT_QLINEAR_BIAS;
  return fill_vectors(problem, p, out);
}

static carnot_status* conv_validate(const carnot_step_view* step) {
  const carnot_qlinear_conv_params* p = NULL;
  CARNOT_TRY(carnot_qlinear_check_params(step, 4, &p));
  size_t wanted[] = {group_bytes(p) * (size_t)p->group, (size_t)p->filters * sizeof(int32_t),
                     (size_t)p->filters * sizeof(float), (size_t)p->channels + 64};
  return carnot_qlinear_check_constants(step, wanted, 4);
}

typedef struct conv_state {
  carnot_window_geometry geometry;
  carnot_work_partition partition;
} conv_state;

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  conv_state* s = memory;
  const carnot_qlinear_conv_params* p = step->params;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_qlinear_configure(step, inputs, outputs, &s->geometry));
  const carnot_window_geometry* geometry = &s->geometry;
  s->partition = carnot_work_partition_make(
      step->tactic->isa, geometry->n * geometry->p * geometry->q, p->filters / p->group,
      p->channels / p->group * geometry->r * geometry->s);
  return NULL;
}

typedef struct conv_run {
  const carnot_cpu_kernels* kernels;
  const carnot_qlinear_conv_params* p;
  const conv_state* s;
  const carnot_step_view* step;
  const char* x;
  char* y;
} conv_run;

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const carnot_qlinear_conv_params* p = run->p;
  const carnot_window_geometry* geometry = &run->s->geometry;
  int64_t group = part / carnot_work_partition_count(&run->s->partition), m0, m1, n0, n1;
  int64_t c = p->channels / p->group, k = p->filters / p->group;
  carnot_work_partition_part(&run->s->partition,
                             part % carnot_work_partition_count(&run->s->partition), &m0, &m1, &n0,
                             &n1);
  carnot_conv2d_u8s8 conv = {
      CARNOT_WINDOW_FIELDS(geometry),
      .c = c,
      .k = k,
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
                  .x = inputs[CARNOT_QLINEAR_X].data,
                  .y = outputs[0].data};
  carnot_executor_parallel(executor, run.p->group * carnot_work_partition_count(&run.s->partition),
                           conv_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(qlinear_conv_u8s8, .anchor = CARNOT_OP_QLINEAR_CONV, .strided_outputs = true,
                   .reject = conv_reject, .prepare = conv_prepare, .validate = conv_validate,
                   .uses_input = carnot_qlinear_uses_input, .configure = conv_configure,
                   .run = conv_run_all, .work = carnot_qlinear_work);
