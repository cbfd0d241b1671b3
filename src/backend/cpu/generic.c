// The two rows that every region may fall back on: nothing to do, and the reference kernels.
#include <stdio.h>

#include "backend/tactic.h"

// ---- view: the output is the input's elements under other dimensions ----

static const char* view_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count != 1) return "a region of several operators is no view";
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_RESHAPE && op != CARNOT_OP_SQUEEZE && op != CARNOT_OP_UNSQUEEZE &&
      op != CARNOT_OP_IDENTITY) {
    snprintf(reason, size, "%s moves or computes elements", carnot_op_get(op)->name);
    return reason;
  }
  if (problem->inputs[0].kind != CARNOT_VALUE_TENSOR) return "the input is no tensor";
  problem->inputs[0].layout = problem->outputs[0].layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].place = problem->inputs[0].place;
  return NULL;
}

static carnot_status* view_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)step, (void)state, (void)workspace, (void)executor;
  CARNOT_CHECK(inputs[0].data == outputs[0].data, INVALID_MODEL, "a view has storage of its own");
  return NULL;
}

const carnot_tactic_row carnot_tactic_view = {.name = CARNOT_VIEW_TACTIC,
                                              .crosses = true,
                                              .anchor = CARNOT_OP_COUNT,
                                              .isa = CARNOT_ISA_SCALAR,
                                              .numerics = "exact",
                                              .reject = view_reject,
                                              .run = view_run};

// ---- reference: run by the runtime itself, which has the store ----

static const char* reference_reject(carnot_problem* problem, char* reason, size_t size) {
  (void)reason, (void)size;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

const carnot_tactic_row carnot_tactic_reference = {.name = CARNOT_REFERENCE_TACTIC,
                                                   .anchor = CARNOT_OP_COUNT,
                                                   .isa = CARNOT_ISA_SCALAR,
                                                   .numerics = "exact",
                                                   .reject = reference_reject};
