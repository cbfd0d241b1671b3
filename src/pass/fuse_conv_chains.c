// Chains of convolutions around a depthwise one as one region, where a kernel of the target
// computes them by rows, so that the large tensors between them are never written:
//   point(depthwise(conv(x)))  and the chains without the first or the last, each with its epilogue
#include "pass/conv_nodes.h"

static carnot_status* visit(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (!carnot_is_f32_conv(node)) continue;
    carnot_conv_nodes c = {.nodes = {node}, .count = 1};
    if (!carnot_is_grouped_conv(node)) {
      carnot_conv_nodes_add_epilogue(&c, /*unary=*/true);
      if (!carnot_conv_nodes_add_conv(&c, /*grouped=*/true)) continue;
    }
    carnot_conv_nodes_add_epilogue(&c, /*unary=*/true);
    int least = carnot_is_grouped_conv(node) ? c.count : 1;
    if (carnot_conv_nodes_add_conv(&c, /*grouped=*/false)) {
      least = c.count - 1;
      carnot_conv_nodes_add_epilogue(&c, /*unary=*/false);
    }
    carnot_node* region = NULL;
    CARNOT_TRY(carnot_conv_nodes_fuse_longest(options, &c, least, &region));
    if (!region && !carnot_is_grouped_conv(node))
      CARNOT_TRY(carnot_conv_nodes_fuse_longest(options, &c, 1, &region));
    if (region) next = region->next;
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_conv_chains(carnot_graph* graph,
                                            const carnot_pass_options* options) {
  return carnot_each_block(graph->main, visit, (void*)(uintptr_t)options);
}
