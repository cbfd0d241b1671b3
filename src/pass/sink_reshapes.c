// Sinks reshapes of GEMM results through element-wise readers:
//   reshape(gemm(x)) + r  ->  reshape(gemm(x) + reshape(r))
// so that bias, activation and residual fuse into the epilogue, and through the quantize and
// dequantize nodes between them and the dynamic quantization that reads it. Exporters flatten
// [B,S,N] to [B*S,N] before the GEMM and reshape its result.
#include "pass/pass.h"

enum { kMostSteps = 16 };

static bool is_reshape(const carnot_node* node) { return node && node->op == CARNOT_OP_RESHAPE; }

// To bytes or back with one scale.
static bool is_conversion(const carnot_node* node) {
  if (node->op != CARNOT_OP_QUANTIZE_LINEAR && node->op != CARNOT_OP_DEQUANTIZE_LINEAR)
    return false;
  const carnot_type* scale = &node->inputs[1]->type;
  return carnot_is_ranked(node->inputs[1]) && scale->rank == 0;
}

static bool is_pointwise(const carnot_node* node) {
  return carnot_node_fn(node) != CARNOT_FN_COUNT || is_conversion(node);
}

// A dequantize node stays in front of the anchor that reads it: no reshape sinks between them.
static bool may_sink_below(const carnot_node* node) {
  if (node->op != CARNOT_OP_DEQUANTIZE_LINEAR) return is_pointwise(node);
  const carnot_node* reader = carnot_only_user(node->outputs[0]);
  return is_conversion(node) && reader && carnot_node_fn(reader) != CARNOT_FN_COUNT;
}

// An anchor's result, or what pointwise operators of its size make of it.
static bool comes_from_anchor(const carnot_value* value) {
  for (int i = 0; i < kMostSteps && value->producer; i++) {
    const carnot_node* node = value->producer;
    if (node->op == CARNOT_OP_MATMUL || node->op == CARNOT_OP_GEMM ||
        node->op == CARNOT_OP_MATMUL_INTEGER)
      return true;
    if (!is_pointwise(node) && node->op != CARNOT_OP_CAST) return false;
    const carnot_value* next = NULL;
    for (int k = 0; k < node->input_count && !next; k++)
      if (node->inputs[k] && !node->inputs[k]->constant &&
          carnot_same_dims(&node->inputs[k]->type, &value->type))
        next = node->inputs[k];
    if (!next) return false;
    value = next;
  }
  return false;
}

// One number, or one for each element of the last axis.
static bool is_row(const carnot_value* value, carnot_sym last) {
  const carnot_type* t = &value->type;
  for (int d = 0; d + 1 < t->rank; d++)
    if (!carnot_sym_is(t->dims[d], 1)) return false;
  carnot_sym size = t->rank ? t->dims[t->rank - 1] : carnot_sym_of(1);
  return carnot_sym_is(size, 1) || carnot_sym_same(size, last);
}

// |value| of the dimensions of |like|; NULL where no list of integers says them.
static carnot_status* reshaped(carnot_node* at, carnot_value* value, const carnot_type* like,
                               carnot_value** out) {
  int64_t dims[CARNOT_MAX_RANK];
  int open = 0;
  *out = NULL;
  if (is_reshape(value->producer) && carnot_same_dims(&value->producer->inputs[0]->type, like)) {
    *out = value->producer->inputs[0];
    return NULL;
  }
  for (int d = 0; d < like->rank; d++) {
    bool known = carnot_sym_is_const(like->dims[d]);
    dims[d] = known ? like->dims[d].bits : -1;
    open += !known;
    if (dims[d] == 0) return NULL;
  }
  if (open > 1) return NULL;
  carnot_value* inputs[2] = {value, carnot_graph_ints(at->block, dims, like->rank)};
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_RESHAPE, NULL, NULL, inputs, 2, 1, &node));
  if (carnot_same_dims(&node->outputs[0]->type, like))
    *out = node->outputs[0];
  else
    carnot_node_remove(node);
  return NULL;
}

// The operands of |node| in the dimensions of |x|, which replaces |shaped|; *out_fits is false
// where one has none.
static carnot_status* operands_as(carnot_node* node, const carnot_value* shaped, carnot_value* x,
                                  carnot_value** out, bool* out_fits) {
  const carnot_type* t = &x->type;
  carnot_sym last = t->dims[t->rank - 1];
  *out_fits = false;
  for (int i = 0; i < node->input_count; i++) {
    carnot_value* operand = node->inputs[i];
    if (!carnot_is_ranked(operand)) return NULL;
    out[i] = operand == shaped ? x : NULL;
    if (out[i]) continue;
    carnot_type row = *t;
    if (carnot_same_dims(&operand->type, &shaped->type)) {
      CARNOT_TRY(reshaped(node, operand, t, &out[i]));
    } else if (is_row(operand, last) && operand->type.rank > t->rank) {
      row.rank = 1, row.dims[0] = operand->type.dims[operand->type.rank - 1];
      CARNOT_TRY(reshaped(node, operand, &row, &out[i]));
    } else if (is_row(operand, last)) {
      out[i] = operand;
    }
    if (!out[i]) return NULL;
  }
  *out_fits = true;
  return NULL;
}

// What a reshape is of; reshapes above it are left out where its list copies no dimensions of them.
static carnot_value* origin(const carnot_node* reshape) {
  int64_t list[CARNOT_MAX_RANK];
  carnot_value* x = reshape->inputs[0];
  int count = carnot_value_ints(reshape->inputs[1], list, CARNOT_MAX_RANK);
  for (int i = 0; i < count; i++)
    if (!list[i]) return x;
  while (count >= 0 && is_reshape(x->producer)) x = x->producer->inputs[0];
  return x;
}

// The reshape that |node| alone reads, of a value whose last axis it keeps.
static carnot_node* reshape_above(const carnot_node* node) {
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* shaped = node->inputs[i];
    carnot_node* reshape = shaped ? shaped->producer : NULL;
    if (!is_reshape(reshape) || reshape->block != node->block || carnot_only_user(shaped) != node ||
        !carnot_same_dims(&shaped->type, &node->outputs[0]->type))
      continue;
    const carnot_value* x = origin(reshape);
    if (!carnot_is_ranked(x) || x->type.rank < 1 || shaped->type.rank < 1 ||
        !comes_from_anchor(x) ||
        !carnot_sym_same(x->type.dims[x->type.rank - 1], shaped->type.dims[shaped->type.rank - 1]))
      continue;
    return reshape;
  }
  return NULL;
}

static carnot_status* sink(carnot_node* node, carnot_node* reshape) {
  carnot_value *operands[4], *pair[2];
  bool fits;
  carnot_node *made, *behind;
  if (node->input_count > 4) return NULL;
  CARNOT_TRY(operands_as(node, reshape->outputs[0], origin(reshape), operands, &fits));
  if (!fits) return NULL;
  CARNOT_TRY(carnot_node_insert_before(node, node->op, node->name, &node->attrs, operands,
                                       node->input_count, 1, &made));
  made->precision = node->precision;
  pair[0] = made->outputs[0], pair[1] = reshape->inputs[1];
  CARNOT_TRY(carnot_node_insert_before(node, CARNOT_OP_RESHAPE, reshape->name, &reshape->attrs,
                                       pair, 2, 1, &behind));
  if (!carnot_same_dims(&behind->outputs[0]->type, &node->outputs[0]->type)) {
    carnot_node_remove(behind);
    carnot_node_remove(made);
    return NULL;
  }
  carnot_value_replace(node->outputs[0], behind->outputs[0]);
  carnot_node_absorb(made, node);
  carnot_node_remove(node);
  carnot_node_remove(reshape);
  return NULL;
}

// A dynamic quantization is the same before a reshape and behind it.
static carnot_status* sink_below_quantize(carnot_node* quantize) {
  carnot_value* shaped = quantize->inputs[0];
  carnot_node* reshape = shaped->producer;
  if (!is_reshape(reshape) || reshape->block != quantize->block || quantize->output_count != 3 ||
      carnot_only_user(shaped) != quantize || !comes_from_anchor(origin(reshape)))
    return NULL;
  carnot_node *made, *behind;
  carnot_value* x = origin(reshape);
  CARNOT_TRY(carnot_node_insert_before(quantize, quantize->op, quantize->name, &quantize->attrs, &x,
                                       1, 3, &made));
  carnot_value* pair[2] = {made->outputs[0], reshape->inputs[1]};
  CARNOT_TRY(carnot_node_insert_before(quantize, CARNOT_OP_RESHAPE, reshape->name, &reshape->attrs,
                                       pair, 2, 1, &behind));
  made->precision = quantize->precision;
  carnot_value_replace(quantize->outputs[0], behind->outputs[0]);
  for (int i = 1; i < 3; i++) carnot_value_replace(quantize->outputs[i], made->outputs[i]);
  carnot_node_absorb(made, quantize);
  carnot_node_remove(quantize);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op == CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR) CARNOT_TRY(sink_below_quantize(node));
    if (!may_sink_below(node) || !carnot_is_ranked(node->outputs[0])) continue;
    carnot_node* reshape = reshape_above(node);
    if (reshape) CARNOT_TRY(sink(node, reshape));
  }
  return NULL;
}

carnot_status* carnot_pass_sink_reshapes(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
