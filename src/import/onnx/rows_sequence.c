// Sequences and optionals.
#include "import/onnx/importer.h"

// What an Optional without input would hold.
static void handle_optional(onnx_import* n) {
  carnot_attrs attrs = {0};
  const onnx_attribute* type = onnx_attr(n, "type");
  if (type && type->tp) {
    carnot_type element;
    onnx_type_read(n, type->tp, &element);
    if (n->node.status) return;
    bool sequence = element.kind == CARNOT_VALUE_SEQUENCE;
    carnot_dtype dtype = sequence && element.element ? element.element->dtype : element.dtype;
    carnot_attrs_set_int(&attrs, n->node.arena, "sequence", sequence);
    if (dtype) carnot_attrs_set_int(&attrs, n->node.arena, "dtype", dtype);
  }
  n->outputs[0] = import_op(&n->node, CARNOT_OP_OPTIONAL, &attrs, 1, onnx_in(n, 0));
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("SequenceEmpty", 11, SEQUENCE_EMPTY),
    SAME("SequenceConstruct", 11, SEQUENCE_CONSTRUCT),
    SAME("SequenceAt", 11, SEQUENCE_AT),
    SAME("SequenceErase", 11, SEQUENCE_ERASE),
    SAME("SequenceInsert", 11, SEQUENCE_INSERT),
    SAME("SequenceLength", 11, SEQUENCE_LENGTH),
    SAME("SplitToSequence", 11, SPLIT_TO_SEQUENCE),
    SAME("ConcatFromSequence", 11, CONCAT_FROM_SEQUENCE),
    {"", "Optional", 15, handle_optional, CARNOT_OP_OPTIONAL, 0, NULL},
    SAME("OptionalGetElement", 15, OPTIONAL_GET_ELEMENT),
    SAME("OptionalHasElement", 15, OPTIONAL_HAS_ELEMENT),
};
const onnx_row_table onnx_rows_sequence = ONNX_ROW_TABLE(kRows);
