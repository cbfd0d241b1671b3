// Deep copies of graphs.
#include <stdlib.h>

#include "ir/graph.h"

typedef struct copier {
  carnot_graph* to;
  carnot_value** values;  // by the id of the source
  carnot_node** nodes;
} copier;

static carnot_status* copy_block(copier* c, const carnot_block* from, carnot_block** out_block);

static carnot_status* copy_constant(carnot_arena* arena, carnot_value* value) {
  const carnot_constant* from = value->constant;
  // A clone is made before anything is folded, so no constant names a node that made it.
  value->constant = carnot_arena_copy(arena, from, sizeof(*from));
  CARNOT_TRY(carnot_arena_status(arena));
  if (from->name) value->constant->name = carnot_arena_text(arena, from->name, strlen(from->name));
  // Small data may lie in the source's arena and die with it; large data are borrowed as before.
  size_t bytes = carnot_tensor_bytes(&from->tensor);
  if (bytes <= 4096 && from->tensor.data)
    value->constant->tensor.data = carnot_arena_copy(arena, from->tensor.data, bytes);
  return carnot_arena_status(arena);
}

// The copy of |from| in |*out|, made once; NULL stays NULL.
static carnot_status* copy_value(copier* c, const carnot_value* from, carnot_block* block,
                                 carnot_value** out) {
  *out = from ? c->values[from->id] : NULL;
  if (!from || *out) return NULL;
  carnot_arena* arena = &c->to->arena;
  carnot_value* value = CARNOT_NEW(arena, carnot_value);
  CARNOT_TRY(carnot_arena_status(arena));
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
  if (from->constant) CARNOT_TRY(copy_constant(arena, value));
  *out = value;
  return carnot_arena_status(arena);
}

static carnot_status* copy_strings(carnot_arena* arena, carnot_attr* attr) {
  carnot_strview* strings = CARNOT_NEW_ARRAY(arena, carnot_strview, attr->count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (size_t i = 0; i < attr->count; i++) {
    const carnot_strview* from = &attr->strings[i];
    strings[i] = (carnot_strview){carnot_arena_text(arena, from->data, from->size), from->size};
    CARNOT_TRY(carnot_arena_status(arena));
  }
  attr->strings = strings;
  return NULL;
}

static carnot_status* copy_tensor(carnot_arena* arena, carnot_attr* attr) {
  carnot_tensor* tensor = carnot_arena_copy(arena, attr->tensor, sizeof(*attr->tensor));
  CARNOT_TRY(carnot_arena_status(arena));
  tensor->data = carnot_arena_copy(arena, tensor->data, carnot_tensor_bytes(tensor));
  attr->tensor = tensor;
  return carnot_arena_status(arena);
}

static carnot_status* copy_attr(copier* c, const carnot_attr* from, carnot_attr* attr) {
  carnot_arena* arena = &c->to->arena;
  *attr = *from;
  attr->name = carnot_arena_text(arena, from->name, strlen(from->name));
  switch (from->type) {
    case CARNOT_ATTR_STRING:
      attr->s.data = carnot_arena_text(arena, from->s.data, from->s.size);
      break;
    case CARNOT_ATTR_INTS:
      attr->ints = carnot_arena_copy(arena, from->ints, from->count * sizeof(*from->ints));
      break;
    case CARNOT_ATTR_FLOATS:
      attr->floats = carnot_arena_copy(arena, from->floats, from->count * sizeof(*from->floats));
      break;
    case CARNOT_ATTR_SYMS:
      attr->syms = carnot_arena_copy(arena, from->syms, from->count * sizeof(*from->syms));
      break;
    case CARNOT_ATTR_STRINGS: return copy_strings(arena, attr);
    case CARNOT_ATTR_TENSOR: return copy_tensor(arena, attr);
    case CARNOT_ATTR_BLOCK: return copy_block(c, from->block, &attr->block);
    default: break;
  }
  return carnot_arena_status(arena);
}

static carnot_status* copy_attrs(copier* c, const carnot_node* from, carnot_node* node) {
  carnot_arena* arena = &c->to->arena;
  node->attrs.items = CARNOT_NEW_ARRAY(arena, carnot_attr, from->attrs.count + 1);
  node->absorbed = CARNOT_NEW_ARRAY(arena, carnot_part, from->absorbed_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (size_t i = 0; i < from->attrs.count; i++) {
    CARNOT_TRY(copy_attr(c, &from->attrs.items[i], &node->attrs.items[i]));
    if (from->attrs.items[i].type == CARNOT_ATTR_BLOCK) node->attrs.items[i].block->owner = node;
  }
  for (size_t i = 0; i < from->absorbed_count; i++)
    node->absorbed[i] = (carnot_part){
        carnot_arena_text(arena, from->absorbed[i].name, strlen(from->absorbed[i].name)),
        from->absorbed[i].order};
  return NULL;
}

static carnot_status* copy_node(copier* c, const carnot_node* from, carnot_block* block) {
  carnot_arena* arena = &c->to->arena;
  carnot_node* node = CARNOT_NEW(arena, carnot_node);
  CARNOT_TRY(carnot_arena_status(arena));
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
  CARNOT_TRY(copy_attrs(c, from, node));
  node->inputs = CARNOT_NEW_ARRAY(arena, carnot_value*, (size_t)from->input_count + 1);
  node->outputs = CARNOT_NEW_ARRAY(arena, carnot_value*, (size_t)from->output_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  carnot_value* value;
  for (int i = 0; i < from->input_count; i++) {
    if (!from->inputs[i]) continue;
    CARNOT_TRY(copy_value(c, from->inputs[i], block, &value));
    carnot_node_set_input(node, i, value);
  }
  for (int i = 0; i < from->output_count; i++)
    CARNOT_TRY(copy_value(c, from->outputs[i], block, &node->outputs[i]));
  return carnot_arena_status(arena);
}

static carnot_status* copy_block(copier* c, const carnot_block* from, carnot_block** out_block) {
  carnot_arena* arena = &c->to->arena;
  carnot_block* block = from->owner ? carnot_block_create(c->to) : c->to->main;
  CARNOT_TRY(carnot_arena_status(arena));
  block->params = CARNOT_NEW_ARRAY(arena, carnot_value*, from->param_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  block->param_capacity = from->param_count;
  for (size_t i = 0; i < from->param_count; i++)
    CARNOT_TRY(copy_value(c, from->params[i], block, &block->params[block->param_count++]));
  for (const carnot_node* node = from->first; node; node = node->next)
    CARNOT_TRY(copy_node(c, node, block));
  for (size_t i = 0; i < from->output_count; i++) {
    carnot_value* value;
    CARNOT_TRY(copy_value(c, from->outputs[i], block, &value));
    carnot_block_add_output(block, value);
  }
  *out_block = block;
  return carnot_arena_status(arena);
}

// Stops at the first failure: operands are handles of the entries before.
static carnot_status* copy_syms(carnot_syms* to, const carnot_syms* from) {
  for (size_t i = 0; i < from->count && !to->failed; i++) {
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
  return carnot_syms_status(to);
}

carnot_status* carnot_graph_clone(const carnot_graph* graph, carnot_graph** out_graph) {
  CARNOT_TRY(carnot_graph_create(out_graph));
  carnot_graph* to = *out_graph;
  to->name = carnot_arena_text(&to->arena, graph->name, strlen(graph->name));
  to->value_count = graph->value_count;
  to->node_count = graph->node_count;
  to->sources = graph->sources;
  copier c = {.to = to};
  void *values = NULL, *nodes = NULL;
  carnot_status* status = copy_syms(&to->syms, &graph->syms);
  if (!status) status = carnot_calloc(graph->value_count, sizeof(carnot_value*), "values", &values);
  if (!status) status = carnot_calloc(graph->node_count, sizeof(carnot_node*), "nodes", &nodes);
  c.values = values;
  c.nodes = nodes;
  carnot_block* main;
  if (!status) status = copy_block(&c, graph->main, &main);
  status = carnot_graph_end(to, status);
  free(values);
  free(nodes);
  if (!status) return NULL;
  carnot_graph_destroy(to);
  *out_graph = NULL;
  return status;
}
