// Attributes of layers and requests of precision.
#include "api/builder/network.h"
#include "carnot/edit.h"
#include "pass/pass.h"

const char* carnot_layer_operator(const carnot_layer* layer) {
  return carnot_node_row(layer)->name;
}
const char* carnot_layer_source_type(const carnot_layer* layer) {
  return layer->type_name ? layer->type_name : "";
}
const char* carnot_layer_function(const carnot_layer* layer) {
  bool elementwise = layer->op == CARNOT_OP_UNARY || layer->op == CARNOT_OP_BINARY ||
                     layer->op == CARNOT_OP_TERNARY;
  if (!elementwise) return "";
  return carnot_fn_get((carnot_fn)carnot_attr_int(carnot_node_row(layer), &layer->attrs, "fn"))
      ->name;
}

static carnot_status* find_spec(const carnot_layer* layer, const char* name,
                                carnot_attr_type type) {
  const carnot_op_row* row = carnot_node_row(layer);
  for (const carnot_attr_spec* spec = row->attrs; name && spec && spec->name; spec++)
    if (strcmp(spec->name, name) == 0 && spec->type == type) return NULL;
  return CARNOT_ERROR(NOT_FOUND, "layer %s (%s) has no attribute %s of this type", layer->name,
                      row->name, name ? name : "NULL");
}

carnot_status* carnot_layer_get_int(const carnot_layer* layer, const char* name,
                                    int64_t* out_value) {
  *out_value = 0;
  CARNOT_TRY(find_spec(layer, name, CARNOT_ATTR_INT));
  *out_value = carnot_attr_int(carnot_node_row(layer), &layer->attrs, name);
  return NULL;
}

carnot_status* carnot_layer_get_float(const carnot_layer* layer, const char* name,
                                      double* out_value) {
  *out_value = 0;
  CARNOT_TRY(find_spec(layer, name, CARNOT_ATTR_FLOAT));
  *out_value = carnot_attr_float(carnot_node_row(layer), &layer->attrs, name);
  return NULL;
}

carnot_status* carnot_layer_get_text(const carnot_layer* layer, const char* name,
                                     const char** out_value) {
  *out_value = "";
  CARNOT_TRY(find_spec(layer, name, CARNOT_ATTR_STRING));
  carnot_strview text = carnot_attr_text(carnot_node_row(layer), &layer->attrs, name);
  *out_value = carnot_arena_text(&layer->block->graph->arena, text.data, text.size);
  return carnot_graph_status(layer->block->graph);
}

carnot_status* carnot_layer_get_ints(const carnot_layer* layer, const char* name,
                                     const int64_t** out_values, size_t* out_count) {
  *out_values = NULL;
  *out_count = 0;
  CARNOT_TRY(find_spec(layer, name, CARNOT_ATTR_INTS));
  *out_values = carnot_attr_ints(&layer->attrs, name, out_count);
  return NULL;
}

carnot_status* carnot_layer_set_int(carnot_layer* layer, const char* name, int64_t value) {
  CARNOT_TRY(find_spec(layer, name, CARNOT_ATTR_INT));
  carnot_arena* arena = &layer->block->graph->arena;
  carnot_attrs_set_int(&layer->attrs, arena, carnot_arena_text(arena, name, strlen(name)), value);
  return carnot_graph_status(layer->block->graph);
}

carnot_status* carnot_layer_set_float(carnot_layer* layer, const char* name, double value) {
  CARNOT_TRY(find_spec(layer, name, CARNOT_ATTR_FLOAT));
  carnot_arena* arena = &layer->block->graph->arena;
  carnot_attrs_set_float(&layer->attrs, arena, carnot_arena_text(arena, name, strlen(name)), value);
  return carnot_graph_status(layer->block->graph);
}

carnot_status* carnot_layer_set_text(carnot_layer* layer, const char* name, const char* value) {
  CARNOT_TRY(find_spec(layer, name, CARNOT_ATTR_STRING));
  CARNOT_CHECK(value, INVALID_ARGUMENT, "layer %s: attribute %s is NULL", layer->name, name);
  carnot_arena* arena = &layer->block->graph->arena;
  carnot_attrs_set_text(&layer->attrs, arena, carnot_arena_text(arena, name, strlen(name)),
                        carnot_arena_text(arena, value, strlen(value)));
  return carnot_graph_status(layer->block->graph);
}

carnot_status* carnot_layer_set_ints(carnot_layer* layer, const char* name, const int64_t* values,
                                     size_t count) {
  CARNOT_TRY(find_spec(layer, name, CARNOT_ATTR_INTS));
  CARNOT_CHECK(values || !count, INVALID_ARGUMENT, "layer %s: %zu values of %s are NULL",
               layer->name, count, name);
  carnot_arena* arena = &layer->block->graph->arena;
  carnot_attrs_set_ints(&layer->attrs, arena, carnot_arena_text(arena, name, strlen(name)), values,
                        count);
  return carnot_graph_status(layer->block->graph);
}

// ---- precision ----

static carnot_status* check_dtype(const carnot_layer* layer, carnot_dtype dtype) {
  CARNOT_CHECK(dtype >= CARNOT_DTYPE_INVALID && dtype < CARNOT_DTYPE_STRING, INVALID_ARGUMENT,
               "layer %s: type %d", layer->name, (int)dtype);
  return NULL;
}

carnot_status* carnot_layer_set_precision(carnot_layer* layer, carnot_dtype dtype) {
  CARNOT_TRY(check_dtype(layer, dtype));
  layer->precision = dtype;
  return NULL;
}

carnot_dtype carnot_layer_precision(const carnot_layer* layer) { return layer->precision; }

carnot_status* carnot_layer_set_output_type(carnot_layer* layer, int index, carnot_dtype dtype) {
  CARNOT_TRY(check_dtype(layer, dtype));
  CARNOT_CHECK(index >= 0 && index < layer->output_count && layer->outputs[index], INVALID_ARGUMENT,
               "layer %s: output %d of %d", layer->name, index, layer->output_count);
  layer->outputs[index]->forced_dtype = dtype;
  return NULL;
}

carnot_dtype carnot_layer_output_type(const carnot_layer* layer, int index) {
  bool there = index >= 0 && index < layer->output_count && layer->outputs[index];
  return there ? layer->outputs[index]->forced_dtype : CARNOT_DTYPE_INVALID;
}

bool carnot_layer_takes_int8(const carnot_layer* layer) { return carnot_takes_qdq(layer); }
