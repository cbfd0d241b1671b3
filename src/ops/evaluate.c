// The interpreter: runs blocks node by node with reference kernels.
#include "ops/evaluate.h"

#include <stdlib.h>

static carnot_status* store_alloc(const carnot_call_host* host, size_t bytes, void** out_memory) {
  carnot_evaluator* evaluator = (carnot_evaluator*)host;
  char* memory;
  CARNOT_CHECK(bytes <= SIZE_MAX - 64, OUT_OF_RANGE, "%zu bytes for a value are too many", bytes);
  CARNOT_TRY(carnot_arena_try(&evaluator->store, bytes + 64, 1, "a value", (void**)&memory));
  *out_memory = (void*)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
  return NULL;
}

static carnot_status* run_body(const carnot_call_host* host, const carnot_attr* body,
                               int input_count, const carnot_rt_value* const* inputs,
                               int output_count, carnot_rt_value* outputs) {
  return carnot_evaluate_block((carnot_evaluator*)host, body->block, input_count, inputs,
                               output_count, outputs);
}

carnot_status* carnot_evaluator_init(carnot_evaluator* evaluator, const carnot_graph* graph,
                                     struct carnot_executor* executor, uint64_t seed) {
  memset(evaluator, 0, sizeof(*evaluator));
  evaluator->host = (carnot_call_host){
      .alloc = store_alloc, .run_block = run_body, .executor = executor, .seed = seed};
  carnot_infer_scratch_init(&evaluator->scratch);
  evaluator->cell_count = graph->value_count;
  void* cells = NULL;
  carnot_status* status = carnot_arena_prepare(&evaluator->store);
  if (!status)
    status = carnot_calloc(evaluator->cell_count, sizeof(carnot_rt_value*),
                           "the interpreter's values", &cells);
  evaluator->cells = cells;
  if (status) carnot_evaluator_deinit(evaluator);
  return status;
}

void carnot_evaluator_deinit(carnot_evaluator* evaluator) {
  carnot_infer_scratch_deinit(&evaluator->scratch);
  carnot_arena_deinit(&evaluator->store);
  free(evaluator->cells);
  evaluator->cells = NULL;
}

static const carnot_rt_value* cell_of(carnot_evaluator* evaluator, const carnot_value* value) {
  if (!value) return NULL;
  if (value->constant && !evaluator->cells[value->id]) {
    carnot_rt_value* cell = CARNOT_NEW(&evaluator->store, carnot_rt_value);
    cell->kind = CARNOT_VALUE_TENSOR;
    cell->tensor = value->constant->tensor;
    evaluator->cells[value->id] = cell;
  }
  return evaluator->cells[value->id];
}

carnot_status* carnot_evaluate_node(carnot_evaluator* evaluator, const carnot_node* node,
                                    carnot_rt_value* const* outputs) {
  const carnot_rt_value** inputs =
      CARNOT_NEW_ARRAY(&evaluator->store, const carnot_rt_value*, (size_t)node->input_count + 1);
  CARNOT_TRY(carnot_arena_status(&evaluator->store));
  for (int i = 0; i < node->input_count; i++) {
    inputs[i] = cell_of(evaluator, node->inputs[i]);
    CARNOT_CHECK(inputs[i] || !node->inputs[i], INTERNAL, "node %s: input %s has no value",
                 node->name, node->inputs[i]->name);
  }
  carnot_host_next_draw(&evaluator->host, carnot_node_row(node));
  CARNOT_TRY_AT(
      carnot_execute(&evaluator->scratch, carnot_node_row(node), &node->attrs, &evaluator->host,
                     node->input_count, inputs, node->output_count, outputs),
      "node %s (%s)", node->name, node->type_name ? node->type_name : carnot_node_row(node)->name);
  return NULL;
}

carnot_status* carnot_evaluate_block(carnot_evaluator* evaluator, const carnot_block* block,
                                     int input_count, const carnot_rt_value* const* inputs,
                                     int output_count, carnot_rt_value* outputs) {
  CARNOT_CHECK(
      (size_t)input_count == block->param_count && (size_t)output_count <= block->output_count,
      INVALID_MODEL, "a body takes %zu inputs and gives %zu outputs, called with %d and %d",
      block->param_count, block->output_count, input_count, output_count);
  carnot_arena* store = &evaluator->store;
  for (int i = 0; i < input_count; i++) {
    carnot_rt_value* copy = NULL;
    if (inputs[i]) copy = carnot_arena_copy(store, inputs[i], sizeof(*copy));
    CARNOT_TRY(carnot_arena_status(store));
    evaluator->cells[block->params[i]->id] = copy;
  }
  for (const carnot_node* node = block->first; node; node = node->next) {
    carnot_rt_value** results =
        CARNOT_NEW_ARRAY(store, carnot_rt_value*, (size_t)node->output_count + 1);
    CARNOT_TRY(carnot_arena_status(store));
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i]) results[i] = CARNOT_NEW(store, carnot_rt_value);
    CARNOT_TRY(carnot_evaluate_node(evaluator, node, results));
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i]) evaluator->cells[node->outputs[i]->id] = results[i];
  }
  for (int i = 0; i < output_count; i++) {
    const carnot_rt_value* cell = cell_of(evaluator, block->outputs[i]);
    CARNOT_CHECK(cell, INTERNAL, "result %s has no value", block->outputs[i]->name);
    outputs[i] = *cell;
  }
  return NULL;
}
