// GroupQueryAttention of com.microsoft: rotary embedding, a write into the cache and attention with
// lengths. Of batch b with |new| tokens, past[b] = max(0, seqlens_k[b] + 1 - new) come before.
//   q, k = rotary(q, k at past[b] + s);  present = past_key with k written from past[b] on, at
//   least total_sequence_length long;  y = attention(q, present, lengths past[b] + new, causal)
// Caches may be quantized, with a scale or one for each channel: int8(round(k / scale)), or
// float8e4m3fn(k / scale), is written, and present * scale attended.
#include "import/onnx/importer.h"

typedef struct group_query {
  int64_t heads, kv_heads, size;  // size -1: not known while importing
  carnot_value *q, *k, *v;        // [B,S,heads size]
  carnot_value *past, *lengths;   // [B] int64: tokens before the new ones, and with them
  carnot_value* length;           // [1] int64: S
} group_query;

// A cache: [1,1,1,1] or [1,kv_heads,1,size] of scales, NULL where it is not quantized.
typedef struct cache_names {
  const char *past, *scale, *type;
  int past_input, scale_input;
} cache_names;
static const cache_names kKeys = {"past_key", "k_scale", "k_quant_type", 3, 12},
                         kValues = {"past_value", "v_scale", "v_quant_type", 4, 13};

static void refuse_options(onnx_import* n) {
  static const struct {
    int input;
    const char* name;
  } kInputs[] = {
      {11, "head_sink"}, {14, "q_norm_weight"}, {15, "k_norm_weight"}, {16, "query_seqlens"}};
  static const char* const kAttrs[] = {"smooth_softmax", "qk_output", "sliding_window_cache"};
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

static carnot_value* read_scale(onnx_import* n, const group_query* g, const cache_names* names) {
  const carnot_strview type = onnx_attr_text(n, names->type, "NONE");
  const bool is_none = carnot_view_is(type, "NONE"), by_tensor = carnot_view_is(type, "PER_TENSOR");
  const int64_t bits = onnx_attr_int(n, "kv_cache_bit_width", 0);
  carnot_value* scale = onnx_in(n, names->scale_input);
  if (!is_none && !by_tensor && !carnot_view_is(type, "PER_CHANNEL"))
    ONNX_FAIL(n, UNSUPPORTED,
              "attribute %s is " CARNOT_VIEW_FMT "; NONE, PER_TENSOR and PER_CHANNEL are supported",
              names->type, CARNOT_VIEW_ARG(type));
  else if (is_none != !scale)
    ONNX_FAIL(n, INVALID_MODEL, "attribute %s is " CARNOT_VIEW_FMT ", and input %s is %s",
              names->type, CARNOT_VIEW_ARG(type), names->scale, scale ? "given" : "absent");
  else if (bits != (is_none ? 0 : 8))
    ONNX_FAIL(
        n, UNSUPPORTED,
        "attribute kv_cache_bit_width is %lld; only %d is supported where %s is " CARNOT_VIEW_FMT
        "",
        (long long)bits, is_none ? 0 : 8, names->type, CARNOT_VIEW_ARG(type));
  if (!scale || n->node.status) return NULL;
  const int64_t dims[4] = {1, by_tensor ? 1 : g->kv_heads, 1, by_tensor ? 1 : -1};
  return import_reshape_to(&n->node, import_cast(&n->node, scale, CARNOT_DTYPE_F32), dims, 4);
}

static carnot_value* quantized(onnx_import* n, carnot_value* x, carnot_value* scale,
                               carnot_dtype dtype) {
  x = import_binary(&n->node, CARNOT_FN_DIV, import_cast(&n->node, x, CARNOT_DTYPE_F32), scale);
  if (dtype == CARNOT_DTYPE_I8)
    x = import_unary_with(&n->node, CARNOT_FN_CLAMP, import_unary(&n->node, CARNOT_FN_ROUND, x),
                          -128, 127);
  return import_cast(&n->node, x, dtype);
}

static void check_cache(onnx_import* n, const group_query* g, const carnot_value* cache,
                        const carnot_value* scale, const char* name) {
  const carnot_dtype dtype = cache->type.dtype;
  if (import_rank(&n->node, cache) != 4 ||
      (import_dim(cache, 1) >= 0 && import_dim(cache, 1) != g->kv_heads))
    ONNX_FAIL(n, INVALID_MODEL,
              "a cache of %d dimensions with %lld heads; 4 dimensions and %lld heads are required",
              import_rank(&n->node, cache), (long long)import_dim(cache, 1),
              (long long)g->kv_heads);
  else if (scale && dtype != CARNOT_DTYPE_I8 && dtype != CARNOT_DTYPE_F8E4M3FN)
    ONNX_FAIL(n, UNSUPPORTED, "%s is %s; int8 and float8e4m3fn are supported with scales", name,
              carnot_dtype_name(dtype));
}

// The new keys or values behind those of the cache; without one they are all there is.
// |out_present|: as stored; returns them as they are attended.
static carnot_value* cached(onnx_import* n, const group_query* g, const cache_names* names,
                            carnot_value* x, carnot_value** out_present) {
  carnot_value *cache = onnx_in(n, names->past_input), *scale = read_scale(n, g, names);
  x = to_heads(n, x, g->kv_heads);
  *out_present = x;
  if (scale && !cache)
    ONNX_FAIL(n, UNSUPPORTED, "input %s without %s is not supported", names->scale, names->past);
  if (!cache || n->node.status) return x;
  check_cache(n, g, cache, scale, names->past);
  if (n->node.status) return NULL;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 2);
  const int64_t flat = -1;
  carnot_value* total = import_cast(
      &n->node, import_reshape_to(&n->node, onnx_need(n, 6), &flat, 1), CARNOT_DTYPE_I64);
  carnot_value* fresh = scale ? quantized(n, x, scale, cache->type.dtype) : x;
  *out_present =
      import_op(&n->node, CARNOT_OP_TENSOR_SCATTER, &attrs, 4, cache, fresh, g->past, total);
  if (!scale) return *out_present;
  carnot_value* whole = import_binary(&n->node, CARNOT_FN_MUL,
                                      import_cast(&n->node, *out_present, CARNOT_DTYPE_F32), scale);
  return import_cast(&n->node, whole, onnx_need(n, 0)->type.dtype);
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
  carnot_value* present[2];
  g.k = cached(n, &g, &kKeys, g.k, &present[0]);
  g.v = cached(n, &g, &kValues, g.v, &present[1]);
  if (n->node.status) return;
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
  if (n->output_count > 1) n->outputs[1] = present[0];
  if (n->output_count > 2) n->outputs[2] = present[1];
}

static const onnx_row kRows[] = {
    {"com.microsoft", "GroupQueryAttention", 1, handle_group_query, CARNOT_OP_ATTENTION, 0, NULL},
};
const onnx_row_table onnx_rows_com_microsoft_gqa = ONNX_ROW_TABLE(kRows);
