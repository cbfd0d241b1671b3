// Brings quantized networks into one form: quantize and dequantize nodes around plain operators,
// with the operators that only move elements between integers.
//
//   QLinearConv, QLinearMatMul -> dequantize, Conv or MatMul, quantize
//   move(dequantize(x))        -> dequantize(move(x)): reshape, transpose, slice, gather, split,
//                                 concat of one scale, max pooling, ..
//   quantize(move(x))          -> move(quantize(x)): reshape, transpose, concat, ..
//   quantize(dequantize(x))    -> x where scales, zero points and types are equal
//
// Each is exact. A moved element is the same number in either type. Max pooling commutes with a
// rising function, and dequantized values hold no NaN. With a normal scale s, (x - z) * s rounded
// to float32 and divided by s is within 2^-22 of the integer |x - z| <= 2^17, which rint gives
// back.
#include <float.h>

#include "pass/quantized_region.h"

enum { kMostInputs = 64 };

static bool is_one_scale(const carnot_node* node) {
  const carnot_type* t = &node->inputs[1]->type;
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0 || t->rank > 1) return false;
  return t->rank == 0 || carnot_sym_is(t->dims[0], 1);
}

static bool is_dequantize(const carnot_node* node) {
  return node && node->op == CARNOT_OP_DEQUANTIZE_LINEAR;
}

// Its outputs are elements of input 0 alone.
static bool moves_one_input(const carnot_node* node) {
  const carnot_op_row* row = carnot_node_row(node);
  return carnot_op_has_trait(node->op, CARNOT_TRAIT_MOVES_DATA) &&
         !carnot_op_has_trait(node->op, CARNOT_TRAIT_FILLS) && row->max_inputs != -1;
}

static bool is_maximum(const carnot_node* node) {
  return carnot_op_has_trait(node->op, CARNOT_TRAIT_MAXIMUM) && node->output_count == 1;
}

static bool has_all_outputs(const carnot_node* node) {
  for (int i = 0; i < node->output_count; i++)
    if (!node->outputs[i]) return false;
  return node->output_count > 0;
}

static void remove_unread(carnot_node* node) {
  if (!carnot_value_used(node->outputs[0])) carnot_node_remove(node);
}

// |node| over other inputs, before it.
static carnot_status* copy_over(carnot_node* node, carnot_value* const* inputs, carnot_node** out) {
  CARNOT_TRY(carnot_node_insert_before(node, node->op, node->name, &node->attrs, inputs,
                                       node->input_count, node->output_count, out));
  (*out)->order = node->order;
  (*out)->is_unnamed = node->is_unnamed;
  (*out)->type_name = node->type_name;
  (*out)->precision = node->precision;
  (*out)->absorbed = node->absorbed;
  (*out)->absorbed_count = node->absorbed_count;
  return NULL;
}

// Dequantizes |value| like |like|, in place of |node|'s output |output|.
static carnot_status* dequantize_as(const carnot_node* like, carnot_node* node, int output,
                                    carnot_value* value, int64_t axis) {
  carnot_value* inputs[3] = {value, like->inputs[1],
                             like->input_count > 2 ? like->inputs[2] : NULL};
  carnot_attrs attrs = {0};
  carnot_arena* arena = &node->block->graph->arena;
  for (size_t i = 0; i < like->attrs.count; i++)
    carnot_attrs_set(&attrs, arena, like->attrs.items[i]);
  carnot_attrs_set_int(&attrs, arena, "axis", axis);
  carnot_node* made;
  CARNOT_TRY(carnot_node_insert_before(node, CARNOT_OP_DEQUANTIZE_LINEAR, like->name, &attrs,
                                       inputs, like->input_count, 1, &made));
  made->order = like->order;
  made->is_unnamed = like->is_unnamed;
  made->type_name = like->type_name;
  made->outputs[0]->name = node->outputs[output]->name;
  carnot_value_replace(node->outputs[output], made->outputs[0]);
  return NULL;
}

// ---- dequantize down ----

static int64_t axis_of(const carnot_node* node) {
  return carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
}

// The axis of the scales behind a transpose; -1: none, or it is unknown.
static int64_t axis_behind(const carnot_node* transpose, const carnot_node* dequantize) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(&transpose->attrs, "perm", &count);
  const int rank = transpose->inputs[0]->type.rank;
  int64_t axis = axis_of(dequantize);
  if (axis < 0) axis += rank;
  for (int i = 0; i < rank; i++)
    if ((perm ? perm[i] : rank - 1 - i) == axis) return i;
  return -1;
}

static carnot_status* move_behind(carnot_node* node, carnot_node* from, int64_t axis) {
  carnot_value* inputs[kMostInputs];
  carnot_node* moved;
  if (node->input_count > kMostInputs) return NULL;
  for (int i = 0; i < node->input_count; i++)
    inputs[i] = i == 0 ? from->inputs[0] : node->inputs[i];
  CARNOT_TRY(copy_over(node, inputs, &moved));
  for (int i = 0; i < node->output_count; i++)
    CARNOT_TRY(dequantize_as(from, node, i, moved->outputs[i], axis));
  carnot_node_remove(node);
  remove_unread(from);
  return NULL;
}

// Blocked scales have the dimensions of the data.
static bool is_list_scale(const carnot_node* node) {
  return carnot_attr_int(carnot_node_row(node), &node->attrs, "block_size") == 0 &&
         node->inputs[1]->type.rank == 1;
}

static carnot_status* move_dequantize(carnot_node* node, bool* out_moved) {
  carnot_node* from = node->input_count && node->inputs[0] ? node->inputs[0]->producer : NULL;
  *out_moved = false;
  if (!is_dequantize(from) || from->block != node->block || !has_all_outputs(node)) return NULL;
  int64_t axis = axis_of(from);
  if (!is_one_scale(from)) {
    if (node->op != CARNOT_OP_TRANSPOSE || !is_list_scale(from)) return NULL;
    axis = axis_behind(node, from);
    if (axis < 0) return NULL;
  } else if (!moves_one_input(node) && !is_maximum(node)) {
    return NULL;
  }
  *out_moved = true;
  return move_behind(node, from, axis);
}

// ---- equal quantization ----

static bool same_number(const carnot_pass_options* options, const carnot_value* a,
                        const carnot_value* b) {
  double x, y;
  if (a == b) return true;
  if (options->refit || !a || !b || a->type.dtype != b->type.dtype) return false;
  return carnot_value_scalar(a, &x) && carnot_value_scalar(b, &y) && x == y;
}

static bool is_zero_or_absent(const carnot_pass_options* options, const carnot_value* value) {
  double number;
  return !value || (!options->refit && carnot_value_scalar(value, &number) && number == 0);
}

static carnot_value* zero_of(const carnot_node* node) {
  return node->input_count > 2 ? node->inputs[2] : NULL;
}

// One scale each, and equal.
static bool same_quantization(const carnot_pass_options* options, const carnot_node* a,
                              const carnot_node* b) {
  if (!is_one_scale(a) || !is_one_scale(b) || !same_number(options, a->inputs[1], b->inputs[1]))
    return false;
  const carnot_value *x = zero_of(a), *y = zero_of(b);
  return same_number(options, x, y) ||
         (is_zero_or_absent(options, x) && is_zero_or_absent(options, y));
}

static bool has_plain_precision(const carnot_node* node) {
  const int64_t precision = carnot_attr_int(carnot_node_row(node), &node->attrs, "precision");
  return precision == 0 || precision == CARNOT_DTYPE_F32;
}

static bool has_normal_scale(const carnot_node* node) {
  double scale;
  return node->inputs[1]->type.dtype == CARNOT_DTYPE_F32 &&
         carnot_value_scalar(node->inputs[1], &scale) && scale >= 0x1p-100 && scale <= 0x1p100;
}

// quantize(dequantize(x)) -> x.
static bool cancel(const carnot_pass_options* options, carnot_node* node) {
  carnot_node* from = node->inputs[0]->producer;
  if (node->op != CARNOT_OP_QUANTIZE_LINEAR || !is_dequantize(from)) return false;
  const carnot_dtype dtype = node->outputs[0]->type.dtype;
  if (from->inputs[0]->type.dtype != dtype || !carnot_dtype_is_integer(dtype) ||
      carnot_dtype_bits(dtype) > 16 || !has_normal_scale(node) || !has_plain_precision(node) ||
      from->outputs[0]->type.dtype != CARNOT_DTYPE_F32 || !same_quantization(options, node, from))
    return false;
  carnot_value_replace(node->outputs[0], from->inputs[0]);
  carnot_node_remove(node);
  if (from->block == node->block) remove_unread(from);
  return true;
}

// ---- concat ----

// concat of values dequantized alike -> dequantize(concat).
static carnot_status* move_through_concat(const carnot_pass_options* options, carnot_node* node) {
  carnot_value* inputs[kMostInputs];
  carnot_node *from[kMostInputs], *moved;
  if (node->op != CARNOT_OP_CONCAT || node->input_count > kMostInputs) return NULL;
  for (int i = 0; i < node->input_count; i++) {
    from[i] = node->inputs[i] ? node->inputs[i]->producer : NULL;
    if (!is_dequantize(from[i]) || from[i]->block != node->block ||
        from[i]->inputs[0]->type.dtype != from[0]->inputs[0]->type.dtype ||
        !same_quantization(options, from[i], from[0]))
      return NULL;
    inputs[i] = from[i]->inputs[0];
  }
  CARNOT_TRY(copy_over(node, inputs, &moved));
  CARNOT_TRY(dequantize_as(from[0], node, 0, moved->outputs[0], axis_of(from[0])));
  for (int i = node->input_count - 1; i >= 0; i--) {
    bool again = false;
    for (int k = 0; k < i; k++) again |= from[k] == from[i];
    from[i] = again ? NULL : from[i];
  }
  const int count = node->input_count;
  carnot_node_remove(node);
  for (int i = 0; i < count; i++)
    if (from[i]) remove_unread(from[i]);
  return NULL;
}

static carnot_status* move_down(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  CARNOT_TRY(carnot_decompose_qlinear(block));
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    bool moved;
    if (!node->input_count || !node->inputs[0] || cancel(options, node)) continue;
    CARNOT_TRY(move_dequantize(node, &moved));
    if (!moved) CARNOT_TRY(move_through_concat(options, node));
  }
  return NULL;
}

// ---- quantize up ----

// It keeps all elements, so that as many are quantized before it.
static bool keeps_elements(const carnot_node* node) {
  return carnot_op_has_trait(node->op, CARNOT_TRAIT_VIEW) || node->op == CARNOT_OP_TRANSPOSE ||
         node->op == CARNOT_OP_CONCAT;
}

// Known before any node runs.
static bool has_constant_scale(const carnot_node* node) {
  return is_one_scale(node) && node->inputs[1]->constant &&
         (!zero_of(node) || zero_of(node)->constant);
}

static carnot_status* move_quantize(carnot_node* node, carnot_node** out_moved) {
  *out_moved = NULL;
  carnot_node* from = node->inputs[0]->producer;
  carnot_value* inputs[kMostInputs];
  if (!from || from->block != node->block || !keeps_elements(from) || !has_constant_scale(node) ||
      carnot_only_user(from->outputs[0]) != node || from->input_count > kMostInputs)
    return NULL;
  const int data = from->op == CARNOT_OP_CONCAT ? from->input_count : 1;
  for (int i = 0; i < from->input_count; i++) {
    inputs[i] = from->inputs[i];
    if (i >= data) continue;
    if (!inputs[i] || inputs[i]->constant) return NULL;
  }
  for (int i = 0; i < data; i++) {
    carnot_value* quantized[3] = {inputs[i], node->inputs[1], zero_of(node)};
    carnot_node* made;
    CARNOT_TRY(carnot_node_insert_before(from, node->op, node->name, &node->attrs, quantized,
                                         node->input_count, 1, &made));
    made->order = node->order;
    made->is_unnamed = node->is_unnamed;
    made->type_name = node->type_name;
    inputs[i] = made->outputs[0];
  }
  CARNOT_TRY(copy_over(from, inputs, out_moved));
  (*out_moved)->outputs[0]->name = node->outputs[0]->name;
  carnot_value_replace(node->outputs[0], (*out_moved)->outputs[0]);
  carnot_node_remove(node);
  carnot_node_remove(from);
  return NULL;
}

static carnot_status* move_up(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->last, *previous; node; node = previous) {
    previous = node->previous;
    if (node->op != CARNOT_OP_QUANTIZE_LINEAR || !node->inputs[0]->producer) continue;
    const bool is_next = previous == node->inputs[0]->producer;  // it goes where it moves
    carnot_node* moved;
    CARNOT_TRY(move_quantize(node, &moved));
    if (moved && is_next) previous = moved;  // with the quantize nodes before it
  }
  return NULL;
}

carnot_status* carnot_pass_quantize(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, move_down, (void*)options));
  return carnot_each_block(graph->main, move_up, (void*)options);
}
