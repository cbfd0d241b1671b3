// Reads regions of one float operator between a dequantize and a quantize node.
#include "tactic/problem/quantized_ends.h"

bool carnot_is_plain_conversion(const carnot_plan_node* node) {
  if (node->op != CARNOT_OP_QUANTIZE_LINEAR && node->op != CARNOT_OP_DEQUANTIZE_LINEAR)
    return false;
  const carnot_op_row* row = carnot_op_get(node->op);
  const int64_t precision = carnot_attr_int(row, &node->attrs, "precision");
  return carnot_attr_int(row, &node->attrs, "block_size") == 0 &&
         (precision == 0 || precision == CARNOT_DTYPE_F32);
}

bool carnot_quantized_end_read(const carnot_plan_node* node, uint32_t input_count,
                               carnot_quantized_end* out) {
  const uint32_t zero = node->input_count > 2 ? node->inputs[2] : CARNOT_PLAN_NONE;
  if (!carnot_is_plain_conversion(node) || node->inputs[1] >= input_count ||
      (zero != CARNOT_PLAN_NONE && zero >= input_count))
    return false;
  *out = (carnot_quantized_end){node->inputs[1], zero};
  return true;
}

bool carnot_is_same_number(const carnot_problem* problem, uint32_t a, uint32_t b) {
  if (a == b) return true;
  if (a >= problem->input_count || b >= problem->input_count) return false;
  const carnot_operand_desc *x = &problem->inputs[a], *y = &problem->inputs[b];
  return carnot_is_known(x) && carnot_is_known(y) && x->format.dtype == y->format.dtype &&
         carnot_tensor_count(x->tensor) == 1 && carnot_tensor_count(y->tensor) == 1 &&
         carnot_load_f64(x->format.dtype, x->tensor->data, 0) ==
             carnot_load_f64(y->format.dtype, y->tensor->data, 0);
}

// Finds the outputs of a region whose last node |tail| quantizes. False when others are read.
static bool read_outputs(const carnot_region* region, const carnot_plan_node* tail,
                         carnot_quantized_ends* out) {
  if (region->output_count < 1 || region->output_count > 2 ||
      tail->outputs[0] != region->value_count - 1)
    return false;
  out->y_output = region->outputs[0] == tail->outputs[0] ? 0 : region->output_count - 1;
  if (region->outputs[out->y_output] != tail->outputs[0]) return false;
  if (region->output_count == 1) return true;
  out->float_output = 1 - out->y_output;
  return region->outputs[out->float_output] == tail->inputs[0];
}

bool carnot_quantized_ends_strip(const carnot_region* region, uint32_t input_count,
                                 carnot_region* core, carnot_quantized_ends* out) {
  const carnot_quantized_end floats = {CARNOT_PLAN_NONE, CARNOT_PLAN_NONE};
  const carnot_plan_node *head = &region->nodes[0], *tail = &region->nodes[region->node_count - 1];
  *core = *region;
  *out = (carnot_quantized_ends){
      .input = CARNOT_PLAN_NONE, .x = floats, .y = floats, .float_output = CARNOT_PLAN_NONE};
  if (core->node_count > 1 && head->op == CARNOT_OP_DEQUANTIZE_LINEAR) {
    if (!carnot_quantized_end_read(head, input_count, &out->x)) return false;
    core->nodes++, core->node_count--;
  }
  if (core->node_count > 1 && tail->op == CARNOT_OP_QUANTIZE_LINEAR) {
    if (!carnot_quantized_end_read(tail, input_count, &out->y) || !read_outputs(region, tail, out))
      return false;
    core->output_count = 1;
    core->node_count--, core->value_count--;
    core->outputs = tail->inputs;
  }
  const carnot_plan_node *node = out->node = &core->nodes[0],
                         *last = &core->nodes[core->node_count - 1];
  if (!node->input_count || core->outputs[0] != last->outputs[0] ||
      (carnot_is_end_bytes(&out->x) && node->inputs[0] != head->outputs[0]))
    return false;
  const uint32_t input = carnot_is_end_bytes(&out->x) ? head->inputs[0] : node->inputs[0];
  if (input < input_count) out->input = input;
  return true;
}

bool carnot_quantized_ends_read(const carnot_region* region, uint32_t input_count,
                                carnot_quantized_ends* out) {
  carnot_region core;
  return carnot_quantized_ends_strip(region, input_count, &core, out) && core.node_count == 1 &&
         core.output_count == out->node->output_count;
}

static bool is_one(const carnot_operand_desc* t, carnot_dtype dtype) {
  return t->kind == CARNOT_VALUE_TENSOR && t->format.dtype == dtype &&
         (t->rank == 0 || (t->rank == 1 && t->dims[0] == 1));
}

static const char* check_end(const carnot_problem* problem, const carnot_quantized_end* end,
                             const carnot_operand_desc* value) {
  if (!carnot_is_end_bytes(end))
    return carnot_is_f32_value(problem, value) ? NULL : "an operand is not float32";
  if (!carnot_is_8bit(value->format.dtype)) return "the bytes are not int8 or uint8";
  if (!is_one(&problem->inputs[end->scale], CARNOT_DTYPE_F32)) return "a scale is not one float32";
  if (end->zero != CARNOT_PLAN_NONE && !is_one(&problem->inputs[end->zero], value->format.dtype))
    return "a zero point is not one number of the stored type";
  return NULL;
}

const char* carnot_quantized_ends_check(const carnot_problem* problem,
                                        const carnot_quantized_ends* ends) {
  if (ends->input == CARNOT_PLAN_NONE) return "the operand is no input of the step";
  const char* why = check_end(problem, &ends->x, &problem->inputs[ends->input]);
  return why ? why : check_end(problem, &ends->y, &problem->outputs[ends->y_output]);
}
