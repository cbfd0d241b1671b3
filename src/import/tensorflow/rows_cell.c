// Cells of recurrent networks, written out as products and functions. Source:
// tensorflow/core/ops/rnn_ops.cc, tensorflow/core/kernels/rnn.
#include "import/tensorflow/rows.h"

enum { kMostSteps = 256 };  // of BlockLSTM, whose steps are written out

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

// Weights and settings of an LSTM; gates are in the order input, cell, forget, output.
typedef struct lstm {
  carnot_value *w, *peephole[3], *bias;  // of the input, forget and output gate
  carnot_value* forget_bias;
  double clip;
  bool has_peephole;
} lstm;

enum { GATE_I, STATE, GATE_F, GATE_O, CELL_IN, CELL_OUT, HIDDEN, RESULTS };

static lstm read_lstm(tf_import* n, int first) {
  lstm l = {.w = n->inputs[first],
            .peephole = {n->inputs[first + 1], n->inputs[first + 2], n->inputs[first + 3]},
            .bias = n->inputs[first + 4],
            .clip = tf_float(n, "cell_clip", 3),
            .has_peephole = tf_bool(n, "use_peephole", false)};
  l.forget_bias = import_number(&n->node, l.w, tf_float(n, "forget_bias", 1));
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
  out[CELL_IN] = tanh_of(n, x_of[1]);
  out[GATE_F] = gate(n, l, add(n, x_of[2], l->forget_bias), 1, state);
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

// seq_len_max, x [T, B, I], cs_prev, h_prev, w, wci, wcf, wco, b: results are [T, B, ..].
static void handle_block_lstm(tf_import* n) {
  const int64_t steps = import_dim(n->inputs[1], 0), longest = tf_need_int(n, 0, "seq_len_max");
  carnot_value *results[RESULTS], **kept[RESULTS], *state = n->inputs[2], *hidden = n->inputs[3];
  static const int64_t kFirst[] = {0};
  if (n->node.status) return;
  if (steps < 1 || steps > kMostSteps || longest < steps) {
    TF_FAIL(n, UNSUPPORTED, "%lld steps, seq_len_max %lld; 1 to %d of known number are supported",
            (long long)steps, (long long)longest, kMostSteps);
    return;
  }
  const lstm l = read_lstm(n, 4);
  for (int i = 0; i < RESULTS; i++)
    kept[i] = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, (size_t)steps);
  if (!import_has_memory(&n->node)) return;
  for (int64_t t = 0; t < steps && !n->node.status; t++) {
    carnot_value* x = import_gather(&n->node, n->inputs[1], import_int(&n->node, t), 0);
    lstm_step(n, &l, x, state, hidden, results);
    if (n->node.status) return;
    state = results[STATE], hidden = results[HIDDEN];
    for (int i = 0; i < RESULTS; i++)
      kept[i][t] = import_unsqueeze(&n->node, results[i], kFirst, 1);
  }
  n->output_count = RESULTS;
  for (int i = 0; i < RESULTS; i++) n->outputs[i] = import_concat(&n->node, 0, kept[i], (int)steps);
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
    {"GRUBlockCell", handle_gru_cell, 6, 6, 0, NULL, "r u c h"},
};
const tf_row_table tf_rows_cell = TF_ROW_TABLE(kRows);
