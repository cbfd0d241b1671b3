// Reductions, arguments of extremes, running sums, softmax, TopK. Source:
// tensorflow/core/ops/math_ops.cc and nn_ops.cc.
#include "import/tensorflow/rows.h"

static carnot_value* reduce(tf_import* n, carnot_value* x) {
  carnot_attrs attrs = {0};
  size_t count = 0;
  const int64_t* axes = tf_constant_ints(n, 1, &count);
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", n->row->text);
  carnot_attrs_set_int(&attrs, n->node.arena, "keepdims", tf_bool(n, "keep_dims", false));
  // An empty list reduces nothing.
  carnot_attrs_set_int(&attrs, n->node.arena, "noop_with_empty_axes", 1);
  static const int64_t kFlat[] = {-1};
  carnot_value* list = axes ? import_ints(&n->node, axes, count)
                            : import_reshape_to(&n->node, tf_int64(n, n->inputs[1]), kFlat, 1);
  return import_op(&n->node, CARNOT_OP_REDUCE, &attrs, 2, x, list);
}
static void handle_reduce(tf_import* n) { n->outputs[0] = reduce(n, n->inputs[0]); }
// As the least or largest of 0 and 1.
static void handle_logical(tf_import* n) {
  carnot_value* y = reduce(n, import_cast(&n->node, n->inputs[0], CARNOT_DTYPE_I32));
  n->outputs[0] = import_cast(&n->node, y, CARNOT_DTYPE_BOOL);
}
static void handle_arg(tf_import* n) {
  const int64_t axis = n->input_count > 1 ? tf_need_int(n, 1, "the axis") : 0;
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", n->row->text);
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", axis);
  carnot_attrs_set_int(&attrs, n->node.arena, "keepdims", 0);
  carnot_value* y = import_op(&n->node, CARNOT_OP_ARG_REDUCE, &attrs, 1, n->inputs[0]);
  n->outputs[0] = import_cast(&n->node, y, tf_type(n, "output_type", CARNOT_DTYPE_I64));
}
static void handle_cumulative(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", n->row->text);
  carnot_attrs_set_int(&attrs, n->node.arena, "exclusive", tf_bool(n, "exclusive", false));
  carnot_attrs_set_int(&attrs, n->node.arena, "reverse", tf_bool(n, "reverse", false));
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_CUMULATIVE, &attrs, 2, n->inputs[0], tf_int64(n, n->inputs[1]));
}
static void handle_softmax(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", -1);
  n->outputs[0] = import_op(&n->node, (carnot_op)n->row->code, &attrs, 1, n->inputs[0]);
}
static void handle_top_k(tf_import* n) {
  carnot_value *inputs[2] = {n->inputs[0], NULL}, *outputs[2];
  static const int64_t kOne[] = {1};
  carnot_attrs attrs = {0};
  const int64_t k = tf_int(n, "k", 1);
  inputs[1] = n->input_count > 1 ? import_reshape_to(&n->node, tf_int64(n, n->inputs[1]), kOne, 1)
                                 : import_ints(&n->node, &k, 1);
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", -1);
  import_emit(&n->node, CARNOT_OP_TOP_K, &attrs, inputs, 2, outputs, 2);
  n->outputs[0] = outputs[0];
  n->outputs[1] = import_cast(&n->node, outputs[1], tf_type(n, "index_type", CARNOT_DTYPE_I32));
  n->output_count = 2;
}
// Half the sum of squares.
static void handle_l2_loss(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", "sum_square");
  carnot_attrs_set_int(&attrs, n->node.arena, "keepdims", 0);
  carnot_value* sum = import_op(&n->node, CARNOT_OP_REDUCE, &attrs, 1, n->inputs[0]);
  n->outputs[0] =
      import_binary(&n->node, CARNOT_FN_MUL, sum, import_number(&n->node, n->inputs[0], 0.5));
}

#define REDUCE(op, fn) \
  { op, handle_reduce, 2, 2, 0, fn, NULL }
static const tf_row kRows[] = {
    REDUCE("Sum", "sum"),
    REDUCE("Mean", "mean"),
    REDUCE("Max", "max"),
    REDUCE("Min", "min"),
    REDUCE("Prod", "prod"),
    REDUCE("EuclideanNorm", "l2"),
    {"All", handle_logical, 2, 2, 0, "min", NULL},
    {"Any", handle_logical, 2, 2, 0, "max", NULL},
    {"ArgMax", handle_arg, 1, 2, 0, "max", NULL},
    {"ArgMin", handle_arg, 1, 2, 0, "min", NULL},
    {"Cumsum", handle_cumulative, 2, 2, 0, "sum", NULL},
    {"Cumprod", handle_cumulative, 2, 2, 0, "prod", NULL},
    {"Softmax", handle_softmax, 1, 1, CARNOT_OP_SOFTMAX, NULL, NULL},
    {"LogSoftmax", handle_softmax, 1, 1, CARNOT_OP_LOG_SOFTMAX, NULL, NULL},
    {"TopKV2", handle_top_k, 2, 2, 0, NULL, "values indices"},
    {"TopK", handle_top_k, 1, 1, 0, NULL, "values indices"},
    {"L2Loss", handle_l2_loss, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_reduce = TF_ROW_TABLE(kRows);
