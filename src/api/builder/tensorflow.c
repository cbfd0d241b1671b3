// Reading TensorFlow graphs through the public interface.
#include "carnot/tensorflow.h"

#include <string.h>

#include "api/builder/network.h"
#include "import/tensorflow/importer.h"
#include "import/tensorflow/saved_model.h"

// Every registered input is an input of the network.
static carnot_status* check_registered(const carnot_network* network,
                                       const carnot_tensorflow_options* options) {
  const carnot_block* main = network->graph->main;
  for (size_t i = 0; options && i < options->registered_count; i++) {
    bool found = false;
    for (size_t k = 0; k < main->param_count; k++)
      found |= strcmp(main->params[k]->name, options->registered[i].name) == 0;
    CARNOT_CHECK(
        found, NOT_FOUND,
        "input %s is registered, but no placeholder of this name is needed for the outputs",
        options->registered[i].name);
  }
  return NULL;
}

static carnot_status* add_graph(carnot_network* network, const char* path, const void* data,
                                size_t size, const carnot_tensorflow_options* options) {
  carnot_model_source* source = NULL;
  CARNOT_TRY(carnot_network_prepare_source(network));
  carnot_status* status = carnot_tf_import(path, data, size, options, network->graph, &source);
  carnot_network_keep_source(network, source);
  return status ? status : check_registered(network, options);
}

carnot_status* carnot_network_add_tensorflow(carnot_network* network, const char* path,
                                             const carnot_tensorflow_options* options) {
  CARNOT_CHECK(path, INVALID_ARGUMENT, "the path of the graph is NULL");
  return add_graph(network, path, NULL, 0, options);
}

carnot_status* carnot_network_add_tensorflow_memory(carnot_network* network, const void* data,
                                                    size_t size,
                                                    const carnot_tensorflow_options* options) {
  CARNOT_CHECK(data || !size, INVALID_ARGUMENT, "the bytes of the graph are NULL");
  return add_graph(network, NULL, data, size, options);
}

static carnot_status* parse(const char* path, const void* data, size_t size,
                            const carnot_tensorflow_options* options,
                            carnot_network** out_network) {
  CARNOT_TRY(carnot_network_create(out_network));
  carnot_status* status = add_graph(*out_network, path, data, size, options);
  if (!status) return NULL;
  carnot_network_destroy(*out_network);
  *out_network = NULL;
  return status;
}

carnot_status* carnot_tensorflow_parse_path(const char* path,
                                            const carnot_tensorflow_options* options,
                                            carnot_network** out_network) {
  *out_network = NULL;
  CARNOT_CHECK(path, INVALID_ARGUMENT, "the path of the graph is NULL");
  return parse(path, NULL, 0, options, out_network);
}

carnot_status* carnot_tensorflow_parse_memory(const void* data, size_t size,
                                              const carnot_tensorflow_options* options,
                                              carnot_network** out_network) {
  *out_network = NULL;
  CARNOT_CHECK(data || !size, INVALID_ARGUMENT, "the bytes of the graph are NULL");
  return parse(NULL, data, size, options, out_network);
}

bool carnot_tensorflow_is_graph(const void* data, size_t size) {
  return tf_model_is((carnot_strview){data, size});
}

bool carnot_tensorflow_supports(const char* op) {
  return op && tf_row_find(carnot_view(op)) != NULL;
}

const char* carnot_tensorflow_operator(size_t index) {
  const tf_row* row = tf_row_at(index);
  return row ? row->op : NULL;
}
