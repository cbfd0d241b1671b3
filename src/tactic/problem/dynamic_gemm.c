// Reads GEMMs and convolutions whose activations are quantized in the run.
#include "tactic/problem/dynamic_gemm.h"

static const carnot_plan_node* node_of(const carnot_region* region, carnot_op op) {
  for (uint32_t n = 0; n < region->node_count; n++)
    if (region->nodes[n].op == op) return &region->nodes[n];
  return NULL;
}

// The function |fn| of two operands with |local| among them; *out_other is the other one.
static const carnot_plan_node* reader_of(const carnot_region* region, uint32_t local, carnot_fn fn,
                                         uint32_t* out_other) {
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    if (node->op != CARNOT_OP_BINARY ||
        carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn") != fn)
      continue;
    for (int i = 0; i < 2; i++)
      if (node->inputs[i] == local) return *out_other = node->inputs[1 - i], node;
  }
  return NULL;
}

static const carnot_plan_node* producer_of(const carnot_region* region, uint32_t local) {
  for (uint32_t n = 0; n < region->node_count; n++)
    for (uint32_t i = 0; i < region->nodes[n].output_count; i++)
      if (region->nodes[n].outputs[i] == local) return &region->nodes[n];
  return NULL;
}

static uint32_t operand(const carnot_plan_node* node, uint32_t i) {
  return i < node->input_count ? node->inputs[i] : CARNOT_PLAN_NONE;
}

// The columns or output channels of the result, along |axis| from the end.
typedef struct channels {
  int64_t count;
  int axis;
} channels;

// One known number, or one a channel.
static bool is_known_row(const carnot_problem* problem, uint32_t input, channels c) {
  if (input >= problem->input_count || !carnot_is_f32_constant(&problem->inputs[input]))
    return false;
  const carnot_tensor* t = problem->inputs[input].tensor;
  const int64_t count = carnot_tensor_count(t);
  return count == 1 ||
         (count == c.count && t->rank >= c.axis && t->dims[t->rank - c.axis] == count);
}

// x_scale * w_scale.
static const char* read_scales(const carnot_problem* problem, uint32_t local, channels columns,
                               const carnot_plan_node* quantize, carnot_dynamic_gemm* out) {
  const carnot_region* r = problem->region;
  const carnot_plan_node* node = producer_of(r, local);
  if (!node || node->op != CARNOT_OP_BINARY ||
      carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn") != CARNOT_FN_MUL)
    return "the sums are not multiplied by a product of two scales";
  const int known = is_known_row(problem, node->inputs[1], columns) ? 1 : 0;
  const uint32_t x_scale = node->inputs[1 - known];
  out->w_scale = node->inputs[known];
  if (!is_known_row(problem, out->w_scale, columns))
    return "the weights' scale is not known, one or one a column";
  if (quantize) return x_scale == quantize->outputs[1] ? NULL : "another scale than the operand's";
  out->x_scale = x_scale;
  const carnot_operand_desc* t = x_scale < problem->input_count ? &problem->inputs[x_scale] : NULL;
  return t && t->kind == CARNOT_VALUE_TENSOR && t->format.dtype == CARNOT_DTYPE_F32 && t->rank == 0
             ? NULL
             : "the operand's scale is not one float32 number";
}

// The outputs of the region are |y|, where it is read, and the results of |quantize|, if any.
static const char* read_outputs(const carnot_region* r, uint32_t y,
                                const carnot_plan_node* quantize, carnot_dynamic_gemm* out) {
  out->writes_y = r->output_count && r->outputs[0] == y;
  out->quantizes_y = quantize != NULL;
  uint32_t count = out->writes_y;
  for (uint32_t i = 0; quantize && i < quantize->output_count; i++, count++)
    if (count >= r->output_count || r->outputs[count] != quantize->outputs[i])
      return "not all results of the quantization are wanted";
  return count && count == r->output_count ? NULL : "an inner value is read outside the region";
}

// What follows node |scaled|, the last one before bias, residual, activation and quantization.
static const char* read_end(const carnot_problem* problem, uint32_t scaled, channels columns,
                            carnot_dynamic_gemm* out) {
  const carnot_region* r = problem->region;
  const carnot_epilogue_mask mask = {.biases = CARNOT_EPILOGUE_ONE_BIAS,
                                     .residual = true,
                                     .activations = (1u << CARNOT_FUSED_COUNT) - 1};
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  carnot_epilogue end;
  const char* why = carnot_epilogue_facts_of_problem(problem, CARNOT_DTYPE_F32, columns.axis,
                                                     columns.count, facts);
  if (why) return why;
  carnot_epilogue_match(r, scaled, CARNOT_PLAN_NONE, facts, problem->input_count, &mask, &end);
  out->bias = carnot_epilogue_bias(&end);
  out->residual = end.residual;
  out->activation = end.activation;
  const carnot_plan_node* quantize = end.rest < r->node_count ? &r->nodes[end.rest] : NULL;
  if (quantize &&
      (quantize->op != CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR || quantize->inputs[0] != end.acc ||
       quantize->output_count != 3 || end.rest + 1 != r->node_count))
    return "the region holds other operators";
  return read_outputs(r, end.acc, quantize, out);
}

// The node that quantizes the activations of |gemm| in the region; NULL: none.
static const carnot_plan_node* quantize_of(const carnot_region* region,
                                           const carnot_plan_node* gemm) {
  const carnot_plan_node* node = gemm ? producer_of(region, gemm->inputs[0]) : NULL;
  return node && node->op == CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR ? node : NULL;
}

const char* carnot_dynamic_gemm_read(const carnot_problem* problem, carnot_op op,
                                     carnot_dynamic_gemm* out) {
  const carnot_region* r = problem->region;
  const carnot_plan_node *gemm = node_of(r, op), *cast = node_of(r, CARNOT_OP_CAST),
                         *quantize = quantize_of(r, gemm);
  const uint32_t none = CARNOT_PLAN_NONE;
  *out = (carnot_dynamic_gemm){.quantizes = quantize != NULL,
                               .x = none,
                               .x_scale = none,
                               .x_zero = none,
                               .weights = none,
                               .w_zero = none,
                               .w_scale = none,
                               .bias = none,
                               .residual = none};
  if (!gemm || !cast || r->node_count < 4) return "";
  const carnot_op_row* row = carnot_op_get(cast->op);
  if (cast->inputs[0] != gemm->outputs[0] ||
      carnot_attr_int(row, &cast->attrs, "to") != CARNOT_DTYPE_F32)
    return "the sums do not become float32";
  out->x = quantize ? quantize->inputs[0] : gemm->inputs[0];
  out->weights = operand(gemm, 1);
  out->x_zero = quantize ? none : operand(gemm, 2);
  out->w_zero = operand(gemm, 3);
  if (quantize && (quantize->output_count != 3 || gemm->inputs[0] != quantize->outputs[0] ||
                   operand(gemm, 2) != quantize->outputs[2]))
    return "the operand is not the one that is quantized";
  if (out->x >= problem->input_count || out->weights >= problem->input_count ||
      (out->x_zero != none && out->x_zero >= problem->input_count) ||
      (out->w_zero != none && out->w_zero >= problem->input_count))
    return "an operand is no input of the step";
  const carnot_operand_desc* w = &problem->inputs[out->weights];
  const bool is_conv = op == CARNOT_OP_CONV_INTEGER;
  if (is_conv ? w->rank < 3 : w->rank != 2) return "the weights are no matrix and no filters";
  const channels columns = {w->dims[is_conv ? 0 : 1], is_conv ? w->rank - 1 : 1};
  uint32_t scales;
  const carnot_plan_node* scaled = reader_of(r, cast->outputs[0], CARNOT_FN_MUL, &scales);
  const uint32_t at = scaled ? (uint32_t)(scaled - r->nodes) : 0;
  if (!scaled) return "the sums are not scaled";
  if (at != 3 + (quantize != NULL)) return "the region holds other operators";
  const char* why = read_scales(problem, scales, columns, quantize, out);
  return why ? why : read_end(problem, at, columns, out);
}
