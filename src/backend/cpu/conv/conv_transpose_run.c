// Runs a transposed convolution: every phase of an output row is a convolution of stride 1.
#include "backend/cpu/conv/conv_transpose.h"

// The size of an operand along axis |i| of three, and the distance of its elements.
static int64_t size_of(const carnot_operand* operand, int i) {
  int d = operand->rank - CARNOT_TRANSPOSED_AXES + i;
  return d < 2 ? 1 : operand->dims[d];
}
static int64_t stride_of(const carnot_operand* operand, int i) {
  int d = operand->rank - CARNOT_TRANSPOSED_AXES + i;
  return d < 2 ? 0 : operand->strides[d];
}

carnot_status* carnot_transposed_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  (void)state;
  *out_workspace_bytes = 0;
  const carnot_transposed_params* p = step->params;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(
      x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 && x->rank >= 3 &&
          x->rank <= 2 + CARNOT_TRANSPOSED_AXES && y->rank == x->rank && x->dims[0] == y->dims[0] &&
          x->dims[1] == p->channels && y->dims[1] == p->filters &&
          (x->strides[1] == 1 || x->dims[1] == 1) && (y->strides[1] == 1 || y->dims[1] == 1),
      INVALID_ARGUMENT, "operands do not fit packed weights of %lld channels and %lld filters",
      (long long)p->channels, (long long)p->filters);
  return NULL;
}

typedef struct transposed_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const carnot_operand *x, *y;
} transposed_run;

// The pixels of one phase of row |row| of output plane |plane|: a convolution that gives one row.
static void phase_part(const transposed_run* run, int64_t group, int64_t image, int64_t plane,
                       int64_t row, int64_t at_w) {
  const carnot_transposed_params* p = run->step->params;
  const carnot_sliding_window* w = &p->window;
  const carnot_operand *x = run->x, *y = run->y;
  int64_t channels = p->channels / p->group, filters = p->filters / p->group;
  if (at_w >= size_of(y, 2)) return;
  const int64_t at =
      (plane % w->strides[0] * w->strides[1] + row % w->strides[1]) * w->strides[2] + at_w;
  carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES];
  carnot_transposed_phases_of(p, at, axes);
  carnot_conv2d_f32 conv = {.n = 1,
                            .h = size_of(x, 1),
                            .w = size_of(x, 2),
                            .c = channels,
                            .p = 1,
                            .k = filters,
                            .r = axes[1].count,
                            .s = axes[2].count,
                            .stride_h = 1,
                            .stride_w = 1,
                            .dilation_h = 1,
                            .dilation_w = 1,
                            .src_n = 0,
                            .src_h = stride_of(x, 1),
                            .src_w = stride_of(x, 2),
                            .zeros = carnot_conv_zeros};
  if (x->rank == 2 + CARNOT_TRANSPOSED_AXES)
    conv.depth = (carnot_conv_depth){.taps = axes[0].count,
                                     .in = size_of(x, 0),
                                     .out = 1,
                                     .stride = 1,
                                     .dilation = 1,
                                     .src = stride_of(x, 0)};
  conv.q = (size_of(y, 2) - at_w - 1) / w->strides[2] + 1;
  conv.depth.pad = axes[0].count - 1 - axes[0].shift - plane / w->strides[0];
  conv.pad_h = axes[1].count - 1 - axes[1].shift - row / w->strides[1];
  conv.pad_w = axes[2].count - 1 - axes[2].shift;
  conv.src = (const float*)x->data + image * x->strides[0] + group * channels;
  conv.weights = (const float*)run->step->constants[0] + carnot_transposed_offset(p, group, at);
  conv.dst = (float*)y->data + image * y->strides[0] + plane * stride_of(y, 0) +
             row * stride_of(y, 1) + at_w * stride_of(y, 2) + group * filters;
  conv.ld = w->strides[2] * stride_of(y, 2);
  conv.epilogue = (carnot_epilogue_f32){
      .activation = (carnot_kernel_activation)p->activation, .a = p->a, .b = p->b};
  if (p->has_bias) conv.epilogue.bias = (const float*)run->step->constants[1] + group * filters;
  run->kernels->conv2d_f32(&conv, 0, conv.q, 0, filters);
}

static void transposed_part(void* argument, int64_t part) {
  const transposed_run* run = argument;
  const carnot_transposed_params* p = run->step->params;
  int64_t rows = size_of(run->y, 1), planes = size_of(run->y, 0);
  for (int64_t group = 0; group < p->group; group++)
    for (int64_t at_w = 0; at_w < p->window.strides[2]; at_w++)
      phase_part(run, group, part / rows / planes, part / rows % planes, part % rows, at_w);
}

carnot_status* carnot_transposed_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)state, (void)workspace;
  transposed_run run = {carnot_cpu_kernels_of(step->tactic->isa), step, &inputs[0], &outputs[0]};
  const carnot_operand* y = &outputs[0];
  carnot_executor_parallel(executor, y->dims[0] * size_of(y, 0) * size_of(y, 1), transposed_part,
                           &run);
  return NULL;
}
