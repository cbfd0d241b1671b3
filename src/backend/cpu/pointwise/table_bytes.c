// Functions of one byte by a table of their 256 values: the same bits on every ISA level.
#include "backend/cpu/common/cpu.h"
#include "tactic/problem/byte_function.h"

enum { kPart = 1 << 15 };

static carnot_status* table_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* memory,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  return carnot_byte_function_count(&inputs[carnot_byte_function_operand(step)], &outputs[0],
                                    memory);
}

typedef struct table_run {
  carnot_table_bytes_fn* look_up;
  const uint8_t *table, *x;
  uint8_t* y;
  int64_t count;
} table_run;

static void table_part(void* argument, int64_t part) {
  const table_run* run = argument;
  const int64_t first = part * kPart;
  run->look_up(run->table, carnot_min_i64(kPart, run->count - first), run->x + first,
               run->y + first);
}

static carnot_status* table_run_all(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)workspace;
  table_run run = {.look_up = carnot_cpu_kernels_of(step->machine_isa)->table_bytes,
                   .table = step->constants[0],
                   .x = inputs[carnot_byte_function_operand(step)].data,
                   .y = outputs[0].data,
                   .count = *(int64_t*)state};
  carnot_executor_parallel(executor, carnot_ceildiv(run.count, kPart), table_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_table_bytes = {.name = "cpu_table_bytes",
                                                 .anchor = CARNOT_OP_COUNT,
                                                 .isa = CARNOT_ISA_SCALAR,
                                                 .numerics = CARNOT_NUMERICS_EXACT,
                                                 .reject = carnot_byte_function_reject,
                                                 .prepare = carnot_byte_function_prepare,
                                                 .validate = carnot_byte_function_validate,
                                                 .uses_input = carnot_byte_function_uses_input,
                                                 .configure = table_configure,
                                                 .run = table_run_all};
