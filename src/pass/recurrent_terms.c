// Sums of products in the body of a loop: the columns that one gate of a recurrent cell reads, of
// products and biases that several gates share.
#include "pass/recurrent_cell.h"

int64_t carnot_cell_columns(const carnot_value* value) {
  const int rank = value && carnot_is_ranked(value) ? value->type.rank : 0;
  return rank == 1 || rank == 2 ? carnot_cell_dim(value, rank - 1) : -1;
}

// ---- columns of wider values ----

// A slice of columns only: where it begins, else -1.
static int64_t sliced_from(const carnot_node* node) {
  enum { kMostAxes = 4 };
  int64_t starts[kMostAxes], ends[kMostAxes], axes[kMostAxes] = {0, 1, 2, 3}, steps[kMostAxes],
                                              from = 0;
  const int count = carnot_value_ints(node->inputs[1], starts, kMostAxes),
            rank = node->inputs[0]->type.rank;
  if (rank != 2 || count < 1 || carnot_value_ints(node->inputs[2], ends, kMostAxes) != count)
    return -1;
  if (node->input_count > 3 && node->inputs[3] &&
      carnot_value_ints(node->inputs[3], axes, kMostAxes) != count)
    return -1;
  for (int i = 0; i < count; i++) steps[i] = 1;
  if (node->input_count > 4 && node->inputs[4] &&
      carnot_value_ints(node->inputs[4], steps, kMostAxes) != count)
    return -1;
  for (int i = 0; i < count; i++) {
    const bool is_column = axes[i] == 1 || axes[i] == -1;
    if (steps[i] != 1 || starts[i] < 0 || (!is_column && (starts[i] || ends[i] < INT32_MAX)))
      return -1;
    if (is_column) from = starts[i];
  }
  return from;
}

bool carnot_cell_widen(const carnot_value** value, int64_t* column) {
  const carnot_node* node = carnot_cell_producer(*value);
  if (!node || node->inputs[0] == NULL) return false;
  if (node->op == CARNOT_OP_SLICE) {
    const int64_t from = sliced_from(node);
    if (from < 0) return false;
    *column += from;
  } else if (node->op == CARNOT_OP_SPLIT) {
    const int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
    if (node->inputs[0]->type.rank != 2 || (axis != 1 && axis != -1)) return false;
    for (int i = 0; node->outputs[i] != *value; i++) {
      if (carnot_cell_columns(node->outputs[i]) < 0) return false;
      *column += carnot_cell_columns(node->outputs[i]);
    }
  } else if (node->op != CARNOT_OP_IDENTITY) {
    return false;
  }
  *value = node->inputs[0];
  return true;
}

// ---- sums ----

// What of the cell a product reads: its input or its state.
static carnot_cell_matrix* factor(const carnot_cell* cell, carnot_cell_gate* gate,
                                  const carnot_value* a) {
  if (cell->reset ? a == cell->reset : a == cell->h) return &gate->from_h;
  const carnot_node* gather = carnot_cell_producer(a);
  return gather && gather->op == CARNOT_OP_GATHER &&
                 gather->inputs[0] == carnot_cell_producer(cell->x)->inputs[0] &&
                 carnot_loop_is_iteration(cell->loop, gather->inputs[1])
             ? &gate->from_x
             : NULL;
}

static bool add_factor(const carnot_cell* cell, carnot_cell_gate* gate, const carnot_value* a,
                       carnot_cell_matrix matrix) {
  carnot_cell_matrix* to = factor(cell, gate, a);
  if (!to || to->value || matrix.rows < 0) return false;
  *to = matrix;
  return true;
}

static bool add_product(const carnot_cell* cell, carnot_cell_gate* gate, const carnot_node* node,
                        int64_t column) {
  const carnot_op_row* row = carnot_node_row(node);
  carnot_value *a = node->inputs[0], *w = node->inputs[1];
  if (!carnot_loop_keeps(cell->loop, w) || !carnot_is_ranked(w) || w->type.rank != 2 ||
      carnot_attr_int(row, &node->attrs, "transA") || carnot_attr_int(row, &node->attrs, "transB"))
    return false;
  const carnot_node* concat = carnot_cell_producer(a);
  if (!concat || concat->op != CARNOT_OP_CONCAT)
    return add_factor(cell, gate, a, (carnot_cell_matrix){w, 0, carnot_cell_dim(w, 0), column});
  const int64_t axis = carnot_attr_int(carnot_node_row(concat), &concat->attrs, "axis");
  int64_t from = 0;
  if (a->type.rank != 2 || (axis != 1 && axis != -1)) return false;
  for (int i = 0; i < concat->input_count; i++) {
    const int64_t rows = carnot_cell_columns(concat->inputs[i]);
    if (!add_factor(cell, gate, concat->inputs[i], (carnot_cell_matrix){w, from, rows, column}))
      return false;
    from += rows;
  }
  return true;
}

static bool add_bias(const carnot_cell* cell, carnot_cell_gate* gate, carnot_value* bias,
                     int64_t column) {
  if (!carnot_loop_keeps(cell->loop, bias) || !carnot_is_ranked(bias) || bias->type.rank > 2 ||
      (bias->type.rank == 2 && carnot_cell_dim(bias, 0) != 1) ||
      (bias->type.rank > 0 && carnot_cell_columns(bias) < 0) ||
      gate->bias_count == CARNOT_CELL_BIASES)
    return false;
  const bool one = bias->type.rank == 0 || carnot_cell_columns(bias) == 1;
  gate->biases[gate->bias_count++] = (carnot_cell_matrix){bias, 0, 1, one ? 0 : column};
  return true;
}

bool carnot_cell_add_terms(const carnot_cell* cell, carnot_cell_gate* gate,
                           const carnot_value* value, int64_t column, int depth) {
  if (depth > CARNOT_CELL_DEPTH) return false;
  if (carnot_loop_keeps(cell->loop, value))
    return add_bias(cell, gate, (carnot_value*)(uintptr_t)value, column);
  while (carnot_cell_widen(&value, &column))
    if (++depth > CARNOT_CELL_DEPTH) return false;
  const carnot_node* node = carnot_cell_producer(value);
  if (carnot_node_is_fn(node, CARNOT_FN_ADD))
    return carnot_cell_add_terms(cell, gate, node->inputs[0], column, depth + 1) &&
           carnot_cell_add_terms(cell, gate, node->inputs[1], column, depth + 1);
  return node && node->op == CARNOT_OP_MATMUL && add_product(cell, gate, node, column);
}

bool carnot_cell_gate_is_whole(const carnot_cell* cell, const carnot_cell_gate* gate) {
  return gate->from_x.value && gate->from_h.value && gate->from_h.rows == cell->hidden;
}
