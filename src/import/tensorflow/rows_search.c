// Finding and counting: distinct elements, bounds in sorted lists, buckets, ranks. Source:
// tensorflow/core/ops/array_ops.cc, math_ops.cc, nn_ops.cc.
#include "import/tensorflow/rows.h"

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}
static carnot_value* with_axis(tf_import* n, carnot_value* x, int64_t axis) {
  return import_unsqueeze(&n->node, x, &axis, 1);
}
// How often |mask| is true along |axis|, as |dtype|.
static carnot_value* count_true(tf_import* n, carnot_value* mask, int64_t axis,
                                carnot_dtype dtype) {
  carnot_value* numbers = import_cast(&n->node, mask, dtype);
  return import_squeeze(&n->node, import_reduce(&n->node, "sum", numbers, &axis, 1), &axis, 1);
}
static carnot_value* ramp(tf_import* n, carnot_value* size) {
  return import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0),
                   import_reshape_to(&n->node, size, NULL, 0), import_int(&n->node, 1));
}
// The elements of a list where |mask| is true.
static carnot_value* compress(tf_import* n, carnot_value* x, carnot_value* mask) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 0);
  return import_op(&n->node, CARNOT_OP_COMPRESS, &attrs, 2, x, mask);
}

// In order of first occurrence, each element's place among them, and their counts.
static void handle_unique(tf_import* n) {
  carnot_value *inputs[1] = {n->inputs[0]}, *found[4];
  carnot_attrs attrs = {0};
  size_t axes = 0;
  const int64_t* axis = n->input_count > 1 ? tf_need_ints(n, 1, "the axis", &axes) : NULL;
  const carnot_dtype type = tf_type(n, "out_idx", CARNOT_DTYPE_I32);
  if (axes > 1) TF_FAIL(n, INVALID_MODEL, "%zu axes; 1 or none is required", axes);
  if (n->node.status) return;
  carnot_attrs_set_int(&attrs, n->node.arena, "sorted", 0);
  if (axes) carnot_attrs_set_int(&attrs, n->node.arena, "axis", axis[0]);
  import_emit(&n->node, CARNOT_OP_UNIQUE, &attrs, inputs, 1, found, 4);
  if (n->node.status) return;
  n->outputs[0] = found[0];
  n->outputs[1] = import_cast(&n->node, found[2], type);
  n->outputs[2] = import_cast(&n->node, found[3], type);
  n->output_count = 3;
}

// The elements of the first list that are not in the second, and where they are.
static void handle_list_diff(tf_import* n) {
  carnot_value* x = n->inputs[0];
  carnot_value* same = binary(n, CARNOT_FN_EQUAL, with_axis(n, x, 1), n->inputs[1]);
  carnot_value* count = count_true(n, same, 1, CARNOT_DTYPE_I64);
  carnot_value* mask = binary(n, CARNOT_FN_EQUAL, count, import_int(&n->node, 0));
  carnot_value* size = import_op(&n->node, CARNOT_OP_SIZE, NULL, 1, x);
  n->outputs[0] = compress(n, x, mask);
  n->outputs[1] = import_cast(&n->node, compress(n, ramp(n, size), mask),
                              tf_type(n, "out_idx", CARNOT_DTYPE_I32));
  n->output_count = 2;
}

// [B, N] sorted and [B, M] values: how many are less, or less or equal.
static void handle_bound(tf_import* n) {
  carnot_value* mask = binary(n, (carnot_fn)n->row->code, with_axis(n, n->inputs[0], 1),
                              with_axis(n, n->inputs[1], 2));
  n->outputs[0] = count_true(n, mask, 2, tf_type(n, "out_type", CARNOT_DTYPE_I32));
}

static void handle_bucketize(tf_import* n) {
  const tf_attr_value* value = tf_attr_find(n->proto, "boundaries");
  const size_t count = value && value->list ? value->list->f.count : 0;
  const int rank = import_rank(&n->node, n->inputs[0]);
  const carnot_tensor list = {.dtype = CARNOT_DTYPE_F32,
                              .rank = 1,
                              .dims = {(int64_t)count},
                              .data = count ? value->list->f.items : NULL};
  if (n->node.status) return;
  if (!count) TF_FAIL(n, UNSUPPORTED, "no boundaries");
  carnot_value* x = import_cast(&n->node, with_axis(n, n->inputs[0], rank), CARNOT_DTYPE_F32);
  carnot_value* mask = binary(n, CARNOT_FN_LESS_EQUAL, import_tensor_constant(&n->node, &list), x);
  n->outputs[0] = count_true(n, mask, rank, CARNOT_DTYPE_I32);
}

// How often each number below |size| comes, or the sum of its weights; per row where there are two
// dimensions.
static void handle_bincount(tf_import* n) {
  carnot_value *x = tf_int64(n, n->inputs[0]), *weights = n->inputs[2];
  const int rank = import_rank(&n->node, x), own = import_rank(&n->node, weights);
  const bool is_binary = tf_bool(n, "binary_output", false);
  bool is_weighted = own > 0;
  for (int i = 0; i < own; i++) is_weighted &= import_dim(weights, i) != 0;
  if (rank < 1 || rank > 2) TF_FAIL(n, UNSUPPORTED, "%d dimensions; 1 or 2 are supported", rank);
  if (n->node.status) return;
  carnot_value* hits =
      binary(n, CARNOT_FN_EQUAL, with_axis(n, x, rank), ramp(n, tf_int64(n, n->inputs[1])));
  const int64_t axis = rank - 1;
  hits = import_cast(&n->node, hits, weights->type.dtype);
  if (is_weighted && !is_binary) hits = binary(n, CARNOT_FN_MUL, hits, with_axis(n, weights, rank));
  n->outputs[0] = import_squeeze(
      &n->node, import_reduce(&n->node, is_binary ? "max" : "sum", hits, &axis, 1), &axis, 1);
}

// The element of rank |n| in each row.
static void handle_nth(tf_import* n) {
  static const int64_t kOne[] = {1};
  carnot_attrs attrs = {0};
  const int rank = import_rank(&n->node, n->inputs[0]);
  carnot_value* nth = tf_int64(n, n->inputs[1]);
  carnot_value *inputs[2] = {n->inputs[0], NULL}, *found[2];
  if (rank < 1) TF_FAIL(n, INVALID_MODEL, "a scalar has no elements to sort");
  if (n->node.status) return;
  inputs[1] =
      import_reshape_to(&n->node, binary(n, CARNOT_FN_ADD, nth, import_int(&n->node, 1)), kOne, 1);
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", -1);
  carnot_attrs_set_int(&attrs, n->node.arena, "largest", tf_bool(n, "reverse", false));
  import_emit(&n->node, CARNOT_OP_TOP_K, &attrs, inputs, 2, found, 2);
  if (n->node.status) return;
  n->outputs[0] = import_gather(&n->node, found[0], nth, rank - 1);
}

// Fewer than k predictions are above that of the target.
static void handle_in_top_k(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 1);
  carnot_value* at = with_axis(n, tf_int64(n, n->inputs[1]), 1);
  carnot_value* own = import_op(&n->node, CARNOT_OP_GATHER_ELEMENTS, &attrs, 2, n->inputs[0], at);
  carnot_value* above = binary(n, CARNOT_FN_GREATER, n->inputs[0], own);
  n->outputs[0] = binary(n, CARNOT_FN_LESS, count_true(n, above, 1, CARNOT_DTYPE_I64),
                         tf_int64(n, n->inputs[2]));
}

// [D, N]: the coordinates of N flat indices in an array of D dimensions.
static void handle_unravel(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_value *index = tf_int64(n, n->inputs[0]), *dims = tf_int64(n, n->inputs[1]);
  const int rank = import_rank(&n->node, index);
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", "prod");
  carnot_attrs_set_int(&attrs, n->node.arena, "exclusive", 1);
  carnot_attrs_set_int(&attrs, n->node.arena, "reverse", 1);
  carnot_value* steps =
      import_op(&n->node, CARNOT_OP_CUMULATIVE, &attrs, 2, dims, import_int(&n->node, 0));
  if (n->node.status) return;
  if (rank > 0) steps = with_axis(n, steps, 1), dims = with_axis(n, dims, 1);
  carnot_value* y = binary(n, CARNOT_FN_MOD, binary(n, CARNOT_FN_FLOOR_DIV, index, steps), dims);
  n->outputs[0] = import_cast(&n->node, y, n->inputs[0]->type.dtype);
}

// The dimensions that two shapes broadcast to: 1 gives way, missing ones in front are 1.
static void handle_broadcast_args(tf_import* n) {
  static const int64_t kZero[] = {0};
  import_node* e = &n->node;
  carnot_value *lists[2] = {n->inputs[0], n->inputs[1]}, *counts[2];
  for (int i = 0; i < 2; i++) {
    if (import_rank(e, lists[i]) != 1) TF_FAIL(n, INVALID_MODEL, "a shape is no list");
    counts[i] = import_shape_part(e, lists[i], 0, 1);
  }
  carnot_value *one = import_number(e, lists[0], 1), *zero = import_ints(e, kZero, 1),
               *rank = binary(n, CARNOT_FN_MAX, counts[0], counts[1]);
  for (int i = 0; i < 2; i++) {
    if (import_dim(lists[i], 0) >= 0 && import_dim(lists[0], 0) == import_dim(lists[1], 0))
      continue;
    carnot_value* widths[2] = {binary(n, CARNOT_FN_SUB, rank, counts[i]), zero};
    lists[i] = import_op(e, CARNOT_OP_PAD, NULL, 3, lists[i], import_concat(e, 0, widths, 2), one);
  }
  n->outputs[0] = import_ternary(e, CARNOT_FN_SELECT, binary(n, CARNOT_FN_EQUAL, lists[0], one),
                                 lists[1], lists[0]);
}

static const tf_row kRows[] = {
    {"Unique", handle_unique, 1, 1, 0, NULL, "y idx"},
    {"UniqueV2", handle_unique, 2, 2, 0, NULL, "y idx"},
    {"UniqueWithCounts", handle_unique, 1, 1, 0, NULL, "y idx count"},
    {"UniqueWithCountsV2", handle_unique, 2, 2, 0, NULL, "y idx count"},
    {"ListDiff", handle_list_diff, 2, 2, 0, NULL, "out idx"},
    {"LowerBound", handle_bound, 2, 2, CARNOT_FN_LESS, NULL, NULL},
    {"UpperBound", handle_bound, 2, 2, CARNOT_FN_LESS_EQUAL, NULL, NULL},
    {"Bucketize", handle_bucketize, 1, 1, 0, NULL, NULL},
    {"Bincount", handle_bincount, 3, 3, 0, NULL, NULL},
    {"DenseBincount", handle_bincount, 3, 3, 0, NULL, NULL},
    {"NthElement", handle_nth, 2, 2, 0, NULL, NULL},
    {"InTopKV2", handle_in_top_k, 3, 3, 0, NULL, NULL},
    {"UnravelIndex", handle_unravel, 2, 2, 0, NULL, NULL},
    {"BroadcastArgs", handle_broadcast_args, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_search = TF_ROW_TABLE(kRows);
