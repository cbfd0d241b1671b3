// Networks, their values and layers; how a node is added.
#include "api/builder/network.h"

#include <stdio.h>
#include <stdlib.h>

#include "carnot/edit.h"

carnot_status* carnot_network_create(carnot_network** out_network) {
  *out_network = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_network), "a network", &memory));
  carnot_network* network = memory;
  carnot_status* status = carnot_graph_create(&network->graph);
  if (status) {
    free(network);
    return status;
  }
  network->blobs.arena = &network->graph->arena;
  network->main.block = network->graph->main;
  network->scope = &network->main;
  *out_network = network;
  return NULL;
}

void carnot_network_destroy(carnot_network* network) {
  if (!network) return;
  carnot_graph_destroy(network->graph);
  for (size_t i = 0; i < network->source_count; i++)
    carnot_model_source_destroy(network->sources[i]);
  free(network->sources);
  free(network);
}

carnot_status* carnot_network_prepare_source(carnot_network* network) {
  CARNOT_CHECK(network->scope == &network->main, FAILED_PRECONDITION,
               "a model cannot be read into an open loop or conditional");
  void* items = network->sources;
  CARNOT_TRY(carnot_grow(&items, &network->source_capacity, network->source_count + 1,
                         sizeof(*network->sources), "models"));
  network->sources = items;
  return NULL;
}

void carnot_network_keep_source(carnot_network* network, carnot_model_source* source) {
  if (!source) return;
  carnot_source_memory* memory = &source->files.memory;
  memory->next = network->graph->sources;
  network->graph->sources = memory;
  network->sources[network->source_count++] = source;
}

static const char* copy_text(carnot_graph* graph, const char* text) {
  return carnot_arena_text(&graph->arena, text, strlen(text));
}

carnot_status* carnot_network_set_name(carnot_network* network, const char* name) {
  CARNOT_CHECK(name, INVALID_ARGUMENT, "a network's name is NULL");
  network->graph->name = copy_text(network->graph, name);
  return carnot_graph_status(network->graph);
}

// ---- inputs and outputs ----

static carnot_status* check_dims(const carnot_dims* dims, int64_t least, const char* what) {
  CARNOT_CHECK(dims && dims->rank >= 0 && dims->rank <= CARNOT_MAX_RANK, INVALID_ARGUMENT,
               "%s has %d dimensions, at most %d", what, dims ? dims->rank : -1, CARNOT_MAX_RANK);
  for (int d = 0; d < dims->rank; d++)
    CARNOT_CHECK(dims->d[d] >= least && dims->d[d] < CARNOT_DIM_UNBOUNDED, INVALID_ARGUMENT,
                 "%s: dimension %d is %lld", what, d, (long long)dims->d[d]);
  return NULL;
}

// Inputs with one name for a dimension share its symbol.
static carnot_sym dim_named(carnot_graph* graph, const carnot_type* type, int rank,
                            const char* name) {
  for (size_t i = 0; name && i < graph->syms.count; i++) {
    const carnot_sym_expr* e = &graph->syms.items[i];
    if (e->op == CARNOT_SYM_SYMBOL && e->name && strcmp(e->name, name) == 0) {
      for (size_t k = 0; k < graph->main->param_count; k++)
        for (int d = 0; d < graph->main->params[k]->type.rank; d++) {
          carnot_sym dim = graph->main->params[k]->type.dims[d];
          if (!carnot_sym_is_const(dim) && carnot_sym_index(dim) == i) return dim;
        }
      for (int d = 0; d < rank; d++)
        if (!carnot_sym_is_const(type->dims[d]) && carnot_sym_index(type->dims[d]) == i)
          return type->dims[d];
    }
  }
  return carnot_sym_new(&graph->syms, name, 0, CARNOT_DIM_UNBOUNDED);
}

static carnot_status* input_type(carnot_graph* graph, const char* name, carnot_dtype dtype,
                                 const carnot_dims* dims, const char* const* dim_names,
                                 carnot_type* out_type) {
  CARNOT_CHECK(dtype > CARNOT_DTYPE_INVALID && dtype < CARNOT_DTYPE_COUNT, INVALID_ARGUMENT,
               "input %s has type %d", name, (int)dtype);
  CARNOT_TRY(check_dims(dims, -1, name));
  *out_type = (carnot_type){.kind = CARNOT_VALUE_TENSOR, .dtype = dtype, .rank = dims->rank};
  for (int d = 0; d < dims->rank; d++)
    out_type->dims[d] = dims->d[d] >= 0
                            ? carnot_sym_of(dims->d[d])
                            : dim_named(graph, out_type, d, dim_names ? dim_names[d] : NULL);
  return NULL;
}

carnot_status* carnot_network_set_input_type(carnot_network* network, carnot_value* value,
                                             carnot_dtype dtype, const carnot_dims* dims,
                                             const char* const* dim_names) {
  CARNOT_CHECK(
      value && value->block == network->graph->main && !value->producer && !value->constant,
      INVALID_ARGUMENT, "value %s is no input of the network", value ? value->name : "NULL");
  carnot_type type;
  CARNOT_TRY(input_type(network->graph, value->name, dtype, dims, dim_names, &type));
  value->type = type;
  return NULL;
}

carnot_status* carnot_network_add_input(carnot_network* network, const char* name,
                                        carnot_dtype dtype, const carnot_dims* dims,
                                        const char* const* dim_names, carnot_value** out_value) {
  *out_value = NULL;
  carnot_graph* graph = network->graph;
  CARNOT_CHECK(name && name[0], INVALID_ARGUMENT, "an input has no name");
  CARNOT_CHECK(network->scope == &network->main, FAILED_PRECONDITION,
               "input %s is added inside a body", name);
  for (size_t i = 0; i < graph->main->param_count; i++)
    CARNOT_CHECK(strcmp(graph->main->params[i]->name, name) != 0, INVALID_ARGUMENT,
                 "there is an input %s already", name);
  carnot_type type;
  CARNOT_TRY(input_type(graph, name, dtype, dims, dim_names, &type));
  CARNOT_TRY(carnot_graph_status(graph));
  *out_value = carnot_block_add_param(graph->main, copy_text(graph, name), &type);
  return carnot_graph_status(graph);
}

carnot_status* carnot_network_mark_output(carnot_network* network, carnot_value* value,
                                          const char* name) {
  CARNOT_CHECK(value && value->block == network->graph->main, INVALID_ARGUMENT,
               "an output must be a value of the main part");
  carnot_block* main = network->graph->main;
  for (size_t i = 0; i < main->output_count; i++)
    CARNOT_CHECK(!name || strcmp(main->outputs[i]->name, name) != 0, INVALID_ARGUMENT,
                 "there is an output %s already", name);
  // Inputs, constants and values that are outputs already keep their names.
  if (name && (!value->producer || value->block_output_count))
    CARNOT_TRY(carnot_network_add_identity(network, value, &value));
  if (name) value->name = copy_text(network->graph, name);
  carnot_block_add_output(main, value);
  return carnot_graph_status(network->graph);
}

size_t carnot_network_input_count(const carnot_network* network) {
  return network->graph->main->param_count;
}
size_t carnot_network_output_count(const carnot_network* network) {
  return network->graph->main->output_count;
}
carnot_value* carnot_network_input(const carnot_network* network, size_t index) {
  return index < network->graph->main->param_count ? network->graph->main->params[index] : NULL;
}
carnot_value* carnot_network_output(const carnot_network* network, size_t index) {
  return index < network->graph->main->output_count ? network->graph->main->outputs[index] : NULL;
}
carnot_layer* carnot_network_first_layer(const carnot_network* network) {
  return network->graph->main->first;
}
carnot_layer* carnot_layer_next(const carnot_layer* layer) { return layer->next; }

// ---- values and layers ----

const char* carnot_value_name(const carnot_value* value) { return value->name; }
carnot_status* carnot_value_set_name(carnot_value* value, const char* name) {
  CARNOT_CHECK(name && name[0], INVALID_ARGUMENT, "a value's name is empty");
  value->name = copy_text(value->block->graph, name);
  return carnot_graph_status(value->block->graph);
}
carnot_dtype carnot_value_dtype(const carnot_value* value) { return value->type.dtype; }
carnot_dims carnot_value_dims(const carnot_value* value) {
  carnot_dims dims = {.rank = value->type.kind == CARNOT_VALUE_TENSOR ? value->type.rank : -1};
  for (int d = 0; d < dims.rank; d++)
    dims.d[d] = carnot_sym_is_const(value->type.dims[d]) ? value->type.dims[d].bits : -1;
  return dims;
}
carnot_layer* carnot_value_layer(const carnot_value* value) { return value->producer; }
const char* carnot_layer_name(const carnot_layer* layer) { return layer->name ? layer->name : ""; }
carnot_status* carnot_layer_set_name(carnot_layer* layer, const char* name) {
  CARNOT_CHECK(name && name[0], INVALID_ARGUMENT, "a layer's name is empty");
  layer->name = copy_text(layer->block->graph, name);
  return carnot_graph_status(layer->block->graph);
}
const char* carnot_layer_type(const carnot_layer* layer) {
  return carnot_op_get(layer->op)->layer_type;
}
int carnot_layer_input_count(const carnot_layer* layer) { return layer->input_count; }
int carnot_layer_output_count(const carnot_layer* layer) { return layer->output_count; }
carnot_value* carnot_layer_input(const carnot_layer* layer, int index) {
  return index >= 0 && index < layer->input_count ? layer->inputs[index] : NULL;
}
carnot_value* carnot_layer_output(const carnot_layer* layer, int index) {
  return index >= 0 && index < layer->output_count ? layer->outputs[index] : NULL;
}

// ---- constants ----

carnot_status* carnot_network_add_constant(carnot_network* network, const char* name,
                                           carnot_dtype dtype, const carnot_dims* dims,
                                           const void* data, carnot_value** out_value) {
  *out_value = NULL;
  const char* what = name ? name : "a constant";
  CARNOT_CHECK(dtype > CARNOT_DTYPE_INVALID && dtype < CARNOT_DTYPE_STRING, INVALID_ARGUMENT,
               "%s has type %d", what, (int)dtype);
  CARNOT_TRY(check_dims(dims, 0, what));
  carnot_tensor tensor = {.dtype = dtype, .rank = dims->rank, .data = (void*)(uintptr_t)data};
  memcpy(tensor.dims, dims->d, sizeof(tensor.dims));
  size_t bytes;
  CARNOT_TRY_AT(carnot_dims_bytes(dtype, dims->d, dims->rank, &bytes), "%s", what);
  CARNOT_CHECK(data || !bytes, INVALID_ARGUMENT, "%s has no data", what);
  *out_value = carnot_graph_constant(network->scope->block,
                                     name ? copy_text(network->graph, name) : NULL, &tensor);
  return NULL;
}

carnot_value* carnot_network_ints(carnot_network* network, const int64_t* values, int count) {
  return carnot_graph_ints(network->scope->block, values, count);
}

carnot_status* carnot_network_add_int64s(carnot_network* network, const int64_t* values, int count,
                                         carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(values && count >= -1, INVALID_ARGUMENT, "a list of %d integers", count);
  *out_value = carnot_network_ints(network, values, count);
  return NULL;
}

carnot_status* carnot_network_add_scalar(carnot_network* network, carnot_dtype dtype, double number,
                                         carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(dtype == CARNOT_DTYPE_F32 || dtype == CARNOT_DTYPE_F64 ||
                   dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16,
               INVALID_ARGUMENT, "a scalar of type %s", carnot_dtype_name(dtype));
  *out_value = carnot_graph_float(network->scope->block, dtype, number);
  return NULL;
}

// ---- adding nodes ----

carnot_scope* carnot_network_open(carnot_network* network) {
  carnot_scope* scope = CARNOT_NEW(&network->graph->arena, carnot_scope);
  scope->parent = network->scope;
  scope->block = carnot_block_create(network->graph);
  network->scope = scope;
  return scope;
}

void carnot_network_close(carnot_network* network) { network->scope = network->scope->parent; }

static void note_capture(carnot_graph* graph, carnot_scope* scope, carnot_value* outer,
                         carnot_value* inner) {
  if (scope->capture_count == scope->capture_capacity) {
    size_t capacity = scope->capture_capacity ? 2 * scope->capture_capacity : 8;
    carnot_value** both = CARNOT_NEW_ARRAY(&graph->arena, carnot_value*, 2 * capacity);
    if (!both) return;
    for (size_t i = 0; i < scope->capture_count; i++) {
      both[i] = scope->outer[i];
      both[capacity + i] = scope->inner[i];
    }
    scope->outer = both;
    scope->inner = both + capacity;
    scope->capture_capacity = capacity;
  }
  scope->outer[scope->capture_count] = outer;
  scope->inner[scope->capture_count++] = inner;
}

carnot_status* carnot_network_reach(carnot_network* network, carnot_scope* scope,
                                    carnot_value* value, carnot_value** out_value) {
  *out_value = value;
  if (!value || value->block == scope->block) return NULL;
  CARNOT_CHECK(scope->parent, INVALID_ARGUMENT,
               "value %s belongs to a body that is closed, or to another network", value->name);
  carnot_value* outer;
  CARNOT_TRY(carnot_network_reach(network, scope->parent, value, &outer));
  for (size_t i = 0; i < scope->capture_count; i++)
    if (scope->outer[i] == outer) {
      *out_value = scope->inner[i];
      return NULL;
    }
  if (outer->constant) {
    // The same constant inside, so that what it says stays known there.
    *out_value = carnot_graph_constant(scope->block, NULL, &outer->constant->tensor);
    (*out_value)->constant->name = outer->constant->name;
    note_capture(network->graph, scope, outer, *out_value);
    return carnot_graph_status(network->graph);
  }
  *out_value = carnot_block_add_param(scope->block, NULL, &outer->type);
  (*out_value)->syms = outer->syms;
  (*out_value)->sym_count = outer->sym_count;
  note_capture(network->graph, scope, outer, *out_value);
  return carnot_graph_status(network->graph);
}

carnot_status* carnot_network_add(carnot_network* network, carnot_op op, const carnot_attrs* attrs,
                                  carnot_value* const* inputs, int count, int output_count,
                                  carnot_node** out_node) {
  *out_node = NULL;
  carnot_graph_restore_constants(network->graph);
  carnot_value** reached =
      CARNOT_NEW_ARRAY(&network->graph->arena, carnot_value*, (size_t)count + 1);
  CARNOT_TRY(carnot_arena_status(&network->graph->arena));
  const carnot_op_row* row = carnot_op_get(op);
  while (count && !inputs[count - 1]) count--;
  CARNOT_CHECK(count >= row->min_inputs, INVALID_ARGUMENT, "layer %s has %d inputs, needs %d",
               row->name, count, row->min_inputs);
  for (int i = 0; i < count; i++)
    CARNOT_TRY(carnot_network_reach(network, network->scope, inputs[i], &reached[i]));
  char name[64];
  snprintf(name, sizeof(name), "(%s %u)", row->layer_type, network->graph->node_count);
  if (network->position && network->scope == &network->main)
    return carnot_node_insert_before(network->position, op, name, attrs, reached, count,
                                     output_count, out_node);
  return carnot_block_add_node(network->scope->block, op, name, attrs, reached, count, NULL,
                               output_count, out_node);
}

carnot_status* carnot_network_add_one(carnot_network* network, carnot_op op,
                                      const carnot_attrs* attrs, carnot_value* const* inputs,
                                      int count, carnot_value** out_value) {
  *out_value = NULL;
  carnot_node* node;
  CARNOT_TRY(carnot_network_add(network, op, attrs, inputs, count, 1, &node));
  *out_value = node->outputs[0];
  return NULL;
}

carnot_status* carnot_network_add_fn(carnot_network* network, carnot_op op, carnot_fn fn,
                                     double alpha, double beta, carnot_value* const* inputs,
                                     int count, carnot_value** out_value) {
  *out_value = NULL;
  for (int i = 0; i < count; i++)
    CARNOT_CHECK(inputs[i], INVALID_ARGUMENT, "operand %d of %s is NULL", i,
                 carnot_fn_get(fn)->name);
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "fn", fn);
  if (alpha != 0) CARNOT_SET_FLOAT(attrs, network, "alpha", alpha);
  if (beta != 0) CARNOT_SET_FLOAT(attrs, network, "beta", beta);
  return carnot_network_add_one(network, op, &attrs, inputs, count, out_value);
}

carnot_status* carnot_network_add_identity(carnot_network* network, carnot_value* input,
                                           carnot_value** out_value) {
  return carnot_network_add_one(network, CARNOT_OP_IDENTITY, NULL, CARNOT_VALUES(input), out_value);
}
