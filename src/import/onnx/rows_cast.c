// Conversions of type and quantization.
#include "import/onnx/importer.h"

// Cast-1 names the type in words.
static void handle_cast_named(onnx_import* n) {
  carnot_strview to = onnx_attr_text(n, "to", "");
  static const char* const kNames[] = {"FLOAT",  "UINT8",  "INT8",   "UINT16", "INT16",
                                       "INT32",  "INT64",  "STRING", "BOOL",   "FLOAT16",
                                       "DOUBLE", "UINT32", "UINT64"};
  carnot_dtype dtype = CARNOT_DTYPE_INVALID;
  for (int i = 0; i < (int)(sizeof(kNames) / sizeof(kNames[0])); i++) {
    if (carnot_view_is(to, kNames[i])) dtype = carnot_onnx_dtype(i + 1);
  }
  if (!dtype)
    ONNX_FAIL(n, INVALID_MODEL, "type \"" CARNOT_VIEW_FMT "\" does not exist", CARNOT_VIEW_ARG(to));
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "to", dtype);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_CAST, &attrs, 1, onnx_need(n, 0));
}

static void handle_cast_like(onnx_import* n) {
  carnot_value* like = onnx_need(n, 1);
  if (!n->node.status && !carnot_dtype_valid(like->type.dtype)) {
    ONNX_FAIL(n, UNSUPPORTED, "the type of \"%s\" must be known", like->name);
  }
  if (n->node.status) return;
  carnot_attrs attrs = onnx_attrs_for(n, CARNOT_OP_CAST);
  carnot_attrs_set_int(&attrs, n->node.arena, "to", like->type.dtype);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_CAST, &attrs, 1, onnx_need(n, 0));
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    {"", "Cast", 1, handle_cast_named, CARNOT_OP_CAST, 0, NULL},
    SAME("Cast", 6, CAST),
    {"", "CastLike", 15, handle_cast_like, CARNOT_OP_CAST, 0, NULL},
    SAME("BitCast", 26, BIT_CAST),
    SAME("QuantizeLinear", 10, QUANTIZE_LINEAR),
    SAME("DequantizeLinear", 10, DEQUANTIZE_LINEAR),
    SAME("DynamicQuantizeLinear", 11, DYNAMIC_QUANTIZE_LINEAR),
};
const onnx_row_table onnx_rows_cast = ONNX_ROW_TABLE(kRows);
