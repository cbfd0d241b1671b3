// Reads quantized regions: which inputs of the step hold operands, scales and zero points, and what
// follows the anchor.
#include "tactic/problem/quantized.h"

#include <stdio.h>

#include "tactic/problem/quantized_ends.h"

static const carnot_plan_node* node_making(const carnot_region* region, uint32_t local) {
  for (uint32_t n = 0; n < region->node_count; n++)
    for (uint32_t i = 0; i < region->nodes[n].output_count; i++)
      if (region->nodes[n].outputs[i] == local) return &region->nodes[n];
  return NULL;
}

static uint32_t input_of(const carnot_plan_node* node, uint32_t i) {
  return i < node->input_count ? node->inputs[i] : CARNOT_PLAN_NONE;
}

// The node that dequantizes local value |local|, behind it or behind a cast of it; NULL: none.
static const carnot_plan_node* dequantize_making(const carnot_region* region, uint32_t local) {
  const carnot_plan_node* node = node_making(region, local);
  if (node && node->op == CARNOT_OP_CAST) node = node_making(region, node->inputs[0]);
  return node && node->op == CARNOT_OP_DEQUANTIZE_LINEAR ? node : NULL;
}

static carnot_quantized_operand operand_of(const carnot_region* region, uint32_t local,
                                           uint32_t input_count) {
  carnot_quantized_operand out = {CARNOT_PLAN_NONE, CARNOT_PLAN_NONE, CARNOT_PLAN_NONE};
  if (local < input_count) out.value = local;
  const carnot_plan_node* node = local < input_count ? NULL : dequantize_making(region, local);
  if (!node || !carnot_is_plain_conversion(node)) return out;
  const uint32_t zero = input_of(node, 2);
  if (input_of(node, 0) >= input_count || input_of(node, 1) >= input_count ||
      (zero != CARNOT_PLAN_NONE && zero >= input_count))
    return out;
  return (carnot_quantized_operand){node->inputs[0], node->inputs[1], zero};
}

carnot_quantized_operand carnot_quantized_operand_of(const carnot_region* region, uint32_t anchor,
                                                     uint32_t input, uint32_t input_count) {
  return operand_of(region, input_of(&region->nodes[anchor], input), input_count);
}

const carnot_plan_node* carnot_quantized_dequantize(const carnot_region* region, uint32_t anchor,
                                                    uint32_t input) {
  return dequantize_making(region, input_of(&region->nodes[anchor], input));
}

const carnot_plan_node* carnot_quantized_anchor(const carnot_region* region, uint32_t* out_index) {
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    if (node->op != CARNOT_OP_CONV && node->op != CARNOT_OP_CONV_TRANSPOSE &&
        node->op != CARNOT_OP_MATMUL && node->op != CARNOT_OP_GEMM)
      continue;
    *out_index = n;
    return dequantize_making(region, node->inputs[0]) ? node : NULL;
  }
  return NULL;
}

// ---- the epilogue ----

typedef struct reader {
  const carnot_problem* problem;
  const carnot_region* region;
  carnot_quantized_region* out;
  const carnot_operand_facts* facts;
  uint32_t acc;  // local value: the result so far
  bool is_done;  // it is quantized
} reader;

// The only node that reads the result so far.
static const carnot_plan_node* next_node(const reader* r) {
  const carnot_plan_node* found = NULL;
  for (uint32_t n = r->out->anchor + 1; n < r->region->node_count; n++)
    for (uint32_t i = 0; i < r->region->nodes[n].input_count; i++)
      if (r->region->nodes[n].inputs[i] == r->acc) found = &r->region->nodes[n];
  return found;
}

static carnot_fn fn_of(const carnot_plan_node* node) {
  if (node->op != CARNOT_OP_UNARY && node->op != CARNOT_OP_BINARY) return CARNOT_FN_COUNT;
  return (carnot_fn)carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn");
}

// A constant of one number a channel, or what is as large as the result.
static bool take_addition(reader* r, const carnot_plan_node* node) {
  if (fn_of(node) != CARNOT_FN_ADD || node->inputs[0] == node->inputs[1]) return false;
  const uint32_t other = node->inputs[0] == r->acc ? node->inputs[1] : node->inputs[0];
  const uint32_t input_count = r->problem->input_count;
  const bool has_residual = r->out->residual.value != CARNOT_PLAN_NONE;
  const carnot_quantized_operand operand = operand_of(r->region, other, input_count);
  if (operand.value == CARNOT_PLAN_NONE) return false;
  if (other < input_count && (r->facts[other] & CARNOT_FACT_CHANNEL) &&
      (r->facts[other] & CARNOT_FACT_KNOWN)) {
    const bool is_float = r->problem->inputs[other].format.dtype == CARNOT_DTYPE_F32;
    uint32_t* slot = r->out->is_twice ? &r->out->offset : &r->out->bias;
    if (*slot != CARNOT_PLAN_NONE || has_residual || (r->out->is_twice && !is_float)) return false;
    *slot = other;
    return true;
  }
  if (has_residual || !(r->facts[operand.value] & CARNOT_FACT_FULL)) return false;
  r->out->residual = operand;
  return true;
}

static bool take_quantize(reader* r, const carnot_plan_node* node) {
  if (node->op != CARNOT_OP_QUANTIZE_LINEAR || !carnot_is_plain_conversion(node)) return false;
  const uint32_t input_count = r->problem->input_count, scale = input_of(node, 1),
                 zero = input_of(node, 2);
  if (scale >= input_count || (zero != CARNOT_PLAN_NONE && zero >= input_count)) return false;
  r->out->quantizes = true;
  r->out->y_scale = scale, r->out->y_zero = zero;
  return true;
}

static bool is_bound(const carnot_epilogue_activation* a) {
  return a->kind == CARNOT_FUSED_NONE || a->kind == CARNOT_FUSED_RELU ||
         a->kind == CARNOT_FUSED_CLAMP;
}

// The quantized result so far is dequantized again: what was read is the inner quantization.
static bool take_inner(reader* r, const carnot_plan_node* node) {
  carnot_quantized_region* out = r->out;
  if (node->op != CARNOT_OP_DEQUANTIZE_LINEAR || !carnot_is_plain_conversion(node) ||
      node->inputs[0] != r->acc || out->is_twice || out->residual.value != CARNOT_PLAN_NONE ||
      !is_bound(&out->activation))
    return false;
  if (!carnot_is_same_number(r->problem, input_of(node, 1), out->y_scale) ||
      !carnot_is_same_number(r->problem, input_of(node, 2), out->y_zero))
    return false;
  out->is_twice = true;
  out->inner_scale = out->y_scale, out->inner_zero = out->y_zero;
  out->inner_bound = out->activation;
  out->inner_dtype = out->y_zero == CARNOT_PLAN_NONE ? CARNOT_DTYPE_U8
                                                     : r->problem->inputs[out->y_zero].format.dtype;
  out->activation = (carnot_epilogue_activation){.kind = CARNOT_FUSED_NONE};
  out->quantizes = false;
  out->y_scale = out->y_zero = CARNOT_PLAN_NONE;
  return true;
}

static bool take_node(reader* r, const carnot_plan_node* node) {
  if (r->is_done) {
    r->is_done = !take_inner(r, node);
    return !r->is_done;
  }
  const bool is_free = r->out->activation.kind == CARNOT_FUSED_NONE;
  if (node->op == CARNOT_OP_CAST) return r->out->has_casts = true;
  if (node->op == CARNOT_OP_BINARY) return is_free && take_addition(r, node);
  if (node->op == CARNOT_OP_UNARY && is_free) {
    r->out->activation = carnot_epilogue_activation_of(node);
    return r->out->activation.kind != CARNOT_FUSED_NONE;
  }
  return r->is_done = take_quantize(r, node);
}

static const char* read_epilogue(reader* r, char* reason, size_t size) {
  const carnot_plan_node* node;
  while ((node = next_node(r)) != NULL) {
    if (!take_node(r, node)) {
      snprintf(reason, size,
               "%s (%s) behind the anchor is no bias, residual, activation or "
               "quantization",
               node->name ? node->name : "a node", carnot_op_get(node->op)->name);
      return reason;
    }
    r->acc = node->outputs[0];
  }
  const carnot_region* region = r->region;
  if (region->output_count != 1 || region->outputs[0] != r->acc)
    return "an inner value is read outside the region";
  return NULL;
}

// Every node is the anchor, one behind it that was read, or dequantizes an operand.
static const char* check_nodes(const reader* r, char* reason, size_t size) {
  for (uint32_t n = 0; n < r->out->anchor; n++) {
    const carnot_op op = r->region->nodes[n].op;
    if (op == CARNOT_OP_CAST) r->out->has_casts = true;
    if (op == CARNOT_OP_DEQUANTIZE_LINEAR || op == CARNOT_OP_CAST) continue;
    snprintf(reason, size, "%s before the anchor", carnot_op_get(op)->name);
    return reason;
  }
  return NULL;
}

// Facts of the operands that the epilogue adds: floats for a bias and a residual, bytes for a
// dequantized residual.
static const char* read_facts(const carnot_problem* problem, int channel_axis, int64_t channels,
                              carnot_operand_facts* facts) {
  static const carnot_dtype kTypes[] = {CARNOT_DTYPE_F32, CARNOT_DTYPE_U8, CARNOT_DTYPE_I8,
                                        CARNOT_DTYPE_F16, CARNOT_DTYPE_BF16};
  memset(facts, 0, CARNOT_EPILOGUE_MAX_INPUTS);
  for (size_t t = 0; t < sizeof(kTypes) / sizeof(kTypes[0]); t++) {
    carnot_operand_facts of_type[CARNOT_EPILOGUE_MAX_INPUTS];
    const char* why =
        carnot_epilogue_facts_of_problem(problem, kTypes[t], channel_axis, channels, of_type);
    if (why) return why;
    for (uint32_t i = 0; i < problem->input_count; i++) facts[i] |= of_type[i];
  }
  return NULL;
}

static bool is_unscaled(const carnot_plan_node* node) {
  const carnot_op_row* row = carnot_op_get(node->op);
  return node->op != CARNOT_OP_GEMM || (carnot_attr_float(row, &node->attrs, "alpha") == 1 &&
                                        (input_of(node, 2) == CARNOT_PLAN_NONE ||
                                         carnot_attr_float(row, &node->attrs, "beta") == 1));
}

const char* carnot_quantized_read(const carnot_problem* problem, int channel_axis, int64_t channels,
                                  carnot_quantized_region* out, char* reason, size_t size) {
  const carnot_region* region = problem->region;
  const carnot_quantized_operand none = {CARNOT_PLAN_NONE, CARNOT_PLAN_NONE, CARNOT_PLAN_NONE};
  *out = (carnot_quantized_region){.x = none,
                                   .weights = none,
                                   .residual = none,
                                   .bias = CARNOT_PLAN_NONE,
                                   .offset = CARNOT_PLAN_NONE,
                                   .inner_scale = CARNOT_PLAN_NONE,
                                   .inner_zero = CARNOT_PLAN_NONE,
                                   .y_scale = CARNOT_PLAN_NONE,
                                   .y_zero = CARNOT_PLAN_NONE};
  out->node = carnot_quantized_anchor(region, &out->anchor);
  if (!out->node) return "";
  const uint32_t inputs = problem->input_count;
  out->x = carnot_quantized_operand_of(region, out->anchor, 0, inputs);
  out->weights = carnot_quantized_operand_of(region, out->anchor, 1, inputs);
  if (out->x.scale == CARNOT_PLAN_NONE) return "the first operand has no scale of its own";
  if (out->weights.scale == CARNOT_PLAN_NONE) return "the second operand is not quantized";
  if (!is_unscaled(out->node)) return "Gemm has an alpha or beta other than 1";
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  const char* why = read_facts(problem, channel_axis, channels, facts);
  if (why) return why;
  out->bias = input_of(out->node, 2);
  if (out->bias != CARNOT_PLAN_NONE &&
      (out->bias >= inputs || !(facts[out->bias] & CARNOT_FACT_KNOWN) ||
       !carnot_dtype_is_float(problem->inputs[out->bias].format.dtype) ||
       carnot_dims_count(problem->inputs[out->bias].dims, problem->inputs[out->bias].rank) !=
           channels))
    return "the bias is no known number for each channel";
  reader r = {problem, region, out, facts, out->node->outputs[0], false};
  why = check_nodes(&r, reason, size);
  return why ? why : read_epilogue(&r, reason, size);
}
