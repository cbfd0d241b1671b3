// Layers in their order: bottoms, weights, the handler, tops.
#include <string.h>

#include "import/caffe/net.h"
#include "plugin/registry.h"

static carnot_status* read_bottoms(caffe_importer* importer, caffe_import* n) {
  const caffe_text_list* bottoms = &n->layer->bottom;
  n->input_count = (int)bottoms->count;
  n->inputs = CARNOT_NEW_ARRAY(&importer->state.arena, carnot_value*, bottoms->count + 1);
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  for (size_t i = 0; i < bottoms->count; i++)
    CARNOT_TRY(caffe_find_blob(importer, bottoms->items[i], &n->inputs[i]));
  const int least = n->row->least_bottoms, most = n->row->most_bottoms;
  CARNOT_CHECK(n->input_count >= least && (most < 0 || n->input_count <= most), INVALID_MODEL,
               "%d bottoms; a layer of type %s has %d to %d", n->input_count, n->row->type, least,
               most < 0 ? 1000 : most);
  return NULL;
}

static void find_weights(caffe_importer* importer, caffe_import* n) {
  static const caffe_blob_list kNone = {NULL, 0};
  if (n->layer->blobs.count) {  // in the text itself
    n->blobs = &n->layer->blobs;
    return;
  }
  if (!importer->weights) return;
  const import_name_slot* slot = import_name_map_find(&importer->weight_layers, n->layer->name);
  n->blobs = slot ? &((const caffe_layer*)slot->item)->blobs : &kNone;
}

// Gives the tops their values. A value of the layer's own that nobody writes over has the blob's
// name; what a layer passes on becomes a node of its own.
static void bind_tops(caffe_importer* importer, caffe_import* n, uint32_t first_node) {
  for (int i = 0; i < n->output_count && !n->node.status; i++) {
    const carnot_strview top = n->layer->top.items[i];
    carnot_value* value = n->outputs[i];
    if (!value->producer || value->producer->id < first_node)
      value = import_op(&n->node, CARNOT_OP_IDENTITY, NULL, 1, value);
    if (!value) return;
    if (caffe_is_last_writer(importer->net, n->layer, top)) {
      const char* name = import_unique_name(&importer->state, "", top);
      value->name = carnot_arena_text(n->node.arena, name, strlen(name));
    }
    caffe_set_blob(importer, top, value);
  }
}

static carnot_status* import_layer(caffe_importer* importer, const caffe_layer* layer,
                                   const caffe_row* row) {
  carnot_graph* graph = importer->state.graph;
  const char* name = carnot_arena_text(&graph->arena, layer->name.data, layer->name.size);
  caffe_import n = {.node = {.state = &importer->state,
                             .block = graph->main,
                             .arena = &graph->arena,
                             .name = name},
                    .importer = importer,
                    .layer = layer,
                    .row = row};
  if (row->params) n.fields = caffe_fields_of(layer, row->params);
  find_weights(importer, &n);
  CARNOT_TRY(read_bottoms(importer, &n));
  n.output_count = (int)layer->top.count;
  n.outputs = CARNOT_NEW_ARRAY(&importer->state.arena, carnot_value*, layer->top.count + 1);
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  const uint32_t first_node = graph->node_count;
  row->handler(&n);
  for (int i = 0; i < n.output_count && !n.node.status; i++)
    if (!n.outputs[i])
      CAFFE_FAIL(&n, INVALID_MODEL, "%d tops; a layer of type %s has %d", n.output_count, row->type,
                 i);
  bind_tops(importer, &n, first_node);
  return n.node.status;
}

// Why a layer is not imported, with the nearest plugins.
static const char* reason_of(caffe_importer* importer, carnot_strview type) {
  carnot_arena* arena = &importer->state.arena;
  if (carnot_view_is(type, "Python")) return "its code is not in the model";
  char nearest[1000];
  carnot_registry_nearest(carnot_arena_text(arena, type.data, type.size), nearest, sizeof(nearest));
  return carnot_arena_print(arena,
                            "no such layer is known, and no plugin of that name is registered%s%s",
                            nearest[0] ? "; the nearest are: " : "", nearest);
}

static carnot_status* note_unsupported(caffe_importer* importer, const caffe_layer* layer) {
  const char* line = carnot_arena_print(
      &importer->state.arena, "layer \"" CARNOT_VIEW_FMT "\" of type %s" CARNOT_VIEW_FMT ": %s",
      CARNOT_VIEW_ARG(layer->name), layer->type.size ? "" : "(none)", CARNOT_VIEW_ARG(layer->type),
      reason_of(importer, layer->type));
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  import_note_unsupported(&importer->state, line);
  for (size_t i = 0; i < layer->top.count; i++)
    caffe_set_blob(importer, layer->top.items[i], &import_poison);
  return NULL;
}

// A layer behind one that is not supported is passed over, and so are those behind it.
static bool is_poisoned(caffe_importer* importer, const caffe_layer* layer) {
  bool poisoned = false;
  for (size_t i = 0; i < layer->bottom.count; i++) {
    const import_name_slot* slot = import_name_map_find(importer->blobs, layer->bottom.items[i]);
    poisoned |= slot && slot->item == &import_poison;
  }
  for (size_t i = 0; poisoned && i < layer->top.count; i++)
    caffe_set_blob(importer, layer->top.items[i], &import_poison);
  return poisoned;
}

static carnot_status* read_layer(caffe_importer* importer, const caffe_layer* layer) {
  bool included;
  CARNOT_TRY(caffe_is_included(layer, importer->net->state, &included));
  if (!included) return NULL;
  const caffe_row* row = caffe_plugin_row(importer, layer);
  if (!row && carnot_view_is(layer->type, "Input")) {
    CARNOT_TRY(caffe_claim_tops(importer, layer));
    return caffe_read_input_layer(importer, layer);
  }
  if (!row && caffe_is_for_training(layer->type)) {
    // SoftmaxWithLoss without labels is what a network gives in use.
    const bool softmax = carnot_view_is(layer->type, "SoftmaxWithLoss") && layer->bottom.count == 1;
    for (size_t i = 0; !softmax && i < layer->top.count; i++)
      import_name_map_set(&importer->dropped, layer->top.items[i], (void*)(uintptr_t)layer);
    if (!softmax) return NULL;
  }
  CARNOT_TRY(caffe_claim_tops(importer, layer));
  if (is_poisoned(importer, layer)) return NULL;
  if (!row) row = caffe_row_find(layer->type);
  if (!row) row = caffe_registered_row(importer, layer);
  return row ? import_layer(importer, layer, row) : note_unsupported(importer, layer);
}

carnot_status* caffe_read_layers(caffe_importer* importer) {
  const caffe_layer_list* layers = &importer->net->layer;
  for (size_t i = 0; i < layers->count; i++) {
    const caffe_layer* layer = &layers->items[i];
    CARNOT_TRY(carnot_arena_status(&importer->state.arena));
    CARNOT_TRY(carnot_graph_status(importer->state.graph));
    CARNOT_TRY_AT(read_layer(importer, layer),
                  "layer \"" CARNOT_VIEW_FMT "\" (" CARNOT_VIEW_FMT ")",
                  CARNOT_VIEW_ARG(layer->name), CARNOT_VIEW_ARG(layer->type));
  }
  return import_state_check(&importer->state);
}
