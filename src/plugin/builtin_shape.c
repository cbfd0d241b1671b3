// Plugins that clip, select, move or resample elements, as the operators that do so. Source:
// TensorRT clipPlugin, leakyReluPlugin, splitPlugin, batchTilePlugin, scatterPlugin,
// scatterElementsPlugin, topkLastDimPlugin, reorgPlugin, resizeNearestPlugin, roiAlignPlugin,
// modulatedDeformConvPlugin, flattenConcat.
#include "plugin/front.h"

static void expand_clip(carnot_front* f) {
  f->outputs[0] = front_fn(f, CARNOT_FN_CLAMP, front_in(f, 0), front_float(f, "clipMin", 0),
                           front_float(f, "clipMax", 0));
}

static void expand_leaky_relu(carnot_front* f) {
  f->outputs[0] =
      front_fn(f, CARNOT_FN_LEAKY_RELU, front_in(f, 0), front_float(f, "negSlope", 0), 0);
}

static int32_t count_split(const carnot_fields* fields) {
  int32_t count = carnot_fields_length(fields, "output_lengths");
  return count > 0 ? count : 1;
}
// Parts of output_lengths along axis.
static void expand_split(carnot_front* f) {
  int64_t lengths[64];
  if (f->output_count > 64) FRONT_FAIL(f, UNSUPPORTED, "%d outputs", f->output_count);
  for (int i = 0; i < f->output_count && !f->status; i++)
    lengths[i] = carnot_fields_int_at(&f->fields, "output_lengths", i);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "axis", front_int(f, "axis", 0));
  carnot_value* inputs[] = {front_in(f, 0), front_ints(f, lengths, f->output_count)};
  front_node(f, CARNOT_OP_SPLIT, &attrs, inputs, 2, f->outputs, f->output_count);
}

// Input 1 [1,...] as often as input 0 [N,...] has entries.
static void expand_batch_tile(carnot_front* f) {
  carnot_value* b = front_in(f, 1);
  int rank = front_rank(f, b, 1);
  carnot_value* parts[] = {front_slice(f, front_shape(f, front_in(f, 0)), 0, 0, 1),
                           front_slice(f, front_shape(f, b), 0, 1, rank)};
  f->outputs[0] = front_op(f, CARNOT_OP_EXPAND, NULL, 2, b, front_concat(f, 0, parts, 2));
}

static void expand_scatter_nd(carnot_front* f) {
  f->outputs[0] = front_op(f, CARNOT_OP_SCATTER_ND, NULL, 3, front_in(f, 0),
                           front_cast(f, front_in(f, 1), CARNOT_DTYPE_I64), front_in(f, 2));
}

static void expand_scatter_elements(carnot_front* f) {
  const carnot_plugin_field* reduction =
      carnot_field_find(f->fields.items, f->fields.count, "reduction");
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "axis", front_int(f, "axis", 0));
  if (reduction && reduction->type == CARNOT_FIELD_CHAR) {
    // Text may or may not count the zero at its end.
    size_t length = strnlen(reduction->data, (size_t)reduction->length);
    carnot_attrs_set_text(&attrs, f->arena, "reduction",
                          carnot_arena_text(f->arena, reduction->data, length));
  }
  f->outputs[0] = front_op(f, CARNOT_OP_SCATTER_ELEMENTS, &attrs, 3, front_in(f, 0), front_in(f, 1),
                           front_in(f, 2));
}

static void expand_top_k(carnot_front* f) {
  int64_t k = front_int(f, "k", 0);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "axis", front_int(f, "axis", -1));
  carnot_attrs_set_int(&attrs, f->arena, "largest", front_int(f, "is_largest", 1) != 0);
  carnot_value* inputs[] = {front_in(f, 0), front_ints(f, &k, 1)};
  front_node(f, CARNOT_OP_TOP_K, &attrs, inputs, 2, f->outputs, 2);
  f->outputs[1] = front_cast(f, f->outputs[1], CARNOT_DTYPE_I32);
}

// |x| reshaped to its own dimensions times |by|, over |over|: four numbers each.
static carnot_value* rearrange(carnot_front* f, carnot_value* x, carnot_value* shape,
                               const int64_t* by, const int64_t* over) {
  carnot_value* dims = front_binary(f, CARNOT_FN_MUL, shape, front_ints(f, by, 4));
  dims = front_binary(f, CARNOT_FN_DIV, dims, front_ints(f, over, 4));
  return front_op(f, CARNOT_OP_RESHAPE, NULL, 2, x, dims);
}

// As Darknet arranges: the input is read as an image of C / stride^2 channels whose sides are
// stride times as large; blocks of stride x stride pixels become channels.
static void expand_reorg(carnot_front* f) {
  carnot_value* x = front_in(f, 0);
  const int64_t stride = front_int(f, "stride", 2);
  if (front_rank(f, x, 4) != 4) FRONT_FAIL(f, INVALID_MODEL, "the input must be [N,C,H,W]");
  if (stride < 1 || stride > 1024)
    FRONT_FAIL(f, INVALID_MODEL, "stride is %lld; 1 to 1024 are required", (long long)stride);
  const int64_t channels = front_dim(f, x, 1, "the input");
  if (f->status) return;
  if (channels % (stride * stride))
    FRONT_FAIL(f, INVALID_MODEL, "stride is %lld for %lld channels; its square must divide them",
               (long long)stride, (long long)channels);
  if (f->status) return;
  const int64_t sides[4] = {1, 1, stride, stride}, depth[4] = {1, stride * stride, 1, 1};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "blocksize", stride);
  carnot_value* shape = front_shape(f, x);
  carnot_value* image = rearrange(f, x, shape, sides, depth);
  carnot_value* blocks = front_op(f, CARNOT_OP_SPACE_TO_DEPTH, &attrs, 1, image);
  f->outputs[0] = rearrange(f, blocks, shape, depth, sides);
}

// Pixel floor(i / scale) in both directions.
static void expand_resize_nearest(carnot_front* f) {
  carnot_value* x = front_in(f, 0);
  if (front_rank(f, x, 4) != 4) FRONT_FAIL(f, INVALID_MODEL, "the input must be [N,C,H,W]");
  if (f->status) return;
  float* scales = CARNOT_NEW_ARRAY(f->arena, float, 4);
  scales[0] = scales[1] = 1;
  scales[2] = scales[3] = (float)front_float(f, "scale", 1);
  carnot_tensor tensor = {.dtype = CARNOT_DTYPE_F32, .rank = 1, .dims = {4}, .data = scales};
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, f->arena, "mode", "nearest");
  carnot_attrs_set_text(&attrs, f->arena, "nearest_mode", "floor");
  carnot_attrs_set_text(&attrs, f->arena, "coordinate_transformation_mode", "asymmetric");
  f->outputs[0] = front_op(f, CARNOT_OP_RESIZE, &attrs, 3, x, NULL,
                           carnot_graph_constant(f->block, NULL, &tensor));
}

static void expand_roi_align(carnot_front* f) {
  carnot_attrs attrs = {0};
  bool half = front_int(f, "coordinate_transformation_mode", 1) != 0;
  carnot_attrs_set_text(&attrs, f->arena, "coordinate_transformation_mode",
                        half ? "half_pixel" : "output_half_pixel");
  carnot_attrs_set_text(&attrs, f->arena, "mode", front_int(f, "mode", 1) ? "avg" : "max");
  carnot_attrs_set_int(&attrs, f->arena, "output_height", front_int(f, "output_height", 1));
  carnot_attrs_set_int(&attrs, f->arena, "output_width", front_int(f, "output_width", 1));
  carnot_attrs_set_int(&attrs, f->arena, "sampling_ratio", front_int(f, "sampling_ratio", 0));
  carnot_attrs_set_float(&attrs, f->arena, "spatial_scale", front_float(f, "spatial_scale", 1));
  f->outputs[0] = front_op(f, CARNOT_OP_ROI_ALIGN, &attrs, 3, front_in(f, 0), front_in(f, 1),
                           front_cast(f, front_in(f, 2), CARNOT_DTYPE_I64));
}

// A field of two integers, both |absent| where it is not given.
static void set_pair(carnot_front* f, carnot_attrs* attrs, const char* attr, const char* field,
                     int64_t absent, bool twice) {
  int64_t v[4] = {absent, absent, absent, absent};
  for (int i = 0; i < 4 && carnot_fields_length(&f->fields, field) == 2; i++)
    v[i] = carnot_fields_int_at(&f->fields, field, i % 2);
  carnot_attrs_set_ints(attrs, f->arena, attr, v, twice ? 4 : 2);
}

// Inputs x, offset, mask, weight and, may be, bias.
static void expand_deform_conv(carnot_front* f) {
  carnot_attrs attrs = {0};
  set_pair(f, &attrs, "strides", "stride", 1, false);
  set_pair(f, &attrs, "pads", "padding", 0, true);
  set_pair(f, &attrs, "dilations", "dilation", 1, false);
  carnot_attrs_set_int(&attrs, f->arena, "group", front_int(f, "group", 1));
  carnot_attrs_set_int(&attrs, f->arena, "offset_group", front_int(f, "deformable_group", 1));
  f->outputs[0] =
      front_op(f, CARNOT_OP_DEFORM_CONV, &attrs, 5, front_in(f, 0), front_in(f, 3), front_in(f, 1),
               f->input_count > 4 ? f->inputs[4] : NULL, front_in(f, 2));
}

// Each input flattened behind the batch, joined.
static void expand_flatten_concat(carnot_front* f) {
  if (front_int(f, "axis", 1) != 1) FRONT_FAIL(f, UNSUPPORTED, "axis must be 1");
  carnot_value* parts[64];
  const int64_t dims[] = {0, -1};
  for (int i = 0; i < f->input_count && i < 64; i++)
    parts[i] = front_reshape(f, front_in(f, i), dims, 2);
  const int64_t last[] = {2, 3};
  carnot_value* y = front_concat(f, 1, parts, f->input_count);
  f->outputs[0] = front_op(f, CARNOT_OP_UNSQUEEZE, NULL, 2, y, front_ints(f, last, 2));
}

static const carnot_plugin_field kClip[] = {CARNOT_FIELD("clipMin", FLOAT32),
                                            CARNOT_FIELD("clipMax", FLOAT32)};
static const carnot_plugin_field kLeaky[] = {CARNOT_FIELD("negSlope", FLOAT32)};
static const carnot_plugin_field kSplit[] = {CARNOT_FIELD("axis", INT32),
                                             CARNOT_FIELD("output_lengths", INT32)};
static const carnot_plugin_field kScatter[] = {CARNOT_FIELD("axis", INT32),
                                               CARNOT_FIELD("reduction", CHAR)};
static const carnot_plugin_field kTopK[] = {
    CARNOT_FIELD("type_id", INT32), CARNOT_FIELD("k", INT32), CARNOT_FIELD("is_largest", INT32),
    CARNOT_FIELD("axis", INT32)};
static const carnot_plugin_field kReorg[] = {CARNOT_FIELD("stride", INT32)};
static const carnot_plugin_field kScale[] = {CARNOT_FIELD("scale", FLOAT32)};
static const carnot_plugin_field kRoi[] = {CARNOT_FIELD("coordinate_transformation_mode", INT32),
                                           CARNOT_FIELD("mode", INT32),
                                           CARNOT_FIELD("output_height", INT32),
                                           CARNOT_FIELD("output_width", INT32),
                                           CARNOT_FIELD("sampling_ratio", INT32),
                                           CARNOT_FIELD("spatial_scale", FLOAT32)};
static const carnot_plugin_field kDeform[] = {
    CARNOT_FIELD("stride", INT32), CARNOT_FIELD("padding", INT32), CARNOT_FIELD("dilation", INT32),
    CARNOT_FIELD("group", INT32), CARNOT_FIELD("deformable_group", INT32)};
static const carnot_plugin_field kFlatten[] = {CARNOT_FIELD("axis", INT32),
                                               CARNOT_FIELD("ignoreBatch", INT32)};

#define ROW(name, version, fields, min, max, outputs, expand) \
  { name, version, CARNOT_FIELD_LIST(fields), min, max, outputs, expand, NULL, NULL }

static const carnot_plugin_builtin kRows[] = {
    ROW("Clip_TRT", "1", kClip, 1, 1, 1, expand_clip),
    ROW("LReLU_TRT", "1", kLeaky, 1, 1, 1, expand_leaky_relu),
    {"Split", "1", CARNOT_FIELD_LIST(kSplit), 1, 1, 1, expand_split, NULL, count_split},
    {"BatchTilePlugin_TRT", "1", NULL, 0, 2, 2, 1, expand_batch_tile, NULL, NULL},
    {"ScatterND", "1", NULL, 0, 3, 3, 1, expand_scatter_nd, NULL, NULL},
    ROW("ScatterElements", "1", kScatter, 3, 3, 1, expand_scatter_elements),
    ROW("ScatterElements", "2", kScatter, 3, 3, 1, expand_scatter_elements),
    ROW("TopkLastDim", "1", kTopK, 1, 1, 2, expand_top_k),
    ROW("Reorg_TRT", "1", kReorg, 1, 1, 1, expand_reorg),
    ROW("Reorg_TRT", "2", kReorg, 1, 1, 1, expand_reorg),
    ROW("ResizeNearest_TRT", "1", kScale, 1, 1, 1, expand_resize_nearest),
    ROW("ROIAlign_TRT", "1", kRoi, 3, 3, 1, expand_roi_align),
    ROW("ROIAlign_TRT", "2", kRoi, 3, 3, 1, expand_roi_align),
    ROW("ModulatedDeformConv2d", "1", kDeform, 4, 5, 1, expand_deform_conv),
    ROW("ModulatedDeformConv2d", "2", kDeform, 4, 5, 1, expand_deform_conv),
    ROW("FlattenConcat_TRT", "1", kFlatten, 1, 64, 1, expand_flatten_concat),
};
const carnot_plugin_builtins carnot_plugins_shape = CARNOT_BUILTINS(kRows);
