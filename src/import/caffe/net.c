// A Caffe network from its files.
#include <string.h>

#include "import/caffe/net.h"

static carnot_status* read_network(caffe_importer* importer, carnot_strview text) {
  void* memory;
  CARNOT_TRY(carnot_arena_try(&importer->state.arena, 1, sizeof(caffe_net), "a network", &memory));
  caffe_net* net = memory;
  CARNOT_TRY(carnot_pb_read_text(&carnot_caffe_net_text, text.data, text.size,
                                 &importer->source->arena, net));
  CARNOT_TRY(caffe_upgrade(net));
  importer->net = net;
  CARNOT_CHECK(importer->net->layer.count, INVALID_MODEL, "the file holds no layers");
  carnot_graph* graph = importer->state.graph;
  if (!graph->name[0])
    graph->name =
        carnot_arena_text(&graph->arena, importer->net->name.data, importer->net->name.size);
  CARNOT_TRY(caffe_read_input_fields(importer));
  CARNOT_TRY(caffe_read_layers(importer));
  return caffe_mark_outputs(importer);
}

static carnot_status* read_weights(caffe_importer* importer, carnot_strview bytes) {
  void* memory;
  static const char kHdf5[] = "\x89HDF\r\n\x1a\n";
  CARNOT_CHECK(bytes.size < 8 || memcmp(bytes.data, kHdf5, 8) != 0, UNSUPPORTED,
               "weights in HDF5 (.caffemodel.h5): write a .caffemodel with Caffe");
  CARNOT_TRY(carnot_arena_try(&importer->state.arena, 1, sizeof(caffe_net), "a network", &memory));
  caffe_net* net = memory;
  CARNOT_TRY(carnot_pb_read_wire(&carnot_caffe_net_wire, bytes.data, bytes.size,
                                 &importer->source->arena, net));
  CARNOT_TRY(caffe_upgrade(net));
  CARNOT_CHECK(net->layer.count, INVALID_MODEL, "the file holds no layers (is it a caffemodel?)");
  importer->weights = net;
  for (size_t i = 0; i < net->layer.count; i++) {
    caffe_layer* layer = &net->layer.items[i];
    // Of layers of one name the first with weights counts.
    if (layer->blobs.count && !import_name_map_find(&importer->weight_layers, layer->name))
      import_name_map_set(&importer->weight_layers, layer->name, layer);
  }
  return carnot_arena_status(&importer->state.arena);
}

static carnot_status* open_file(const carnot_caffe_file* file, import_files* files,
                                carnot_strview* out_bytes) {
  *out_bytes = (carnot_strview){file->data, file->size};
  return file->path ? import_files_open_model(files, file->path, out_bytes) : NULL;
}

static carnot_status* read_files(caffe_importer* importer, import_files* deploy_files,
                                 const carnot_caffe_file* deploy, const carnot_caffe_file* model) {
  carnot_strview text, bytes;
  CARNOT_TRY(open_file(deploy, deploy_files, &text));
  if (model) {
    CARNOT_TRY(open_file(model, &importer->source->files, &bytes));
    CARNOT_TRY_AT(read_weights(importer, bytes), "%s", model->path ? model->path : "the weights");
  }
  return carnot_status_annotate(read_network(importer, text), "%s",
                                deploy->path ? deploy->path : "the network");
}

carnot_status* carnot_caffe_import(const carnot_caffe_file* deploy, const carnot_caffe_file* model,
                                   const carnot_caffe_options* options, carnot_graph* graph,
                                   import_name_map* blobs, carnot_model_source** out_source) {
  caffe_importer importer = {.blobs = blobs};
  import_files deploy_files = {0};
  *out_source = NULL;
  CARNOT_TRY(carnot_model_source_create(&importer.source));
  carnot_status* status = import_state_init(&importer.state, graph);
  if (options) importer.options = *options;
  importer.weight_layers.arena = importer.dropped.arena = importer.makers.arena =
      &importer.state.arena;
  if (!status) status = read_files(&importer, &deploy_files, deploy, model);
  status = carnot_graph_end(graph, carnot_arena_end(&importer.state.arena, status));
  import_state_deinit(&importer.state);
  import_files_deinit(&deploy_files);
  carnot_source_memory_drop_maps(&importer.source->files.memory);
  *out_source = importer.source;
  return status;
}

carnot_status* carnot_caffe_read_blob_message(const void* data, size_t size, carnot_arena* arena,
                                              carnot_tensor* out_tensor) {
  caffe_blob blob;
  CARNOT_TRY(carnot_pb_read_wire(&carnot_caffe_blob_wire, data, size, arena, &blob));
  return caffe_blob_read(&blob, NULL, arena, out_tensor);
}
