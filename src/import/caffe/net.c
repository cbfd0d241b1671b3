// A Caffe network: files, inputs, layers of phase TEST, blobs by name, outputs.
#include <stdio.h>
#include <string.h>

#include "import/caffe/importer.h"

// ---- which layers are there ----

static bool has_stage(const caffe_state* state, carnot_strview stage) {
  for (size_t i = 0; state && i < state->stage.count; i++)
    if (carnot_view_equal(state->stage.items[i], stage)) return true;
  return false;
}

// Phase TEST, with level and stages as the network's state says. Source: Net::StateMeetsRule.
static bool meets(const caffe_rule* rule, const caffe_state* state) {
  const int64_t level = state ? state->level : 0;
  if ((rule->present & CAFFE_RULE_HAS_PHASE) && rule->phase != 1) return false;
  if ((rule->present & CAFFE_RULE_HAS_MIN_LEVEL) && level < rule->min_level) return false;
  if ((rule->present & CAFFE_RULE_HAS_MAX_LEVEL) && level > rule->max_level) return false;
  for (size_t i = 0; i < rule->stage.count; i++)
    if (!has_stage(state, rule->stage.items[i])) return false;
  for (size_t i = 0; i < rule->not_stage.count; i++)
    if (has_stage(state, rule->not_stage.items[i])) return false;
  return true;
}

static carnot_status* is_included(const caffe_layer* layer, const caffe_state* state, bool* out) {
  CARNOT_CHECK(!layer->include.count || !layer->exclude.count, INVALID_MODEL,
               "the layer has rules to include and to exclude; one kind is allowed");
  *out = layer->include.count == 0;
  for (size_t i = 0; i < layer->include.count; i++) *out |= meets(&layer->include.items[i], state);
  for (size_t i = 0; i < layer->exclude.count; i++) *out &= !meets(&layer->exclude.items[i], state);
  return NULL;
}

// Layers for training and testing that no deployed network needs.
static bool is_for_training(carnot_strview type) {
  static const char* const kTypes[] = {
      "Data",    "ImageData", "HDF5Data",      "HDF5Output",   "MemoryData",       "WindowData",
      "Silence", "Accuracy",  "AnnotatedData", "MultiBoxLoss", "DetectionEvaluate"};
  for (size_t i = 0; i < sizeof(kTypes) / sizeof(kTypes[0]); i++)
    if (carnot_view_is(type, kTypes[i])) return true;
  static const char kLoss[] = "Loss";
  return type.size > 4 && memcmp(type.data + type.size - 4, kLoss, 4) == 0;
}

// ---- blobs by name ----

static void set_blob(caffe_importer* importer, carnot_strview name, carnot_value* value) {
  carnot_arena* arena = &importer->state.graph->arena;
  const char* copy = carnot_arena_text(arena, name.data, name.size);
  import_name_map_set(importer->blobs, carnot_view(copy), value);
}

static carnot_status* find_blob(caffe_importer* importer, carnot_strview name, carnot_value** out) {
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

static carnot_status* claim_tops(caffe_importer* importer, const caffe_layer* layer) {
  for (size_t i = 0; i < layer->top.count; i++)
    CARNOT_TRY(claim_top(importer, layer, layer->top.items[i]));
  return NULL;
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
  set_blob(importer, name, carnot_block_add_param(importer->state.graph->main, unique, &type));
  return NULL;
}

// The fields input, and input_shape or input_dim (four numbers each).
static carnot_status* read_input_fields(caffe_importer* importer) {
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

// Layer Input: a shape for each top, or one for all.
static carnot_status* read_input_layer(caffe_importer* importer, const caffe_layer* layer) {
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

// ---- layers ----

static carnot_status* read_bottoms(caffe_importer* importer, caffe_import* n) {
  const caffe_text_list* bottoms = &n->layer->bottom;
  n->input_count = (int)bottoms->count;
  n->inputs = CARNOT_NEW_ARRAY(&importer->state.arena, carnot_value*, bottoms->count + 1);
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  for (size_t i = 0; i < bottoms->count; i++)
    CARNOT_TRY(find_blob(importer, bottoms->items[i], &n->inputs[i]));
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

// True where no later layer writes the blob again.
static bool is_last_writer(const caffe_net* net, const caffe_layer* layer, carnot_strview top) {
  for (const caffe_layer* l = layer + 1; l < net->layer.items + net->layer.count; l++) {
    bool included = false;
    carnot_status* status = is_included(l, net->state, &included);
    carnot_status_free(status);
    for (size_t i = 0; included && !is_for_training(l->type) && i < l->top.count; i++)
      if (carnot_view_equal(l->top.items[i], top)) return false;
  }
  return true;
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
    if (is_last_writer(importer->net, n->layer, top)) {
      const char* name = import_unique_name(&importer->state, "", top);
      value->name = carnot_arena_text(n->node.arena, name, strlen(name));
    }
    set_blob(importer, top, value);
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

static carnot_status* note_unsupported(caffe_importer* importer, const caffe_layer* layer) {
  char line[512];
  const bool python = carnot_view_is(layer->type, "Python");
  snprintf(line, sizeof(line), "layer \"" CARNOT_VIEW_FMT "\" of type %s" CARNOT_VIEW_FMT "%s",
           CARNOT_VIEW_ARG(layer->name), layer->type.size ? "" : "(none)",
           CARNOT_VIEW_ARG(layer->type),
           python ? ": its code is not in the model" : ": no such layer is known");
  import_note_unsupported(&importer->state, line);
  for (size_t i = 0; i < layer->top.count; i++)
    set_blob(importer, layer->top.items[i], &import_poison);
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
    set_blob(importer, layer->top.items[i], &import_poison);
  return poisoned;
}

static carnot_status* read_layer(caffe_importer* importer, const caffe_layer* layer) {
  bool included;
  CARNOT_TRY(is_included(layer, importer->net->state, &included));
  if (!included) return NULL;
  if (carnot_view_is(layer->type, "Input")) {
    CARNOT_TRY(claim_tops(importer, layer));
    return read_input_layer(importer, layer);
  }
  if (is_for_training(layer->type)) {
    // SoftmaxWithLoss without labels is what a network gives in use.
    const bool softmax = carnot_view_is(layer->type, "SoftmaxWithLoss") && layer->bottom.count == 1;
    for (size_t i = 0; !softmax && i < layer->top.count; i++)
      import_name_map_set(&importer->dropped, layer->top.items[i], (void*)(uintptr_t)layer);
    if (!softmax) return NULL;
  }
  CARNOT_TRY(claim_tops(importer, layer));
  if (is_poisoned(importer, layer)) return NULL;
  const caffe_row* row = caffe_row_find(layer->type);
  return row ? import_layer(importer, layer, row) : note_unsupported(importer, layer);
}

static carnot_status* read_layers(caffe_importer* importer) {
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
          !is_last_writer(importer->net, &layers->items[i], top))
        continue;
      carnot_block_add_output(importer->state.graph->main, value);
      count++;
    }
  }
  CARNOT_CHECK(count, INVALID_MODEL, "the network has no layer whose top would be an output");
  return NULL;
}

static carnot_status* mark_outputs(caffe_importer* importer) {
  const carnot_caffe_options* options = &importer->options;
  if (options->marks_no_outputs) return NULL;
  if (!options->output_count) return mark_unread(importer);
  for (size_t i = 0; i < options->output_count; i++)
    CARNOT_TRY(mark(importer, carnot_view(options->outputs[i])));
  return NULL;
}

// ---- files ----

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
  CARNOT_TRY(read_input_fields(importer));
  CARNOT_TRY(read_layers(importer));
  return mark_outputs(importer);
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
