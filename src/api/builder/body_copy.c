// Copies of the bodies of control flow within one graph.
#include <stdlib.h>

#include "api/builder/network.h"

typedef struct body_copier {
  carnot_block* to;
  const carnot_block* from;
  carnot_value** values;  // by id of the value in |from|
} body_copier;

static carnot_value* copy_of(body_copier* c, carnot_value* value) {
  if (!value) return NULL;
  carnot_value** copy = &c->values[value->id];
  if (!*copy && value->constant) {
    *copy = carnot_graph_constant(c->to, NULL, &value->constant->tensor);
    (*copy)->constant->name = value->constant->name;
  }
  return *copy;
}

static carnot_status* copy_node(body_copier* c, const carnot_node* node) {
  carnot_graph* graph = c->to->graph;
  carnot_attrs attrs;
  CARNOT_TRY(carnot_copy_bodies(graph, &node->attrs, &attrs));
  carnot_value** inputs =
      CARNOT_NEW_ARRAY(&graph->arena, carnot_value*, (size_t)node->input_count + 1);
  CARNOT_TRY(carnot_arena_status(&graph->arena));
  for (int i = 0; i < node->input_count; i++) inputs[i] = copy_of(c, node->inputs[i]);
  carnot_node* made;
  CARNOT_TRY(carnot_block_add_node(c->to, node->op, node->name, &attrs, inputs, node->input_count,
                                   NULL, node->output_count, &made));
  made->type_name = node->type_name;
  made->precision = node->precision;
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i]) c->values[node->outputs[i]->id] = made->outputs[i];
  return NULL;
}

static carnot_status* copy_block(body_copier* c) {
  for (size_t i = 0; i < c->from->param_count; i++) {
    const carnot_value* param = c->from->params[i];
    carnot_value* copy = carnot_block_add_param(c->to, NULL, &param->type);
    copy->syms = param->syms;
    copy->sym_count = param->sym_count;
    c->values[param->id] = copy;
  }
  for (const carnot_node* node = c->from->first; node; node = node->next)
    CARNOT_TRY(copy_node(c, node));
  for (size_t i = 0; i < c->from->output_count; i++)
    carnot_block_add_output(c->to, copy_of(c, c->from->outputs[i]));
  return NULL;
}

carnot_status* carnot_copy_bodies(carnot_graph* graph, const carnot_attrs* attrs,
                                  carnot_attrs* out) {
  *out = (carnot_attrs){0};
  for (size_t i = 0; i < attrs->count; i++) {
    carnot_attr attr = attrs->items[i];
    if (attr.type == CARNOT_ATTR_BLOCK) {
      void* values;
      CARNOT_TRY(carnot_calloc(graph->value_count, sizeof(carnot_value*), "a body", &values));
      body_copier c = {carnot_block_create(graph), attr.block, values};
      carnot_status* status = copy_block(&c);
      free(values);
      if (status) return status;
      attr.block = c.to;
    }
    carnot_attrs_set(out, &graph->arena, attr);
  }
  return NULL;
}
