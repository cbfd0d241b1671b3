// LSTM and RNN: a scan over time with the marker that begins sequences anew. Source:
// recurrent_layer, lstm_layer, lstm_unit_layer and rnn_layer of BVLC/caffe.
#include "import/caffe/handlers.h"

// The bottoms x [T, N, ..], cont [T, N], then static [N, ..] and with expose_hidden the states.
typedef struct recurrence {
  int64_t steps, batch, features, size;  // size: of the state
  int states;                            // 2: LSTM, 1: RNN
  bool has_static, exposes;
  size_t next_blob;
} recurrence;

static int64_t count_behind(caffe_import* n, int i, int first) {
  int64_t count = 1;
  const int rank = import_rank(&n->node, n->inputs[i]);
  for (int d = first; d < rank; d++)
    if (!carnot_mul_i64(count, caffe_dim(n, i, d), &count))
      CAFFE_FAIL(n, OUT_OF_RANGE, "bottom %d is too large", i);
  return count;
}

static void read_recurrence(caffe_import* n, int states, recurrence* r) {
  *r = (recurrence){.states = states};
  r->exposes = caffe_int(n->fields, "expose_hidden", 0) != 0;
  r->size = caffe_positive(n, "num_output", CAFFE_MOST_SIZE);
  const int wanted = 2 + (r->exposes ? states : 0);
  r->has_static = n->input_count == wanted + 1;
  if (n->input_count != wanted + r->has_static || n->output_count != (r->exposes ? 1 + states : 1))
    CAFFE_FAIL(n, INVALID_MODEL, "%d bottoms and %d tops; %d or %d, and %d required",
               n->input_count, n->output_count, wanted, wanted + 1, r->exposes ? 1 + states : 1);
  if (n->node.status) return;
  caffe_rank(n, 0, 2, CARNOT_MAX_RANK);
  caffe_rank(n, 1, 2, 2);
  r->steps = caffe_dim(n, 0, 0);
  r->batch = caffe_dim(n, 0, 1);
  r->features = count_behind(n, 0, 2);
}

static carnot_value* dense(caffe_import* n, carnot_value* x, carnot_value* weights,
                           carnot_value* bias) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "transB", 1);
  return import_op(&n->node, CARNOT_OP_GEMM, &attrs, 3, x, weights, bias);
}

// What of the gates does not depend on the state: [T, N, |outputs|].
static carnot_value* project_inputs(caffe_import* n, recurrence* r, int64_t outputs) {
  const int64_t dims[2] = {outputs, r->features}, flat[2] = {-1, r->features},
                shape[3] = {r->steps, r->batch, outputs};
  carnot_value* weights = caffe_weights(n, 0, dims, 2, r->features);
  carnot_value* bias = caffe_weights(n, 1, &outputs, 1, 30);
  carnot_value* x = import_reshape_to(&n->node, n->inputs[0], flat, 2);
  carnot_value* y = import_reshape_to(&n->node, dense(n, x, weights, bias), shape, 3);
  r->next_blob = 2;
  if (!r->has_static) return y;
  const int64_t features = count_behind(n, 2, 1), static_dims[2] = {outputs, features},
                static_flat[2] = {-1, features};
  carnot_value* constant = dense(n, import_reshape_to(&n->node, n->inputs[2], static_flat, 2),
                                 caffe_weights(n, r->next_blob++, static_dims, 2, features), NULL);
  return import_binary(&n->node, CARNOT_FN_ADD, y, constant);
}

// State |i| before the first step, [N, H].
static carnot_value* first_state(caffe_import* n, const recurrence* r, int i) {
  const int64_t dims[2] = {r->batch, r->size};
  if (r->exposes)
    return import_reshape_to(&n->node, n->inputs[n->input_count - r->states + i], dims, 2);
  return import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2,
                   import_number_of(&n->node, CARNOT_DTYPE_F32, 0), import_ints(&n->node, dims, 2));
}

static carnot_value* body_param(carnot_block* body, const char* name, const carnot_value* like,
                                bool slice) {
  carnot_type type = like->type;
  if (slice) {
    for (int d = 1; d < type.rank; d++) type.dims[d - 1] = type.dims[d];
    type.rank--;
  }
  return carnot_block_add_param(body, name, &type);
}

static carnot_value* gate(import_node* body, carnot_value* all, int64_t size, int i, carnot_fn fn) {
  return import_unary(body, fn, import_slice(body, all, 1, i * size, (i + 1) * size));
}

// One step: gates [N, 4H] in the order input, forget, output, candidate.
static void lstm_step(import_node* body, const recurrence* r, carnot_value* const* params,
                      carnot_value** results) {
  static const int64_t kLast[] = {1};
  static const int64_t kSwap[] = {1, 0};
  carnot_value *h = params[0], *c = params[1], *gates = params[2], *weights = params[4];
  carnot_value* cont = import_unsqueeze(body, params[3], kLast, 1);
  carnot_value* kept = import_binary(body, CARNOT_FN_MUL, h, cont);
  carnot_value* from_state = import_matmul(body, kept, import_transpose(body, weights, kSwap, 2));
  carnot_value* all = import_binary(body, CARNOT_FN_ADD, gates, from_state);
  carnot_value *in = gate(body, all, r->size, 0, CARNOT_FN_SIGMOID),
               *forget = gate(body, all, r->size, 1, CARNOT_FN_SIGMOID),
               *out = gate(body, all, r->size, 2, CARNOT_FN_SIGMOID),
               *candidate = gate(body, all, r->size, 3, CARNOT_FN_TANH);
  carnot_value* old =
      import_binary(body, CARNOT_FN_MUL, import_binary(body, CARNOT_FN_MUL, forget, c), cont);
  carnot_value* next =
      import_binary(body, CARNOT_FN_ADD, old, import_binary(body, CARNOT_FN_MUL, in, candidate));
  results[1] = next;
  results[0] = import_binary(body, CARNOT_FN_MUL, out, import_unary(body, CARNOT_FN_TANH, next));
}

static void rnn_step(import_node* body, const recurrence* r, carnot_value* const* params,
                     carnot_value** results) {
  static const int64_t kLast[] = {1};
  static const int64_t kSwap[] = {1, 0};
  (void)r;
  carnot_value *h = params[0], *given = params[1], *weights = params[3];
  carnot_value* cont = import_unsqueeze(body, params[2], kLast, 1);
  carnot_value* kept = import_binary(body, CARNOT_FN_MUL, h, cont);
  carnot_value* sum =
      import_binary(body, CARNOT_FN_ADD, given,
                    import_matmul(body, kept, import_transpose(body, weights, kSwap, 2)));
  results[0] = import_unary(body, CARNOT_FN_TANH, sum);
}

// A scan over |given| and the marker: the last states, and all states 0 stacked behind them.
static void scan(caffe_import* n, const recurrence* r, carnot_value* given, carnot_value* weights,
                 carnot_value** outputs) {
  static const char* const kNames[] = {"h", "c"};
  carnot_value *inputs[5], *params[5], *results[2] = {NULL, NULL};
  int count = 0;
  for (int i = 0; i < r->states; i++) inputs[count++] = first_state(n, r, i);
  inputs[count++] = given;
  inputs[count++] = n->inputs[1];
  inputs[count++] = weights;
  for (int i = 0; i < count; i++)
    if (!inputs[i]) return;
  carnot_block* block = carnot_block_create(n->importer->state.graph);
  for (int i = 0; i < count; i++) {
    const bool slice = i == r->states || i == r->states + 1;
    const char* name = i < r->states    ? kNames[i]
                       : i == count - 1 ? "weights"
                       : i == r->states ? "x"
                                        : "cont";
    name =
        import_unique_name(&n->importer->state, "",
                           carnot_view(carnot_arena_print(n->node.arena, CARNOT_VIEW_FMT ".%s",
                                                          CARNOT_VIEW_ARG(n->layer->name), name)));
    params[i] = body_param(block, name, inputs[i], slice);
  }
  import_node body = n->node;
  body.block = block;
  (r->states == 2 ? lstm_step : rnn_step)(&body, r, params, results);
  n->node.status = body.status;
  if (n->node.status) return;
  for (int i = 0; i < r->states; i++) carnot_block_add_output(block, results[i]);
  carnot_block_add_output(block, results[0]);
  carnot_attrs attrs = {0};
  carnot_attrs_set(&attrs, n->node.arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = block});
  carnot_attrs_set_int(&attrs, n->node.arena, "carried", r->states);
  carnot_attrs_set_int(&attrs, n->node.arena, "scanned", 2);
  import_emit(&n->node, CARNOT_OP_SCAN, &attrs, inputs, count, outputs, r->states + 1);
}

// The last states as tops [1, N, H].
static void expose(caffe_import* n, const recurrence* r, carnot_value* const* last) {
  static const int64_t kFirst[] = {0};
  for (int i = 0; r->exposes && i < r->states; i++)
    n->outputs[1 + i] = import_unsqueeze(&n->node, last[i], kFirst, 1);
}

static void handle_lstm(caffe_import* n) {
  recurrence r;
  carnot_value* outputs[3] = {NULL, NULL, NULL};
  read_recurrence(n, 2, &r);
  if (n->node.status) return;
  caffe_expect_blobs(n, 3 + (size_t)r.has_static);
  carnot_value* gates = project_inputs(n, &r, 4 * r.size);
  const int64_t dims[2] = {4 * r.size, r.size};
  scan(n, &r, gates, caffe_weights(n, r.next_blob, dims, 2, r.size), outputs);
  n->outputs[0] = outputs[2];
  expose(n, &r, outputs);
}

static void handle_rnn(caffe_import* n) {
  recurrence r;
  carnot_value* outputs[2] = {NULL, NULL};
  read_recurrence(n, 1, &r);
  if (n->node.status) return;
  caffe_expect_blobs(n, 5 + (size_t)r.has_static);
  carnot_value* given = project_inputs(n, &r, r.size);
  const int64_t dims[2] = {r.size, r.size}, flat[2] = {-1, r.size},
                shape[3] = {r.steps, r.batch, r.size};
  scan(n, &r, given, caffe_weights(n, r.next_blob, dims, 2, r.size), outputs);
  carnot_value* states = import_reshape_to(&n->node, outputs[1], flat, 2);
  carnot_value* y = dense(n, states, caffe_weights(n, r.next_blob + 1, dims, 2, r.size),
                          caffe_weights(n, r.next_blob + 2, &r.size, 1, 30));
  n->outputs[0] = import_unary(&n->node, CARNOT_FN_TANH, import_reshape_to(&n->node, y, shape, 3));
  expose(n, &r, outputs);
}

static const caffe_row kRows[] = {
    {"LSTM", handle_lstm, "recurrent_param", 2, 5, 0, NULL},
    {"RNN", handle_rnn, "recurrent_param", 2, 4, 0, NULL},
};
const caffe_row_table caffe_rows_recurrent = CAFFE_ROW_TABLE(kRows);
