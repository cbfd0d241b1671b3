// Functions of one byte by a table of their 256 values, whatever is quantized on the way.
#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/quantize/table_bytes_params.h"
#include "tactic/problem/byte_function.h"

typedef struct table_state {
  CUfunction function;
  int64_t count;
} table_state;
_Static_assert(sizeof(table_state) <= CARNOT_STATE_BYTES, "the state has its size");

static carnot_status* table_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* memory,
                                      size_t* out_workspace_bytes) {
  const carnot_operand *x = &inputs[carnot_byte_function_operand(step)], *y = &outputs[0];
  table_state* s = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_byte_function_count(x, y, &s->count));
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  return carnot_cuda_kernel(carnot_cuda_of_step(step), CARNOT_CUDA_KERNEL_table_bytes,
                            &s->function);
}

static carnot_status* table_run(const carnot_step_view* step, void* memory,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  const table_state* s = memory;
  carnot_cuda_table_bytes_params params = {.x = inputs[carnot_byte_function_operand(step)].data,
                                           .table = step->constants[0],
                                           .y = outputs[0].data,
                                           .count = s->count};
  params.aligned = (((uintptr_t)params.x | (uintptr_t)params.y) % 16) == 0;
  const int64_t grid[3] = {carnot_ceildiv(s->count, 16 * CARNOT_CUDA_TABLE_BYTES_THREADS), 1, 1};
  if (!s->count) return NULL;
  return carnot_cuda_launch(step, s->function, grid, CARNOT_CUDA_TABLE_BYTES_THREADS, &params);
}

const carnot_tactic carnot_cuda_table_bytes = {.name = "cuda_table_bytes",
                                               .anchor = CARNOT_OP_COUNT,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .device = true,
                                               .reject = carnot_byte_function_reject,
                                               .prepare = carnot_byte_function_prepare,
                                               .validate = carnot_byte_function_validate,
                                               .uses_input = carnot_byte_function_uses_input,
                                               .configure = table_configure,
                                               .run = table_run};
