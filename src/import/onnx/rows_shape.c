// Constants, shapes and their changes.
#include "import/onnx/importer.h"

// A list that older versions have as attribute |name| and newer ones as input |input|.
static carnot_value* list_of(onnx_import* n, const char* name, int input) {
  size_t count = 0;
  const int64_t* values = onnx_attr_ints(n, name, &count);
  return values ? import_ints(&n->node, values, count) : onnx_in(n, input);
}

static void handle_reshape_old(onnx_import* n) {
  n->outputs[0] = import_reshape(&n->node, onnx_need(n, 0), list_of(n, "shape", 1));
}

static void handle_squeeze(onnx_import* n) {
  n->outputs[0] = import_op(&n->node, n->row->op, NULL, 2, onnx_need(n, 0), list_of(n, "axes", 1));
}

static void handle_flatten(onnx_import* n) {
  n->outputs[0] = import_flatten(&n->node, onnx_need(n, 0), onnx_attr_int(n, "axis", 1));
}

static carnot_tensor list_tensor(onnx_import* n, carnot_dtype dtype, int rank, size_t count,
                                 const void* data, size_t bytes) {
  carnot_tensor tensor = {.dtype = dtype, .rank = rank, .dims = {(int64_t)count}};
  tensor.data = carnot_arena_copy(n->node.arena, data, bytes);
  if (!import_has_memory(&n->node)) return (carnot_tensor){0};
  return tensor;
}

static bool constant_of(onnx_import* n, const onnx_attribute* attr, carnot_tensor* out) {
  carnot_strview name = attr->name;
  if (carnot_view_is(name, "value_int")) {
    *out = list_tensor(n, CARNOT_DTYPE_I64, 0, 1, &attr->i, sizeof(attr->i));
  } else if (carnot_view_is(name, "value_float")) {
    *out = list_tensor(n, CARNOT_DTYPE_F32, 0, 1, &attr->f, sizeof(attr->f));
  } else if (carnot_view_is(name, "value_string")) {
    *out = list_tensor(n, CARNOT_DTYPE_STRING, 0, 1, &attr->s, sizeof(attr->s));
  } else if (carnot_view_is(name, "value_ints")) {
    *out = list_tensor(n, CARNOT_DTYPE_I64, 1, attr->ints.count, attr->ints.items,
                       attr->ints.count * sizeof(int64_t));
  } else if (carnot_view_is(name, "value_floats")) {
    *out = list_tensor(n, CARNOT_DTYPE_F32, 1, attr->floats.count, attr->floats.items,
                       attr->floats.count * sizeof(float));
  } else if (carnot_view_is(name, "value_strings")) {
    *out = list_tensor(n, CARNOT_DTYPE_STRING, 1, attr->strings.count, attr->strings.items,
                       attr->strings.count * sizeof(carnot_strview));
  } else if (carnot_view_is(name, "value")) {
    return onnx_attr_tensor(n, "value", out);
  } else if (carnot_view_is(name, "sparse_value") && attr->sparse_tensor) {
    if (!n->node.status)
      n->node.status =
          carnot_onnx_sparse_read(attr->sparse_tensor, onnx_files(n), n->node.arena, out);
    return !n->node.status;
  } else {
    ONNX_FAIL(n, INVALID_MODEL, "attribute " CARNOT_VIEW_FMT " holds no constant",
              CARNOT_VIEW_ARG(name));
    return false;
  }
  return true;
}

static void handle_constant(onnx_import* n) {
  static const char* const kNames[] = {"value",         "value_int",    "value_ints",
                                       "value_float",   "value_floats", "value_string",
                                       "value_strings", "sparse_value"};
  const onnx_attribute* attr = NULL;
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]) && !attr; i++) {
    attr = onnx_attr(n, kNames[i]);
    if (!attr) continue;
    carnot_tensor tensor;
    onnx_attribute named = *attr;  // a function's attribute has the name of the reference
    named.name = carnot_view(kNames[i]);
    if (constant_of(n, &named, &tensor)) n->outputs[0] = import_tensor_constant(&n->node, &tensor);
  }
  if (!attr) ONNX_FAIL(n, INVALID_MODEL, "a constant without value");
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }
#define WITH(op_type, since, handler, OP) \
  { "", op_type, since, handler, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    WITH("Constant", 1, handle_constant, IDENTITY),
    SAME("ConstantOfShape", 9, CONSTANT_OF_SHAPE),
    SAME("EyeLike", 9, EYE_LIKE),
    SAME("Range", 11, RANGE),
    SAME("Identity", 1, IDENTITY),
    SAME("Shape", 1, SHAPE),
    SAME("Size", 1, SIZE),
    WITH("Reshape", 1, handle_reshape_old, RESHAPE),
    SAME("Reshape", 5, RESHAPE),
    WITH("Squeeze", 1, handle_squeeze, SQUEEZE),
    WITH("Unsqueeze", 1, handle_squeeze, UNSQUEEZE),
    SAME("Expand", 8, EXPAND),
    WITH("Flatten", 1, handle_flatten, RESHAPE),
};
const onnx_row_table onnx_rows_shape = ONNX_ROW_TABLE(kRows);
