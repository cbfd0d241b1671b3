// Recognises the body of a loop as a recurrent cell. s is sigmoid or another activation:
//   LSTM  c' = s(F) * c + s(I) * t(G);  h' = s(O) * t(c')
//   GRU   h' = s(Z) * h + (1 - s(Z)) * t(N), where N has (s(R) * h) * W or s(R) * (h * W + b)
//   RNN   h' = t(A)
// With a mask, a step that does not count keeps the states: h = select(mask, h', h).
// Each capital letter is x * W + h * R + biases of one unit a column: columns of wider products
// that a split or slice cut, of matrices one below the other where x and h are concatenated.
#include "pass/recurrent_cell.h"

// ---- activations ----

// An activation that the operators have by name, of columns from |column| on.
typedef struct activation {
  const carnot_node* node;
  const carnot_value* value;  // the columns that the gate is
  int64_t column;
} activation;

// The activation that |value| is, or whose columns it is.
static bool is_activation(const carnot_value* value, activation* out) {
  *out = (activation){.value = value};
  for (int depth = 0; value && depth < CARNOT_CELL_DEPTH; depth++) {
    const carnot_node* node = carnot_cell_producer(value);
    const carnot_fn fn = carnot_node_fn(node);
    out->node = node;
    if (node && node->op == CARNOT_OP_UNARY)
      return fn == CARNOT_FN_SIGMOID || fn == CARNOT_FN_TANH || fn == CARNOT_FN_RELU;
    if (!carnot_cell_widen(&value, &out->column)) return false;
  }
  return false;
}

static carnot_fn fn_of(const activation* a) { return carnot_node_fn(a->node); }

// a * b, where |b| is |wanted|; where that is NULL, a is an activation by |fn|.
static bool factors(const carnot_node* node, const carnot_value* wanted, carnot_fn fn,
                    activation* a, carnot_value** b) {
  if (!carnot_node_is_fn(node, CARNOT_FN_MUL)) return false;
  for (int i = 0; i < 2; i++) {
    *b = node->inputs[1 - i];
    if ((!wanted || *b == wanted) && is_activation(node->inputs[i], a) &&
        (wanted || fn_of(a) == fn))
      return true;
  }
  return false;
}

static bool read_gate(const carnot_cell* cell, const activation* a, carnot_cell_gate* gate) {
  return carnot_cell_add_terms(cell, gate, a->node->inputs[0], a->column, 0) &&
         carnot_cell_gate_is_whole(cell, gate);
}

// ---- cells ----

static bool read_lstm(carnot_cell* cell, const carnot_value* h, const carnot_value* c) {
  const carnot_node* sum = carnot_cell_producer(c);
  activation forget, in, content, out, result;
  carnot_value* other;
  if (!carnot_node_is_fn(sum, CARNOT_FN_ADD)) return false;
  int kept = 0;
  while (kept < 2 && !factors(carnot_cell_producer(sum->inputs[kept]), cell->c, 0, &forget, &other))
    kept++;
  if (kept == 2) return false;
  const carnot_fn gates = fn_of(&forget);
  if (!factors(carnot_cell_producer(sum->inputs[1 - kept]), NULL, gates, &in, &other) ||
      !is_activation(other, &content) ||
      !factors(carnot_cell_producer(h), NULL, gates, &out, &other) ||
      !is_activation(other, &result))
    return false;
  if (result.node->inputs[0] != c) {
    // Both factors have the same function.
    const activation swap = out;
    out = result, result = swap;
  }
  if (result.node->inputs[0] != c || result.column || fn_of(&out) != gates) return false;
  cell->op = CARNOT_OP_LSTM;
  cell->activations[0] = gates;
  cell->activations[1] = fn_of(&content);
  cell->activations[2] = fn_of(&result);
  return read_gate(cell, &in, &cell->gates[0]) && read_gate(cell, &out, &cell->gates[1]) &&
         read_gate(cell, &forget, &cell->gates[2]) && read_gate(cell, &content, &cell->gates[3]);
}

// N of a GRU that multiplies the reset gate with the product of the state and its biases.
static bool read_linear(carnot_cell* cell, const activation* content, activation* out_reset) {
  const carnot_node* add = carnot_cell_producer(content->node->inputs[0]);
  carnot_cell_gate *gate = &cell->gates[2], inner = {.bias_count = 0};
  carnot_value* product;
  if (content->column) return false;
  for (int i = 0; i < 2 && carnot_node_is_fn(add, CARNOT_FN_ADD); i++) {
    if (!factors(carnot_cell_producer(add->inputs[i]), NULL, cell->activations[0], out_reset,
                 &product))
      continue;
    if (!carnot_cell_add_terms(cell, &inner, product, 0, 0) || inner.from_x.value ||
        !carnot_cell_add_terms(cell, gate, add->inputs[1 - i], 0, 0) || gate->from_h.value)
      return false;
    gate->from_h = inner.from_h;
    gate->state_bias_count = inner.bias_count;
    memcpy(gate->state_biases, inner.biases, sizeof(inner.biases));
    cell->linear_before_reset = true;
    return carnot_cell_gate_is_whole(cell, gate);
  }
  return false;
}

// The product of the reset gate and the state that |value| is a sum of products with.
static carnot_value* find_reset(const carnot_cell* cell, const carnot_value* value, int* budget,
                                activation* out_reset) {
  carnot_value *found = NULL, *state;
  int64_t column = 0;
  while (*budget > 0 && carnot_cell_widen(&value, &column)) --*budget;
  const carnot_node* node = carnot_cell_producer(value);
  if (!node || --*budget < 0) return NULL;
  if (factors(node, cell->h, 0, out_reset, &state)) return (carnot_value*)(uintptr_t)value;
  if (!carnot_node_is_fn(node, CARNOT_FN_ADD) && node->op != CARNOT_OP_MATMUL &&
      node->op != CARNOT_OP_CONCAT)
    return NULL;
  for (int i = 0; i < node->input_count && !found; i++)
    found = find_reset(cell, node->inputs[i], budget, out_reset);
  return found;
}

// |value| is 1 - gate.
static bool is_rest(const carnot_value* value, const activation* gate) {
  const carnot_node* node = carnot_cell_producer(value);
  double one;
  return carnot_node_is_fn(node, CARNOT_FN_SUB) && carnot_value_scalar(node->inputs[0], &one) &&
         one == 1 && node->inputs[1] == gate->value;
}

static bool read_gru(carnot_cell* cell, const carnot_value* h) {
  const carnot_node* sum = carnot_cell_producer(h);
  activation update, content, reset;
  carnot_value* state;
  if (!carnot_node_is_fn(sum, CARNOT_FN_ADD)) return false;
  int kept = 0;
  while (kept < 2 && !factors(carnot_cell_producer(sum->inputs[kept]), cell->h, 0, &update, &state))
    kept++;
  const carnot_node* product = kept < 2 ? carnot_cell_producer(sum->inputs[1 - kept]) : NULL;
  if (!carnot_node_is_fn(product, CARNOT_FN_MUL)) return false;
  const int rest = is_rest(product->inputs[0], &update) ? 0 : 1;
  if (!is_rest(product->inputs[rest], &update) ||
      !is_activation(product->inputs[1 - rest], &content))
    return false;
  cell->op = CARNOT_OP_GRU;
  cell->activations[0] = fn_of(&update);
  cell->activations[1] = fn_of(&content);
  if (!read_linear(cell, &content, &reset)) {
    memset(&cell->gates[2], 0, sizeof(cell->gates[2]));
    cell->linear_before_reset = false;
    int budget = CARNOT_CELL_DEPTH;
    cell->reset = find_reset(cell, content.node->inputs[0], &budget, &reset);
    if (!cell->reset || !read_gate(cell, &content, &cell->gates[2])) return false;
    cell->reset = NULL;
  }
  return fn_of(&reset) == cell->activations[0] && read_gate(cell, &update, &cell->gates[0]) &&
         read_gate(cell, &reset, &cell->gates[1]);
}

static bool read_rnn(carnot_cell* cell, const carnot_value* h) {
  activation result;
  if (!is_activation(h, &result)) return false;
  memset(cell->gates, 0, sizeof(cell->gates));
  cell->op = CARNOT_OP_RNN;
  cell->activations[0] = fn_of(&result);
  return read_gate(cell, &result, &cell->gates[0]);
}

// The first element of each iteration: rows [B,I] of [T,B,I].
static carnot_value* find_input(const carnot_loop* loop) {
  for (const carnot_node* node = loop->body->first; node; node = node->next)
    if (node->op == CARNOT_OP_GATHER && carnot_loop_keeps(loop, node->inputs[0]) &&
        !node->inputs[0]->constant && carnot_is_ranked(node->inputs[0]) &&
        node->inputs[0]->type.rank == 3 && node->outputs[0]->type.rank == 2 &&
        carnot_dtype_is_float(node->outputs[0]->type.dtype) &&
        carnot_attr_int(carnot_node_row(node), &node->attrs, "axis") == 0 &&
        carnot_loop_is_iteration(loop, node->inputs[1]))
      return node->outputs[0];
  return NULL;
}

// ---- masks ----

// What carried value |k| becomes in a step that counts; notes the mask in |cell|.
static const carnot_value* next_of(carnot_cell* cell, int k) {
  const carnot_block* body = cell->loop->body;
  const carnot_value* next = body->outputs[1 + k];
  const carnot_node* select = carnot_cell_select_of(next, body->params[2 + k]);
  if (!cell->mask) return next;
  return select && carnot_cell_mask_of(cell->loop, select->inputs[0]) == cell->mask
             ? select->inputs[1]
             : NULL;
}

static bool read_states(carnot_cell* cell, int h, int c) {
  const carnot_block* body = cell->loop->body;
  carnot_cell blank = {.loop = cell->loop, .x = cell->x, .state_h = h, .state_c = c};
  blank.state_y = cell->state_y;
  *cell = blank;
  const carnot_node* select = carnot_cell_select_of(body->outputs[1 + h], body->params[2 + h]);
  if (select) cell->mask = carnot_cell_mask_of(cell->loop, select->inputs[0]);
  if (select && !cell->mask) return false;
  const carnot_value *next_h = next_of(cell, h), *next_c = c < 0 ? NULL : next_of(cell, c);
  if (!next_h || (c >= 0 && !next_c)) return false;
  cell->h = body->params[2 + h];
  cell->c = c < 0 ? NULL : body->params[2 + c];
  cell->hidden = carnot_cell_columns(cell->h);
  if (!carnot_is_ranked(cell->h) || cell->h->type.rank != 2 || cell->hidden < 1) return false;
  if (c < 0) return read_gru(cell, next_h) || read_rnn(cell, next_h);
  return carnot_is_ranked(cell->c) && cell->c->type.rank == 2 &&
         carnot_cell_columns(cell->c) == cell->hidden && read_lstm(cell, next_h, next_c);
}

bool carnot_loop_cell_read(const carnot_loop* loop, carnot_cell* out) {
  *out = (carnot_cell){.loop = loop, .x = find_input(loop)};
  int states[2], count = 0;
  if (!out->x || loop->carried > 3) return false;
  out->state_y = carnot_cell_find_repeated(loop);
  for (int k = 0; k < loop->carried; k++) {
    if (k == out->state_y) continue;
    if (count == 2) return false;
    states[count++] = k;
  }
  if (count == 1) return read_states(out, states[0], -1);
  return count == 2 &&
         (read_states(out, states[0], states[1]) || read_states(out, states[1], states[0]));
}
