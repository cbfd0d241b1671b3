// Pooling of regions of interest to a fixed size.
//   max_roi_pool: y[r,c,i,j] = max of x over cell (i,j) of region r, edges rounded outward; 0 for
//   an empty cell roi_align:    y[r,c,i,j] = mean or max over a grid of points of the cell, x read
//   by bilinear interpolation
// |x| [N,C,H,W]  |rois| [R,5] (image, x1, y1, x2, y2) or [R,4] with the images in |batch_indices|
// [R]. In mode max roi_align takes the largest weighted neighbour of any point. Computed in double.
#include "ops/roi.h"

typedef struct roi_run {
  const carnot_tensor *x, *rois;
  const double *values, *regions;
  const int64_t* images;  // of roi_align
  double* y;
  int64_t height, width;  // of the output
  double scale;           // of max_roi_pool
  carnot_roi_rule rule;   // of roi_align
} roi_run;

static carnot_status* set_output(carnot_infer* infer, int64_t height, int64_t width) {
  const carnot_type *x, *rois;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 4, 4, &x));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 2, 2, &rois));
  CARNOT_CHECK(height > 0 && width > 0 && height <= INT32_MAX && width <= INT32_MAX, INVALID_MODEL,
               "the output is %lld by %lld; at least 1 is required", (long long)height,
               (long long)width);
  carnot_sym dims[4] = {
      rois->rank < 0 ? carnot_infer_unknown(infer, INT32_MAX) : rois->dims[0],
      x->rank < 0 ? carnot_infer_unknown(infer, INT32_MAX) : x->dims[1],
      carnot_sym_of(height),
      carnot_sym_of(width),
  };
  carnot_infer_set(infer, 0, x->dtype, 4, dims);
  return NULL;
}

static carnot_status* infer_max_roi(carnot_infer* infer) {
  size_t count;
  const int64_t* shape = carnot_attr_ints(infer->attrs, "pooled_shape", &count);
  CARNOT_CHECK(count == 2, INVALID_MODEL, "pooled_shape has %zu elements; 2 are required", count);
  return set_output(infer, shape[0], shape[1]);
}
static carnot_status* infer_align(carnot_infer* infer) {
  return set_output(infer, carnot_infer_int(infer, "output_height"),
                    carnot_infer_int(infer, "output_width"));
}

static carnot_status* begin(carnot_call* call, int64_t columns, roi_run* r) {
  r->x = carnot_call_in(call, 0);
  r->rois = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  CARNOT_CHECK(r->rois->dims[1] == columns, INVALID_MODEL,
               "rois has %lld columns; %lld are required", (long long)r->rois->dims[1],
               (long long)columns);
  CARNOT_TRY(carnot_call_f64(call, r->x, &r->values));
  CARNOT_TRY(carnot_call_f64(call, r->rois, &r->regions));
  CARNOT_TRY(carnot_call_f64_out(call, y, &r->y));
  r->height = y->dims[2];
  r->width = y->dims[3];
  return NULL;
}

// ---- max_roi_pool ----

static double cell_max(const double* plane, int64_t width, const int64_t* from, const int64_t* to) {
  if (from[0] >= to[0] || from[1] >= to[1]) return 0;
  double best = -(double)INFINITY;
  for (int64_t i = from[0]; i < to[0]; i++) {
    for (int64_t j = from[1]; j < to[1]; j++) {
      double v = plane[i * width + j];
      if (v > best || v != v) best = v;
      if (best != best) return best;
    }
  }
  return best;
}

void carnot_max_roi_cell(const carnot_max_roi_side* side, int64_t i, int64_t cells, int64_t size,
                         int64_t* out_from, int64_t* out_to) {
  double each = (double)carnot_max_i64(side->end - side->start + 1, 1) / (double)cells;
  int64_t from = side->start + carnot_roi_position(floor((double)i * each));
  int64_t to = side->start + carnot_roi_position(ceil((double)(i + 1) * each));
  *out_from = carnot_min_i64(carnot_max_i64(from, 0), size);
  *out_to = carnot_min_i64(carnot_max_i64(to, 0), size);
}

static void max_roi_part(void* arg, int64_t part) {
  const roi_run* r = arg;
  int64_t channels = r->x->dims[1], h = r->x->dims[2], w = r->x->dims[3];
  const double* roi = r->regions + part / channels * 5;
  const double* plane = r->values + ((int64_t)roi[0] * channels + part % channels) * h * w;
  const carnot_max_roi_side across = carnot_max_roi_side_of(roi[1], roi[3], r->scale),
                            down = carnot_max_roi_side_of(roi[2], roi[4], r->scale);
  for (int64_t i = 0; i < r->height; i++) {
    for (int64_t j = 0; j < r->width; j++) {
      int64_t from[2], to[2];
      carnot_max_roi_cell(&down, i, r->height, h, &from[0], &to[0]);
      carnot_max_roi_cell(&across, j, r->width, w, &from[1], &to[1]);
      r->y[(part * r->height + i) * r->width + j] = cell_max(plane, w, from, to);
    }
  }
}

static carnot_status* run_max_roi(carnot_call* call) {
  roi_run r = {0};
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  CARNOT_TRY(begin(call, 5, &r));
  r.scale = carnot_call_float(call, "spatial_scale");
  for (int64_t i = 0; i < r.rois->dims[0]; i++) {
    CARNOT_TRY(carnot_roi_check_image(carnot_roi_position(r.regions[i * 5]), r.x->dims[0]));
  }
  carnot_call_parallel(call, r.rois->dims[0] * r.x->dims[1], max_roi_part, &r);
  carnot_write_f64(y, r.y);
  return NULL;
}

// ---- roi_align ----

bool carnot_roi_neighbours(double at, int64_t size, int64_t* low, int64_t* high, double* out_part) {
  if (!(size > 0 && at >= -1 && at <= (double)size)) return false;
  at = fmax(at, 0);
  *low = (int64_t)at;
  *high = *low + 1;
  if (*low >= size - 1) {
    *low = *high = size - 1;
    at = (double)*low;
  }
  *out_part = at - (double)*low;
  return true;
}

// The four weighted neighbours of a point, summed or the largest.
static double point(const roi_run* r, const double* plane, double y, double x) {
  int64_t h = r->x->dims[2], w = r->x->dims[3], y0, y1, x0, x1;
  double fy, fx;
  if (!carnot_roi_neighbours(y, h, &y0, &y1, &fy) || !carnot_roi_neighbours(x, w, &x0, &x1, &fx))
    return 0;
  double a = (1 - fy) * (1 - fx) * plane[y0 * w + x0], b = (1 - fy) * fx * plane[y0 * w + x1];
  double c = fy * (1 - fx) * plane[y1 * w + x0], d = fy * fx * plane[y1 * w + x1];
  if (r->rule.mean) return a + b + c + d;
  double best = a;
  if (b > best || b != b) best = b;
  if (c > best || c != c) best = c;
  if (d > best || d != d) best = d;
  return best;
}

// Points along one side of a cell; a cell of more elements than the limit is sampled that often.
static int64_t points_across(const carnot_roi_rule* rule, double cell) {
  const int64_t limit = 1 << 15;
  int64_t wanted = rule->sampling > 0 ? rule->sampling : carnot_roi_position(ceil(cell));
  return carnot_max_i64(carnot_min_i64(wanted, limit), 0);
}

carnot_roi_rule carnot_roi_rule_of(const carnot_attrs* attrs) {
  const carnot_op_row* row = &carnot_op_roi_align;
  bool half = carnot_attr_is(row, attrs, "coordinate_transformation_mode", "half_pixel");
  return (carnot_roi_rule){.scale = carnot_attr_float(row, attrs, "spatial_scale"),
                           .shift = half ? 0.5 : 0,
                           .sampling = carnot_attr_int(row, attrs, "sampling_ratio"),
                           .mean = !carnot_attr_is(row, attrs, "mode", "max")};
}

carnot_roi_side carnot_roi_side_of(const carnot_roi_rule* rule, double from, double to,
                                   int64_t cells) {
  carnot_roi_side side = {.start = from * rule->scale - rule->shift};
  double length = to * rule->scale - rule->shift - side.start;
  if (rule->shift == 0) length = fmax(length, 1);
  side.cell = length / (double)cells;
  side.points = points_across(rule, side.cell);
  return side;
}

static void align_part(void* arg, int64_t part) {
  const roi_run* r = arg;
  int64_t channels = r->x->dims[1], h = r->x->dims[2], w = r->x->dims[3];
  int64_t region = part / channels;
  const double* roi = r->regions + region * 4;
  const double* plane = r->values + (r->images[region] * channels + part % channels) * h * w;
  carnot_roi_side across = carnot_roi_side_of(&r->rule, roi[0], roi[2], r->width),
                  down = carnot_roi_side_of(&r->rule, roi[1], roi[3], r->height);
  int64_t count = down.points * across.points;
  for (int64_t i = 0; i < r->height; i++) {
    for (int64_t j = 0; j < r->width; j++) {
      double sum = 0, best = 0;
      for (int64_t k = 0; k < count; k++) {
        double v = point(r, plane, carnot_roi_point(&down, i, k / across.points),
                         carnot_roi_point(&across, j, k % across.points));
        sum += v;
        if (k == 0 || v > best || v != v) best = v;
      }
      r->y[(part * r->height + i) * r->width + j] =
          r->rule.mean ? sum / (double)carnot_max_i64(count, 1) : best;
    }
  }
}

static carnot_status* run_align(carnot_call* call) {
  roi_run r = {0};
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  CARNOT_TRY(begin(call, 4, &r));
  const carnot_tensor* images = carnot_call_in(call, 2);
  CARNOT_CHECK(carnot_tensor_count(images) == r.rois->dims[0], INVALID_MODEL,
               "batch_indices has %lld elements; %lld are required",
               (long long)carnot_tensor_count(images), (long long)r.rois->dims[0]);
  CARNOT_TRY(carnot_call_i64(call, images, &r.images));
  for (int64_t i = 0; i < r.rois->dims[0]; i++)
    CARNOT_TRY(carnot_roi_check_image(r.images[i], r.x->dims[0]));
  r.rule = carnot_roi_rule_of(call->attrs);
  carnot_call_parallel(call, r.rois->dims[0] * r.x->dims[1], align_part, &r);
  carnot_write_f64(y, r.y);
  return NULL;
}

static const carnot_attr_spec kMaxRoiAttrs[] = {CARNOT_SPEC_REQUIRED("pooled_shape", INTS),
                                                CARNOT_SPEC_FLOAT("spatial_scale", 1),
                                                CARNOT_SPEC_END};
static const carnot_attr_spec kAlignAttrs[] = {
    CARNOT_SPEC_WORD("coordinate_transformation_mode", "half_pixel",
                     "half_pixel output_half_pixel"),
    CARNOT_SPEC_WORD("mode", "avg", "avg max"),
    CARNOT_SPEC_INT("output_height", 1),
    CARNOT_SPEC_INT("output_width", 1),
    CARNOT_SPEC_INT("sampling_ratio", 0),
    CARNOT_SPEC_FLOAT("spatial_scale", 1),
    CARNOT_SPEC_END};

const carnot_op_row carnot_op_max_roi_pool = {
    .name = "max_roi_pool",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kMaxRoiAttrs,
    .infer = infer_max_roi,
    .reference = run_max_roi,
    .source = "ONNX MaxRoiPool-22",
    .layer_type = "POOLING",
};
const carnot_op_row carnot_op_roi_align = {
    .name = "roi_align",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAlignAttrs,
    .infer = infer_align,
    .reference = run_align,
    .source = "ONNX RoiAlign-22",
    .layer_type = "POOLING",
};
