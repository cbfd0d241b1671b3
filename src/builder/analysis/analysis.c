// Converts the graph's nodes to the plan's form and collects the facts that selection needs.
#include "builder/analysis/analysis.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct analyser {
  carnot_builder* builder;
  carnot_analysis* out;
  uint32_t* local;  // by value id: local value + 1 of the region at hand; 0 for all other values
} analyser;

static const carnot_attr* body_of(const carnot_node* node) {
  return node->op == CARNOT_OP_REGION ? carnot_attrs_find(&node->attrs, "body") : NULL;
}

static uint32_t count_outputs(const carnot_node* node) {
  uint32_t count = 0;
  for (int i = 0; i < node->output_count; i++) count += node->outputs[i] != NULL;
  return count;
}

// ---- one region ----

static carnot_status* add_node(analyser* a, const carnot_node* node, carnot_region_facts* f,
                               carnot_plan_node* out) {
  carnot_arena* arena = a->builder->memory;
  *out = (carnot_plan_node){.op = node->op,
                            .name = node->name,
                            .attrs = node->attrs,
                            .input_count = (uint32_t)node->input_count,
                            .output_count = (uint32_t)node->output_count};
  uint32_t* inputs = CARNOT_NEW_ARRAY(arena, uint32_t, out->input_count + 1);
  uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, out->output_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    CARNOT_CHECK(!value || a->local[value->id], INTERNAL,
                 "node %s reads %s, which its region does not hold", node->name, value->name);
    inputs[i] = value ? a->local[value->id] - 1 : CARNOT_PLAN_NONE;
  }
  for (int i = 0; i < node->output_count; i++) {
    outputs[i] = CARNOT_PLAN_NONE;
    if (!node->outputs[i]) continue;
    f->inner[f->region.value_count - f->input_count] = node->outputs[i];
    outputs[i] = f->region.value_count++;
    a->local[node->outputs[i]->id] = f->region.value_count;
  }
  out->inputs = inputs;
  out->outputs = outputs;
  return NULL;
}

static carnot_status* fill_region(analyser* a, carnot_region_facts* f) {
  carnot_arena* arena = a->builder->memory;
  const carnot_node* node = f->node;
  const carnot_attr* body = body_of(node);
  const carnot_node* first = body ? body->block->first : node;
  uint32_t value_count = 0;
  for (const carnot_node* n = first; n; n = body ? n->next : NULL) {
    f->region.node_count++;
    value_count += count_outputs(n);
  }
  f->region.nodes = CARNOT_NEW_ARRAY(arena, carnot_plan_node, f->region.node_count);
  f->inner = CARNOT_NEW_ARRAY(&a->builder->facts, const carnot_value*, value_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  CARNOT_TRY(carnot_arena_status(&a->builder->facts));
  f->region.value_count = f->input_count;
  uint32_t at = 0;
  for (const carnot_node* n = first; n; n = body ? n->next : NULL)
    CARNOT_TRY(add_node(a, n, f, &f->region.nodes[at++]));
  uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, (uint32_t)node->output_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (int i = 0; i < node->output_count; i++) {
    const carnot_value* value = body ? body->block->outputs[i] : node->outputs[i];
    if (!node->outputs[i]) continue;
    outputs[f->region.output_count++] = a->local[value->id] - 1;
    f->outputs[f->output_count++] = node->outputs[i];
  }
  f->region.outputs = outputs;
  return NULL;
}

enum { kMostParts = 8 };

// A node alone keeps its name. Of more than 8 parts the first seven and the last are named and the
// others counted: the last one makes the result.
static carnot_status* name_region(const carnot_builder* builder, carnot_region_facts* f) {
  const carnot_attr* body = body_of(f->node);
  size_t count, size = 32, at = 0;
  const char** parts = carnot_node_part_names(f->node, body ? body->block : NULL, &count);
  CARNOT_TRY(carnot_graph_status(builder->graph));
  f->name = count ? parts[0] : f->node->name;
  if (count < 2) return NULL;
  size_t hidden = count > kMostParts ? count - kMostParts : 0;
  for (size_t i = 0; i < count; i++) size += strlen(parts[i]) + 3;
  char* name = CARNOT_NEW_ARRAY(builder->memory, char, size);
  CARNOT_TRY(carnot_arena_status(builder->memory));
  for (size_t i = 0; i < count; i++) {
    bool is_hidden = hidden && i >= kMostParts - 1 && i + 1 < count;
    if (!is_hidden)
      at += (size_t)snprintf(name + at, size - at, "%s%s", i ? " + " : "", parts[i]);
    else if (i == kMostParts - 1)
      at += (size_t)snprintf(name + at, size - at, " + %zu more", hidden);
  }
  f->name = name;
  return NULL;
}

// The values that |f| reads and makes are local no more.
static void forget_locals(analyser* a, const carnot_region_facts* f, const carnot_attr* body) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const carnot_value* inner = body ? body->block->params[i] : f->inputs[i];
    if (inner) a->local[inner->id] = 0;
  }
  for (uint32_t i = 0; i < f->region.value_count - f->input_count; i++)
    a->local[f->inner[i]->id] = 0;
}

static carnot_status* read_node(analyser* a, carnot_node* node, carnot_region_facts* f) {
  carnot_arena* arena = &a->builder->facts;
  f->node = node;
  f->input_count = (uint32_t)node->input_count;
  f->inputs = CARNOT_NEW_ARRAY(arena, carnot_value*, f->input_count + 1);
  f->outputs = CARNOT_NEW_ARRAY(arena, carnot_value*, (uint32_t)node->output_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  const carnot_attr* body = body_of(node);
  for (uint32_t i = 0; i < f->input_count; i++) {
    f->inputs[i] = node->inputs[i];
    const carnot_value* inner = body ? body->block->params[i] : node->inputs[i];
    if (inner) a->local[inner->id] = i + 1;
  }
  CARNOT_TRY(fill_region(a, f));
  forget_locals(a, f, body);
  for (uint32_t i = 0; i < f->region.node_count; i++)
    f->has_control_flow |= (carnot_op_get(f->region.nodes[i].op)->flags & CARNOT_OP_CONTROL) != 0;
  return NULL;
}

// ---- blocks ----

static carnot_status* read_block(analyser* a, carnot_block* block, uint32_t* out_index);

static uint32_t count_bodies(const carnot_region* region) {
  uint32_t count = 0;
  for (uint32_t n = 0; n < region->node_count; n++)
    for (size_t i = 0; i < region->nodes[n].attrs.count; i++)
      count += region->nodes[n].attrs.items[i].type == CARNOT_ATTR_BLOCK;
  return count;
}

// Bodies become blocks of the plan; the attributes that hold them get the block's index.
static carnot_status* read_bodies(analyser* a, uint32_t region) {
  carnot_arena* arena = a->builder->memory;
  carnot_region_facts* f = &a->out->regions[region];
  uint32_t* bodies = CARNOT_NEW_ARRAY(arena, uint32_t, count_bodies(&f->region) + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  f->bodies = bodies;
  for (uint32_t n = 0; n < f->region.node_count; n++) {
    carnot_attrs* attrs = &f->region.nodes[n].attrs;
    bool copied = false;
    for (size_t i = 0; i < attrs->count; i++) {
      if (attrs->items[i].type != CARNOT_ATTR_BLOCK) continue;
      if (!copied)
        attrs->items = carnot_arena_copy(arena, attrs->items, attrs->count * sizeof(*attrs->items));
      CARNOT_TRY(carnot_arena_status(arena));
      copied = true;
      uint32_t* index = &bodies[f->body_count++];
      CARNOT_TRY(read_block(a, attrs->items[i].block, index));
      attrs->items[i].block_index = *index;
    }
  }
  return NULL;
}

static carnot_status* read_region(analyser* a, carnot_node* node, uint32_t block,
                                  uint32_t* out_index) {
  carnot_analysis* out = a->out;
  uint32_t index = *out_index = out->region_count++;
  carnot_region_facts* f = &out->regions[index];
  f->block = block;
  CARNOT_TRY(read_node(a, node, f));
  CARNOT_TRY(name_region(a->builder, f));
  f->is_shape_step = carnot_region_is_shape_step(a->builder, out, f);
  f->is_data_dependent = carnot_region_is_data_dependent(a->builder, f);
  return read_bodies(a, index);
}

static carnot_status* read_block(analyser* a, carnot_block* block, uint32_t* out_index) {
  uint32_t index = *out_index = a->out->block_count++, count = 0;
  for (const carnot_node* n = block->first; n; n = n->next) count++;
  uint32_t* regions = CARNOT_NEW_ARRAY(&a->builder->facts, uint32_t, count + 1);
  CARNOT_TRY(carnot_arena_status(&a->builder->facts));
  a->out->blocks[index] =
      (carnot_block_facts){.block = block, .region_count = count, .regions = regions};
  uint32_t at = 0;
  for (carnot_node* n = block->first; n; n = n->next)
    CARNOT_TRY_AT(read_region(a, n, index, &regions[at++]), "node %s", n->name);
  return NULL;
}

static void count_nodes(const carnot_block* block, uint32_t* blocks, uint32_t* nodes) {
  (*blocks)++;
  for (const carnot_node* node = block->first; node; node = node->next) {
    (*nodes)++;
    for (size_t i = 0; i < node->attrs.count; i++)
      if (node->attrs.items[i].type == CARNOT_ATTR_BLOCK)
        count_nodes(node->attrs.items[i].block, blocks, nodes);
  }
}

carnot_status* carnot_analyse(carnot_builder* builder, carnot_analysis* out) {
  const carnot_block* main = builder->graph->main;
  uint32_t block_count = 0, region_count = 0, index;
  count_nodes(main, &block_count, &region_count);
  *out = (carnot_analysis){.value_count = builder->graph->value_count + 1};
  void *regions, *blocks, *shapes;
  CARNOT_TRY(carnot_arena_try(&builder->facts, region_count + 1, sizeof(*out->regions), "regions",
                              &regions));
  CARNOT_TRY(
      carnot_arena_try(&builder->facts, block_count, sizeof(*out->blocks), "blocks", &blocks));
  CARNOT_TRY(
      carnot_arena_try(&builder->facts, out->value_count, sizeof(bool), "shape values", &shapes));
  out->regions = regions;
  out->blocks = blocks;
  out->is_shape_value = shapes;
  for (size_t i = 0; i < main->param_count; i++)
    out->is_shape_value[main->params[i]->id] = builder->shape_inputs[i];
  void* local;
  CARNOT_TRY(carnot_calloc(out->value_count, sizeof(uint32_t), "local values", &local));
  analyser a = {.builder = builder, .out = out, .local = local};
  carnot_status* status = read_block(&a, builder->graph->main, &index);
  free(local);
  return status;
}

size_t carnot_analysis_weight_bytes(const carnot_analysis* analysis) {
  size_t total = 0;
  for (uint32_t r = 0; r < analysis->region_count; r++)
    for (uint32_t i = 0; i < analysis->regions[r].input_count; i++) {
      const carnot_value* value = analysis->regions[r].inputs[i];
      if (!value || !value->constant) continue;
      const carnot_tensor* t = &value->constant->tensor;
      total += (size_t)carnot_tensor_count(t) * (size_t)carnot_dtype_bits(t->dtype) / 8;
    }
  return total;
}
