// Normalizations, and scales and shifts by channel. Source: lrn_layer, batch_norm_layer,
// scale_layer, bias_layer, mvn_layer of BVLC/caffe and normalize_layer of SSD.
#include "import/caffe/handlers.h"

static carnot_value* number(caffe_import* n, double value) {
  return import_number_of(&n->node, CARNOT_DTYPE_F32, value);
}

// ---- local response normalization ----

// x * (1 + alpha * mean of squares in the window) ^ -beta, each channel by itself.
static carnot_value* within_channel(caffe_import* n, int64_t size, double alpha, double beta) {
  const caffe_window w = {.rank = 2,
                          .kernel = {size, size},
                          .stride = {1, 1},
                          .pad = {(size - 1) / 2, (size - 1) / 2},
                          .dilation = {1, 1}};
  carnot_value* x = n->inputs[0];
  carnot_value* mean = caffe_pool(n, import_binary(&n->node, CARNOT_FN_MUL, x, x), &w,
                                  CAFFE_POOL_AVERAGE, true, NULL);
  carnot_value* sum = import_unary_with(&n->node, CARNOT_FN_AFFINE, mean, alpha, 1);
  carnot_value* scale = import_binary(&n->node, CARNOT_FN_POW, sum, number(n, -beta));
  return import_binary(&n->node, CARNOT_FN_MUL, x, scale);
}

static void handle_lrn(caffe_import* n) {
  const int64_t size = caffe_int(n->fields, "local_size", 5);
  const double alpha = caffe_float(n->fields, "alpha", 1),
               beta = caffe_float(n->fields, "beta", 0.75);
  caffe_rank(n, 0, 4, 4);
  if (size < 1 || size % 2 == 0 || size > CAFFE_MOST_SIZE) {
    CAFFE_FAIL(n, INVALID_MODEL, "local_size is %lld; an odd number is required", (long long)size);
    return;
  }
  if (caffe_int(n->fields, "norm_region", 0) == 1) {
    n->outputs[0] = within_channel(n, size, alpha, beta);
    return;
  }
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "size", size);
  carnot_attrs_set_float(&attrs, n->node.arena, "alpha", alpha);
  carnot_attrs_set_float(&attrs, n->node.arena, "beta", beta);
  carnot_attrs_set_float(&attrs, n->node.arena, "bias", caffe_float(n->fields, "k", 1));
  n->outputs[0] = import_op(&n->node, CARNOT_OP_LRN, &attrs, 1, n->inputs[0]);
}

// ---- batch normalization ----

// The factor that running statistics are divided by; those of factor 0 count as 0.
static double statistics_scale(caffe_import* n) {
  static const int64_t kOne = 1;
  carnot_value* factor = caffe_weights(n, 2, &kOne, 1, 0);
  if (n->node.status || !factor) return 1;
  const double value = carnot_load_f64(CARNOT_DTYPE_F32, factor->constant->tensor.data, 0);
  return value == 0 ? 0 : 1 / value;
}

static carnot_value* scaled(caffe_import* n, carnot_value* x, double by) {
  return by == 1 ? x : import_unary_with(&n->node, CARNOT_FN_AFFINE, x, by, 0);
}

static carnot_value* filled(caffe_import* n, int64_t count, double value) {
  carnot_value* shape = import_ints(&n->node, &count, 1);
  return import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, number(n, value), shape);
}

// By the statistics of the batch itself: use_global_stats is false.
static carnot_value* by_batch(caffe_import* n) {
  int64_t axes[CARNOT_MAX_RANK];
  const int rank = import_rank(&n->node, n->inputs[0]);
  int count = 0;
  for (int i = 0; i < rank; i++)
    if (i != 1) axes[count++] = i;
  carnot_value* mean = import_reduce(&n->node, "mean", n->inputs[0], axes, count);
  carnot_value* d = import_binary(&n->node, CARNOT_FN_SUB, n->inputs[0], mean);
  carnot_value* variance =
      import_reduce(&n->node, "mean", import_binary(&n->node, CARNOT_FN_MUL, d, d), axes, count);
  carnot_value* sum = import_unary_with(&n->node, CARNOT_FN_AFFINE, variance, 1,
                                        caffe_float(n->fields, "eps", 1e-5));
  return import_binary(&n->node, CARNOT_FN_DIV, d, import_unary(&n->node, CARNOT_FN_SQRT, sum));
}

// Blobs: mean, variance, factor, and of NVCaffe scale and shift.
static void handle_batch_norm(caffe_import* n) {
  caffe_rank(n, 0, 2, CARNOT_MAX_RANK);
  const int64_t channels = caffe_dim(n, 0, 1);
  if (!caffe_int(n->fields, "use_global_stats", 1)) {
    n->outputs[0] = by_batch(n);
    return;
  }
  const bool has_scale = n->blobs && n->blobs->count == 5;
  if (!has_scale) caffe_expect_blobs(n, 3);
  carnot_value *mean = caffe_weights(n, 0, &channels, 1, 3),
               *variance = caffe_weights(n, 1, &channels, 1, 0);
  const double by = statistics_scale(n);
  mean = scaled(n, mean, by), variance = scaled(n, variance, by);
  carnot_value* scale = has_scale ? caffe_weights(n, 3, &channels, 1, 0) : filled(n, channels, 1);
  carnot_value* shift = has_scale ? caffe_weights(n, 4, &channels, 1, 0) : filled(n, channels, 0);
  carnot_attrs attrs = {0};
  carnot_attrs_set_float(&attrs, n->node.arena, "epsilon", caffe_float(n->fields, "eps", 1e-5));
  n->outputs[0] = import_op(&n->node, CARNOT_OP_BATCH_NORM, &attrs, 5, n->inputs[0], scale, shift,
                            mean, variance);
}

// ---- scale and bias ----

// Blob |blob| of the dimensions [axis, axis + num_axes) of the input; num_axes -1: to the last.
static carnot_value* channel_weights(caffe_import* n, size_t blob, int axis, int64_t fan_in) {
  int64_t dims[CARNOT_MAX_RANK], count = caffe_int(n->fields, "num_axes", 1);
  const int rank = import_rank(&n->node, n->inputs[0]);
  if (count == -1) count = rank - axis;
  if (count < 0 || count > rank - axis) {
    CAFFE_FAIL(n, INVALID_MODEL, "num_axes is %lld; -1 to %d are required", (long long)count,
               rank - axis);
    return NULL;
  }
  for (int i = 0; i < count; i++) dims[i] = caffe_dim(n, 0, axis + i);
  return caffe_align(n, caffe_weights(n, blob, dims, (int)count, fan_in), axis, rank);
}

// The operand is the second bottom, or a blob.
static void handle_scale(caffe_import* n) {
  const bool from_bottom = n->input_count > 1;
  const bool has_bias = caffe_int(n->fields, "bias_term", 0) != 0;
  const int axis = caffe_axis(n, "axis", 1), rank = import_rank(&n->node, n->inputs[0]);
  caffe_expect_blobs(n, (size_t)!from_bottom + has_bias);
  carnot_value* scale =
      from_bottom ? caffe_align(n, n->inputs[1], axis, rank) : channel_weights(n, 0, axis, 0);
  carnot_value* y = import_binary(&n->node, CARNOT_FN_MUL, n->inputs[0], scale);
  if (has_bias) {
    // The bias has the dimensions of the scale.
    int64_t dims[CARNOT_MAX_RANK];
    const int own = from_bottom ? import_rank(&n->node, n->inputs[1]) : 0;
    for (int i = 0; i < own; i++) dims[i] = caffe_dim(n, 1, i);
    carnot_value* bias = from_bottom
                             ? caffe_align(n, caffe_weights(n, 0, dims, own, 300), axis, rank)
                             : channel_weights(n, 1, axis, 300);
    y = import_binary(&n->node, CARNOT_FN_ADD, y, bias);
  }
  n->outputs[0] = y;
}

static void handle_bias(caffe_import* n) {
  const int axis = caffe_axis(n, "axis", 1), rank = import_rank(&n->node, n->inputs[0]);
  caffe_expect_blobs(n, n->input_count > 1 ? 0 : 1);
  carnot_value* bias = n->input_count > 1 ? caffe_align(n, n->inputs[1], axis, rank)
                                          : channel_weights(n, 0, axis, 300);
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_ADD, n->inputs[0], bias);
}

// ---- mean and variance; L2 ----

static carnot_value* mean_over(caffe_import* n, carnot_value* x, int first) {
  int64_t axes[CARNOT_MAX_RANK];
  const int rank = import_rank(&n->node, x);
  for (int i = first; i < rank; i++) axes[i - first] = i;
  if (first >= rank) return x;
  return import_reduce(&n->node, "mean", x, axes, rank - first);
}

// (x - mean) / (deviation + eps) over each image, or each channel of it.
static void handle_mvn(caffe_import* n) {
  caffe_rank(n, 0, 2, CARNOT_MAX_RANK);
  const int first = caffe_int(n->fields, "across_channels", 0) ? 1 : 2;
  carnot_value* y =
      import_binary(&n->node, CARNOT_FN_SUB, n->inputs[0], mean_over(n, n->inputs[0], first));
  if (caffe_int(n->fields, "normalize_variance", 1)) {
    carnot_value* variance = mean_over(n, import_binary(&n->node, CARNOT_FN_MUL, y, y), first);
    carnot_value* deviation = import_unary_with(&n->node, CARNOT_FN_AFFINE,
                                                import_unary(&n->node, CARNOT_FN_SQRT, variance), 1,
                                                caffe_float(n->fields, "eps", 1e-9));
    y = import_binary(&n->node, CARNOT_FN_DIV, y, deviation);
  }
  n->outputs[0] = y;
}

// x / sqrt(sum of squares + eps) over the channels of a pixel, or the whole image, times a scale.
static void handle_normalize(caffe_import* n) {
  static const int64_t kAxes[] = {1, 2, 3};
  caffe_rank(n, 0, 4, 4);
  const bool whole = caffe_int(n->fields, "across_spatial", 1) != 0;
  const int64_t scales = caffe_int(n->fields, "channel_shared", 1) ? 1 : caffe_dim(n, 0, 1);
  caffe_expect_blobs(n, 1);
  carnot_value* x = n->inputs[0];
  carnot_value* sum = import_reduce(&n->node, "sum_square", x, kAxes, whole ? 3 : 1);
  carnot_value* norm = import_unary(
      &n->node, CARNOT_FN_SQRT,
      import_unary_with(&n->node, CARNOT_FN_AFFINE, sum, 1, caffe_float(n->fields, "eps", 1e-10)));
  carnot_value* scale = caffe_align(n, caffe_weights(n, 0, &scales, 1, 0), 1, 4);
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_MUL,
                                import_binary(&n->node, CARNOT_FN_DIV, x, norm), scale);
}

static const caffe_row kRows[] = {
    {"LRN", handle_lrn, "lrn_param", 1, 1, 0, NULL},
    {"BatchNorm", handle_batch_norm, "batch_norm_param", 1, 1, 0, NULL},
    {"Scale", handle_scale, "scale_param", 1, 2, 0, NULL},
    {"Bias", handle_bias, "bias_param", 1, 2, 0, NULL},
    {"MVN", handle_mvn, "mvn_param", 1, 1, 0, NULL},
    {"Normalize", handle_normalize, "norm_param", 1, 1, 0, NULL},
};
const caffe_row_table caffe_rows_norm = CAFFE_ROW_TABLE(kRows);
