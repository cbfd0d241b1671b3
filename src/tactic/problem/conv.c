// Reads convolution problems: operands by operator, sizes and window from the weights.
#include "tactic/problem/conv.h"

#include <stdio.h>

// Positions of the operands among the operator's inputs.
typedef struct operand_positions {
  carnot_op op;
  uint32_t weights, bias;
} operand_positions;

static const operand_positions* positions_of(carnot_op op) {
  static const operand_positions kPositions[] = {
      {CARNOT_OP_CONV, 1, 2}, {CARNOT_OP_CONV_TRANSPOSE, 1, 2}, {CARNOT_OP_QLINEAR_CONV, 3, 8}};
  for (size_t i = 0; i < sizeof(kPositions) / sizeof(kPositions[0]); i++)
    if (kPositions[i].op == op) return &kPositions[i];
  return NULL;
}

carnot_type carnot_conv_weights_type(int rank, const int64_t* dims) {
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .rank = rank};
  for (int d = 0; d < rank; d++) type.dims[d] = carnot_sym_of(dims[d]);
  return type;
}

static int64_t group_of(const carnot_plan_node* node) {
  return carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group");
}

const char* carnot_conv_problem_of_region(const carnot_region* region, uint32_t input_count,
                                          carnot_conv_problem* out) {
  const carnot_plan_node* node = carnot_conv_node(region);
  *out = (carnot_conv_problem){.node = node,
                               .anchor = carnot_conv_anchor(region),
                               .casts = carnot_conv_anchor(region) == 1,
                               .weights = CARNOT_PLAN_NONE,
                               .bias = CARNOT_PLAN_NONE,
                               .channels = -1,
                               .filters = -1};
  const operand_positions* at = positions_of(node->op);
  if (!at) return "";
  uint32_t x = out->casts ? region->nodes[0].inputs[0] : node->inputs[0];
  if (x != 0 || (out->casts && node->inputs[0] != region->nodes[0].outputs[0]))
    return "the convolution does not read input 0";
  if (node->input_count > at->weights) out->weights = node->inputs[at->weights];
  if (out->weights >= input_count) return "the weights are no input of the step";
  if (node->input_count > at->bias) out->bias = node->inputs[at->bias];
  if (out->bias != CARNOT_PLAN_NONE && out->bias >= input_count)
    return "the bias is no input of the step";
  out->group = group_of(node);
  return NULL;
}

const char* carnot_conv_problem_read(const carnot_problem* problem, carnot_conv_problem* out,
                                     char* reason, size_t size) {
  const char* why = carnot_conv_problem_of_region(problem->region, problem->input_count, out);
  if (why) return why;
  return carnot_conv_problem_sizes(&problem->inputs[0], &problem->inputs[out->weights], out, reason,
                                   size);
}

const char* carnot_conv_problem_sizes(const carnot_operand_desc* x, const carnot_operand_desc* w,
                                      carnot_conv_problem* out, char* reason, size_t size) {
  out->channels = out->filters = -1;
  out->group = group_of(out->node);
  if (w->rank < 2 || !carnot_has_fixed_dims(w)) return NULL;
  if (w->rank != x->rank) {
    snprintf(reason, size, "an input of rank %d, weights of rank %d", x->rank, w->rank);
    return reason;
  }
  bool transposed = out->node->op == CARNOT_OP_CONV_TRANSPOSE;
  out->channels = transposed ? w->dims[0] : w->dims[1] * out->group;
  out->filters = transposed ? w->dims[1] * out->group : w->dims[0];
  if (x->dims[1] >= 0 && x->dims[1] != out->channels) {
    snprintf(reason, size, "the input has %lld channels, the weights are for %lld",
             (long long)x->dims[1], (long long)out->channels);
    return reason;
  }
  const carnot_type type = carnot_conv_weights_type(w->rank, w->dims);
  carnot_status* status = carnot_sliding_window_read(
      carnot_op_get(out->node->op), &out->node->attrs, x->rank - 2, &type, &out->window);
  if (!status) return NULL;
  snprintf(reason, size, "%s", carnot_status_message(status));
  carnot_status_free(status);
  return reason;
}

const char* carnot_conv_problem_match(const carnot_problem* problem,
                                      const carnot_epilogue_mask* mask, carnot_conv_problem* conv) {
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  const carnot_operand_desc* y = &problem->outputs[0];
  if (y->rank < 3) return "the result has no spatial dimensions";
  const char* why =
      carnot_epilogue_facts_of_problem(problem, y->format.dtype, y->rank - 1, y->dims[1], facts);
  if (why) return why;
  carnot_epilogue_match(problem->region, conv->anchor, conv->bias, facts, problem->input_count,
                        mask, &conv->epilogue);
  return NULL;
}

carnot_status* carnot_conv_problem_match_operands(const carnot_step_view* step,
                                                  const carnot_operand* inputs,
                                                  const carnot_operand* y,
                                                  const carnot_epilogue_mask* mask,
                                                  carnot_conv_problem* conv) {
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  CARNOT_CHECK(y->rank >= 2, INVALID_MODEL, "a convolution whose result has rank %d", y->rank);
  CARNOT_TRY(carnot_epilogue_facts_of_operands(inputs, step->input_count, y, y->rank - 1,
                                               y->dims[1], facts));
  carnot_epilogue_match(step->region, conv->anchor, conv->bias, facts, step->input_count, mask,
                        &conv->epilogue);
  return NULL;
}
