// ArgMax and ArgMin of float32 along an axis; Hardmax writes a 1 at the index.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "kernel/cpu/common/kernels.h"
#include "kernel/cpu/gather/gather.h"

static const char* arg_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, problem->tactic->anchor);
  if (!why)
    why = carnot_not_f32(&problem->inputs[0], "the input", 1, CARNOT_MAX_RANK, reason, size);
  if (!why)
    problem->inputs[0].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

typedef struct arg_state {
  carnot_arg_extreme_f32 arg;  // all but data
  int64_t outer, per_part;
} arg_state;

static carnot_status* axis_configure(const carnot_step_view* step, const carnot_operand* x,
                                     const carnot_operand* y, carnot_dtype dtype, arg_state* s) {
  const carnot_plan_node* node = &step->region->nodes[0];
  int axis;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == dtype &&
                   carnot_cpu_is_dense(x) && carnot_cpu_is_dense(y),
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype));
  CARNOT_TRY(carnot_axis(carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis"), x->rank,
                         "axis", &axis));
  int64_t n = x->dims[axis], inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  s->outer = carnot_dims_count(x->dims, axis);
  s->arg =
      (carnot_arg_extreme_f32){.n = n, .inner = inner, .src_outer = n * inner, .src_axis = inner};
  s->per_part = carnot_rows_per_part(s->outer, n * inner);
  return NULL;
}

static carnot_status* check_count(const carnot_operand* y, int64_t count) {
  CARNOT_CHECK(carnot_dims_count(y->dims, y->rank) == count, INVALID_MODEL,
               "the result has another size");
  return NULL;
}

static carnot_status* arg_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* memory,
                                    size_t* out_workspace_bytes) {
  arg_state* s = memory;
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_ARG_REDUCE);
  const carnot_attrs* attrs = &step->region->nodes[0].attrs;
  *out_workspace_bytes = 0;
  CARNOT_TRY(axis_configure(step, &inputs[0], &outputs[0], CARNOT_DTYPE_I64, s));
  CARNOT_CHECK(s->arg.n > 0, INVALID_ARGUMENT, "the axis has no element; one is required");
  s->arg.min = carnot_attr_is(row, attrs, "fn", "min");
  s->arg.last = carnot_attr_int(row, attrs, "select_last_index") != 0;
  return check_count(&outputs[0], s->outer * s->arg.inner);
}

static carnot_status* hardmax_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  arg_state* s = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(axis_configure(step, &inputs[0], &outputs[0], CARNOT_DTYPE_F32, s));
  if (s->arg.n == 0) s->outer = 0;
  *out_workspace_bytes = (size_t)(s->outer * s->arg.inner) * sizeof(int64_t);
  return check_count(&outputs[0], s->outer * s->arg.src_outer);
}

typedef struct arg_run {
  const carnot_cpu_kernels* kernels;
  const arg_state* s;
  carnot_arg_extreme_f32 arg;
  float* ones;  // of Hardmax, whose indices go to the workspace
} arg_run;

static void write_ones(const arg_run* run, int64_t o0, int64_t o1) {
  const carnot_arg_extreme_f32* p = &run->arg;
  int64_t row = p->src_outer;
  memset(run->ones + o0 * row, 0, (size_t)((o1 - o0) * row) * sizeof(float));
  for (int64_t o = o0; o < o1; o++)
    for (int64_t j = 0; j < p->inner; j++)
      run->ones[o * row + p->dst[o * p->inner + j] * p->inner + j] = 1;
}

static void arg_part(void* argument, int64_t part) {
  const arg_run* run = argument;
  int64_t first = part * run->s->per_part,
          last = carnot_min_i64(first + run->s->per_part, run->s->outer);
  run->kernels->arg_extreme_f32(&run->arg, first, last);
  if (run->ones) write_ones(run, first, last);
}

static void run_along_axis(const carnot_step_view* step, const arg_state* s, const float* src,
                           int64_t* indices, float* ones, carnot_executor* executor) {
  arg_run run = {
      .kernels = carnot_cpu_kernels_of(step->tactic->isa), .s = s, .arg = s->arg, .ones = ones};
  run.arg.src = src;
  run.arg.dst = indices;
  carnot_executor_parallel(executor, carnot_ceildiv(s->outer, s->per_part), arg_part, &run);
}

static carnot_status* arg_run_all(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace;
  run_along_axis(step, state, inputs[0].data, outputs[0].data, /*ones=*/NULL, executor);
  return NULL;
}

static carnot_status* hardmax_run_all(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  run_along_axis(step, state, inputs[0].data, workspace, outputs[0].data, executor);
  return NULL;
}

CARNOT_CPU_TACTICS(arg_extreme_f32, .anchor = CARNOT_OP_ARG_REDUCE, .reject = arg_reject,
                   .validate = carnot_cpu_check_single, .configure = arg_configure,
                   .run = arg_run_all);
CARNOT_CPU_TACTICS(hardmax_f32, .anchor = CARNOT_OP_HARDMAX, .reject = arg_reject,
                   .validate = carnot_cpu_check_single, .configure = hardmax_configure,
                   .run = hardmax_run_all);
