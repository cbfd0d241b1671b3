// Attention.
#include <math.h>

#include "import/onnx/importer.h"

// The output of the one-input graph in attribute |name| applied to |x|; x itself where the
// attribute is absent.
static carnot_value* modify(onnx_import* n, const char* name, carnot_value* x) {
  const onnx_attribute* attr = onnx_attr(n, name);
  if (!attr || n->status) return x;
  carnot_value* y = NULL;
  if (!attr->g)
    ONNX_FAIL(n, INVALID_MODEL, "attribute %s holds no graph", name);
  else
    onnx_body_inline(n, attr->g, &x, 1, &y, 1);
  return y;
}

// [b, heads, s, d] to [b, heads * each, s, d], each head |each| times.
static carnot_value* repeat_heads(onnx_import* n, carnot_value* x, int64_t each) {
  if (each == 1 || n->status) return x;
  const int64_t axis = 2, rest = -1;
  const int64_t repeats[5] = {1, 1, each, 1, 1};
  carnot_value* tiled =
      onnx_op(n, CARNOT_OP_TILE, NULL, 2, onnx_unsqueeze(n, x, &axis, 1), onnx_ints(n, repeats, 5));
  carnot_value* parts[3] = {onnx_shape_part(n, x, 0, 1), onnx_ints(n, &rest, 1),
                            onnx_shape_part(n, x, 2, 4)};
  return onnx_reshape(n, tiled, onnx_concat(n, 0, parts, 3));
}

// softmax(score_mod(scale q kT)) through prob_mod, times v; the middle in softmax_precision.
static void import_flex_attention(onnx_import* n) {
  static const int64_t kSwap[] = {0, 1, 3, 2};
  carnot_value *q = onnx_need(n, 0), *k = onnx_need(n, 1), *v = onnx_need(n, 2);
  int64_t size = n->status ? -1 : onnx_dim(q, 3), heads = n->status ? -1 : onnx_dim(q, 1);
  int64_t kv_heads = n->status ? -1 : onnx_dim(k, 1);
  if (size <= 0 || heads <= 0 || kv_heads <= 0 || heads % kv_heads) {
    ONNX_FAIL(n, UNSUPPORTED,
              "the numbers of heads and their size must be known, one a multiple of the other");
  }
  if (n->status) return;
  carnot_dtype type = q->type.dtype;
  carnot_dtype middle =
      onnx_attr_dtype(n, "softmax_precision", type == CARNOT_DTYPE_F64 ? type : CARNOT_DTYPE_F32);
  k = repeat_heads(n, k, heads / kv_heads);
  v = repeat_heads(n, v, heads / kv_heads);
  double scale = onnx_attr_float(n, "scale", 1 / sqrt((double)size));
  carnot_value* scores =
      onnx_matmul(n, onnx_cast(n, q, middle), onnx_transpose(n, onnx_cast(n, k, middle), kSwap, 4));
  scores =
      modify(n, "score_mod", onnx_binary(n, CARNOT_FN_MUL, scores, onnx_number(n, scores, scale)));
  carnot_value* chances = modify(n, "prob_mod", onnx_softmax(n, scores, -1));
  n->outputs[0] = onnx_cast(n, onnx_matmul(n, chances, onnx_cast(n, v, middle)), type);
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("Attention", 23, ATTENTION),
    SAME("LinearAttention", 27, LINEAR_ATTENTION),
    SAME("RotaryEmbedding", 23, ROTARY_EMBEDDING),
    {"ai.onnx.preview", "FlexAttention", 1, import_flex_attention, CARNOT_OP_ATTENTION, 0, NULL},
};
const onnx_row_table onnx_rows_attention = ONNX_ROW_TABLE(kRows);
