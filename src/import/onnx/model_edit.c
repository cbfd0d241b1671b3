// Changes to an ONNX model's file.
#include "import/onnx/model_edit.h"

#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "import/onnx/tensor_proto.h"

// ---- opening ----

static void enter(onnx_edit* e, carnot_strview name, void* item) {
  if (name.size) import_name_map_set(&e->names, name, item);
}

static void index_names(onnx_edit* e) {
  onnx_graph* g = e->model->graph;
  for (size_t i = 0; i < g->input.count; i++) enter(e, g->input.items[i].name, g);
  for (size_t i = 0; i < g->initializer.count; i++) enter(e, g->initializer.items[i].name, g);
  for (size_t i = 0; i < g->sparse_initializer.count; i++)
    if (g->sparse_initializer.items[i].values)
      enter(e, g->sparse_initializer.items[i].values->name, g);
  for (size_t n = 0; n < g->node.count; n++) {
    onnx_node* node = &g->node.items[n];
    if (!import_name_map_find(&e->names, node->name)) enter(e, node->name, NULL);
    for (size_t i = 0; i < node->output.count; i++) {
      enter(e, node->output.items[i], g);
      import_name_map_set(&e->makers, node->output.items[i], node);
    }
  }
}

static carnot_status* open_model(onnx_edit* e) {
  CARNOT_TRY(carnot_arena_prepare(&e->arena));
  e->makers.arena = e->names.arena = e->replaced.arena = &e->arena;
  e->model = CARNOT_NEW(&e->arena, onnx_model);
  CARNOT_TRY(carnot_arena_status(&e->arena));
  CARNOT_TRY(carnot_pb_read_wire(&carnot_onnx_model_message, e->map.data, e->map.size, &e->arena,
                                 e->model));
  CARNOT_CHECK(e->model->graph, INVALID_MODEL, "the file holds no ONNX graph in binary form");
  index_names(e);
  return carnot_arena_status(&e->arena);
}

carnot_status* onnx_edit_open(const char* path, onnx_edit* e) {
  *e = (onnx_edit){.path = path};
  CARNOT_TRY(carnot_map_file(path, &e->map));
  carnot_status* status = open_model(e);
  if (status) onnx_edit_close(e);
  return carnot_status_annotate(status, "%s", path);
}

void onnx_edit_close(onnx_edit* e) {
  carnot_arena_deinit(&e->arena);
  carnot_unmap(&e->map);
}

// ---- questions ----

int64_t onnx_edit_opset(const onnx_edit* e) {
  for (size_t i = 0; i < e->model->opset_import.count; i++) {
    const onnx_opset* opset = &e->model->opset_import.items[i];
    if (!opset->domain.size || carnot_view_is(opset->domain, "ai.onnx")) return opset->version;
  }
  return 0;
}

onnx_node* onnx_edit_maker(const onnx_edit* e, const char* name) {
  const import_name_slot* slot = import_name_map_find(&e->makers, carnot_view(name));
  return slot ? slot->item : NULL;
}

size_t onnx_edit_index(const onnx_edit* e, const onnx_node* node) {
  return (size_t)(node - e->model->graph->node.items);
}

bool onnx_edit_has_tensor(const onnx_edit* e, const char* name) {
  const import_name_slot* slot = import_name_map_find(&e->names, carnot_view(name));
  return slot && slot->item;
}

// ---- changes ----

const char* onnx_edit_new_name(onnx_edit* e, const char* base, const char* suffix) {
  const char* name = carnot_arena_print(&e->arena, "%s%s", base, suffix);
  for (int i = 1; name && import_name_map_find(&e->names, carnot_view(name)); i++)
    name = carnot_arena_print(&e->arena, "%s%s_%d", base, suffix, i);
  if (!name) return "";
  enter(e, carnot_view(name), e->model->graph);
  return name;
}

static void grow_initializers(onnx_edit* e) {
  size_t capacity = e->initializer_capacity ? 2 * e->initializer_capacity : 64;
  onnx_tensor* items = CARNOT_NEW_ARRAY(&e->arena, onnx_tensor, capacity);
  if (!items) return;
  if (e->initializer_count) memcpy(items, e->initializers, e->initializer_count * sizeof(*items));
  e->initializers = items;
  e->initializer_capacity = capacity;
}

void onnx_edit_add_initializer(onnx_edit* e, const char* name, const carnot_tensor* tensor) {
  if (e->initializer_count == e->initializer_capacity) grow_initializers(e);
  int64_t* dims = CARNOT_NEW_ARRAY(&e->arena, int64_t, (size_t)tensor->rank + 1);
  size_t bytes = carnot_tensor_bytes(tensor);
  void* data = carnot_arena_copy(&e->arena, tensor->data, bytes);
  if (e->initializer_count == e->initializer_capacity || !dims || !data) return;
  for (int d = 0; d < tensor->rank; d++) dims[d] = tensor->dims[d];
  e->initializers[e->initializer_count++] = (onnx_tensor){
      .present = ONNX_TENSOR_HAS_DATA_TYPE | ONNX_TENSOR_HAS_NAME | ONNX_TENSOR_HAS_RAW_DATA,
      .dims = {dims, (size_t)tensor->rank},
      .data_type = carnot_onnx_data_type(tensor->dtype),
      .name = carnot_view(name),
      .raw_data = {data, bytes}};
}

static onnx_attribute int_attribute(const char* name, int64_t value) {
  return (onnx_attribute){
      .present = ONNX_ATTRIBUTE_HAS_NAME | ONNX_ATTRIBUTE_HAS_I | ONNX_ATTRIBUTE_HAS_TYPE,
      .name = carnot_view(name),
      .type = ONNX_ATTRIBUTE_INT,
      .i = value};
}

void onnx_edit_insert(onnx_edit* e, size_t at, const char* op_type, const char* const inputs[3],
                      const char* output, int64_t axis, int64_t block_size) {
  onnx_inserted* item = CARNOT_NEW(&e->arena, onnx_inserted);
  carnot_strview* names = CARNOT_NEW_ARRAY(&e->arena, carnot_strview, 4);
  onnx_attribute* attributes = CARNOT_NEW_ARRAY(&e->arena, onnx_attribute, 2);
  if (!item || !names || !attributes) return;
  size_t count = 0, attribute_count = 0;
  while (count < 3 && inputs[count]) {
    names[count] = carnot_view(inputs[count]);
    count++;
  }
  names[3] = carnot_view(output);
  if (axis >= 0) attributes[attribute_count++] = int_attribute("axis", axis);
  if (block_size) attributes[attribute_count++] = int_attribute("block_size", block_size);
  item->at = at;
  item->node = (onnx_node){.present = ONNX_NODE_HAS_NAME | ONNX_NODE_HAS_OP_TYPE,
                           .input = {names, count},
                           .output = {names + 3, 1},
                           .name = carnot_view(onnx_edit_new_name(e, output, "_node")),
                           .op_type = carnot_view(op_type),
                           .attribute = {attributes, attribute_count}};
  if (e->last)
    e->last->next = item;
  else
    e->first = item;
  e->last = item;
  e->inserted_count++;
}

void onnx_edit_set_input(onnx_edit* e, onnx_node* node, size_t i, const char* name) {
  carnot_strview* names = CARNOT_NEW_ARRAY(&e->arena, carnot_strview, node->input.count + 1);
  if (!names) return;
  memcpy(names, node->input.items, node->input.count * sizeof(*names));
  import_name_map_set(&e->replaced, names[i], node);
  names[i] = carnot_view(name);
  node->input.items = names;
}

// ---- writing ----

static void note_reads(import_name_map* read, const onnx_graph* graph) {
  for (size_t n = 0; n < graph->node.count; n++) {
    const onnx_node* node = &graph->node.items[n];
    for (size_t i = 0; i < node->input.count; i++)
      import_name_map_set(read, node->input.items[i], NULL);
    for (size_t a = 0; a < node->attribute.count; a++)
      if (node->attribute.items[a].g) note_reads(read, node->attribute.items[a].g);
  }
  for (size_t i = 0; i < graph->output.count; i++)
    import_name_map_set(read, graph->output.items[i].name, NULL);
}

// Only what the change left unread: the user's own unread tensors stay.
static bool is_left(const onnx_edit* e, const import_name_map* read, carnot_strview name) {
  return import_name_map_find(&e->replaced, name) && !import_name_map_find(read, name);
}

// Constants that nobody reads any more; a cast of one, in turn.
static bool is_dropped(const onnx_edit* e, const import_name_map* read, const onnx_node* node) {
  return node->output.count == 1 && is_left(e, read, node->output.items[0]) &&
         (carnot_view_is(node->op_type, "Constant") || carnot_view_is(node->op_type, "Cast") ||
          carnot_view_is(node->op_type, "Identity"));
}

static carnot_status* write_nodes(onnx_edit* e, onnx_graph* graph) {
  const onnx_node_list old = graph->node;
  graph->node.items = CARNOT_NEW_ARRAY(&e->arena, onnx_node, old.count + e->inserted_count + 1);
  onnx_inserted** heads = CARNOT_NEW_ARRAY(&e->arena, onnx_inserted*, old.count + 1);
  onnx_inserted** tails = CARNOT_NEW_ARRAY(&e->arena, onnx_inserted*, old.count + 1);
  CARNOT_TRY(carnot_arena_status(&e->arena));
  for (onnx_inserted *item = e->first, *next; item; item = next) {
    next = item->next;
    item->next = NULL;
    if (tails[item->at])
      tails[item->at]->next = item;
    else
      heads[item->at] = item;
    tails[item->at] = item;
  }
  graph->node.count = 0;
  for (size_t n = 0; n <= old.count; n++) {
    for (const onnx_inserted* item = heads[n]; item; item = item->next)
      graph->node.items[graph->node.count++] = item->node;
    if (n < old.count) graph->node.items[graph->node.count++] = old.items[n];
  }
  return NULL;
}

// Drops nodes from the last to the first, so that what a dropped one read goes too.
static carnot_status* drop_unread(onnx_edit* e, onnx_graph* graph) {
  bool again = true;
  while (again) {
    import_name_map read = {.arena = &e->arena};
    note_reads(&read, graph);
    size_t kept = 0;
    again = false;
    for (size_t n = 0; n < graph->node.count; n++) {
      const onnx_node* node = &graph->node.items[n];
      if (is_dropped(e, &read, node)) {
        for (size_t i = 0; i < node->input.count; i++)
          import_name_map_set(&e->replaced, node->input.items[i], NULL);
        again = true;
        continue;
      }
      graph->node.items[kept++] = *node;
    }
    graph->node.count = kept;
    if (again) continue;
    kept = 0;
    for (size_t i = 0; i < graph->initializer.count; i++)
      if (!is_left(e, &read, graph->initializer.items[i].name))
        graph->initializer.items[kept++] = graph->initializer.items[i];
    graph->initializer.count = kept;
    kept = 0;  // of old models, which list initializers as inputs
    for (size_t i = 0; i < graph->input.count; i++)
      if (!is_left(e, &read, graph->input.items[i].name))
        graph->input.items[kept++] = graph->input.items[i];
    graph->input.count = kept;
  }
  return carnot_arena_status(&e->arena);
}

static carnot_status* write_initializers(onnx_edit* e, onnx_graph* graph) {
  size_t count = graph->initializer.count + e->initializer_count;
  onnx_tensor* items = CARNOT_NEW_ARRAY(&e->arena, onnx_tensor, count + 1);
  CARNOT_TRY(carnot_arena_status(&e->arena));
  if (graph->initializer.count)
    memcpy(items, graph->initializer.items, graph->initializer.count * sizeof(*items));
  if (e->initializer_count)
    memcpy(items + graph->initializer.count, e->initializers,
           e->initializer_count * sizeof(*items));
  graph->initializer.items = items;
  graph->initializer.count = count;
  return NULL;
}

static bool is_external(const onnx_tensor* tensor) { return tensor->external_data.count > 0; }

static bool is_in_folder_of(const char* a, const char* b, carnot_arena* arena) {
  struct stat x, y;
  char* first = carnot_arena_text(arena, a, strlen(a));
  char* second = carnot_arena_text(arena, b, strlen(b));
  return first && second && stat(dirname(first), &x) == 0 && stat(dirname(second), &y) == 0 &&
         x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

static carnot_status* check_external(onnx_edit* e, const onnx_graph* graph, const char* path) {
  for (size_t i = 0; i < graph->initializer.count; i++)
    CARNOT_CHECK(
        !is_external(&graph->initializer.items[i]) || is_in_folder_of(path, e->path, &e->arena),
        FAILED_PRECONDITION,
        "%s: initializer " CARNOT_VIEW_FMT
        " is in a file beside the model; write the result to the model's folder",
        path, CARNOT_VIEW_ARG(graph->initializer.items[i].name));
  return NULL;
}

carnot_status* onnx_edit_write(onnx_edit* e, int64_t ir_version, const char* path) {
  enum { kMostBytes = 0x7fffffff };  // of a message
  onnx_graph graph = *e->model->graph;
  CARNOT_TRY(write_nodes(e, &graph));
  CARNOT_TRY(drop_unread(e, &graph));
  CARNOT_TRY(check_external(e, &graph, path));
  CARNOT_TRY(write_initializers(e, &graph));
  CARNOT_TRY(carnot_arena_status(&e->arena));
  onnx_model model = *e->model;
  model.graph = &graph;
  if (model.ir_version < ir_version) model.ir_version = ir_version;
  model.present |= ONNX_MODEL_HAS_IR_VERSION;
  void* data;
  size_t size;
  CARNOT_TRY(carnot_pb_write_wire(&carnot_onnx_model_message, &model, &data, &size));
  carnot_piece piece = {data, size};
  carnot_status* status =
      size > kMostBytes
          ? CARNOT_ERROR(UNSUPPORTED, "the model takes %zu bytes, an ONNX file at most %d", size,
                         kMostBytes)
          : carnot_write_file(path, &piece, 1);
  free(data);
  return status;
}
