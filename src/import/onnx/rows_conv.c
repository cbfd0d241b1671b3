// Convolutions.
#include "import/onnx/importer.h"

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("Conv", 1, CONV),
    SAME("ConvTranspose", 1, CONV_TRANSPOSE),
    SAME("ConvInteger", 10, CONV_INTEGER),
    SAME("QLinearConv", 10, QLINEAR_CONV),
    SAME("DeformConv", 19, DEFORM_CONV),
    SAME("CausalConvWithState", 27, CAUSAL_CONV_WITH_STATE),
};
const onnx_row_table onnx_rows_conv = ONNX_ROW_TABLE(kRows);
