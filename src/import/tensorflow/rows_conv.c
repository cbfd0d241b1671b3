// Convolutions and pooling. Weights are brought to Carnot's order once, at import. Source:
// tensorflow/core/ops/nn_ops.cc, tensorflow/core/framework/common_shape_fns.cc.
#include "import/tensorflow/rows.h"

typedef struct window {
  int rank;  // spatial dimensions
  int64_t stride[CARNOT_MAX_RANK], dilation[CARNOT_MAX_RANK], kernel[CARNOT_MAX_RANK];
} window;

// Entries of a list for the spatial dimensions; of batch and channels they must be 1.
static void read_spatial(tf_import* n, const char* name, int rank, int64_t* out) {
  const tf_int_list list = tf_ints(n, name);
  const int first = tf_is_channels_first(n) ? 2 : 1;
  for (int i = 0; i < rank; i++) out[i] = 1;
  if (!list.count) return;
  if (list.count != (size_t)rank + 2) {
    TF_FAIL(n, INVALID_MODEL, "%zu numbers of %s; %d are required", list.count, name, rank + 2);
    return;
  }
  for (int i = 0; i < rank + 2; i++) {
    const bool spatial = i >= first && i < first + rank;
    if (spatial) out[i - first] = list.items[i];
    if (list.items[i] < 1 || (!spatial && list.items[i] != 1))
      TF_FAIL(n, UNSUPPORTED, "%s of dimension %d is %lld", name, i, (long long)list.items[i]);
  }
}

// SAME, VALID or EXPLICIT as attributes. SAME puts the odd element at the end.
static void set_padding(tf_import* n, const window* w, carnot_attrs* attrs) {
  int64_t pads[2 * CARNOT_MAX_RANK] = {0};
  if (tf_is(n, "padding", "SAME", "VALID")) {
    carnot_attrs_set_text(attrs, n->node.arena, "auto_pad", "SAME_UPPER");
    return;
  }
  if (!tf_is(n, "padding", "EXPLICIT", "VALID") && !tf_is(n, "padding", "VALID", "")) {
    const tf_attr_value* given = tf_attr_find(n->proto, "padding");
    const carnot_strview text = given ? given->s : carnot_view("");
    TF_FAIL(n, INVALID_MODEL,
            "attribute padding is \"" CARNOT_VIEW_FMT "\"; SAME, VALID or EXPLICIT is required",
            CARNOT_VIEW_ARG(text));
    return;
  }
  if (tf_is(n, "padding", "EXPLICIT", "VALID")) {
    const tf_int_list list = tf_ints(n, "explicit_paddings");
    const int first = tf_is_channels_first(n) ? 2 : 1;
    if (list.count != 2 * ((size_t)w->rank + 2)) {
      TF_FAIL(n, INVALID_MODEL, "%zu explicit_paddings; %d are required", list.count,
              2 * (w->rank + 2));
      return;
    }
    for (int i = 0; i < w->rank; i++) {
      pads[i] = list.items[2 * (first + i)];
      pads[w->rank + i] = list.items[2 * (first + i) + 1];
    }
  }
  carnot_attrs_set_ints(attrs, n->node.arena, "pads", pads, 2 * (size_t)w->rank);
}

static window read_window(tf_import* n, const carnot_value* x) {
  window w = {.rank = import_rank(&n->node, x) - 2};
  if (w.rank < 1) {
    TF_FAIL(n, INVALID_MODEL, "%d dimensions; 3 or more are required", w.rank + 2);
    w.rank = 1;
  }
  read_spatial(n, "strides", w.rank, w.stride);
  read_spatial(n, "dilations", w.rank, w.dilation);
  return w;
}

static carnot_attrs conv_attrs(tf_import* n, const window* w) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, n->node.arena, "strides", w->stride, (size_t)w->rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "dilations", w->dilation, (size_t)w->rank);
  set_padding(n, w, &attrs);
  return attrs;
}

// [spatial.., in, out] to [out, in, spatial..]
static carnot_value* filter_of(tf_import* n, carnot_value* w) {
  int64_t perm[CARNOT_MAX_RANK];
  const int rank = import_rank(&n->node, w);
  if (rank < 3) return w;
  perm[0] = rank - 1, perm[1] = rank - 2;
  for (int i = 2; i < rank; i++) perm[i] = i - 2;
  return import_transpose(&n->node, w, perm, rank);
}

static void handle_conv(tf_import* n) {
  const window w = read_window(n, n->inputs[0]);
  carnot_attrs attrs = conv_attrs(n, &w);
  const int64_t channels = import_dim(n->inputs[0], tf_is_channels_first(n) ? 1 : w.rank + 1),
                taken = import_dim(n->inputs[1], w.rank);
  if (taken < 1 || (channels >= 0 && channels % taken)) {
    TF_FAIL(n, INVALID_MODEL, "%lld channels and filters of %lld", (long long)channels,
            (long long)taken);
    return;
  }
  // Channels that are not known are those of one group: the sizes are checked in the run.
  carnot_attrs_set_int(&attrs, n->node.arena, "group", channels > 0 ? channels / taken : 1);
  n->outputs[0] = tf_last(n, import_op(&n->node, CARNOT_OP_CONV, &attrs, 2,
                                       tf_first(n, n->inputs[0]), filter_of(n, n->inputs[1])));
}

// Filters [h, w, channels, multiplier].
static void handle_depthwise(tf_import* n) {
  static const int64_t kPerm[] = {2, 3, 0, 1};
  const window w = read_window(n, n->inputs[0]);
  carnot_attrs attrs = conv_attrs(n, &w);
  const int64_t h = import_dim(n->inputs[1], 0), v = import_dim(n->inputs[1], 1),
                channels = import_dim(n->inputs[1], 2), each = import_dim(n->inputs[1], 3);
  if (h < 1 || v < 1 || channels < 1 || each < 1)
    TF_FAIL(n, UNSUPPORTED, "the dimensions of the filters must be known");
  const int64_t dims[4] = {channels * each, 1, h, v};
  carnot_attrs_set_int(&attrs, n->node.arena, "group", channels);
  carnot_value* filter =
      import_reshape_to(&n->node, import_transpose(&n->node, n->inputs[1], kPerm, 4), dims, 4);
  n->outputs[0] =
      tf_last(n, import_op(&n->node, CARNOT_OP_CONV, &attrs, 2, tf_first(n, n->inputs[0]), filter));
}

// The gradient by the input, which is a transposed convolution of a given size.
static void handle_conv_backprop(tf_import* n) {
  size_t count = 0;
  const int64_t* sizes = tf_constant_ints(n, 0, &count);
  carnot_value* x = n->inputs[2];
  const window w = read_window(n, x);
  const int first = tf_is_channels_first(n) ? 2 : 1;
  int64_t pads[2 * CARNOT_MAX_RANK] = {0}, extra[CARNOT_MAX_RANK] = {0};
  // The sizes of the pixels alone have to be known; the batch follows.
  const carnot_value* list = n->inputs[0];
  const bool same = tf_is(n, "padding", "SAME", "VALID");
  const bool is_explicit = tf_is(n, "padding", "EXPLICIT", "VALID");
  const tf_int_list given = tf_ints(n, "explicit_paddings");
  if (is_explicit && given.count != 2 * ((size_t)w.rank + 2))
    TF_FAIL(n, INVALID_MODEL, "%zu explicit_paddings; %d are required", given.count,
            2 * (w.rank + 2));
  if (n->node.status) return;
  for (int i = 0; i < w.rank; i++) {
    const int64_t k = import_dim(n->inputs[1], i), s = w.stride[i];
    int64_t in = import_dim(x, first + i);
    int64_t out = sizes && count == (size_t)w.rank + 2 ? sizes[first + i] : -1;
    if (out < 0 && list->syms && list->sym_count == (size_t)w.rank + 2 &&
        carnot_sym_is_const(list->syms[first + i]))
      out = list->syms[first + i].bits;
    if (k < 1) {
      TF_FAIL(n, UNSUPPORTED, "the dimensions of the filters must be known");
      return;
    }
    const int64_t reach = (k - 1) * w.dilation[i] + 1;
    if (is_explicit) {
      pads[i] = given.items[2 * (first + i)];
      pads[w.rank + i] = given.items[2 * (first + i) + 1];
      if (out >= 0 && in >= 0) extra[i] = out - ((in - 1) * s + reach - pads[i] - pads[w.rank + i]);
      continue;
    }
    // The size that the convolution gives back, where only the other one is known.
    if (in < 0 && out >= 0) in = same ? carnot_ceildiv(out, s) : (out - reach) / s + 1;
    // SAME of an open size, as Keras writes it, is in * stride; VALID is the least that fits.
    if (out < 0 && in >= 0) out = same ? in * s : (in - 1) * s + reach;
    if (out < 0) {
      const int64_t total = same && reach > s ? reach - s : 0;
      pads[i] = total / 2, pads[w.rank + i] = total - total / 2;
      extra[i] = same && reach < s ? s - reach : 0;
      continue;
    }
    // What SAME pads the convolution that gives |in| from |out| with.
    const int64_t needed = (in - 1) * s + reach - out, total = same && needed > 0 ? needed : 0;
    pads[i] = total / 2, pads[w.rank + i] = total - total / 2;
    extra[i] = out - ((in - 1) * s + reach - total);
  }
  carnot_attrs attrs = {0};
  const size_t rank = (size_t)w.rank;
  carnot_attrs_set_ints(&attrs, n->node.arena, "strides", w.stride, rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "dilations", w.dilation, rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "pads", pads, 2 * rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "output_padding", extra, rank);
  n->outputs[0] = tf_last(n, import_op(&n->node, CARNOT_OP_CONV_TRANSPOSE, &attrs, 2,
                                       tf_first(n, x), filter_of(n, n->inputs[1])));
}

// ---- pooling ----

// Windows over channels alone: ksize [1, .., 1, k] with the same strides, a maximum of each k.
static bool pool_channels(tf_import* n, carnot_value* x) {
  const tf_int_list k = tf_ints(n, "ksize"), s = tf_ints(n, "strides");
  const int rank = import_rank(&n->node, x), axis = tf_is_channels_first(n) ? 1 : rank - 1;
  int64_t dims[CARNOT_MAX_RANK] = {0};
  if (n->row->code != CARNOT_OP_MAX_POOL || rank < 3 || rank >= CARNOT_MAX_RANK ||
      k.count != (size_t)rank || s.count != k.count || k.items[axis] < 2)
    return false;
  for (int i = 0; i < rank; i++)
    if (k.items[i] != s.items[i] || (i != axis && k.items[i] != 1)) return false;
  dims[axis] = -1, dims[axis + 1] = k.items[axis];
  // What follows the channels keeps its size, one dimension further.
  carnot_value *y, *parts[3];
  const int64_t split[2] = {-1, k.items[axis]}, last = axis + 1;
  if (axis == rank - 1) {
    y = import_reshape_to(&n->node, x, dims, rank + 1);
  } else {
    parts[0] = import_shape_part(&n->node, x, 0, axis);
    parts[1] = import_ints(&n->node, split, 2);
    parts[2] = import_shape_part(&n->node, x, axis + 1, rank);
    y = import_reshape(&n->node, x, import_concat(&n->node, 0, parts, 3));
  }
  y = import_reduce(&n->node, "max", y, &last, 1);
  n->outputs[0] = import_squeeze(&n->node, y, &last, 1);
  return true;
}

static void handle_pool(tf_import* n) {
  carnot_value* x = n->inputs[0];
  if (pool_channels(n, x)) return;
  window w = read_window(n, x);
  read_spatial(n, "ksize", w.rank, w.kernel);
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, n->node.arena, "kernel_shape", w.kernel, (size_t)w.rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "strides", w.stride, (size_t)w.rank);
  set_padding(n, &w, &attrs);
  n->outputs[0] =
      tf_last(n, import_op(&n->node, (carnot_op)n->row->code, &attrs, 1, tf_first(n, x)));
}
// Windows and strides are inputs.
static void handle_max_pool_v2(tf_import* n) {
  size_t counts[2];
  const int64_t *k = tf_need_ints(n, 1, "ksize", &counts[0]),
                *s = tf_need_ints(n, 2, "strides", &counts[1]);
  carnot_value* x = n->inputs[0];
  window w = read_window(n, x);
  const int first = tf_is_channels_first(n) ? 2 : 1;
  if (n->node.status) return;
  if (counts[0] != (size_t)w.rank + 2 || counts[1] != counts[0]) {
    TF_FAIL(n, INVALID_MODEL, "%zu numbers of ksize, %zu of strides; %d required", counts[0],
            counts[1], w.rank + 2);
    return;
  }
  for (int i = 0; i < w.rank; i++) w.kernel[i] = k[first + i], w.stride[i] = s[first + i];
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, n->node.arena, "kernel_shape", w.kernel, (size_t)w.rank);
  carnot_attrs_set_ints(&attrs, n->node.arena, "strides", w.stride, (size_t)w.rank);
  set_padding(n, &w, &attrs);
  n->outputs[0] = tf_last(n, import_op(&n->node, CARNOT_OP_MAX_POOL, &attrs, 1, tf_first(n, x)));
}

static const tf_row kRows[] = {
    {"Conv2D", handle_conv, 2, 2, 0, NULL, NULL},
    {"Conv3D", handle_conv, 2, 2, 0, NULL, NULL},
    {"DepthwiseConv2dNative", handle_depthwise, 2, 2, 0, NULL, NULL},
    {"Conv2DBackpropInput", handle_conv_backprop, 3, 3, 0, NULL, NULL},
    {"Conv3DBackpropInputV2", handle_conv_backprop, 3, 3, 0, NULL, NULL},
    {"MaxPool", handle_pool, 1, 1, CARNOT_OP_MAX_POOL, NULL, NULL},
    {"MaxPoolV2", handle_max_pool_v2, 3, 3, 0, NULL, NULL},
    {"MaxPool3D", handle_pool, 1, 1, CARNOT_OP_MAX_POOL, NULL, NULL},
    {"AvgPool", handle_pool, 1, 1, CARNOT_OP_AVERAGE_POOL, NULL, NULL},
    {"AvgPool3D", handle_pool, 1, 1, CARNOT_OP_AVERAGE_POOL, NULL, NULL},
};
const tf_row_table tf_rows_conv = TF_ROW_TABLE(kRows);
