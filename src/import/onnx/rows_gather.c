// Gathering and scattering.
#include "import/onnx/importer.h"

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    SAME("Gather", 1, GATHER),
    SAME("GatherElements", 11, GATHER_ELEMENTS),
    SAME("GatherND", 11, GATHER_ND),
    SAME("Scatter", 9, SCATTER_ELEMENTS),
    SAME("ScatterElements", 11, SCATTER_ELEMENTS),
    SAME("ScatterND", 11, SCATTER_ND),
    SAME("TensorScatter", 24, TENSOR_SCATTER),
    SAME("OneHot", 9, ONE_HOT),
    SAME("Compress", 9, COMPRESS),
    SAME("NonZero", 9, NON_ZERO),
};
const onnx_row_table onnx_rows_gather = ONNX_ROW_TABLE(kRows);
