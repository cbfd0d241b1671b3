// The graph: values, nodes, blocks; inserting, replacing, removing.
#include "ir/graph.h"

#include <stdio.h>
#include <stdlib.h>

carnot_status* carnot_graph_create(carnot_graph** out_graph) {
  *out_graph = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_graph), "a graph", &memory));
  carnot_graph* graph = memory;
  carnot_arena_init(&graph->arena);
  carnot_syms_init(&graph->syms);
  carnot_status* status = carnot_arena_prepare(&graph->arena);
  if (status) {
    carnot_graph_destroy(graph);
    return status;
  }
  graph->name = "";
  graph->main = carnot_block_create(graph);
  *out_graph = graph;
  return NULL;
}

void carnot_graph_destroy(carnot_graph* graph) {
  if (!graph) return;
  carnot_syms_deinit(&graph->syms);
  carnot_arena_deinit(&graph->arena);
  free(graph);
}

carnot_status* carnot_graph_status(const carnot_graph* graph) {
  CARNOT_TRY(carnot_arena_status(&graph->arena));
  return carnot_syms_status(&graph->syms);
}

carnot_status* carnot_graph_end(const carnot_graph* graph, carnot_status* status) {
  return carnot_syms_end(&graph->syms, carnot_arena_end(&graph->arena, status));
}

carnot_block* carnot_block_create(carnot_graph* graph) {
  carnot_block* block = CARNOT_NEW(&graph->arena, carnot_block);
  block->graph = graph;
  return block;
}

// Doubles the arena array |*items| when it is full. False without memory: nothing may be added.
static bool extend(carnot_arena* arena, void** items, size_t count, size_t* capacity, size_t size) {
  if (count < *capacity) return true;
  size_t wanted = *capacity ? *capacity * 2 : 4;
  void* grown = carnot_arena_alloc(arena, wanted, size);
  if (!grown) return false;
  if (count) memcpy(grown, *items, count * size);
  *items = grown;
  *capacity = wanted;
  return true;
}

static carnot_value* new_value(carnot_block* block, const char* name) {
  carnot_graph* graph = block->graph;
  carnot_value* value = CARNOT_NEW(&graph->arena, carnot_value);
  value->id = graph->value_count++;
  value->block = block;
  value->name = name ? carnot_arena_text(&graph->arena, name, strlen(name))
                     : carnot_arena_print(&graph->arena, "(value %u)", value->id);
  value->type = (carnot_type){.kind = CARNOT_VALUE_UNKNOWN, .rank = -1};
  return value;
}

carnot_value* carnot_block_add_param(carnot_block* block, const char* name,
                                     const carnot_type* type) {
  carnot_value* value = new_value(block, name);
  value->type = *type;
  if (extend(&block->graph->arena, (void**)&block->params, block->param_count,
             &block->param_capacity, sizeof(*block->params)))
    block->params[block->param_count++] = value;
  return value;
}

void carnot_block_add_output(carnot_block* block, carnot_value* value) {
  if (!extend(&block->graph->arena, (void**)&block->outputs, block->output_count,
              &block->output_capacity, sizeof(*block->outputs)))
    return;
  block->outputs[block->output_count++] = value;
  value->block_output_count++;
}

void carnot_block_set_output(carnot_block* block, size_t index, carnot_value* value) {
  block->outputs[index]->block_output_count--;
  block->outputs[index] = value;
  value->block_output_count++;
}

// ---- constants ----

static void know_elements(carnot_value* value) {
  const carnot_tensor* t = &value->constant->tensor;
  int64_t count = carnot_tensor_count(t);
  if (!carnot_dtype_is_integer(t->dtype) || count > 64 || !t->data) return;
  carnot_sym* syms = CARNOT_NEW_ARRAY(&value->block->graph->arena, carnot_sym, (size_t)count + 1);
  for (int64_t i = 0; i < count; i++) {
    int64_t v = carnot_load_i64(t->dtype, t->data, (size_t)i);
    syms[i] = carnot_sym_of(carnot_max_i64(-CARNOT_SYM_LIMIT, carnot_min_i64(CARNOT_SYM_LIMIT, v)));
  }
  value->syms = syms;
  value->sym_count = (size_t)count;
}

carnot_value* carnot_graph_constant(carnot_block* block, const char* name,
                                    const carnot_tensor* tensor) {
  carnot_arena* arena = &block->graph->arena;
  carnot_value* value = new_value(block, name);
  value->constant = CARNOT_NEW(arena, carnot_constant);
  value->constant->tensor = *tensor;
  value->constant->name = name ? value->name : NULL;
  value->type =
      (carnot_type){.kind = CARNOT_VALUE_TENSOR, .dtype = tensor->dtype, .rank = tensor->rank};
  for (int i = 0; i < tensor->rank; i++) value->type.dims[i] = carnot_sym_of(tensor->dims[i]);
  know_elements(value);
  return value;
}

carnot_value* carnot_graph_ints(carnot_block* block, const int64_t* values, int count) {
  bool scalar = count < 0;
  if (scalar) count = 1;
  carnot_tensor tensor = {.dtype = CARNOT_DTYPE_I64, .rank = scalar ? 0 : 1, .dims = {count}};
  tensor.data = carnot_arena_copy(&block->graph->arena, values, (size_t)count * sizeof(*values));
  if (!tensor.data) tensor.dims[0] = 0;
  return carnot_graph_constant(block, NULL, &tensor);
}

carnot_value* carnot_graph_float(carnot_block* block, carnot_dtype dtype, double value) {
  carnot_tensor tensor = {.dtype = dtype, .rank = 0};
  tensor.data = carnot_arena_alloc(&block->graph->arena, 1, 16);
  carnot_store_f64(dtype, tensor.data, 0, value);
  return carnot_graph_constant(block, NULL, &tensor);
}

// ---- uses ----

static void add_use(carnot_node* node, int input) {
  carnot_value* value = node->inputs[input];
  if (!value) return;
  if (extend(&node->block->graph->arena, (void**)&value->uses, value->use_count,
             &value->use_capacity, sizeof(*value->uses)))
    value->uses[value->use_count++] = (carnot_use){node, input};
}

static void drop_use(carnot_node* node, int input) {
  carnot_value* value = node->inputs[input];
  if (!value) return;
  for (size_t i = 0; i < value->use_count; i++) {
    if (value->uses[i].node != node || value->uses[i].input != input) continue;
    // The order of uses decides what passes see first: keep it.
    memmove(&value->uses[i], &value->uses[i + 1],
            (value->use_count - i - 1) * sizeof(*value->uses));
    value->use_count--;
    return;
  }
}

void carnot_node_set_input(carnot_node* node, int input, carnot_value* value) {
  drop_use(node, input);
  node->inputs[input] = value;
  add_use(node, input);
}

void carnot_value_replace(carnot_value* from, carnot_value* to) {
  if (!to->forced_dtype && to->type.dtype == from->type.dtype)
    to->forced_dtype = from->forced_dtype;
  carnot_value_keep_range(to, from);
  while (from->use_count) {
    carnot_use use = from->uses[0];
    carnot_node_set_input(use.node, use.input, to);
  }
  if (!from->block_output_count) return;
  carnot_block* block = from->block;
  for (size_t i = 0; i < block->output_count; i++)
    if (block->outputs[i] == from) carnot_block_set_output(block, i, to);
}

// ---- inference ----

static carnot_status* infer_block(carnot_infer* infer, const carnot_attr* body, int input_count,
                                  const carnot_infer_input* inputs, int output_count,
                                  carnot_infer_output* outputs);

static void describe_input(const carnot_value* value, carnot_infer_input* out) {
  *out = (carnot_infer_input){0};
  if (!value) return;
  out->type = &value->type;
  out->syms = value->syms;
  out->sym_count = value->sym_count;
  if (value->constant) out->tensor = &value->constant->tensor;
}

// Takes the type and the elements that infer found for output |value|.
static void take_output(carnot_arena* arena, const carnot_infer_output* output,
                        carnot_value* value) {
  value->type = output->type;
  value->type.element = carnot_type_copy(arena, output->type.element);
  value->syms = NULL;
  value->sym_count = 0;
  if (!output->syms || output->sym_count > 64) return;
  value->syms = carnot_arena_copy(arena, output->syms, output->sym_count * sizeof(carnot_sym));
  value->sym_count = value->syms ? output->sym_count : 0;
}

static carnot_status* infer_in(carnot_arena* scratch, carnot_node* node) {
  carnot_graph* graph = node->block->graph;
  const carnot_op_row* row = carnot_node_row(node);
  void *inputs_memory, *outputs_memory;
  CARNOT_TRY(carnot_arena_try(scratch, (size_t)node->input_count + 1, sizeof(carnot_infer_input),
                              "the inputs of infer", &inputs_memory));
  CARNOT_TRY(carnot_arena_try(scratch, (size_t)node->output_count + 1, sizeof(carnot_infer_output),
                              "the outputs of infer", &outputs_memory));
  carnot_infer_input* inputs = inputs_memory;
  carnot_infer_output* outputs = outputs_memory;
  for (int i = 0; i < node->input_count; i++) describe_input(node->inputs[i], &inputs[i]);
  for (int i = 0; i < node->output_count; i++) {
    outputs[i].type = (carnot_type){.kind = CARNOT_VALUE_UNKNOWN, .rank = -1};
    outputs[i].wanted = node->outputs[i] != NULL;
  }
  carnot_infer infer = {.row = row,
                        .attrs = &node->attrs,
                        .syms = &graph->syms,
                        .arena = scratch,
                        .input_count = node->input_count,
                        .output_count = node->output_count,
                        .inputs = inputs,
                        .outputs = outputs,
                        .infer_block = infer_block,
                        .host = graph};
  CARNOT_TRY(carnot_arena_end(scratch, row->infer(&infer)));
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i]) take_output(&graph->arena, &outputs[i], node->outputs[i]);
  return NULL;
}

static carnot_status* run_infer(carnot_node* node) {
  const carnot_graph* graph = node->block->graph;
  CARNOT_TRY(carnot_graph_status(graph));
  carnot_arena scratch;
  carnot_arena_init(&scratch);
  carnot_status* status = infer_in(&scratch, node);
  carnot_arena_deinit(&scratch);
  return carnot_graph_end(graph, status);
}

// Sets these types on the body's parameters, infers its nodes again and returns the types of its
// results.
static carnot_status* infer_block(carnot_infer* infer, const carnot_attr* body, int input_count,
                                  const carnot_infer_input* inputs, int output_count,
                                  carnot_infer_output* outputs) {
  (void)infer;
  carnot_block* block = body->block;
  CARNOT_CHECK((size_t)input_count == block->param_count, INVALID_MODEL,
               "body %s takes %zu inputs, got %d", body->name, block->param_count, input_count);
  CARNOT_CHECK((size_t)output_count <= block->output_count, INVALID_MODEL,
               "body %s gives %zu outputs, %d wanted", body->name, block->output_count,
               output_count);
  for (int i = 0; i < input_count; i++) {
    carnot_value* param = block->params[i];
    if (!inputs[i].type) continue;
    param->type = *inputs[i].type;
    param->type.element = carnot_type_copy(&block->graph->arena, inputs[i].type->element);
    param->syms = NULL;
    param->sym_count = 0;
    if (!inputs[i].syms) continue;
    param->syms = carnot_arena_copy(&block->graph->arena, inputs[i].syms,
                                    inputs[i].sym_count * sizeof(carnot_sym));
    CARNOT_TRY(carnot_arena_status(&block->graph->arena));
    param->sym_count = inputs[i].sym_count;
  }
  for (carnot_node* node = block->first; node; node = node->next)
    CARNOT_TRY(carnot_node_infer(node));
  for (int i = 0; i < output_count; i++) {
    outputs[i].type = block->outputs[i]->type;
    outputs[i].syms = block->outputs[i]->syms;
    outputs[i].sym_count = block->outputs[i]->sym_count;
  }
  return NULL;
}

carnot_status* carnot_node_infer(carnot_node* node) {
  const char* kind = node->type_name ? node->type_name : carnot_node_row(node)->name;
  CARNOT_TRY_AT(run_infer(node), "node %s (%s)", node->name, kind);
  return NULL;
}

// ---- nodes ----

static carnot_status* check_node(const carnot_op_row* row, const carnot_attrs* attrs,
                                 int input_count, int output_count) {
  CARNOT_CHECK(
      input_count >= row->min_inputs && (row->max_inputs < 0 || input_count <= row->max_inputs),
      INVALID_MODEL, "%s takes %d to %d inputs, got %d", row->name, row->min_inputs,
      row->max_inputs, input_count);
  CARNOT_CHECK(output_count >= row->min_outputs &&
                   (row->max_outputs < 0 || output_count <= row->max_outputs),
               INVALID_MODEL, "%s gives %d to %d outputs, %d wanted", row->name, row->min_outputs,
               row->max_outputs, output_count);
  return carnot_attrs_check(row, attrs);
}

static void adopt_blocks(carnot_node* node) {
  for (size_t i = 0; i < node->attrs.count; i++)
    if (node->attrs.items[i].type == CARNOT_ATTR_BLOCK) node->attrs.items[i].block->owner = node;
}

static carnot_status* new_node(carnot_block* block, carnot_op op, const char* name,
                               const carnot_attrs* attrs, carnot_value* const* inputs,
                               int input_count, const char* const* output_names, int output_count,
                               carnot_node** out_node) {
  carnot_graph* graph = block->graph;
  carnot_arena* arena = &graph->arena;
  CARNOT_TRY(carnot_graph_status(graph));
  carnot_node* node = CARNOT_NEW(arena, carnot_node);
  node->id = node->order = graph->node_count++;
  node->is_unnamed = !name || !name[0];
  node->op = op;
  node->block = block;
  node->name = name && name[0]
                   ? carnot_arena_text(arena, name, strlen(name))
                   : carnot_arena_print(arena, "(%s %u)", carnot_op_get(op)->name, node->id);
  if (attrs && attrs->count) {
    node->attrs.items =
        carnot_arena_copy(arena, attrs->items, attrs->count * sizeof(*attrs->items));
    node->attrs.count = attrs->count;
  }
  node->input_count = input_count;
  node->inputs = CARNOT_NEW_ARRAY(arena, carnot_value*, (size_t)input_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  if (input_count) memcpy(node->inputs, inputs, (size_t)input_count * sizeof(*inputs));
  node->output_count = output_count;
  node->outputs = CARNOT_NEW_ARRAY(arena, carnot_value*, (size_t)output_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (int i = 0; i < output_count; i++) {
    const char* output_name = output_names ? output_names[i] : NULL;
    if (output_name && !output_name[0]) continue;
    node->outputs[i] = new_value(block, output_name);
    node->outputs[i]->producer = node;
    node->outputs[i]->output = i;
    CARNOT_TRY(carnot_arena_status(arena));
  }
  *out_node = node;
  return NULL;
}

// Links |node| before |position|, at the end where that is NULL.
static void link_node(carnot_block* block, carnot_node* node, carnot_node* position) {
  node->next = position;
  node->previous = position ? position->previous : block->last;
  *(node->previous ? &node->previous->next : &block->first) = node;
  *(position ? &position->previous : &block->last) = node;
}

static carnot_status* add_node(carnot_block* block, carnot_node* position, carnot_op op,
                               const char* name, const carnot_attrs* attrs,
                               carnot_value* const* inputs, int input_count,
                               const char* const* output_names, int output_count,
                               carnot_node** out_node) {
  if (out_node) *out_node = NULL;
  static const carnot_attrs kNone = {0};
  const carnot_op_row* row = carnot_op_get(op);
  CARNOT_TRY_AT(check_node(row, attrs ? attrs : &kNone, input_count, output_count), "node %s",
                name ? name : "");
  carnot_node* node;
  CARNOT_TRY(
      new_node(block, op, name, attrs, inputs, input_count, output_names, output_count, &node));
  // What passes put in a node's place answers to the same requests.
  if (position) node->precision = position->precision;
  if (position && strcmp(position->name, node->name) == 0) node->order = position->order;
  adopt_blocks(node);
  CARNOT_TRY(carnot_node_infer(node));
  for (int i = 0; i < input_count; i++) add_use(node, i);
  link_node(block, node, position);
  CARNOT_TRY(carnot_graph_status(block->graph));
  if (out_node) *out_node = node;
  return NULL;
}

carnot_status* carnot_block_add_node(carnot_block* block, carnot_op op, const char* name,
                                     const carnot_attrs* attrs, carnot_value* const* inputs,
                                     int input_count, const char* const* output_names,
                                     int output_count, carnot_node** out_node) {
  return add_node(block, NULL, op, name, attrs, inputs, input_count, output_names, output_count,
                  out_node);
}

carnot_status* carnot_node_insert_before(carnot_node* position, carnot_op op, const char* name,
                                         const carnot_attrs* attrs, carnot_value* const* inputs,
                                         int input_count, int output_count,
                                         carnot_node** out_node) {
  return add_node(position->block, position, op, name, attrs, inputs, input_count, NULL,
                  output_count, out_node);
}

void carnot_node_remove(carnot_node* node) {
  for (int i = 0; i < node->input_count; i++) drop_use(node, i);
  *(node->previous ? &node->previous->next : &node->block->first) = node->next;
  *(node->next ? &node->next->previous : &node->block->last) = node->previous;
  node->next = node->previous = NULL;
}

void carnot_graph_planned_syms(const carnot_graph* graph, bool* out) {
  const carnot_syms* syms = &graph->syms;
  for (size_t i = 0; i < syms->count; i++) out[i] = false;
  for (size_t k = 0; k < graph->main->param_count; k++) {
    const carnot_value* input = graph->main->params[k];
    for (int d = 0; d < input->type.rank; d++)
      if (!carnot_sym_is_const(input->type.dims[d]))
        out[carnot_sym_index(input->type.dims[d])] = true;
    for (size_t i = 0; i < input->sym_count; i++)
      if (!carnot_sym_is_const(input->syms[i])) out[carnot_sym_index(input->syms[i])] = true;
  }
  for (size_t i = 0; i < syms->count; i++) {
    const carnot_sym_expr* e = &syms->items[i];
    if (e->op == CARNOT_SYM_SYMBOL) continue;
    carnot_sym operands[3] = {e->a, e->b, e->c};
    out[i] = true;
    for (int k = 0; k < carnot_sym_arity(e->op); k++)
      out[i] &= carnot_sym_is_const(operands[k]) || out[carnot_sym_index(operands[k])];
  }
}

void carnot_graph_restore_constants(const carnot_graph* graph) {
  for (carnot_source_memory* m = graph->sources; m; m = m->next)
    if (m->has_released) carnot_source_memory_restore(m);
}

void carnot_graph_lend_constants(const carnot_graph* graph) {
  for (carnot_source_memory* m = graph->sources; m; m = m->next) carnot_source_memory_lend(m);
}
