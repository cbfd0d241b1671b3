// Normalization.
#include "import/onnx/importer.h"

// Before version 14 a model is for inference whatever it says: one result is wanted.
static void handle_batch_norm_old(onnx_import* n) {
  carnot_value* inputs[5];
  for (int i = 0; i < 5; i++) inputs[i] = onnx_need(n, i);
  for (int i = 1; i < n->output_count; i++) {
    if (n->proto->output.items[i].size)
      ONNX_FAIL(n, UNSUPPORTED, "statistics of training (output %d) are asked for", i);
  }
  double epsilon = onnx_attr_float(n, "epsilon", 1e-5f);
  if (onnx_attr_int(n, "spatial", 1)) {
    carnot_attrs attrs = {0};
    carnot_attrs_set_float(&attrs, n->node.arena, "epsilon", epsilon);
    import_emit(&n->node, CARNOT_OP_BATCH_NORM, &attrs, inputs, 5, n->outputs, 1);
    return;
  }
  // spatial = 0: statistics for every element of a sample.
  carnot_value* centred = import_binary(&n->node, CARNOT_FN_SUB, inputs[0], inputs[3]);
  carnot_value* variance = import_binary(&n->node, CARNOT_FN_ADD, inputs[4],
                                         import_number(&n->node, inputs[4], epsilon));
  carnot_value* y = import_binary(&n->node, CARNOT_FN_DIV, centred,
                                  import_unary(&n->node, CARNOT_FN_SQRT, variance));
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_ADD,
                                import_binary(&n->node, CARNOT_FN_MUL, y, inputs[1]), inputs[2]);
}

// [groups] to [channels]: each group's value for each of its channels.
static carnot_value* spread_groups(onnx_import* n, carnot_value* x, carnot_value* per_group,
                                   int64_t groups) {
  const int64_t one = 1, flat = -1;
  carnot_value* channels = import_shape_part(&n->node, x, 1, 2);
  carnot_value* each =
      import_binary(&n->node, CARNOT_FN_DIV, channels, import_ints(&n->node, &groups, 1));
  carnot_value* shape_parts[2] = {import_ints(&n->node, &groups, 1), each};
  carnot_value* column = import_unsqueeze(&n->node, per_group, &one, 1);
  carnot_value* spread = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, column,
                                   import_concat(&n->node, 0, shape_parts, 2));
  return import_reshape_to(&n->node, spread, &flat, 1);
}

// GroupNormalization-18 has scale and bias per group, version 21 per channel.
static void handle_group_norm_old(onnx_import* n) {
  carnot_value *x = onnx_need(n, 0), *scale = onnx_need(n, 1), *bias = onnx_need(n, 2);
  int64_t groups = onnx_attr_int(n, "num_groups", 0);
  if (groups <= 0)
    ONNX_FAIL(n, INVALID_MODEL, "num_groups is %lld, must be positive", (long long)groups);
  carnot_attrs attrs = onnx_attrs_for(n, CARNOT_OP_GROUP_NORM);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_GROUP_NORM, &attrs, 3, x,
                            spread_groups(n, x, scale, groups), spread_groups(n, x, bias, groups));
}

// (x - mean) / (sqrt(variance) + 1e-9), the variance in a pass of its own.
static void handle_mean_variance(onnx_import* n) {
  static const int64_t kAxes[] = {0, 2, 3};
  size_t count = 0;
  const int64_t* axes = onnx_attr_ints(n, "axes", &count);
  if (!axes) axes = kAxes, count = 3;
  carnot_value* x = onnx_need(n, 0);
  carnot_value* centred = import_binary(&n->node, CARNOT_FN_SUB, x,
                                        import_reduce(&n->node, "mean", x, axes, (int)count));
  carnot_value* squares = import_binary(&n->node, CARNOT_FN_MUL, centred, centred);
  carnot_value* deviation = import_unary(
      &n->node, CARNOT_FN_SQRT, import_reduce(&n->node, "mean", squares, axes, (int)count));
  n->outputs[0] = import_binary(
      &n->node, CARNOT_FN_DIV, centred,
      import_binary(&n->node, CARNOT_FN_ADD, deviation, import_number(&n->node, x, 1e-9)));
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    {"", "BatchNormalization", 1, handle_batch_norm_old, CARNOT_OP_BATCH_NORM, 0, NULL},
    SAME("BatchNormalization", 14, BATCH_NORM),
    SAME("InstanceNormalization", 1, INSTANCE_NORM),
    SAME("LayerNormalization", 17, LAYER_NORM),
    {"", "GroupNormalization", 18, handle_group_norm_old, CARNOT_OP_GROUP_NORM, 0, NULL},
    SAME("GroupNormalization", 21, GROUP_NORM),
    SAME("RMSNormalization", 23, RMS_NORM),
    SAME("LpNormalization", 1, LP_NORM),
    SAME("LRN", 1, LRN),
    {"", "MeanVarianceNormalization", 9, handle_mean_variance, CARNOT_OP_REDUCE, 0, NULL},
};
const onnx_row_table onnx_rows_norm = ONNX_ROW_TABLE(kRows);
