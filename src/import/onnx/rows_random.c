// Operators that draw random numbers.
#include "import/onnx/importer.h"

// The dimensions of the input are the output's; they must be known, as the operator has them as an
// attribute.
static void import_random_like(onnx_import* n) {
  carnot_value* like = onnx_need(n, 0);
  int rank = onnx_rank(n, like);
  int64_t dims[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) {
    dims[i] = onnx_dim(like, i);
    if (dims[i] < 0)
      ONNX_FAIL(n, UNSUPPORTED, "dimension %d of \"%s\" must be known", i, like->name);
  }
  if (n->status) return;
  carnot_attrs attrs = onnx_attrs_for(n, n->row->op);
  carnot_attrs_set_int(&attrs, n->arena, "dtype", onnx_attr_dtype(n, "dtype", like->type.dtype));
  carnot_attrs_set_ints(&attrs, n->arena, "shape", dims, (size_t)rank);
  n->outputs[0] = onnx_op(n, n->row->op, &attrs, 0);
}

// Before version 12 the ratio is an attribute and a file that runs is for inference.
static void import_dropout_old(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  carnot_value* inputs[2] = {
      x, onnx_number_of(n, CARNOT_DTYPE_F32, onnx_attr_float(n, "ratio", 0.5f))};
  if (n->output_count < 2)
    n->outputs[0] = x;
  else
    onnx_emit_wanted(n, CARNOT_OP_DROPOUT, NULL, inputs, 2);
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("RandomUniform", 1, RANDOM_UNIFORM),
    SAME("RandomNormal", 1, RANDOM_NORMAL),
    {"", "RandomUniformLike", 1, import_random_like, CARNOT_OP_RANDOM_UNIFORM, 0, NULL},
    {"", "RandomNormalLike", 1, import_random_like, CARNOT_OP_RANDOM_NORMAL, 0, NULL},
    SAME("Multinomial", 7, MULTINOMIAL),
    SAME("Bernoulli", 15, BERNOULLI),
    {"", "Dropout", 1, import_dropout_old, CARNOT_OP_DROPOUT, 0, NULL},
    SAME("Dropout", 12, DROPOUT),
};
const onnx_row_table onnx_rows_random = ONNX_ROW_TABLE(kRows);
