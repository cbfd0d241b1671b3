// Attention.
#include "import/onnx/importer.h"

#define SAME(op_type, since, OP) {"", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL}

static const onnx_row kRows[] = {
    SAME("Attention", 23, ATTENTION),
    SAME("LinearAttention", 27, LINEAR_ATTENTION),
    SAME("RotaryEmbedding", 23, ROTARY_EMBEDDING),
};
const onnx_row_table onnx_rows_attention = ONNX_ROW_TABLE(kRows);
