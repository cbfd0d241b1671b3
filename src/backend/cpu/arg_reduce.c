// The place of the largest or smallest float32 along an axis.
#include "backend/cpu/cpu.h"
#include "backend/cpu/rows.h"
#include "kernel/cpu/gather.h"
#include "kernel/cpu/kernels.h"

static const char* arg_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_ARG_REDUCE || problem->region->node_count != 1) return "";
  const char* why =
      carnot_not_f32(&problem->inputs[0], "the input", 1, CARNOT_MAX_RANK, reason, size);
  if (!why) problem->inputs[0].layout = problem->outputs[0].layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static carnot_status* arg_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->region->node_count == 1 && step->region->nodes[0].op == CARNOT_OP_ARG_REDUCE,
               INVALID_MODEL, "the step looks for no place");
  return NULL;
}

typedef struct arg_state {
  carnot_arg_extreme_f32 arg;  // all but data
  int64_t outer, per_part;
} arg_state;

static carnot_status* arg_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* memory,
                                size_t* out_workspace_bytes) {
  arg_state* s = memory;
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_ARG_REDUCE);
  const carnot_operand* x = &inputs[0];
  int axis;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(x->dtype == CARNOT_DTYPE_F32 && outputs[0].dtype == CARNOT_DTYPE_I64, INVALID_MODEL,
               "operands are %s and %s", carnot_dtype_name(x->dtype),
               carnot_dtype_name(outputs[0].dtype));
  CARNOT_TRY(carnot_axis(carnot_attr_int(row, &node->attrs, "axis"), x->rank, "axis", &axis));
  int64_t n = x->dims[axis], inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  CARNOT_CHECK(n > 0, INVALID_ARGUMENT, "dimension %d is 0; an element is required", axis);
  s->outer = carnot_dims_count(x->dims, axis);
  CARNOT_CHECK(carnot_dims_count(outputs[0].dims, outputs[0].rank) == s->outer * inner,
               INVALID_MODEL, "the result has another size");
  s->arg = (carnot_arg_extreme_f32){
      .n = n,
      .inner = inner,
      .src_outer = n * inner,
      .src_axis = inner,
      .min = carnot_attr_is(row, &node->attrs, "fn", "min"),
      .last = carnot_attr_int(row, &node->attrs, "select_last_index") != 0};
  s->per_part = carnot_rows_per_part(s->outer, n * inner);
  return NULL;
}

typedef struct arg_run {
  const carnot_cpu_kernels* kernels;
  const arg_state* s;
  carnot_arg_extreme_f32 arg;
} arg_run;

static void arg_part(void* argument, int64_t part) {
  const arg_run* run = argument;
  int64_t first = part * run->s->per_part;
  run->kernels->arg_extreme_f32(&run->arg, first,
                                carnot_min_i64(first + run->s->per_part, run->s->outer));
}

static carnot_status* arg_run_row(const carnot_step_view* step, void* memory,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace;
  arg_run run = {.kernels = carnot_cpu_kernels_of(step->isa), .s = memory};
  run.arg = run.s->arg;
  run.arg.src = inputs[0].data;
  run.arg.dst = outputs[0].data;
  carnot_executor_parallel(executor, carnot_ceildiv(run.s->outer, run.s->per_part), arg_part, &run);
  return NULL;
}

CARNOT_CPU_ROWS(arg_extreme_f32, .anchor = CARNOT_OP_ARG_REDUCE, .reject = arg_reject,
                .check = arg_check, .shape = arg_shape, .run = arg_run_row);
