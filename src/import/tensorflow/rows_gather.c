// Gathers and scatters. Source: tensorflow/core/ops/array_ops.cc.
#include "import/tensorflow/rows.h"

static void handle_gather(tf_import* n) {
  const int64_t axis = n->input_count > 2 ? tf_need_int(n, 2, "the axis") : 0;
  const int64_t batch = tf_int(n, "batch_dims", 0);
  carnot_value *x = n->inputs[0], *index = tf_int64(n, n->inputs[1]);
  const int rank = import_rank(&n->node, x), own = import_rank(&n->node, index);
  if (n->node.status) return;
  const int at = import_axis(&n->node, axis, rank);
  const int64_t b = batch < 0 ? batch + own : batch;
  if (b == 0) {
    n->outputs[0] = import_gather(&n->node, x, index, at);
    return;
  }
  if (b < 0 || at < b || own < b) {
    TF_FAIL(n, INVALID_MODEL, "batch_dims %lld with axis %lld", (long long)batch, (long long)axis);
    return;
  }
  // The axis comes right behind the batch; what was between them goes back before the indices.
  int64_t perm[CARNOT_MAX_RANK], back[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i < b ? i : i == b ? at : i <= at ? i - 1 : i;
  if (at != b) x = import_transpose(&n->node, x, perm, rank);
  // GatherND takes index tuples of one number behind the batch.
  const int64_t last = own;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "batch_dims", b);
  carnot_value* y = import_op(&n->node, CARNOT_OP_GATHER_ND, &attrs, 2, x,
                              import_unsqueeze(&n->node, index, &last, 1));
  // [batch.., indices.., between.., behind..]
  const int taken = own - (int)b, between = at - (int)b, result = rank - 1 + taken;
  if (between && result <= CARNOT_MAX_RANK) {
    for (int i = 0; i < result; i++)
      back[i] = i < b ? i : i < b + between ? i + taken : i < b + between + taken ? i - between : i;
    y = import_transpose(&n->node, y, back, result);
  }
  n->outputs[0] = y;
}
static void handle_gather_nd(tf_import* n) {
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_GATHER_ND, NULL, 2, n->inputs[0], tf_int64(n, n->inputs[1]));
}
static carnot_value* scatter(tf_import* n, carnot_value* into, carnot_value* index,
                             carnot_value* updates, const char* reduction) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "reduction", reduction);
  return import_op(&n->node, CARNOT_OP_SCATTER_ND, &attrs, 3, into, tf_int64(n, index), updates);
}
// Sums what falls on one place.
static void handle_scatter_nd(tf_import* n) {
  carnot_value* zeros =
      import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_number(&n->node, n->inputs[1], 0),
                tf_int64(n, n->inputs[2]));
  n->outputs[0] = scatter(n, zeros, n->inputs[0], n->inputs[1], "add");
}
static void handle_tensor_scatter(tf_import* n) {
  n->outputs[0] = scatter(n, n->inputs[0], n->inputs[1], n->inputs[2], n->row->text);
}
static void handle_tensor_scatter_sub(tf_import* n) {
  carnot_value* updates = import_unary(&n->node, CARNOT_FN_NEG, n->inputs[2]);
  n->outputs[0] = scatter(n, n->inputs[0], n->inputs[1], updates, "add");
}
// |default| everywhere but at the indices: a scalar, a list or index tuples [count, rank].
static void handle_sparse_to_dense(tf_import* n) {
  carnot_value *index = tf_int64(n, n->inputs[0]), *values = n->inputs[2];
  const int rank = import_rank(&n->node, index);
  static const int64_t kOne[] = {1, 1}, kList[] = {-1, 1}, kFlat[] = {-1};
  carnot_value* dense =
      import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, n->inputs[3], tf_int64(n, n->inputs[1]));
  if (rank < 2) index = import_reshape_to(&n->node, index, rank ? kList : kOne, 2);
  // One value for all indices.
  values =
      import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_reshape_to(&n->node, values, kFlat, 1),
                import_shape_part(&n->node, index, 0, 1));
  n->outputs[0] = scatter(n, dense, index, values, "none");
}
static void handle_invert_permutation(tf_import* n) {
  static const int64_t kLast[] = {1};
  carnot_value* x = n->inputs[0];
  carnot_value* index = import_unsqueeze(&n->node, tf_int64(n, x), kLast, 1);
  carnot_value* size = import_op(&n->node, CARNOT_OP_SIZE, NULL, 1, x);
  carnot_value* ramp = import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0), size,
                                 import_int(&n->node, 1));
  n->outputs[0] = scatter(n, x, index, import_cast(&n->node, ramp, x->type.dtype), "none");
}
// The indices of elements that are not 0, [count, rank].
static void handle_where(tf_import* n) {
  static const int64_t kSwap[] = {1, 0};
  carnot_value* index = import_op(&n->node, CARNOT_OP_NON_ZERO, NULL, 1, n->inputs[0]);
  n->outputs[0] = import_transpose(&n->node, index, kSwap, 2);
}

static const tf_row kRows[] = {
    {"Gather", handle_gather, 2, 2, 0, NULL, NULL},
    {"GatherV2", handle_gather, 3, 3, 0, NULL, NULL},
    {"GatherNd", handle_gather_nd, 2, 2, 0, NULL, NULL},
    {"ScatterNd", handle_scatter_nd, 3, 3, 0, NULL, NULL},
    {"TensorScatterUpdate", handle_tensor_scatter, 3, 3, 0, "none", NULL},
    {"TensorScatterAdd", handle_tensor_scatter, 3, 3, 0, "add", NULL},
    {"TensorScatterSub", handle_tensor_scatter_sub, 3, 3, 0, NULL, NULL},
    {"TensorScatterMax", handle_tensor_scatter, 3, 3, 0, "max", NULL},
    {"TensorScatterMin", handle_tensor_scatter, 3, 3, 0, "min", NULL},
    {"SparseToDense", handle_sparse_to_dense, 4, 4, 0, NULL, NULL},
    {"InvertPermutation", handle_invert_permutation, 1, 1, 0, NULL, NULL},
    {"Where", handle_where, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_gather = TF_ROW_TABLE(kRows);
