// Recurrent networks of cuDNN: layers over layers, in one or both directions, whose weights are one
// list |params|: of each layer and direction the matrices of the input and of the state by gate,
// then in the same order the biases of the input and of the state. Gates are in the order input,
// forget, cell, output (LSTM) or reset, update, new (GRU). Source:
// tensorflow/core/ops/cudnn_rnn_ops.cc, NVIDIA cuDNN, cudnnGetRNNWeightParams.
#include "import/tensorflow/rows.h"

enum { kX, kHidden, kState, kParams, kLengths };
enum { kMostGates = 4, kMostLayers = 64, kWidest = 1 << 20 };

typedef struct kind {
  const char* mode;
  carnot_op op;
  int gates, order[kMostGates];  // ONNX's gate i is cuDNN's gate order[i]
  const char* activation;        // NULL: that of the operator
} kind;

static const kind kKinds[] = {{"lstm", CARNOT_OP_LSTM, 4, {0, 3, 1, 2}, NULL},
                              {"gru", CARNOT_OP_GRU, 3, {1, 0, 2}, NULL},
                              {"rnn_tanh", CARNOT_OP_RNN, 1, {0}, "Tanh"},
                              {"rnn_relu", CARNOT_OP_RNN, 1, {0}, "Relu"}};

typedef struct network {
  const kind* kind;
  int64_t layers, directions, units, width;  // |width|: of the first layer's input
  bool is_batch_first;
} network;

// ---- what the node says ----

static void read_attributes(tf_import* n, network* net) {
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(kKinds[0]); i++)
    if (tf_is(n, "rnn_mode", kKinds[i].mode, "lstm")) net->kind = &kKinds[i];
  if (!net->kind) TF_FAIL(n, INVALID_MODEL, "rnn_mode is none of lstm, gru, rnn_tanh, rnn_relu");
  net->directions = tf_is(n, "direction", "bidirectional", "unidirectional") ? 2 : 1;
  net->is_batch_first = !tf_bool(n, "time_major", true);
  if (tf_int(n, "num_proj", 0)) TF_FAIL(n, UNSUPPORTED, "num_proj is not 0");
  const bool may_skip =
      tf_is(n, "input_mode", "auto_select", "linear_input") && net->width == net->units;
  if (tf_is(n, "input_mode", "skip_input", "linear_input") || may_skip)
    TF_FAIL(n, UNSUPPORTED, "input_mode is skip_input; linear_input is required");
  if (tf_float(n, "dropout", 0) > 0 && tf_bool(n, "is_training", true))
    TF_FAIL(n, UNSUPPORTED, "dropout while training");
}

static network read_network(tf_import* n) {
  network net = {.layers = 1};
  const int x_rank = import_rank(&n->node, n->inputs[kX]);
  const int rank = import_rank(&n->node, n->inputs[kHidden]);
  if (n->node.status) return net;
  if (x_rank != 3 || rank != 3) {
    TF_FAIL(n, INVALID_MODEL, "input of rank %d and input_h of rank %d; 3 is required", x_rank,
            rank);
    return net;
  }
  net.width = import_dim(n->inputs[kX], 2);
  net.units = import_dim(n->inputs[kHidden], 2);
  read_attributes(n, &net);
  const int64_t all = import_dim(n->inputs[kHidden], net.is_batch_first ? 1 : 0);
  if (net.width < 1 || net.units < 1 || all < 1)
    TF_FAIL(n, UNSUPPORTED,
            "the width of input, or the layers or units of input_h, are not known when importing");
  else if (net.width > kWidest || net.units > kWidest)
    TF_FAIL(n, UNSUPPORTED, "an input of %lld and %lld units; at most %d are supported",
            (long long)net.width, (long long)net.units, kWidest);
  else if (all % net.directions || all / net.directions > kMostLayers)
    TF_FAIL(n, INVALID_MODEL, "input_h of %lld layers and directions; %lld to %lld are possible",
            (long long)all, (long long)net.directions, (long long)(kMostLayers * net.directions));
  net.layers = all / net.directions;
  return net;
}

// ---- weights ----

// Where the parts of |params| begin.
typedef struct cursor {
  int64_t weights, biases;
} cursor;

static int64_t input_width(const network* net, int64_t layer) {
  return layer ? net->directions * net->units : net->width;
}

// |count| numbers of |params| for each gate from |first| on, in ONNX's order of gates.
static carnot_value* by_gate(tf_import* n, const network* net, int64_t first, int64_t count) {
  carnot_value* parts[kMostGates];
  for (int g = 0; g < net->kind->gates; g++) {
    const int64_t at = first + net->kind->order[g] * count;
    parts[g] = import_slice(&n->node, n->inputs[kParams], 0, at, at + count);
  }
  return import_concat(&n->node, 0, parts, net->kind->gates);
}

// W, R and the biases of |layer|: [D, gates * units, ..].
static void read_weights(tf_import* n, const network* net, int64_t layer, cursor* at,
                         carnot_value** out) {
  import_node* e = &n->node;
  const int64_t units = net->units, width = input_width(net, layer),
                rows = net->kind->gates * units;
  const int64_t w_dims[3] = {1, rows, width}, r_dims[3] = {1, rows, units},
                b_dims[2] = {1, 2 * rows};
  carnot_value* parts[3][2];
  for (int64_t d = 0; d < net->directions; d++) {
    parts[0][d] = import_reshape_to(e, by_gate(n, net, at->weights, units * width), w_dims, 3);
    at->weights += rows * width;
    parts[1][d] = import_reshape_to(e, by_gate(n, net, at->weights, units * units), r_dims, 3);
    at->weights += rows * units;
    carnot_value* both[2] = {by_gate(n, net, at->biases, units),
                             by_gate(n, net, at->biases + rows, units)};
    parts[2][d] = import_reshape_to(e, import_concat(e, 0, both, 2), b_dims, 2);
    at->biases += 2 * rows;
  }
  for (int i = 0; i < 3; i++) out[i] = import_concat(e, 0, parts[i], (int)net->directions);
}

// Where the biases begin. A message where |params| has another number of elements than required.
static cursor begin(tf_import* n, const network* net) {
  cursor at = {0, 0};
  const int64_t rows = net->kind->gates * net->units, given = import_dim(n->inputs[kParams], 0);
  for (int64_t layer = 0; layer < net->layers; layer++)
    at.biases += net->directions * rows * (input_width(net, layer) + net->units);
  const int64_t wanted = at.biases + net->layers * net->directions * 2 * rows;
  if (given >= 0 && given != wanted)
    TF_FAIL(n, INVALID_MODEL, "params has %lld elements; %lld are required", (long long)given,
            (long long)wanted);
  return at;
}

// ---- layers ----

static void set_attributes(tf_import* n, const network* net, carnot_attrs* attrs) {
  carnot_attrs_set_int(attrs, n->node.arena, "hidden_size", net->units);
  carnot_attrs_set_text(attrs, n->node.arena, "direction",
                        net->directions == 2 ? "bidirectional" : "forward");
  if (net->kind->op == CARNOT_OP_GRU)
    carnot_attrs_set_int(attrs, n->node.arena, "linear_before_reset", 1);
  if (!net->kind->activation) return;
  carnot_strview* names = CARNOT_NEW_ARRAY(n->node.arena, carnot_strview, 2);
  if (!import_has_memory(&n->node)) return;
  names[0] = names[1] = carnot_view(net->kind->activation);
  carnot_attrs_set(attrs, n->node.arena,
                   (carnot_attr){.name = "activations",
                                 .type = CARNOT_ATTR_STRINGS,
                                 .strings = names,
                                 .count = (size_t)net->directions});
}

// Layer |layer| over |x| [T, B, ..]: out[0] [T, B, D * units], and the last states [D, B, units].
static void add_layer(tf_import* n, const network* net, int64_t layer, carnot_value* x,
                      carnot_value* const* states, cursor* at, carnot_value** out) {
  import_node* e = &n->node;
  const bool is_lstm = net->kind->op == CARNOT_OP_LSTM;
  const int64_t first = layer * net->directions;
  carnot_value *inputs[7] = {x}, *results[3] = {NULL};
  carnot_attrs attrs = {0};
  read_weights(n, net, layer, at, &inputs[1]);
  if (n->input_count > kLengths) inputs[4] = tf_int64(n, n->inputs[kLengths]);
  inputs[5] = import_slice(e, states[0], 0, first, first + net->directions);
  if (is_lstm) inputs[6] = import_slice(e, states[1], 0, first, first + net->directions);
  set_attributes(n, net, &attrs);
  import_emit(e, net->kind->op, &attrs, inputs, is_lstm ? 7 : 6, results, is_lstm ? 3 : 2);
  static const int64_t kBatchFirst[] = {0, 2, 1, 3};
  const int64_t joined[3] = {0, 0, net->directions * net->units};
  out[0] = import_reshape_to(e, import_transpose(e, results[0], kBatchFirst, 4), joined, 3);
  out[1] = results[1], out[2] = results[2];
}

// Batch and time, or batch and layers, in the other order where the batch is first.
static carnot_value* swapped(tf_import* n, const network* net, carnot_value* x) {
  static const int64_t kSwap[] = {1, 0, 2};
  return net->is_batch_first ? import_transpose(&n->node, x, kSwap, 3) : x;
}

// input [T, B, I], input_h [layers * D, B, units], input_c, params, and of V3 the number of steps
// of each sequence.
static void handle_cudnn_rnn(tf_import* n) {
  const network net = read_network(n);
  if (n->node.status) return;
  const bool is_lstm = net.kind->op == CARNOT_OP_LSTM;
  cursor at = begin(n, &net);
  carnot_value *x = swapped(n, &net, n->inputs[kX]), *last[2][kMostLayers], *made[3];
  carnot_value* states[2] = {swapped(n, &net, n->inputs[kHidden]), NULL};
  if (is_lstm) states[1] = swapped(n, &net, n->inputs[kState]);
  for (int64_t layer = 0; layer < net.layers && !n->node.status; layer++) {
    add_layer(n, &net, layer, x, states, &at, made);
    x = made[0], last[0][layer] = made[1], last[1][layer] = made[2];
  }
  if (n->node.status) return;
  n->output_count = 3;
  n->outputs[0] = swapped(n, &net, x);
  n->outputs[1] = swapped(n, &net, import_concat(&n->node, 0, last[0], (int)net.layers));
  n->outputs[2] = n->inputs[kState];
  if (is_lstm)
    n->outputs[2] = swapped(n, &net, import_concat(&n->node, 0, last[1], (int)net.layers));
}

#define OUTPUTS "output output_h output_c reserve_space"
static const tf_row kRows[] = {
    {"CudnnRNN", handle_cudnn_rnn, 4, 4, 0, NULL, OUTPUTS},
    {"CudnnRNNV2", handle_cudnn_rnn, 4, 4, 0, NULL, OUTPUTS " host_reserved"},
    {"CudnnRNNV3", handle_cudnn_rnn, 5, 5, 0, NULL, OUTPUTS " host_reserved"},
};
const tf_row_table tf_rows_cudnn_rnn = TF_ROW_TABLE(kRows);
