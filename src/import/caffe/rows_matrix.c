// Layers that multiply by a matrix, or look up in one. Source: inner_product_layer and embed_layer
// of BVLC/caffe.
#include "import/caffe/handlers.h"

// Dimensions from |axis| on are flattened to K: [.., K] x [N, K] + [N].
static void handle_inner_product(caffe_import* n) {
  const int axis = caffe_axis(n, "axis", 1);
  const bool transposed = caffe_int(n->fields, "transpose", 0) != 0;
  const bool has_bias = caffe_int(n->fields, "bias_term", 1) != 0;
  const int64_t outputs = caffe_positive(n, "num_output", CAFFE_MOST_SIZE);
  const int rank = import_rank(&n->node, n->inputs[0]);
  int64_t features = 1, dims[CARNOT_MAX_RANK];
  for (int i = axis; i < rank && !n->node.status; i++)
    if (!carnot_mul_i64(features, caffe_dim(n, 0, i), &features))
      CAFFE_FAIL(n, OUT_OF_RANGE, "too many features");
  caffe_expect_blobs(n, has_bias ? 2 : 1);
  const int64_t weight_dims[2] = {transposed ? features : outputs, transposed ? outputs : features};
  carnot_value* weights = caffe_weights(n, 0, weight_dims, 2, features);
  carnot_value* bias = has_bias ? caffe_weights(n, 1, &outputs, 1, 300) : NULL;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "transB", !transposed);
  carnot_value* x = import_flatten(&n->node, n->inputs[0], axis);
  carnot_value* y = import_op(&n->node, CARNOT_OP_GEMM, &attrs, 3, x, weights, bias);
  if (axis != 1) {
    for (int i = 0; i < axis; i++) dims[i] = caffe_dim(n, 0, i);
    dims[axis] = outputs;
    y = import_reshape_to(&n->node, y, dims, axis + 1);
  }
  n->outputs[0] = y;
}

// Rows of a table by the indices that the bottom holds as numbers.
static void handle_embed(caffe_import* n) {
  const int64_t dims[2] = {caffe_positive(n, "input_dim", CAFFE_MOST_SIZE),
                           caffe_positive(n, "num_output", CAFFE_MOST_SIZE)};
  const bool has_bias = caffe_int(n->fields, "bias_term", 1) != 0;
  caffe_expect_blobs(n, has_bias ? 2 : 1);
  carnot_value* table = caffe_weights(n, 0, dims, 2, 3);
  carnot_value* index = import_cast(&n->node, n->inputs[0], CARNOT_DTYPE_I64);
  carnot_value* y = import_gather(&n->node, table, index, 0);
  if (has_bias)
    y = import_binary(&n->node, CARNOT_FN_ADD, y, caffe_weights(n, 1, &dims[1], 1, 300));
  n->outputs[0] = y;
}

static const caffe_row kRows[] = {
    {"InnerProduct", handle_inner_product, "inner_product_param", 1, 1, 0, NULL},
    {"Embed", handle_embed, "embed_param", 1, 1, 0, NULL},
};
const caffe_row_table caffe_rows_matrix = CAFFE_ROW_TABLE(kRows);
