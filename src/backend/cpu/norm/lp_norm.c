// Scaling of row-major float32 by its L1 or L2 norm along an axis:
//   y = x / max(norm, epsilon), 0 where that is 0
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "kernel/cpu/reduce/reduce_f32.h"

#include <math.h>

static const char* lp_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, CARNOT_OP_LP_NORM);
  if (!why)
    why = carnot_not_f32(&problem->inputs[0], "the input", 1, CARNOT_MAX_RANK, reason, size);
  if (!why)
    problem->inputs[0].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

typedef struct lp_state {
  int64_t outer, n, inner, per_part;
  float epsilon;
  carnot_kernel_reduction norm;
} lp_state;

static carnot_status* lp_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* memory,
                                   size_t* out_workspace_bytes) {
  lp_state* s = memory;
  const carnot_operand* x = &inputs[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_LP_NORM);
  const carnot_attrs* attrs = &step->region->nodes[0].attrs;
  int axis;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && x->rank >= 1, INVALID_MODEL,
               "the input is %s of rank %d", carnot_dtype_name(x->format.dtype), x->rank);
  CARNOT_TRY(carnot_cpu_check_alike(x, &outputs[0]));
  CARNOT_TRY(carnot_axis(carnot_attr_int(row, attrs, "axis"), x->rank, "axis", &axis));
  s->outer = carnot_dims_count(x->dims, axis);
  s->n = x->dims[axis];
  s->inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  s->epsilon = (float)carnot_attr_float(row, attrs, "epsilon");
  s->norm = carnot_attr_int(row, attrs, "p") == 1 ? CARNOT_KERNEL_REDUCTION_SUM_ABS
                                                  : CARNOT_KERNEL_REDUCTION_L2;
  s->per_part = carnot_rows_per_part(s->outer, s->n * s->inner);
  *out_workspace_bytes = (size_t)(s->outer * s->inner) * sizeof(float);
  return NULL;
}

typedef struct lp_run {
  const lp_state* s;
  const carnot_cpu_kernels* kernels;
  const float* x;
  float *y, *norms;  // of each row, or column
} lp_run;

static const carnot_pw_program kDivide = {
    .instruction_count = 1,
    .register_count = 3,
    .input_count = 2,
    .output_count = 1,
    .output_register = {2},
    .instructions = {{.fn = CARNOT_PW_DIV, .dst = 2, .src = {0, 1}}}};

static void lp_part(void* argument, int64_t part) {
  const lp_run* run = argument;
  const lp_state* s = run->s;
  const int64_t o0 = part * s->per_part, o1 = carnot_min_i64(o0 + s->per_part, s->outer),
                each = s->n * s->inner;
  const carnot_reduce_f32 reduce = {.reduction = s->norm,
                                    .n = s->n,
                                    .inner = s->inner,
                                    .src = run->x,
                                    .src_outer = each,
                                    .src_axis = s->inner,
                                    .dst = run->norms,
                                    .dst_outer = s->inner};
  run->kernels->reduce_f32(&reduce, o0, o1, 0, s->inner);
  for (int64_t i = o0 * s->inner; i < o1 * s->inner; i++) {
    float* norm = &run->norms[i];
    *norm = *norm < s->epsilon ? s->epsilon : *norm;
    if (*norm == 0) *norm = INFINITY;  // which gives 0
  }
  float* x = (float*)(uintptr_t)run->x;
  if (s->inner == 1) {
    const carnot_pw_operand in[2] = {{x, s->n, 1}, {run->norms, 1, 0}}, out = {run->y, s->n, 1};
    run->kernels->pointwise(&kDivide, in, &out, o0, o1, s->n);
    return;
  }
  for (int64_t o = o0; o < o1; o++) {
    const carnot_pw_operand in[2] = {{x + o * each, s->inner, 1},
                                     {run->norms + o * s->inner, 0, 1}},
                            out = {run->y + o * each, s->inner, 1};
    run->kernels->pointwise(&kDivide, in, &out, 0, s->n, s->inner);
  }
}

static carnot_status* lp_run_all(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  lp_run run = {.s = state,
                .kernels = carnot_cpu_kernels_of(step->tactic->isa),
                .x = inputs[0].data,
                .y = outputs[0].data,
                .norms = workspace};
  carnot_executor_parallel(executor, carnot_ceildiv(run.s->outer, run.s->per_part), lp_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(lp_norm_f32, .anchor = CARNOT_OP_LP_NORM, .reject = lp_reject,
                   .validate = carnot_cpu_check_single, .configure = lp_configure,
                   .run = lp_run_all);
