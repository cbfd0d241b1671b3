// Colours: [.., 3] in RGB or HSV. Source: tensorflow/core/ops/image_ops.cc,
// tensorflow/core/kernels/image/colorspace_op.h.
#include "import/tensorflow/rows.h"

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}
static carnot_value* with(tf_import* n, carnot_fn fn, carnot_value* x, double y) {
  return import_binary(&n->node, fn, x, import_number(&n->node, x, y));
}
static carnot_value* choose(tf_import* n, carnot_value* c, carnot_value* x, carnot_value* y) {
  return import_ternary(&n->node, CARNOT_FN_SELECT, c, x, y);
}

typedef struct channels {
  carnot_value* c[3];
  int last;  // the axis of the channels
} channels;

static channels split(tf_import* n, carnot_value* x) {
  channels s = {.last = import_rank(&n->node, x) - 1};
  if (s.last < 0) TF_FAIL(n, INVALID_MODEL, "a scalar is no colour");
  for (int i = 0; i < 3; i++) s.c[i] = import_slice(&n->node, x, s.last, i, i + 1);
  return s;
}
static carnot_value* joined(tf_import* n, const channels* s) {
  return import_concat(&n->node, s->last, s->c, 3);
}

static channels to_hsv(tf_import* n, carnot_value* rgb) {
  const channels x = split(n, rgb);
  carnot_value *r = x.c[0], *g = x.c[1], *b = x.c[2], *zero = import_number(&n->node, r, 0);
  channels y = {.last = x.last};
  carnot_value* v = binary(n, CARNOT_FN_MAX, binary(n, CARNOT_FN_MAX, r, g), b);
  carnot_value* least = binary(n, CARNOT_FN_MIN, binary(n, CARNOT_FN_MIN, r, g), b);
  carnot_value* range = binary(n, CARNOT_FN_SUB, v, least);
  y.c[2] = v;
  y.c[1] =
      choose(n, binary(n, CARNOT_FN_GREATER, v, zero), binary(n, CARNOT_FN_DIV, range, v), zero);
  carnot_value* of_red = binary(n, CARNOT_FN_SUB, g, b);
  carnot_value* of_green = binary(n, CARNOT_FN_SUB, b, r);
  carnot_value* of_blue = binary(n, CARNOT_FN_SUB, r, g);
  carnot_value *is_red = binary(n, CARNOT_FN_EQUAL, r, v),
               *is_green = binary(n, CARNOT_FN_EQUAL, g, v);
  carnot_value* difference = choose(n, is_red, of_red, choose(n, is_green, of_green, of_blue));
  carnot_value* offset = choose(n, is_red, zero,
                                choose(n, is_green, import_number(&n->node, r, 2.0 / 6),
                                       import_number(&n->node, r, 4.0 / 6)));
  carnot_value* h =
      binary(n, CARNOT_FN_ADD,
             binary(n, CARNOT_FN_DIV, difference, with(n, CARNOT_FN_MUL, range, 6)), offset);
  h = choose(n, binary(n, CARNOT_FN_GREATER, range, zero), h, zero);
  y.c[0] = choose(n, binary(n, CARNOT_FN_LESS, h, zero), with(n, CARNOT_FN_ADD, h, 1), h);
  return y;
}

// Each channel is v (1 - s + s d), where d is a ramp of the hue, cut off at 0 and 1.
static carnot_value* to_rgb(tf_import* n, const channels* hsv) {
  static const double kCentre[] = {3, 2, 4};
  carnot_value *s = hsv->c[1], *hue = with(n, CARNOT_FN_MUL, hsv->c[0], 6);
  channels y = {.last = hsv->last};
  for (int i = 0; i < 3; i++) {
    carnot_value* d =
        import_unary(&n->node, CARNOT_FN_ABS, with(n, CARNOT_FN_SUB, hue, kCentre[i]));
    d = i == 0 ? with(n, CARNOT_FN_SUB, d, 1)
               : binary(n, CARNOT_FN_SUB, import_number(&n->node, d, 2), d);
    d = import_ternary(&n->node, CARNOT_FN_CLIP, d, import_number(&n->node, d, 0),
                       import_number(&n->node, d, 1));
    carnot_value* less =
        binary(n, CARNOT_FN_MUL, s, binary(n, CARNOT_FN_SUB, import_number(&n->node, d, 1), d));
    y.c[i] = binary(n, CARNOT_FN_MUL, hsv->c[2],
                    binary(n, CARNOT_FN_SUB, import_number(&n->node, d, 1), less));
  }
  return joined(n, &y);
}

static void handle_to_hsv(tf_import* n) {
  const channels y = to_hsv(n, n->inputs[0]);
  n->outputs[0] = joined(n, &y);
}
static void handle_to_rgb(tf_import* n) {
  const channels x = split(n, n->inputs[0]);
  n->outputs[0] = to_rgb(n, &x);
}
// The hue goes round by |delta|.
static void handle_adjust_hue(tf_import* n) {
  channels y = to_hsv(n, n->inputs[0]);
  y.c[0] = binary(n, CARNOT_FN_ADD, y.c[0],
                  import_cast(&n->node, n->inputs[1], n->inputs[0]->type.dtype));
  y.c[0] = binary(n, CARNOT_FN_SUB, y.c[0], import_unary(&n->node, CARNOT_FN_FLOOR, y.c[0]));
  n->outputs[0] = to_rgb(n, &y);
}
static void handle_adjust_saturation(tf_import* n) {
  channels y = to_hsv(n, n->inputs[0]);
  carnot_value* s = binary(n, CARNOT_FN_MUL, y.c[1],
                           import_cast(&n->node, n->inputs[1], n->inputs[0]->type.dtype));
  y.c[1] = import_ternary(&n->node, CARNOT_FN_CLIP, s, import_number(&n->node, s, 0),
                          import_number(&n->node, s, 1));
  n->outputs[0] = to_rgb(n, &y);
}
// (x - mean) * contrast + mean of each channel of each picture.
static void handle_adjust_contrast(tf_import* n) {
  carnot_value* x = n->inputs[0];
  const int rank = import_rank(&n->node, x);
  const int64_t axes[2] = {rank - 3, rank - 2};
  if (rank < 3) TF_FAIL(n, INVALID_MODEL, "%d dimensions; 3 are required", rank);
  carnot_value* mean = import_reduce(&n->node, "mean", x, axes, 2);
  carnot_value* away = binary(n, CARNOT_FN_SUB, x, mean);
  carnot_value* factor = import_cast(&n->node, n->inputs[1], x->type.dtype);
  n->outputs[0] = binary(n, CARNOT_FN_ADD, binary(n, CARNOT_FN_MUL, away, factor), mean);
}

static const tf_row kRows[] = {
    {"RGBToHSV", handle_to_hsv, 1, 1, 0, NULL, NULL},
    {"HSVToRGB", handle_to_rgb, 1, 1, 0, NULL, NULL},
    {"AdjustHue", handle_adjust_hue, 2, 2, 0, NULL, NULL},
    {"AdjustSaturation", handle_adjust_saturation, 2, 2, 0, NULL, NULL},
    {"AdjustContrastv2", handle_adjust_contrast, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_color = TF_ROW_TABLE(kRows);
