// Sums over segments. Source: tensorflow/core/ops/math_ops.cc.
#include "import/tensorflow/rows.h"

// |ids| as rank 2 index tuples; those below 0 are dropped: they go to a row behind the last.
static carnot_value* scatter_segments(tf_import* n, carnot_value* data, carnot_value* ids,
                                      carnot_value* segments, double start, const char* reduction) {
  carnot_value* one = import_ints(&n->node, (int64_t[]){1}, 1);
  const int rank = import_rank(&n->node, data), own = import_rank(&n->node, ids);
  carnot_value* negative = import_binary(&n->node, CARNOT_FN_LESS, ids, import_int(&n->node, 0));
  carnot_value* count = import_reshape_to(&n->node, segments, (int64_t[]){1}, 1);
  carnot_value* index = import_ternary(&n->node, CARNOT_FN_SELECT, negative,
                                       import_reshape_to(&n->node, segments, NULL, 0), ids);
  carnot_value* parts[2] = {import_binary(&n->node, CARNOT_FN_ADD, count, one), NULL};
  if (rank > own) parts[1] = import_shape_part(&n->node, data, own, rank);
  carnot_value* dims = parts[1] ? import_concat(&n->node, 0, parts, 2) : parts[0];
  carnot_value* into =
      import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_number(&n->node, data, start), dims);
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "reduction", reduction);
  const int64_t last = own;
  carnot_value* y = import_op(&n->node, CARNOT_OP_SCATTER_ND, &attrs, 3, into,
                              import_unsqueeze(&n->node, index, &last, 1), data);
  return import_slice(&n->node, y, 0, 0, -1);
}

// The least or greatest number of the element type.
static double extreme(carnot_dtype dtype, bool greatest) {
  switch (dtype) {
    case CARNOT_DTYPE_F64: return greatest ? 1.7976931348623157e308 : -1.7976931348623157e308;
    case CARNOT_DTYPE_I32: return greatest ? 2147483647.0 : -2147483648.0;
    case CARNOT_DTYPE_F16: return greatest ? 65504 : -65504;
    default: return greatest ? 3.4028234663852886e38 : -3.4028234663852886e38;
  }
}

static void handle_unsorted(tf_import* n) {
  const char* fn = n->row->text;
  const carnot_dtype dtype = n->inputs[0]->type.dtype;
  const double start = fn[1] == 'u' ? 1 : fn[1] == 'd' ? 0 : extreme(dtype, fn[1] == 'i');
  if (start != 0 && start != 1 && !carnot_dtype_is_float(dtype) && dtype != CARNOT_DTYPE_I32)
    TF_FAIL(n, UNSUPPORTED, "extremes of this element type");
  n->outputs[0] = scatter_segments(n, n->inputs[0], tf_int64(n, n->inputs[1]),
                                   tf_int64(n, n->inputs[2]), start, fn);
}

// Sorted ids: their number is the last and one.
static void handle_sorted(tf_import* n) {
  static const int64_t kFirst[] = {0};
  const char* fn = n->row->text;
  carnot_value* ids = tf_int64(n, n->inputs[1]);
  carnot_value* largest = import_reduce(&n->node, "max", ids, kFirst, 1);
  carnot_value* segments = import_binary(&n->node, CARNOT_FN_ADD, largest, import_int(&n->node, 1));
  carnot_value* y =
      scatter_segments(n, n->inputs[0], ids, segments, fn[0] == 'm' && fn[1] == 'u' ? 1 : 0,
                       fn[1] == 'e' ? "add" : fn);
  if (fn[1] == 'e') {  // mean: the sum by the count
    carnot_value* ones =
        import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_number(&n->node, n->inputs[0], 1),
                  import_shape_of(&n->node, n->inputs[0]));
    carnot_value* count = scatter_segments(n, ones, ids, segments, 0, "add");
    y = import_binary(
        &n->node, CARNOT_FN_DIV, y,
        import_binary(&n->node, CARNOT_FN_MAX, count, import_number(&n->node, count, 1)));
  }
  n->outputs[0] = y;
}

// Segments without elements are 0, of a product 1.
static void handle_sorted_extreme(tf_import* n) {
  static const int64_t kFirst[] = {0};
  const char* fn = n->row->text;
  carnot_value *data = n->inputs[0], *ids = tf_int64(n, n->inputs[1]);
  carnot_value* largest = import_reduce(&n->node, "max", ids, kFirst, 1);
  carnot_value* segments = import_binary(&n->node, CARNOT_FN_ADD, largest, import_int(&n->node, 1));
  const bool product = fn[1] == 'u';
  const carnot_dtype dtype = data->type.dtype;
  if (!product && !carnot_dtype_is_float(dtype) && dtype != CARNOT_DTYPE_I32)
    TF_FAIL(n, UNSUPPORTED, "extremes of this element type");
  carnot_value* y =
      scatter_segments(n, data, ids, segments, product ? 1 : extreme(dtype, fn[1] == 'i'), fn);
  if (!product) {
    carnot_value* ones =
        import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_number(&n->node, data, 1),
                  import_shape_of(&n->node, data));
    carnot_value* count = scatter_segments(n, ones, ids, segments, 0, "add");
    carnot_value* empty =
        import_binary(&n->node, CARNOT_FN_EQUAL, count, import_number(&n->node, data, 0));
    y = import_ternary(&n->node, CARNOT_FN_SELECT, empty, import_number(&n->node, data, 0), y);
  }
  n->outputs[0] = y;
}

static const tf_row kRows[] = {
    {"SegmentSum", handle_sorted, 2, 2, 0, "add", NULL},
    {"SegmentMean", handle_sorted, 2, 2, 0, "mean", NULL},
    {"SegmentProd", handle_sorted_extreme, 2, 2, 0, "mul", NULL},
    {"SegmentMax", handle_sorted_extreme, 2, 2, 0, "max", NULL},
    {"SegmentMin", handle_sorted_extreme, 2, 2, 0, "min", NULL},
    {"UnsortedSegmentSum", handle_unsorted, 3, 3, 0, "add", NULL},
    {"UnsortedSegmentProd", handle_unsorted, 3, 3, 0, "mul", NULL},
    {"UnsortedSegmentMax", handle_unsorted, 3, 3, 0, "max", NULL},
    {"UnsortedSegmentMin", handle_unsorted, 3, 3, 0, "min", NULL},
};
const tf_row_table tf_rows_segment = TF_ROW_TABLE(kRows);
