// Forms fusion regions: an anchor (matmul, GEMM, convolution, ..) with its epilogue of pointwise
// nodes, and trees of pointwise nodes alone.
//
// A follower joins when it is the only reader of the region's result, keeps its dimensions, and its
// other operands are constants or exist before it: then it is computed while the tile of the anchor
// is in registers or L1. On an accelerator the cast before a first convolution joins it where a
// kernel converts its input itself, and pointwise regions may also hold casts, comparisons and
// boolean functions. An anchor of dequantized operands takes their dequantize nodes and the
// quantize node of its result along, one of integer weights their dequantize node
// (quantized_region.h).
#include "pass/pass.h"
#include "pass/quantized_region.h"

enum { kMaxRegionNodes = 24, kMaxMixedOperands = 8, kMostSizes = 64 };

// Anchors that take one activation along and no more.
static bool takes_activation(const carnot_node* node) {
  return node->op == CARNOT_OP_GROUP_NORM || node->op == CARNOT_OP_INSTANCE_NORM ||
         node->op == CARNOT_OP_CONV_TRANSPOSE;
}

static bool is_anchor(const carnot_node* node) {
  return carnot_op_has_trait(node->op, CARNOT_TRAIT_CONTRACTION) || takes_activation(node);
}

static bool is_pointwise(const carnot_node* node) {
  return carnot_node_fn(node) != CARNOT_FN_COUNT &&
         carnot_dtype_is_float(node->outputs[0]->type.dtype);
}

static bool is_number(carnot_dtype t) {
  return t == CARNOT_DTYPE_BOOL || t == CARNOT_DTYPE_F32 || carnot_dtype_is_half(t) ||
         (carnot_dtype_is_integer(t) && carnot_dtype_bits(t) >= 8);
}

// So few numbers may be sizes, which the processor computes when shapes are set.
static bool may_be_sizes(const carnot_value* value) {
  int64_t count = 1;
  for (int d = 0; d < value->type.rank; d++) {
    if (!carnot_sym_is_const(value->type.dims[d])) return value->syms != NULL;
    count = carnot_min_i64(count * carnot_min_i64(value->type.dims[d].bits, INT32_MAX), INT32_MAX);
  }
  return value->syms || count <= kMostSizes;
}

// Of a chain on an accelerator, whose programs hold each value in its type. What has its size by
// values is computed by the processor.
static bool is_mixed(const carnot_node* node, const bool* planned) {
  bool cast = node->op == CARNOT_OP_CAST;
  const carnot_type* type = &node->outputs[0]->type;
  if (!planned || (!cast && carnot_node_fn(node) == CARNOT_FN_COUNT) ||
      may_be_sizes(node->outputs[0]))
    return false;
  for (int d = 0; d < type->rank; d++)
    if (!carnot_sym_is_const(type->dims[d]) && !planned[carnot_sym_index(type->dims[d])])
      return false;
  for (int i = 0; i < node->input_count; i++)
    if (!node->inputs[i] || !is_number(node->inputs[i]->type.dtype)) return false;
  carnot_dtype made = type->dtype;
  return made == CARNOT_DTYPE_BOOL || made == CARNOT_DTYPE_F32 || carnot_dtype_is_half(made);
}

static bool same_type(const carnot_type* a, const carnot_type* b) {
  return a->dtype == b->dtype && carnot_same_dims(a, b);
}

// The axis of the anchor's result that its channels run along.
static int channel_axis(const carnot_node* anchor) {
  return anchor->op == CARNOT_OP_CONV ? 1 : anchor->outputs[0]->type.rank - 1;
}

// An operand of a follower that a tile can meet: as large as the tile, one number, or one number a
// channel.
static bool operand_fits(const carnot_value* operand, const carnot_type* tile, int channels_at) {
  if (!operand || operand->type.kind != CARNOT_VALUE_TENSOR || operand->type.rank < 0) return false;
  if (same_type(&operand->type, tile)) return !operand->constant;
  if (!operand->constant) return false;
  const carnot_type* t = &operand->type;
  for (int d = 0; d < t->rank; d++) {
    bool is_channel = d + tile->rank - t->rank == channels_at;
    if (!carnot_sym_is(t->dims[d], 1) &&
        !(is_channel && carnot_sym_same(t->dims[d], tile->dims[channels_at])))
      return false;
  }
  return t->dtype == tile->dtype && t->rank <= tile->rank;
}

// The next node that may join behind |value|.
static carnot_node* follower(const carnot_pass_options* options, carnot_node* anchor,
                             const carnot_value* value) {
  carnot_node* node = carnot_only_user(value);
  if (!node || node->block != value->block || !is_pointwise(node)) return NULL;
  if (!same_type(&value->type, &node->outputs[0]->type)) return NULL;
  if (takes_activation(anchor)) {
    carnot_node* pair[2] = {anchor, node};
    bool activation = value->producer == anchor && node->op == CARNOT_OP_UNARY;
    return activation && carnot_pass_accepts(options, pair, 2) ? node : NULL;
  }
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i] != value &&
        !operand_fits(node->inputs[i], &value->type, channel_axis(anchor)))
      return NULL;
  return node;
}

// The cast from FP32 to half precision that only |node| reads, a convolution whose kernel converts
// its input itself.
static carnot_node* cast_before(const carnot_pass_options* options, carnot_node* node) {
  if (node->op != CARNOT_OP_CONV) return NULL;
  const carnot_value* x = node->inputs[0];
  carnot_node* cast = x->producer;
  if (!cast || cast->op != CARNOT_OP_CAST || cast->block != node->block ||
      carnot_only_user(x) != node || !carnot_dtype_is_half(x->type.dtype) ||
      cast->inputs[0]->type.dtype != CARNOT_DTYPE_F32 || cast->inputs[0]->constant)
    return NULL;
  carnot_node* pair[2] = {cast, node};
  return carnot_pass_accepts(options, pair, 2) ? cast : NULL;
}

// What joins |first| from before: the cast of its operand, or what makes its weights of integers,
// which only the longest region that a kernel takes may hold.
static carnot_status* grow(const carnot_pass_options* options, carnot_node* first) {
  carnot_node *nodes[kMaxRegionNodes], *next;
  int count;
  CARNOT_TRY(carnot_take_weights(options, first, nodes, &count));
  const int weights = count;
  carnot_node* cast = options->device && !weights ? cast_before(options, first) : NULL;
  if (cast) nodes[count++] = cast;
  nodes[count++] = first;
  while (count < kMaxRegionNodes &&
         (next = follower(options, first, nodes[count - 1]->outputs[0])) != NULL)
    nodes[count++] = next;
  while (weights && count > weights + 1 && !carnot_pass_accepts(options, nodes, count)) count--;
  // The longest that an accelerator computes; the rest are regions of their own.
  const int least = weights + (cast != NULL) + 1;
  while (count > least && !carnot_pass_computes(options, nodes, count)) count--;
  return count > 1 ? carnot_fuse(nodes, count, NULL) : NULL;
}

static bool is_integer_gemm(const carnot_node* node) {
  return node->op == CARNOT_OP_MATMUL_INTEGER || node->op == CARNOT_OP_CONV_INTEGER;
}

static carnot_status* visit_anchors(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  size_t count = 0;
  for (carnot_node* node = block->first; node; node = node->next)
    count += is_anchor(node) || is_integer_gemm(node);
  // Growing a region moves nodes, so the anchors are listed first; no anchor is ever taken up by
  // another.
  carnot_node** anchors = CARNOT_NEW_ARRAY(&block->graph->arena, carnot_node*, count + 1);
  CARNOT_TRY(carnot_arena_status(&block->graph->arena));
  count = 0;
  for (carnot_node* node = block->first; node; node = node->next)
    if (is_anchor(node) || is_integer_gemm(node)) anchors[count++] = node;
  for (size_t i = 0; i < count; i++) {
    if (anchors[i]->output_count != 1) continue;
    if (is_integer_gemm(anchors[i])) {
      CARNOT_TRY(carnot_fuse_dynamic(options, anchors[i]));
      continue;
    }
    carnot_node* region;
    CARNOT_TRY(carnot_fuse_quantized(options, anchors[i], &region));
    if (!region) CARNOT_TRY(carnot_fuse_byte_ends(options, anchors[i], &region));
    if (region) continue;
    CARNOT_TRY(grow(options, anchors[i]));
  }
  return NULL;
}

// Pointwise nodes that read one another, where every inner value has one reader: a tree, fused at
// its root.
typedef struct tree {
  carnot_node* nodes[kMaxRegionNodes];
  int count, operands;  // operands: those of all nodes that no node makes
  const bool* planned;  // by symbol, where the tree may be mixed
} tree;

static bool belongs(const tree* t, const carnot_node* node) {
  return t->planned ? is_mixed(node, t->planned) : is_pointwise(node);
}

static bool joins(const tree* t, const carnot_value* value, const carnot_node* reader) {
  const carnot_node* from = value ? value->producer : NULL;
  if (!from || from->block != reader->block || !belongs(t, from) ||
      carnot_only_user(value) != reader)
    return false;
  if (t->planned)
    return t->operands + from->input_count - 1 <= kMaxMixedOperands &&
           carnot_same_dims(&value->type, &reader->outputs[0]->type);
  return same_type(&value->type, &reader->outputs[0]->type);
}

static void gather(tree* t, carnot_node* node) {
  t->nodes[t->count++] = node;
  for (int i = 0; i < node->input_count && t->count < kMaxRegionNodes; i++)
    if (joins(t, node->inputs[i], node)) {
      t->operands += node->inputs[i]->producer->input_count - 1;
      gather(t, node->inputs[i]->producer);
    }
}

typedef struct chains {
  const carnot_pass_options* options;
  const carnot_block* main;  // NULL: no tree is mixed
  bool* planned;
} chains;

// Brings the nodes into the order of the block.
static void put_in_order(tree* t) {
  for (int i = 1; i < t->count; i++)
    for (int k = i; k > 0 && carnot_node_comes_before(t->nodes[k], t->nodes[k - 1]); k--) {
      carnot_node* swap = t->nodes[k];
      t->nodes[k] = t->nodes[k - 1];
      t->nodes[k - 1] = swap;
    }
}

// The largest tree at the root that the target computes, in order: half of it, half of that, ..
static void cut_tree(const carnot_pass_options* options, tree* t) {
  const tree whole = *t;
  for (put_in_order(t); t->count > 1 && !carnot_pass_computes(options, t->nodes, t->count);
       put_in_order(t)) {
    const int count = t->count / 2;
    *t = whole;  // the first nodes are a tree, as parents come before children
    t->count = count;
  }
}

static carnot_status* visit_chains(carnot_block* block, void* user) {
  const chains* c = user;
  for (carnot_node *node = block->last, *previous; node; node = previous) {
    previous = node->previous;
    tree t = {.operands = node->input_count};
    if (block == c->main && is_mixed(node, c->planned)) t.planned = c->planned;
    if (!belongs(&t, node)) continue;
    gather(&t, node);
    if (t.count < 2) continue;
    cut_tree(c->options, &t);
    if (t.count < 2) continue;
    carnot_node* region;
    CARNOT_TRY(carnot_fuse(t.nodes, t.count, &region));
    previous = region->previous;
  }
  return NULL;
}

// The operator whose result |node| quantizes behind a cast: it may take both. NULL: none.
static carnot_node* quantized_source(const carnot_node* node) {
  const carnot_node* cast =
      node->op == CARNOT_OP_QUANTIZE_LINEAR ? node->inputs[0]->producer : NULL;
  carnot_node* source = cast && cast->op == CARNOT_OP_CAST ? cast->inputs[0]->producer : NULL;
  return source && source->block == node->block ? source : NULL;
}

// What a shuffled tensor is cropped to, where a kernel takes both.
static carnot_status* visit_shuffles(carnot_block* block, void* user) {
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op != CARNOT_OP_DEPTH_TO_SPACE) continue;
    carnot_node* crop = carnot_only_user(node->outputs[0]);
    carnot_node* nodes[2] = {node, crop};
    if (!crop || crop->block != block || crop->op != CARNOT_OP_SLICE ||
        crop->inputs[0] != node->outputs[0] || !carnot_pass_accepts(user, nodes, 2))
      continue;
    while (next == crop) next = next->next;
    CARNOT_TRY(carnot_fuse(nodes, 2, NULL));
  }
  return NULL;
}

// Reductions that read half precision and give float32, where a kernel takes the cast along.
static carnot_status* visit_reductions(carnot_block* block, void* user) {
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op != CARNOT_OP_REDUCE) continue;
    carnot_node* cast = carnot_only_producer(node->inputs[0]);
    carnot_node* nodes[2] = {cast, node};
    if (cast && cast->op == CARNOT_OP_CAST && cast->block == block &&
        carnot_pass_accepts(user, nodes, 2))
      CARNOT_TRY(carnot_fuse(nodes, 2, NULL));
  }
  return NULL;
}

// Between quantized values, from the last node on, so that a tree is whole.
static carnot_status* visit_quantized(carnot_block* block, void* user) {
  for (carnot_node *node = block->last, *previous; node; node = previous) {
    carnot_node *region = NULL, *source = quantized_source(node);
    if (source) CARNOT_TRY(carnot_fuse_byte_ends(user, source, &region));
    if (!region) CARNOT_TRY(carnot_fuse_quantized_tree(user, node, &region));
    if (!region) CARNOT_TRY(carnot_fuse_byte_ends(user, node, &region));
    previous = region ? region->previous : node->previous;
  }
  return carnot_note_unfused(block);
}

carnot_status* carnot_pass_form_fusion_regions(carnot_graph* graph,
                                               const carnot_pass_options* options) {
  carnot_pass_options given = *options;
  chains c = {.options = options,
              .planned = CARNOT_NEW_ARRAY(&graph->arena, bool, graph->syms.count + 1)};
  CARNOT_TRY(carnot_arena_status(&graph->arena));
  if (options->device) {
    c.main = graph->main;
    carnot_graph_planned_syms(graph, c.planned);
  }
  CARNOT_TRY(carnot_each_block(graph->main, visit_anchors, &given));
  CARNOT_TRY(carnot_each_block(graph->main, visit_quantized, &given));
  if (options->device) CARNOT_TRY(carnot_each_block(graph->main, visit_shuffles, &given));
  if (options->device) CARNOT_TRY(carnot_each_block(graph->main, visit_reductions, &given));
  return carnot_each_block(graph->main, visit_chains, &c);
}
