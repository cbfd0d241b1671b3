// Squeeze-and-excitation as one region, where one kernel of the target computes it:
//   x * outer(conv(inner(conv(mean(x)))))
// with the mean over rows and columns, 1x1 convolutions of constant weights and two activations. On
// the CPU the convolution that reads the product is part of the region, with its epilogue: the
// product is never written.
#include "pass/conv_nodes.h"

// Of an accelerator: a larger image is read faster by many multiprocessors than by those of one
// cluster.
enum { kMaxElements = 1 << 20 };

static carnot_node* producer(const carnot_value* value) { return value ? value->producer : NULL; }

static bool is_spatial_mean(const carnot_node* node) {
  int64_t axes[CARNOT_MAX_RANK];
  if (!node || node->op != CARNOT_OP_REDUCE || node->input_count < 2 ||
      !carnot_attr_is(carnot_node_row(node), &node->attrs, "fn", "mean") ||
      !carnot_attr_int(carnot_node_row(node), &node->attrs, "keepdims"))
    return false;
  int count = carnot_value_ints(node->inputs[1], axes, CARNOT_MAX_RANK);
  for (int i = 0; i < count; i++) axes[i] += axes[i] < 0 ? 4 : 0;
  return count == 2 && axes[0] + axes[1] == 5 && axes[0] * axes[1] == 6;
}

static bool is_constant_of_rank(const carnot_value* value, int rank) {
  return carnot_value_is_constant(value) && value->type.rank == rank;
}

static bool is_point_conv(const carnot_node* node) {
  if (!node || node->op != CARNOT_OP_CONV || !is_constant_of_rank(node->inputs[1], 4) ||
      carnot_attr_int(carnot_node_row(node), &node->attrs, "group") != 1)
    return false;
  size_t count = 0;
  const int64_t* pads = carnot_attr_ints(&node->attrs, "pads", &count);
  for (size_t i = 0; i < count; i++)
    if (pads[i]) return false;
  const carnot_sym* w = node->inputs[1]->type.dims;
  bool bias = node->input_count > 2 && node->inputs[2];
  return carnot_sym_is(w[2], 1) && carnot_sym_is(w[3], 1) &&
         (!bias || is_constant_of_rank(node->inputs[2], 1));
}

static bool is_small(const carnot_value* x) {
  const carnot_sym* d = x->type.dims;
  bool known = carnot_sym_is_const(d[1]) && carnot_sym_is_const(d[2]) && carnot_sym_is_const(d[3]);
  return !known || (double)d[1].bits * (double)d[2].bits * (double)d[3].bits <= kMaxElements;
}

// The six nodes that end with |scale|, whose operand |at| is the gate; in order.
static bool match(carnot_node* scale, int at, carnot_node** nodes) {
  carnot_value* x = scale->inputs[1 - at];
  carnot_value* value = scale->inputs[at];
  nodes[5] = scale;
  for (int i = 4; i >= 0; i--) {
    nodes[i] = producer(value);
    bool good = i == 0       ? is_spatial_mean(nodes[i])
                : i % 2 == 1 ? is_point_conv(nodes[i])
                             : nodes[i] && nodes[i]->op == CARNOT_OP_UNARY;
    if (!good || nodes[i]->block != scale->block || carnot_only_user(value) != nodes[i + 1] ||
        value->type.dtype != x->type.dtype)
      return false;
    value = nodes[i]->inputs[0];
  }
  return value == x && x->type.rank == 4;
}

static carnot_status* fuse_on_accelerator(const carnot_pass_options* options, carnot_node** nodes,
                                          carnot_node** out_region) {
  if (!is_small(nodes[0]->inputs[0]) || !carnot_pass_accepts(options, nodes, 6)) return NULL;
  return carnot_fuse(nodes, 6, out_region);
}

static carnot_status* fuse_with_conv(const carnot_pass_options* options, carnot_node** nodes,
                                     carnot_node** out_region) {
  carnot_conv_nodes c = {.count = 6};
  memcpy(c.nodes, nodes, 6 * sizeof *nodes);
  if (!carnot_conv_nodes_add_conv(&c, /*grouped=*/false)) return NULL;
  carnot_conv_nodes_add_epilogue(&c, /*unary=*/false);
  return carnot_conv_nodes_fuse_longest(options, &c, 6, out_region);
}

static carnot_status* visit(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  for (carnot_node *node = block->last, *previous; node; node = previous) {
    previous = node->previous;
    carnot_node *nodes[6], *region = NULL;
    if (!carnot_node_is_fn(node, CARNOT_FN_MUL)) continue;
    for (int at = 0; at < 2 && !region; at++)
      if (match(node, at, nodes))
        CARNOT_TRY(options->device ? fuse_on_accelerator(options, nodes, &region)
                                   : fuse_with_conv(options, nodes, &region));
    if (region) previous = region->previous;
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_squeeze_excite(carnot_graph* graph,
                                               const carnot_pass_options* options) {
  return carnot_each_block(graph->main, visit, (void*)(uintptr_t)options);
}
