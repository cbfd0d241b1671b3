// Resampling along axes, one axis after the other.
//   y[o] = sum over taps t of weight(o,t) * x[t], t around the place x(o) that
//   |coordinate_transformation_mode| gives: half_pixel: (o+1/2)/s - 1/2 · pytorch_half_pixel: the
//   same, 0 for an output of 1 · asymmetric: o/s · align_corners: o*(in-1)/(s*in-1) ·
//   half_pixel_symmetric: half_pixel about the centre · tf_crop_and_resize: align_corners inside
//   the region |roi|, extrapolation_value outside of the input
// s is the scale: input 2 (scales), or sizes (input 3) over the dimension, as
// keep_aspect_ratio_policy wants. mode: nearest (|nearest_mode|), linear, cubic (|cubic_coeff_a|);
// |antialias| widens the filter when shrinking; |exclude_outside| drops taps outside, else they
// read the edge. |axes|: those that scales, sizes and roi speak of. An output dimension from scales
// is floor(in * s) in f32. Computed in double.
#include "ops/resize_taps.h"

// ---- sizes ----

// Which dimension entry |i| of scales, sizes and roi is for.
static carnot_status* axes_of(const carnot_attrs* attrs, int rank, size_t count, int* out_axes) {
  size_t given;
  const int64_t* axes = carnot_attr_ints(attrs, "axes", &given);
  size_t want = axes && given ? given : (size_t)rank;
  CARNOT_CHECK(count == want && want <= CARNOT_MAX_RANK, INVALID_MODEL,
               "scales or sizes has %zu elements; %zu are required", count, want);
  for (size_t i = 0; i < count; i++) {
    out_axes[i] = (int)i;
    if (axes && given) CARNOT_TRY(carnot_axis(axes[i], rank, "axes", &out_axes[i]));
  }
  return NULL;
}

// floor(dim * scale) in f32.
static int64_t scaled_size(int64_t dim, double scale) {
  return (int64_t)fminf(floorf((float)dim * (float)scale), 0x1p61f);
}
static carnot_sym scaled(carnot_syms* t, carnot_sym dim, double scale) {
  carnot_sym none = carnot_sym_of(0);
  if (carnot_sym_is_const(dim)) {
    return carnot_sym_of(scaled_size(dim.bits, scale));
  }
  if (scale == floor(scale) && scale < 1e9) {
    return carnot_sym_mul(t, dim, carnot_sym_of((int64_t)scale));
  }
  carnot_sym real = carnot_sym_make(t, CARNOT_SYM_F_FROM_INT, dim, none, none);
  real =
      carnot_sym_make(t, CARNOT_SYM_F_MUL, real, carnot_sym_float(t, (double)(float)scale), none);
  real = carnot_sym_make(t, CARNOT_SYM_F_ROUND32, real, none, none);
  real = carnot_sym_make(t, CARNOT_SYM_F_FLOOR, real, none, none);
  return carnot_sym_make(t, CARNOT_SYM_F_TO_INT, real, none, none);
}

// The one scale that keeps the aspect ratio: the smallest or the largest.
static double common_scale(const int64_t* sizes, const int64_t* dims, const int* axes, size_t count,
                           bool smallest) {
  double scale = smallest ? (double)INFINITY : 0;
  for (size_t i = 0; i < count; i++) {
    double each = (double)sizes[i] / (double)dims[axes[i]];
    if (smallest ? each < scale : each > scale) scale = each;
  }
  return scale;
}

static carnot_status* infer_sizes(carnot_infer* infer, const carnot_type* x, carnot_sym* dims) {
  const carnot_sym* sizes;
  size_t count;
  int axes[CARNOT_MAX_RANK];
  int64_t plain[CARNOT_MAX_RANK], in[CARNOT_MAX_RANK];
  CARNOT_TRY(carnot_infer_ints(infer, 3, &sizes, &count));
  bool stretch = carnot_infer_is(infer, "keep_aspect_ratio_policy", "stretch");
  if (sizes) CARNOT_TRY(axes_of(infer->attrs, x->rank, count, axes));
  bool known = sizes && (stretch || (carnot_syms_plain(sizes, count, plain) &&
                                     carnot_syms_plain(x->dims, (size_t)x->rank, in)));
  if (!known) {
    for (int i = 0; i < x->rank; i++) dims[i] = carnot_infer_unknown(infer, INT32_MAX);
    return NULL;
  }
  double scale = 0;
  if (!stretch) {
    bool smallest = carnot_infer_is(infer, "keep_aspect_ratio_policy", "not_larger");
    scale = common_scale(plain, in, axes, count, smallest);
  }
  for (size_t i = 0; i < count; i++) {
    CARNOT_CHECK(!carnot_sym_is_const(sizes[i]) || sizes[i].bits >= 0, INVALID_MODEL,
                 "sizes[%zu] is %lld", i, (long long)sizes[i].bits);
    dims[axes[i]] =
        stretch ? sizes[i] : carnot_sym_of((int64_t)floor(scale * (double)in[axes[i]] + 0.5));
  }
  return NULL;
}

static carnot_status* infer_resize(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  bool by_scales = carnot_infer_has(infer, 2), by_sizes = carnot_infer_has(infer, 3);
  CARNOT_CHECK(by_scales != by_sizes, INVALID_MODEL, "one of scales and sizes is required");
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  if (x->rank >= 0 && by_sizes) CARNOT_TRY(infer_sizes(infer, x, dims));
  if (x->rank >= 0 && by_scales) {
    const double* scales;
    size_t count;
    int axes[CARNOT_MAX_RANK];
    CARNOT_TRY(carnot_infer_floats(infer, 2, &scales, &count));
    if (scales) CARNOT_TRY(axes_of(infer->attrs, x->rank, count, axes));
    for (size_t i = 0; scales && i < count; i++) {
      CARNOT_CHECK(scales[i] > 0 && scales[i] < 1e9, INVALID_MODEL,
                   "scales[%zu] is %g; more than 0 is required", i, scales[i]);
      dims[axes[i]] = scaled(infer->syms, x->dims[axes[i]], scales[i]);
    }
    for (int i = 0; !scales && i < x->rank; i++) dims[i] = carnot_infer_unknown(infer, INT32_MAX);
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

// ---- one axis ----

typedef struct axis_run {
  const carnot_resize_filter* f;
  const carnot_resize_axis* axis;
  const double* x;
  double* y;
  int64_t inner, count;   // taps of an output
  const int64_t* first;   // of each output
  const double* weights;  // [out, count]
  const bool* outside;    // outputs that take the extrapolation value
} axis_run;

static void axis_part(void* arg, int64_t outer) {
  const axis_run* r = arg;
  for (int64_t o = 0; o < r->axis->out; o++) {
    double* y = r->y + (outer * r->axis->out + o) * r->inner;
    for (int64_t i = 0; i < r->inner; i++) y[i] = r->outside[o] ? r->f->extrapolation : 0;
    for (int64_t k = 0; !r->outside[o] && k < r->count; k++) {
      int64_t at = carnot_max_i64(carnot_min_i64(r->first[o] + k, r->axis->in - 1), 0);
      const double* x = r->x + (outer * r->axis->in + at) * r->inner;
      double w = r->weights[o * r->count + k];
      if (w == 0 && r->count > 1) continue;
      for (int64_t i = 0; i < r->inner; i++) y[i] += w * x[i];
    }
  }
}

static carnot_status* resize_axis_of(const carnot_call* call, const carnot_resize_filter* base,
                                     bool antialias, const carnot_resize_axis* axis, int64_t outer,
                                     int64_t inner, const double* x, double** out) {
  carnot_resize_filter f = *base;
  double shrink = antialias && axis->scale < 1 ? axis->scale : 1;
  int64_t* first = NULL;
  double* weights = NULL;
  bool* outside = NULL;
  f.radius = (int64_t)ceil((double)f.radius / shrink);
  axis_run r = {&f, axis, x, NULL, inner, f.radius ? 2 * f.radius : 1, NULL, NULL, NULL};
  CARNOT_TRY(carnot_call_array(call, axis->out, sizeof(int64_t), &first));
  CARNOT_TRY(carnot_call_array(call, axis->out * r.count, sizeof(double), &weights));
  CARNOT_TRY(carnot_call_array(call, axis->out, sizeof(bool), &outside));
  CARNOT_TRY(carnot_call_array(call, outer * axis->out * inner, sizeof(double), &r.y));
  for (int64_t o = 0; o < axis->out; o++) {
    double at = fmin(fmax(carnot_resize_place(&f, axis, o, &outside[o]), -1e15), 1e15);
    if (f.radius) {
      carnot_resize_taps(&f, axis, at, shrink, &first[o], weights + o * r.count);
    } else {
      first[o] = carnot_resize_nearest(&f, at);
      weights[o] = 1;
    }
  }
  r.first = first;
  r.weights = weights;
  r.outside = outside;
  carnot_call_parallel(call, outer, axis_part, &r);
  *out = r.y;
  return NULL;
}

// ---- reference ----

// Sizes, scales and regions of every dimension.
static carnot_status* read_axes(const carnot_call* call, carnot_resize_axis* all) {
  const carnot_tensor *x = carnot_call_in(call, 0), *roi = carnot_call_in(call, 1),
                      *scales = carnot_call_in(call, 2), *sizes = carnot_call_in(call, 3);
  const carnot_tensor* given = scales ? scales : sizes;
  CARNOT_CHECK((scales != NULL) != (sizes != NULL), INVALID_MODEL,
               "one of scales and sizes is required");
  size_t count = (size_t)carnot_tensor_count(given);
  int axes[CARNOT_MAX_RANK];
  CARNOT_TRY(axes_of(call->attrs, x->rank, count, axes));
  for (int i = 0; i < x->rank; i++) all[i] = (carnot_resize_axis){x->dims[i], x->dims[i], 1, 0, 1};
  bool stretch = carnot_call_is(call, "keep_aspect_ratio_policy", "stretch");
  double common = 0;
  if (sizes && !stretch) {
    int64_t plain[CARNOT_MAX_RANK];
    carnot_load_block_i64(sizes->dtype, sizes->data, 0, 1, count, plain);
    bool smallest = carnot_call_is(call, "keep_aspect_ratio_policy", "not_larger");
    common = common_scale(plain, x->dims, axes, count, smallest);
  }
  for (size_t i = 0; i < count; i++) {
    carnot_resize_axis* a = &all[axes[i]];
    double value = carnot_load_f64(given->dtype, given->data, i);
    CARNOT_CHECK(value >= 0 && value < 1e9, INVALID_ARGUMENT, "element %zu of %s is %g", i,
                 scales ? "scales" : "sizes", value);
    if (scales) {
      a->scale = value;
      a->out = scaled_size(a->in, value);
    } else {
      a->scale = stretch ? value / (double)a->in : common;
      a->out = stretch ? (int64_t)value : (int64_t)floor(common * (double)a->in + 0.5);
    }
    if (roi && (size_t)carnot_tensor_count(roi) == 2 * count) {
      a->roi_start = carnot_load_f64(roi->dtype, roi->data, i);
      a->roi_end = carnot_load_f64(roi->dtype, roi->data, count + i);
    }
  }
  return NULL;
}

static carnot_status* run_resize(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_resize_axis axes[CARNOT_MAX_RANK];
  int64_t dims[CARNOT_MAX_RANK];
  CARNOT_TRY(read_axes(call, axes));
  for (int i = 0; i < x->rank; i++) dims[i] = axes[i].out;
  CARNOT_TRY(carnot_call_size_output(call, 0, x->dtype, x->rank, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  if (carnot_tensor_count(y) == 0) return NULL;
  CARNOT_CHECK(carnot_tensor_count(x) > 0, INVALID_ARGUMENT, "the input has no elements");
  carnot_resize_filter f = {
      .place = carnot_attr_text(call->row, call->attrs, "coordinate_transformation_mode"),
      .nearest = carnot_attr_text(call->row, call->attrs, "nearest_mode"),
      .cubic = carnot_call_is(call, "mode", "cubic"),
      .exclude_outside = carnot_call_int(call, "exclude_outside") != 0,
      .a = carnot_call_float(call, "cubic_coeff_a"),
      .extrapolation = carnot_call_float(call, "extrapolation_value")};
  f.radius = f.cubic ? 2 : carnot_call_is(call, "mode", "linear") ? 1 : 0;
  bool antialias = carnot_call_int(call, "antialias") != 0;
  const double* values;
  CARNOT_TRY(carnot_call_f64(call, x, &values));
  memcpy(dims, x->dims, sizeof(dims));
  for (int i = 0; i < x->rank; i++) {
    carnot_resize_axis* a = &axes[i];
    bool whole = a->roi_start == 0 && a->roi_end == 1;
    if (a->scale == 1 && a->in == a->out && whole) continue;
    double* out = NULL;
    int64_t inner = carnot_dims_count(dims + i + 1, x->rank - i - 1);
    CARNOT_TRY(
        resize_axis_of(call, &f, antialias, a, carnot_dims_count(dims, i), inner, values, &out));
    dims[i] = a->out;
    values = out;
  }
  carnot_store_block_f64(y->dtype, y->data, 0, 1, (size_t)carnot_tensor_count(y), values);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {
    CARNOT_SPEC_INT("antialias", 0),
    CARNOT_SPEC_LIST("axes", INTS),
    CARNOT_SPEC_WORD("coordinate_transformation_mode", "half_pixel",
                     "half_pixel pytorch_half_pixel asymmetric align_corners half_pixel_symmetric "
                     "tf_crop_and_resize"),
    CARNOT_SPEC_FLOAT("cubic_coeff_a", -0.75),
    CARNOT_SPEC_INT("exclude_outside", 0),
    CARNOT_SPEC_FLOAT("extrapolation_value", 0),
    CARNOT_SPEC_WORD("keep_aspect_ratio_policy", "stretch", "stretch not_larger not_smaller"),
    CARNOT_SPEC_WORD("mode", "nearest", "nearest linear cubic"),
    CARNOT_SPEC_WORD("nearest_mode", "round_prefer_floor",
                     "round_prefer_floor round_prefer_ceil floor ceil"),
    CARNOT_SPEC_END};

const carnot_op_row carnot_op_resize = {
    .name = "resize",
    .min_inputs = 1,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .axes = {.moves = true, .axes = "axes", .per_axis = 7u << 1},
    .infer = infer_resize,
    .reference = run_resize,
    .source = "ONNX Resize-19",
    .layer_type = "RESIZE",
};
