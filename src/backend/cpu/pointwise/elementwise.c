// One element-wise function on integers, float64 or truth values, over any broadcasting.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/pointwise/nest.h"

static bool is_elementwise(carnot_op op) {
  return op == CARNOT_OP_UNARY || op == CARNOT_OP_BINARY || op == CARNOT_OP_TERNARY;
}
static carnot_fn fn_of(const carnot_plan_node* node) {
  return (carnot_fn)carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn");
}
// The first operand that has the type which the function works on.
static uint32_t leader_of(carnot_fn fn) { return fn == CARNOT_FN_SELECT ? 1 : 0; }

static bool has_loop(carnot_fn fn, carnot_element_type type) {
  if (type == CARNOT_ELEMENT_TYPE_COUNT) return false;
  const carnot_elementwise call = {.fn = (carnot_pw_fn)fn, .type = type};
  return carnot_cpu_kernels_of(CARNOT_ISA_SCALAR)->elementwise(&call, 0, 0, 0);
}

static const char* elementwise_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (problem->region->node_count != 1 || !is_elementwise(node->op)) return "";
  const carnot_fn fn = fn_of(node);
  if ((int)node->input_count != carnot_fn_get(fn)->arity) return "an operand is absent";
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] != i) return "an operand is absent, or is read twice";
    if (problem->inputs[i].kind != CARNOT_VALUE_TENSOR || problem->inputs[i].rank < 0)
      return "an operand has no known rank";
  }
  const carnot_dtype dtype = problem->inputs[leader_of(fn)].format.dtype;
  if (!has_loop(fn, carnot_cpu_element_type(dtype)))
    return carnot_because(reason, size, "no loop for %s of %s", carnot_fn_get(fn)->name,
                          carnot_dtype_name(dtype));
  carnot_pw_choose_layout(problem);
  return NULL;
}

static carnot_status* elementwise_validate(const carnot_step_view* step) {
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(step->region->node_count == 1 && is_elementwise(node->op) &&
                   step->param_bytes == 0 && step->constant_count == 0 && step->output_count == 1,
               INVALID_MODEL, "the step holds no element-wise function");
  const carnot_fn fn = fn_of(node);
  CARNOT_CHECK(fn >= 0 && fn < CARNOT_FN_COUNT && node->input_count == step->input_count &&
                   (int)node->input_count == carnot_fn_get(fn)->arity,
               INVALID_MODEL, "function %d of %u operands", (int)fn, node->input_count);
  for (uint32_t i = 0; i < node->input_count; i++)
    CARNOT_CHECK(node->inputs[i] == i, INVALID_MODEL, "operand %u is input %u", i, node->inputs[i]);
  return NULL;
}

_Static_assert(sizeof(carnot_pw_nest) <= CARNOT_STATE_BYTES, "state is too large");

static carnot_status* elementwise_configure(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* memory,
                                            size_t* out_workspace_bytes) {
  const carnot_fn fn = fn_of(&step->region->nodes[0]);
  const carnot_fn_fact* fact = carnot_fn_get(fn);
  const carnot_dtype dtype = inputs[leader_of(fn)].format.dtype;
  const carnot_operand* operands[3] = {NULL};
  *out_workspace_bytes = 0;
  CARNOT_CHECK(has_loop(fn, carnot_cpu_element_type(dtype)) &&
                   outputs[0].format.dtype == (fact->to_bool ? CARNOT_DTYPE_BOOL : dtype),
               INVALID_MODEL, "%s of %s gives %s", fact->name, carnot_dtype_name(dtype),
               carnot_dtype_name(outputs[0].format.dtype));
  for (uint32_t i = 0; i < step->input_count; i++) {
    const carnot_dtype wanted = i < leader_of(fn) ? CARNOT_DTYPE_BOOL : dtype;
    CARNOT_CHECK(inputs[i].format.dtype == wanted, INVALID_MODEL, "operand %u is %s, must be %s", i,
                 carnot_dtype_name(inputs[i].format.dtype), carnot_dtype_name(wanted));
    operands[i] = &inputs[i];
  }
  return carnot_pw_nest_make(memory, (int)step->input_count, operands, &outputs[0], /*cost=*/1);
}

typedef struct elementwise_run {
  carnot_elementwise_fn* kernel;
  carnot_elementwise call;  // all but operands
  const carnot_pw_nest* nest;
  const carnot_operand *inputs, *output;
} elementwise_run;

static void elementwise_part(void* argument, int64_t part) {
  const elementwise_run* run = argument;
  carnot_elementwise call = run->call;
  carnot_pw_block block;
  carnot_pw_nest_part(run->nest, part, &block);
  for (int i = 0; i < call.arity; i++)
    call.in[i] = carnot_pw_nest_in(run->nest, &block, i, &run->inputs[i]);
  call.out = carnot_pw_nest_out(run->nest, &block, run->output);
  run->kernel(&call, block.row0, block.row1, block.n);
}

static carnot_status* elementwise_run_all(const carnot_step_view* step, void* state,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* workspace,
                                          carnot_executor* executor) {
  (void)workspace;
  const carnot_fn fn = fn_of(&step->region->nodes[0]);
  elementwise_run run = {
      .kernel = carnot_cpu_kernels_of(step->tactic->isa)->elementwise,
      .call = {.fn = (carnot_pw_fn)fn,
               .type = carnot_cpu_element_type(inputs[leader_of(fn)].format.dtype),
               .arity = (int)step->input_count},
      .nest = state,
      .inputs = inputs,
      .output = &outputs[0]};
  carnot_executor_parallel(executor, carnot_pw_nest_parts(run.nest), elementwise_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(elementwise, .anchor = CARNOT_OP_COUNT, .strided_outputs = true,
                   .reject = elementwise_reject, .validate = elementwise_validate,
                   .configure = elementwise_configure, .run = elementwise_run_all);
