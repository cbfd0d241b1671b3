// Deep copies of graphs.
#include <stdlib.h>

#include "ir/graph.h"

typedef struct copier {
  carnot_graph* to;
  carnot_value** values;  // by the id of the source
  carnot_node** nodes;
} copier;

static carnot_block* copy_block(copier* c, const carnot_block* from);

static carnot_value* copy_value(copier* c, const carnot_value* from, carnot_block* block) {
  if (!from) return NULL;
  if (c->values[from->id]) return c->values[from->id];
  carnot_arena* arena = &c->to->arena;
  carnot_value* value = CARNOT_NEW(arena, carnot_value);
  *value = *from;
  c->values[from->id] = value;
  value->name = carnot_arena_text(arena, from->name, strlen(from->name));
  value->block = block;
  value->type.element = carnot_type_copy(arena, from->type.element);
  value->uses = NULL;
  value->use_count = value->use_capacity = 0;
  value->block_output_count = 0;
  value->producer = from->producer ? c->nodes[from->producer->id] : NULL;
  if (from->syms)
    value->syms = carnot_arena_copy(arena, from->syms, from->sym_count * sizeof(*from->syms));
  if (from->constant) {
    // A clone is made before anything is folded, so no constant names a node that made it.
    value->constant = carnot_arena_copy(arena, from->constant, sizeof(*from->constant));
    if (from->constant->name)
      value->constant->name =
          carnot_arena_text(arena, from->constant->name, strlen(from->constant->name));
    // Small data may lie in the source's arena and die with it; large data are borrowed as before.
    size_t bytes = carnot_tensor_bytes(&from->constant->tensor);
    if (bytes <= 4096 && from->constant->tensor.data)
      value->constant->tensor.data = carnot_arena_copy(arena, from->constant->tensor.data, bytes);
  }
  return value;
}

static carnot_attr copy_attr(copier* c, const carnot_attr* from) {
  carnot_arena* arena = &c->to->arena;
  carnot_attr attr = *from;
  attr.name = carnot_arena_text(arena, from->name, strlen(from->name));
  switch (from->type) {
    case CARNOT_ATTR_STRING:
      attr.s.data = carnot_arena_text(arena, from->s.data, from->s.size);
      break;
    case CARNOT_ATTR_INTS:
      attr.ints = carnot_arena_copy(arena, from->ints, from->count * sizeof(*from->ints));
      break;
    case CARNOT_ATTR_FLOATS:
      attr.floats = carnot_arena_copy(arena, from->floats, from->count * sizeof(*from->floats));
      break;
    case CARNOT_ATTR_SYMS:
      attr.syms = carnot_arena_copy(arena, from->syms, from->count * sizeof(*from->syms));
      break;
    case CARNOT_ATTR_STRINGS: {
      carnot_strview* strings = CARNOT_NEW_ARRAY(arena, carnot_strview, from->count + 1);
      for (size_t i = 0; i < from->count; i++)
        strings[i] =
            (carnot_strview){carnot_arena_text(arena, from->strings[i].data, from->strings[i].size),
                             from->strings[i].size};
      attr.strings = strings;
      break;
    }
    case CARNOT_ATTR_TENSOR: {
      carnot_tensor* tensor = carnot_arena_copy(arena, from->tensor, sizeof(*from->tensor));
      tensor->data = carnot_arena_copy(arena, tensor->data, carnot_tensor_bytes(tensor));
      attr.tensor = tensor;
      break;
    }
    case CARNOT_ATTR_BLOCK: attr.block = copy_block(c, from->block); break;
    default: break;
  }
  return attr;
}

static void copy_node(copier* c, const carnot_node* from, carnot_block* block) {
  carnot_arena* arena = &c->to->arena;
  carnot_node* node = CARNOT_NEW(arena, carnot_node);
  *node = *from;
  c->nodes[from->id] = node;
  node->name = carnot_arena_text(arena, from->name, strlen(from->name));
  if (from->type_name)
    node->type_name = carnot_arena_text(arena, from->type_name, strlen(from->type_name));
  node->block = block;
  node->next = NULL;
  node->previous = block->last;
  *(block->last ? &block->last->next : &block->first) = node;
  block->last = node;
  node->attrs.items = CARNOT_NEW_ARRAY(arena, carnot_attr, from->attrs.count + 1);
  for (size_t i = 0; i < from->attrs.count; i++) {
    node->attrs.items[i] = copy_attr(c, &from->attrs.items[i]);
    if (from->attrs.items[i].type == CARNOT_ATTR_BLOCK) node->attrs.items[i].block->owner = node;
  }
  node->absorbed = CARNOT_NEW_ARRAY(arena, const char*, from->absorbed_count + 1);
  for (size_t i = 0; i < from->absorbed_count; i++)
    node->absorbed[i] = carnot_arena_text(arena, from->absorbed[i], strlen(from->absorbed[i]));
  node->inputs = CARNOT_NEW_ARRAY(arena, carnot_value*, (size_t)from->input_count + 1);
  for (int i = 0; i < from->input_count; i++)
    if (from->inputs[i]) carnot_node_set_input(node, i, copy_value(c, from->inputs[i], block));
  node->outputs = CARNOT_NEW_ARRAY(arena, carnot_value*, (size_t)from->output_count + 1);
  for (int i = 0; i < from->output_count; i++)
    node->outputs[i] = copy_value(c, from->outputs[i], block);
}

static carnot_block* copy_block(copier* c, const carnot_block* from) {
  carnot_block* block = from->owner ? carnot_block_create(c->to) : c->to->main;
  block->params = CARNOT_NEW_ARRAY(&c->to->arena, carnot_value*, from->param_count + 1);
  block->param_capacity = from->param_count;
  for (size_t i = 0; i < from->param_count; i++)
    block->params[block->param_count++] = copy_value(c, from->params[i], block);
  for (const carnot_node* node = from->first; node; node = node->next) copy_node(c, node, block);
  for (size_t i = 0; i < from->output_count; i++)
    carnot_block_add_output(block, copy_value(c, from->outputs[i], block));
  return block;
}

static void copy_syms(carnot_syms* to, const carnot_syms* from) {
  for (size_t i = 0; i < from->count; i++) {
    const carnot_sym_expr* e = &from->items[i];
    if (e->op == CARNOT_SYM_SYMBOL) {
      carnot_sym_new(to, e->name, e->min, e->max);
    } else if (e->op == CARNOT_SYM_F_CONST) {
      double value;
      memcpy(&value, &e->a.bits, sizeof(value));
      carnot_sym_float(to, value);
    } else {
      carnot_sym_intern(to, e->op, e->a, e->b, e->c);
    }
  }
}

carnot_status* carnot_graph_clone(const carnot_graph* graph, carnot_graph** out_graph) {
  CARNOT_TRY(carnot_graph_create(out_graph));
  carnot_graph* to = *out_graph;
  to->name = carnot_arena_text(&to->arena, graph->name, strlen(graph->name));
  to->value_count = graph->value_count;
  to->node_count = graph->node_count;
  copy_syms(&to->syms, &graph->syms);
  copier c = {.to = to};
  void *values, *nodes;
  carnot_status* status =
      carnot_calloc(graph->value_count, sizeof(carnot_value*), "values", &values);
  if (status) goto failed;
  c.values = values;
  status = carnot_calloc(graph->node_count, sizeof(carnot_node*), "nodes", &nodes);
  c.nodes = nodes;
  if (!status) copy_block(&c, graph->main);
  free(values);
  free(nodes);
  if (!status) return NULL;
failed:
  carnot_graph_destroy(to);
  *out_graph = NULL;
  return status;
}
