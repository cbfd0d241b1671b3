// Operators that move data without changing it.
#include "import/onnx/importer.h"

static void handle_concat_1(onnx_import* n) {
  n->outputs[0] = import_concat(&n->node, onnx_attr_int(n, "axis", 1), n->inputs, n->input_count);
}

static void handle_split(onnx_import* n) {
  size_t count = 0;
  const int64_t* sizes = onnx_attr_ints(n, "split", &count);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", onnx_attr_int(n, "axis", 0));
  if (onnx_attr(n, "num_outputs")) {
    carnot_attrs_set_int(&attrs, n->node.arena, "num_outputs", onnx_attr_int(n, "num_outputs", 0));
  }
  carnot_value* inputs[2] = {onnx_need(n, 0),
                             sizes ? import_ints(&n->node, sizes, count) : onnx_in(n, 1)};
  onnx_emit_wanted(n, CARNOT_OP_SPLIT, &attrs, inputs, 2);
}

static void handle_slice_1(onnx_import* n) {
  size_t start_count = 0, end_count = 0, axis_count = 0;
  const int64_t* starts = onnx_attr_ints(n, "starts", &start_count);
  const int64_t* ends = onnx_attr_ints(n, "ends", &end_count);
  const int64_t* axes = onnx_attr_ints(n, "axes", &axis_count);
  if (!starts || !ends) ONNX_FAIL(n, INVALID_MODEL, "attributes starts and ends are required");
  if (n->node.status) return;
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_SLICE, NULL, 4, onnx_need(n, 0),
                import_ints(&n->node, starts, start_count), import_ints(&n->node, ends, end_count),
                axes ? import_ints(&n->node, axes, axis_count) : NULL);
}

static void handle_pad_attributes(onnx_import* n) {
  size_t count = 0;
  const int64_t* pads = onnx_attr_ints(n, n->version < 2 ? "paddings" : "pads", &count);
  if (!pads) ONNX_FAIL(n, INVALID_MODEL, "attribute pads is missing");
  carnot_strview mode = onnx_attr_text(n, "mode", "constant");
  if (n->node.status) return;
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "mode",
                        carnot_arena_text(n->node.arena, mode.data, mode.size));
  carnot_value* x = onnx_need(n, 0);
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_PAD, &attrs, 3, x, import_ints(&n->node, pads, count),
                import_number(&n->node, x, onnx_attr_float(n, "value", 0)));
}

// Tile-1 repeats along one axis; both are scalar inputs that must be constant.
static void handle_tile_1(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  int rank = import_rank(&n->node, x);
  size_t tile_count = 0, axis_count = 0;
  const int64_t* tiles = import_constant_ints(&n->node, onnx_in(n, 1), &tile_count);
  const int64_t* axis = import_constant_ints(&n->node, onnx_in(n, 2), &axis_count);
  if (!tiles || !axis || tile_count != 1 || axis_count != 1) {
    ONNX_FAIL(n, UNSUPPORTED, "tiles and axis must be constant scalars");
  }
  if (n->node.status) return;
  int64_t repeats[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) repeats[i] = 1;
  int at = import_axis(&n->node, *axis, rank);
  if (!n->node.status) repeats[at] = *tiles;
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_TILE, NULL, 2, x, import_ints(&n->node, repeats, (size_t)rank));
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }
#define WITH(op_type, since, handler, OP) \
  { "", op_type, since, handler, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("Transpose", 1, TRANSPOSE),
    WITH("Concat", 1, handle_concat_1, CONCAT),
    SAME("Concat", 4, CONCAT),
    WITH("Split", 1, handle_split, SPLIT),
    WITH("Slice", 1, handle_slice_1, SLICE),
    SAME("Slice", 10, SLICE),
    WITH("Pad", 1, handle_pad_attributes, PAD),
    SAME("Pad", 11, PAD),
    WITH("Tile", 1, handle_tile_1, TILE),
    SAME("Tile", 6, TILE),
    SAME("CenterCropPad", 18, CENTER_CROP_PAD),
    SAME("ReverseSequence", 10, REVERSE_SEQUENCE),
    SAME("DepthToSpace", 1, DEPTH_TO_SPACE),
    SAME("SpaceToDepth", 1, SPACE_TO_DEPTH),
    SAME("Trilu", 14, TRILU),
};
const onnx_row_table onnx_rows_movement = ONNX_ROW_TABLE(kRows);
