// Crops of images, resized to one size.
//   y[r,c,i,j] = x[images[r],c] at row Y(r,i) and column X(r,j), by bilinear interpolation or from
//   the nearest pixel; extrapolation_value where the position is outside the image
//   Y(r,i) = (y1 + i * (y2 - y1) / (height - 1)) * (H - 1), 0.5 * (y1 + y2) * (H - 1) for height 1;
//   X likewise
// |x| [N,C,H,W]  |rois| [R,4] (y1, x1, y2, x2), 1 being the last pixel  |batch_indices| [R]
// |crop_size| [2] (height, width). Positions are computed in float as TensorFlow does, which
// decides the nearest pixel of a position between two; pixels in double.
#include "ops/roi.h"
#include "ops/util.h"

typedef struct crop_run {
  const carnot_tensor* x;
  const double *values, *boxes;
  const int64_t* images;
  double *y, extrapolation;
  int64_t height, width;  // of the crops
  bool nearest;
} crop_run;

static carnot_status* infer_crop(carnot_infer* infer) {
  const carnot_type *x, *rois;
  const carnot_sym* size;
  size_t count;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 4, 4, &x));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 2, 2, &rois));
  CARNOT_TRY(carnot_infer_ints(infer, 3, &size, &count));
  CARNOT_CHECK(!size || count == 2, INVALID_MODEL, "crop_size has %zu elements; 2 are required",
               count);
  carnot_sym dims[4];
  dims[0] = rois->rank < 0 ? carnot_infer_unknown(infer, INT32_MAX) : rois->dims[0];
  dims[1] = x->rank < 0 ? carnot_infer_unknown(infer, INT32_MAX) : x->dims[1];
  for (int d = 0; d < 2; d++) {
    CARNOT_CHECK(
        !size || !carnot_sym_is_const(size[d]) || (size[d].bits > 0 && size[d].bits <= INT32_MAX),
        INVALID_MODEL, "crop_size[%d] is %lld; at least 1 is required", d, (long long)size[d].bits);
    dims[2 + d] = size ? size[d] : carnot_infer_unknown(infer, INT32_MAX);
  }
  carnot_infer_set(infer, 0, x->dtype, 4, dims);
  return NULL;
}

double carnot_crop_position(double first, double last, int64_t i, int64_t count, int64_t size) {
  const float from = (float)first, to = (float)last, end = (float)(size - 1);
  const float start = from * end, step = count > 1 ? (to - from) * end / (float)(count - 1) : 0.0f;
  const float offset = (float)i * step;
  return (double)(count > 1 ? start + offset : 0.5f * (from + to) * end);
}

// NaN and infinity of a pixel without weight have no effect.
static double blend(double a, double b, double part) {
  return part > 0 ? (1 - part) * a + part * b : a;
}

static double pixel(const crop_run* r, const double* plane, double y, double x) {
  int64_t h = r->x->dims[2], w = r->x->dims[3];
  if (!(y >= 0 && y <= (double)(h - 1) && x >= 0 && x <= (double)(w - 1))) return r->extrapolation;
  if (r->nearest) return plane[(int64_t)round(y) * w + (int64_t)round(x)];
  int64_t top = (int64_t)floor(y), bottom = (int64_t)ceil(y), left = (int64_t)floor(x),
          right = (int64_t)ceil(x);
  double fy = y - (double)top, fx = x - (double)left;
  return blend(blend(plane[top * w + left], plane[top * w + right], fx),
               blend(plane[bottom * w + left], plane[bottom * w + right], fx), fy);
}

static void crop_part(void* arg, int64_t part) {
  const crop_run* r = arg;
  int64_t channels = r->x->dims[1], h = r->x->dims[2], w = r->x->dims[3], crop = part / channels;
  const double* box = r->boxes + crop * 4;
  const double* plane = r->values + (r->images[crop] * channels + part % channels) * h * w;
  for (int64_t i = 0; i < r->height; i++)
    for (int64_t j = 0; j < r->width; j++)
      r->y[(part * r->height + i) * r->width + j] =
          pixel(r, plane, carnot_crop_position(box[0], box[2], i, r->height, h),
                carnot_crop_position(box[1], box[3], j, r->width, w));
}

static carnot_status* run_crop(carnot_call* call) {
  crop_run r = {.x = carnot_call_in(call, 0),
                .extrapolation = carnot_call_float(call, "extrapolation_value"),
                .nearest = carnot_attr_is(call->row, call->attrs, "mode", "nearest")};
  const carnot_tensor *rois = carnot_call_in(call, 1), *images = carnot_call_in(call, 2);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  CARNOT_CHECK(rois->dims[1] == 4 && carnot_tensor_count(images) == rois->dims[0], INVALID_MODEL,
               "rois is [%lld,%lld] with %lld batch_indices; [R,4] with R is required",
               (long long)rois->dims[0], (long long)rois->dims[1],
               (long long)carnot_tensor_count(images));
  CARNOT_TRY(carnot_call_f64(call, r.x, &r.values));
  CARNOT_TRY(carnot_call_f64(call, rois, &r.boxes));
  CARNOT_TRY(carnot_call_i64(call, images, &r.images));
  CARNOT_TRY(carnot_call_f64_out(call, y, &r.y));
  r.height = y->dims[2];
  r.width = y->dims[3];
  for (int64_t i = 0; i < rois->dims[0]; i++)
    CARNOT_CHECK(r.images[i] >= 0 && r.images[i] < r.x->dims[0], INVALID_ARGUMENT,
                 "batch_indices[%lld] is %lld; the batch has %lld images", (long long)i,
                 (long long)r.images[i], (long long)r.x->dims[0]);
  carnot_call_parallel(call, rois->dims[0] * r.x->dims[1], crop_part, &r);
  carnot_write_f64(y, r.y);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_FLOAT("extrapolation_value", 0),
                                          CARNOT_SPEC_WORD("mode", "bilinear", "bilinear nearest"),
                                          CARNOT_SPEC_END};
const carnot_op_row carnot_op_crop_and_resize = {
    .name = "crop_and_resize",
    .min_inputs = 4,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(3),
    .infer = infer_crop,
    .reference = run_crop,
    .source = "com.microsoft CropAndResize-1, TensorFlow CropAndResize",
    .layer_type = "RESIZE",
};
