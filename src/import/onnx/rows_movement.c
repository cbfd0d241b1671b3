// Operators that move data without changing it.
#include "import/onnx/importer.h"

static void import_concat_1(onnx_import* n) {
  n->outputs[0] = onnx_concat(n, onnx_attr_int(n, "axis", 1), n->inputs, n->input_count);
}

static void import_split(onnx_import* n) {
  size_t count = 0;
  const int64_t* sizes = onnx_attr_ints(n, "split", &count);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->arena, "axis", onnx_attr_int(n, "axis", 0));
  if (onnx_attr(n, "num_outputs")) {
    carnot_attrs_set_int(&attrs, n->arena, "num_outputs", onnx_attr_int(n, "num_outputs", 0));
  }
  carnot_value* inputs[2] = {onnx_need(n, 0), sizes ? onnx_ints(n, sizes, count) : onnx_in(n, 1)};
  onnx_emit_wanted(n, CARNOT_OP_SPLIT, &attrs, inputs, 2);
}

static void import_slice_1(onnx_import* n) {
  size_t start_count = 0, end_count = 0, axis_count = 0;
  const int64_t* starts = onnx_attr_ints(n, "starts", &start_count);
  const int64_t* ends = onnx_attr_ints(n, "ends", &end_count);
  const int64_t* axes = onnx_attr_ints(n, "axes", &axis_count);
  if (!starts || !ends) ONNX_FAIL(n, INVALID_MODEL, "attributes starts and ends are required");
  if (n->status) return;
  n->outputs[0] =
      onnx_op(n, CARNOT_OP_SLICE, NULL, 4, onnx_need(n, 0), onnx_ints(n, starts, start_count),
              onnx_ints(n, ends, end_count), axes ? onnx_ints(n, axes, axis_count) : NULL);
}

static void import_pad_attributes(onnx_import* n) {
  size_t count = 0;
  const int64_t* pads = onnx_attr_ints(n, n->version < 2 ? "paddings" : "pads", &count);
  if (!pads) ONNX_FAIL(n, INVALID_MODEL, "attribute pads is missing");
  carnot_strview mode = onnx_attr_text(n, "mode", "constant");
  if (n->status) return;
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->arena, "mode",
                        carnot_arena_text(n->arena, mode.data, mode.size));
  carnot_value* x = onnx_need(n, 0);
  n->outputs[0] = onnx_op(n, CARNOT_OP_PAD, &attrs, 3, x, onnx_ints(n, pads, count),
                          onnx_number(n, x, onnx_attr_float(n, "value", 0)));
}

// Tile-1 repeats along one axis; both are scalar inputs that must be constant.
static void import_tile_1(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  int rank = onnx_rank(n, x);
  size_t tile_count = 0, axis_count = 0;
  const int64_t* tiles = onnx_constant_ints(n, onnx_in(n, 1), &tile_count);
  const int64_t* axis = onnx_constant_ints(n, onnx_in(n, 2), &axis_count);
  if (!tiles || !axis || tile_count != 1 || axis_count != 1) {
    ONNX_FAIL(n, UNSUPPORTED, "tiles and axis must be constant scalars");
  }
  if (n->status) return;
  int64_t repeats[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) repeats[i] = 1;
  int at = onnx_axis(n, *axis, rank);
  if (!n->status) repeats[at] = *tiles;
  n->outputs[0] = onnx_op(n, CARNOT_OP_TILE, NULL, 2, x, onnx_ints(n, repeats, (size_t)rank));
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }
#define WITH(op_type, since, handler, OP) \
  { "", op_type, since, handler, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("Transpose", 1, TRANSPOSE),
    WITH("Concat", 1, import_concat_1, CONCAT),
    SAME("Concat", 4, CONCAT),
    WITH("Split", 1, import_split, SPLIT),
    WITH("Slice", 1, import_slice_1, SLICE),
    SAME("Slice", 10, SLICE),
    WITH("Pad", 1, import_pad_attributes, PAD),
    SAME("Pad", 11, PAD),
    WITH("Tile", 1, import_tile_1, TILE),
    SAME("Tile", 6, TILE),
    SAME("CenterCropPad", 18, CENTER_CROP_PAD),
    SAME("ReverseSequence", 10, REVERSE_SEQUENCE),
    SAME("DepthToSpace", 1, DEPTH_TO_SPACE),
    SAME("SpaceToDepth", 1, SPACE_TO_DEPTH),
    SAME("Trilu", 14, TRILU),
};
const onnx_row_table onnx_rows_movement = ONNX_ROW_TABLE(kRows);
