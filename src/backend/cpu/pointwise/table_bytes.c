// Functions of one byte by a table of their 256 values: the same bits on every ISA level.
#include "backend/cpu/common/cpu.h"
#include "tactic/problem/byte_function.h"

enum { kPart = 1 << 15 };

// Stored in engines.
typedef struct table_params {
  uint32_t x;  // input of the step
} table_params;

static const char* table_reject(carnot_problem* problem, char* reason, size_t size) {
  uint32_t x;
  (void)reason, (void)size;
  const char* why = carnot_byte_function_read(problem, &x);
  if (why) return why;
  problem->outputs[0].format.layout = problem->inputs[x].format.layout;
  return NULL;
}

static carnot_status* table_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *table;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(table_params), "parameters", &params));
  CARNOT_TRY(carnot_arena_try(out->arena, CARNOT_BYTE_VALUES, 1, "a table", &table));
  table_params* p = params;
  const char* why = carnot_byte_function_read(problem, &p->x);
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(carnot_byte_function_table(problem, p->x, table));
  out->params = params;
  out->param_bytes = sizeof(table_params);
  out->constant_count = 1;
  out->constants[0].packing = "u8 table";
  out->constants[0].data = table;
  out->constants[0].bytes = CARNOT_BYTE_VALUES;
  for (uint32_t i = 0; i < problem->input_count; i++)
    if (i != p->x) out->packed_inputs |= (uint64_t)1 << i;
  return NULL;
}

static carnot_status* table_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(table_params) && step->constant_count == 1 &&
                   step->constant_bytes[0] == CARNOT_BYTE_VALUES,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 1",
               step->param_bytes, step->constant_count, sizeof(table_params));
  const table_params* p = step->params;
  CARNOT_CHECK(p->x < step->input_count && step->output_count == 1, INVALID_MODEL, "input %u of %u",
               p->x, step->input_count);
  return NULL;
}

static bool table_uses_input(const carnot_step_view* step, uint32_t input) {
  return input == ((const table_params*)step->params)->x;
}

static carnot_status* table_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* memory,
                                      size_t* out_workspace_bytes) {
  const carnot_operand *x = &inputs[((const table_params*)step->params)->x], *y = &outputs[0];
  const int64_t count = carnot_dims_count(x->dims, x->rank);
  int64_t extent = 1;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(
      carnot_is_8bit(x->format.dtype) && carnot_is_8bit(y->format.dtype) && x->rank == y->rank,
      INVALID_MODEL, "operands are %s and %s, must be of 8 bits and one rank",
      carnot_dtype_name(x->format.dtype), carnot_dtype_name(y->format.dtype));
  for (int d = 0; d < x->rank; d++) {
    CARNOT_CHECK(x->dims[d] == y->dims[d] && (x->dims[d] == 1 || x->strides[d] == y->strides[d]),
                 INVALID_ARGUMENT, "dimension %d lies differently on both sides", d);
    if (x->dims[d] > 1) extent += (x->dims[d] - 1) * x->strides[d];
  }
  CARNOT_CHECK(count == 0 || extent == count, INVALID_ARGUMENT, "the elements are not dense");
  *(int64_t*)memory = count;
  return NULL;
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
                   .x = inputs[((const table_params*)step->params)->x].data,
                   .y = outputs[0].data,
                   .count = *(int64_t*)state};
  carnot_executor_parallel(executor, carnot_ceildiv(run.count, kPart), table_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_table_bytes = {.name = "cpu_table_bytes",
                                                 .anchor = CARNOT_OP_COUNT,
                                                 .isa = CARNOT_ISA_SCALAR,
                                                 .numerics = CARNOT_NUMERICS_EXACT,
                                                 .reject = table_reject,
                                                 .prepare = table_prepare,
                                                 .validate = table_validate,
                                                 .uses_input = table_uses_input,
                                                 .configure = table_configure,
                                                 .run = table_run_all};
