// Operators that draw random numbers.
#include "import/onnx/importer.h"

// Before version 12 the ratio is an attribute and a file that runs is for inference. Before version
// 10 the mask has the type of the data.
static void handle_dropout_old(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  carnot_value* inputs[2] = {
      x, import_number_of(&n->node, CARNOT_DTYPE_F32, onnx_attr_float(n, "ratio", 0.5f))};
  if (n->output_count < 2)
    n->outputs[0] = x;
  else
    onnx_emit_wanted(n, CARNOT_OP_DROPOUT, NULL, inputs, 2);
  if (n->version < 10 && n->output_count > 1 && n->outputs[1]) {
    n->outputs[1] = import_cast(&n->node, n->outputs[1], x->type.dtype);
  }
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("RandomUniform", 1, RANDOM_UNIFORM),
    SAME("RandomNormal", 1, RANDOM_NORMAL),
    SAME("RandomUniformLike", 1, RANDOM_UNIFORM),
    SAME("RandomNormalLike", 1, RANDOM_NORMAL),
    SAME("Multinomial", 7, MULTINOMIAL),
    SAME("Bernoulli", 15, BERNOULLI),
    {"", "Dropout", 1, handle_dropout_old, CARNOT_OP_DROPOUT, 0, NULL},
    SAME("Dropout", 12, DROPOUT),
};
const onnx_row_table onnx_rows_random = ONNX_ROW_TABLE(kRows);
