// The com.microsoft domain: attention, brought to ONNX's Attention.
#include "import/onnx/importer.h"

typedef struct heads {
  carnot_value *q, *k,
      *v;  // [batch, length, heads * size], or [batch, heads, length, size] all three
  carnot_value *past_k, *past_v;  // [batch, heads, past, size], or NULL
  carnot_value* bias;             // added to the scores, or NULL
  int64_t count;
} heads;

// [B, S, N H] to [B, N, S, H].
static carnot_value* to_heads(onnx_import* n, carnot_value* x, int64_t count) {
  const int64_t dims[4] = {0, 0, count, -1}, perm[4] = {0, 2, 1, 3};
  return import_transpose(&n->node, import_reshape_to(&n->node, x, dims, 4), perm, 4);
}

static carnot_value* from_heads(onnx_import* n, carnot_value* x) {
  const int64_t dims[3] = {0, 0, -1}, perm[4] = {0, 2, 1, 3};
  return import_reshape_to(&n->node, import_transpose(&n->node, x, perm, 4), dims, 3);
}

// [1]: the length of dimension |axis| of x.
static carnot_value* length_of(onnx_import* n, carnot_value* x, int axis) {
  return import_shape_part(&n->node, x, axis, axis + 1);
}

static carnot_value* range_of(onnx_import* n, carnot_value* length) {
  const int64_t axis = 0;
  return import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0),
                   import_squeeze(&n->node, length, &axis, 1), import_int(&n->node, 1));
}

static carnot_value* add(onnx_import* n, carnot_value* a, carnot_value* b) {
  return !a ? b : !b ? a : import_binary(&n->node, CARNOT_FN_ADD, a, b);
}

// 0 where |keep| holds, else the filter value, in the type of |like|.
static carnot_value* filter(onnx_import* n, carnot_value* keep, const carnot_value* like) {
  double value = onnx_attr_float(n, "mask_filter_value", -10000);
  return import_ternary(&n->node, CARNOT_FN_SELECT, keep, import_number(&n->node, like, 0),
                        import_number(&n->node, like, value));
}

// Position s of the query, which follows the past, sees keys up to itself.
static carnot_value* causal_bias(onnx_import* n, const heads* h, carnot_value* query_length,
                                 carnot_value* past_length, carnot_value* key_length) {
  const int64_t one = 1;
  carnot_value* keys =
      past_length ? import_binary(&n->node, CARNOT_FN_ADD, key_length, past_length) : key_length;
  carnot_value* rows = range_of(n, query_length);
  if (past_length) rows = import_binary(&n->node, CARNOT_FN_ADD, rows, past_length);
  carnot_value* keep = import_binary(&n->node, CARNOT_FN_GREATER_EQUAL,
                                     import_unsqueeze(&n->node, rows, &one, 1), range_of(n, keys));
  return filter(n, keep, h->q);
}

// A mask of 0 and 1 (or lengths) as what is added to the scores.
static carnot_value* mask_bias(onnx_import* n, const heads* h, carnot_value* mask,
                               carnot_value* key_length) {
  if (!mask) return NULL;
  static const int64_t kMiddle[] = {1, 2}, kHead[] = {1}, kLengths[] = {1, 2, 3};
  int rank = import_rank(&n->node, mask);
  if (n->node.status) return NULL;
  if (rank == 1) {
    // Lengths of the sequences; longer forms (starts and ends) hold more than one number for each.
    int64_t batch = import_dim(h->q, 0);
    if (batch < 0 || import_dim(mask, 0) != batch) {
      ONNX_FAIL(n, UNSUPPORTED, "a mask of one dimension must hold one length for each sequence");
      return NULL;
    }
    carnot_value* lengths =
        import_unsqueeze(&n->node, import_cast(&n->node, mask, CARNOT_DTYPE_I64), kLengths, 3);
    return filter(n, import_binary(&n->node, CARNOT_FN_LESS, range_of(n, key_length), lengths),
                  h->q);
  }
  carnot_value* keep =
      import_binary(&n->node, CARNOT_FN_GREATER, mask, import_number(&n->node, mask, 0));
  if (rank == 2)
    keep = import_unsqueeze(&n->node, keep, kMiddle, 2);
  else if (rank == 3)
    keep = import_unsqueeze(&n->node, keep, kHead, 1);
  else if (rank != 4)
    ONNX_FAIL(n, UNSUPPORTED, "a mask of %d dimensions", rank);
  return filter(n, keep, h->q);
}

// Emits the attention proper: outputs y, present key, present value (both NULL where not wanted).
static void attend(onnx_import* n, const heads* h, bool want_present, carnot_value** out) {
  bool split = !n->node.status && h->q->type.rank == 4;
  carnot_attrs attrs = {0};
  if (!split) {
    carnot_attrs_set_int(&attrs, n->node.arena, "q_num_heads", h->count);
    carnot_attrs_set_int(&attrs, n->node.arena, "kv_num_heads", h->count);
  }
  double scale = onnx_attr_float(n, "scale", 0);
  if (scale != 0) carnot_attrs_set_float(&attrs, n->node.arena, "scale", scale);
  carnot_value* inputs[6] = {h->q, h->k, h->v, h->bias, h->past_k, h->past_v};
  import_emit(&n->node, CARNOT_OP_ATTENTION, &attrs, inputs, 6, out, want_present ? 3 : 1);
  if (split) out[0] = from_heads(n, out[0]);
}

static int64_t head_count(onnx_import* n) {
  int64_t count = onnx_attr_int(n, "num_heads", 0);
  if (count <= 0)
    ONNX_FAIL(n, INVALID_MODEL, "num_heads is %lld, must be positive", (long long)count);
  return count;
}

// Splits the last dimension of |x| into three; thirds unless |sizes| says otherwise.
static void split_three(onnx_import* n, carnot_value* x, int64_t axis, const int64_t* sizes,
                        carnot_value** parts) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", axis);
  if (!sizes) carnot_attrs_set_int(&attrs, n->node.arena, "num_outputs", 3);
  carnot_value* inputs[2] = {x, sizes ? import_ints(&n->node, sizes, 3) : NULL};
  import_emit(&n->node, CARNOT_OP_SPLIT, &attrs, inputs, 2, parts, 3);
}

// input, weights [D, 3 N H], bias, mask, past [2, B, N, P, H], attention bias.
static void handle_attention(onnx_import* n) {
  if (onnx_attr_int(n, "do_rotary", 0)) ONNX_FAIL(n, UNSUPPORTED, "do_rotary is not supported");
  if (onnx_in(n, 6)) ONNX_FAIL(n, UNSUPPORTED, "past_sequence_length is not supported");
  size_t size_count = 0;
  const int64_t* sizes = onnx_attr_ints(n, "qkv_hidden_sizes", &size_count);
  if (sizes && size_count != 3) ONNX_FAIL(n, INVALID_MODEL, "qkv_hidden_sizes must have 3 numbers");
  heads h = {.count = head_count(n)};
  carnot_value* x = onnx_need(n, 0);
  carnot_value* parts[3] = {NULL};
  split_three(n, add(n, import_matmul(&n->node, x, onnx_need(n, 1)), onnx_in(n, 2)), 2, sizes,
              parts);
  h.q = parts[0], h.k = parts[1], h.v = parts[2];
  carnot_value *past = onnx_in(n, 4), *length = length_of(n, x, 1), *past_length = NULL,
               *total = length;
  if (past) {
    h.past_k = import_gather(&n->node, past, import_int(&n->node, 0), 0);
    h.past_v = import_gather(&n->node, past, import_int(&n->node, 1), 0);
    past_length = length_of(n, past, 3);
    total = import_binary(&n->node, CARNOT_FN_ADD, length, past_length);
  }
  if (n->node.status) return;
  h.bias = add(n, mask_bias(n, &h, onnx_in(n, 3), total), onnx_in(n, 5));
  if (onnx_attr_int(n, "unidirectional", 0))
    h.bias = add(n, h.bias, causal_bias(n, &h, length, past_length, length));
  carnot_value* out[3] = {NULL};
  bool present = n->output_count > 1 && n->proto->output.items[1].size;
  attend(n, &h, present, out);
  n->outputs[0] = out[0];
  if (!present) return;
  const int64_t axis = 0;
  carnot_value* both[2] = {import_unsqueeze(&n->node, out[1], &axis, 1),
                           import_unsqueeze(&n->node, out[2], &axis, 1)};
  n->outputs[1] = import_concat(&n->node, 0, both, 2);
}

// [B, L, N, parts, H] to part |i| as [B, L, N H].
static carnot_value* unpack(onnx_import* n, carnot_value* x, int64_t i) {
  const int64_t dims[3] = {0, 0, -1};
  return import_reshape_to(&n->node, import_gather(&n->node, x, import_int(&n->node, i), 3), dims,
                           3);
}

static void find_heads(onnx_import* n, heads* h) {
  carnot_value *query = onnx_need(n, 0), *key = onnx_in(n, 1), *value = onnx_in(n, 2);
  int q_rank = import_rank(&n->node, query), k_rank = key ? import_rank(&n->node, key) : 0;
  if (q_rank == 5) {
    h->q = unpack(n, query, 0), h->k = unpack(n, query, 1), h->v = unpack(n, query, 2);
  } else if (k_rank == 5) {
    h->q = query, h->k = unpack(n, key, 0), h->v = unpack(n, key, 1);
  } else {
    h->q = query, h->k = key ? key : query, h->v = value ? value : h->k;
  }
  if (onnx_in(n, 3)) {
    carnot_value* bias[3] = {NULL};
    split_three(n, onnx_in(n, 3), 0, NULL, bias);
    h->q = add(n, h->q, bias[0]);
    // Keys that come as heads were projected (and biased) before.
    if (k_rank != 4) h->k = add(n, h->k, bias[1]), h->v = add(n, h->v, bias[2]);
  }
  if (k_rank == 4) h->q = to_heads(n, h->q, h->count);
}

static void handle_multi_head(onnx_import* n) {
  if (onnx_in(n, 8) || onnx_in(n, 9))
    ONNX_FAIL(n, UNSUPPORTED, "shared buffers and beams are not supported");
  heads h = {.count = head_count(n), .past_k = onnx_in(n, 6), .past_v = onnx_in(n, 7)};
  find_heads(n, &h);
  if (n->node.status) return;
  bool split = h.q->type.rank == 4;
  carnot_value *length = length_of(n, h.q, split ? 2 : 1), *keys = length_of(n, h.k, split ? 2 : 1);
  carnot_value* past_length = h.past_k ? length_of(n, h.past_k, 2) : NULL;
  carnot_value* total =
      past_length ? import_binary(&n->node, CARNOT_FN_ADD, keys, past_length) : keys;
  h.bias = add(n, mask_bias(n, &h, onnx_in(n, 4), total), onnx_in(n, 5));
  if (onnx_attr_int(n, "unidirectional", 0))
    h.bias = add(n, h.bias, causal_bias(n, &h, length, past_length, keys));
  carnot_value* out[3] = {NULL};
  attend(n, &h, n->output_count > 1, out);
  for (int i = 0; i < n->output_count && i < 3; i++) n->outputs[i] = out[i];
}

// ONNX's RotaryEmbedding with another order of inputs; positions [1] are an offset.
static void handle_rotary(onnx_import* n) {
  carnot_value *x = onnx_need(n, 0), *positions = onnx_need(n, 1), *cosines = onnx_need(n, 2),
               *sines = onnx_need(n, 3);
  int rank = import_rank(&n->node, x), position_rank = import_rank(&n->node, positions);
  if (onnx_attr_float(n, "scale", 1) != 1)
    ONNX_FAIL(n, UNSUPPORTED, "a scale other than 1 is not supported");
  if (n->node.status) return;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "interleaved", onnx_attr_int(n, "interleaved", 0));
  int64_t rotary = onnx_attr_int(n, "rotary_embedding_dim", 0),
          count = onnx_attr_int(n, "num_heads", 0);
  if (rotary) carnot_attrs_set_int(&attrs, n->node.arena, "rotary_embedding_dim", rotary);
  if (rank == 3 && !count && import_dim(x, 2) > 0 && import_dim(cosines, 1) > 0) {
    count = import_dim(x, 2) / (2 * import_dim(cosines, 1));
  }
  if (rank == 3) carnot_attrs_set_int(&attrs, n->node.arena, "num_heads", count);
  if (position_rank == 1) {
    carnot_value* row = import_binary(&n->node, CARNOT_FN_ADD,
                                      range_of(n, length_of(n, x, rank == 4 ? 2 : 1)), positions);
    carnot_value* shape[2] = {length_of(n, x, 0), length_of(n, x, rank == 4 ? 2 : 1)};
    positions =
        import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, row, import_concat(&n->node, 0, shape, 2));
  }
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_ROTARY_EMBEDDING, &attrs, 4, x, cosines, sines, positions);
}

#define MS(op_type, handler, OP) \
  { "com.microsoft", op_type, 1, handler, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    MS("Attention", handle_attention, ATTENTION),
    MS("MultiHeadAttention", handle_multi_head, ATTENTION),
    MS("RotaryEmbedding", handle_rotary, ROTARY_EMBEDDING),
};
const onnx_row_table onnx_rows_com_microsoft_attention = ONNX_ROW_TABLE(kRows);
