// Layers that a plugin computes, which the caller's factory makes by their names.
#include <string.h>

#include "import/caffe/net.h"
#include "plugin/front.h"

// The blobs of the layer as the factory gets them; NULL after an error.
static carnot_caffe_weights* weights_of(caffe_import* n, size_t count) {
  carnot_model_source* source = n->importer->source;
  carnot_caffe_weights* weights = CARNOT_NEW_ARRAY(n->node.arena, carnot_caffe_weights, count + 1);
  if (!import_has_memory(&n->node)) return NULL;
  for (size_t i = 0; i < count; i++) {
    carnot_tensor tensor;
    carnot_status* status =
        caffe_blob_read(&n->blobs->items[i], &source->files, &source->arena, &tensor);
    if (status) {
      n->node.status = carnot_status_annotate(status, "blob %zu", i);
      return NULL;
    }
    weights[i] = (carnot_caffe_weights){{.rank = tensor.rank}, tensor.data};
    memcpy(weights[i].dims.d, tensor.dims, (size_t)tensor.rank * sizeof(int64_t));
  }
  return weights;
}

void caffe_add_plugin(caffe_import* n, const carnot_plugin* plugin, carnot_value* const* inputs,
                      int input_count) {
  if (plugin->output_count != n->output_count)
    CAFFE_FAIL(n, INVALID_MODEL, "%d tops; the layer's plugin %s has %d outputs", n->output_count,
               plugin->name, plugin->output_count);
  else
    n->node.status = carnot_plugin_add_made(n->node.block, plugin, n->node.name, inputs,
                                            input_count, n->outputs);
}

static void import_plugin(caffe_import* n) {
  const carnot_caffe_plugins* plugins = n->importer->options.plugins;
  const size_t count = n->blobs ? n->blobs->count : 0;
  const carnot_caffe_weights* weights = weights_of(n, count);
  if (!weights) return;
  carnot_plugin_error error = {{0}};
  const carnot_plugin* made = plugins->create(plugins->user, n->node.name, weights, count, &error);
  if (made)
    caffe_add_plugin(n, made, n->inputs, n->input_count);
  else
    CAFFE_FAIL(n, INVALID_ARGUMENT, "the factory made no plugin%s%s", error.message[0] ? ": " : "",
               error.message);
}

const caffe_row* caffe_plugin_row(const caffe_importer* importer, const caffe_layer* layer) {
  static const caffe_row kRow = {"plugin", import_plugin, NULL, 0, -1, 0, NULL};
  const carnot_caffe_plugins* plugins = importer->options.plugins;
  if (!plugins) return NULL;
  const char* name =
      carnot_arena_text(&importer->state.graph->arena, layer->name.data, layer->name.size);
  return plugins->computes(plugins->user, name) ? &kRow : NULL;
}
