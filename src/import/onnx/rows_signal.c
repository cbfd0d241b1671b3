// Signal processing.
#include "import/onnx/importer.h"

// DFT-17 has its axis as an attribute.
static void handle_dft_old(onnx_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "inverse", onnx_attr_int(n, "inverse", 0));
  carnot_attrs_set_int(&attrs, n->node.arena, "onesided", onnx_attr_int(n, "onesided", 0));
  n->outputs[0] = import_op(&n->node, CARNOT_OP_DFT, &attrs, 3, onnx_need(n, 0), onnx_in(n, 1),
                            import_int(&n->node, onnx_attr_int(n, "axis", 1)));
}

static void handle_window(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, CARNOT_OP_WINDOW);
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", n->row->text);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_WINDOW, &attrs, 1, onnx_need(n, 0));
}

#define SAME(op_type, since, OP) \
  { "", op_type, since, onnx_one_to_one, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    {"", "DFT", 17, handle_dft_old, CARNOT_OP_DFT, 0, NULL},
    SAME("DFT", 20, DFT),
    SAME("STFT", 17, STFT),
    SAME("MelWeightMatrix", 17, MEL_WEIGHT_MATRIX),
    {"", "HannWindow", 17, handle_window, CARNOT_OP_WINDOW, 0, "hann"},
    {"", "HammingWindow", 17, handle_window, CARNOT_OP_WINDOW, 0, "hamming"},
    {"", "BlackmanWindow", 17, handle_window, CARNOT_OP_WINDOW, 0, "blackman"},
};
const onnx_row_table onnx_rows_signal = ONNX_ROW_TABLE(kRows);
