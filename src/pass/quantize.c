// Brings quantized networks into one form: quantize and dequantize nodes around plain operators,
// with the operators that only move elements between integers.
//
//   QLinearConv, QLinearMatMul -> dequantize, Conv or MatMul, quantize
//   move(dequantize(x))        -> dequantize(move(x)): reshape, transpose, slice, gather, split,
//                                 concat of one scale, max pooling, ..
//   quantize(move(x))          -> move(quantize(x)): reshape, transpose, concat, ..
//   quantize(f(move(x)))       -> move(quantize(f(x))): reshape, transpose; f of each element alone
//   quantize(dequantize(x))    -> x where scales, zero points and types are equal
//
// Each is exact. A moved element is the same number in either type. Max pooling commutes with a
// rising function, and dequantized values hold no NaN. With a normal scale s, (x - z) * s rounded
// to float32 and divided by s is within 2^-22 of the integer |x - z| <= 2^17, which rint gives
// back.
#include <float.h>

#include "pass/quantized_region.h"

enum { kMostInputs = 64, kMostChain = 8 };

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

// |copy| stands for |node|: its names and requests.
static void copy_marks(const carnot_node* node, carnot_node* copy) {
  copy->order = node->order;
  copy->is_unnamed = node->is_unnamed;
  copy->type_name = node->type_name;
  copy->precision = node->precision;
  copy->absorbed = node->absorbed;
  copy->absorbed_count = node->absorbed_count;
}

// |node| over other inputs, before it.
static carnot_status* copy_over(carnot_node* node, carnot_value* const* inputs, carnot_node** out) {
  CARNOT_TRY(carnot_node_insert_before(node, node->op, node->name, &node->attrs, inputs,
                                       node->input_count, node->output_count, out));
  copy_marks(node, *out);
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

bool carnot_same_quantization(const carnot_pass_options* options, const carnot_node* a,
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
      from->outputs[0]->type.dtype != CARNOT_DTYPE_F32 ||
      !carnot_same_quantization(options, node, from))
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
        !carnot_same_quantization(options, from[i], from[0]))
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

static carnot_status* quantize_before(carnot_node* at, const carnot_node* like, carnot_value* value,
                                      carnot_node** out) {
  carnot_value* inputs[3] = {value, like->inputs[1], zero_of(like)};
  CARNOT_TRY(carnot_node_insert_before(at, like->op, like->name, &like->attrs, inputs,
                                       like->input_count, 1, out));
  (*out)->order = like->order;
  (*out)->is_unnamed = like->is_unnamed;
  (*out)->type_name = like->type_name;
  return NULL;
}

// |moved| computes what |node| did.
static void take_place(carnot_node* node, carnot_node* moved) {
  moved->outputs[0]->name = node->outputs[0]->name;
  carnot_value_replace(node->outputs[0], moved->outputs[0]);
  carnot_node_remove(node);
}

// quantize(concat(x, ..)) -> concat(quantize(x), ..).
static carnot_status* move_before_concat(carnot_node* node, carnot_node* concat,
                                         carnot_node** out_moved) {
  carnot_value* inputs[kMostInputs];
  *out_moved = NULL;
  if (concat->input_count > kMostInputs) return NULL;
  for (int i = 0; i < concat->input_count; i++)
    if (!concat->inputs[i] || concat->inputs[i]->constant) return NULL;
  for (int i = 0; i < concat->input_count; i++) {
    carnot_node* made;
    CARNOT_TRY(quantize_before(concat, node, concat->inputs[i], &made));
    inputs[i] = made->outputs[0];
  }
  CARNOT_TRY(copy_over(concat, inputs, out_moved));
  take_place(node, *out_moved);
  carnot_node_remove(concat);
  return NULL;
}

// Operators of one operand, between a move of elements and a quantize node, from the last one up.
typedef struct chain {
  carnot_node* nodes[kMostChain];
  int count;
} chain;

// The operand of |node| that it computes element by element, beside single numbers; -1: none.
static int data_operand(const carnot_node* node) {
  double number;
  if (is_dequantize(node)) return has_constant_scale(node) ? 0 : -1;
  if (carnot_node_fn(node) == CARNOT_FN_COUNT) return -1;
  if (node->op == CARNOT_OP_UNARY) return 0;
  if (node->op != CARNOT_OP_BINARY) return -1;
  for (int i = 0; i < 2; i++)
    if (carnot_value_scalar(node->inputs[1 - i], &number) && !node->inputs[i]->constant) return i;
  return -1;
}

// The operator above |quantize| and a chain that moves elements for them alone; NULL: none.
static carnot_node* find_move(const carnot_node* quantize, chain* out) {
  const carnot_node* reader = quantize;
  int input = 0;
  out->count = 0;
  for (;;) {
    const carnot_value* value = reader->inputs[input];
    carnot_node* node = value->producer;
    if (!node || node->block != quantize->block || carnot_only_user(value) != reader) return NULL;
    if (keeps_elements(node)) return node;
    input = data_operand(node);
    if (input < 0 || out->count == kMostChain) return NULL;
    out->nodes[out->count++] = node;
    reader = node;
  }
}

// A single number of higher rank than the data would change the rank of the result.
static bool keeps_rank(const chain* c, int rank) {
  for (int i = 0; i < c->count; i++)
    for (int k = 0; k < c->nodes[i]->input_count; k++)
      if (k != data_operand(c->nodes[i]) && c->nodes[i]->inputs[k] &&
          c->nodes[i]->inputs[k]->type.rank > rank)
        return false;
  return true;
}

// quantize(f(move(x))) -> move(quantize(f(x))).
static carnot_status* move_before_move(carnot_node* node, carnot_node* move, const chain* c,
                                       carnot_node** out_made) {
  carnot_value* inputs[kMostInputs];
  carnot_value* value = move->inputs[0];
  *out_made = NULL;
  if (move->input_count > kMostInputs || !value || value->constant ||
      !keeps_rank(c, value->type.rank))
    return NULL;
  for (int i = c->count - 1; i >= 0; i--) {
    carnot_node *old = c->nodes[i], *made;
    for (int k = 0; k < old->input_count; k++) inputs[k] = old->inputs[k];
    inputs[data_operand(old)] = value;
    CARNOT_TRY(copy_over(old, inputs, &made));
    value = made->outputs[0];
  }
  CARNOT_TRY(quantize_before(node, node, value, out_made));
  for (int i = 0; i < move->input_count; i++) inputs[i] = move->inputs[i];
  inputs[0] = (*out_made)->outputs[0];
  carnot_node* moved;
  CARNOT_TRY(carnot_node_insert_before(node, move->op, move->name, &move->attrs, inputs,
                                       move->input_count, 1, &moved));
  copy_marks(move, moved);
  take_place(node, moved);
  for (int i = 0; i < c->count; i++) carnot_node_remove(c->nodes[i]);
  carnot_node_remove(move);
  return NULL;
}

// |quantize| makes an operand of a MatMul of two activations, which attention has.
static bool feeds_attention(const carnot_node* quantize) {
  const carnot_node* up = carnot_only_user(quantize->outputs[0]);
  const carnot_node* matmul = is_dequantize(up) ? carnot_only_user(up->outputs[0]) : NULL;
  if (!matmul || matmul->op != CARNOT_OP_MATMUL) return false;
  for (int i = 0; i < 2; i++) {
    const carnot_node* from = matmul->inputs[i]->producer;
    if (!is_dequantize(from) || carnot_value_is_constant(from->inputs[0])) return false;
  }
  return true;
}

static carnot_status* move_up(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->last, *previous; node; node = previous) {
    previous = node->previous;
    if (node->op != CARNOT_OP_QUANTIZE_LINEAR || !has_constant_scale(node)) continue;
    chain c;
    carnot_node *move = find_move(node, &c), *made;
    if (!move) continue;
    // Between FP8 layers elements move in half precision, as attention kernels move their own; the
    // operands of FP8 attention are bytes.
    if (node->outputs[0]->type.dtype == CARNOT_DTYPE_F8E4M3FN &&
        !carnot_op_has_trait(move->op, CARNOT_TRAIT_VIEW) && !feeds_attention(node))
      continue;
    if (move->op != CARNOT_OP_CONCAT) {
      CARNOT_TRY(move_before_move(node, move, &c, &made));
      if (made) previous = made;
    } else if (!c.count) {
      const bool is_next = previous == move;  // it goes where it moves
      CARNOT_TRY(move_before_concat(node, move, &made));
      if (made && is_next) previous = made;  // with the quantize nodes before it
    }
  }
  return NULL;
}

carnot_status* carnot_pass_quantize(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, move_down, (void*)options));
  return carnot_each_block(graph->main, move_up, (void*)options);
}
