// Matches the epilogue of an anchor: facts of the operands, then additions and an activation.
#include "tactic/problem/epilogue.h"

#include <math.h>

static carnot_fn fn_of(const carnot_plan_node* node) {
  if (node->op != CARNOT_OP_UNARY && node->op != CARNOT_OP_BINARY) return CARNOT_FN_COUNT;
  return (carnot_fn)carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn");
}

carnot_epilogue_activation carnot_epilogue_activation_of(const carnot_plan_node* node) {
  static const struct {
    carnot_fused_activation kind;
    carnot_fn fn;
  } kActivations[] = {
#define ACTIVATION(NAME, FN) {CARNOT_FUSED_##NAME, CARNOT_FN_##FN},
      CARNOT_FUSED_ACTIVATIONS(ACTIVATION)
#undef ACTIVATION
  };
  const carnot_op_row* row = carnot_op_get(node->op);
  carnot_fn fn = fn_of(node);
  for (size_t i = 0; i < sizeof(kActivations) / sizeof(kActivations[0]); i++) {
    if (kActivations[i].fn != fn) continue;
    double alpha = carnot_attr_float(row, &node->attrs, "alpha"),
           beta = carnot_attr_float(row, &node->attrs, "beta");
    if (fn == CARNOT_FN_SWISH && alpha != 1) break;
    return (carnot_epilogue_activation){kActivations[i].kind, (float)alpha, (float)beta};
  }
  return (carnot_epilogue_activation){.kind = CARNOT_FUSED_NONE};
}

// All dimensions are 1 but that of the channels.
static bool is_channel_vector(int rank, const int64_t* dims, int channel_axis, int64_t channels) {
  for (int d = 0; d < rank; d++)
    if (dims[d] != (rank - d == channel_axis ? channels : 1)) return false;
  return rank >= channel_axis;
}

static bool has_dims_of(const carnot_operand_desc* t, const carnot_operand_desc* y) {
  bool same = t->rank == y->rank;
  for (int d = 0; same && d < y->rank; d++)
    same = t->dims[d] == y->dims[d] && t->min[d] == y->min[d] && t->max[d] == y->max[d];
  return same;
}

const char* carnot_epilogue_facts_of_problem(const carnot_problem* problem, carnot_dtype dtype,
                                             int channel_axis, int64_t channels,
                                             carnot_operand_facts* facts) {
  if (problem->input_count > CARNOT_EPILOGUE_MAX_INPUTS) return "too many operands";
  const carnot_operand_desc* y = &problem->outputs[0];
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    facts[i] = 0;
    if (t->kind != CARNOT_VALUE_TENSOR || t->format.dtype != dtype || t->rank < 0) continue;
    if (!t->is_constant) {
      if (has_dims_of(t, y)) facts[i] = CARNOT_FACT_FULL;
      continue;
    }
    if (carnot_is_known(t)) facts[i] |= CARNOT_FACT_KNOWN;
    if (!carnot_has_fixed_dims(t)) continue;  // 1 only at the optimum does not broadcast
    if (carnot_dims_count(t->dims, t->rank) == 1) facts[i] |= CARNOT_FACT_SCALAR;
    if (is_channel_vector(t->rank, t->dims, channel_axis, channels))
      facts[i] |= CARNOT_FACT_CHANNEL;
  }
  return NULL;
}

carnot_status* carnot_epilogue_facts_of_operands(const carnot_operand* inputs, uint32_t count,
                                                 const carnot_operand* y, int channel_axis,
                                                 int64_t channels, carnot_operand_facts* facts) {
  CARNOT_CHECK(count <= CARNOT_EPILOGUE_MAX_INPUTS, INVALID_MODEL, "%u operands", count);
  for (uint32_t i = 0; i < count; i++) {
    const carnot_operand* t = &inputs[i];
    facts[i] = 0;
    if (t->format.dtype != y->format.dtype) continue;
    if (carnot_dims_count(t->dims, t->rank) == 1) facts[i] |= CARNOT_FACT_SCALAR;
    if (is_channel_vector(t->rank, t->dims, channel_axis, channels)) {
      facts[i] |= CARNOT_FACT_CHANNEL;
      continue;
    }
    bool full = t->rank == y->rank;
    for (int d = 0; full && d < y->rank; d++) full = t->dims[d] == y->dims[d];
    if (full) facts[i] |= CARNOT_FACT_FULL;
  }
  return NULL;
}

static bool takes_bias(const carnot_epilogue* e, carnot_epilogue_biases biases,
                       carnot_operand_facts facts) {
  switch (biases) {
    case CARNOT_EPILOGUE_ONE_BIAS:
      return (facts & CARNOT_FACT_CHANNEL) && !e->bias_count && e->residual == CARNOT_PLAN_NONE;
    case CARNOT_EPILOGUE_SUM_BIASES:
      return (facts & (CARNOT_FACT_CHANNEL | CARNOT_FACT_SCALAR)) && (facts & CARNOT_FACT_KNOWN) &&
             e->bias_count < CARNOT_EPILOGUE_MAX_BIASES;
    default: return false;
  }
}

static bool match_addition(const carnot_plan_node* node, const carnot_operand_facts* facts,
                           uint32_t input_count, const carnot_epilogue_mask* mask,
                           carnot_epilogue* e) {
  if (fn_of(node) != CARNOT_FN_ADD || node->inputs[0] == node->inputs[1]) return false;
  uint32_t other = node->inputs[0] == e->acc ? node->inputs[1] : node->inputs[0];
  if (other >= input_count) return false;
  if (takes_bias(e, mask->biases, facts[other]))
    e->biases[e->bias_count++] = other;
  else if (mask->residual && (facts[other] & CARNOT_FACT_FULL) && e->residual == CARNOT_PLAN_NONE)
    e->residual = other;
  else
    return false;
  return true;
}

static bool admits(uint32_t activations, const carnot_epilogue_activation* a) {
  if (a->kind == CARNOT_FUSED_NONE) return false;
  if (activations & (1u << a->kind)) return true;
  return a->kind == CARNOT_FUSED_CLAMP && a->a == 0 && a->b == INFINITY &&
         (activations & CARNOT_FUSED_BIT(RELU));
}

void carnot_epilogue_match(const carnot_region* region, uint32_t anchor, uint32_t bias,
                           const carnot_operand_facts* facts, uint32_t input_count,
                           const carnot_epilogue_mask* mask, carnot_epilogue* out) {
  *out = (carnot_epilogue){
      .residual = CARNOT_PLAN_NONE, .rest = anchor + 1, .acc = region->nodes[anchor].outputs[0]};
  if (bias != CARNOT_PLAN_NONE) out->biases[out->bias_count++] = bias;
  for (; out->rest < region->node_count; out->acc = region->nodes[out->rest++].outputs[0])
    if (!match_addition(&region->nodes[out->rest], facts, input_count, mask, out)) break;
  if (out->rest == region->node_count) return;
  const carnot_epilogue_activation a = carnot_epilogue_activation_of(&region->nodes[out->rest]);
  if (!admits(mask->activations, &a)) return;
  out->activation = a;
  out->acc = region->nodes[out->rest++].outputs[0];
}
