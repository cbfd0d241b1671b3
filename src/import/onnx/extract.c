// Writes a part of a model, between named tensors, as a model of its own.
#include "import/onnx/extract.h"

#include <stdlib.h>

#include "base/file.h"
#include "import/onnx/tensor_proto.h"

typedef struct name_list {
  carnot_strview* items;
  size_t count, capacity;
} name_list;

typedef struct extraction {
  carnot_arena arena;
  const carnot_graph* graph;
  onnx_graph* from;
  name_list wanted;  // names still to be made, then all that were asked for
  name_list given;   // inputs of the part
  bool* kept;        // by node
} extraction;

static bool holds(const name_list* list, carnot_strview name) {
  for (size_t i = 0; i < list->count; i++)
    if (carnot_view_equal(list->items[i], name)) return true;
  return false;
}

static void add(extraction* x, name_list* list, carnot_strview name) {
  if (!name.size || holds(list, name)) return;
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 64;
    carnot_strview* items = CARNOT_NEW_ARRAY(&x->arena, carnot_strview, capacity);
    if (!items) return;
    if (list->count) memcpy(items, list->items, list->count * sizeof(*items));
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = name;
}

// What |node| reads, also inside its bodies, where names of the body itself do no harm.
static void add_reads(extraction* x, const onnx_node* node) {
  for (size_t i = 0; i < node->input.count; i++) add(x, &x->wanted, node->input.items[i]);
  for (size_t a = 0; a < node->attribute.count; a++) {
    const onnx_graph* body = node->attribute.items[a].g;
    for (size_t n = 0; body && n < body->node.count; n++) add_reads(x, &body->node.items[n]);
    for (size_t n = 0; body && n < body->output.count; n++)
      add(x, &x->wanted, body->output.items[n].name);
  }
}

static const carnot_value* find_value(const carnot_graph* graph, carnot_strview name) {
  const carnot_block* main = graph->main;
  for (size_t i = 0; i < main->param_count; i++)
    if (carnot_view_is(name, main->params[i]->name)) return main->params[i];
  for (const carnot_node* node = main->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i] && carnot_view_is(name, node->outputs[i]->name)) return node->outputs[i];
  return NULL;
}

static const onnx_node* maker_of(const extraction* x, carnot_strview name, size_t* out_index) {
  for (size_t n = 0; n < x->from->node.count; n++) {
    const onnx_node* node = &x->from->node.items[n];
    for (size_t i = 0; i < node->output.count; i++)
      if (carnot_view_equal(node->output.items[i], name)) {
        *out_index = n;
        return node;
      }
  }
  return NULL;
}

static const onnx_value_info* declared(const onnx_value_info_list* list, carnot_strview name) {
  for (size_t i = 0; i < list->count; i++)
    if (carnot_view_equal(list->items[i].name, name)) return &list->items[i];
  return NULL;
}

#define PRESENT(message, member) (message)->present |= (uint64_t)1 << (member)

// The declaration of |name|: the model's own, else made from what was inferred.
static carnot_status* declare(extraction* x, carnot_strview name, onnx_value_info* out) {
  const onnx_value_info_list* lists[] = {&x->from->input, &x->from->output, &x->from->value_info};
  for (int i = 0; i < 3; i++) {
    const onnx_value_info* info = declared(lists[i], name);
    if (!info) continue;
    *out = *info;
    return NULL;
  }
  const carnot_value* value = find_value(x->graph, name);
  CARNOT_CHECK(value, NOT_FOUND, "the model has no tensor " CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(name));
  const carnot_type* type = &value->type;
  CARNOT_CHECK(type->kind == CARNOT_VALUE_TENSOR && carnot_onnx_data_type(type->dtype), UNSUPPORTED,
               "tensor " CARNOT_VIEW_FMT " cannot be an input or output: its type is %s",
               CARNOT_VIEW_ARG(name), carnot_dtype_name(type->dtype));
  onnx_tensor_type* tensor = CARNOT_NEW(&x->arena, onnx_tensor_type);
  tensor->elem_type = carnot_onnx_data_type(type->dtype);
  PRESENT(tensor, 0);
  if (type->rank >= 0) {
    tensor->shape = CARNOT_NEW(&x->arena, onnx_shape);
    tensor->shape->dim.items = CARNOT_NEW_ARRAY(&x->arena, onnx_dimension, (size_t)type->rank + 1);
    CARNOT_TRY(carnot_arena_status(&x->arena));
    tensor->shape->dim.count = (size_t)type->rank;
    for (int d = 0; d < type->rank; d++) {
      if (!carnot_sym_is_const(type->dims[d])) continue;
      tensor->shape->dim.items[d].dim_value = type->dims[d].bits;
      tensor->shape->dim.items[d].present = ONNX_DIMENSION_HAS_VALUE;
    }
  }
  *out = (onnx_value_info){.name = name, .present = 1, .type = CARNOT_NEW(&x->arena, onnx_type)};
  out->type->tensor_type = tensor;
  return NULL;
}

static bool is_initializer(const extraction* x, carnot_strview name) {
  for (size_t i = 0; i < x->from->initializer.count; i++)
    if (carnot_view_equal(x->from->initializer.items[i].name, name)) return true;
  return false;
}

// Marks the nodes that are needed, from the outputs backwards.
static carnot_status* mark(extraction* x) {
  for (size_t at = 0; at < x->wanted.count; at++) {
    carnot_strview name = x->wanted.items[at];
    size_t index;
    if (holds(&x->given, name) || is_initializer(x, name)) continue;
    const onnx_node* node = maker_of(x, name, &index);
    if (!node) {
      if (declared(&x->from->input, name)) add(x, &x->given, name);
      continue;  // else a name of a body
    }
    if (x->kept[index]) continue;
    x->kept[index] = true;
    add_reads(x, node);
  }
  return NULL;
}

static carnot_status* make_part(extraction* x, const name_list* outputs, onnx_graph* out) {
  *out = *x->from;
  out->value_info = (onnx_value_info_list){0};
  out->node.items = CARNOT_NEW_ARRAY(&x->arena, onnx_node, x->from->node.count + 1);
  CARNOT_TRY(carnot_arena_status(&x->arena));
  out->node.count = 0;
  for (size_t n = 0; n < x->from->node.count; n++)
    if (x->kept[n]) out->node.items[out->node.count++] = x->from->node.items[n];
  out->initializer.items = CARNOT_NEW_ARRAY(&x->arena, onnx_tensor, x->from->initializer.count + 1);
  CARNOT_TRY(carnot_arena_status(&x->arena));
  out->initializer.count = 0;
  for (size_t i = 0; i < x->from->initializer.count; i++)
    if (holds(&x->wanted, x->from->initializer.items[i].name) &&
        !holds(&x->given, x->from->initializer.items[i].name))
      out->initializer.items[out->initializer.count++] = x->from->initializer.items[i];
  out->input.items = CARNOT_NEW_ARRAY(&x->arena, onnx_value_info, x->given.count + 1);
  CARNOT_TRY(carnot_arena_status(&x->arena));
  out->input.count = 0;
  for (size_t i = 0; i < x->given.count; i++)
    if (holds(&x->wanted, x->given.items[i]))
      CARNOT_TRY(declare(x, x->given.items[i], &out->input.items[out->input.count++]));
  out->output.items = CARNOT_NEW_ARRAY(&x->arena, onnx_value_info, outputs->count + 1);
  CARNOT_TRY(carnot_arena_status(&x->arena));
  out->output.count = outputs->count;
  for (size_t i = 0; i < outputs->count; i++)
    CARNOT_TRY(declare(x, outputs->items[i], &out->output.items[i]));
  return NULL;
}

static carnot_status* extract(extraction* x, carnot_strview bytes, const char* const* inputs,
                              size_t input_count, const char* const* outputs, size_t output_count,
                              const char* path) {
  CARNOT_TRY(carnot_arena_prepare(&x->arena));
  onnx_model* model = CARNOT_NEW(&x->arena, onnx_model);
  CARNOT_TRY(carnot_arena_status(&x->arena));
  CARNOT_TRY(
      carnot_pb_read_wire(&carnot_onnx_model_message, bytes.data, bytes.size, &x->arena, model));
  CARNOT_CHECK(model->graph, INVALID_MODEL, "the file holds no ONNX graph");
  x->from = model->graph;
  x->kept = CARNOT_NEW_ARRAY(&x->arena, bool, x->from->node.count + 1);
  CARNOT_TRY(carnot_arena_status(&x->arena));
  name_list results = {0};
  for (size_t i = 0; i < input_count; i++) add(x, &x->given, carnot_view(inputs[i]));
  for (size_t i = 0; i < output_count; i++) {
    size_t index;
    CARNOT_CHECK(maker_of(x, carnot_view(outputs[i]), &index), NOT_FOUND,
                 "no node of the model makes %s", outputs[i]);
    add(x, &results, carnot_view(outputs[i]));
    add(x, &x->wanted, carnot_view(outputs[i]));
  }
  CARNOT_TRY(mark(x));
  onnx_graph part;
  CARNOT_TRY(make_part(x, &results, &part));
  CARNOT_TRY(carnot_arena_status(&x->arena));
  model->graph = &part;
  void* data;
  size_t size;
  CARNOT_TRY(carnot_pb_write_wire(&carnot_onnx_model_message, model, &data, &size));
  carnot_piece piece = {data, size};
  carnot_status* status = carnot_write_file(path, &piece, 1);
  free(data);
  return status;
}

carnot_status* carnot_onnx_extract(const char* model_path, const carnot_graph* graph,
                                   const char* const* inputs, size_t input_count,
                                   const char* const* outputs, size_t output_count,
                                   const char* path) {
  carnot_mapping map;
  CARNOT_TRY(carnot_map_file(model_path, &map));
  extraction x = {.graph = graph};
  carnot_status* status = extract(&x, (carnot_strview){(const char*)map.data, map.size}, inputs,
                                  input_count, outputs, output_count, path);
  status = carnot_arena_end(&x.arena, status);
  carnot_arena_deinit(&x.arena);
  carnot_unmap(&map);
  return carnot_status_annotate(status, "%s", model_path);
}
