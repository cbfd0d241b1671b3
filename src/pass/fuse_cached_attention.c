// Fuses operator Attention with what decoders write around it into one region, where a kernel takes
// it: the nodes that write or append its keys and values to caches, the rotary embedding of
// queries and keys, the transposes, reshapes and slices between projections and heads, and those of
// the result. Where no kernel takes the whole, Attention stays alone.
#include "pass/pass.h"

enum { kMaxNodes = 24 };

typedef struct match {
  carnot_node* nodes[kMaxNodes];  // in any order
  int count;
} match;

static bool take(match* m, carnot_node* node) {
  if (m->count == kMaxNodes) return false;
  m->nodes[m->count++] = node;
  return true;
}

static bool swaps_heads(const carnot_node* node) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(&node->attrs, "perm", &count);
  return node->op == CARNOT_OP_TRANSPOSE && count == 4 && perm[0] == 0 && perm[1] == 2 &&
         perm[2] == 1 && perm[3] == 3;
}

// Between [B,S,heads*size] (|flat|) and [B,S,heads,size].
static bool splits_heads(const carnot_value* flat, const carnot_value* split) {
  const carnot_type *a = &flat->type, *b = &split->type;
  return a->rank == 3 && b->rank == 4 && carnot_sym_same(a->dims[0], b->dims[0]) &&
         carnot_sym_same(a->dims[1], b->dims[1]);
}

// The node of the same block that makes |value| for |reader| alone.
static carnot_node* sole_producer(const carnot_value* value, const carnot_node* reader) {
  carnot_node* node = value->producer;
  return node && node->block == reader->block && carnot_only_user(value) == reader ? node : NULL;
}

// Takes what is before input |input| of |reader|; the value that it ends at.
static carnot_value* take_source(match* m, carnot_node* reader, int input) {
  carnot_value* value = reader->inputs[input];
  bool heads_last = false;  // [B,S,heads,size]
  for (carnot_node* node; (node = sole_producer(value, reader)); reader = node) {
    bool fits = node->op == CARNOT_OP_ROTARY_EMBEDDING || swaps_heads(node) ||
                (node->op == CARNOT_OP_RESHAPE && heads_last &&
                 splits_heads(node->inputs[0], node->outputs[0]));
    bool is_slice = node->op == CARNOT_OP_SLICE && node->input_count == 4;
    if ((!fits && !is_slice) || !take(m, node)) break;
    if (node->op != CARNOT_OP_ROTARY_EMBEDDING) heads_last = swaps_heads(node) && !heads_last;
    value = node->inputs[0];
  }
  return value;
}

// A cache that is written into, or appended to.
static bool is_cache(const carnot_node* node) {
  if (node->op == CARNOT_OP_TENSOR_SCATTER) return true;
  if (node->op != CARNOT_OP_CONCAT || node->input_count != 2) return false;
  int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  return node->outputs[0]->type.rank == 4 && (axis == 2 || axis == -2);
}

// The same of keys or values, whose cache is taken, too. The cache may be a result of the block.
static carnot_value* take_cached(match* m, carnot_node* attention, int input) {
  carnot_node* cache = attention->inputs[input]->producer;
  if (!cache || !is_cache(cache) || cache->block != attention->block ||
      cache->outputs[0]->use_count != 1 || !take(m, cache))
    return take_source(m, attention, input);
  return take_source(m, cache, 1);
}

// Takes the split that queries, keys and values are the parts of.
static void take_split(match* m, carnot_value* const parts[3]) {
  carnot_node* split = parts[0]->producer;
  if (!split || split->op != CARNOT_OP_SPLIT || split->output_count != 3) return;
  for (int i = 0; i < 3; i++) {
    bool inside = false;
    const carnot_node* user = carnot_only_user(parts[i]);
    for (int n = 0; n < m->count; n++) inside |= m->nodes[n] == user;
    if (parts[i]->producer != split || !inside) return;
  }
  take(m, split);
}

static void take_result(match* m, carnot_node* attention) {
  carnot_value* y = attention->outputs[0];
  carnot_node* turn = carnot_only_user(y);
  if (!turn || turn->block != attention->block || !swaps_heads(turn) || !take(m, turn)) return;
  carnot_node* reshape = carnot_only_user(turn->outputs[0]);
  if (reshape && reshape->block == attention->block && reshape->op == CARNOT_OP_RESHAPE &&
      splits_heads(reshape->outputs[0], turn->outputs[0]))
    take(m, reshape);
}

static carnot_status* visit(carnot_block* block, void* user) {
  uint32_t* positions = NULL;
  for (carnot_node *node = block->first, *next; node; node = next) {
    match m = {.count = 0};
    next = node->next;
    if (node->op != CARNOT_OP_ATTENTION) continue;
    take(&m, node);
    carnot_value* parts[3];
    parts[0] = take_source(&m, node, 0);
    for (int i = 1; i < 3; i++) parts[i] = take_cached(&m, node, i);
    take_split(&m, parts);
    take_result(&m, node);
    if (m.count == 1) continue;
    CARNOT_TRY(carnot_block_positions(block, &positions));
    carnot_sort_nodes(m.nodes, m.count, positions);
    if (!carnot_pass_accepts(user, m.nodes, m.count)) continue;
    next = m.nodes[m.count - 1]->next;
    CARNOT_TRY(carnot_fuse(m.nodes, m.count, NULL));
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_cached_attention(carnot_graph* graph,
                                                 const carnot_pass_options* options) {
  return carnot_each_block(graph->main, visit, (void*)(uintptr_t)options);
}
