// Pooling. Pools over everything are reductions over the spatial axes.
#include "import/onnx/importer.h"

static int spatial_axes(onnx_import* n, carnot_value* x, int64_t* axes) {
  int rank = import_rank(&n->node, x), count = 0;
  for (int i = 2; i < rank; i++) axes[count++] = i;
  return count;
}

// Over axes 2 and up of an unknown number.
static carnot_value* reduce_unknown(onnx_import* n, carnot_value* x) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", n->row->text);
  carnot_attrs_set_int(&attrs, n->node.arena, "noop_with_empty_axes", 1);
  carnot_value* rank = import_op(&n->node, CARNOT_OP_SIZE, NULL, 1, import_shape_of(&n->node, x));
  carnot_value* axes = import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 2), rank,
                                 import_int(&n->node, 1));
  return import_op(&n->node, CARNOT_OP_REDUCE, &attrs, 2, x, axes);
}

static void handle_global(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  if (x && x->type.kind == CARNOT_VALUE_TENSOR && x->type.rank < 0) {
    n->outputs[0] = reduce_unknown(n, x);
    return;
  }
  int64_t axes[CARNOT_MAX_RANK];
  int count = spatial_axes(n, x, axes);
  n->outputs[0] = count ? import_reduce(&n->node, n->row->text, x, axes, count) : x;
}

// (sum |x|^p) ^ (1 / p).
static void handle_global_lp(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  // GlobalLpPool-1 has p as a float.
  double p = n->version < 2 ? onnx_attr_float(n, "p", 2) : (double)onnx_attr_int(n, "p", 2);
  int64_t axes[CARNOT_MAX_RANK];
  int count = spatial_axes(n, x, axes);
  if (p == 1 || p == 2) {
    n->outputs[0] = import_reduce(&n->node, p == 1 ? "l1" : "l2", x, axes, count);
    return;
  }
  carnot_value* power =
      import_binary(&n->node, CARNOT_FN_POW, import_unary(&n->node, CARNOT_FN_ABS, x),
                    import_number(&n->node, x, p));
  carnot_value* sum = import_reduce(&n->node, "sum", power, axes, count);
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_POW, sum, import_number(&n->node, x, 1 / p));
}

// LpPool-1 has p as a float.
static void handle_lp_pool_old(onnx_import* n) {
  carnot_attrs attrs = {0};
  static const char* const kLists[] = {"kernel_shape", "pads", "strides"};
  for (int i = 0; i < 3; i++) {
    size_t count = 0;
    const int64_t* values = onnx_attr_ints(n, kLists[i], &count);
    if (values) carnot_attrs_set_ints(&attrs, n->node.arena, kLists[i], values, count);
  }
  carnot_strview pad = onnx_attr_text(n, "auto_pad", "NOTSET");
  carnot_attrs_set_text(&attrs, n->node.arena, "auto_pad",
                        carnot_arena_text(n->node.arena, pad.data, pad.size));
  carnot_attrs_set_int(&attrs, n->node.arena, "p", (int64_t)onnx_attr_float(n, "p", 2));
  n->outputs[0] = import_op(&n->node, CARNOT_OP_LP_POOL, &attrs, 1, onnx_need(n, 0));
}

// RoiAlign-10 knows only what version 16 calls output_half_pixel.
static void handle_roi_align_old(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, CARNOT_OP_ROI_ALIGN);
  carnot_attrs_set_text(&attrs, n->node.arena, "coordinate_transformation_mode",
                        "output_half_pixel");
  n->outputs[0] = import_op(&n->node, CARNOT_OP_ROI_ALIGN, &attrs, 3, onnx_need(n, 0),
                            onnx_need(n, 1), onnx_need(n, 2));
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("MaxPool", 1, MAX_POOL),
    SAME("AveragePool", 1, AVERAGE_POOL),
    {"", "LpPool", 1, handle_lp_pool_old, CARNOT_OP_LP_POOL, 0, NULL},
    SAME("LpPool", 2, LP_POOL),
    SAME("MaxUnpool", 9, MAX_UNPOOL),
    SAME("MaxRoiPool", 1, MAX_ROI_POOL),
    {"", "RoiAlign", 10, handle_roi_align_old, CARNOT_OP_ROI_ALIGN, 0, NULL},
    SAME("RoiAlign", 16, ROI_ALIGN),
    {"", "GlobalAveragePool", 1, handle_global, CARNOT_OP_REDUCE, 0, "mean"},
    {"", "GlobalMaxPool", 1, handle_global, CARNOT_OP_REDUCE, 0, "max"},
    {"", "GlobalLpPool", 1, handle_global_lp, CARNOT_OP_REDUCE, 0, NULL},
};
const onnx_row_table onnx_rows_pool = ONNX_ROW_TABLE(kRows);
