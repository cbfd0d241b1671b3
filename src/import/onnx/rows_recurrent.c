// Recurrent layers.
#include "import/onnx/importer.h"

static const onnx_row kRows[] = {
    {"", "LSTM", 1, onnx_one_to_one, CARNOT_OP_LSTM, 0, "output_sequence"},
    {"", "GRU", 1, onnx_one_to_one, CARNOT_OP_GRU, 0, "output_sequence"},
    {"", "RNN", 1, onnx_one_to_one, CARNOT_OP_RNN, 0, "output_sequence"},
};
const onnx_row_table onnx_rows_recurrent = ONNX_ROW_TABLE(kRows);
