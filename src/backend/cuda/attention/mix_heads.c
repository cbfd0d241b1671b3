// Products over the heads of scores that no attention kernel takes along.
#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/attention/attention_mixed_params.h"

typedef struct mix_state {
  CUfunction function;
  carnot_cuda_mix_heads_params params;
} mix_state;
_Static_assert(sizeof(mix_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const carnot_cuda_kernel_id kMix[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, mix_heads)};

static const char* mix_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_MIX_HEADS)) return "";
  carnot_cuda_want_row_major(problem);
  return carnot_cuda_not_float(&problem->inputs[0], reason, size);
}

static carnot_status* mix_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *w = &inputs[1], *y = &outputs[0];
  const bool has_bias = step->input_count > 2 && inputs[2].format.dtype != CARNOT_DTYPE_INVALID;
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  CARNOT_CHECK(x->rank >= 3 && y->rank == x->rank && w->rank == 2 && w->dims[0] == x->dims[1] &&
                   w->dims[1] == y->dims[1] && w->format.dtype == x->format.dtype &&
                   y->format.dtype == x->format.dtype && y->dims[0] == x->dims[0] &&
                   x->dims[1] <= INT32_MAX && y->dims[1] <= INT32_MAX &&
                   (!has_bias || (inputs[2].format.dtype == x->format.dtype &&
                                  carnot_dims_count(inputs[2].dims, inputs[2].rank) == y->dims[1])),
               INVALID_ARGUMENT, "weights of [%lld,%lld] do not mix %lld heads to %lld",
               (long long)w->dims[0], (long long)w->dims[1], (long long)x->dims[1],
               (long long)y->dims[1]);
  for (int d = 2; d < x->rank; d++)
    CARNOT_CHECK(x->dims[d] == y->dims[d], INVALID_ARGUMENT, "dimension %d is %lld and %lld", d,
                 (long long)x->dims[d], (long long)y->dims[d]);
  mix_state* s = state;
  const int64_t inner = carnot_dims_count(x->dims + 2, x->rank - 2);
  *s = (mix_state){.params = {.inner = inner,
                              .count = inner * x->dims[0],
                              .heads = (int)x->dims[1],
                              .results = (int)y->dims[1]}};
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kMix, x->format.dtype, &s->function);
}

static carnot_status* mix_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  mix_state* s = state;
  s->params.x = inputs[0].data, s->params.w = inputs[1].data, s->params.y = outputs[0].data;
  s->params.bias = step->input_count > 2 ? inputs[2].data : NULL;
  return carnot_cuda_launch_threads(step, s->function, s->params.count, &s->params);
}

const carnot_tactic carnot_cuda_mix_heads = {.name = "cuda_mix_heads",
                                             .anchor = CARNOT_OP_MIX_HEADS,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .device = true,
                                             .reject = mix_reject,
                                             .configure = mix_configure,
                                             .run = mix_run};
