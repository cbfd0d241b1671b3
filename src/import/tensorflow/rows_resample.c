// Resizing of pictures. Source: tensorflow/core/ops/image_ops.cc,
// tensorflow/core/util/image_resizer_state.h.
#include "import/tensorflow/rows.h"

// The coordinates: corners aligned, centers of pixels at halves, or the old way.
static const char* coordinates(tf_import* n) {
  if (tf_bool(n, "align_corners", false)) return "align_corners";
  return tf_bool(n, "half_pixel_centers", false) ? "half_pixel" : "asymmetric";
}

static void handle_resize(tf_import* n) {
  carnot_attrs attrs = {0};
  const char* mode = n->row->text;
  const bool half = tf_bool(n, "half_pixel_centers", false),
             corners = tf_bool(n, "align_corners", false), nearest = mode[0] == 'n';
  carnot_value* x = import_cast(&n->node, tf_first(n, n->inputs[0]),
                                nearest ? n->inputs[0]->type.dtype : CARNOT_DTYPE_F32);
  carnot_attrs_set_text(&attrs, n->node.arena, "mode", mode);
  // Nearest of half pixels takes the pixel that the center falls into.
  carnot_attrs_set_text(&attrs, n->node.arena, "coordinate_transformation_mode", coordinates(n));
  carnot_attrs_set_text(&attrs, n->node.arena, "nearest_mode",
                        corners || half ? "round_prefer_ceil" : "floor");
  if (mode[0] == 'c') {
    carnot_attrs_set_float(&attrs, n->node.arena, "cubic_coeff_a", half ? -0.5 : -0.75);
    carnot_attrs_set_int(&attrs, n->node.arena, "exclude_outside", half);
  }
  carnot_value* parts[2] = {import_shape_part(&n->node, x, 0, 2), tf_int64(n, n->inputs[1])};
  n->outputs[0] = tf_last(n, import_op(&n->node, CARNOT_OP_RESIZE, &attrs, 4, x, NULL, NULL,
                                       import_concat(&n->node, 0, parts, 2)));
}

// The share of each of |in| pixels in each of |out| results, [out, in]: the part of the interval
// [o * scale, (o + 1) * scale) that the pixel covers; the last pixel covers what is behind it.
static carnot_value* area_weights(tf_import* n, carnot_value* in, carnot_value* out) {
  static const int64_t kBehind[] = {1};
  import_node* e = &n->node;
  carnot_value *one = import_number_of(e, CARNOT_DTYPE_F32, 1),
               *from = import_cast(e, in, CARNOT_DTYPE_F32),
               *to = import_cast(e, out, CARNOT_DTYPE_F32), *scale;
  scale = import_binary(e, CARNOT_FN_DIV, from, to);
  if (tf_bool(n, "align_corners", false)) {
    carnot_value* gaps = import_binary(
        e, CARNOT_FN_DIV, import_binary(e, CARNOT_FN_SUB, from, one),
        import_binary(e, CARNOT_FN_MAX, import_binary(e, CARNOT_FN_SUB, to, one), one));
    scale = import_ternary(e, CARNOT_FN_SELECT, import_binary(e, CARNOT_FN_GREATER, to, one), gaps,
                           scale);
  }
  carnot_value *zero = import_int(e, 0), *step = import_int(e, 1);
  carnot_value* o =
      import_cast(e, import_op(e, CARNOT_OP_RANGE, NULL, 3, zero, out, step), CARNOT_DTYPE_F32);
  carnot_value* pixel =
      import_cast(e, import_op(e, CARNOT_OP_RANGE, NULL, 3, zero, in, step), CARNOT_DTYPE_F32);
  o = import_unsqueeze(e, o, kBehind, 1);
  carnot_value* next = import_binary(e, CARNOT_FN_ADD, pixel, one);
  carnot_value* far = import_number_of(e, CARNOT_DTYPE_F32, 1e30);
  carnot_value* end = import_ternary(
      e, CARNOT_FN_SELECT, import_binary(e, CARNOT_FN_GREATER_EQUAL, next, from), far, next);
  end = import_binary(
      e, CARNOT_FN_MIN, end,
      import_binary(e, CARNOT_FN_MUL, import_binary(e, CARNOT_FN_ADD, o, one), scale));
  carnot_value* start =
      import_binary(e, CARNOT_FN_MAX, pixel, import_binary(e, CARNOT_FN_MUL, o, scale));
  carnot_value* share = import_binary(e, CARNOT_FN_MAX, import_binary(e, CARNOT_FN_SUB, end, start),
                                      import_number_of(e, CARNOT_DTYPE_F32, 0));
  return import_binary(e, CARNOT_FN_DIV, share, scale);
}

// The mean of the area that each result covers: a product with the shares along each dimension.
static void handle_resize_area(tf_import* n) {
  static const int64_t kSwap[] = {1, 0};
  import_node* e = &n->node;
  carnot_value *x = import_cast(e, import_move_channels(e, n->inputs[0], false), CARNOT_DTYPE_F32),
               *size = tf_int64(n, n->inputs[1]), *weights[2];
  for (int d = 0; d < 2; d++)
    weights[d] =
        area_weights(n, import_reshape_to(e, import_shape_part(e, x, 2 + d, 3 + d), NULL, 0),
                     import_gather(e, size, import_int(e, d), 0));
  carnot_value* y = import_matmul(e, x, import_transpose(e, weights[1], kSwap, 2));
  n->outputs[0] = import_move_channels(e, import_matmul(e, weights[0], y), true);
}

static const tf_row kRows[] = {
    {"ResizeBilinear", handle_resize, 2, 2, 0, "linear", NULL},
    {"ResizeNearestNeighbor", handle_resize, 2, 2, 0, "nearest", NULL},
    {"ResizeBicubic", handle_resize, 2, 2, 0, "cubic", NULL},
    {"ResizeArea", handle_resize_area, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_resample = TF_ROW_TABLE(kRows);
