// The mean over spatial axes between quantized values.
#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/reduce/mean_bytes_params.h"
#include "tactic/problem/quantized_mean.h"

typedef struct mean_state {
  CUfunction function;
  carnot_cuda_mean_bytes_params params;
  int64_t grid[3];
} mean_state;
_Static_assert(sizeof(mean_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* mean_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_quantized_mean p;
  const char* why = carnot_quantized_mean_read(problem, &p);
  if (why) return why;
  if (p.y_float) return "the result is not quantized";
  const carnot_operand_desc *x = &problem->inputs[p.x], *y = &problem->outputs[0];
  if (x->dims[1] % 4)
    return carnot_cuda_reject_reason(reason, size, "%lld channels, takes fours",
                                     (long long)x->dims[1]);
  carnot_cuda_want_row_major(problem);
  problem->inputs[p.x].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  if (y->rank == x->rank) problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static carnot_status* mean_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_quantized_mean), "parameters", &params));
  const char* why = carnot_quantized_mean_read(problem, params);
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = sizeof(carnot_quantized_mean);
  return NULL;
}

static bool mean_uses_input(const carnot_step_view* step, uint32_t input) {
  return (int64_t)input == ((const carnot_quantized_mean*)step->params)->x;
}

static carnot_status* mean_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  const carnot_quantized_mean* p = step->params;
  const carnot_operand *x = &inputs[p->x], *y = &outputs[0];
  mean_state* s = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_quantized_mean_check(p, x, y, CARNOT_LAYOUT_CHANNELS_LAST));
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  const int64_t c = x->dims[1], n = carnot_dims_count(x->dims + 2, x->rank - 2);
  CARNOT_CHECK(c % 4 == 0 && c <= INT32_MAX && x->dims[0] <= UINT16_MAX, UNSUPPORTED,
               "%lld images of %lld channels", (long long)x->dims[0], (long long)c);
  s->params = (carnot_cuda_mean_bytes_params){.images = (int)x->dims[0],
                                              .pixels = (int)n,
                                              .channels = (int)c,
                                              .x_zero = p->x_zero,
                                              .y_zero = p->y_zero,
                                              .y_signed = p->y_signed,
                                              .scale = carnot_quantized_mean_scale(p, n)};
  s->grid[0] = carnot_ceildiv(c, CARNOT_CUDA_MEAN_BYTES_CHANNELS);
  s->grid[1] = x->dims[0], s->grid[2] = 1;
  return carnot_cuda_kernel(
      carnot_cuda_of_step(step),
      p->x_signed ? CARNOT_CUDA_KERNEL_mean_bytes_i8 : CARNOT_CUDA_KERNEL_mean_bytes_u8,
      &s->function);
}

static carnot_status* mean_run(const carnot_step_view* step, void* memory,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  mean_state* s = memory;
  if (!s->grid[0] || !s->grid[1]) return NULL;
  s->params.x = inputs[((const carnot_quantized_mean*)step->params)->x].data;
  s->params.y = outputs[0].data;
  return carnot_cuda_launch(step, s->function, s->grid, CARNOT_CUDA_MEAN_BYTES_THREADS, &s->params);
}

const carnot_tactic carnot_cuda_mean_bytes = {.name = "cuda_mean_bytes",
                                              .anchor = CARNOT_OP_COUNT,
                                              .numerics = CARNOT_NUMERICS_EXACT,
                                              .device = true,
                                              .reject = mean_reject,
                                              .prepare = mean_prepare,
                                              .validate = carnot_quantized_mean_validate,
                                              .uses_input = mean_uses_input,
                                              .configure = mean_configure,
                                              .run = mean_run};
