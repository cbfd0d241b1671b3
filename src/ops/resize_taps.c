// The input positions and weights that one output coordinate of Resize reads.
#include "ops/resize_taps.h"

double carnot_resize_place(const carnot_resize_filter* f, const carnot_resize_axis* x, int64_t o,
                           bool* out_outside) {
  double at = (double)o, in = (double)x->in, width = x->scale * in;
  *out_outside = false;
  if (carnot_view_is(f->place, "asymmetric")) return at / x->scale;
  if (carnot_view_is(f->place, "align_corners")) {
    return width == 1 ? 0 : at * (in - 1) / (width - 1);
  }
  if (carnot_view_is(f->place, "tf_crop_and_resize")) {
    double size = x->roi_end - x->roi_start;
    double place = width == 1 ? size * (in - 1) / 2 : at * size * (in - 1) / (width - 1);
    place += x->roi_start * (in - 1);
    *out_outside = place < 0 || place > in - 1;
    return place;
  }
  if (carnot_view_is(f->place, "pytorch_half_pixel") && x->out <= 1) return 0;
  double half = (at + 0.5) / x->scale - 0.5;
  if (!carnot_view_is(f->place, "half_pixel_symmetric")) return half;
  return half + in / 2 * (1 - (double)x->out / width);
}

int64_t carnot_resize_nearest(const carnot_resize_filter* f, double at) {
  double low = floor(at), part = at - low;
  if (part == 0) return (int64_t)at;
  bool up = carnot_view_is(f->nearest, "ceil") ||
            (carnot_view_is(f->nearest, "round_prefer_floor") && part > 0.5) ||
            (carnot_view_is(f->nearest, "round_prefer_ceil") && part >= 0.5);
  return (int64_t)low + up;
}

static double weight_of(const carnot_resize_filter* f, double distance) {
  double d = fabs(distance), a = f->a;
  if (!f->cubic) return d < 1 ? 1 - d : 0;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

void carnot_resize_taps(const carnot_resize_filter* f, const carnot_resize_axis* x, double at,
                        double shrink, int64_t* out_first, double* weights) {
  int64_t count = 2 * f->radius, first = (int64_t)ceil(at) - f->radius;
  double sum = 0, inside = 0;
  for (int64_t k = 0; k < count; k++) {
    weights[k] = weight_of(f, ((double)(first + k) - at) * shrink);
    sum += weights[k];
    if (first + k >= 0 && first + k < x->in) inside += weights[k];
  }
  double total = f->exclude_outside ? inside : shrink < 1 ? sum : 1;
  for (int64_t k = 0; k < count; k++) {
    bool drop = f->exclude_outside && (first + k < 0 || first + k >= x->in);
    weights[k] = drop || total == 0 ? 0 : weights[k] / total;
  }
  *out_first = first;
}
