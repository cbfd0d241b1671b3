// Cells of recurrent networks, written out as products and functions. Source:
// tensorflow/core/ops/rnn_ops.cc, tensorflow/core/kernels/rnn.
#include "import/tensorflow/control.h"
#include "import/tensorflow/rows.h"
#include "ops/control.h"

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}
static carnot_value* add(tf_import* n, carnot_value* x, carnot_value* y) {
  return binary(n, CARNOT_FN_ADD, x, y);
}
static carnot_value* mul(tf_import* n, carnot_value* x, carnot_value* y) {
  return binary(n, CARNOT_FN_MUL, x, y);
}
static carnot_value* sigmoid(tf_import* n, carnot_value* x) {
  return import_unary(&n->node, CARNOT_FN_SIGMOID, x);
}
static carnot_value* tanh_of(tf_import* n, carnot_value* x) {
  return import_unary(&n->node, CARNOT_FN_TANH, x);
}
// [a, b] w + bias
static carnot_value* product(tf_import* n, carnot_value* a, carnot_value* b, carnot_value* w,
                             carnot_value* bias) {
  carnot_value* parts[2] = {a, b};
  return add(n, import_matmul(&n->node, import_concat(&n->node, 1, parts, 2), w), bias);
}

// Weights and settings of an LSTM. |cell_at|, |forget_at|: which quarter of the product they are.
typedef struct lstm {
  carnot_value *w, *peephole[3], *bias;  // of the input, forget and output gate
  carnot_value* forget_bias;
  double clip;
  bool has_peephole;
  int cell_at, forget_at;
} lstm;

enum { GATE_I, STATE, GATE_F, GATE_O, CELL_IN, CELL_OUT, HIDDEN, RESULTS };

static lstm read_lstm(tf_import* n, int first) {
  const bool is_v2 = carnot_view_is(n->proto->op, "BlockLSTMV2");
  lstm l = {.w = n->inputs[first],
            .peephole = {n->inputs[first + 1], n->inputs[first + 2], n->inputs[first + 3]},
            .bias = n->inputs[first + 4],
            .clip = tf_float(n, "cell_clip", is_v2 ? 0 : 3),
            .has_peephole = tf_bool(n, "use_peephole", false),
            .cell_at = is_v2 ? 2 : 1,
            .forget_at = is_v2 ? 1 : 2};
  l.forget_bias = import_number(&n->node, l.w, is_v2 ? 0 : tf_float(n, "forget_bias", 1));
  return l;
}

static carnot_value* gate(tf_import* n, const lstm* l, carnot_value* x, int which,
                          carnot_value* state) {
  return sigmoid(n, l->has_peephole ? add(n, x, mul(n, state, l->peephole[which])) : x);
}

// One step: the RESULTS values of x, the state of the cell and the hidden state before.
static void lstm_step(tf_import* n, const lstm* l, carnot_value* x, carnot_value* state,
                      carnot_value* hidden, carnot_value** out) {
  carnot_value* all = product(n, x, hidden, l->w, l->bias);
  const int64_t width = import_dim(l->bias, 0);
  if (width < 4 || width % 4)
    TF_FAIL(n, UNSUPPORTED, "a bias of %lld elements; 4 gates of known width are required",
            (long long)width);
  if (n->node.status) return;
  carnot_value* x_of[4];
  for (int g = 0; g < 4; g++)
    x_of[g] = import_slice(&n->node, all, 1, g * (width / 4), (g + 1) * (width / 4));
  out[GATE_I] = gate(n, l, x_of[0], 0, state);
  out[CELL_IN] = tanh_of(n, x_of[l->cell_at]);
  out[GATE_F] = gate(n, l, add(n, x_of[l->forget_at], l->forget_bias), 1, state);
  carnot_value* next = add(n, mul(n, out[CELL_IN], out[GATE_I]), mul(n, state, out[GATE_F]));
  if (l->clip > 0)
    next = import_ternary(&n->node, CARNOT_FN_CLIP, next, import_number(&n->node, next, -l->clip),
                          import_number(&n->node, next, l->clip));
  out[STATE] = next;
  out[GATE_O] = gate(n, l, x_of[3], 2, next);
  out[CELL_OUT] = tanh_of(n, next);
  out[HIDDEN] = mul(n, out[CELL_OUT], out[GATE_O]);
}

// x, cs_prev, h_prev, w, wci, wcf, wco, b
static void handle_lstm_cell(tf_import* n) {
  const lstm l = read_lstm(n, 3);
  n->output_count = RESULTS;
  lstm_step(n, &l, n->inputs[0], n->inputs[1], n->inputs[2], n->outputs);
}

// ---- BlockLSTM ----

// What the body of the loop reads of the node's inputs: the states, then what does not change.
enum { kX = 1, kState, kHidden, kWeights, kBlockInputs = 9 };

// (iteration, condition, state, hidden, x, weights..) -> (condition, state, hidden, RESULTS..)
static carnot_block* block_body(tf_import* n, carnot_value* const* from, int count) {
  const carnot_type iteration = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64},
                    condition = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL};
  carnot_value *inside[kBlockInputs] = {NULL}, *results[RESULTS] = {NULL};
  tf_import inner = *n;
  inner.node.block = carnot_block_create(n->node.state->graph);
  carnot_value* step = tf_new_param(n, inner.node.block, &iteration);
  carnot_value* again = tf_new_param(n, inner.node.block, &condition);
  inside[kState] = tf_new_param(n, inner.node.block, &from[0]->type);
  inside[kHidden] = tf_new_param(n, inner.node.block, &from[1]->type);
  inside[kX] = tf_new_param(n, inner.node.block, &from[2]->type);
  for (int i = 3; i < count; i++)
    inside[kWeights + i - 3] = tf_new_param(n, inner.node.block, &from[i]->type);
  inner.inputs = inside;
  const lstm l = read_lstm(&inner, kWeights);
  lstm_step(&inner, &l, import_gather(&inner.node, inside[kX], step, 0), inside[kState],
            inside[kHidden], results);
  n->node.status = inner.node.status;
  if (n->node.status) return NULL;
  carnot_block_add_output(inner.node.block, again);
  carnot_block_add_output(inner.node.block, results[STATE]);
  carnot_block_add_output(inner.node.block, results[HIDDEN]);
  for (int i = 0; i < RESULTS; i++) carnot_block_add_output(inner.node.block, results[i]);
  return inner.node.block;
}

// |x| [steps, B, H], whose sizes a loop of no steps does not know, with |missing| zeros behind.
static carnot_value* fill_steps(tf_import* n, carnot_value* x, carnot_value* steps,
                                carnot_value* missing) {
  import_node* e = &n->node;
  static const int64_t kNone[] = {0, 0, 0};
  carnot_value* sizes[2] = {steps, import_shape_of(e, n->inputs[kHidden])};
  carnot_value* widths[3] = {import_ints(e, kNone, 3), missing, import_ints(e, kNone, 2)};
  return import_op(e, CARNOT_OP_PAD, NULL, 3, import_reshape(e, x, import_concat(e, 0, sizes, 2)),
                   import_concat(e, 0, widths, 3), import_number(e, x, 0));
}

// seq_len_max, x [T, B, I], cs_prev, h_prev, w, wci, wcf, wco, b: results are [T, B, ..], zeros
// from step seq_len_max on.
static void handle_block_lstm(tf_import* n) {
  import_node* e = &n->node;
  static const int64_t kOne[] = {1};
  carnot_value *inputs[kBlockInputs + 1] = {NULL}, *results[2 + RESULTS] = {NULL};
  carnot_value* time = import_shape_part(e, n->inputs[kX], 0, 1);
  carnot_value* steps =
      binary(n, CARNOT_FN_MIN, time, import_reshape_to(e, tf_int64(n, n->inputs[0]), kOne, 1));
  inputs[0] = import_reshape_to(e, steps, NULL, 0);
  inputs[2] = n->inputs[kState], inputs[3] = n->inputs[kHidden], inputs[4] = n->inputs[kX];
  for (int i = kWeights; i < kBlockInputs; i++) inputs[i + 1] = n->inputs[i];
  if (n->node.status) return;
  carnot_block* body = block_body(n, inputs + 2, kBlockInputs - 1);
  if (!body) return;
  carnot_attrs attrs = {0};
  carnot_attrs_set(&attrs, n->node.arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = body});
  carnot_attrs_set_int(&attrs, n->node.arena, "carried", 2);
  carnot_attrs_set_int(&attrs, n->node.arena, "counted", 1);
  carnot_control_note_items(&attrs, n->node.arena, body->outputs + 3, RESULTS);
  import_emit(e, CARNOT_OP_LOOP, &attrs, inputs, kBlockInputs + 1, results, 2 + RESULTS);
  carnot_value* missing = binary(n, CARNOT_FN_SUB, time, steps);
  n->output_count = RESULTS;
  for (int i = 0; i < RESULTS; i++) n->outputs[i] = fill_steps(n, results[2 + i], steps, missing);
}

// x, h_prev, w_ru, w_c, b_ru, b_c
static void handle_gru_cell(tf_import* n) {
  carnot_value *x = n->inputs[0], *hidden = n->inputs[1];
  carnot_value* gates = sigmoid(n, product(n, x, hidden, n->inputs[2], n->inputs[4]));
  const int64_t width = import_dim(n->inputs[4], 0) / 2;
  if (width < 1) TF_FAIL(n, UNSUPPORTED, "the width of the gates is not known");
  if (n->node.status) return;
  carnot_value* reset = import_slice(&n->node, gates, 1, 0, width);
  carnot_value* update = import_slice(&n->node, gates, 1, width, 2 * width);
  carnot_value* cell = tanh_of(n, product(n, x, mul(n, hidden, reset), n->inputs[3], n->inputs[5]));
  carnot_value* keep = binary(n, CARNOT_FN_SUB, import_number(&n->node, update, 1), update);
  n->outputs[0] = reset;
  n->outputs[1] = update;
  n->outputs[2] = cell;
  n->outputs[3] = add(n, mul(n, keep, cell), mul(n, update, hidden));
  n->output_count = 4;
}

#define NAMES "i cs f o ci co h"
static const tf_row kRows[] = {
    {"LSTMBlockCell", handle_lstm_cell, 8, 8, 0, NULL, NAMES},
    {"BlockLSTM", handle_block_lstm, 9, 9, 0, NULL, NAMES},
    {"BlockLSTMV2", handle_block_lstm, 9, 9, 0, NULL, NAMES},
    {"GRUBlockCell", handle_gru_cell, 6, 6, 0, NULL, "r u c h"},
};
const tf_row_table tf_rows_cell = TF_ROW_TABLE(kRows);
