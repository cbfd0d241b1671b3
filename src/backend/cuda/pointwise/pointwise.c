// Element-wise functions and chains of them as one generated program (chain.h).
#include <stdlib.h>

#include "backend/cuda/pointwise/chain_source.h"

static const char* pointwise_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_region* region = problem->region;
  if (!carnot_cuda_is_pointwise(region->nodes[0].op)) return "";
  carnot_cuda_chain chain;
  const char* why = carnot_cuda_chain_make(region, problem->input_count, 0, CARNOT_PLAN_NONE,
                                           &chain, reason, size);
  if (why) return why;
  const carnot_operand_desc* out = &problem->outputs[0];
  if (out->rank < 0 || out->rank > CARNOT_CUDA_CHAIN_RANK)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes up to %d", out->rank,
                                     CARNOT_CUDA_CHAIN_RANK);
  char* text = calloc(1, CARNOT_CUDA_CHAIN_SOURCE_BYTES);
  if (!text) return "no memory";
  why = carnot_cuda_chain_problem_source(problem, &chain, CARNOT_DTYPE_INVALID, text);
  free(text);
  // The result has the layout of the first operand of its shape; all operands are read with
  // their strides.
  carnot_layout layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    bool whole = !t->is_constant && t->rank == out->rank;
    for (int d = 0; whole && d < t->rank; d++) whole = t->dims[d] == out->dims[d];
    if (whole) layout = t->format.layout;
    if (whole) break;
  }
  for (uint32_t i = 0; i < problem->output_count; i++) problem->outputs[i].format.layout = layout;
  return why;
}

static carnot_status* pointwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_chain chain;
  char reason[256];
  const char* why = carnot_cuda_chain_make(problem->region, problem->input_count, 0,
                                           CARNOT_PLAN_NONE, &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  return carnot_cuda_chain_prepare(problem, &chain, CARNOT_DTYPE_INVALID, out);
}

static carnot_status* pointwise_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  _Static_assert(sizeof(carnot_cuda_chain_state) <= CARNOT_STATE_BYTES, "the state has its size");
  *out_workspace_bytes = 0;
  carnot_cuda_chain chain;
  char reason[256];
  const char* why = carnot_cuda_chain_make(step->region, step->input_count, 0, CARNOT_PLAN_NONE,
                                           &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return carnot_cuda_chain_shape(step, &chain, inputs, outputs, state);
}

static carnot_status* pointwise_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  return carnot_cuda_chain_run(step, state, inputs, outputs);
}

const carnot_tactic carnot_cuda_pointwise = {.name = "cuda_pointwise",
                                             .anchor = CARNOT_OP_COUNT,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .device = true,
                                             .strided_outputs = true,
                                             .pitched_inputs = ~(uint64_t)0,
                                             .output_layout_agnostic = true,
                                             .reject = pointwise_reject,
                                             .prepare = pointwise_prepare,
                                             .configure = pointwise_shape,
                                             .run = pointwise_run};
