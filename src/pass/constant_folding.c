// Constant folding: computes nodes whose inputs are all constant by their reference kernels, and
// values whose elements are known as plain integers. What reads a constant that arose is inferred
// again: it may know more sizes now.
#include "ops/evaluate.h"
#include "pass/pass.h"
#include "pass/quantized_region.h"

// A result may be this much larger than what it is made of: a weight that a model makes by
// ConstantOfShape is worth it.
enum { kMaxGrowthBytes = 64 << 20 };

// One sweep over the graph.
typedef struct folding {
  const carnot_pass_options* options;
  bool* stale;      // by node id: an input changed since the node was inferred
  bool is_changed;  // a body was inferred again: it may hold more to fold
} folding;

// The readers of |value| are inferred again when the sweep comes to them; for a reader in a body,
// the node of the block of |value| that holds it.
static void mark_readers(folding* f, const carnot_value* value) {
  for (size_t i = 0; i < value->use_count; i++) {
    const carnot_node* node = value->uses[i].node;
    while (node->block != value->block && node->block->owner) node = node->block->owner;
    f->stale[node->id] = true;
  }
}

static void replace_by_constant(folding* f, carnot_value* value, carnot_value* constant) {
  mark_readers(f, value);
  carnot_value_replace(value, constant);
}

static bool same_elements(const carnot_value* a, const carnot_value* b) {
  if (!a->syms || !b->syms) return !a->syms && !b->syms;
  if (a->sym_count != b->sym_count) return false;
  for (size_t i = 0; i < a->sym_count; i++)
    if (!carnot_sym_same(a->syms[i], b->syms[i])) return false;
  return true;
}

static carnot_status* infer_again(folding* f, carnot_node* node) {
  if (!f->stale[node->id]) return NULL;
  f->stale[node->id] = false;
  if (node->op == CARNOT_OP_REGION) return NULL;
  carnot_value* before;
  void* memory;
  CARNOT_TRY(carnot_arena_try(&node->block->graph->arena, (size_t)node->output_count + 1,
                              sizeof(carnot_value), "types before folding", &memory));
  before = memory;
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i]) before[i] = *node->outputs[i];
  CARNOT_TRY(carnot_node_infer(node));
  for (int i = 0; i < node->output_count; i++) {
    const carnot_value* now = node->outputs[i];
    if (now && !(carnot_same_dims(&before[i].type, &now->type) && same_elements(&before[i], now)))
      mark_readers(f, now);
  }
  if (carnot_node_row(node)->flags & CARNOT_OP_CONTROL) f->is_changed = true;
  return NULL;
}

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

static carnot_status* fold_in(folding* f, carnot_evaluator* evaluator, carnot_node* node,
                              bool* out_folded) {
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
    if (f->options->refit && from_weights(node)) {
      constant->constant->made_by = node;
      constant->constant->made_output = i;
    }
    replace_by_constant(f, node->outputs[i], constant);
  }
  return status;
}

static carnot_status* fold_node(folding* f, carnot_node* node, bool* out_folded) {
  carnot_evaluator evaluator;
  CARNOT_TRY(carnot_evaluator_init(&evaluator, node->block->graph, f->options->executor, 1));
  carnot_status* status = fold_in(f, &evaluator, node, out_folded);
  carnot_evaluator_deinit(&evaluator);
  return status;
}

// Small integer tensors whose elements infer knows as plain integers.
static bool fold_known(folding* f, carnot_node* node) {
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
    replace_by_constant(f, value, carnot_graph_constant(node->block, NULL, &tensor));
  }
  return true;
}

// An anchor of dequantized operands whose weights are |value|, or a cast of it, which several may
// read.
static carnot_node* anchor_reading(const carnot_value* value) {
  for (size_t i = 0; i < value->use_count; i++) {
    carnot_node* reader = value->uses[i].node;
    if (reader->op == CARNOT_OP_CAST)
      reader = anchor_reading(reader->outputs[0]);
    else if (reader->input_count < 2 || reader->inputs[1] != value ||
             !carnot_is_quantized_anchor(reader))
      reader = NULL;
    if (reader) return reader;
  }
  return NULL;
}

// Dequantized weights of an anchor whose other operand is dequantized, too.
static carnot_node* quantized_reader(const carnot_node* node) {
  if (node->op != CARNOT_OP_DEQUANTIZE_LINEAR) return NULL;
  return anchor_reading(node->outputs[0]);
}

// Weights that a kernel may take as integers.
static bool may_stay(const carnot_node* node) {
  return quantized_reader(node) || carnot_weights_reader(node);
}

static carnot_status* fold_block(carnot_block* block, void* user) {
  folding* f = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    CARNOT_TRY(infer_again(f, node));
    if (may_stay(node)) continue;
    bool folded = fold_known(f, node);
    if (!folded && foldable(node)) CARNOT_TRY(fold_node(f, node, &folded));
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
  folding* f = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    bool stays, folded = false;
    CARNOT_TRY(infer_again(f, node));
    if (!may_stay(node) || !foldable(node)) continue;
    CARNOT_TRY(stays_integer(f->options, node, &stays));
    if (!stays) CARNOT_TRY(fold_node(f, node, &folded));
    if (folded) carnot_node_remove(node);
  }
  return NULL;
}

static carnot_status* sweep(carnot_graph* graph, folding* f,
                            carnot_status* (*visit)(carnot_block* block, void* user)) {
  void* memory;
  size_t count = (size_t)graph->node_count + 1;
  CARNOT_TRY(carnot_arena_try(&graph->arena, count, sizeof(bool), "marks of nodes", &memory));
  f->stale = memset(memory, 0, count * sizeof(bool));
  do {
    f->is_changed = false;
    CARNOT_TRY(carnot_each_block(graph->main, visit, f));
  } while (f->is_changed);
  return NULL;
}

carnot_status* carnot_pass_constant_folding(carnot_graph* graph,
                                            const carnot_pass_options* options) {
  folding f = {.options = options};
  CARNOT_TRY(sweep(graph, &f, fold_block));
  CARNOT_TRY(carnot_each_block(graph->main, separate_weights, (void*)options));
  CARNOT_TRY(sweep(graph, &f, fold_weights));
  // What reads the weights that were folded.
  return sweep(graph, &f, fold_block);
}
