// Chains of convolutions around a depthwise one as one region, where a kernel of the target
// computes them by rows, so that the large tensors between them are never written:
//   point(depthwise(conv(x)))  and the chains without the first or the last, each with its epilogue
#include "pass/pass.h"

enum { kMaxNodes = 24 };

typedef struct chain {
  carnot_node* nodes[kMaxNodes];
  int count;
} chain;

static bool is_conv(const carnot_node* node) {
  return node && node->op == CARNOT_OP_CONV && node->output_count == 1 &&
         node->outputs[0]->type.dtype == CARNOT_DTYPE_F32 && !carnot_dtype_is_half(node->precision);
}

// Where BF16 is allowed, a chain in float32 is slower than single convolutions in BF16.
static bool accepts(const carnot_pass_options* options, const chain* c) {
  const bool is_half =
      options->half == CARNOT_DTYPE_BF16 && c->nodes[0]->precision != CARNOT_DTYPE_F32;
  if (!is_half) return carnot_pass_accepts(options, c->nodes, c->count);
  return options->accepts_half && options->accepts_half(options->accepts_user, c->nodes, c->count);
}

static bool is_grouped(const carnot_node* conv) {
  return carnot_attr_int(carnot_node_row(conv), &conv->attrs, "group") > 1;
}

// The only reader of what the chain computes.
static carnot_node* next_of(const chain* c) {
  carnot_node* last = c->nodes[c->count - 1];
  carnot_node* node = carnot_only_user(last->outputs[0]);
  return node && node->block == last->block ? node : NULL;
}

// Adds the element-wise nodes behind the chain as long as they keep its dimensions; with |unary|
// those of one operand alone.
static void add_epilogue(chain* c, bool unary) {
  for (carnot_node* node; c->count < kMaxNodes && (node = next_of(c)) != NULL;) {
    const carnot_type* made = &c->nodes[c->count - 1]->outputs[0]->type;
    if (carnot_node_fn(node) == CARNOT_FN_COUNT || node->output_count != 1 ||
        (unary && node->input_count != 1) || made->dtype != node->outputs[0]->type.dtype ||
        !carnot_same_dims(made, &node->outputs[0]->type))
      return;
    c->nodes[c->count++] = node;
  }
}

// Adds the convolution that reads the chain, where it is depthwise or is not, as |grouped| says.
static bool add_conv(chain* c, bool grouped) {
  carnot_node* node = next_of(c);
  if (c->count == kMaxNodes || !is_conv(node) || is_grouped(node) != grouped ||
      node->precision != c->nodes[0]->precision ||
      node->inputs[0] != c->nodes[c->count - 1]->outputs[0])
    return false;
  c->nodes[c->count++] = node;
  return true;
}

// Fuses the longest beginning of |c| of more than |least| nodes that a kernel takes.
static carnot_status* fuse_longest(const carnot_pass_options* options, chain* c, int least,
                                   carnot_node** out_region) {
  for (; c->count > least; c->count--)
    if (accepts(options, c)) return carnot_fuse(c->nodes, c->count, out_region);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (!is_conv(node)) continue;
    chain c = {.nodes = {node}, .count = 1};
    if (!is_grouped(node)) {
      add_epilogue(&c, /*unary=*/true);
      if (!add_conv(&c, /*grouped=*/true)) continue;
    }
    add_epilogue(&c, /*unary=*/true);
    int least = is_grouped(node) ? c.count : 1;
    if (add_conv(&c, /*grouped=*/false)) {
      least = c.count - 1;
      add_epilogue(&c, /*unary=*/false);
    }
    carnot_node* region = NULL;
    CARNOT_TRY(fuse_longest(options, &c, least, &region));
    if (!region && !is_grouped(node)) CARNOT_TRY(fuse_longest(options, &c, 1, &region));
    if (region) next = region->next;
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_conv_chains(carnot_graph* graph,
                                            const carnot_pass_options* options) {
  return carnot_each_block(graph->main, visit, (void*)(uintptr_t)options);
}
