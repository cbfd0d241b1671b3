// Direct convolution of any type, layout and groups: the fallback.
#include "backend/cuda/conv/conv.h"

typedef struct direct_state {
  CUfunction function;
  carnot_cuda_sliding_window params;
  int64_t count;
  uint32_t weights, bias;
  carnot_cuda_conv_cast cast;
  carnot_cuda_chain_state chain;
} direct_state;
_Static_assert(sizeof(direct_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const carnot_cuda_kernel_id kConvDirect[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_REAL_TYPES(CARNOT_CUDA_BY_TYPE, conv_direct)};

static const carnot_epilogue_mask kEpilogue = {.biases = CARNOT_EPILOGUE_ONE_BIAS};

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_conv c;
  const char* why = carnot_cuda_conv_read(problem, &kEpilogue, &c, reason, size);
  if (why) return why;
  carnot_cuda_want_row_major(problem);
  const carnot_operand_desc input = carnot_cuda_conv_input(problem), *x = &input;
  if (x->rank < 3 || x->rank > 5)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 to 5", x->rank);
  if (problem->inputs[c.weights].format.dtype != x->format.dtype)
    return "the weights have another type than the input";
  return carnot_cuda_not_real(x, reason, size);
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_conv c;
  CARNOT_TRY(carnot_cuda_conv_of_problem(problem, &kEpilogue, &c));
  return carnot_cuda_chain_prepare(problem, &c.chain, problem->outputs[0].format.dtype, out);
}

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  carnot_cuda_conv c;
  carnot_operand x;
  CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, outputs, &kEpilogue, &c));
  direct_state* s = state;
  *s = (direct_state){.count = carnot_dims_count(outputs[0].dims, outputs[0].rank),
                      .weights = c.weights,
                      .bias = c.bias};
  const carnot_operand* w = &inputs[c.weights];
  CARNOT_TRY(carnot_cuda_conv_cast_shape(step, &inputs[0], outputs[0].format.dtype, &s->cast, &x));
  *out_workspace_bytes = s->cast.bytes;
  CARNOT_TRY(carnot_cuda_sliding_window_make(c.problem.node, &x, w, &outputs[0], &s->params));
  s->params.groups = c.problem.group;
  CARNOT_CHECK(s->params.groups > 0 && w->format.dtype == x.format.dtype &&
                   w->dims[0] == s->params.filters && s->params.filters % s->params.groups == 0 &&
                   w->dims[1] * s->params.groups == s->params.channels,
               INVALID_ARGUMENT, "weights do not fit %lld channels in %lld groups",
               (long long)s->params.channels, (long long)s->params.groups);
  CARNOT_TRY(
      carnot_cuda_conv_check_bias(&c, inputs, &outputs[0], s->params.filters, /*alignment=*/1));
  CARNOT_TRY(
      carnot_cuda_kernel_for(carnot_cuda_of_step(step), kConvDirect, x.format.dtype, &s->function));
  return carnot_cuda_chain_shape(step, &c.chain, inputs, outputs, &s->chain);
}

static carnot_status* conv_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)executor;
  direct_state* s = state;
  void* x = inputs[0].data;
  CARNOT_TRY(carnot_cuda_conv_cast_run(step, &s->cast, workspace, &x));
  s->params.x = x, s->params.w = inputs[s->weights].data, s->params.y = outputs[0].data;
  s->params.bias = carnot_cuda_conv_data(inputs, s->bias);
  CARNOT_TRY(carnot_cuda_launch_threads(step, s->function, s->count, &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_conv_direct = {.name = "cuda_conv_direct",
                                               .fallback = true,
                                               .anchor = CARNOT_OP_CONV,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .device = true,
                                               .reject = conv_reject,
                                               .prepare = conv_prepare,
                                               .configure = conv_configure,
                                               .run = conv_run,
                                               .work = carnot_cuda_conv_work};
