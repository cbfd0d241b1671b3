// Detection.
#include "import/onnx/importer.h"

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("NonMaxSuppression", 10, NON_MAX_SUPPRESSION),
};
const onnx_row_table onnx_rows_detection = ONNX_ROW_TABLE(kRows);
