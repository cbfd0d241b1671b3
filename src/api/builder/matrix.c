// Matrix multiplication, normalization, attention, recurrent layers.
#include "api/builder/network.h"

static carnot_status* unsqueeze_at(carnot_network* network, carnot_value* value, int64_t axis,
                                   carnot_value** out_value) {
  return carnot_network_add_unsqueeze(network, value, &axis, 1, out_value);
}

carnot_status* carnot_network_add_matrix_multiply(carnot_network* network, carnot_value* a,
                                                  carnot_matrix_op op_a, carnot_value* b,
                                                  carnot_matrix_op op_b, carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(
      a && b && (unsigned)op_a <= CARNOT_MATRIX_VECTOR && (unsigned)op_b <= CARNOT_MATRIX_VECTOR,
      INVALID_ARGUMENT, "matrix multiply: operations %d and %d", (int)op_a, (int)op_b);
  if (op_a == CARNOT_MATRIX_VECTOR) CARNOT_TRY(unsqueeze_at(network, a, -2, &a));
  if (op_b == CARNOT_MATRIX_VECTOR) CARNOT_TRY(unsqueeze_at(network, b, -1, &b));
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "transA", op_a == CARNOT_MATRIX_TRANSPOSE);
  CARNOT_SET_INT(attrs, network, "transB", op_b == CARNOT_MATRIX_TRANSPOSE);
  carnot_value* matmul;
  CARNOT_TRY(
      carnot_network_add_one(network, CARNOT_OP_MATMUL, &attrs, CARNOT_VALUES(a, b), &matmul));
  int64_t axes[2];
  int count = 0;
  if (op_a == CARNOT_MATRIX_VECTOR) axes[count++] = -2;
  if (op_b == CARNOT_MATRIX_VECTOR) axes[count++] = -1;
  if (count) return carnot_network_add_squeeze(network, matmul, axes, count, out_value);
  *out_value = matmul;
  return NULL;
}

carnot_status* carnot_network_add_fully_connected(carnot_network* network, carnot_value* input,
                                                  carnot_value* weights, carnot_value* bias,
                                                  carnot_value** out_value) {
  *out_value = NULL;
  const int64_t flat[2] = {0, -1}, axes[2] = {2, 3};
  carnot_value *rows, *matmul;
  CARNOT_TRY(carnot_network_add_one(network, CARNOT_OP_RESHAPE, NULL,
                                    CARNOT_VALUES(input, carnot_network_ints(network, flat, 2)),
                                    &rows));
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "transB", 1);
  CARNOT_TRY(carnot_network_add_one(network, CARNOT_OP_GEMM, &attrs,
                                    CARNOT_VALUES(rows, weights, bias), &matmul));
  return carnot_network_add_unsqueeze(network, matmul, axes, 2, out_value);
}

carnot_status* carnot_network_add_einsum(carnot_network* network, const char* equation,
                                         carnot_value* const* inputs, int count,
                                         carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(equation && count > 0, INVALID_ARGUMENT, "einsum of %d operands", count);
  carnot_attrs attrs = {0};
  CARNOT_SET_TEXT(attrs, network, "equation", equation);
  return carnot_network_add_one(network, CARNOT_OP_EINSUM, &attrs, inputs, count, out_value);
}

carnot_status* carnot_network_add_softmax(carnot_network* network, carnot_value* input, int axis,
                                          carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "axis", axis);
  return carnot_network_add_one(network, CARNOT_OP_SOFTMAX, &attrs, CARNOT_VALUES(input),
                                out_value);
}

carnot_status* carnot_network_add_ragged_softmax(carnot_network* network, carnot_value* input,
                                                 carnot_value* bounds, carnot_value** out_value) {
  *out_value = NULL;
  const int64_t zero = 0, one = 1, last = -1;
  carnot_value *shape, *columns, *range, *limit, *stays, *low, *none, *masked, *p;
  CARNOT_TRY(carnot_network_add_shape(network, input, &shape));
  CARNOT_TRY(carnot_network_add_gather(network, shape, carnot_network_ints(network, &last, -1),
                                       CARNOT_GATHER_DEFAULT, 0, 0, &columns));
  CARNOT_TRY(carnot_network_add_fill_linspace(network, carnot_network_ints(network, &zero, -1),
                                              columns, carnot_network_ints(network, &one, -1),
                                              &range));
  CARNOT_TRY(carnot_network_add_cast(network, bounds, CARNOT_DTYPE_I64, &limit));
  CARNOT_TRY(
      carnot_network_add_elementwise(network, range, limit, CARNOT_ELEMENTWISE_LESS, &stays));
  CARNOT_TRY(carnot_network_add_scalar(network, input->type.dtype, -1e30, &low));
  CARNOT_TRY(carnot_network_add_scalar(network, input->type.dtype, 0, &none));
  CARNOT_TRY(carnot_network_add_select(network, stays, input, low, &masked));
  CARNOT_TRY(carnot_network_add_softmax(network, masked, -1, &p));
  return carnot_network_add_select(network, stays, p, none, out_value);
}

// ---- normalisation ----

// Over the last dimensions, from which on.
static int trailing_axis(int rank, const int64_t* axes, int count) {
  uint32_t set = 0;
  for (int i = 0; i < count; i++) set |= 1u << (axes[i] < 0 ? axes[i] + rank : axes[i]);
  uint32_t tail = ((1u << count) - 1) << (rank - count);
  return set == tail ? rank - count : -1;
}

static carnot_status* normalize_by_parts(carnot_network* network, carnot_value* input,
                                         carnot_value* scale, carnot_value* bias,
                                         const int64_t* axes, int count, double epsilon,
                                         carnot_value** out_value) {
  carnot_value *mean, *centred, *square, *variance, *small, *deviation, *y;
  CARNOT_TRY(
      carnot_network_add_reduce(network, input, CARNOT_REDUCE_AVG, axes, count, true, &mean));
  CARNOT_TRY(
      carnot_network_add_elementwise(network, input, mean, CARNOT_ELEMENTWISE_SUB, &centred));
  CARNOT_TRY(
      carnot_network_add_elementwise(network, centred, centred, CARNOT_ELEMENTWISE_PROD, &square));
  CARNOT_TRY(
      carnot_network_add_reduce(network, square, CARNOT_REDUCE_AVG, axes, count, true, &variance));
  CARNOT_TRY(carnot_network_add_scalar(network, input->type.dtype, epsilon, &small));
  CARNOT_TRY(
      carnot_network_add_elementwise(network, variance, small, CARNOT_ELEMENTWISE_SUM, &variance));
  CARNOT_TRY(carnot_network_add_unary(network, variance, CARNOT_UNARY_SQRT, &deviation));
  CARNOT_TRY(
      carnot_network_add_elementwise(network, centred, deviation, CARNOT_ELEMENTWISE_DIV, &y));
  CARNOT_TRY(carnot_network_add_elementwise(network, y, scale, CARNOT_ELEMENTWISE_PROD, &y));
  return carnot_network_add_elementwise(network, y, bias, CARNOT_ELEMENTWISE_SUM, out_value);
}

static carnot_status* flatten_list(carnot_network* network, carnot_value* list,
                                   carnot_value** out_value) {
  const int64_t all = -1;
  *out_value = list;
  if (list->type.rank == 1) return NULL;
  return carnot_network_add_one(network, CARNOT_OP_RESHAPE, NULL,
                                CARNOT_VALUES(list, carnot_network_ints(network, &all, 1)),
                                out_value);
}

carnot_status* carnot_network_add_normalization(carnot_network* network, carnot_value* input,
                                                carnot_value* scale, carnot_value* bias,
                                                const int64_t* axes, int axis_count, int64_t groups,
                                                double epsilon, carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(input && scale && bias && input->type.rank >= 0, INVALID_ARGUMENT,
               "normalization needs input, scale and bias");
  carnot_attrs attrs = {0};
  CARNOT_SET_FLOAT(attrs, network, "epsilon", epsilon);
  if (groups > 1) {
    CARNOT_TRY(flatten_list(network, scale, &scale));
    CARNOT_TRY(flatten_list(network, bias, &bias));
    CARNOT_SET_INT(attrs, network, "num_groups", groups);
    return carnot_network_add_one(network, CARNOT_OP_GROUP_NORM, &attrs,
                                  CARNOT_VALUES(input, scale, bias), out_value);
  }
  int rank = input->type.rank;
  CARNOT_CHECK(axis_count >= 1 && axis_count <= rank, INVALID_ARGUMENT,
               "normalization over %d of %d dimensions", axis_count, rank);
  for (int i = 0; i < axis_count; i++)
    CARNOT_CHECK(axes[i] >= -rank && axes[i] < rank, INVALID_ARGUMENT, "axis %lld of %d dimensions",
                 (long long)axes[i], rank);
  int from = trailing_axis(rank, axes, axis_count);
  if (from < 0)
    return normalize_by_parts(network, input, scale, bias, axes, axis_count, epsilon, out_value);
  CARNOT_SET_INT(attrs, network, "axis", from);
  return carnot_network_add_one(network, CARNOT_OP_LAYER_NORM, &attrs,
                                CARNOT_VALUES(input, scale, bias), out_value);
}

// ---- attention and recurrence ----

carnot_status* carnot_network_add_attention(carnot_network* network, carnot_value* q,
                                            carnot_value* k, carnot_value* v, carnot_value* mask,
                                            const carnot_attention_config* config,
                                            carnot_value** out_value) {
  carnot_attrs attrs = {0};
  if (config && config->causal) CARNOT_SET_INT(attrs, network, "is_causal", 1);
  if (config && config->scale != 0) CARNOT_SET_FLOAT(attrs, network, "scale", config->scale);
  if (config && config->softcap != 0) CARNOT_SET_FLOAT(attrs, network, "softcap", config->softcap);
  return carnot_network_add_one(network, CARNOT_OP_ATTENTION, &attrs, CARNOT_VALUES(q, k, v, mask),
                                out_value);
}

carnot_status* carnot_network_add_rotary_embedding(carnot_network* network, carnot_value* input,
                                                   carnot_value* cosine, carnot_value* sine,
                                                   carnot_value* positions, bool interleaved,
                                                   int64_t rotated, carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "interleaved", interleaved);
  CARNOT_SET_INT(attrs, network, "rotary_embedding_dim", rotated);
  return carnot_network_add_one(network, CARNOT_OP_ROTARY_EMBEDDING, &attrs,
                                CARNOT_VALUES(input, cosine, sine, positions), out_value);
}

carnot_status* carnot_network_add_kv_cache_update(carnot_network* network, carnot_value* cache,
                                                  carnot_value* update, carnot_value* indices,
                                                  carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "axis", 2);
  return carnot_network_add_one(network, CARNOT_OP_TENSOR_SCATTER, &attrs,
                                CARNOT_VALUES(cache, update, indices), out_value);
}

carnot_status* carnot_network_add_rnn(carnot_network* network, carnot_value* input,
                                      carnot_value* weights, carnot_value* recurrence,
                                      carnot_value* bias, const carnot_rnn_config* config,
                                      carnot_value** out_steps, carnot_value** out_hidden,
                                      carnot_value** out_cell) {
  static const carnot_op kOps[] = {CARNOT_OP_RNN, CARNOT_OP_RNN, CARNOT_OP_LSTM, CARNOT_OP_GRU};
  static const carnot_strview kRelu[2] = {{"Relu", 4}, {"Relu", 4}};
  carnot_op op;
  CARNOT_PICK(kOps, config->type, "recurrent layer", op);
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "hidden_size", config->hidden);
  CARNOT_SET_TEXT(attrs, network, "direction", config->bidirectional ? "bidirectional" : "forward");
  carnot_attr relu = {.name = "activations",
                      .type = CARNOT_ATTR_STRINGS,
                      .count = config->bidirectional ? 2 : 1,
                      .strings = kRelu};
  if (config->type == CARNOT_RNN_RELU) carnot_attrs_set(&attrs, &network->graph->arena, relu);
  bool lstm = op == CARNOT_OP_LSTM;
  carnot_node* node;
  CARNOT_TRY(
      carnot_network_add(network, op, &attrs,
                         CARNOT_VALUES(input, weights, recurrence, bias, config->lengths,
                                       config->initial_hidden, lstm ? config->initial_cell : NULL),
                         lstm ? 3 : 2, &node));
  if (out_steps) *out_steps = node->outputs[0];
  if (out_hidden) *out_hidden = node->outputs[1];
  if (out_cell) *out_cell = lstm ? node->outputs[2] : NULL;
  return NULL;
}
