// Fuzz target: any bytes as a Caffe network and its weights. The first two bytes say how many of
// the others are text; without any behind it the weights are random.
#include "import/caffe/caffe.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t given = (size_t)data[0] | (size_t)data[1] << 8,
               count = given < size - 2 ? given : size - 2;
  const carnot_caffe_file deploy = {.data = data + 2, .size = count},
                          model = {.data = data + 2 + count, .size = size - 2 - count};
  carnot_graph* graph;
  carnot_model_source* source = NULL;
  carnot_status* status = carnot_graph_create(&graph);
  if (!status) {
    import_name_map blobs = {.arena = &graph->arena};
    status = carnot_caffe_import(&deploy, model.size ? &model : NULL, NULL, graph, &blobs, &source);
  }
  carnot_status_free(status);
  carnot_graph_destroy(graph);
  carnot_model_source_destroy(source);
  return 0;
}
