// Layers that propose and pool regions. Source: psroi_pooling_layer of R-FCN, proposal_layer of
// Faster R-CNN in C++.
#include <math.h>

#include "import/caffe/handlers.h"

static carnot_value* add(caffe_import* n, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, CARNOT_FN_ADD, x, y);
}
static carnot_value* subtract(caffe_import* n, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, CARNOT_FN_SUB, x, y);
}
static carnot_value* multiply(caffe_import* n, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, CARNOT_FN_MUL, x, y);
}
static carnot_value* affine(caffe_import* n, carnot_value* x, double by, double plus) {
  return import_unary_with(&n->node, CARNOT_FN_AFFINE, x, by, plus);
}
static carnot_value* column(caffe_import* n, carnot_value* x, int64_t i) {
  return import_slice(&n->node, x, 1, i, i + 1);
}
static carnot_value* with_axis(caffe_import* n, carnot_value* x, int64_t axis) {
  return import_unsqueeze(&n->node, x, &axis, 1);
}
static carnot_value* as_float(caffe_import* n, carnot_value* x) {
  return import_cast(&n->node, x, CARNOT_DTYPE_F32);
}

// first, first + 1, ... as [count].
static carnot_value* counting(caffe_import* n, int64_t first, int64_t count) {
  float* values = carnot_arena_alloc(&n->importer->state.arena, (size_t)count, sizeof(float));
  if (!import_has_memory(&n->node)) return NULL;
  for (int64_t i = 0; i < count; i++) values[i] = (float)(first + i);
  return caffe_floats_constant(n, values, &count, 1);
}

// ---- PSROIPooling ----

// The bins of a side: which pixels each holds, [R, bins, size] of 0 and 1, and how many, [R, bins].
typedef struct region_bins {
  carnot_value *mask, *count;
} region_bins;

// |low| and |high| are the columns of |rois| with the side's corners.
static region_bins cut_side(caffe_import* n, carnot_value* rois, int low, int high, int64_t bins,
                            int64_t size, double scale) {
  import_node* node = &n->node;
  carnot_value* first = affine(
      n, import_unary(node, CARNOT_FN_FLOOR, affine(n, column(n, rois, low), 1, 0.5)), scale, 0);
  carnot_value* last = affine(
      n, import_unary(node, CARNOT_FN_FLOOR, affine(n, column(n, rois, high), 1, 1.5)), scale, 0);
  carnot_value* extent = import_binary(node, CARNOT_FN_MAX, subtract(n, last, first),
                                       import_number_of(node, CARNOT_DTYPE_F32, 0.1));
  carnot_value* step = affine(n, extent, 1 / (double)bins, 0);
  carnot_value* edges[2];
  for (int i = 0; i < 2; i++) {
    carnot_value* at = add(n, multiply(n, counting(n, i, bins), step), first);
    at = import_unary(node, i ? CARNOT_FN_CEIL : CARNOT_FN_FLOOR, at);
    edges[i] = import_unary_with(node, CARNOT_FN_CLAMP, at, 0, (double)size);
  }
  carnot_value* pixel = counting(n, 0, size);
  carnot_value* inside =
      import_binary(node, CARNOT_FN_AND,
                    import_binary(node, CARNOT_FN_LESS_EQUAL, with_axis(n, edges[0], 2), pixel),
                    import_binary(node, CARNOT_FN_LESS, pixel, with_axis(n, edges[1], 2)));
  return (region_bins){as_float(n, inside), subtract(n, edges[1], edges[0])};
}

// Sums over the lines of each bin as one GEMM for each line of bins: [G, R, O * G * W].
static carnot_value* sum_lines(caffe_import* n, carnot_value* rois, carnot_value* lines,
                               int64_t outputs, int64_t bins) {
  import_node* node = &n->node;
  const int64_t images = caffe_dim(n, 0, 0), height = caffe_dim(n, 0, 2),
                width = caffe_dim(n, 0, 3);
  const int64_t apart[6] = {images, outputs, bins, bins, height, width};
  const int64_t matrix[3] = {bins, images * height, outputs * bins * width};
  const int64_t masks[3] = {bins, -1, images * height};
  static const int64_t kLines[6] = {2, 0, 4, 1, 3, 5}, kMasks[4] = {1, 0, 2, 3};
  carnot_value* x = import_reshape_to(node, n->inputs[0], apart, 6);
  x = import_reshape_to(node, import_transpose(node, x, kLines, 6), matrix, 3);
  // The image of each region, [R, 1, N, 1].
  carnot_value* image =
      import_binary(node, CARNOT_FN_EQUAL, column(n, rois, 0), counting(n, 0, images));
  image = import_unsqueeze(node, as_float(n, image), (int64_t[]){1, 3}, 2);
  carnot_value* mask = multiply(n, image, with_axis(n, lines, 2));  // [R, G, N, H]
  mask = import_reshape_to(node, import_transpose(node, mask, kMasks, 4), masks, 3);
  return import_matmul(node, mask, x);
}

// A few bytes of text may ask for any size; the importer makes a number for each line and column.
static void check_sides(caffe_import* n) {
  enum { kMostPixels = 1 << 20 };
  for (int d = 0; d < 4; d++)
    if (d != 1 && caffe_dim(n, 0, d) > kMostPixels)
      CAFFE_FAIL(n, OUT_OF_RANGE, "dimension %d of bottom 0 is %lld; at most %d are supported", d,
                 (long long)caffe_dim(n, 0, d), kMostPixels);
}

// The mean of bin (i, j) over channel (output * G + i) * G + j; 0 of an empty bin.
static void handle_psroi_pooling(caffe_import* n) {
  import_node* node = &n->node;
  const int64_t outputs = caffe_positive(n, "output_dim", CAFFE_MOST_SIZE),
                bins = caffe_positive(n, "group_size", 1024);
  const double scale = caffe_float(n->fields, "spatial_scale", 1);
  caffe_rank(n, 0, 4, 4);
  caffe_rank(n, 1, 2, 4);
  if (n->node.status) return;
  if (caffe_dim(n, 0, 1) != outputs * bins * bins)
    CAFFE_FAIL(n, INVALID_MODEL, "bottom 0 has %lld channels; output_dim %lld x group_size %lld^2",
               (long long)import_dim(n->inputs[0], 1), (long long)outputs, (long long)bins);
  if (n->node.status) return;
  check_sides(n);
  if (n->node.status) return;
  const int64_t height = caffe_dim(n, 0, 2), width = caffe_dim(n, 0, 3), five[2] = {-1, 5},
                sums[5] = {bins, -1, outputs, bins, width}, means[4] = {bins, -1, outputs, bins};
  static const int64_t kWidth[1] = {4}, kOut[4] = {1, 2, 0, 3};
  carnot_value* rois = import_reshape_to(node, n->inputs[1], five, 2);
  const region_bins v = cut_side(n, rois, 2, 4, bins, height, scale),
                    h = cut_side(n, rois, 1, 3, bins, width, scale);
  carnot_value* y = import_reshape_to(node, sum_lines(n, rois, v.mask, outputs, bins), sums, 5);
  y = multiply(n, y, import_unsqueeze(node, h.mask, (int64_t[]){0, 2}, 2));
  y = import_reshape_to(node, import_reduce(node, "sum", y, kWidth, 1), means, 4);
  y = import_transpose(node, y, kOut, 4);
  carnot_value* count = multiply(n, with_axis(n, v.count, 2), with_axis(n, h.count, 1));
  count = import_binary(node, CARNOT_FN_MAX, count, import_number_of(node, CARNOT_DTYPE_F32, 1));
  n->outputs[0] = import_binary(node, CARNOT_FN_DIV, y, with_axis(n, count, 1));
}

// ---- Proposal ----

typedef struct proposal {
  int64_t anchors, h, w, stride, base, before, after;  // before and after suppression
  caffe_float_list ratios, scales;
  double least, overlap;
} proposal;

static bool read_proposal(caffe_import* n, proposal* p) {
  enum { kMostAnchors = 1 << 22 };
  static const float kRatios[] = {0.5f, 1, 2}, kScales[] = {8, 16, 32};
  const caffe_float_list least = caffe_floats(n->fields, "min_size");
  *p = (proposal){.stride = caffe_int(n->fields, "feat_stride", 16),
                  .base = caffe_int(n->fields, "base_size", 16),
                  .before = caffe_int(n->fields, "pre_nms_topn", 6000),
                  .after = caffe_int(n->fields, "post_nms_topn", 300),
                  .ratios = caffe_floats(n->fields, "ratio"),
                  .scales = caffe_floats(n->fields, "scale"),
                  .least = least.count ? (double)least.items[0] : 16,
                  .overlap = caffe_float(n->fields, "nms_thresh", 0.7)};
  if (!p->ratios.count) p->ratios = (caffe_float_list){(float*)(uintptr_t)kRatios, 3};
  if (!p->scales.count) p->scales = (caffe_float_list){(float*)(uintptr_t)kScales, 3};
  caffe_rank(n, 0, 4, 4);
  caffe_rank(n, 1, 4, 4);
  caffe_rank(n, 2, 2, 4);
  if (n->node.status) return false;
  p->anchors = (int64_t)(p->ratios.count * p->scales.count);
  p->h = caffe_dim(n, 1, 2), p->w = caffe_dim(n, 1, 3);
  if (caffe_dim(n, 0, 0) != 1)
    CAFFE_FAIL(n, UNSUPPORTED, "%lld images; 1 is supported", (long long)caffe_dim(n, 0, 0));
  if (caffe_dim(n, 0, 1) != 2 * p->anchors || caffe_dim(n, 1, 1) != 4 * p->anchors)
    CAFFE_FAIL(n, INVALID_MODEL,
               "%lld scores and %lld corrections a pixel; %lld anchors have 2 and 4",
               (long long)caffe_dim(n, 0, 1), (long long)caffe_dim(n, 1, 1), (long long)p->anchors);
  if (p->h > CAFFE_MOST_SIZE || p->w > CAFFE_MOST_SIZE || p->h * p->w > kMostAnchors / p->anchors)
    CAFFE_FAIL(n, OUT_OF_RANGE, "%lld x %lld pixels of %lld anchors; at most %d are supported",
               (long long)p->h, (long long)p->w, (long long)p->anchors, kMostAnchors);
  if (p->stride < 1 || p->stride > CAFFE_MOST_SIZE || p->base < 1 || p->base > CAFFE_MOST_SIZE)
    CAFFE_FAIL(n, INVALID_MODEL, "feat_stride %lld and base_size %lld; 1 to %d are required",
               (long long)p->stride, (long long)p->base, CAFFE_MOST_SIZE);
  if (p->before < 1 || p->after < 1)
    CAFFE_FAIL(n, INVALID_MODEL, "pre_nms_topn %lld and post_nms_topn %lld; 1 or more are required",
               (long long)p->before, (long long)p->after);
  return !n->node.status;
}

// All anchors as [H * W * A, 4]: column 0 and 1 of the centres, 2 and 3 of the sides.
static carnot_value* make_anchors(caffe_import* n, const proposal* p) {
  const int64_t count = p->h * p->w * p->anchors, dims[2] = {count, 4};
  float* data = carnot_arena_alloc(&n->importer->state.arena, (size_t)count * 4, sizeof(float));
  if (!import_has_memory(&n->node)) return NULL;
  const double area = (double)(p->base * p->base), middle = 0.5 * (double)(p->base - 1);
  for (int64_t i = 0; i < count; i++) {
    const int64_t anchor = i % p->anchors, pixel = i / p->anchors;
    const double ratio = (double)p->ratios.items[anchor / (int64_t)p->scales.count],
                 scale = (double)p->scales.items[anchor % (int64_t)p->scales.count];
    const double w = floor(sqrt(area / ratio) + 0.5), h = floor(w * ratio + 0.5);
    // A box from a to b has the side b - a + 1, and the centre a + side / 2.
    data[4 * i] = (float)(middle + 0.5 + (double)(pixel % p->w * p->stride));
    data[4 * i + 1] = (float)(middle + 0.5 + (double)(pixel / p->w * p->stride));
    data[4 * i + 2] = (float)(w * scale);
    data[4 * i + 3] = (float)(h * scale);
  }
  return caffe_floats_constant(n, data, dims, 2);
}

// Elements (i, i + 1) of bottom 2, the image's height and width or its scales, as [1, 2]: x first.
static carnot_value* image_pair(caffe_import* n, carnot_value* info, int64_t y, int64_t x) {
  carnot_value* parts[2] = {column(n, info, x), column(n, info, y)};
  return import_concat(&n->node, 1, parts, 2);
}

// Corrected anchors within the image, [count, 4], and the scores, 0 of boxes that are too small.
static carnot_value* correct(caffe_import* n, const proposal* p, carnot_value* info,
                             carnot_value** scores) {
  import_node* node = &n->node;
  static const int64_t kPixels[4] = {2, 3, 0, 1}, kScores[4] = {0, 2, 3, 1}, kLast[1] = {1};
  const int64_t four[4] = {p->anchors, 4, p->h, p->w}, flat[2] = {-1, 4}, one[1] = {-1};
  carnot_value* d =
      import_transpose(node, import_reshape_to(node, n->inputs[1], four, 4), kPixels, 4);
  d = import_reshape_to(node, d, flat, 2);
  carnot_value* anchors = make_anchors(n, p);
  carnot_value* sides = import_slice(node, anchors, 1, 2, 4);
  carnot_value* centre = add(n, multiply(n, import_slice(node, d, 1, 0, 2), sides),
                             import_slice(node, anchors, 1, 0, 2));
  carnot_value* grown =
      multiply(n, import_unary(node, CARNOT_FN_EXP, import_slice(node, d, 1, 2, 4)), sides);
  carnot_value* limit = affine(n, image_pair(n, info, 0, 1), 1, -1);
  carnot_value* corners[2];
  for (int i = 0; i < 2; i++) {
    corners[i] = add(n, centre, affine(n, grown, i ? 0.5 : -0.5, 0));
    corners[i] = import_binary(node, CARNOT_FN_MIN, corners[i], limit);
    corners[i] = import_unary(node, CARNOT_FN_RELU, corners[i]);
  }
  carnot_value* least =
      affine(n, image_pair(n, info, 2, caffe_dim(n, 2, 1) > 3 ? 3 : 2), p->least, 0);
  carnot_value* wide = import_binary(node, CARNOT_FN_GREATER_EQUAL,
                                     affine(n, subtract(n, corners[1], corners[0]), 1, 1), least);
  carnot_value* kept = import_reduce(node, "min", as_float(n, wide), kLast, 1);
  carnot_value* s = import_slice(node, n->inputs[0], 1, p->anchors, 2 * p->anchors);
  s = import_reshape_to(node, import_transpose(node, s, kScores, 4), one, 1);
  *scores = multiply(n, s, import_reshape_to(node, kept, one, 1));
  return import_concat(node, 1, corners, 2);
}

// The indices of |boxes|, best first, that suppression keeps: [count, 3] as ONNX has them. Sides
// count the last pixel, so the last corners move by one.
static carnot_value* suppress(caffe_import* n, const proposal* p, carnot_value* boxes,
                              carnot_value* scores) {
  import_node* node = &n->node;
  static const float kOnePixel[4] = {0, 0, 1, 1};
  const int64_t four = 4;
  carnot_value* moved = add(n, boxes, caffe_floats_constant(n, kOnePixel, &four, 1));
  return import_op(node, CARNOT_OP_NON_MAX_SUPPRESSION, NULL, 4, with_axis(n, moved, 0),
                   import_unsqueeze(node, scores, (int64_t[]){0, 1}, 2), import_int(node, p->after),
                   import_number_of(node, CARNOT_DTYPE_F32, p->overlap));
}

// Regions [count, 5] of image 0 and their scores. Bottoms: scores [1, 2A, H, W], corrections
// [1, 4A, H, W], and the image's height, width and scales [1, 3 or 4].
static void handle_proposal(caffe_import* n) {
  import_node* node = &n->node;
  proposal p;
  if (!read_proposal(n, &p)) return;
  const int64_t one[1] = {-1}, size = import_dim(n->inputs[2], 1), line[2] = {1, size};
  if (size != 3 && size != 4)
    CAFFE_FAIL(n, INVALID_MODEL, "bottom 2 has %lld numbers; 3 or 4 are required", (long long)size);
  carnot_value *scores = NULL, *top[2] = {NULL, NULL};
  carnot_value* info = import_reshape_to(node, n->inputs[2], line, 2);
  carnot_value* boxes = correct(n, &p, info, &scores);
  const int64_t count = p.h * p.w * p.anchors, k = p.before < count ? p.before : count;
  carnot_attrs attrs = {0};
  carnot_value* best[2] = {scores, import_ints(node, &k, 1)};
  if (n->node.status) return;
  import_emit(node, CARNOT_OP_TOP_K, &attrs, best, 2, top, 2);
  boxes = import_gather(node, boxes, top[1], 0);
  carnot_value* kept = suppress(n, &p, boxes, top[0]);
  carnot_value* index = import_reshape_to(node, column(n, kept, 2), one, 1);
  carnot_value* parts[2] = {as_float(n, column(n, kept, 0)), import_gather(node, boxes, index, 0)};
  n->outputs[0] = import_concat(node, 1, parts, 2);
  if (n->output_count > 1) n->outputs[1] = import_gather(node, top[0], index, 0);
}

static const caffe_row kRows[] = {
    {"PSROIPooling", handle_psroi_pooling, "psroi_pooling_param", 2, 2, 0, NULL},
    {"Proposal", handle_proposal, "proposal_param", 3, 3, 0, "more than one image"},
};
const caffe_row_table caffe_rows_region = CAFFE_ROW_TABLE(kRows);
