// Attention.
#include <math.h>

#include "import/onnx/importer.h"

// The output of the one-input graph in attribute |name| applied to |x|; x itself where the
// attribute is absent.
static carnot_value* modify(onnx_import* n, const char* name, carnot_value* x) {
  const onnx_attribute* attr = onnx_attr(n, name);
  if (!attr || n->node.status) return x;
  carnot_value* y = NULL;
  if (!attr->g)
    ONNX_FAIL(n, INVALID_MODEL, "attribute %s holds no graph", name);
  else
    onnx_body_inline(n, attr->g, &x, 1, &y, 1);
  return y;
}

// [b, heads, s, d] to [b, heads * each, s, d], each head |each| times.
static carnot_value* repeat_heads(onnx_import* n, carnot_value* x, int64_t each) {
  if (each == 1 || n->node.status) return x;
  const int64_t axis = 2, rest = -1;
  const int64_t repeats[5] = {1, 1, each, 1, 1};
  carnot_value* tiled =
      import_op(&n->node, CARNOT_OP_TILE, NULL, 2, import_unsqueeze(&n->node, x, &axis, 1),
                import_ints(&n->node, repeats, 5));
  carnot_value* parts[3] = {import_shape_part(&n->node, x, 0, 1), import_ints(&n->node, &rest, 1),
                            import_shape_part(&n->node, x, 2, 4)};
  return import_reshape(&n->node, tiled, import_concat(&n->node, 0, parts, 3));
}

// softmax(score_mod(scale q kT)) through prob_mod, times v; the middle in softmax_precision.
static void handle_flex_attention(onnx_import* n) {
  static const int64_t kSwap[] = {0, 1, 3, 2};
  carnot_value *q = onnx_need(n, 0), *k = onnx_need(n, 1), *v = onnx_need(n, 2);
  int64_t size = n->node.status ? -1 : import_dim(q, 3),
          heads = n->node.status ? -1 : import_dim(q, 1);
  int64_t kv_heads = n->node.status ? -1 : import_dim(k, 1);
  if (size <= 0 || heads <= 0 || kv_heads <= 0 || heads % kv_heads) {
    ONNX_FAIL(n, UNSUPPORTED,
              "the numbers of heads and their size must be known, one a multiple of the other");
  }
  if (n->node.status) return;
  carnot_dtype type = q->type.dtype;
  carnot_dtype middle =
      onnx_attr_dtype(n, "softmax_precision", type == CARNOT_DTYPE_F64 ? type : CARNOT_DTYPE_F32);
  k = repeat_heads(n, k, heads / kv_heads);
  v = repeat_heads(n, v, heads / kv_heads);
  double scale = onnx_attr_float(n, "scale", 1 / sqrt((double)size));
  carnot_value* scores =
      import_matmul(&n->node, import_cast(&n->node, q, middle),
                    import_transpose(&n->node, import_cast(&n->node, k, middle), kSwap, 4));
  scores = modify(
      n, "score_mod",
      import_binary(&n->node, CARNOT_FN_MUL, scores, import_number(&n->node, scores, scale)));
  carnot_value* chances = modify(n, "prob_mod", import_softmax(&n->node, scores, -1));
  n->outputs[0] = import_cast(
      &n->node, import_matmul(&n->node, chances, import_cast(&n->node, v, middle)), type);
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("Attention", 23, ATTENTION),
    SAME("LinearAttention", 27, LINEAR_ATTENTION),
    SAME("RotaryEmbedding", 23, ROTARY_EMBEDDING),
    {"ai.onnx.preview", "FlexAttention", 1, handle_flex_attention, CARNOT_OP_ATTENTION, 0, NULL},
};
const onnx_row_table onnx_rows_attention = ONNX_ROW_TABLE(kRows);
