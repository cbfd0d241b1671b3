// Reductions, and what runs along one axis.
#include "import/onnx/importer.h"

// Axes that older versions have as an attribute.
static carnot_value* axes_input(onnx_import* n) {
  size_t count = 0;
  const int64_t* axes = onnx_attr_ints(n, "axes", &count);
  return axes && count ? import_ints(&n->node, axes, count) : onnx_in(n, 1);
}

static void handle_reduce(onnx_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", n->row->text);
  carnot_attrs_set_int(&attrs, n->node.arena, "keepdims", onnx_attr_int(n, "keepdims", 1));
  carnot_attrs_set_int(&attrs, n->node.arena, "noop_with_empty_axes",
                       onnx_attr_int(n, "noop_with_empty_axes", 0));
  n->outputs[0] = import_op(&n->node, CARNOT_OP_REDUCE, &attrs, 2, onnx_need(n, 0), axes_input(n));
}

static void handle_arg(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, CARNOT_OP_ARG_REDUCE);
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", n->row->text);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_ARG_REDUCE, &attrs, 1, onnx_need(n, 0));
}

// Before version 13 all dimensions from |axis| on are one.
static void handle_softmax_flat(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  int rank = import_rank(&n->node, x);
  int axis = import_axis(&n->node, onnx_attr_int(n, "axis", rank < 2 ? 0 : 1), rank);
  bool last = axis == rank - 1;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", last ? axis : 1);
  carnot_value* y =
      import_op(&n->node, n->row->op, &attrs, 1, last ? x : import_flatten(&n->node, x, axis));
  if (last) {
    n->outputs[0] = y;
    return;
  }
  carnot_attrs exact = {0};
  carnot_attrs_set_int(&exact, n->node.arena, "allowzero", 1);
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_RESHAPE, &exact, 2, y, import_shape_of(&n->node, x));
}

static void handle_softmax(onnx_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", onnx_attr_int(n, "axis", -1));
  n->outputs[0] = import_op(&n->node, n->row->op, &attrs, 1, onnx_need(n, 0));
}

static void handle_cumulative(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, CARNOT_OP_CUMULATIVE);
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", n->row->text);
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_CUMULATIVE, &attrs, 2, onnx_need(n, 0), onnx_need(n, 1));
}

// TopK-1 has k as an attribute.
static void handle_top_k_old(onnx_import* n) {
  int64_t k = onnx_attr_int(n, "k", -1);
  if (k < 0) ONNX_FAIL(n, INVALID_MODEL, "attribute k is missing or negative");
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", onnx_attr_int(n, "axis", -1));
  carnot_value* inputs[2] = {onnx_need(n, 0), import_ints(&n->node, &k, 1)};
  onnx_emit_wanted(n, CARNOT_OP_TOP_K, &attrs, inputs, 2);
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }
#define REDUCE(op_type, fn) \
  { "", op_type, 1, handle_reduce, CARNOT_OP_REDUCE, 0, fn }
#define FLAT(op_type, since, handler, OP) \
  { "", op_type, since, handler, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    REDUCE("ReduceL1", "l1"),
    REDUCE("ReduceL2", "l2"),
    REDUCE("ReduceLogSum", "log_sum"),
    REDUCE("ReduceLogSumExp", "log_sum_exp"),
    REDUCE("ReduceMax", "max"),
    REDUCE("ReduceMean", "mean"),
    REDUCE("ReduceMin", "min"),
    REDUCE("ReduceProd", "prod"),
    REDUCE("ReduceSum", "sum"),
    REDUCE("ReduceSumSquare", "sum_square"),
    {"", "ArgMax", 1, handle_arg, CARNOT_OP_ARG_REDUCE, 0, "max"},
    {"", "ArgMin", 1, handle_arg, CARNOT_OP_ARG_REDUCE, 0, "min"},
    FLAT("Softmax", 1, handle_softmax_flat, SOFTMAX),
    FLAT("Softmax", 13, handle_softmax, SOFTMAX),
    FLAT("LogSoftmax", 1, handle_softmax_flat, LOG_SOFTMAX),
    FLAT("LogSoftmax", 13, handle_softmax, LOG_SOFTMAX),
    FLAT("Hardmax", 1, handle_softmax_flat, HARDMAX),
    FLAT("Hardmax", 13, handle_softmax, HARDMAX),
    {"", "CumSum", 11, handle_cumulative, CARNOT_OP_CUMULATIVE, 0, "sum"},
    {"", "CumProd", 26, handle_cumulative, CARNOT_OP_CUMULATIVE, 0, "prod"},
    FLAT("TopK", 1, handle_top_k_old, TOP_K),
    SAME("TopK", 10, TOP_K),
    SAME("Unique", 11, UNIQUE),
};
const onnx_row_table onnx_rows_reduce = ONNX_ROW_TABLE(kRows);
