// Lists of nodes from which passes fuse regions of several convolutions.
#include "pass/conv_nodes.h"

bool carnot_is_f32_conv(const carnot_node* node) {
  return node && node->op == CARNOT_OP_CONV && node->output_count == 1 &&
         node->outputs[0]->type.dtype == CARNOT_DTYPE_F32 && !carnot_dtype_is_half(node->precision);
}

bool carnot_is_grouped_conv(const carnot_node* conv) {
  return carnot_attr_int(carnot_node_row(conv), &conv->attrs, "group") > 1;
}

static bool accepts(const carnot_pass_options* options, const carnot_conv_nodes* c) {
  const bool is_half =
      options->half == CARNOT_DTYPE_BF16 && c->nodes[0]->precision != CARNOT_DTYPE_F32;
  if (!is_half) return carnot_pass_accepts(options, c->nodes, c->count);
  return options->accepts_half && options->accepts_half(options->accepts_user, c->nodes, c->count);
}

// The only reader of what the list computes.
static carnot_node* next_of(const carnot_conv_nodes* c) {
  carnot_node* last = c->nodes[c->count - 1];
  carnot_node* node = carnot_only_user(last->outputs[0]);
  return node && node->block == last->block ? node : NULL;
}

void carnot_conv_nodes_add_epilogue(carnot_conv_nodes* c, bool unary) {
  for (carnot_node* node; c->count < CARNOT_CONV_NODES_MAX && (node = next_of(c)) != NULL;) {
    const carnot_type* made = &c->nodes[c->count - 1]->outputs[0]->type;
    if (carnot_node_fn(node) == CARNOT_FN_COUNT || node->output_count != 1 ||
        (unary && node->input_count != 1) || made->dtype != node->outputs[0]->type.dtype ||
        !carnot_same_dims(made, &node->outputs[0]->type))
      return;
    c->nodes[c->count++] = node;
  }
}

bool carnot_conv_nodes_add_conv(carnot_conv_nodes* c, bool grouped) {
  carnot_node* node = next_of(c);
  if (c->count == CARNOT_CONV_NODES_MAX || !carnot_is_f32_conv(node) ||
      carnot_is_grouped_conv(node) != grouped || node->precision != c->nodes[0]->precision ||
      node->inputs[0] != c->nodes[c->count - 1]->outputs[0])
    return false;
  c->nodes[c->count++] = node;
  return true;
}

carnot_status* carnot_conv_nodes_fuse_longest(const carnot_pass_options* options,
                                              carnot_conv_nodes* c, int least,
                                              carnot_node** out_region) {
  for (; c->count > least; c->count--)
    if (accepts(options, c)) return carnot_fuse(c->nodes, c->count, out_region);
  return NULL;
}
