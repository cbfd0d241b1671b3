// Resizing of pictures and patches of them. Source: tensorflow/core/ops/image_ops.cc,
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

// ---- patches: [N, H, W, C] to [N, h, w, taps * C] ----

static void handle_patches(tf_import* n) {
  enum { kMostTaps = 1024 };
  const tf_int_list k = tf_ints(n, "ksizes"), s = tf_ints(n, "strides"), r = tf_ints(n, "rates");
  carnot_value *x = n->inputs[0], *parts[kMostTaps];
  static const int64_t kAxes[] = {1, 2};
  if (k.count != 4 || s.count != 4 || r.count != 4 || import_rank(&n->node, x) != 4) {
    TF_FAIL(n, INVALID_MODEL, "ksizes, strides and rates of four dimensions are required");
    return;
  }
  int64_t pads[8] = {0}, steps[2] = {s.items[1], s.items[2]}, reach[2];
  for (int d = 0; d < 4; d++)
    if (k.items[d] < 1 || k.items[d] > 4096 || s.items[d] < 1 || r.items[d] < 1 ||
        r.items[d] > 1 << 20 ||
        (d % 3 == 0 && (k.items[d] != 1 || s.items[d] != 1 || r.items[d] != 1))) {
      TF_FAIL(n, INVALID_MODEL, "ksizes, strides and rates of dimension %d are %lld, %lld, %lld", d,
              (long long)k.items[d], (long long)s.items[d], (long long)r.items[d]);
      return;
    }
  for (int d = 0; d < 2; d++) {
    reach[d] = (k.items[1 + d] - 1) * r.items[1 + d] + 1;
    if (k.items[1 + d] < 1 || steps[d] < 1 || r.items[1 + d] < 1 ||
        k.items[1] * k.items[2] > kMostTaps) {
      TF_FAIL(n, UNSUPPORTED, "windows of %lld x %lld", (long long)k.items[1],
              (long long)k.items[2]);
      return;
    }
    if (!tf_is(n, "padding", "SAME", "VALID")) continue;
    const int64_t size = import_dim(x, 1 + d);
    if (size < 0) TF_FAIL(n, UNSUPPORTED, "padding SAME of a picture of open size");
    const int64_t out = carnot_ceildiv(size, steps[d]),
                  needed = (out - 1) * steps[d] + reach[d] - size, total = needed > 0 ? needed : 0;
    pads[1 + d] = total / 2, pads[5 + d] = total - total / 2;
  }
  if (pads[1] || pads[2] || pads[5] || pads[6])
    x = import_op(&n->node, CARNOT_OP_PAD, NULL, 2, x, import_ints(&n->node, pads, 8));
  int count = 0;
  for (int64_t i = 0; i < k.items[1]; i++) {
    for (int64_t j = 0; j < k.items[2]; j++) {
      // To the last window: what is behind the reach of the tap is cut off.
      const int64_t starts[2] = {i * r.items[1], j * r.items[2]},
                    left[2] = {reach[0] - 1 - starts[0], reach[1] - 1 - starts[1]},
                    ends[2] = {left[0] ? -left[0] : INT64_MAX, left[1] ? -left[1] : INT64_MAX};
      parts[count++] = import_op(&n->node, CARNOT_OP_SLICE, NULL, 5, x,
                                 import_ints(&n->node, starts, 2), import_ints(&n->node, ends, 2),
                                 import_ints(&n->node, kAxes, 2), import_ints(&n->node, steps, 2));
    }
  }
  n->outputs[0] = import_concat(&n->node, 3, parts, count);
}

static const tf_row kRows[] = {
    {"ResizeBilinear", handle_resize, 2, 2, 0, "linear", NULL},
    {"ResizeNearestNeighbor", handle_resize, 2, 2, 0, "nearest", NULL},
    {"ResizeBicubic", handle_resize, 2, 2, 0, "cubic", NULL},
    {"ExtractImagePatches", handle_patches, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_resample = TF_ROW_TABLE(kRows);
