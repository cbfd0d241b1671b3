// Softmax, ArgMax and Reduction. Source: softmax_layer, argmax_layer and reduction_layer of
// BVLC/caffe.
#include "import/caffe/handlers.h"

static void handle_softmax(caffe_import* n) {
  n->outputs[0] = import_softmax(&n->node, n->inputs[0], caffe_axis(n, "axis", 1));
}

// Elements of |axis| in reverse order.
static carnot_value* reversed(caffe_import* n, carnot_value* x, int axis) {
  const int64_t start = -1, end = INT64_MIN, at = axis, step = -1;
  return import_op(&n->node, CARNOT_OP_SLICE, NULL, 5, x, import_ints(&n->node, &start, 1),
                   import_ints(&n->node, &end, 1), import_ints(&n->node, &at, 1),
                   import_ints(&n->node, &step, 1));
}

// The |k| largest of |axis| and their indices as numbers. Of equal elements the last comes first:
// Caffe sorts pairs of element and index.
static void largest(caffe_import* n, carnot_value* x, int axis, int64_t k, carnot_value** values,
                    carnot_value** indices) {
  carnot_value *inputs[2] = {reversed(n, x, axis), import_ints(&n->node, &k, 1)}, *outputs[2];
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", axis);
  import_emit(&n->node, CARNOT_OP_TOP_K, &attrs, inputs, 2, outputs, 2);
  carnot_value* last = import_int(&n->node, import_dim(x, axis) - 1);
  carnot_value* index = import_binary(&n->node, CARNOT_FN_SUB, last, outputs[1]);
  *values = outputs[0];
  *indices = import_cast(&n->node, index, CARNOT_DTYPE_F32);
}

// With an axis [.., k, ..]; without one, of each whole image, [N, 1, k], or [N, 2, k] with the
// values behind the indices.
static void handle_arg_max(caffe_import* n) {
  static const int64_t kBehindBatch[] = {1};
  const int64_t k = caffe_int(n->fields, "top_k", 1);
  const bool with_values = caffe_int(n->fields, "out_max_val", 0) != 0;
  const bool has_axis = caffe_has(n->fields, "axis");
  const int axis = caffe_axis(n, "axis", 0), rank = import_rank(&n->node, n->inputs[0]);
  carnot_value* x = has_axis ? n->inputs[0] : import_flatten(&n->node, n->inputs[0], 1);
  const int64_t size = import_dim(x, has_axis ? axis : 1);
  if (k < 1 || k > size)
    CAFFE_FAIL(n, INVALID_MODEL, "top_k is %lld; 1 to %lld are required", (long long)k,
               (long long)size);
  if (n->node.status) return;
  carnot_value *values, *indices;
  largest(n, x, has_axis ? axis : 1, k, &values, &indices);
  if (has_axis) {
    n->outputs[0] = with_values ? values : indices;
    return;
  }
  carnot_value* parts[2] = {import_unsqueeze(&n->node, indices, kBehindBatch, 1), NULL};
  if (with_values) parts[1] = import_unsqueeze(&n->node, values, kBehindBatch, 1);
  carnot_value* y = with_values ? import_concat(&n->node, 1, parts, 2) : parts[0];
  n->outputs[0] = caffe_align(n, y, 0, rank > 3 ? rank : 3);
}

static void handle_reduction(caffe_import* n) {
  static const char* const kFunctions[] = {NULL, "sum", "l1", "sum_square", "mean"};
  const int64_t operation = caffe_int(n->fields, "operation", 1);
  const caffe_float_list coeff = caffe_floats(n->fields, "coeff");
  const int axis = caffe_axis(n, "axis", 0);
  if (operation < 1 || operation > 4) {
    CAFFE_FAIL(n, INVALID_MODEL, "operation is %lld; 1 to 4 are required", (long long)operation);
    return;
  }
  carnot_value* y = caffe_reduce_to(n, kFunctions[operation], n->inputs[0], axis);
  const double by = coeff.count ? (double)coeff.items[0] : 1;
  n->outputs[0] = by == 1 ? y : import_unary_with(&n->node, CARNOT_FN_AFFINE, y, by, 0);
}

static const caffe_row kRows[] = {
    {"Softmax", handle_softmax, "softmax_param", 1, 1, 0, NULL},
    {"SoftmaxWithLoss", handle_softmax, "softmax_param", 1, 1, 0, "labels: it is Softmax"},
    {"ArgMax", handle_arg_max, "argmax_param", 1, 1, 0, NULL},
    {"Reduction", handle_reduction, "reduction_param", 1, 1, 0, NULL},
};
const caffe_row_table caffe_rows_reduce = CAFFE_ROW_TABLE(kRows);
