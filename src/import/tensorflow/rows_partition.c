// Rows of a tensor taken apart, put together, and summed by segments of chosen rows. Source:
// tensorflow/core/ops/data_flow_ops.cc, math_ops.cc.
#include "import/tensorflow/rows.h"

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}

// Output i has the rows whose number is i.
static void handle_partition(tf_import* n) {
  const int64_t parts = tf_int(n, "num_partitions", 1);
  if (import_rank(&n->node, n->inputs[1]) != 1)
    TF_FAIL(n, UNSUPPORTED, "partitions of more than one dimension are not supported");
  if (parts < 1 || parts > TF_MOST_OUTPUTS)
    TF_FAIL(n, UNSUPPORTED, "%lld partitions; 1 to %d are supported", (long long)parts,
            TF_MOST_OUTPUTS);
  if (n->node.status) return;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 0);
  carnot_value* number = tf_int64(n, n->inputs[1]);
  n->output_count = (int)parts;
  for (int i = 0; i < (int)parts; i++)
    n->outputs[i] = import_op(&n->node, CARNOT_OP_COMPRESS, &attrs, 2, n->inputs[0],
                              binary(n, CARNOT_FN_EQUAL, number, import_int(&n->node, i)));
}

// zeros [segments, dims of |rows| behind the first], with |rows| added or put at |index|.
static carnot_value* scatter_rows(tf_import* n, carnot_value* segments, carnot_value* index,
                                  carnot_value* rows, const char* reduction) {
  static const int64_t kOne[] = {1}, kLast[] = {1};
  const int rank = import_rank(&n->node, rows);
  carnot_value* parts[2] = {import_reshape_to(&n->node, segments, kOne, 1), NULL};
  if (rank > 1) parts[1] = import_shape_part(&n->node, rows, 1, rank);
  carnot_value* dims = parts[1] ? import_concat(&n->node, 0, parts, 2) : parts[0];
  carnot_value* zeros =
      import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_number(&n->node, rows, 0), dims);
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "reduction", reduction);
  return import_op(&n->node, CARNOT_OP_SCATTER_ND, &attrs, 3, zeros,
                   import_unsqueeze(&n->node, index, kLast, 1), rows);
}

static carnot_value* one_above_largest(tf_import* n, carnot_value* index) {
  static const int64_t kFirst[] = {0};
  return binary(n, CARNOT_FN_ADD, import_reduce(&n->node, "max", index, kFirst, 1),
                import_int(&n->node, 1));
}

// Lists of indices and the rows that go there; what comes later wins.
static void handle_stitch(tf_import* n) {
  const int count = n->input_count / 2;
  if (n->input_count % 2)
    TF_FAIL(n, INVALID_MODEL, "%d inputs; as many indices as data are required", n->input_count);
  carnot_value** index = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, (size_t)count + 1);
  if (!import_has_memory(&n->node)) return;
  for (int i = 0; i < count; i++) {
    if (import_rank(&n->node, n->inputs[i]) != 1)
      TF_FAIL(n, UNSUPPORTED, "indices of other than one dimension are not supported");
    index[i] = tf_int64(n, n->inputs[i]);
  }
  carnot_value* all = import_concat(&n->node, 0, index, count);
  carnot_value* rows = import_concat(&n->node, 0, n->inputs + count, count);
  if (n->node.status) return;
  n->outputs[0] = scatter_rows(n, one_above_largest(n, all), all, rows, "none");
}

// Sums of the rows |indices| of data by segment; their mean; the sum by the root of the count.
static void handle_sparse_segment(tf_import* n) {
  const char kind = n->row->text[0];
  carnot_value* rows = import_gather(&n->node, n->inputs[0], tf_int64(n, n->inputs[1]), 0);
  carnot_value* ids = tf_int64(n, n->inputs[2]);
  carnot_value* segments =
      n->input_count > 3 ? tf_int64(n, n->inputs[3]) : one_above_largest(n, ids);
  carnot_value* sum = scatter_rows(n, segments, ids, rows, "add");
  n->outputs[0] = sum;
  if (kind == 's' || n->node.status) return;
  carnot_value* ones = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2,
                                 import_number(&n->node, rows, 1), import_shape_of(&n->node, rows));
  carnot_value* count = scatter_rows(n, segments, ids, ones, "add");
  count = binary(n, CARNOT_FN_MAX, count, import_number(&n->node, count, 1));
  if (kind == 'r') count = import_unary(&n->node, CARNOT_FN_SQRT, count);
  n->outputs[0] = binary(n, CARNOT_FN_DIV, sum, count);
}

static const tf_row kRows[] = {
    {"DynamicPartition", handle_partition, 2, 2, 0, NULL, NULL},
    {"DynamicStitch", handle_stitch, 2, -1, 0, NULL, NULL},
    {"ParallelDynamicStitch", handle_stitch, 2, -1, 0, NULL, NULL},
    {"SparseSegmentSum", handle_sparse_segment, 3, 3, 0, "sum", NULL},
    {"SparseSegmentMean", handle_sparse_segment, 3, 3, 0, "mean", NULL},
    {"SparseSegmentSqrtN", handle_sparse_segment, 3, 3, 0, "root", NULL},
    {"SparseSegmentSumWithNumSegments", handle_sparse_segment, 4, 4, 0, "sum", NULL},
    {"SparseSegmentMeanWithNumSegments", handle_sparse_segment, 4, 4, 0, "mean", NULL},
    {"SparseSegmentSqrtNWithNumSegments", handle_sparse_segment, 4, 4, 0, "root", NULL},
};
const tf_row_table tf_rows_partition = TF_ROW_TABLE(kRows);
