// GroupQueryAttention of com.microsoft: rotary embedding, a write into the cache and attention with
// lengths. Of batch b with |new| tokens, past[b] = max(0, seqlens_k[b] + 1 - new) come before.
//   q, k = rotary(q, k at past[b] + s);  present = past_key with k written from past[b] on, at
//   least total_sequence_length long;  y = attention(q, present, lengths past[b] + new, causal)
#include "import/onnx/importer.h"

typedef struct group_query {
  int64_t heads, kv_heads, size;  // size -1: not known while importing
  carnot_value *q, *k, *v;        // [B,S,heads size]
  carnot_value *past, *lengths;   // [B] int64: tokens before the new ones, and with them
  carnot_value* length;           // [1] int64: S
} group_query;

static void refuse_options(onnx_import* n) {
  static const struct {
    int input;
    const char* name;
  } kInputs[] = {{11, "head_sink"}, {12, "k_scale"}, {13, "v_scale"}};
  static const char* const kAttrs[] = {"smooth_softmax", "qk_output", "kv_cache_bit_width"};
  for (size_t i = 0; i < sizeof(kInputs) / sizeof(kInputs[0]); i++)
    if (onnx_in(n, kInputs[i].input))
      ONNX_FAIL(n, UNSUPPORTED, "input %s is not supported", kInputs[i].name);
  for (size_t i = 0; i < sizeof(kAttrs) / sizeof(kAttrs[0]); i++)
    if (onnx_attr_int(n, kAttrs[i], 0) > 0)
      ONNX_FAIL(n, UNSUPPORTED, "attribute %s is %lld; only 0 is supported", kAttrs[i],
                (long long)onnx_attr_int(n, kAttrs[i], 0));
  if (n->output_count > 3) ONNX_FAIL(n, UNSUPPORTED, "output_qk is not supported");
}

static void read_heads(onnx_import* n, group_query* g) {
  g->heads = onnx_attr_int(n, "num_heads", 0), g->kv_heads = onnx_attr_int(n, "kv_num_heads", 0);
  if (g->heads <= 0 || g->kv_heads <= 0 || g->heads % g->kv_heads)
    ONNX_FAIL(n, INVALID_MODEL,
              "num_heads is %lld and kv_num_heads %lld; the first must be a multiple of the second",
              (long long)g->heads, (long long)g->kv_heads);
}

// The last dimension divided by |heads|, -1 where it is not known.
static int64_t head_size(onnx_import* n, const carnot_value* x, int64_t heads) {
  int rank = import_rank(&n->node, x);
  if (!n->node.status && rank != 3)
    ONNX_FAIL(n, INVALID_MODEL, "query has %d dimensions, must have 3", rank);
  int64_t last = n->node.status ? -1 : import_dim(x, 2);
  if (last >= 0 && last % heads)
    ONNX_FAIL(n, INVALID_MODEL, "%lld elements do not divide into %lld heads", (long long)last,
              (long long)heads);
  return last < 0 ? -1 : last / heads;
}

// query, key and value, which may come packed as [B,S,(heads + 2 kv_heads) size].
static void read_operands(onnx_import* n, group_query* g) {
  g->q = onnx_need(n, 0), g->k = onnx_in(n, 1), g->v = onnx_in(n, 2);
  if ((g->k == NULL) != (g->v == NULL))
    ONNX_FAIL(n, INVALID_MODEL, "key and value must both be there, or both be packed in query");
  if (n->node.status) return;
  g->size = head_size(n, g->q, g->k ? g->heads : g->heads + 2 * g->kv_heads);
  if (g->k || n->node.status) return;
  if (g->size < 0) {
    ONNX_FAIL(n, UNSUPPORTED, "the last dimension of packed queries, keys and values is not known");
    return;
  }
  const int64_t sizes[3] = {g->heads * g->size, g->kv_heads * g->size, g->kv_heads * g->size};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 2);
  carnot_value *inputs[2] = {g->q, import_ints(&n->node, sizes, 3)}, *parts[3] = {NULL};
  import_emit(&n->node, CARNOT_OP_SPLIT, &attrs, inputs, 2, parts, 3);
  g->q = parts[0], g->k = parts[1], g->v = parts[2];
}

static void read_lengths(onnx_import* n, group_query* g) {
  const int64_t flat = -1;
  g->length = import_shape_part(&n->node, onnx_need(n, 0), 1, 2);
  carnot_value* last = import_cast(&n->node, import_reshape_to(&n->node, onnx_need(n, 5), &flat, 1),
                                   CARNOT_DTYPE_I64);
  const int64_t one = 1;
  carnot_value* fresh =
      import_binary(&n->node, CARNOT_FN_SUB, g->length, import_ints(&n->node, &one, 1));
  g->past =
      import_binary(&n->node, CARNOT_FN_MAX, import_binary(&n->node, CARNOT_FN_SUB, last, fresh),
                    import_int(&n->node, 0));
  g->lengths = import_binary(&n->node, CARNOT_FN_ADD, g->past, g->length);
}

// [B,S]: past[b] + s, or input position_ids.
static carnot_value* positions_of(onnx_import* n, const group_query* g) {
  if (onnx_in(n, 9)) return onnx_in(n, 9);
  const int64_t axis = 0, one = 1;
  carnot_value* steps =
      import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0),
                import_squeeze(&n->node, g->length, &axis, 1), import_int(&n->node, 1));
  return import_binary(&n->node, CARNOT_FN_ADD, import_unsqueeze(&n->node, g->past, &one, 1),
                       steps);
}

static void check_caches(onnx_import* n, const group_query* g, const carnot_value* cosines,
                         const carnot_value* sines) {
  if (n->node.status) return;
  int ranks[2] = {import_rank(&n->node, cosines), import_rank(&n->node, sines)};
  int64_t half = ranks[0] == 2 ? import_dim(cosines, 1) : -1;
  if (ranks[0] != 2 || ranks[1] != 2)
    ONNX_FAIL(n, INVALID_MODEL, "cos_cache has %d dimensions and sin_cache %d; both must have 2",
              ranks[0], ranks[1]);
  else if (half >= 0 && g->size >= 0 && 2 * half > g->size)
    ONNX_FAIL(n, INVALID_MODEL, "cos_cache has %lld columns; at most %lld for heads of %lld",
              (long long)half, (long long)(g->size / 2), (long long)g->size);
  else if (half >= 0 && import_dim(sines, 1) >= 0 && import_dim(sines, 1) != half)
    ONNX_FAIL(n, INVALID_MODEL, "cos_cache has %lld columns and sin_cache %lld; they must be equal",
              (long long)half, (long long)import_dim(sines, 1));
}

static carnot_value* rotated(onnx_import* n, const group_query* g, carnot_value* x, int64_t heads,
                             carnot_value* positions) {
  carnot_value *cosines = onnx_need(n, 7), *sines = onnx_need(n, 8);
  check_caches(n, g, cosines, sines);
  if (n->node.status) return NULL;
  carnot_attrs attrs = {0};
  int64_t half = import_dim(cosines, 1);
  carnot_attrs_set_int(&attrs, n->node.arena, "interleaved",
                       onnx_attr_int(n, "rotary_interleaved", 0));
  carnot_attrs_set_int(&attrs, n->node.arena, "num_heads", heads);
  if (half > 0 && 2 * half != g->size)
    carnot_attrs_set_int(&attrs, n->node.arena, "rotary_embedding_dim", 2 * half);
  return import_op(&n->node, CARNOT_OP_ROTARY_EMBEDDING, &attrs, 4, x, cosines, sines, positions);
}

// [B,S,heads size] to [B,heads,S,size].
static carnot_value* to_heads(onnx_import* n, carnot_value* x, int64_t heads) {
  const int64_t dims[4] = {0, 0, heads, -1}, perm[4] = {0, 2, 1, 3};
  return import_transpose(&n->node, import_reshape_to(&n->node, x, dims, 4), perm, 4);
}

// The new keys or values behind those of |cache|; without one they are all there is.
static carnot_value* cached(onnx_import* n, const group_query* g, carnot_value* cache,
                            carnot_value* x) {
  x = to_heads(n, x, g->kv_heads);
  if (!cache || n->node.status) return x;
  if (import_rank(&n->node, cache) != 4 ||
      (import_dim(cache, 1) >= 0 && import_dim(cache, 1) != g->kv_heads))
    ONNX_FAIL(n, INVALID_MODEL,
              "a cache of %d dimensions with %lld heads; 4 dimensions and %lld heads are required",
              import_rank(&n->node, cache), (long long)import_dim(cache, 1),
              (long long)g->kv_heads);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 2);
  const int64_t flat = -1;
  carnot_value* total = import_cast(
      &n->node, import_reshape_to(&n->node, onnx_need(n, 6), &flat, 1), CARNOT_DTYPE_I64);
  return import_op(&n->node, CARNOT_OP_TENSOR_SCATTER, &attrs, 4, cache, x, g->past, total);
}

static void handle_group_query(onnx_import* n) {
  static const int64_t kBack[4] = {0, 2, 1, 3}, kFlat[3] = {0, 0, -1};
  group_query g = {0};
  refuse_options(n);
  read_heads(n, &g);
  if (n->node.status) return;
  read_operands(n, &g);
  read_lengths(n, &g);
  if (n->node.status) return;
  if (onnx_attr_int(n, "do_rotary", 0)) {
    carnot_value* positions = positions_of(n, &g);
    g.q = rotated(n, &g, g.q, g.heads, positions);
    g.k = rotated(n, &g, g.k, g.kv_heads, positions);
  }
  g.k = cached(n, &g, onnx_in(n, 3), g.k), g.v = cached(n, &g, onnx_in(n, 4), g.v);
  carnot_attrs attrs = {0};
  double scale = onnx_attr_float(n, "scale", 0), softcap = onnx_attr_float(n, "softcap", 0);
  int64_t window = onnx_attr_int(n, "local_window_size", -1);
  carnot_attrs_set_int(&attrs, n->node.arena, "is_causal", 1);
  if (scale != 0) carnot_attrs_set_float(&attrs, n->node.arena, "scale", scale);
  if (softcap != 0) carnot_attrs_set_float(&attrs, n->node.arena, "softcap", softcap);
  // The window counts the query's own position.
  if (window > 0) carnot_attrs_set_int(&attrs, n->node.arena, "left_window_size", window - 1);
  carnot_value* inputs[7] = {to_heads(n, g.q, g.heads),       g.k, g.v, onnx_in(n, 10), NULL, NULL,
                             onnx_in(n, 3) ? g.lengths : NULL};
  carnot_value* y = NULL;
  import_emit(&n->node, CARNOT_OP_ATTENTION, &attrs, inputs, 7, &y, 1);
  n->outputs[0] = import_reshape_to(&n->node, import_transpose(&n->node, y, kBack, 4), kFlat, 3);
  if (n->output_count > 1) n->outputs[1] = g.k;
  if (n->output_count > 2) n->outputs[2] = g.v;
}

static const onnx_row kRows[] = {
    {"com.microsoft", "GroupQueryAttention", 1, handle_group_query, CARNOT_OP_ATTENTION, 0, NULL},
};
const onnx_row_table onnx_rows_com_microsoft_gqa = ONNX_ROW_TABLE(kRows);
