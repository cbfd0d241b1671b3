// Writes QLinearConv and QLinearMatMul as dequantize, plain operator, quantize.
#include "pass/quantized_region.h"

typedef struct maker {
  carnot_node* at;  // new nodes go before it
  carnot_status* status;
} maker;

// A node with the names of the operator that it comes from.
static carnot_value* add(maker* m, carnot_op op, const carnot_attrs* attrs, carnot_value** inputs,
                         int count) {
  carnot_node* node;
  if (m->status) return NULL;
  m->status =
      carnot_node_insert_before(m->at, op, NULL, attrs, inputs, count, /*output_count=*/1, &node);
  return m->status ? NULL : node->outputs[0];
}

static carnot_value* dequantize(maker* m, carnot_value* x, carnot_value* scale, carnot_value* zero,
                                int64_t axis) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->at->block->graph->arena, "axis", axis);
  carnot_value* inputs[3] = {x, scale, zero};
  return add(m, CARNOT_OP_DEQUANTIZE_LINEAR, &attrs, inputs, zero ? 3 : 2);
}

static carnot_value* multiply(maker* m, carnot_value* a, carnot_value* b) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->at->block->graph->arena, "fn", CARNOT_FN_MUL);
  carnot_value* inputs[2] = {a, b};
  return add(m, CARNOT_OP_BINARY, &attrs, inputs, 2);
}

static int64_t count_of(const carnot_value* value) {
  int64_t count = 1;
  if (!carnot_is_ranked(value)) return -1;
  for (int d = 0; d < value->type.rank; d++) {
    if (!carnot_sym_is_const(value->type.dims[d])) return -1;
    count *= value->type.dims[d].bits;
  }
  return count;
}

// float32 scale and zero point, one for the tensor.
static bool is_one(const carnot_value* scale, const carnot_value* zero) {
  return count_of(scale) == 1 && scale->type.dtype == CARNOT_DTYPE_F32 &&
         (!zero || count_of(zero) == 1);
}

static bool is_8bit(const carnot_value* value) {
  return value->type.dtype == CARNOT_DTYPE_I8 || value->type.dtype == CARNOT_DTYPE_U8;
}

// One scale, or a list of one a channel, with as many zero points. A single zero of 0 for a list of
// scales is left out.
static bool fit_weights(const carnot_value* scale, carnot_value** zero) {
  double number;
  const int64_t count = count_of(scale);
  if (count < 1 || scale->type.rank > 1 || scale->type.dtype != CARNOT_DTYPE_F32) return false;
  if (!*zero || count_of(*zero) == count) return true;
  if (!carnot_value_scalar(*zero, &number) || number != 0 || (*zero)->constant->name) return false;
  *zero = NULL;
  return true;
}

static carnot_value* input_of(const carnot_node* node, int i) {
  return i < node->input_count ? node->inputs[i] : NULL;
}

// Takes the place of |node| with |y| quantized.
static carnot_status* finish(maker* m, carnot_node* node, carnot_value* y, carnot_value* scale,
                             carnot_value* zero) {
  carnot_node* last;
  if (m->status) return m->status;
  carnot_value* inputs[3] = {y, scale, zero};
  y->producer->name = node->name;
  y->producer->is_unnamed = node->is_unnamed;
  y->producer->type_name = node->type_name;
  y->producer->order = node->order;
  y->producer->precision = node->precision;
  CARNOT_TRY(
      carnot_node_insert_before(node, CARNOT_OP_QUANTIZE_LINEAR, NULL, NULL, inputs, 3, 1, &last));
  last->outputs[0]->name = node->outputs[0]->name;
  carnot_node_absorb(y->producer, node);
  carnot_value_replace(node->outputs[0], last->outputs[0]);
  carnot_node_remove(node);
  return NULL;
}

static carnot_status* decompose_conv(carnot_node* node) {
  carnot_value** in = node->inputs;
  carnot_value *w_zero = in[5], *bias = input_of(node, 8);
  if (!is_8bit(in[0]) || !is_8bit(in[3]) || !is_one(in[1], in[2]) || !is_one(in[6], in[7]) ||
      !fit_weights(in[4], &w_zero))
    return NULL;
  maker m = {.at = node};
  carnot_value* inputs[3] = {dequantize(&m, in[0], in[1], in[2], 1),
                             dequantize(&m, in[3], in[4], w_zero, 0), NULL};
  if (bias) inputs[2] = dequantize(&m, bias, multiply(&m, in[1], in[4]), NULL, 0);
  carnot_value* y = add(&m, CARNOT_OP_CONV, &node->attrs, inputs, bias ? 3 : 2);
  return finish(&m, node, y, in[6], in[7]);
}

static carnot_status* decompose_matmul(carnot_node* node) {
  carnot_value** in = node->inputs;
  carnot_value* b_zero = in[5];
  if (!is_8bit(in[0]) || !is_8bit(in[3]) || !is_one(in[1], in[2]) || !is_one(in[6], in[7]) ||
      !fit_weights(in[4], &b_zero) || in[3]->type.rank < 1)
    return NULL;
  maker m = {.at = node};
  carnot_value* inputs[2] = {dequantize(&m, in[0], in[1], in[2], 1),
                             dequantize(&m, in[3], in[4], b_zero, in[3]->type.rank - 1)};
  carnot_value* y = add(&m, CARNOT_OP_MATMUL, NULL, inputs, 2);
  return finish(&m, node, y, in[6], in[7]);
}

carnot_status* carnot_decompose_qlinear(carnot_block* block) {
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op == CARNOT_OP_QLINEAR_CONV)
      CARNOT_TRY(decompose_conv(node));
    else if (node->op == CARNOT_OP_QLINEAR_MATMUL)
      CARNOT_TRY(decompose_matmul(node));
  }
  return NULL;
}
