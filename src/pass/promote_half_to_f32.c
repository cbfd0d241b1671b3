// Promotes FP16 and BF16 networks to FP32 on the CPU.
//
// Nodes on half-precision values read FP32 copies of their operands. A value is rounded to its half
// type where a reader needs that type: results, casts, quantization, control flow. Declared types
// of inputs and results stay. Results differ from rounding after each operator only by being closer
// to the exact ones.
#include "pass/cast_cache.h"

static bool is_half(const carnot_value* value) {
  return value && value->type.kind == CARNOT_VALUE_TENSOR &&
         (value->type.dtype == CARNOT_DTYPE_F16 || value->type.dtype == CARNOT_DTYPE_BF16);
}

static bool may_promote(const carnot_node* node) {
  if (!carnot_op_has_trait(node->op, CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_MOVES_DATA))
    return false;
  bool any = false;
  for (int i = 0; i < node->output_count; i++) any |= is_half(node->outputs[i]);
  for (int i = 0; i < node->input_count; i++) any |= is_half(node->inputs[i]);
  return any;
}

static carnot_status* promote_node(carnot_cast_cache* cache, carnot_node* node) {
  carnot_value** inputs =
      CARNOT_NEW_ARRAY(&node->block->graph->arena, carnot_value*, (size_t)node->input_count + 1);
  CARNOT_TRY(carnot_arena_status(&node->block->graph->arena));
  for (int i = 0; i < node->input_count; i++) {
    inputs[i] = node->inputs[i];
    if (is_half(inputs[i]))
      CARNOT_TRY(
          carnot_cast_cache_get_or_insert(cache, node, inputs[i], CARNOT_DTYPE_F32, &inputs[i]));
  }
  return carnot_cast_cache_replace_node(cache, node, inputs, NULL);
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  carnot_cast_cache cache;
  CARNOT_TRY(carnot_cast_cache_init(block->graph, &cache));
  carnot_status* status = NULL;
  for (carnot_node *node = block->first, *next; node && !status; node = next) {
    next = node->next;
    if (may_promote(node)) status = promote_node(&cache, node);
  }
  carnot_cast_cache_deinit(&cache);
  return status;
}

carnot_status* carnot_pass_promote_half_to_f32(carnot_graph* graph,
                                               const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  CARNOT_TRY(carnot_pass_dce(graph, options));
  return carnot_pass_constant_folding(graph, options);
}
