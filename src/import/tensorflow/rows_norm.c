// Normalizations. Source: tensorflow/core/ops/nn_ops.cc.
#include "import/tensorflow/rows.h"

// With the statistics of the batch: mean, and variance by n for the result, by n - 1 as output.
static void by_batch(tf_import* n) {
  carnot_value* x = tf_first(n, n->inputs[0]);
  const int rank = import_rank(&n->node, x);
  int64_t axes[CARNOT_MAX_RANK];
  int count = 0;
  static const int64_t kFlat[] = {-1};
  for (int i = 0; i < rank; i++)
    if (i != 1) axes[count++] = i;
  if (tf_float(n, "exponential_avg_factor", 1) != 1)
    TF_FAIL(n, UNSUPPORTED, "is_training with exponential_avg_factor other than 1");
  carnot_value* mean = import_reduce(&n->node, "mean", x, axes, count);
  carnot_value* d = import_binary(&n->node, CARNOT_FN_SUB, x, mean);
  carnot_value* variance =
      import_reduce(&n->node, "mean", import_binary(&n->node, CARNOT_FN_MUL, d, d), axes, count);
  carnot_value* flat_mean = import_reshape_to(&n->node, mean, kFlat, 1);
  carnot_value* flat_variance = import_reshape_to(&n->node, variance, kFlat, 1);
  carnot_attrs attrs = {0};
  carnot_attrs_set_float(&attrs, n->node.arena, "epsilon", tf_float(n, "epsilon", 1e-4));
  n->outputs[0] = tf_last(n, import_op(&n->node, CARNOT_OP_BATCH_NORM, &attrs, 5, x, n->inputs[1],
                                       n->inputs[2], flat_mean, flat_variance));
  // n / (n - 1)
  carnot_value* whole = import_op(&n->node, CARNOT_OP_SIZE, NULL, 1, x);
  carnot_value* channels = import_op(&n->node, CARNOT_OP_SIZE, NULL, 1, flat_mean);
  carnot_value* each = import_cast(
      &n->node, import_binary(&n->node, CARNOT_FN_DIV, whole, channels), CARNOT_DTYPE_F32);
  carnot_value* fewer =
      import_binary(&n->node, CARNOT_FN_MAX,
                    import_binary(&n->node, CARNOT_FN_SUB, each, import_number(&n->node, each, 1)),
                    import_number(&n->node, each, 1));
  n->outputs[1] = flat_mean;
  n->outputs[2] = import_binary(&n->node, CARNOT_FN_MUL, flat_variance,
                                import_binary(&n->node, CARNOT_FN_DIV, each, fewer));
  n->output_count = 3;
}

// With the statistics given; results 1 and up are those of training.
static void handle_batch_norm(tf_import* n) {
  carnot_attrs attrs = {0};
  if (tf_bool(n, "is_training", true)) {
    by_batch(n);
    return;
  }
  carnot_attrs_set_float(&attrs, n->node.arena, "epsilon", tf_float(n, "epsilon", 1e-4));
  carnot_value* y = import_op(&n->node, CARNOT_OP_BATCH_NORM, &attrs, 5, tf_first(n, n->inputs[0]),
                              n->inputs[1], n->inputs[2], n->inputs[3], n->inputs[4]);
  n->outputs[0] = tf_last(n, y);
  n->outputs[1] = n->inputs[3];
  n->outputs[2] = n->inputs[4];
  n->output_count = 3;
}

// The window is 2 * depth_radius + 1, and alpha is not divided by it.
static void handle_lrn(tf_import* n) {
  carnot_attrs attrs = {0};
  const int64_t size = 2 * tf_int(n, "depth_radius", 5) + 1;
  carnot_attrs_set_int(&attrs, n->node.arena, "size", size);
  carnot_attrs_set_float(&attrs, n->node.arena, "alpha", tf_float(n, "alpha", 1) * (double)size);
  carnot_attrs_set_float(&attrs, n->node.arena, "beta", tf_float(n, "beta", 0.5));
  carnot_attrs_set_float(&attrs, n->node.arena, "bias", tf_float(n, "bias", 1));
  n->outputs[0] =
      tf_last(n, import_op(&n->node, CARNOT_OP_LRN, &attrs, 1, tf_first(n, n->inputs[0])));
}

#define NAMES "y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3"
static const tf_row kRows[] = {
    {"FusedBatchNorm", handle_batch_norm, 5, 5, 0, NULL, NAMES},
    {"FusedBatchNormV2", handle_batch_norm, 5, 5, 0, NULL, NAMES},
    {"FusedBatchNormV3", handle_batch_norm, 5, 5, 0, NULL, NAMES},
    {"LRN", handle_lrn, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_norm = TF_ROW_TABLE(kRows);
