// Constant folding: computes nodes whose inputs are all constant by their reference kernels, and
// values whose elements are known as plain integers.
#include "ops/evaluate.h"
#include "pass/pass.h"
#include "pass/quantized_region.h"

// A result may be this much larger than what it is made of: a weight that a model makes by
// ConstantOfShape is worth it.
enum { kMaxGrowthBytes = 64 << 20 };

// Made from weights that the user may change: refit must know how.
static bool from_weights(const carnot_node* node) {
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    if (value && (value->constant->name || value->constant->made_by)) return true;
  }
  return false;
}

static bool foldable(const carnot_node* node) {
  const carnot_op_row* row = carnot_node_row(node);
  if (row->flags & (CARNOT_OP_RANDOM | CARNOT_OP_CONTROL | CARNOT_OP_SIDE_EFFECT)) return false;
  if (node->op == CARNOT_OP_REGION) return false;
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    if (!value) continue;
    if (!value->constant || !value->constant->tensor.data) return false;
  }
  return true;
}

static bool worth_it(const carnot_node* node, const carnot_rt_value* const* results) {
  size_t in = 0, out = 0;
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i]) in += carnot_tensor_bytes(&node->inputs[i]->constant->tensor);
  for (int i = 0; i < node->output_count; i++) {
    if (!node->outputs[i]) continue;
    if (results[i]->kind != CARNOT_VALUE_TENSOR) return false;
    out += carnot_tensor_bytes(&results[i]->tensor);
  }
  return out <= 2 * in + kMaxGrowthBytes;
}

// Takes the data over into the graph's arena.
static carnot_status* make_constant(carnot_block* block, const carnot_tensor* tensor,
                                    carnot_value** out) {
  carnot_tensor copy = *tensor;
  size_t bytes = carnot_tensor_bytes(tensor);
  CARNOT_TRY(
      carnot_arena_try(&block->graph->arena, bytes + 64, 1, "a folded constant", &copy.data));
  copy.data = (void*)(((uintptr_t)copy.data + 63) & ~(uintptr_t)63);
  memcpy(copy.data, tensor->data, bytes);
  if (tensor->dtype == CARNOT_DTYPE_STRING) {
    carnot_strview* views = copy.data;
    for (int64_t i = 0; i < carnot_tensor_count(tensor); i++)
      views[i].data = carnot_arena_text(&block->graph->arena, views[i].data, views[i].size);
  }
  *out = carnot_graph_constant(block, NULL, &copy);
  return NULL;
}

static carnot_status* fold_in(carnot_evaluator* evaluator, carnot_node* node,
                              const carnot_pass_options* options, bool* out_folded) {
  carnot_rt_value** results =
      CARNOT_NEW_ARRAY(&evaluator->store, carnot_rt_value*, (size_t)node->output_count + 1);
  CARNOT_TRY(carnot_arena_status(&evaluator->store));
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i]) results[i] = CARNOT_NEW(&evaluator->store, carnot_rt_value);
  CARNOT_TRY(carnot_arena_status(&evaluator->store));
  carnot_status* status = carnot_evaluate_node(evaluator, node, results);
  *out_folded = !status && worth_it(node, (const carnot_rt_value* const*)results);
  for (int i = 0; *out_folded && !status && i < node->output_count; i++) {
    if (!node->outputs[i]) continue;
    carnot_value* constant;
    status = make_constant(node->block, &results[i]->tensor, &constant);
    if (status) break;
    if (options->refit && from_weights(node)) {
      constant->constant->made_by = node;
      constant->constant->made_output = i;
    }
    carnot_value_replace(node->outputs[i], constant);
  }
  return status;
}

static carnot_status* fold_node(carnot_node* node, const carnot_pass_options* options,
                                bool* out_folded) {
  carnot_evaluator evaluator;
  CARNOT_TRY(carnot_evaluator_init(&evaluator, node->block->graph, options->executor, 1));
  carnot_status* status = fold_in(&evaluator, node, options, out_folded);
  carnot_evaluator_deinit(&evaluator);
  return status;
}

// Small integer tensors whose elements infer knows as plain integers.
static bool fold_known(carnot_node* node) {
  if (carnot_node_row(node)->flags & (CARNOT_OP_RANDOM | CARNOT_OP_SIDE_EFFECT)) return false;
  bool all = node->output_count > 0;
  for (int i = 0; all && i < node->output_count; i++) {
    const carnot_value* value = node->outputs[i];
    if (!value) continue;
    all = value->syms && value->type.rank >= 0 && carnot_dtype_is_integer(value->type.dtype);
    for (int d = 0; all && d < value->type.rank; d++)
      all = carnot_sym_is_const(value->type.dims[d]);
    for (size_t e = 0; all && e < value->sym_count; e++) all = carnot_sym_is_const(value->syms[e]);
  }
  if (!all) return false;
  for (int i = 0; i < node->output_count; i++) {
    carnot_value* value = node->outputs[i];
    if (!value) continue;
    carnot_tensor tensor = {.dtype = value->type.dtype, .rank = value->type.rank};
    for (int d = 0; d < tensor.rank; d++) tensor.dims[d] = value->type.dims[d].bits;
    if ((size_t)carnot_tensor_count(&tensor) != value->sym_count) return false;
    tensor.data = carnot_arena_alloc(&node->block->graph->arena, value->sym_count + 1, 8);
    for (size_t e = 0; e < value->sym_count; e++) {
      int64_t element = value->syms[e].bits;
      // The plain range stops at ±2^62, which means "no limit".
      if (element == CARNOT_SYM_LIMIT) element = INT64_MAX;
      if (element == -CARNOT_SYM_LIMIT) element = INT64_MIN;
      carnot_store_i64(tensor.dtype, tensor.data, e, element);
    }
    carnot_value_replace(value, carnot_graph_constant(node->block, NULL, &tensor));
  }
  return true;
}

// Dequantized weights of an anchor whose other operand is dequantized, too.
static carnot_node* quantized_reader(const carnot_node* node) {
  if (node->op != CARNOT_OP_DEQUANTIZE_LINEAR) return NULL;
  const carnot_value* value = node->outputs[0];
  for (size_t i = 0; i < value->use_count; i++)
    if (value->uses[i].input == 1 && carnot_is_quantized_anchor(value->uses[i].node))
      return value->uses[i].node;
  return NULL;
}

// Weights that a kernel may take as integers.
static bool may_stay(const carnot_node* node) {
  return quantized_reader(node) || carnot_weights_reader(node);
}

static carnot_status* fold_block(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (may_stay(node)) continue;
    bool folded = fold_known(node);
    if (!folded && foldable(node)) CARNOT_TRY(fold_node(node, options, &folded));
    if (folded) carnot_node_remove(node);
  }
  return NULL;
}

// Gives each MatMul and Gemm that a kernel takes with its integer weights a dequantize node of its
// own, so that what else reads the weights can be folded.
static carnot_status* separate_weights(carnot_block* block, void* user) {
  carnot_node* nodes[4];
  int count;
  for (carnot_node* node = block->first; node; node = node->next)
    CARNOT_TRY(carnot_take_weights(user, node, nodes, &count));
  return NULL;
}

static carnot_status* stays_integer(const carnot_pass_options* options, const carnot_node* node,
                                    bool* out) {
  carnot_node *nodes[4], *reader = quantized_reader(node);
  int count = 0;
  *out = false;
  if (reader) CARNOT_TRY(carnot_accepts_quantized(options, reader, out));
  reader = carnot_weights_reader(node);
  if (*out || !reader) return NULL;
  CARNOT_TRY(carnot_take_weights(options, reader, nodes, &count));
  *out = count > 0;
  return NULL;
}

// Weights that a kernel takes as integers stay integers. Its other operands must be folded before
// it is asked.
static carnot_status* fold_weights(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    bool stays, folded = false;
    if (!may_stay(node) || !foldable(node)) continue;
    CARNOT_TRY(stays_integer(options, node, &stays));
    if (!stays) CARNOT_TRY(fold_node(node, options, &folded));
    if (folded) carnot_node_remove(node);
  }
  return NULL;
}

carnot_status* carnot_pass_constant_folding(carnot_graph* graph,
                                            const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, fold_block, (void*)options));
  CARNOT_TRY(carnot_each_block(graph->main, separate_weights, (void*)options));
  CARNOT_TRY(carnot_each_block(graph->main, fold_weights, (void*)options));
  // What reads the weights that were folded.
  return carnot_each_block(graph->main, fold_block, (void*)options);
}
