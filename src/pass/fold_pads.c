// Folds padding with zeros into the convolution behind it:
//   conv(pad(x)) -> conv(x) with the widths added to its own
// Exporters of TensorFlow and Keras write padding apart.
#include "pass/pass.h"

// The widths of constant zeros around the pixels of |node|, [rank] before and [rank] behind; false
// where it pads otherwise.
static bool read_widths(const carnot_node* node, int64_t* out) {
  if (!node || node->op != CARNOT_OP_PAD || !carnot_is_ranked(node->inputs[0]) ||
      !carnot_attr_is(carnot_node_row(node), &node->attrs, "mode", "constant"))
    return false;
  const int rank = node->inputs[0]->type.rank;
  int64_t axes[CARNOT_MAX_RANK], list[2 * CARNOT_MAX_RANK];
  const bool has_value = node->input_count > 2 && node->inputs[2],
             has_axes = node->input_count > 3 && node->inputs[3];
  double value = 0;
  if (has_value && (!carnot_value_scalar(node->inputs[2], &value) || value != 0)) return false;
  const int count = has_axes ? carnot_value_ints(node->inputs[3], axes, CARNOT_MAX_RANK) : rank;
  if (count < 1 || carnot_value_ints(node->inputs[1], list, 2 * CARNOT_MAX_RANK) != 2 * count)
    return false;
  for (int i = 0; i < 2 * rank; i++) out[i] = 0;
  for (int i = 0; i < count; i++) {
    int64_t axis = has_axes ? axes[i] : i;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || list[i] < 0 || list[count + i] < 0) return false;
    if (axis < 2 && (list[i] || list[count + i])) return false;
    out[axis] = list[i];
    out[rank + axis] = list[count + i];
  }
  return true;
}

static bool pads_explicitly(const carnot_node* conv) {
  return carnot_attr_is(carnot_node_row(conv), &conv->attrs, "auto_pad", "NOTSET") ||
         carnot_attr_is(carnot_node_row(conv), &conv->attrs, "auto_pad", "VALID");
}

static carnot_status* fold(carnot_node* conv, carnot_node* pad, const int64_t* widths) {
  const int rank = pad->inputs[0]->type.rank, pixels = rank - 2;
  int64_t pads[2 * CARNOT_MAX_RANK];
  size_t own = 0;
  const int64_t* list = carnot_attr_ints(&conv->attrs, "pads", &own);
  if (own && own != (size_t)(2 * pixels)) return NULL;
  for (int i = 0; i < pixels; i++) {
    pads[i] = widths[2 + i] + (own ? list[i] : 0);
    pads[pixels + i] = widths[rank + 2 + i] + (own ? list[pixels + i] : 0);
  }
  carnot_arena* arena = &conv->block->graph->arena;
  carnot_attrs attrs = {0};
  for (size_t i = 0; i < conv->attrs.count; i++)
    carnot_attrs_set(&attrs, arena, conv->attrs.items[i]);
  carnot_attrs_set_text(&attrs, arena, "auto_pad", "NOTSET");
  carnot_attrs_set_ints(&attrs, arena, "pads", pads, (size_t)(2 * pixels));
  conv->attrs = attrs;
  carnot_node_set_input(conv, 0, pad->inputs[0]);
  carnot_node_absorb(conv, pad);
  carnot_node_remove(pad);
  return carnot_node_infer(conv);
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    int64_t widths[2 * CARNOT_MAX_RANK];
    if (node->op != CARNOT_OP_CONV || !pads_explicitly(node)) continue;
    carnot_node* pad = node->inputs[0]->producer;
    if (!pad || pad->block != block || carnot_only_user(pad->outputs[0]) != node ||
        !read_widths(pad, widths))
      continue;
    CARNOT_TRY(fold(node, pad, widths));
  }
  return NULL;
}

carnot_status* carnot_pass_fold_pads(carnot_graph* graph, const carnot_pass_options* options) {
  (void)options;
  return carnot_each_block(graph->main, visit, NULL);
}
