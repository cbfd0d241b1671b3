// Transposed convolution: every input element spreads the kernel over the output.
//   y[n,m, p*stride + t*dilation - begin ..] += x[n,c,p..] * w[c,m,t..], from bias[m]
//   out = stride*(in-1) + output_padding + (kernel-1)*dilation + 1 - begin - end
// |x| [N,C,D..]  |w| [C,M/group,K..]  |bias| [M] or absent. |output_shape| or auto_pad SAME_* (out
// = in*stride) say the size instead and the padding follows from it. Computed in double.
#include "ops/sliding_window.h"

static carnot_status* output_paddings(const carnot_attrs* attrs, int rank, int64_t* out) {
  size_t count;
  const int64_t* values = carnot_attr_ints(attrs, "output_padding", &count);
  for (int i = 0; i < rank; i++) out[i] = 0;
  if (!values || count == 0) return NULL;
  CARNOT_CHECK(count == (size_t)rank, INVALID_MODEL,
               "output_padding has %zu elements; %d are required", count, rank);
  for (int i = 0; i < rank; i++) {
    CARNOT_CHECK(values[i] >= 0 && values[i] <= INT32_MAX, INVALID_MODEL,
                 "output_padding[%d] is %lld; 0 or more is required", i, (long long)values[i]);
    out[i] = values[i];
  }
  return NULL;
}

static bool same_pad(const carnot_sliding_window* w) {
  return w->auto_pad == CARNOT_PAD_SAME_UPPER || w->auto_pad == CARNOT_PAD_SAME_LOWER;
}

static carnot_status* infer_spatial(carnot_infer* infer, const carnot_sliding_window* w,
                                    const carnot_sym* in, carnot_sym* out) {
  size_t count;
  const int64_t* shape = carnot_attr_ints(infer->attrs, "output_shape", &count);
  int64_t extra[CARNOT_SLIDING_WINDOW_RANK];
  CARNOT_TRY(output_paddings(infer->attrs, w->rank, extra));
  if (shape && count == (size_t)w->rank + 2) shape += 2, count -= 2;  // some exporters give all
  CARNOT_CHECK(!shape || count == (size_t)w->rank, INVALID_MODEL,
               "output_shape has %zu elements; %d are required", count, w->rank);
  for (int i = 0; i < w->rank; i++) {
    carnot_sym stride = carnot_sym_of(w->strides[i]);
    if (shape) {
      CARNOT_CHECK(shape[i] >= 0, INVALID_MODEL, "output_shape[%d] is %lld", i,
                   (long long)shape[i]);
      out[i] = carnot_sym_of(shape[i]);
    } else if (same_pad(w)) {
      out[i] = carnot_sym_mul(infer->syms, in[i], stride);
    } else if (!w->kernel[i]) {
      out[i] = carnot_infer_unknown(infer, INT32_MAX);
    } else {
      carnot_sym last = carnot_sym_add(infer->syms, in[i], carnot_sym_of(-1));
      int64_t rest = extra[i] + (w->kernel[i] - 1) * w->dilations[i] + 1 - w->begin[i] - w->end[i];
      out[i] = carnot_sym_add(infer->syms, carnot_sym_mul(infer->syms, last, stride),
                              carnot_sym_of(rest));
      CARNOT_CHECK(!carnot_sym_is_const(out[i]) || out[i].bits >= 0, INVALID_MODEL,
                   "spatial dimension %d of the output comes out as %lld", i,
                   (long long)out[i].bits);
    }
  }
  return NULL;
}

static carnot_status* infer_transpose(carnot_infer* infer) {
  const carnot_type *x, *w;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, &x));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 2, CARNOT_MAX_RANK, &w));
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  int64_t group = carnot_infer_int(infer, "group");
  CARNOT_CHECK(group > 0, INVALID_MODEL, "group is %lld; at least 1 is required", (long long)group);
  carnot_sym dims[CARNOT_MAX_RANK];
  if (x->rank >= 0) {
    CARNOT_CHECK(w->rank < 0 || w->rank == x->rank, INVALID_MODEL,
                 "the weights have rank %d; the input's rank %d is required", w->rank, x->rank);
    carnot_sliding_window window;
    carnot_sym both;
    CARNOT_TRY(carnot_sliding_window_read(infer->row, infer->attrs, x->rank - 2, w, &window));
    dims[0] = x->dims[0];
    dims[1] = carnot_infer_unknown(infer, INT32_MAX);
    if (w->rank > 0) {
      dims[1] = carnot_sym_mul(infer->syms, w->dims[1], carnot_sym_of(group));
      CARNOT_TRY(carnot_infer_merge(infer, x->dims[1], w->dims[0], "channels of input and weights",
                                    &both));
    }
    CARNOT_TRY(infer_spatial(infer, &window, x->dims + 2, dims + 2));
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

// ---- reference ----

typedef struct transpose_run {
  carnot_sliding_window window;
  const double *x, *w, *bias;
  double* y;
  int64_t channels, group_channels, group_filters, filters;
  int64_t in_dims[CARNOT_SLIDING_WINDOW_RANK], out_dims[CARNOT_SLIDING_WINDOW_RANK];
  int64_t in_size, out_size, tap_count;
} transpose_run;

// Adds one channel of the input, times one tap of its kernel, to a plane of the output.
static void spread(const transpose_run* r, const double* x, double weight, const int64_t* tap,
                   double* y) {
  const carnot_sliding_window* w = &r->window;
  int last = w->rank - 1;
  int64_t width = last >= 0 ? r->in_dims[last] : 1;
  for (int64_t row = 0; row < r->in_size; row += width) {
    int64_t at[CARNOT_SLIDING_WINDOW_RANK] = {0}, offset = 0;
    carnot_unravel(row, r->in_dims, w->rank, at);
    bool inside = true;
    for (int d = 0; d < last; d++) {
      int64_t i = at[d] * w->strides[d] + tap[d] * w->dilations[d] - w->begin[d];
      inside &= i >= 0 && i < r->out_dims[d];
      offset = offset * r->out_dims[d] + i;
    }
    if (!inside) continue;
    if (last < 0) {
      y[0] += x[0] * weight;
      continue;
    }
    int64_t size = r->out_dims[last], start = tap[last] * w->dilations[last] - w->begin[last];
    double* to = y + offset * size;
    for (int64_t j = 0; j < width; j++) {
      int64_t i = j * w->strides[last] + start;
      if (i >= 0 && i < size) to[i] += x[row + j] * weight;
    }
  }
}

static void transpose_plane(void* arg, int64_t part) {
  const transpose_run* r = arg;
  int64_t image = part / r->filters, m = part % r->filters, group = m / r->group_filters;
  double* y = r->y + part * r->out_size;
  for (int64_t i = 0; i < r->out_size; i++) y[i] = r->bias ? r->bias[m] : 0;
  for (int64_t i = 0; i < r->group_channels; i++) {
    int64_t c = group * r->group_channels + i, tap[CARNOT_SLIDING_WINDOW_RANK] = {0};
    const double* x = r->x + (image * r->channels + c) * r->in_size;
    const double* w = r->w + (c * r->group_filters + m % r->group_filters) * r->tap_count;
    for (int64_t t = 0; t < r->tap_count; t++) {
      carnot_unravel(t, r->window.kernel, r->window.rank, tap);
      spread(r, x, w[t], tap, y);
    }
  }
}

// Padding that follows from the output's size.
static carnot_status* resolve_padding(const carnot_call* call, transpose_run* r) {
  carnot_sliding_window* w = &r->window;
  int64_t extra[CARNOT_SLIDING_WINDOW_RANK];
  CARNOT_TRY(output_paddings(call->attrs, w->rank, extra));
  if (!same_pad(w) && !carnot_attr_has(call->attrs, "output_shape")) return NULL;
  for (int i = 0; i < w->rank; i++)
    carnot_sliding_window_resolve_transposed(w, i, r->in_dims[i], r->out_dims[i], extra[i]);
  return NULL;
}

static carnot_status* run_transpose(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *w = carnot_call_in(call, 1),
                      *bias = carnot_call_in(call, 2);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  transpose_run r = {0};
  int rank = x->rank - 2;
  int64_t group = carnot_call_int(call, "group");
  CARNOT_TRY(carnot_sliding_window_of_call(call, rank, w, &r.window));
  CARNOT_CHECK(w->dims[0] == x->dims[1] && x->dims[1] % group == 0, INVALID_MODEL,
               "%lld channels and weights for %lld do not fit %lld groups", (long long)x->dims[1],
               (long long)w->dims[0], (long long)group);
  r.channels = x->dims[1];
  r.group_channels = x->dims[1] / group;
  r.group_filters = w->dims[1];
  r.filters = y->dims[1];
  CARNOT_CHECK(!bias || carnot_tensor_count(bias) == r.filters, INVALID_MODEL,
               "bias has %lld elements; %lld are required", (long long)carnot_tensor_count(bias),
               (long long)r.filters);
  memcpy(r.in_dims, x->dims + 2, (size_t)rank * sizeof(int64_t));
  memcpy(r.out_dims, y->dims + 2, (size_t)rank * sizeof(int64_t));
  r.in_size = carnot_dims_count(r.in_dims, rank);
  r.out_size = carnot_dims_count(r.out_dims, rank);
  r.tap_count = carnot_dims_count(w->dims + 2, rank);
  CARNOT_TRY(resolve_padding(call, &r));
  CARNOT_TRY(carnot_call_f64(call, x, &r.x));
  CARNOT_TRY(carnot_call_f64(call, w, &r.w));
  CARNOT_TRY(carnot_call_f64(call, bias, &r.bias));
  CARNOT_TRY(carnot_call_f64_out(call, y, &r.y));
  carnot_call_parallel(call, y->dims[0] * r.filters, transpose_plane, &r);
  carnot_write_f64(y, r.y);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_WORD("auto_pad", "NOTSET", CARNOT_AUTO_PADS),
                                          CARNOT_SPEC_LIST("dilations", INTS),
                                          CARNOT_SPEC_INT("group", 1),
                                          CARNOT_SPEC_LIST("kernel_shape", INTS),
                                          CARNOT_SPEC_LIST("output_padding", INTS),
                                          CARNOT_SPEC_LIST("output_shape", INTS),
                                          CARNOT_SPEC_LIST("pads", INTS),
                                          CARNOT_SPEC_LIST("strides", INTS),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_conv_transpose = {
    .name = "conv_transpose",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32,
    .infer = infer_transpose,
    .reference = run_transpose,
    .source = "ONNX ConvTranspose-22",
    .layer_type = "DECONVOLUTION",
};
