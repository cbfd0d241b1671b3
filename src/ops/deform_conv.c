// Deformable convolution: every tap of every output reads the input at a place of its own.
//   y[n,m,p] = bias[m] + sum_{c,t} w[m,c,t] * mask[n,g,t,p] * x[n,c, p*stride + t*dilation - begin
//   + offset[n,g,t,:,p]]
// |x| [N,C,D..]  |w| [M,C/group,K..]  |offset| [N, offset_group*taps*rank, O..]  |mask| [N,
// offset_group*taps, O..], absent: 1. Positions between elements are read by linear interpolation,
// outside as 0. Computed in double.
#include "ops/conv.h"

static carnot_status* infer_deform(carnot_infer* infer) {
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  int64_t groups = carnot_infer_int(infer, "offset_group");
  CARNOT_CHECK(groups > 0, INVALID_MODEL, "offset_group is %lld; at least 1 is required",
               (long long)groups);
  return carnot_conv_infer(infer, 0, 1, infer->inputs[0].type->dtype);
}

typedef struct deform_run {
  carnot_sliding_window window;
  const double *x, *w, *offset, *bias, *mask;
  double *y, *columns;  // a column of channels*taps for each part
  int64_t channels, filters, groups, offset_groups;
  int64_t in_dims[CARNOT_SLIDING_WINDOW_RANK], out_dims[CARNOT_SLIDING_WINDOW_RANK];
  int64_t in_size, out_size, tap_count, count, parts;
} deform_run;

// x at |at| by linear interpolation between the 2^rank neighbours.
static double sample(const deform_run* r, const double* plane, const double* at) {
  int rank = r->window.rank;
  double sum = 0;
  for (unsigned corner = 0; corner < 1u << rank; corner++) {
    double weight = 1;
    int64_t offset = 0;
    for (int d = 0; d < rank && weight != 0; d++) {
      double low = floor(at[d]), part = at[d] - low;
      bool upper = corner >> d & 1;
      double i = low + upper;
      weight *= upper ? part : 1 - part;
      if (!(i >= 0 && i < (double)r->in_dims[d])) weight = 0;
      if (weight != 0) offset = offset * r->in_dims[d] + (int64_t)i;
    }
    if (weight != 0) sum += weight * plane[offset];
  }
  return sum;
}

// The values that output pixel |p| of image |n| sees, for every channel and tap.
static void gather(const deform_run* r, int64_t n, int64_t p, double* column) {
  const carnot_sliding_window* w = &r->window;
  int64_t out_at[CARNOT_SLIDING_WINDOW_RANK], tap[CARNOT_SLIDING_WINDOW_RANK];
  int64_t group_channels = r->channels / r->offset_groups;
  carnot_unravel(p, r->out_dims, w->rank, out_at);
  for (int64_t g = 0; g < r->offset_groups; g++) {
    for (int64_t t = 0; t < r->tap_count; t++) {
      double at[CARNOT_SLIDING_WINDOW_RANK];
      int64_t place = (n * r->offset_groups + g) * r->tap_count + t;
      carnot_unravel(t, w->kernel, w->rank, tap);
      for (int d = 0; d < w->rank; d++) {
        at[d] = (double)(out_at[d] * w->strides[d] + tap[d] * w->dilations[d] - w->begin[d]) +
                r->offset[(place * w->rank + d) * r->out_size + p];
      }
      double scale = r->mask ? r->mask[place * r->out_size + p] : 1;
      for (int64_t c = g * group_channels; c < (g + 1) * group_channels; c++) {
        column[c * r->tap_count + t] =
            scale * sample(r, r->x + (n * r->channels + c) * r->in_size, at);
      }
    }
  }
}

static void deform_part(void* arg, int64_t part) {
  const deform_run* r = arg;
  int64_t depth = r->channels / r->groups * r->tap_count;
  double* column = r->columns + part * r->channels * r->tap_count;
  for (int64_t i = part; i < r->count; i += r->parts) {
    int64_t n = i / r->out_size, p = i % r->out_size;
    gather(r, n, p, column);
    for (int64_t m = 0; m < r->filters; m++) {
      const double* x = column + m / (r->filters / r->groups) * depth;
      const double* w = r->w + m * depth;
      double sum = r->bias ? r->bias[m] : 0;
      for (int64_t k = 0; k < depth; k++) sum += w[k] * x[k];
      r->y[(n * r->filters + m) * r->out_size + p] = sum;
    }
  }
}

static carnot_status* check_sizes(const deform_run* r, const carnot_tensor* x,
                                  const carnot_tensor* w, const carnot_tensor* offset,
                                  const carnot_tensor* mask) {
  int64_t positions = x->dims[0] * r->offset_groups * r->tap_count * r->out_size;
  CARNOT_CHECK(r->channels % r->offset_groups == 0 && r->channels % r->groups == 0 &&
                   r->filters % r->groups == 0 && w->dims[1] * r->groups == r->channels,
               INVALID_MODEL, "%lld channels and %lld filters do not fit the groups",
               (long long)r->channels, (long long)r->filters);
  CARNOT_CHECK(carnot_tensor_count(offset) == positions * r->window.rank, INVALID_MODEL,
               "offset has %lld elements; %lld are required",
               (long long)carnot_tensor_count(offset), (long long)(positions * r->window.rank));
  CARNOT_CHECK(!mask || carnot_tensor_count(mask) == positions, INVALID_MODEL,
               "mask has %lld elements; %lld are required", (long long)carnot_tensor_count(mask),
               (long long)positions);
  return NULL;
}

static carnot_status* run_deform(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *w = carnot_call_in(call, 1),
                      *offset = carnot_call_in(call, 2), *bias = carnot_call_in(call, 3),
                      *mask = carnot_call_in(call, 4);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  deform_run r = {0};
  int rank = x->rank - 2;
  CARNOT_TRY(carnot_sliding_window_of_call(call, rank, w, &r.window));
  r.channels = x->dims[1];
  r.filters = w->dims[0];
  r.groups = carnot_call_int(call, "group");
  r.offset_groups = carnot_call_int(call, "offset_group");
  memcpy(r.in_dims, x->dims + 2, (size_t)rank * sizeof(int64_t));
  memcpy(r.out_dims, y->dims + 2, (size_t)rank * sizeof(int64_t));
  r.in_size = carnot_dims_count(r.in_dims, rank);
  r.out_size = carnot_dims_count(r.out_dims, rank);
  r.tap_count = carnot_dims_count(w->dims + 2, rank);
  r.count = x->dims[0] * r.out_size;
  r.parts = carnot_min_i64(r.count, 64);
  CARNOT_TRY(check_sizes(&r, x, w, offset, mask));
  CARNOT_TRY(carnot_call_f64(call, x, &r.x));
  CARNOT_TRY(carnot_call_f64(call, w, &r.w));
  CARNOT_TRY(carnot_call_f64(call, offset, &r.offset));
  CARNOT_TRY(carnot_call_f64(call, bias, &r.bias));
  CARNOT_TRY(carnot_call_f64(call, mask, &r.mask));
  CARNOT_TRY(carnot_call_f64_out(call, y, &r.y));
  CARNOT_TRY(
      carnot_call_array(call, r.parts * r.channels * r.tap_count, sizeof(double), &r.columns));
  carnot_call_parallel(call, r.parts, deform_part, &r);
  carnot_write_f64(y, r.y);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_LIST("dilations", INTS),
                                          CARNOT_SPEC_INT("group", 1),
                                          CARNOT_SPEC_LIST("kernel_shape", INTS),
                                          CARNOT_SPEC_INT("offset_group", 1),
                                          CARNOT_SPEC_LIST("pads", INTS),
                                          CARNOT_SPEC_LIST("strides", INTS),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_deform_conv = {
    .name = "deform_conv",
    .min_inputs = 3,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_deform,
    .reference = run_deform,
    .source = "ONNX DeformConv-22; Zhu et al., Deformable ConvNets v2, section 3.2",
    .layer_type = "CONVOLUTION",
};
