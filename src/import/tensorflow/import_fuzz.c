// Fuzz target: any bytes as a TensorFlow model, in both forms of protobuf.
#include "import/tensorflow/tensorflow.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carnot_model_source* source = NULL;
  carnot_graph* graph;
  carnot_status* status = carnot_graph_create(&graph);
  if (!status) status = carnot_tf_import(NULL, data, size, NULL, graph, &source);
  carnot_status_free(status);
  carnot_graph_destroy(graph);
  carnot_model_source_destroy(source);
  return 0;
}
