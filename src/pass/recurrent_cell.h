// A loop over a recurrent cell: what its body computes, as sums of products.
#ifndef CARNOT_PASS_RECURRENT_CELL_H_
#define CARNOT_PASS_RECURRENT_CELL_H_

#include "pass/loops.h"

enum { CARNOT_CELL_GATES = 4, CARNOT_CELL_BIASES = 4 };

// Rows [row, row + rows) and columns from |column| on of a matrix that a loop reads.
typedef struct carnot_cell_matrix {
  carnot_value* value;  // of the body; NULL: none
  int64_t row, rows, column;
} carnot_cell_matrix;

// The sum that a gate's activation takes: x * from_x + h * from_h + biases.
typedef struct carnot_cell_gate {
  carnot_cell_matrix from_x, from_h;
  carnot_cell_matrix biases[CARNOT_CELL_BIASES];        // added to the product of x
  carnot_cell_matrix state_biases[CARNOT_CELL_BIASES];  // to that of h, where these are apart
  int bias_count, state_bias_count;
} carnot_cell_gate;

// Gates are in the order of the operator: LSTM i, o, f, c; GRU z, r, h; RNN one.
typedef struct carnot_cell {
  const carnot_loop* loop;
  carnot_op op;
  carnot_value* mask;        // read by the body, [T,B,1]: steps that count; NULL: all
  carnot_value *x, *h, *c;   // of the body: this step's input (a gather), the states
  carnot_value* reset;       // GRU: the reset gate times h; NULL before it is known
  int state_h, state_c;      // carried values; -1: none
  int state_y;               // a carried value that is always equal to h; -1: none
  bool linear_before_reset;  // GRU
  int64_t hidden;            // units
  carnot_fn activations[3];  // of the gates, of the new content, of the result
  carnot_cell_gate gates[CARNOT_CELL_GATES];
} carnot_cell;

enum { CARNOT_CELL_DEPTH = 24 };  // of nodes that a search goes through

// ---- helpers that the files of the recogniser share ----

static inline const carnot_node* carnot_cell_producer(const carnot_value* value) {
  return value ? value->producer : NULL;
}
// Dimension |axis| where it is plain, else -1.
static inline int64_t carnot_cell_dim(const carnot_value* value, int axis) {
  if (!value || !carnot_is_ranked(value) || axis >= value->type.rank ||
      !carnot_sym_is_const(value->type.dims[axis]))
    return -1;
  return value->type.dims[axis].bits;
}
// Columns of a matrix [rows, columns] or a vector; -1: not known.
int64_t carnot_cell_columns(const carnot_value* value);
// Column *column of |*value| as one of the wider value that a split or slice cut it out of, which
// becomes *value. False where there is none.
bool carnot_cell_widen(const carnot_value** value, int64_t* column);
// Adds columns [column, column + hidden) of |value| to the sum of |gate|; false where |value| is no
// such sum.
bool carnot_cell_add_terms(const carnot_cell* cell, carnot_cell_gate* gate,
                           const carnot_value* value, int64_t column, int depth);
// The sum has one product of the input and one of the state.
bool carnot_cell_gate_is_whole(const carnot_cell* cell, const carnot_cell_gate* gate);
// The mask [T,B,1] of which |condition| is this step's part, spread over the units; NULL: another.
carnot_value* carnot_cell_mask_of(const carnot_loop* loop, const carnot_value* condition);
// The node that makes |value| of |state| in steps that do not count, else NULL.
const carnot_node* carnot_cell_select_of(const carnot_value* value, const carnot_value* state);
// A carried value that is always equal to another, which is a masked state; -1: none.
int carnot_cell_find_repeated(const carnot_loop* loop);

// Reads the cell of |loop|, which is simplified; false where it is none.
bool carnot_loop_cell_read(const carnot_loop* loop, carnot_cell* out);
// |result| of the body is the state, with zeros for steps that the mask leaves out.
bool carnot_loop_cell_zeroes(const carnot_cell* cell, const carnot_value* result);

#endif  // CARNOT_PASS_RECURRENT_CELL_H_
