// Losses.
#include "import/onnx/importer.h"

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("NegativeLogLikelihoodLoss", 12, NLL_LOSS),
    SAME("SoftmaxCrossEntropyLoss", 12, SOFTMAX_CROSS_ENTROPY),
};
const onnx_row_table onnx_rows_loss = ONNX_ROW_TABLE(kRows);
