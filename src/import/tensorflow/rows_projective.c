// Pictures under projective maps. Source: tensorflow/core/ops/image_ops.cc,
// tensorflow/core/kernels/image/image_ops.h.
#include "import/tensorflow/rows.h"

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}
static carnot_value* with(tf_import* n, carnot_fn fn, carnot_value* x, double y) {
  return import_binary(&n->node, fn, x, import_number(&n->node, x, y));
}

// Entry |i| of the maps [N, 8] as [N, 1, 1].
static carnot_value* entry(tf_import* n, int64_t i) {
  static const int64_t kBehind[] = {2};
  return import_unsqueeze(&n->node, import_slice(&n->node, n->inputs[1], 1, i, i + 1), kBehind, 1);
}

// 0, 1, .. as floats, |count| of them along axis |axis| of three.
static carnot_value* ramp(tf_import* n, carnot_value* count, int axis) {
  int64_t dims[3] = {1, 1, 1};
  dims[axis] = -1;
  carnot_value* y = import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0), count,
                              import_int(&n->node, 1));
  return import_reshape_to(&n->node, import_cast(&n->node, y, CARNOT_DTYPE_F32), dims, 3);
}

// c[first] x + c[first + 1] y + |last|
static carnot_value* sum_of(tf_import* n, int64_t first, carnot_value* x, carnot_value* y,
                            carnot_value* last) {
  carnot_value* sum = binary(n, CARNOT_FN_ADD, binary(n, CARNOT_FN_MUL, entry(n, first), x),
                             binary(n, CARNOT_FN_MUL, entry(n, first + 1), y));
  return binary(n, CARNOT_FN_ADD, sum, last);
}

// The coordinate within a dimension of |size|, [1], by fill_mode.
static carnot_value* mapped(tf_import* n, carnot_value* at, carnot_value* size) {
  carnot_value *end = with(n, CARNOT_FN_SUB, size, 1), *zero = import_number(&n->node, at, 0);
  if (tf_is(n, "fill_mode", "CONSTANT", "CONSTANT")) return at;
  if (tf_is(n, "fill_mode", "REFLECT", "CONSTANT")) {
    // There and back again: the borders are repeated.
    carnot_value* both = with(n, CARNOT_FN_MUL, size, 2);
    at = binary(n, CARNOT_FN_MOD, at, both);
    carnot_value* back = with(n, CARNOT_FN_SUB, binary(n, CARNOT_FN_SUB, both, at), 1);
    at = import_ternary(&n->node, CARNOT_FN_SELECT, binary(n, CARNOT_FN_GREATER_EQUAL, at, size),
                        back, at);
  } else if (!tf_is(n, "fill_mode", "NEAREST", "CONSTANT")) {
    TF_FAIL(n, UNSUPPORTED, "fill_mode must be CONSTANT, REFLECT or NEAREST");
  }
  return import_ternary(&n->node, CARNOT_FN_CLIP, at, zero, end);
}

// Halves are rounded away from 0.
static carnot_value* rounded(tf_import* n, carnot_value* x) {
  carnot_value* size = with(n, CARNOT_FN_ADD, import_unary(&n->node, CARNOT_FN_ABS, x), 0.5);
  return binary(n, CARNOT_FN_MUL, import_unary(&n->node, CARNOT_FN_SIGN, x),
                import_unary(&n->node, CARNOT_FN_FLOOR, size));
}

// [N, h, w, 1]: the coordinate as GRID_SAMPLE takes it, -1 and 1 the outer edges of the pixels.
static carnot_value* scaled(tf_import* n, carnot_value* at, carnot_value* size) {
  static const int64_t kLast[] = {3};
  if (tf_is(n, "interpolation", "NEAREST", "NEAREST")) at = rounded(n, at);
  at = binary(n, CARNOT_FN_DIV, with(n, CARNOT_FN_ADD, with(n, CARNOT_FN_MUL, at, 2), 1), size);
  return import_unsqueeze(&n->node, with(n, CARNOT_FN_SUB, at, 1), kLast, 1);
}

// Where each pixel of the result lies in the picture |x| [N, C, H, W].
static carnot_value* make_grid(tf_import* n, carnot_value* x) {
  static const int64_t kRest[] = {1, 1, 1};
  import_node* e = &n->node;
  carnot_value *sizes = tf_int64(n, n->inputs[2]), *grid[2], *in[2];
  for (int d = 0; d < 2; d++)
    in[d] = import_cast(e, import_shape_part(e, x, 2 + d, 3 + d), CARNOT_DTYPE_F32);
  carnot_value* row = ramp(n, import_gather(e, sizes, import_int(e, 0), 0), 1);
  carnot_value* column = ramp(n, import_gather(e, sizes, import_int(e, 1), 0), 2);
  carnot_value* k = sum_of(n, 6, column, row, import_number_of(e, CARNOT_DTYPE_F32, 1));
  for (int d = 0; d < 2; d++) {
    carnot_value* at = sum_of(n, 3 * d, column, row, entry(n, 3 * d + 2));
    carnot_value* size = in[1 - d];
    grid[d] = scaled(n, mapped(n, binary(n, CARNOT_FN_DIV, at, k), size), size);
  }
  // One map serves all pictures.
  carnot_value* all[2] = {import_shape_part(e, x, 0, 1), import_ints(e, kRest, 3)};
  return import_op(e, CARNOT_OP_EXPAND, NULL, 2, import_concat(e, 3, grid, 2),
                   import_concat(e, 0, all, 2));
}

static void handle_projective(tf_import* n) {
  import_node* e = &n->node;
  carnot_value* x = n->inputs[0];
  if (import_rank(e, x) != 4 || import_rank(e, n->inputs[1]) != 2)
    TF_FAIL(n, INVALID_MODEL, "pictures of 4 dimensions and maps of 2 are required");
  x = import_move_channels(e, import_cast(e, x, CARNOT_DTYPE_F32), false);
  if (n->node.status) return;
  carnot_value *grid = make_grid(n, x),
               *fill = n->input_count > 3 ? n->inputs[3] : import_number_of(e, CARNOT_DTYPE_F32, 0);
  carnot_attrs attrs = {0};
  const bool nearest = tf_is(n, "interpolation", "NEAREST", "NEAREST");
  carnot_attrs_set_text(&attrs, n->node.arena, "mode", nearest ? "nearest" : "linear");
  x = import_op(e, CARNOT_OP_GRID_SAMPLE, &attrs, 2, binary(n, CARNOT_FN_SUB, x, fill), grid);
  x = import_move_channels(e, binary(n, CARNOT_FN_ADD, x, fill), true);
  n->outputs[0] = import_cast(e, x, n->inputs[0]->type.dtype);
}

static const tf_row kRows[] = {
    {"ImageProjectiveTransformV2", handle_projective, 3, 3, 0, NULL, NULL},
    {"ImageProjectiveTransformV3", handle_projective, 4, 4, 0, NULL, NULL},
};
const tf_row_table tf_rows_projective = TF_ROW_TABLE(kRows);
