// Layers that move elements or change dimensions, and those that give constants. Source: the layers
// of their names in BVLC/caffe; Permute of SSD, ShuffleChannel, Reorg of YOLO.
#include "import/caffe/handlers.h"

// |name|, or its older form where that is given.
static int axis_or_dim(caffe_import* n, const char* old) {
  return caffe_has(n->fields, old) ? caffe_axis(n, old, 1) : caffe_axis(n, "axis", 1);
}

static void handle_concat(caffe_import* n) {
  n->outputs[0] = import_concat(&n->node, axis_or_dim(n, "concat_dim"), n->inputs, n->input_count);
}

// At slice_point, or into equal parts.
static void handle_slice(caffe_import* n) {
  const int axis = axis_or_dim(n, "slice_dim");
  const caffe_int_list points = caffe_ints(n->fields, "slice_point");
  const int64_t size = caffe_dim(n, 0, axis);
  if (points.count && points.count + 1 != (size_t)n->output_count)
    CAFFE_FAIL(n, INVALID_MODEL, "%zu slice_point for %d tops; one less than tops required",
               points.count, n->output_count);
  if (!points.count && n->output_count && size % n->output_count)
    CAFFE_FAIL(n, INVALID_MODEL, "%lld elements cannot be cut into %d equal parts", (long long)size,
               n->output_count);
  int64_t start = 0;
  for (int i = 0; i < n->output_count && !n->node.status; i++) {
    int64_t end = points.count == 0          ? start + size / n->output_count
                  : (size_t)i < points.count ? points.items[i]
                                             : size;
    if (end <= start || end > size)
      CAFFE_FAIL(n, INVALID_MODEL, "slice_point %lld; more than %lld and at most %lld is required",
                 (long long)end, (long long)start, (long long)size);
    n->outputs[i] = import_slice(&n->node, n->inputs[0], axis, start, end);
    start = end;
  }
}

static void handle_split(caffe_import* n) {
  for (int i = 0; i < n->output_count; i++) n->outputs[i] = n->inputs[0];
}

// The dimension, or how a reshape copies it (0) or takes what is left (-1).
static int64_t target_dim(caffe_import* n, int axis, bool same_place) {
  const int64_t dim = import_dim(n->inputs[0], axis);
  return dim >= 0 ? dim : same_place ? 0 : -1;
}

static void handle_flatten(caffe_import* n) {
  const int rank = import_rank(&n->node, n->inputs[0]), axis = caffe_axis(n, "axis", 1),
            last = caffe_axis(n, "end_axis", -1);
  int64_t dims[CARNOT_MAX_RANK], flat = 1;
  int count = 0;
  if (last < axis) CAFFE_FAIL(n, INVALID_MODEL, "end_axis %d is before axis %d", last, axis);
  for (int i = axis; i <= last && !n->node.status; i++)
    if (!carnot_mul_i64(flat, caffe_dim(n, 0, i), &flat)) CAFFE_FAIL(n, OUT_OF_RANGE, "too large");
  for (int i = 0; i < axis; i++) dims[count++] = target_dim(n, i, true);
  dims[count++] = flat;
  for (int i = last + 1; i < rank; i++) dims[count++] = target_dim(n, i, last == axis);
  n->outputs[0] = import_reshape_to(&n->node, n->inputs[0], dims, count);
}

// Replaces the dimensions [axis, axis + num_axes): 0 copies that of the input, -1 takes the rest.
static void handle_reshape(caffe_import* n) {
  const caffe_shape_list shapes = caffe_shapes(n->fields);
  const int rank = import_rank(&n->node, n->inputs[0]);
  const int64_t given = caffe_int(n->fields, "axis", 0);
  const int64_t start = given < 0 ? given + rank + 1 : given;
  int64_t count = caffe_int(n->fields, "num_axes", -1), dims[2 * CARNOT_MAX_RANK];
  const caffe_int_list shape =
      shapes.count ? shapes.items[shapes.count - 1].dim : (caffe_int_list){NULL, 0};
  if (start < 0 || start > rank || count < -1 || count > rank - start ||
      (size_t)rank + shape.count > 2 * CARNOT_MAX_RANK) {
    CAFFE_FAIL(n, INVALID_MODEL, "axis %lld, num_axes %lld and %zu new dimensions; %d are there",
               (long long)given, (long long)count, shape.count, rank);
    return;
  }
  if (count == -1) count = rank - start;
  int at = 0;
  for (int i = 0; i < start; i++) dims[at++] = target_dim(n, i, true);
  for (size_t i = 0; i < shape.count; i++) {
    const int64_t dim = shape.items[i];
    if (dim < -1 || (dim == 0 && (int64_t)i >= rank - start))
      CAFFE_FAIL(n, INVALID_MODEL, "dimension %zu of the shape is %lld", i, (long long)dim);
    dims[at++] = dim == 0 ? target_dim(n, (int)start + (int)i, true) : dim;
  }
  for (int i = (int)(start + count); i < rank; i++, at++) dims[at] = target_dim(n, i, at == i);
  if (at > CARNOT_MAX_RANK)
    CAFFE_FAIL(n, UNSUPPORTED, "%d dimensions where at most %d are supported", at, CARNOT_MAX_RANK);
  if (!n->node.status) n->outputs[0] = import_reshape_to(&n->node, n->inputs[0], dims, at);
}

// The axes listed, then the others in their order.
static void handle_permute(caffe_import* n) {
  const caffe_int_list order = caffe_ints(n->fields, "order");
  const int rank = import_rank(&n->node, n->inputs[0]);
  int64_t perm[CARNOT_MAX_RANK];
  unsigned seen = 0;
  int count = 0;
  for (size_t i = 0; i < order.count && !n->node.status; i++) {
    const int64_t axis = order.items[i];
    if (axis < 0 || axis >= rank || (seen >> axis & 1)) {
      CAFFE_FAIL(n, INVALID_MODEL, "order %zu is %lld; each of 0 to %d at most once", i,
                 (long long)axis, rank - 1);
      return;
    }
    seen |= 1u << axis;
    perm[count++] = axis;
  }
  for (int i = 0; i < rank; i++)
    if (!(seen >> i & 1)) perm[count++] = i;
  n->outputs[0] = import_transpose(&n->node, n->inputs[0], perm, rank);
}

// To the dimensions of the second bottom from |axis| on.
static void handle_crop(caffe_import* n) {
  const caffe_float_list offset = caffe_floats(n->fields, "offset");
  const int axis = caffe_axis(n, "axis", 2), rank = import_rank(&n->node, n->inputs[0]);
  if (import_rank(&n->node, n->inputs[1]) != rank)
    CAFFE_FAIL(n, INVALID_MODEL, "bottoms of %d and %d dimensions; as many are required", rank,
               n->inputs[1]->type.rank);
  if (offset.count > 1 && offset.count != (size_t)(rank - axis))
    CAFFE_FAIL(n, INVALID_MODEL, "%zu offset; 1 or %d are required", offset.count, rank - axis);
  carnot_value* y = n->inputs[0];
  for (int i = axis; i < rank && !n->node.status; i++) {
    const float given = offset.count ? offset.items[offset.count == 1 ? 0 : i - axis] : 0;
    const int64_t size = caffe_dim(n, 1, i),
                  start = given >= 0 && given < (float)CAFFE_MOST_SIZE ? (int64_t)given : -1;
    if (start < 0 || start + size > caffe_dim(n, 0, i))
      CAFFE_FAIL(n, INVALID_MODEL, "offset %g and %lld elements of dimension %d, which has %lld",
                 (double)given, (long long)size, i, (long long)caffe_dim(n, 0, i));
    y = import_slice(&n->node, y, i, start, start + size);
  }
  n->outputs[0] = y;
}

static void handle_tile(caffe_import* n) {
  const int axis = caffe_axis(n, "axis", 1), rank = import_rank(&n->node, n->inputs[0]);
  int64_t repeats[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) repeats[i] = 1;
  repeats[axis] = caffe_positive(n, "tiles", CAFFE_MOST_SIZE);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_TILE, NULL, 2, n->inputs[0],
                            import_ints(&n->node, repeats, (size_t)rank));
}

static void handle_batch_reindex(caffe_import* n) {
  carnot_value* index = import_cast(&n->node, n->inputs[1], CARNOT_DTYPE_I64);
  n->outputs[0] = import_gather(&n->node, n->inputs[0], index, 0);
}

// Of each bottom but the last the images whose selector is not 0.
static void handle_filter(caffe_import* n) {
  static const int64_t kAll[] = {-1};
  carnot_value* selector = n->inputs[n->input_count - 1];
  carnot_value* chosen = import_op(&n->node, CARNOT_OP_NON_ZERO, NULL, 1,
                                   import_reshape_to(&n->node, selector, kAll, 1));
  carnot_value* index = import_reshape_to(&n->node, chosen, kAll, 1);
  for (int i = 0; i < n->output_count && i + 1 < n->input_count; i++)
    n->outputs[i] = import_gather(&n->node, n->inputs[i], index, 0);
}

// Channels in |group| runs, taken in turn.
static void handle_shuffle(caffe_import* n) {
  static const int64_t kPerm[] = {0, 2, 1, 3};
  caffe_rank(n, 0, 4, 4);
  const int64_t group = caffe_int(n->fields, "group", 1), channels = caffe_dim(n, 0, 1);
  if (group < 1 || channels % group) {
    CAFFE_FAIL(n, INVALID_MODEL, "group is %lld; it must divide %lld channels", (long long)group,
               (long long)channels);
    return;
  }
  const int64_t apart[4] = {0, group, channels / group, -1};
  const int64_t together[4] = {0, channels, caffe_dim(n, 0, 2), caffe_dim(n, 0, 3)};
  carnot_value* x = import_reshape_to(&n->node, n->inputs[0], apart, 4);
  n->outputs[0] = import_reshape_to(&n->node, import_transpose(&n->node, x, kPerm, 4), together, 4);
}

// As Darknet arranges: the image is read as one of C / stride^2 channels and sides times |stride|.
static void handle_reorg(caffe_import* n) {
  const caffe_int_list list = caffe_ints(n->fields, "stride");
  const int64_t stride = list.count ? list.items[0] : 2;
  const bool reverse = caffe_int(n->fields, "reverse", 0) != 0;
  caffe_rank(n, 0, 4, 4);
  const int64_t c = caffe_dim(n, 0, 1), h = caffe_dim(n, 0, 2), w = caffe_dim(n, 0, 3);
  if (stride < 1 || stride > 64 || c % (stride * stride) ||
      (reverse ? c % (stride * stride * stride * stride) : h % stride || w % stride)) {
    CAFFE_FAIL(n, INVALID_MODEL, "stride is %lld for %lld channels of %lld x %lld",
               (long long)stride, (long long)c, (long long)h, (long long)w);
    return;
  }
  const int64_t wide[4] = {0, c / (stride * stride), h * stride, w * stride};
  const int64_t deep[4] = {0, c * stride * stride, h / stride, w / stride};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "blocksize", stride);
  carnot_value* x = import_reshape_to(&n->node, n->inputs[0], wide, 4);
  x = import_op(&n->node, reverse ? CARNOT_OP_DEPTH_TO_SPACE : CARNOT_OP_SPACE_TO_DEPTH, &attrs, 1,
                x);
  n->outputs[0] = import_reshape_to(&n->node, x, reverse ? wide : deep, 4);
}

// ---- constants ----

static void handle_parameter(caffe_import* n) {
  const caffe_shape_list shapes = caffe_shapes(n->fields);
  if (shapes.count != 1 || shapes.items[0].dim.count > CARNOT_MAX_RANK) {
    CAFFE_FAIL(n, INVALID_MODEL, "parameter_param needs one shape of at most %d dimensions",
               CARNOT_MAX_RANK);
    return;
  }
  caffe_expect_blobs(n, 1);
  n->outputs[0] = caffe_weights(n, 0, shapes.items[0].dim.items, (int)shapes.items[0].dim.count, 3);
}

// The dimensions of top |i|: a shape, or four lists of numbers.
static int dummy_dims(caffe_import* n, size_t i, int64_t* dims) {
  static const char* const kNames[] = {"num", "channels", "height", "width"};
  const caffe_shape_list shapes = caffe_shapes(n->fields);
  if (shapes.count) {
    const caffe_int_list* shape = &shapes.items[shapes.count == 1 ? 0 : i].dim;
    if ((shapes.count > 1 && i >= shapes.count) || shape->count > CARNOT_MAX_RANK) {
      CAFFE_FAIL(n, INVALID_MODEL, "%zu shapes for %d tops of at most %d dimensions", shapes.count,
                 n->output_count, CARNOT_MAX_RANK);
      return 0;
    }
    for (size_t d = 0; d < shape->count; d++) dims[d] = shape->items[d];
    return (int)shape->count;
  }
  for (int d = 0; d < 4; d++) {
    const caffe_int_list list = caffe_ints(n->fields, kNames[d]);
    if (list.count != 1 && i >= list.count) {
      CAFFE_FAIL(n, INVALID_MODEL, "%zu numbers of %s for %d tops", list.count, kNames[d],
                 n->output_count);
      return 0;
    }
    dims[d] = list.items[list.count == 1 ? 0 : i];
  }
  return 4;
}

static void handle_dummy_data(caffe_import* n) {
  for (int i = 0; i < n->output_count && !n->node.status; i++) {
    int64_t dims[CARNOT_MAX_RANK];
    float value;
    const int rank = dummy_dims(n, (size_t)i, dims);
    const char* wrong = caffe_filler_value(n->fields, (size_t)i, &value);
    if (wrong) CAFFE_FAIL(n, UNSUPPORTED, "%s", wrong);
    for (int d = 0; d < rank; d++)
      if (dims[d] < 1 || dims[d] > CAFFE_MOST_SIZE)
        CAFFE_FAIL(n, INVALID_MODEL, "dimension %d is %lld", d, (long long)dims[d]);
    n->outputs[i] = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2,
                              import_number_of(&n->node, CARNOT_DTYPE_F32, (double)value),
                              import_ints(&n->node, dims, (size_t)rank));
  }
}

static const caffe_row kRows[] = {
    {"Concat", handle_concat, "concat_param", 1, -1, 0, NULL},
    {"Slice", handle_slice, "slice_param", 1, 1, 0, NULL},
    {"Split", handle_split, NULL, 1, 1, 0, NULL},
    {"Flatten", handle_flatten, "flatten_param", 1, 1, 0, NULL},
    {"Reshape", handle_reshape, "reshape_param", 1, 1, 0, NULL},
    {"Permute", handle_permute, "permute_param", 1, 1, 0, NULL},
    {"Crop", handle_crop, "crop_param", 2, 2, 0, NULL},
    {"Tile", handle_tile, "tile_param", 1, 1, 0, NULL},
    {"BatchReindex", handle_batch_reindex, NULL, 2, 2, 0, NULL},
    {"Filter", handle_filter, NULL, 2, -1, 0, NULL},
    {"ShuffleChannel", handle_shuffle, "shuffle_channel_param", 1, 1, 0, NULL},
    {"Reorg", handle_reorg, "reorg_param", 1, 1, 0, NULL},
    {"Parameter", handle_parameter, "parameter_param", 0, 0, 0, NULL},
    {"DummyData", handle_dummy_data, "dummy_data_param", 0, 0, 0, "random fillers"},
};
const caffe_row_table caffe_rows_movement = CAFFE_ROW_TABLE(kRows);
