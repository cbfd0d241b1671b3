// Depthwise convolution of NHWC 16-bit floats, with bias and activation.
#include "backend/cuda/conv/depthwise.h"

enum { kThreads = 128 };

typedef struct depthwise_state {
  CUfunction function;
  carnot_cuda_depthwise_params params;
  int64_t threads;
  uint32_t bias;  // input; NONE
  carnot_cuda_chain_state chain;
} depthwise_state;
_Static_assert(sizeof(depthwise_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const carnot_epilogue_mask kEpilogue = {CARNOT_EPILOGUE_ONE_BIAS, /*residual=*/false,
                                               CARNOT_CUDA_FUSED_ACTIVATIONS};

const char* carnot_cuda_depthwise_read(carnot_problem* problem, carnot_cuda_conv* out, char* reason,
                                       size_t size) {
  const char* why =
      carnot_cuda_conv_read_packed(problem, &kEpilogue, /*depthwise=*/true, out, reason, size);
  if (why) return why;
  if (out->problem.casts) return "a cast precedes the convolution";
  const carnot_operand_desc *x = &problem->inputs[0], *w = &problem->inputs[out->weights];
  if (!carnot_cuda_is_half(x->format.dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s",
                                     carnot_dtype_name(x->format.dtype));
  int64_t groups = out->problem.group;
  if (groups != w->dims[0] || w->dims[1] != 1 || groups % 2 || x->dims[1] != groups)
    return carnot_cuda_reject_reason(
        reason, size,
        "%lld groups, %lld filters of %lld channels; takes one filter of one channel per group, "
        "and an even number of groups",
        (long long)groups, (long long)w->dims[0], (long long)w->dims[1]);
  carnot_cuda_conv_want_channels_last(problem, 0);
  return NULL;
}

static const char* depthwise_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_conv c;
  return carnot_cuda_depthwise_read(problem, &c, reason, size);
}

carnot_status* carnot_cuda_depthwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_conv c;
  CARNOT_TRY(carnot_cuda_conv_of_problem(problem, &kEpilogue, &c));
  const carnot_operand_desc* w = &problem->inputs[c.weights];
  int64_t channels = w->dims[0], taps = carnot_dims_count(w->dims + 2, w->rank - 2);
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)(channels * taps), 2, "packed weights", &memory));
  const uint16_t* from = w->tensor->data;
  for (int64_t t = 0; t < taps; t++)
    for (int64_t k = 0; k < channels; k++)
      ((uint16_t*)memory)[t * channels + k] = from[k * taps + t];
  out->constants[0].packing = "rsk f16";
  out->constants[0].data = memory;
  out->constants[0].bytes = (size_t)(channels * taps) * 2;
  out->constant_count = 1;
  out->packed_inputs = 1ull << c.weights;
  return carnot_cuda_chain_prepare(problem, &c.chain, problem->inputs[0].format.dtype, out);
}

static carnot_cuda_kernel_id span_kernel(int kernel, int step, int span, carnot_dtype dtype) {
  static const struct {
    int kernel, step, span;
    carnot_cuda_kernel_id f16, bf16;
  } kKernels[] = {
#define SPAN(kernel, step, span)                                                      \
  {kernel, step, span, CARNOT_CUDA_KERNEL_depthwise_##kernel##_##step##_##span##_f16, \
   CARNOT_CUDA_KERNEL_depthwise_##kernel##_##step##_##span##_bf16},
      CARNOT_CUDA_DEPTHWISE_SPANS(SPAN)
#undef SPAN
  };
  for (size_t i = 0; i < sizeof(kKernels) / sizeof(kKernels[0]); i++)
    if (kKernels[i].kernel == kernel && kKernels[i].step == step && kKernels[i].span == span)
      return dtype == CARNOT_DTYPE_F16 ? kKernels[i].f16 : kKernels[i].bf16;
  return CARNOT_CUDA_KERNEL_NONE;
}

// Square kernels of 3 and 5 have specialized kernels, with several results per thread where all
// multiprocessors still have enough threads. Other windows, and channels that are no eights, are
// computed in pairs of channels.
static carnot_status* choose_kernel(const carnot_step_view* step, carnot_dtype dtype,
                                    depthwise_state* s) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const carnot_cuda_depthwise_params* p = &s->params;
  carnot_cuda_kernel_id kernel;
  bool usual = p->kernel[0] == p->kernel[1] && (p->kernel[0] == 3 || p->kernel[0] == 5) &&
               p->step[0] == p->step[1] && p->step[0] <= 2 && p->dilation[0] == 1 &&
               p->dilation[1] == 1;
  s->threads = p->count;
  if (p->channels % 8 || (!usual && p->columns >= CARNOT_CUDA_DEPTHWISE_SPAN)) {
    s->threads = p->count ? (int64_t)p->images * p->rows * (p->channels / 2) *
                                carnot_ceildiv(p->columns, CARNOT_CUDA_DEPTHWISE_SPAN)
                          : 0;
    kernel = dtype == CARNOT_DTYPE_F16 ? CARNOT_CUDA_KERNEL_depthwise_pairs_f16
                                       : CARNOT_CUDA_KERNEL_depthwise_pairs_bf16;
  } else if (usual) {
    int span = p->columns >= 4 && p->count > 4 * 1024ll * cuda->base.multiprocessor_count ? 4 : 1;
    s->threads = p->count / p->columns * carnot_ceildiv(p->columns, span);
    kernel = span_kernel(p->kernel[0], p->step[0], span, dtype);
  } else {
    kernel = dtype == CARNOT_DTYPE_F16 ? CARNOT_CUDA_KERNEL_depthwise_f16
                                       : CARNOT_CUDA_KERNEL_depthwise_bf16;
  }
  return carnot_cuda_kernel(cuda, kernel, &s->function);
}

carnot_status* carnot_cuda_depthwise_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs,
                                           carnot_cuda_depthwise_params* out, uint32_t* out_bias,
                                           carnot_cuda_chain_state* out_chain) {
  carnot_cuda_conv c;
  CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, outputs, &kEpilogue, &c));
  const carnot_operand *x = &inputs[0], *w = &inputs[c.weights], *y = &outputs[0];
  carnot_cuda_sliding_window t;
  CARNOT_TRY(carnot_cuda_sliding_window_make(&step->region->nodes[0], x, w, y, &t));
  int64_t count = carnot_dims_count(y->dims, y->rank);
  CARNOT_CHECK((x->rank == 4 || x->rank == 3) && carnot_cuda_is_half(x->format.dtype) &&
                   t.channels == t.filters && t.channels % 2 == 0 && w->dims[0] == t.filters &&
                   w->dims[1] == 1 &&
                   step->constant_bytes[0] == (size_t)(t.filters * t.kernel[1] * t.kernel[2]) * 2 &&
                   count < (int64_t)UINT32_MAX && carnot_cuda_row_pitch(x, true) &&
                   carnot_cuda_row_pitch(y, true),
               INVALID_ARGUMENT,
               "a depthwise convolution of %lld channels and %lld filters, channels last",
               (long long)t.channels, (long long)t.filters);
  CARNOT_TRY(carnot_cuda_conv_check_bias(&c, inputs, y, t.filters, /*alignment=*/16));
  *out_bias = c.bias;
  // Of a sequence |t| has one row; here it is an image of one column: windows have any rows.
  const int rows = x->rank == 3 ? 2 : 1, columns = x->rank == 3 ? 1 : 2, axes[2] = {rows, columns};
  *out = (carnot_cuda_depthwise_params){.count = carnot_ceildiv(count, 8),
                                        .images = (unsigned)t.n,
                                        .channels = (int)t.channels,
                                        .x_pitch = (int)carnot_cuda_row_pitch(x, true),
                                        .y_pitch = (int)carnot_cuda_row_pitch(y, true),
                                        .rows = (int)t.out[rows],
                                        .columns = (int)t.out[columns],
                                        .in_rows = (int)t.in[rows],
                                        .in_columns = (int)t.in[columns],
                                        .activation = (int)c.activation.kind,
                                        .low = c.activation.low,
                                        .high = c.activation.high};
  for (int d = 0; d < 2; d++) {
    out->kernel[d] = (int)t.kernel[axes[d]], out->step[d] = (int)t.step[axes[d]];
    out->dilation[d] = (int)t.dilation[axes[d]], out->begin[d] = (int)t.begin[axes[d]];
  }
  return carnot_cuda_chain_shape(step, &c.chain, inputs, outputs, out_chain);
}

static carnot_status* depthwise_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* state,
                                          size_t* out_workspace_bytes) {
  depthwise_state* s = state;
  *s = (depthwise_state){.function = NULL};
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_depthwise_shape(step, inputs, outputs, &s->params, &s->bias, &s->chain));
  return choose_kernel(step, inputs[0].format.dtype, s);
}

static carnot_status* depthwise_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  depthwise_state* s = state;
  s->params.x = inputs[0].data, s->params.w = step->constants[0], s->params.y = outputs[0].data;
  s->params.bias = carnot_cuda_conv_data(inputs, s->bias);
  const int64_t grid[3] = {carnot_ceildiv(s->threads, kThreads), 1, 1};
  if (s->threads) CARNOT_TRY(carnot_cuda_launch(step, s->function, grid, kThreads, &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_depthwise = {.name = "cuda_depthwise",
                                             .anchor = CARNOT_OP_CONV,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .device = true,
                                             .pitched_inputs = 1,
                                             .pitched_outputs = true,
                                             .reject = depthwise_reject,
                                             .prepare = carnot_cuda_depthwise_prepare,
                                             .validate = carnot_cuda_conv_packed_check,
                                             .uses_input = carnot_cuda_conv_packed_reads,
                                             .configure = depthwise_configure,
                                             .run = depthwise_run,
                                             .work = carnot_cuda_conv_work};
