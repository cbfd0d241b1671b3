// Splits a squeeze-and-excitation block into the problems of its three convolutions.
#include "tactic/problem/squeeze_excite.h"

// The mean of input 0 over rows and columns, which stay as dimensions of 1.
static bool is_spatial_mean(const carnot_problem* problem, const carnot_plan_node* node) {
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_REDUCE);
  if (node->op != CARNOT_OP_REDUCE || node->input_count != 2 || node->inputs[0] != 0 ||
      node->inputs[1] >= problem->input_count || problem->inputs[0].rank != 4 ||
      !carnot_attr_is(row, &node->attrs, "fn", "mean") ||
      !carnot_attr_int(row, &node->attrs, "keepdims"))
    return false;
  const carnot_operand_desc* axes = &problem->inputs[node->inputs[1]];
  uint32_t found = 0;
  if (!carnot_is_known(axes) || carnot_tensor_count(axes->tensor) != 2) return false;
  for (size_t i = 0; i < 2; i++) {
    const int64_t axis = carnot_load_i64(axes->tensor->dtype, axes->tensor->data, i);
    found |= axis >= -4 && axis < 4 ? 1u << (axis & 3) : 0;
  }
  return found == (1u << 2 | 1u << 3);
}

static bool is_product(const carnot_plan_node* node, uint32_t a, uint32_t b) {
  return node->op == CARNOT_OP_BINARY &&
         carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn") == CARNOT_FN_MUL &&
         ((node->inputs[0] == a && node->inputs[1] == b) ||
          (node->inputs[0] == b && node->inputs[1] == a));
}

const char* carnot_squeeze_excite_read(const carnot_problem* problem, carnot_arena* arena,
                                       carnot_squeeze_excite* out) {
  const carnot_region* region = problem->region;
  const carnot_plan_node* nodes = region->nodes;
  uint32_t begin[CARNOT_SQUEEZE_EXCITE_STAGES + 1], count = 0;
  for (uint32_t n = 0; n < region->node_count; n++) {
    if (nodes[n].op != CARNOT_OP_CONV) continue;
    if (count == CARNOT_SQUEEZE_EXCITE_STAGES) return "more than three convolutions";
    begin[count++] = n;
  }
  if (nodes[0].op != CARNOT_OP_REDUCE || !count) return "";
  if (count != CARNOT_SQUEEZE_EXCITE_STAGES || begin[0] != 1 || begin[2] < begin[1] + 2)
    return "not a mean, two convolutions, a product and one convolution";
  if (!is_spatial_mean(problem, &nodes[0])) return "not the mean over rows and columns";
  if (problem->output_count != 1 || region->outputs[0] != region->value_count - 1)
    return "an inner value is read outside the region";
  const uint32_t product = begin[2] - 1;
  if (!is_product(&nodes[product], 0, nodes[product - 1].outputs[0]))
    return "the input is not multiplied with the gate";
  out->axes = nodes[0].inputs[1];
  begin[3] = region->node_count;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t end = i == CARNOT_EXCITE ? product : begin[i + 1];
    const char* why = carnot_conv_stage_read(problem, arena, begin[i], end,
                                             nodes[begin[i] - 1].outputs[0], &out->stages[i]);
    if (why) return why;
  }
  return arena->failed ? CARNOT_REJECT_NO_MEMORY : NULL;
}
