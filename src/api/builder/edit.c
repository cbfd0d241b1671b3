// Changing networks: wiring, order, types of inputs.
#include "carnot/edit.h"

#include "api/builder/network.h"
#include "builder/builder.h"

const char* carnot_network_name(const carnot_network* network) { return network->graph->name; }
carnot_layer* carnot_network_last_layer(const carnot_network* network) {
  return network->graph->main->last;
}
carnot_layer* carnot_layer_previous(const carnot_layer* layer) { return layer->previous; }

static carnot_status* check_layer(const carnot_network* network, const carnot_layer* layer) {
  CARNOT_CHECK(layer && layer->block == network->graph->main, INVALID_ARGUMENT,
               "layer %s is not of the network's main part", layer ? layer->name : "NULL");
  return NULL;
}

static carnot_status* check_value(const carnot_network* network, const carnot_value* value) {
  CARNOT_CHECK(value && value->block == network->graph->main, INVALID_ARGUMENT,
               "value %s is not of the network's main part", value ? value->name : "NULL");
  return NULL;
}

carnot_status* carnot_network_insert_before(carnot_network* network, carnot_layer* layer) {
  if (layer) CARNOT_TRY(check_layer(network, layer));
  network->position = layer;
  return NULL;
}

carnot_status* carnot_layer_set_input(carnot_network* network, carnot_layer* layer, int index,
                                      carnot_value* value) {
  CARNOT_TRY(check_layer(network, layer));
  if (value) CARNOT_TRY(check_value(network, value));
  CARNOT_CHECK(index >= 0 && index < layer->input_count, INVALID_ARGUMENT,
               "layer %s: input %d of %d", layer->name, index, layer->input_count);
  CARNOT_CHECK(value || index >= carnot_node_row(layer)->min_inputs, INVALID_ARGUMENT,
               "layer %s needs input %d", layer->name, index);
  carnot_node_set_input(layer, index, value);
  return NULL;
}

carnot_status* carnot_network_replace_value(carnot_network* network, carnot_value* from,
                                            carnot_value* to) {
  CARNOT_TRY(check_value(network, from));
  CARNOT_TRY(check_value(network, to));
  if (from != to) carnot_value_replace(from, to);
  return NULL;
}

carnot_status* carnot_layer_remove(carnot_network* network, carnot_layer* layer) {
  CARNOT_TRY(check_layer(network, layer));
  for (int i = 0; i < layer->output_count; i++)
    CARNOT_CHECK(!layer->outputs[i] || !carnot_value_used(layer->outputs[i]), FAILED_PRECONDITION,
                 "layer %s cannot be removed: its output %s is still read", layer->name,
                 layer->outputs[i]->name);
  if (network->position == layer) network->position = layer->next;
  carnot_node_remove(layer);
  return NULL;
}

// Takes item |at| out of a list of |count|.
static void take_out(carnot_value** items, size_t at, size_t* count) {
  memmove(&items[at], &items[at + 1], (*count - at - 1) * sizeof(*items));
  (*count)--;
}

carnot_status* carnot_network_unmark_output(carnot_network* network, carnot_value* value) {
  carnot_block* main = network->graph->main;
  for (size_t i = 0; i < main->output_count; i++) {
    if (main->outputs[i] != value) continue;
    take_out(main->outputs, i, &main->output_count);
    value->block_output_count--;
    return NULL;
  }
  return CARNOT_ERROR(NOT_FOUND, "value %s is no output of the network",
                      value ? value->name : "NULL");
}

carnot_status* carnot_network_remove_input(carnot_network* network, carnot_value* value) {
  carnot_block* main = network->graph->main;
  for (size_t i = 0; i < main->param_count; i++) {
    if (main->params[i] != value) continue;
    CARNOT_CHECK(!carnot_value_used(value), FAILED_PRECONDITION,
                 "input %s cannot be removed: it is still read", value->name);
    take_out(main->params, i, &main->param_count);
    return NULL;
  }
  return CARNOT_ERROR(NOT_FOUND, "value %s is no input of the network",
                      value ? value->name : "NULL");
}

// ---- order ----

// Is every layer that |node| reads placed already?
static bool is_ready(const carnot_node* node, const bool* placed) {
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    if (value && value->producer && !placed[value->producer->id]) return false;
  }
  return true;
}

// Layers stay in their order but for those that read a later one, which move behind it.
static carnot_status* sort_layers(carnot_block* block, carnot_arena* scratch) {
  bool* placed = CARNOT_NEW_ARRAY(scratch, bool, block->graph->node_count + 1);
  CARNOT_TRY(carnot_arena_status(scratch));
  carnot_node *waiting = block->first, *last = NULL;
  block->first = NULL;
  while (waiting) {
    carnot_node *left = NULL, *left_last = NULL, *next;
    carnot_node* before = last;
    for (carnot_node* node = waiting; node; node = next) {
      next = node->next;
      bool ready = is_ready(node, placed);
      carnot_node **head = ready ? &block->first : &left, **tail = ready ? &last : &left_last;
      node->previous = *tail;
      node->next = NULL;
      *(*tail ? &(*tail)->next : head) = node;
      *tail = node;
      placed[node->id] |= ready;
    }
    waiting = left;
    if (last != before) continue;
    // Keep the block whole: the cycle stays at its end.
    waiting->previous = last;
    *(last ? &last->next : &block->first) = waiting;
    block->last = left_last;
    return CARNOT_ERROR(INVALID_MODEL, "layer %s depends on its own output", waiting->name);
  }
  block->last = last;
  return NULL;
}

carnot_status* carnot_network_infer(carnot_network* network) {
  carnot_block* main = network->graph->main;
  carnot_arena scratch;
  carnot_arena_init(&scratch);
  carnot_graph_restore_constants(network->graph);
  carnot_status* status = sort_layers(main, &scratch);
  carnot_arena_deinit(&scratch);
  for (carnot_node* node = main->first; node && !status; node = node->next)
    status = carnot_node_infer(node);
  return status;
}

// ---- values ----

const char* carnot_value_dim_name(const carnot_network* network, const carnot_value* value, int d) {
  const carnot_syms* syms = &network->graph->syms;
  if (d < 0 || d >= value->type.rank || carnot_sym_is_const(value->type.dims[d])) return "";
  const carnot_sym_expr* expr = &syms->items[carnot_sym_index(value->type.dims[d])];
  return expr->op == CARNOT_SYM_SYMBOL && expr->name ? expr->name : "";
}

bool carnot_value_is_output(const carnot_value* value) { return value->block_output_count > 0; }
carnot_status* carnot_network_is_shape_input(const carnot_network* network,
                                             const carnot_value* value, bool* out_is_shape) {
  return carnot_graph_shape_input(network->graph, value, out_is_shape);
}
bool carnot_value_is_shape(const carnot_value* value) { return value->syms != NULL; }

const void* carnot_value_constant(const carnot_value* value, const char** out_name) {
  if (out_name) *out_name = value->constant ? value->constant->name : NULL;
  if (!value->constant) return NULL;
  carnot_graph_lend_constants(value->block->graph);
  return value->constant->tensor.data;
}

typedef void (*weight_visitor)(void* user, const char* name, carnot_dtype dtype,
                               const carnot_dims* dims, const void* data);

static void visit_block(const carnot_block* block, bool* seen, weight_visitor visit, void* user) {
  for (const carnot_node* node = block->first; node; node = node->next) {
    for (int i = 0; i < node->input_count; i++) {
      const carnot_value* value = node->inputs[i];
      if (!value || !value->constant || !value->constant->name || seen[value->id]) continue;
      seen[value->id] = true;
      const carnot_tensor* t = &value->constant->tensor;
      carnot_dims dims = {.rank = t->rank};
      memcpy(dims.d, t->dims, sizeof(dims.d));
      visit(user, value->constant->name, t->dtype, &dims, t->data);
    }
    for (size_t a = 0; a < node->attrs.count; a++)
      if (node->attrs.items[a].type == CARNOT_ATTR_BLOCK)
        visit_block(node->attrs.items[a].block, seen, visit, user);
  }
}

carnot_status* carnot_network_visit_weights(const carnot_network* network, weight_visitor visit,
                                            void* user) {
  carnot_arena scratch;
  carnot_arena_init(&scratch);
  carnot_graph_lend_constants(network->graph);
  void* seen;
  carnot_status* status = carnot_arena_try(&scratch, network->graph->value_count + 1, sizeof(bool),
                                           "marks of values", &seen);
  if (!status) visit_block(network->graph->main, seen, visit, user);
  carnot_arena_deinit(&scratch);
  return status;
}
