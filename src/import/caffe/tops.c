// The blobs of a network by name: inputs, tops of layers, outputs.
#include "import/caffe/net.h"

void caffe_set_blob(caffe_importer* importer, carnot_strview name, carnot_value* value) {
  carnot_arena* arena = &importer->state.graph->arena;
  const char* copy = carnot_arena_text(arena, name.data, name.size);
  import_name_map_set(importer->blobs, carnot_view(copy), value);
}

carnot_status* caffe_find_blob(caffe_importer* importer, carnot_strview name, carnot_value** out) {
  const import_name_slot* slot = import_name_map_find(importer->blobs, name);
  const import_name_slot* gone = import_name_map_find(&importer->dropped, name);
  *out = slot ? slot->item : NULL;
  if (*out) return NULL;
  const caffe_layer* layer = gone ? gone->item : NULL;
  CARNOT_CHECK(!layer, UNSUPPORTED,
               "bottom \"" CARNOT_VIEW_FMT "\" is of layer " CARNOT_VIEW_FMT
               ", which is of type " CARNOT_VIEW_FMT
               ": give a network for deployment, with an Input layer there",
               CARNOT_VIEW_ARG(name), CARNOT_VIEW_ARG(layer->name), CARNOT_VIEW_ARG(layer->type));
  return CARNOT_ERROR(INVALID_MODEL, "bottom \"" CARNOT_VIEW_FMT "\" is no top of a layer before",
                      CARNOT_VIEW_ARG(name));
}

// What makes the blobs that the fields input name.
static const caffe_layer kInputField = {.name = {"input", 5}};

// A blob has one layer that makes it; a layer that reads a blob may write it in place.
static carnot_status* claim_top(caffe_importer* importer, const caffe_layer* layer,
                                carnot_strview top) {
  const import_name_slot* slot = import_name_map_find(&importer->makers, top);
  const caffe_layer* maker = slot ? slot->item : NULL;
  for (size_t i = 0; slot && i < layer->bottom.count; i++)
    if (carnot_view_equal(layer->bottom.items[i], top)) return NULL;
  CARNOT_CHECK(!slot, INVALID_MODEL,
               "top \"" CARNOT_VIEW_FMT "\" is made by %s \"" CARNOT_VIEW_FMT
               "\" too; one layer may make a blob",
               CARNOT_VIEW_ARG(top), maker == &kInputField ? "field" : "layer",
               CARNOT_VIEW_ARG(maker->name));
  import_name_map_set(&importer->makers, top, (void*)(uintptr_t)layer);
  return NULL;
}

carnot_status* caffe_claim_tops(caffe_importer* importer, const caffe_layer* layer) {
  for (size_t i = 0; i < layer->top.count; i++)
    CARNOT_TRY(claim_top(importer, layer, layer->top.items[i]));
  return NULL;
}

bool caffe_is_last_writer(const caffe_net* net, const caffe_layer* layer, carnot_strview top) {
  for (const caffe_layer* l = layer + 1; l < net->layer.items + net->layer.count; l++) {
    bool included = false;
    carnot_status* status = caffe_is_included(l, net->state, &included);
    carnot_status_free(status);
    for (size_t i = 0; included && !caffe_is_for_training(l->type) && i < l->top.count; i++)
      if (carnot_view_equal(l->top.items[i], top)) return false;
  }
  return true;
}

// ---- inputs ----

static carnot_status* add_input(caffe_importer* importer, carnot_strview name, const int64_t* dims,
                                size_t count) {
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_F32, .rank = (int)count};
  CARNOT_CHECK(count <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%zu dimensions where at most %d are supported", count, CARNOT_MAX_RANK);
  for (size_t i = 0; i < count; i++) {
    const int64_t dim = i == 0 && importer->options.batch > 0 ? importer->options.batch : dims[i];
    CARNOT_CHECK(dim > 0 && dim < CARNOT_DIM_UNBOUNDED, INVALID_MODEL,
                 "dimension %zu is %lld; 1 to %lld are required", i, (long long)dim,
                 (long long)CARNOT_DIM_UNBOUNDED - 1);
    type.dims[i] = carnot_sym_of(dim);
  }
  const char* unique = import_unique_name(&importer->state, "", name);
  caffe_set_blob(importer, name,
                 carnot_block_add_param(importer->state.graph->main, unique, &type));
  return NULL;
}

carnot_status* caffe_read_input_fields(caffe_importer* importer) {
  const caffe_net* net = importer->net;
  const bool old = net->input_dim.count > 0;
  CARNOT_CHECK(!old || !net->input_shape.count, INVALID_MODEL,
               "the network has input_dim and input_shape; one is allowed");
  const size_t count = old ? net->input_dim.count / 4 : net->input_shape.count;
  CARNOT_CHECK(net->input.count == count && (!old || net->input_dim.count % 4 == 0), INVALID_MODEL,
               "%zu input fields with %zu %s; %s required", net->input.count,
               old ? net->input_dim.count : count, old ? "input_dim" : "input_shape",
               old ? "four for each input are" : "one for each input is");
  for (size_t i = 0; i < count; i++) {
    const int64_t* dims = old ? net->input_dim.items + 4 * i : net->input_shape.items[i].dim.items;
    const size_t rank = old ? 4 : net->input_shape.items[i].dim.count;
    CARNOT_TRY(claim_top(importer, &kInputField, net->input.items[i]));
    CARNOT_TRY_AT(add_input(importer, net->input.items[i], dims, rank), "input " CARNOT_VIEW_FMT,
                  CARNOT_VIEW_ARG(net->input.items[i]));
  }
  return NULL;
}

carnot_status* caffe_read_input_layer(caffe_importer* importer, const caffe_layer* layer) {
  const caffe_shape_list shapes = caffe_shapes(caffe_fields_of(layer, "input_param"));
  CARNOT_CHECK(shapes.count == 1 || (shapes.count && shapes.count == layer->top.count),
               INVALID_MODEL, "%zu shapes for %zu tops; one, or one for each top, required",
               shapes.count, layer->top.count);
  for (size_t i = 0; i < layer->top.count; i++) {
    const caffe_int_list* dims = &shapes.items[shapes.count == 1 ? 0 : i].dim;
    CARNOT_TRY_AT(add_input(importer, layer->top.items[i], dims->items, dims->count),
                  "top " CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(layer->top.items[i]));
  }
  return NULL;
}

// ---- outputs ----

static carnot_status* mark(caffe_importer* importer, carnot_strview name) {
  const import_name_slot* slot = import_name_map_find(importer->blobs, name);
  CARNOT_CHECK(slot, NOT_FOUND, "output " CARNOT_VIEW_FMT " is no blob of the network",
               CARNOT_VIEW_ARG(name));
  carnot_block_add_output(importer->state.graph->main, slot->item);
  return NULL;
}

// The tops that no layer reads, in the order of the layers.
static carnot_status* mark_unread(caffe_importer* importer) {
  const caffe_layer_list* layers = &importer->net->layer;
  size_t count = 0;
  for (size_t i = 0; i < layers->count; i++) {
    for (size_t t = 0; t < layers->items[i].top.count; t++) {
      const carnot_strview top = layers->items[i].top.items[t];
      const import_name_slot* slot = import_name_map_find(importer->blobs, top);
      carnot_value* value = slot ? slot->item : NULL;
      if (!value || carnot_value_used(value) || !value->producer ||
          !caffe_is_last_writer(importer->net, &layers->items[i], top))
        continue;
      carnot_block_add_output(importer->state.graph->main, value);
      count++;
    }
  }
  CARNOT_CHECK(count, INVALID_MODEL, "the network has no layer whose top would be an output");
  return NULL;
}

carnot_status* caffe_mark_outputs(caffe_importer* importer) {
  const carnot_caffe_options* options = &importer->options;
  if (options->marks_no_outputs) return NULL;
  if (!options->output_count) return mark_unread(importer);
  for (size_t i = 0; i < options->output_count; i++)
    CARNOT_TRY(mark(importer, carnot_view(options->outputs[i])));
  return NULL;
}
