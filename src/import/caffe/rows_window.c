// Layers with sliding windows: convolutions, pooling, Im2col, SPP. Source: base_conv_layer,
// pooling_layer, im2col_layer and spp_layer of BVLC/caffe.
#include <float.h>
#include <string.h>

#include "import/caffe/handlers.h"

// A list of none, one or |rank| numbers, or name_h and name_w.
static void read_list(caffe_import* n, const char* list_name, const char* h_name,
                      const char* w_name, int64_t least, int64_t absent, int rank, int64_t* out) {
  const caffe_int_list list = caffe_ints(n->fields, list_name);
  const bool pair = h_name && (caffe_has(n->fields, h_name) || caffe_has(n->fields, w_name));
  if (pair && (list.count || rank != 2))
    CAFFE_FAIL(n, INVALID_MODEL, "%s and %s are given beside %s, or for %d spatial dimensions",
               h_name, w_name, list_name, rank);
  if (!pair && list.count > 1 && list.count != (size_t)rank)
    CAFFE_FAIL(n, INVALID_MODEL, "%zu numbers of %s; 1 or %d are required", list.count, list_name,
               rank);
  if (n->node.status) return;
  for (int i = 0; i < rank; i++) {
    out[i] = list.count ? list.items[list.count == 1 ? 0 : i] : absent;
    if (pair) out[i] = caffe_int(n->fields, i ? w_name : h_name, absent);
    if (out[i] < least || out[i] > CAFFE_MOST_SIZE)
      CAFFE_FAIL(n, INVALID_MODEL, "%s is %lld; %lld to %d are required", list_name,
                 (long long)out[i], (long long)least, CAFFE_MOST_SIZE);
  }
}

static void read_window(caffe_import* n, bool with_dilation, caffe_window* w) {
  *w = (caffe_window){.rank = caffe_rank(n, 0, 3, CARNOT_MAX_RANK) - 2};
  read_list(n, "kernel_size", "kernel_h", "kernel_w", 1, 0, w->rank, w->kernel);
  read_list(n, "stride", "stride_h", "stride_w", 1, 1, w->rank, w->stride);
  read_list(n, "pad", "pad_h", "pad_w", 0, 0, w->rank, w->pad);
  for (int i = 0; i < w->rank; i++) w->dilation[i] = 1;
  if (with_dilation) read_list(n, "dilation", NULL, NULL, 1, 1, w->rank, w->dilation);
}

static carnot_attrs window_attrs(caffe_import* n, const caffe_window* w) {
  carnot_attrs attrs = {0};
  int64_t pads[2 * CARNOT_MAX_RANK];
  for (int i = 0; i < w->rank; i++) pads[i] = pads[w->rank + i] = w->pad[i];
  const size_t rank = (size_t)w->rank;
  carnot_attrs_set_ints(&attrs, n->node.arena, "kernel_shape", w->kernel, rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "strides", w->stride, rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "dilations", w->dilation, rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "pads", pads, 2 * rank);
  return attrs;
}

// ---- convolutions ----

static void check_groups(caffe_import* n, int64_t channels, int64_t outputs, int64_t groups) {
  if (groups < 1 || channels % groups || outputs % groups)
    CAFFE_FAIL(n, INVALID_MODEL, "group is %lld; it must divide %lld channels and num_output %lld",
               (long long)groups, (long long)channels, (long long)outputs);
}

static carnot_value* convolve(caffe_import* n, carnot_value* x, int64_t groups, bool transposed) {
  caffe_window w;
  const int64_t outputs = caffe_positive(n, "num_output", CAFFE_MOST_SIZE);
  const int64_t channels = import_dim(x, 1);
  const bool has_bias = caffe_int(n->fields, "bias_term", 1) != 0;
  read_window(n, true, &w);
  if (channels < 1) CAFFE_FAIL(n, UNSUPPORTED, "dimension 1 of the bottom must be known");
  check_groups(n, channels, outputs, groups);
  if (caffe_axis(n, "axis", 1) != 1)
    CAFFE_FAIL(n, UNSUPPORTED, "axis must be 1: one batch dimension before the channels");
  caffe_expect_blobs(n, has_bias ? 2 : 1);
  if (n->node.status) return NULL;
  int64_t dims[CARNOT_MAX_RANK] = {outputs, channels / groups};
  if (transposed) dims[0] = channels, dims[1] = outputs / groups;
  int64_t taps = 1;
  for (int i = 0; i < w.rank; i++) taps *= dims[2 + i] = w.kernel[i];
  carnot_attrs attrs = window_attrs(n, &w);
  carnot_attrs_set_int(&attrs, n->node.arena, "group", groups);
  carnot_value* weights = caffe_weights(n, 0, dims, w.rank + 2, channels / groups * taps);
  carnot_value* bias = has_bias ? caffe_weights(n, 1, &outputs, 1, 300) : NULL;
  return import_op(&n->node, transposed ? CARNOT_OP_CONV_TRANSPOSE : CARNOT_OP_CONV, &attrs, 3, x,
                   weights, bias);
}

// One set of weights for every pair of a bottom and a top.
static void each_bottom(caffe_import* n, int64_t groups, bool transposed) {
  for (int i = 0; i < n->input_count && i < n->output_count; i++)
    n->outputs[i] = convolve(n, n->inputs[i], groups, transposed);
  if (n->input_count != n->output_count)
    CAFFE_FAIL(n, INVALID_MODEL, "%d bottoms and %d tops; as many are required", n->input_count,
               n->output_count);
}

static void handle_convolution(caffe_import* n) {
  each_bottom(n, caffe_int(n->fields, "group", 1), false);
}
static void handle_deconvolution(caffe_import* n) {
  each_bottom(n, caffe_int(n->fields, "group", 1), true);
}
// Without |group| each channel is one.
static void handle_depthwise(caffe_import* n) {
  each_bottom(n, caffe_int(n->fields, "group", caffe_dim(n, 0, 1)), false);
}

// ---- pooling ----

// The index within the plane, as a float, from one in the whole tensor.
static carnot_value* plane_index(caffe_import* n, carnot_value* x, carnot_value* index) {
  const int64_t plane = import_dim(x, 2) * import_dim(x, 3);
  carnot_value* within =
      import_binary(&n->node, CARNOT_FN_MOD, index, import_int(&n->node, plane > 0 ? plane : 1));
  return import_cast(&n->node, within, CARNOT_DTYPE_F32);
}

static carnot_value* average(caffe_import* n, carnot_value* x, const carnot_attrs* attrs) {
  return import_op(&n->node, CARNOT_OP_AVERAGE_POOL, attrs, 1, x);
}

// Without padding Caffe keeps a last window that begins behind the picture: it is empty, the
// greatest of it is -FLT_MAX and its mean 0.
static carnot_value* with_empty_windows(caffe_import* n, carnot_value* x, const caffe_window* w,
                                        bool rounds_up, double empty, carnot_value* y) {
  int64_t widths[2 * CARNOT_MAX_RANK] = {0};
  bool any = false;
  for (int i = 0; i < w->rank; i++)
    if (w->pad[i]) return y;
  for (int i = 0; i < w->rank && rounds_up; i++) {
    const int64_t size = import_dim(x, 2 + i);
    if (size < w->kernel[i]) continue;
    const int64_t last = carnot_ceildiv(size - w->kernel[i], w->stride[i]) * w->stride[i];
    widths[w->rank + 4 + i] = last >= size;
    any |= last >= size;
  }
  if (!any) return y;
  return import_op(&n->node, CARNOT_OP_PAD, NULL, 3, y,
                   import_ints(&n->node, widths, 2 * (size_t)(w->rank + 2)),
                   import_number_of(&n->node, y ? y->type.dtype : CARNOT_DTYPE_F32, empty));
}

// An average counts the elements of its window within the padded input. Stochastic pooling of phase
// TEST weighs elements by themselves.
carnot_value* caffe_pool(caffe_import* n, carnot_value* x, const caffe_window* w, int64_t kind,
                         bool rounds_up, carnot_value** out_mask) {
  carnot_attrs attrs = window_attrs(n, w);
  carnot_value* outputs[2] = {NULL, NULL};
  carnot_attrs_set_int(&attrs, n->node.arena, "ceil_mode", rounds_up);
  if (kind == CAFFE_POOL_MAX) {
    import_emit(&n->node, CARNOT_OP_MAX_POOL, &attrs, &x, 1, outputs, out_mask ? 2 : 1);
    if (out_mask)
      *out_mask = with_empty_windows(n, x, w, rounds_up, -1, plane_index(n, x, outputs[1]));
    return with_empty_windows(n, x, w, rounds_up, -FLT_MAX, outputs[0]);
  }
  carnot_attrs_set_int(&attrs, n->node.arena, "count_include_pad", 1);
  if (kind == CAFFE_POOL_AVERAGE)
    return with_empty_windows(n, x, w, rounds_up, 0, average(n, x, &attrs));
  carnot_value* squares = average(n, import_binary(&n->node, CARNOT_FN_MUL, x, x), &attrs);
  carnot_value* sums = import_binary(&n->node, CARNOT_FN_MAX, average(n, x, &attrs),
                                     import_number_of(&n->node, CARNOT_DTYPE_F32, FLT_MIN));
  return with_empty_windows(n, x, w, rounds_up, 0,
                            import_binary(&n->node, CARNOT_FN_DIV, squares, sums));
}

static bool rounds_up(caffe_import* n) {
  if (caffe_has(n->fields, "ceil_mode")) return caffe_int(n->fields, "ceil_mode", 1) != 0;
  return caffe_int(n->fields, "round_mode", 0) == 0 &&
         caffe_int(n->fields, "torch_pooling", 0) == 0;
}

static void check_pads(caffe_import* n, const caffe_window* w, int64_t kind) {
  for (int i = 0; i < w->rank; i++) {
    if (w->pad[i] >= w->kernel[i])
      CAFFE_FAIL(n, INVALID_MODEL, "pad is %lld; less than kernel_size %lld is required",
                 (long long)w->pad[i], (long long)w->kernel[i]);
    if (w->pad[i] && kind == CAFFE_POOL_STOCHASTIC)
      CAFFE_FAIL(n, INVALID_MODEL, "stochastic pooling has no pad");
  }
}

static void handle_pooling(caffe_import* n) {
  static const int64_t kSpatial[] = {2, 3};
  caffe_window w;
  const int64_t kind = caffe_int(n->fields, "pool", CAFFE_POOL_MAX);
  carnot_value* x = n->inputs[0];
  caffe_rank(n, 0, 4, 4);
  if (kind < CAFFE_POOL_MAX || kind > CAFFE_POOL_STOCHASTIC)
    CAFFE_FAIL(n, INVALID_MODEL, "pool is %lld; 0 to 2 are required", (long long)kind);
  if (caffe_int(n->fields, "global_pooling", 0)) {
    w = (caffe_window){.rank = 2, .stride = {1, 1}, .dilation = {1, 1}};
    w.kernel[0] = caffe_dim(n, 0, 2), w.kernel[1] = caffe_dim(n, 0, 3);
    if (kind != CAFFE_POOL_STOCHASTIC && n->output_count == 1) {
      n->outputs[0] =
          import_reduce(&n->node, kind == CAFFE_POOL_MAX ? "max" : "mean", x, kSpatial, 2);
      return;
    }
  } else {
    read_window(n, false, &w);
    check_pads(n, &w, kind);
  }
  if (n->output_count > 1 && kind != CAFFE_POOL_MAX)
    CAFFE_FAIL(n, INVALID_MODEL, "only max pooling has a second top");
  if (n->node.status) return;
  n->outputs[0] =
      caffe_pool(n, x, &w, kind, rounds_up(n), n->output_count > 1 ? &n->outputs[1] : NULL);
}

// Level i has 2^i x 2^i bins.
static void handle_spp(caffe_import* n) {
  enum { kMostLevels = 10 };
  carnot_value* levels[kMostLevels];
  const int64_t height = caffe_positive(n, "pyramid_height", kMostLevels);
  caffe_rank(n, 0, 4, 4);
  for (int64_t i = 0; i < height; i++) {
    caffe_window w = {.rank = 2, .dilation = {1, 1}};
    for (int d = 0; d < 2; d++) {
      const int64_t size = caffe_dim(n, 0, 2 + d), bins = (int64_t)1 << i;
      w.kernel[d] = w.stride[d] = carnot_ceildiv(size, bins);
      w.pad[d] = (w.kernel[d] * bins - size + 1) / 2;
      if (w.pad[d] >= w.kernel[d] && w.kernel[d])
        CAFFE_FAIL(n, INVALID_MODEL, "%lld pixels cannot be cut into %lld bins", (long long)size,
                   (long long)bins);
    }
    carnot_value* pooled =
        caffe_pool(n, n->inputs[0], &w, caffe_int(n->fields, "pool", 0), true, NULL);
    levels[i] = height == 1 ? pooled : import_flatten(&n->node, pooled, 1);
  }
  n->outputs[0] = import_concat(&n->node, 1, levels, (int)height);
}

// ---- Im2col ----

static carnot_value* padded(caffe_import* n, carnot_value* x, const caffe_window* w) {
  int64_t pads[2 * CARNOT_MAX_RANK] = {0};
  bool any = false;
  for (int i = 0; i < w->rank; i++) {
    pads[2 + i] = pads[w->rank + 4 + i] = w->pad[i];
    any |= w->pad[i] > 0;
  }
  if (!any) return x;
  return import_op(&n->node, CARNOT_OP_PAD, NULL, 2, x,
                   import_ints(&n->node, pads, 2 * (size_t)(w->rank + 2)));
}

// One tap of all windows: a strided slice, with an axis of 1 behind the channels.
static carnot_value* slice_tap(caffe_import* n, carnot_value* x, const caffe_window* w,
                               const int64_t* tap, const int64_t* counts) {
  int64_t starts[CARNOT_MAX_RANK], ends[CARNOT_MAX_RANK], axes[CARNOT_MAX_RANK];
  static const int64_t kBehindChannels[] = {2};
  const size_t rank = (size_t)w->rank;
  for (int i = 0; i < w->rank; i++) {
    starts[i] = tap[i] * w->dilation[i];
    ends[i] = starts[i] + (counts[i] - 1) * w->stride[i] + 1;
    axes[i] = 2 + i;
  }
  carnot_value* part =
      import_op(&n->node, CARNOT_OP_SLICE, NULL, 5, x, import_ints(&n->node, starts, rank),
                import_ints(&n->node, ends, rank), import_ints(&n->node, axes, rank),
                import_ints(&n->node, w->stride, rank));
  return import_unsqueeze(&n->node, part, kBehindChannels, 1);
}

static void handle_im2col(caffe_import* n) {
  enum { kMostTaps = 1024 };
  caffe_window w;
  carnot_value* parts[kMostTaps];
  int64_t counts[CARNOT_MAX_RANK], tap[CARNOT_MAX_RANK] = {0}, dims[CARNOT_MAX_RANK + 1] = {0};
  read_window(n, true, &w);
  int64_t taps = 1;
  for (int i = 0; i < w.rank && !n->node.status; i++) {
    const int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
    counts[i] = dims[2 + i] = (caffe_dim(n, 0, 2 + i) + 2 * w.pad[i] - reach) / w.stride[i] + 1;
    taps *= w.kernel[i];
    if (counts[i] < 1 || taps > kMostTaps)
      CAFFE_FAIL(n, INVALID_MODEL, "%lld windows of %lld taps; 1 or more of at most %d required",
                 (long long)counts[i], (long long)taps, kMostTaps);
  }
  dims[1] = caffe_dim(n, 0, 1) * taps;
  if (n->node.status) return;
  carnot_value* x = padded(n, n->inputs[0], &w);
  for (int64_t t = 0; t < taps; t++) {
    parts[t] = slice_tap(n, x, &w, tap, counts);
    for (int d = w.rank - 1; d >= 0 && ++tap[d] == w.kernel[d]; d--) tap[d] = 0;
  }
  carnot_value* all = import_concat(&n->node, 2, parts, (int)taps);
  n->outputs[0] = import_reshape_to(&n->node, all, dims, w.rank + 2);
}

static const caffe_row kRows[] = {
    {"Convolution", handle_convolution, "convolution_param", 1, -1, 0, "axis other than 1"},
    {"Deconvolution", handle_deconvolution, "convolution_param", 1, -1, 0, "axis other than 1"},
    {"DepthwiseConvolution", handle_depthwise, "convolution_param", 1, -1, 0, NULL},
    {"ConvolutionDepthwise", handle_depthwise, "convolution_param", 1, -1, 0, NULL},
    {"Pooling", handle_pooling, "pooling_param", 1, 1, 0, NULL},
    {"SPP", handle_spp, "spp_param", 1, 1, 0, NULL},
    {"Im2col", handle_im2col, "convolution_param", 1, 1, 0, NULL},
};
const caffe_row_table caffe_rows_window = CAFFE_ROW_TABLE(kRows);
