// Resampling.
#include "import/onnx/importer.h"

static bool is_empty(const carnot_value* value) {
  return value && value->type.rank == 1 && import_dim(value, 0) == 0;
}

// Versions 11 and 12 have tf_half_pixel_for_nn, which lies half a pixel behind half_pixel: another
// way of rounding makes up for it.
static void replace_tf_half_pixel(onnx_import* n, carnot_attrs* attrs) {
  if (!carnot_view_is(onnx_attr_text(n, "coordinate_transformation_mode", ""),
                      "tf_half_pixel_for_nn"))
    return;
  carnot_strview rounding = onnx_attr_text(n, "nearest_mode", "round_prefer_floor");
  bool floor = carnot_view_is(rounding, "floor");
  if (!carnot_view_is(onnx_attr_text(n, "mode", "nearest"), "nearest") ||
      !(floor || carnot_view_is(rounding, "round_prefer_floor"))) {
    ONNX_FAIL(n, UNSUPPORTED,
              "tf_half_pixel_for_nn goes with nearest and floor or round_prefer_floor only");
  }
  carnot_attrs_set_text(attrs, n->node.arena, "coordinate_transformation_mode", "half_pixel");
  carnot_attrs_set_text(attrs, n->node.arena, "nearest_mode", floor ? "round_prefer_ceil" : "ceil");
}

// An empty list means "not given".
static void handle_resize(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, CARNOT_OP_RESIZE);
  replace_tf_half_pixel(n, &attrs);
  carnot_value* inputs[4] = {onnx_need(n, 0), onnx_in(n, 1), onnx_in(n, 2), onnx_in(n, 3)};
  for (int i = 1; i < 4; i++) {
    if (is_empty(inputs[i])) inputs[i] = NULL;
  }
  import_emit(&n->node, CARNOT_OP_RESIZE, &attrs, inputs, 4, n->outputs, 1);
}

// Resize-10 and Upsample take every source coordinate as x / scale, and its floor as the nearest.
static void handle_asymmetric(onnx_import* n, carnot_value* scales) {
  carnot_strview mode = onnx_attr_text(n, "mode", "nearest");
  if (carnot_view_is(mode, "bilinear")) mode = carnot_view("linear");
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "mode",
                        carnot_arena_text(n->node.arena, mode.data, mode.size));
  carnot_attrs_set_text(&attrs, n->node.arena, "coordinate_transformation_mode", "asymmetric");
  carnot_attrs_set_text(&attrs, n->node.arena, "nearest_mode", "floor");
  n->outputs[0] = import_op(&n->node, CARNOT_OP_RESIZE, &attrs, 3, onnx_need(n, 0), NULL, scales);
}

static void handle_resize_10(onnx_import* n) { handle_asymmetric(n, onnx_need(n, 1)); }

static carnot_value* scales_of(onnx_import* n, const float* scales, size_t count) {
  carnot_tensor tensor = {.dtype = CARNOT_DTYPE_F32, .rank = 1, .dims = {(int64_t)count}};
  tensor.data = carnot_arena_copy(n->node.arena, scales, count * sizeof(*scales));
  if (!import_has_memory(&n->node)) return NULL;
  return import_tensor_constant(&n->node, &tensor);
}

static void handle_upsample_7(onnx_import* n) {
  size_t count = 0;
  const float* scales = onnx_attr_floats(n, "scales", &count);
  if (!scales) ONNX_FAIL(n, INVALID_MODEL, "attribute scales is missing");
  if (!n->node.status) handle_asymmetric(n, scales_of(n, scales, count));
}

static void handle_upsample_1(onnx_import* n) {
  const float scales[] = {1, 1, (float)onnx_attr_float(n, "height_scale", 1),
                          (float)onnx_attr_float(n, "width_scale", 1)};
  handle_asymmetric(n, scales_of(n, scales, 4));
}

// Versions 16 to 19 say bilinear and bicubic for what later ones call linear and cubic.
static void handle_grid_sample_16(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, CARNOT_OP_GRID_SAMPLE);
  carnot_strview mode = onnx_attr_text(n, "mode", "bilinear");
  const char* word = carnot_view_is(mode, "bilinear")  ? "linear"
                     : carnot_view_is(mode, "bicubic") ? "cubic"
                     : carnot_view_is(mode, "nearest") ? "nearest"
                                                       : NULL;
  if (!word) {
    ONNX_FAIL(n, INVALID_MODEL, "mode \"" CARNOT_VIEW_FMT "\" must be bilinear, bicubic or nearest",
              CARNOT_VIEW_ARG(mode));
    return;
  }
  carnot_attrs_set_text(&attrs, n->node.arena, "mode", word);
  carnot_value* inputs[2] = {onnx_need(n, 0), onnx_need(n, 1)};
  import_emit(&n->node, CARNOT_OP_GRID_SAMPLE, &attrs, inputs, 2, n->outputs, 1);
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }
#define RESIZE(op_type, since, handler) \
  { "", op_type, since, handler, CARNOT_OP_RESIZE, 0, NULL }

static const onnx_row kRows[] = {
    RESIZE("Resize", 10, handle_resize_10),
    RESIZE("Resize", 11, handle_resize),
    RESIZE("Upsample", 1, handle_upsample_1),
    RESIZE("Upsample", 7, handle_upsample_7),
    RESIZE("Upsample", 9, handle_resize_10),
    {"", "GridSample", 16, handle_grid_sample_16, CARNOT_OP_GRID_SAMPLE, 0, NULL},
    SAME("GridSample", 20, GRID_SAMPLE),
    SAME("AffineGrid", 20, AFFINE_GRID),
    SAME("Col2Im", 18, COL2IM),
};
const onnx_row_table onnx_rows_resample = ONNX_ROW_TABLE(kRows);
