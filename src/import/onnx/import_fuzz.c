// Fuzz target: any bytes as an ONNX model, in both forms of protobuf.
#include "import/onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  carnot_onnx_options options = {.text = (data[0] & 0x80) != 0};
  carnot_model_source* source;
  carnot_graph* graph;
  carnot_status* status = carnot_onnx_import_memory(data + 1, size - 1, &options, &source, &graph);
  carnot_status_free(status);
  carnot_graph_destroy(graph);
  carnot_model_source_destroy(source);
  return 0;
}
