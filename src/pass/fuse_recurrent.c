// Puts LSTM, GRU or RNN in place of a loop over their cell. Weights are written as slices of what
// the loop reads, one gate after the other, transposed; folding makes them constants.
#include "pass/recurrent_cell.h"

static int gate_count(const carnot_cell* cell) {
  return cell->op == CARNOT_OP_LSTM ? 4 : cell->op == CARNOT_OP_GRU ? 3 : 1;
}

// The part of a matrix that one gate reads, transposed: [hidden, rows].
static carnot_value* part_of(carnot_emitter* e, const carnot_cell* cell,
                             const carnot_cell_matrix* m) {
  static const int64_t kSwap[] = {1, 0};
  carnot_value* y = carnot_loop_outer(cell->loop, m->value);
  y = carnot_emit_slice(e, y, 0, m->row, m->row + m->rows);
  y = carnot_emit_slice(e, y, 1, m->column, m->column + cell->hidden);
  return carnot_emit_transpose(e, y, kSwap, 2);
}

// All gates one below the other: [1, gates * hidden, rows].
static carnot_value* weights(carnot_emitter* e, const carnot_cell* cell, bool of_state) {
  carnot_value* parts[CARNOT_CELL_GATES];
  for (int i = 0; i < gate_count(cell); i++)
    parts[i] = part_of(e, cell, of_state ? &cell->gates[i].from_h : &cell->gates[i].from_x);
  return carnot_emit_unsqueeze(e, carnot_emit_concat(e, 0, parts, gate_count(cell)), 0);
}

// The sum of biases [hidden]; zeros where there are none.
static carnot_value* bias_of(carnot_emitter* e, const carnot_cell* cell,
                             const carnot_cell_matrix* biases, int count) {
  static const int64_t kFlat[] = {-1};
  carnot_value* sum = NULL;
  for (int i = 0; i < count || !sum; i++) {
    carnot_value* y = count ? carnot_loop_outer(cell->loop, biases[i].value)
                            : carnot_graph_float(e->at->block, cell->h->type.dtype, 0);
    y = carnot_emit_reshape(e, y, kFlat, 1);
    if (!y) return NULL;
    if (carnot_sym_is(y->type.dims[0], 1)) {
      carnot_value* inputs[2] = {y, carnot_emit_ints(e, &cell->hidden, 1)};
      y = carnot_emit(e, CARNOT_OP_EXPAND, NULL, inputs, 2);
    } else {
      y = carnot_emit_slice(e, y, 0, biases[i].column, biases[i].column + cell->hidden);
    }
    sum = sum ? carnot_emit_binary(e, CARNOT_FN_ADD, sum, y) : y;
    if (!sum) return NULL;
  }
  return sum;
}

// [1, 2 * gates * hidden]: those of the input, then those of the state.
static carnot_value* all_biases(carnot_emitter* e, const carnot_cell* cell) {
  carnot_value* parts[2 * CARNOT_CELL_GATES];
  const int count = gate_count(cell);
  for (int i = 0; i < count; i++) {
    const carnot_cell_gate* gate = &cell->gates[i];
    parts[i] = bias_of(e, cell, gate->biases, gate->bias_count);
    parts[count + i] = bias_of(e, cell, gate->state_biases, gate->state_bias_count);
  }
  return carnot_emit_unsqueeze(e, carnot_emit_concat(e, 0, parts, 2 * count), 0);
}

static void set_activations(const carnot_cell* cell, carnot_attrs* attrs, carnot_arena* arena) {
  static const char* const kNames[] = {"Sigmoid", "Tanh", "Relu"};
  const size_t count = cell->op == CARNOT_OP_LSTM ? 3 : cell->op == CARNOT_OP_GRU ? 2 : 1;
  carnot_strview* names = CARNOT_NEW_ARRAY(arena, carnot_strview, count);
  for (size_t i = 0; names && i < count; i++)
    names[i] = carnot_view(kNames[cell->activations[i] == CARNOT_FN_SIGMOID ? 0
                                  : cell->activations[i] == CARNOT_FN_TANH  ? 1
                                                                            : 2]);
  carnot_attrs_set(
      attrs, arena,
      (carnot_attr){
          .name = "activations", .type = CARNOT_ATTR_STRINGS, .strings = names, .count = count});
}

// ---- operands ----

// |x| is another value backwards along dimension 0: that value, else NULL.
static carnot_value* forward_of(carnot_value* x) {
  const carnot_node* node = x->producer;
  int64_t start, end, axis, step;
  if (!node || node->op != CARNOT_OP_SLICE || node->input_count != 5) return NULL;
  const bool known = carnot_value_ints(node->inputs[1], &start, 1) == 1 &&
                     carnot_value_ints(node->inputs[2], &end, 1) == 1 &&
                     carnot_value_ints(node->inputs[3], &axis, 1) == 1 &&
                     carnot_value_ints(node->inputs[4], &step, 1) == 1;
  return known && start == -1 && end <= -INT32_MAX && axis == 0 && step == -1 ? node->inputs[0]
                                                                              : NULL;
}

// The input of the operator: as many steps as there are iterations, else NULL.
static carnot_value* steps_of(carnot_emitter* e, const carnot_cell* cell) {
  carnot_value* x = carnot_loop_outer(cell->loop, cell->x->producer->inputs[0]);
  const carnot_value* trips = cell->loop->node->inputs[0];
  if (!trips || !trips->syms || trips->sym_count != 1) return NULL;
  const carnot_sym count = trips->syms[0], steps = x->type.dims[0];
  if (carnot_sym_same(count, steps)) return x;
  if (!carnot_sym_is_const(count) || !carnot_sym_is_const(steps) || count.bits < 1 ||
      count.bits > steps.bits)
    return NULL;
  return carnot_emit_slice(e, x, 0, 0, count.bits);
}

// One part of |mask| for each step and sequence of |x|.
static bool has_equal_steps(const carnot_value* mask, const carnot_value* x) {
  return carnot_sym_same(mask->type.dims[0], x->type.dims[0]) &&
         carnot_sym_same(mask->type.dims[1], x->type.dims[1]);
}

static bool fits(const carnot_cell* cell) {
  const carnot_loop* loop = cell->loop;
  const carnot_type *x = &cell->x->type, *h = &cell->h->type;
  if (!carnot_dtype_is_float(x->dtype) || x->dtype != h->dtype ||
      !carnot_sym_same(x->dims[0], h->dims[0]))
    return false;
  for (int i = 0; i < gate_count(cell); i++) {
    const carnot_cell_gate* gate = &cell->gates[i];
    if (!carnot_sym_is(x->dims[1], gate->from_x.rows)) return false;
  }
  // Results that are stacked and read must be the state.
  carnot_value* const* results = loop->body->outputs;
  for (size_t i = 1 + (size_t)loop->carried; i < loop->body->output_count; i++)
    if (carnot_value_used(loop->node->outputs[i - 1]) && results[i] != results[1 + cell->state_h] &&
        (cell->state_y < 0 || results[i] != results[1 + cell->state_y]) &&
        !carnot_loop_cell_zeroes(cell, results[i]))
      return false;
  for (int k = 0; k < loop->carried; k++)
    if (loop->node->inputs[2 + k]->type.dtype != x->dtype ||
        !carnot_same_dims(&loop->node->inputs[2 + k]->type, h))
      return false;
  return !loop->node->inputs[1];
}

// |x| and |mask| (may be NULL) are those of the operator.
static carnot_status* insert_operator(carnot_emitter* e, const carnot_cell* cell, carnot_value* x,
                                      carnot_value* mask, bool backward, carnot_node** out_node) {
  const carnot_node* loop = cell->loop->node;
  carnot_arena* arena = &loop->block->graph->arena;
  carnot_attrs attrs = {0};
  const bool is_lstm = cell->op == CARNOT_OP_LSTM;
  carnot_value* inputs[9] = {x,
                             weights(e, cell, false),
                             weights(e, cell, true),
                             all_biases(e, cell),
                             NULL,
                             carnot_emit_unsqueeze(e, loop->inputs[2 + cell->state_h], 0),
                             NULL};
  if (is_lstm) inputs[6] = carnot_emit_unsqueeze(e, loop->inputs[2 + cell->state_c], 0);
  if (mask) inputs[8] = carnot_emit_squeeze(e, mask, 2);
  CARNOT_TRY(e->status);
  carnot_attrs_set_int(&attrs, arena, "hidden_size", cell->hidden);
  carnot_attrs_set_text(&attrs, arena, "direction", backward ? "reverse" : "forward");
  set_activations(cell, &attrs, arena);
  if (cell->op == CARNOT_OP_GRU)
    carnot_attrs_set_int(&attrs, arena, "linear_before_reset", cell->linear_before_reset);
  return carnot_node_insert_before(e->at, cell->op, loop->name, &attrs, inputs,
                                   mask      ? 9
                                   : is_lstm ? 7
                                             : 6,
                                   is_lstm ? 3 : 2, out_node);
}

// |y| [T,B,H] with zeros for the steps that |mask| [T,B,1] leaves out.
static carnot_value* zeroed(carnot_emitter* e, carnot_value* y, carnot_value* mask) {
  carnot_attrs attrs = {0};
  if (!y) return NULL;
  carnot_value* inputs[3] = {mask, y, carnot_graph_float(e->at->block, y->type.dtype, 0)};
  carnot_attrs_set_int(&attrs, &e->at->block->graph->arena, "fn", CARNOT_FN_SELECT);
  return carnot_emit(e, CARNOT_OP_TERNARY, &attrs, inputs, 3);
}

static void take_result(carnot_value* from, carnot_value* to) {
  if (!to || !carnot_value_used(from)) return;
  to->name = from->name;
  carnot_value_replace(from, to);
}

carnot_status* carnot_loop_fuse_recurrent(carnot_node* node, bool refit, bool* out_done) {
  carnot_loop loop = carnot_loop_of(node);
  loop.refit = refit;
  carnot_emitter e = {.at = node};
  carnot_cell cell;
  carnot_node* made;
  *out_done = false;
  if (!carnot_loop_cell_read(&loop, &cell) || !fits(&cell)) return NULL;
  carnot_value *mask = cell.mask ? carnot_loop_outer(&loop, cell.mask) : NULL,
               *x = steps_of(&e, &cell), *forward = x ? forward_of(x) : NULL;
  if (!x || (mask && !has_equal_steps(mask, x))) return e.status;
  carnot_value* steps = mask;
  if (mask && forward && !forward_of(mask)) forward = NULL;
  if (mask && forward) mask = forward_of(mask);
  CARNOT_TRY(insert_operator(&e, &cell, forward ? forward : x, mask, forward != NULL, &made));
  carnot_value* last = carnot_emit_squeeze(&e, made->outputs[1], 0);
  take_result(node->outputs[cell.state_h], last);
  if (cell.state_y >= 0) take_result(node->outputs[cell.state_y], last);
  if (cell.state_c >= 0)
    take_result(node->outputs[cell.state_c], carnot_emit_squeeze(&e, made->outputs[2], 0));
  if (node->output_count > loop.carried) {
    carnot_value* y = carnot_emit_squeeze(&e, made->outputs[0], 1);
    if (forward) y = carnot_emit_reversed(&e, y, 0);
    for (int i = loop.carried; i < node->output_count; i++)
      take_result(node->outputs[i], carnot_loop_cell_zeroes(&cell, loop.body->outputs[1 + i])
                                        ? zeroed(&e, y, steps)
                                        : y);
  }
  CARNOT_TRY(e.status);
  carnot_node_remove(node);
  *out_done = true;
  return NULL;
}
