// TopK: the largest or smallest float32 along an axis, in order.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "kernel/cpu/common/kernels.h"
#include "kernel/cpu/reduce/top_k_f32.h"

static const char* top_k_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_TOP_K || problem->region->node_count != 1) return "";
  const char* why =
      carnot_not_f32(&problem->inputs[0], "the input", 1, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  problem->inputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* top_k_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->region->node_count == 1 && step->region->nodes[0].op == CARNOT_OP_TOP_K &&
                   step->region->nodes[0].output_count <= 2,
               INVALID_MODEL, "the step ranks nothing");
  return NULL;
}

// k is the dimension of the results: the tensor k is not read.
static bool top_k_uses_input(const carnot_step_view* step, uint32_t input) {
  (void)step;
  return input == 0;
}

typedef struct top_k_state {
  carnot_top_k_f32 arg;  // all but addresses
  int64_t lanes, per_part, work_bytes;
} top_k_state;

// The step's output that is the node's |which|-th; NULL where nothing uses it.
static const carnot_operand* output_of(const carnot_step_view* step, const carnot_operand* outputs,
                                       uint32_t which) {
  uint32_t k = carnot_step_output(step, &step->region->nodes[0], which);
  return k == CARNOT_PLAN_NONE ? NULL : &outputs[k];
}

static carnot_status* top_k_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* memory,
                                      size_t* out_workspace_bytes) {
  top_k_state* s = memory;
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_TOP_K);
  const carnot_operand* x = &inputs[0];
  int axis;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32, INVALID_MODEL, "the input is %s",
               carnot_dtype_name(x->format.dtype));
  CARNOT_TRY(carnot_axis(carnot_attr_int(row, &node->attrs, "axis"), x->rank, "axis", &axis));
  int64_t n = x->dims[axis], inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1),
          outer = carnot_dims_count(x->dims, axis), k = outputs[0].dims[axis];
  CARNOT_CHECK(k > 0 && k <= n && n <= UINT32_MAX, INVALID_ARGUMENT,
               "k is %lld; dimension %d has %lld elements", (long long)k, axis, (long long)n);
  for (uint32_t which = 0; which < 2; which++) {
    const carnot_operand* y = output_of(step, outputs, which);
    bool fits = !y || (y->format.dtype == (which ? CARNOT_DTYPE_I64 : CARNOT_DTYPE_F32) &&
                       carnot_dims_count(y->dims, y->rank) == outer * k * inner);
    CARNOT_CHECK(fits, INVALID_MODEL, "result %u has another size or type", which);
  }
  s->arg = (carnot_top_k_f32){.n = n,
                              .k = k,
                              .inner = inner,
                              .largest = carnot_attr_int(row, &node->attrs, "largest") != 0};
  s->lanes = outer * inner;
  s->per_part = carnot_rows_per_part(s->lanes, n);
  s->work_bytes = carnot_align_up(carnot_top_k_f32_workspace(n, k), 64);
  *out_workspace_bytes = (size_t)(carnot_ceildiv(s->lanes, s->per_part) * s->work_bytes);
  return NULL;
}

typedef struct top_k_run {
  const carnot_cpu_kernels* kernels;
  const top_k_state* s;
  carnot_top_k_f32 arg;
  char* work;
} top_k_run;

static void top_k_part(void* argument, int64_t part) {
  const top_k_run* run = argument;
  int64_t first = part * run->s->per_part;
  run->kernels->top_k_f32(&run->arg, first, carnot_min_i64(first + run->s->per_part, run->s->lanes),
                          run->work + part * run->s->work_bytes);
}

static carnot_status* top_k_run_all(const carnot_step_view* step, void* memory,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  const top_k_state* s = memory;
  const carnot_operand *values = output_of(step, outputs, 0), *index = output_of(step, outputs, 1);
  top_k_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                   .s = s,
                   .arg = s->arg,
                   .work = workspace};
  run.arg.src = inputs[0].data;
  run.arg.values = values ? values->data : NULL;
  run.arg.index = index ? index->data : NULL;
  carnot_executor_parallel(executor, carnot_ceildiv(s->lanes, s->per_part), top_k_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(top_k_f32, .anchor = CARNOT_OP_TOP_K, .reject = top_k_reject,
                   .validate = top_k_validate, .uses_input = top_k_uses_input,
                   .configure = top_k_configure, .run = top_k_run_all);
