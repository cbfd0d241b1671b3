// Reading Caffe networks and blobs through the public interface.
#include "carnot/caffe.h"

#include <stdlib.h>

#include "api/builder/network.h"
#include "import/caffe/importer.h"
#include "import/common/recognise.h"

static carnot_status* add_network(carnot_network* network, const carnot_caffe_file* deploy,
                                  const carnot_caffe_file* model,
                                  const carnot_caffe_options* options) {
  carnot_model_source* source = NULL;
  CARNOT_TRY(carnot_network_prepare_source(network));
  network->blobs = (import_name_map){.arena = &network->graph->arena};
  carnot_status* status =
      carnot_caffe_import(deploy, model, options, network->graph, &network->blobs, &source);
  carnot_network_keep_source(network, source);
  return status;
}

carnot_status* carnot_network_add_caffe_files(carnot_network* network, const char* deploy_path,
                                              const char* model_path,
                                              const carnot_caffe_options* options) {
  CARNOT_CHECK(deploy_path, INVALID_ARGUMENT, "the path of the network is NULL");
  const carnot_caffe_file model = {.path = model_path};
  return add_network(network, &(carnot_caffe_file){.path = deploy_path}, model_path ? &model : NULL,
                     options);
}

carnot_status* carnot_network_add_caffe_memory(carnot_network* network, const void* deploy,
                                               size_t deploy_size, const void* model,
                                               size_t model_size,
                                               const carnot_caffe_options* options) {
  CARNOT_CHECK(deploy || !deploy_size, INVALID_ARGUMENT, "the text of the network is NULL");
  const carnot_caffe_file weights = {.data = model, .size = model_size};
  return add_network(network, &(carnot_caffe_file){.data = deploy, .size = deploy_size},
                     model ? &weights : NULL, options);
}

// |status| with the network that it is about, which goes where it failed.
static carnot_status* finish(carnot_status* status, carnot_network** network) {
  if (!status) return NULL;
  carnot_network_destroy(*network);
  *network = NULL;
  return status;
}

carnot_status* carnot_caffe_parse_files(const char* deploy_path, const char* model_path,
                                        const carnot_caffe_options* options,
                                        carnot_network** out_network) {
  CARNOT_TRY(carnot_network_create(out_network));
  return finish(carnot_network_add_caffe_files(*out_network, deploy_path, model_path, options),
                out_network);
}

carnot_status* carnot_caffe_parse_memory(const void* deploy, size_t deploy_size, const void* model,
                                         size_t model_size, const carnot_caffe_options* options,
                                         carnot_network** out_network) {
  CARNOT_TRY(carnot_network_create(out_network));
  return finish(carnot_network_add_caffe_memory(*out_network, deploy, deploy_size, model,
                                                model_size, options),
                out_network);
}

carnot_value* carnot_caffe_find_tensor(const carnot_network* network, const char* name) {
  const import_name_slot* slot =
      name ? import_name_map_find(&network->blobs, carnot_view(name)) : NULL;
  return slot ? slot->item : NULL;
}

bool carnot_caffe_is_network(const void* data, size_t size) {
  return data && import_is_caffe(data, size);
}

bool carnot_caffe_supports(const char* type) {
  return type && caffe_row_find(carnot_view(type)) != NULL;
}

const char* carnot_caffe_layer_type(size_t index, const char** out_note) {
  const caffe_row* row = caffe_row_at(index);
  *out_note = row ? row->note : NULL;
  return row ? row->type : NULL;
}

carnot_status* carnot_caffe_read_blob(const void* message, size_t size, carnot_data** out_data) {
  *out_data = NULL;
  CARNOT_CHECK(message || !size, INVALID_ARGUMENT, "the blob's message is NULL");
  carnot_arena arena = {0};
  carnot_tensor tensor;
  carnot_status* status = carnot_caffe_read_blob_message(message, size, &arena, &tensor);
  if (!status) status = carnot_data_copy_tensor(&tensor, out_data);
  carnot_arena_deinit(&arena);
  return status;
}
