// Matrix multiplication and linear algebra.
#include "import/onnx/importer.h"

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("MatMul", 1, MATMUL),
    // Before version 7 "broadcast" allowed what later is always allowed.
    {"", "Gemm", 1, onnx_one_to_one, CARNOT_OP_GEMM, 0, "broadcast"},
    SAME("MatMulInteger", 10, MATMUL_INTEGER),
    SAME("QLinearMatMul", 10, QLINEAR_MATMUL),
    SAME("Einsum", 12, EINSUM),
    SAME("Det", 11, DET),
};
const onnx_row_table onnx_rows_matmul = ONNX_ROW_TABLE(kRows);
