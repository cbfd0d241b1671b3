// Quantized depthwise convolution of NHWC images, with its whole epilogue.
#include <stdlib.h>

#include "backend/cuda/quantize/int8_region.h"
#include "kernel/cuda/conv/depthwise_int8_params.h"
#include "tactic/problem/conv.h"

enum { kMaxChannels = 1 << 16, kMaxTaps = 1 << 10, kThreads = 128 };

// Stored in engines.
typedef struct depthwise_params {
  carnot_sliding_window window;
  int64_t channels;
  carnot_cuda_int8_region region;
} depthwise_params;

typedef struct depthwise_state {
  CUfunction function;
  int64_t threads;
  carnot_cuda_depthwise_int8_params params;
} depthwise_state;
_Static_assert(sizeof(depthwise_state) <= CARNOT_STATE_BYTES, "the state has its size");

static int64_t taps_of(const depthwise_params* p) {
  return p->window.kernel[0] * p->window.kernel[1];
}
// Packed: words of four taps of a filter row.
static size_t weight_bytes(const depthwise_params* p) {
  return (size_t)(p->window.kernel[0] * carnot_ceildiv(p->window.kernel[1], 4) * p->channels * 4);
}

static const char* read_problem(const carnot_problem* problem, carnot_quantized_region* view,
                                depthwise_params* out, carnot_quantized_shape* shape, char* reason,
                                size_t size) {
  uint32_t anchor;
  const carnot_plan_node* node = carnot_quantized_anchor(problem->region, &anchor);
  if (!node || node->op != CARNOT_OP_CONV) return "";
  const uint32_t inputs = problem->input_count;
  const carnot_quantized_operand x = carnot_quantized_operand_of(problem->region, anchor, 0,
                                                                 inputs),
                                 w = carnot_quantized_operand_of(problem->region, anchor, 1,
                                                                 inputs);
  if (x.value == CARNOT_PLAN_NONE || w.value == CARNOT_PLAN_NONE || w.scale == CARNOT_PLAN_NONE)
    return "input and weights are not both quantized";
  const carnot_operand_desc *xt = &problem->inputs[x.value], *wt = &problem->inputs[w.value];
  if (xt->rank != 4) return carnot_cuda_reject_reason(reason, size, "rank %d", xt->rank);
  carnot_conv_problem conv = {.node = node, .anchor = anchor};
  const char* why = carnot_conv_problem_sizes(xt, wt, &conv, reason, size);
  if (why) return why;
  *out = (depthwise_params){.window = conv.window, .channels = conv.channels};
  if (conv.group != conv.channels || conv.filters != conv.channels || conv.channels % 8 ||
      conv.channels < 8 || conv.channels > kMaxChannels || taps_of(out) > kMaxTaps)
    return carnot_cuda_reject_reason(
        reason, size,
        "%lld channels to %lld in %lld groups; takes one filter of one channel per group, and a "
        "multiple of 8 groups",
        (long long)conv.channels, (long long)conv.filters, (long long)conv.group);
  *shape = (carnot_quantized_shape){0, out->channels, taps_of(out)};
  return carnot_cuda_int8_region_read(problem, problem->outputs[0].rank - 1, shape, view,
                                      &out->region, reason, size);
}

static const char* depthwise_reject(carnot_problem* problem, char* reason, size_t size) {
  depthwise_params p;
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  const char* why = read_problem(problem, &view, &p, &shape, reason, size);
  if (!why) carnot_cuda_int8_region_want(problem, &p.region, CARNOT_LAYOUT_CHANNELS_LAST);
  return why;
}

// [C,1,rows,columns] as [rows,ceil(columns/4),C,4].
static void pack(const depthwise_params* p, const int8_t* from, int8_t* to) {
  const int64_t rows = p->window.kernel[0], columns = p->window.kernel[1],
                groups = carnot_ceildiv(columns, 4);
  for (int64_t c = 0; c < p->channels; c++)
    for (int64_t r = 0; r < rows; r++)
      for (int64_t s = 0; s < columns; s++)
        to[((r * groups + s / 4) * p->channels + c) * 4 + s % 4] = *from++;
}

static carnot_status* depthwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *centered, *packed;
  char reason[256];
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(depthwise_params), "parameters", &params));
  depthwise_params* p = params;
  const char* why = read_problem(problem, &view, p, &shape, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const size_t bytes = weight_bytes(p);
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "packed weights", &packed));
  CARNOT_TRY(
      carnot_calloc((size_t)(p->channels * taps_of(p)), 1, "weights before packing", &centered));
  carnot_status* status =
      carnot_cuda_int8_region_prepare(problem, &view, &p->region, &shape, centered, out);
  memset(packed, 0, bytes);
  if (!status) pack(p, centered, packed);
  free(centered);
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].packing = "rsk4 s8";
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].data = packed;
  out->constants[CARNOT_CUDA_INT8_WEIGHTS].bytes = bytes;
  out->params = params;
  out->param_bytes = sizeof(depthwise_params);
  return status;
}

static carnot_status* depthwise_validate(const carnot_step_view* step) {
  const depthwise_params* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof(depthwise_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(depthwise_params));
  CARNOT_CHECK(p->window.rank == 2 && p->channels >= 8 && p->channels <= kMaxChannels &&
                   p->channels % 8 == 0,
               INVALID_MODEL, "%lld channels, a window of rank %d", (long long)p->channels,
               p->window.rank);
  CARNOT_TRY(carnot_cuda_int8_window_check(&p->window));
  return carnot_cuda_int8_region_validate(&p->region, step, p->channels, weight_bytes(p));
}

static bool depthwise_uses_input(const carnot_step_view* step, uint32_t input) {
  const depthwise_params* p = step->params;
  return (int64_t)input == p->region.x || (int64_t)input == p->region.residual;
}

// *span: results of a thread.
static carnot_cuda_kernel_id kernel_for(const depthwise_params* p, bool is_large, int* span) {
  static const struct {
    int kernel, step, span;
    carnot_cuda_kernel_id u8, i8;
  } kKernels[] = {
#define ENTRY(kernel, step, span)                                                         \
  {kernel, step, span, CARNOT_CUDA_KERNEL_depthwise_int8_##kernel##_##step##_##span##_u8, \
   CARNOT_CUDA_KERNEL_depthwise_int8_##kernel##_##step##_##span##_i8},
      CARNOT_CUDA_DEPTHWISE_INT8_SPANS(ENTRY)
#undef ENTRY
  };
  const carnot_sliding_window* w = &p->window;
  const bool is_square = w->kernel[0] == w->kernel[1] && w->strides[0] == w->strides[1] &&
                         w->dilations[0] == 1 && w->dilations[1] == 1;
  *span = is_large ? 4 : 1;
  for (size_t i = 0; is_square && i < sizeof(kKernels) / sizeof(kKernels[0]); i++)
    if (kKernels[i].kernel == w->kernel[0] && kKernels[i].step == w->strides[0] &&
        kKernels[i].span == *span)
      return p->region.x_signed ? kKernels[i].i8 : kKernels[i].u8;
  *span = 1;
  return p->region.x_signed ? CARNOT_CUDA_KERNEL_depthwise_int8_i8
                            : CARNOT_CUDA_KERNEL_depthwise_int8_u8;
}

static carnot_status* depthwise_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* state,
                                          size_t* out_workspace_bytes) {
  const depthwise_params* p = step->params;
  const carnot_operand *x = &inputs[p->region.x], *y = &outputs[0];
  depthwise_state* s = state;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(x->rank == 4 && y->rank == 4 && x->dims[0] == y->dims[0] &&
                   x->dims[1] == p->channels && y->dims[1] == p->channels,
               INVALID_ARGUMENT, "%lld channels to %lld, the packed weights have %lld",
               (long long)x->dims[1], (long long)y->dims[1], (long long)p->channels);
  const int64_t count = carnot_dims_count(y->dims, 4) / 8;
  CARNOT_CHECK(
      count <= UINT32_MAX && x->dims[2] <= INT16_MAX * 1024 && x->dims[3] <= INT16_MAX * 1024,
      UNSUPPORTED, "%lld results", (long long)count);
  CARNOT_TRY(carnot_cuda_int8_region_configure(&p->region, /*x_channels_last=*/true,
                                               /*channels_last=*/true, inputs, y));
  carnot_sliding_window w = p->window;
  carnot_sliding_window_resolve(&w, x->dims + 2, y->dims + 2);
  carnot_cuda_depthwise_int8_params* t = &s->params;
  *t = (carnot_cuda_depthwise_int8_params){.count = count,
                                           .images = (unsigned)y->dims[0],
                                           .channels = (int)p->channels,
                                           .rows = (int)y->dims[2],
                                           .columns = (int)y->dims[3],
                                           .in_rows = (int)x->dims[2],
                                           .in_columns = (int)x->dims[3],
                                           .x_zero = p->region.x_zero};
  for (int d = 0; d < 2; d++) {
    t->kernel[d] = (int)w.kernel[d], t->step[d] = (int)w.strides[d];
    t->dilation[d] = (int)w.dilations[d], t->begin[d] = (int)w.begin[d];
  }
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  int span;
  const bool is_large = t->columns >= 4 && count > 4 * 1024ll * cuda->base.multiprocessor_count;
  const carnot_cuda_kernel_id kernel = kernel_for(p, is_large, &span);
  s->threads = count ? count / t->columns * carnot_ceildiv(t->columns, span) : 0;
  return carnot_cuda_kernel(cuda, kernel, &s->function);
}

static carnot_status* depthwise_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  depthwise_state* s = state;
  const depthwise_params* p = step->params;
  s->params.x = inputs[p->region.x].data, s->params.y = outputs[0].data;
  s->params.w = step->constants[CARNOT_CUDA_INT8_WEIGHTS];
  s->params.epilogue = carnot_cuda_int8_region_epilogue(&p->region, step, inputs);
  const int64_t grid[3] = {carnot_ceildiv(s->threads, kThreads), 1, 1};
  return s->threads ? carnot_cuda_launch(step, s->function, grid, kThreads, &s->params) : NULL;
}

const carnot_tactic carnot_cuda_depthwise_int8 = {.name = "cuda_depthwise_int8",
                                                  .anchor = CARNOT_OP_COUNT,
                                                  .numerics = CARNOT_NUMERICS_EXACT,
                                                  .device = true,
                                                  .reject = depthwise_reject,
                                                  .prepare = depthwise_prepare,
                                                  .validate = depthwise_validate,
                                                  .uses_input = depthwise_uses_input,
                                                  .configure = depthwise_configure,
                                                  .run = depthwise_run,
                                                  .work = carnot_cuda_quantized_work};
