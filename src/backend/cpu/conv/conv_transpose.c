// Transposed convolution over channels-last float32: output pixels of one phase (their position
// modulo the stride) are sums over the same taps, so that every phase is a plain convolution of
// stride 1 with a smaller filter.
//   y[o] = sum_t x[(o + begin - t) / stride] * w[t] over the taps t where it divides;  with t =
//   first + stride * u: o = stride * j + phase,  x index = j + (phase + begin - first) / stride - u
#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/conv.h"
#include "tactic/problem/conv.h"

enum { kMaxStride = 8 };

typedef struct transposed_params {
  carnot_sliding_window window;
  int64_t group, channels, filters;
  int32_t has_bias, activation;
  float a, b;
} transposed_params;

// The taps of a phase along one axis.
typedef struct phase {
  int64_t first, count, shift;  // x index = j + shift - u
} phase;

static phase phase_of(const carnot_sliding_window* w, int axis, int64_t at) {
  int64_t stride = w->strides[axis], first = (at + w->begin[axis]) % stride;
  return (phase){first, first < w->kernel[axis] ? (w->kernel[axis] - first - 1) / stride + 1 : 0,
                 (at + w->begin[axis] - first) / stride};
}

static const char* check_window(const carnot_sliding_window* w, char* reason, size_t size) {
  if (w->rank != 2) return carnot_because(reason, size, "%d spatial dimensions, takes 2", w->rank);
  for (int i = 0; i < 2; i++) {
    if (w->dilations[i] != 1) return "the taps are dilated";
    if (w->strides[i] < 1 || w->strides[i] > kMaxStride)
      return carnot_because(reason, size, "stride %lld, takes up to %d", (long long)w->strides[i],
                            kMaxStride);
    if (w->kernel[i] < w->strides[i] || w->kernel[i] > 1 << 10)
      return "the kernel does not cover the stride";
    if (w->begin[i] < 0 || w->begin[i] > 1 << 10) return "the padding is out of range";
  }
  return NULL;
}

// Padding that follows from the output's size, where that is fixed.
static const char* resolve_padding(const carnot_problem* problem, carnot_sliding_window* w) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  bool same = w->auto_pad == CARNOT_PAD_SAME_UPPER || w->auto_pad == CARNOT_PAD_SAME_LOWER;
  size_t count, extra_count;
  carnot_attr_ints(&node->attrs, "output_shape", &count);
  const int64_t* extra = carnot_attr_ints(&node->attrs, "output_padding", &extra_count);
  for (int i = 0; (same || count) && i < w->rank; i++) {
    int d = i + 2;
    if (d >= x->rank || d >= y->rank || x->min[d] != x->max[d] || x->dims[d] < 1 || y->dims[d] < 1)
      return "the padding follows from sizes that are not fixed";
    int64_t more = extra && extra_count > (size_t)i ? extra[i] : 0;
    int64_t total = w->strides[i] * (x->dims[d] - 1) + more + (w->kernel[i] - 1) * w->dilations[i] +
                    1 - y->dims[d];
    total = carnot_max_i64(total, 0);
    w->begin[i] = w->auto_pad == CARNOT_PAD_SAME_UPPER ? total / 2 : total - total / 2;
  }
  return NULL;
}

static const char* read_problem(const carnot_problem* problem, transposed_params* p, char* reason,
                                size_t size) {
  carnot_conv_problem conv;
  const char* why = carnot_conv_problem_read(problem, &conv, reason, size);
  if (why) return why;
  if (conv.node->op != CARNOT_OP_CONV_TRANSPOSE || conv.casts) return "";
  const carnot_operand_desc *x = &problem->inputs[0], *w = &problem->inputs[conv.weights];
  why = carnot_not_f32(x, "the input", 4, 4, reason, size);
  if (why) return why;
  if (!carnot_is_f32_constant(w) || w->rank != 4) return "the weights are not constant float32";
  *p = (transposed_params){.window = conv.window,
                           .group = conv.group,
                           .channels = conv.channels,
                           .filters = conv.filters,
                           .has_bias = conv.bias != CARNOT_PLAN_NONE};
  why = resolve_padding(problem, &p->window);
  if (!why) why = check_window(&p->window, reason, size);
  if (why) return why;
  if (p->group < 1 || x->dims[1] != p->channels || p->channels % p->group ||
      p->channels > CARNOT_CONV_MAX_CHANNELS || p->filters < 1 ||
      p->filters > CARNOT_CONV_MAX_FILTERS)
    return carnot_because(reason, size, "%lld channels, %lld filters, %lld groups",
                          (long long)p->channels, (long long)p->filters, (long long)p->group);
  const carnot_operand_desc* b = p->has_bias ? &problem->inputs[conv.bias] : NULL;
  if (b && (!carnot_is_f32_constant(b) || carnot_tensor_count(b->tensor) != p->filters))
    return "the bias is not constant float32";
  carnot_epilogue_plan epilogue_plan;
  bool has_bias = false;
  why = carnot_epilogue_plan_make(problem, /*anchor=*/0, x->rank - 1, NULL, p->filters, &has_bias,
                                  &epilogue_plan, reason, size);
  if (why) return why;
  if (epilogue_plan.residual >= 0 || epilogue_plan.program.instruction_count)
    return "more than an activation follows the convolution";
  p->activation = epilogue_plan.activation;
  p->a = epilogue_plan.a;
  p->b = epilogue_plan.b;
  return NULL;
}

static const char* transposed_reject(carnot_problem* problem, char* reason, size_t size) {
  transposed_params p;
  const char* why = read_problem(problem, &p, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->inputs[0].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

// Where the weights of a phase begin, by group then phase; past the last: how many there are.
static int64_t packed_offset(const transposed_params* p, int64_t group, int64_t phase_h,
                             int64_t phase_w) {
  const carnot_sliding_window* w = &p->window;
  int64_t offset = 0;
  for (int64_t h = 0; h < w->strides[0]; h++)
    for (int64_t x = 0; x < w->strides[1]; x++) {
      if (h == phase_h && x == phase_w)
        return offset * p->group +
               group * carnot_packed_k1n16_count(phase_of(w, 0, h).count * phase_of(w, 1, x).count *
                                                     (p->channels / p->group),
                                                 p->filters / p->group);
      offset += carnot_packed_k1n16_count(
          phase_of(w, 0, h).count * phase_of(w, 1, x).count * (p->channels / p->group),
          p->filters / p->group);
    }
  return offset * p->group;
}

// The taps of a phase, last first, as the weights [M,C,taps] of a convolution.
static void gather_taps(const transposed_params* p, const float* weights, int64_t group,
                        int64_t at_h, int64_t at_w, float* out) {
  const carnot_sliding_window* w = &p->window;
  phase h = phase_of(w, 0, at_h), x = phase_of(w, 1, at_w);
  int64_t channels = p->channels / p->group, filters = p->filters / p->group,
          taps = w->kernel[0] * w->kernel[1];
  for (int64_t m = 0; m < filters; m++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t r = 0; r < h.count; r++)
        for (int64_t s = 0; s < x.count; s++) {
          int64_t tap = (h.first + w->strides[0] * (h.count - 1 - r)) * w->kernel[1] + x.first +
                        w->strides[1] * (x.count - 1 - s);
          *out++ = weights[((group * channels + c) * filters + m) * taps + tap];
        }
}

static carnot_status* transposed_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  void *params, *memory, *bias;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(transposed_params), "parameters", &params));
  transposed_params* p = params;
  char reason[256];
  const char* why = read_problem(problem, p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  const carnot_sliding_window* w = &p->window;
  int64_t count = packed_offset(p, 0, w->strides[0], 0);
  CARNOT_TRY(
      carnot_arena_try(out->arena, (size_t)count + 16, sizeof(float), "packed weights", &memory));
  CARNOT_TRY(carnot_arena_try(out->arena, carnot_align_up((size_t)p->filters, 16), sizeof(float),
                              "a bias", &bias));
  float* packed = (float*)carnot_align_up((uintptr_t)memory, 64);
  const carnot_tensor* weights = problem->inputs[node->inputs[1]].tensor;
  float* taps = malloc((size_t)carnot_tensor_count(weights) * sizeof(float));
  if (!taps)
    return CARNOT_NO_MEMORY((size_t)carnot_tensor_count(weights) * sizeof(float), "weights");
  for (int64_t h = 0; h < w->strides[0]; h++)
    for (int64_t x = 0; x < w->strides[1]; x++)
      for (int64_t g = 0; g < p->group; g++) {
        gather_taps(p, weights->data, g, h, x, taps);
        carnot_pack_conv_k1n16_f32(p->filters / p->group, p->channels / p->group,
                                   phase_of(w, 0, h).count * phase_of(w, 1, x).count, taps,
                                   packed + packed_offset(p, g, h, x));
      }
  free(taps);
  if (p->has_bias)
    memcpy(bias, problem->inputs[node->inputs[2]].tensor->data, (size_t)p->filters * sizeof(float));
  out->params = p;
  out->param_bytes = sizeof(*p);
  out->constant_count = 2;
  out->constants[0].packing = "phases k1n16 f32";
  out->constants[0].data = packed;
  out->constants[0].bytes = (size_t)count * sizeof(float);
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = carnot_align_up((size_t)p->filters, 16) * sizeof(float);
  out->packed_inputs = (uint64_t)1 << node->inputs[1];
  if (p->has_bias) out->packed_inputs |= (uint64_t)1 << node->inputs[2];
  return NULL;
}

static carnot_status* transposed_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(transposed_params) && step->constant_count == 2 &&
                   step->input_count >= 2 && step->output_count == 1,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 2",
               step->param_bytes, step->constant_count, sizeof(transposed_params));
  const transposed_params* p = step->params;
  char reason[256];
  const char* why = check_window(&p->window, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "the window: %s", why);
  CARNOT_CHECK(p->group >= 1 && p->channels >= 1 && p->channels <= CARNOT_CONV_MAX_CHANNELS &&
                   p->filters >= 1 && p->filters <= CARNOT_CONV_MAX_FILTERS &&
                   p->channels % p->group == 0 && p->filters % p->group == 0 &&
                   p->activation >= 0 && p->activation < CARNOT_KERNEL_ACTIVATION_COUNT,
               INVALID_MODEL, "%lld channels, %lld filters, %lld groups", (long long)p->channels,
               (long long)p->filters, (long long)p->group);
  CARNOT_CHECK(step->constant_bytes[0] ==
                       (size_t)packed_offset(p, 0, p->window.strides[0], 0) * sizeof(float) &&
                   step->constant_bytes[1] >= (size_t)p->filters * sizeof(float),
               INVALID_MODEL, "packed weights of %zu bytes, a bias of %zu", step->constant_bytes[0],
               step->constant_bytes[1]);
  return NULL;
}

static bool transposed_uses_input(const carnot_step_view* step, uint32_t input) {
  return input == 0 || step->region->nodes[0].op != CARNOT_OP_CONV_TRANSPOSE;
}

static carnot_status* transposed_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  (void)state;
  *out_workspace_bytes = 0;
  const transposed_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(
      x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 && x->rank == 4 &&
          y->rank == 4 && x->dims[0] == y->dims[0] && x->dims[1] == p->channels &&
          y->dims[1] == p->filters && (x->strides[1] == 1 || x->dims[1] == 1) &&
          (y->strides[1] == 1 || y->dims[1] == 1),
      INVALID_ARGUMENT, "operands do not fit packed weights of %lld channels and %lld filters",
      (long long)p->channels, (long long)p->filters);
  return NULL;
}

typedef struct transposed_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const carnot_operand *x, *y;
} transposed_run;

// The pixels of one phase of one output row: a convolution that gives one row.
static void phase_part(const transposed_run* run, int64_t group, int64_t image, int64_t row,
                       int64_t at_w) {
  const transposed_params* p = run->step->params;
  const carnot_sliding_window* w = &p->window;
  const carnot_operand *x = run->x, *y = run->y;
  int64_t stride_h = w->strides[0], stride_w = w->strides[1], channels = p->channels / p->group,
          filters = p->filters / p->group;
  if (at_w >= y->dims[3]) return;
  phase h = phase_of(w, 0, row % stride_h), v = phase_of(w, 1, at_w);
  carnot_conv2d_f32 conv = {.n = 1,
                            .h = x->dims[2],
                            .w = x->dims[3],
                            .c = channels,
                            .p = 1,
                            .k = filters,
                            .r = h.count,
                            .s = v.count,
                            .stride_h = 1,
                            .stride_w = 1,
                            .dilation_h = 1,
                            .dilation_w = 1,
                            .src_n = 0,
                            .src_h = x->strides[2],
                            .src_w = x->strides[3],
                            .zeros = carnot_conv_zeros};
  conv.q = (y->dims[3] - at_w - 1) / stride_w + 1;
  conv.pad_h = h.count - 1 - h.shift - row / stride_h;
  conv.pad_w = v.count - 1 - v.shift;
  conv.src = (const float*)x->data + image * x->strides[0] + group * channels;
  conv.weights =
      (const float*)run->step->constants[0] + packed_offset(p, group, row % stride_h, at_w);
  conv.dst = (float*)y->data + image * y->strides[0] + row * y->strides[2] + at_w * y->strides[3] +
             group * filters;
  conv.ld = stride_w * y->strides[3];
  conv.epilogue = (carnot_epilogue_f32){
      .activation = (carnot_kernel_activation)p->activation, .a = p->a, .b = p->b};
  if (p->has_bias) conv.epilogue.bias = (const float*)run->step->constants[1] + group * filters;
  run->kernels->conv2d_f32(&conv, 0, conv.q, 0, filters);
}

static void transposed_part(void* argument, int64_t part) {
  const transposed_run* run = argument;
  const transposed_params* p = run->step->params;
  int64_t rows = run->y->dims[2];
  for (int64_t group = 0; group < p->group; group++)
    for (int64_t at_w = 0; at_w < p->window.strides[1]; at_w++)
      phase_part(run, group, part / rows, part % rows, at_w);
}

static carnot_status* transposed_run_all(const carnot_step_view* step, void* state,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* workspace,
                                         carnot_executor* executor) {
  (void)state, (void)workspace;
  transposed_run run = {carnot_cpu_kernels_of(step->tactic->isa), step, &inputs[0], &outputs[0]};
  carnot_executor_parallel(executor, outputs[0].dims[0] * outputs[0].dims[2], transposed_part,
                           &run);
  return NULL;
}

static void transposed_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *x = &problem->inputs[0],
                            *w = &problem->inputs[problem->region->nodes[0].inputs[1]],
                            *y = &problem->outputs[0];
  double in = (double)carnot_dims_count(x->dims, x->rank),
         weights = (double)carnot_dims_count(w->dims, w->rank);
  *out_flops = 2 * in / (double)carnot_max_i64(1, x->dims[1]) * weights;
  *out_bytes = 4 * (in + weights + (double)carnot_dims_count(y->dims, y->rank));
}

CARNOT_CPU_TACTICS(conv_transpose_f32, .anchor = CARNOT_OP_CONV_TRANSPOSE, .strided_outputs = true,
                   .reject = transposed_reject, .prepare = transposed_prepare,
                   .validate = transposed_validate, .uses_input = transposed_uses_input,
                   .configure = transposed_configure, .run = transposed_run_all,
                   .work = transposed_work);
