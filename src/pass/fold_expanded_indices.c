// Folds the expansion of indices into what reads by them:
//   gather_elements(x, expand(i))            -> gather_nd(x, i)
//   scatter_elements(x, expand(i), updates)  -> scatter_nd(x, i, updates)
// where the indices are the same for all elements behind the axis. Detectors choose boxes and put
// features of boxes of all sizes together this way, with 8 bytes of index for each 4 of data.
#include "pass/emit.h"

typedef struct expanded {
  carnot_value* indices;  // [.., n, 1, ..]: the dimensions up to the axis, then ones
  int axis;
} expanded;

// Whether dimension |d| of the operands is whole: the indices leave out none of the table.
static bool is_whole(const carnot_node* node, int d) {
  return carnot_sym_same(node->inputs[0]->type.dims[d], node->inputs[1]->type.dims[d]);
}

static bool is_one(const carnot_type* type, int d) {
  return carnot_sym_is_const(type->dims[d]) && type->dims[d].bits == 1;
}

static bool read_expanded(const carnot_node* node, expanded* out) {
  if (node->op != CARNOT_OP_GATHER_ELEMENTS && node->op != CARNOT_OP_SCATTER_ELEMENTS) return false;
  const carnot_node* expand = node->inputs[1]->producer;
  if (!expand || expand->op != CARNOT_OP_EXPAND || !carnot_is_ranked(node->inputs[0]) ||
      !carnot_is_ranked(node->inputs[1]) || !carnot_is_ranked(expand->inputs[0]))
    return false;
  const int rank = node->inputs[0]->type.rank;
  const carnot_type *of = &node->inputs[1]->type, *from = &expand->inputs[0]->type;
  const int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  out->axis = (int)(axis < 0 ? axis + rank : axis);
  if (of->rank != rank || from->rank != rank || out->axis < 0 || out->axis >= rank) return false;
  // The table's dimensions in front of the axis are batches, which only gather_nd has.
  const bool gathers = node->op == CARNOT_OP_GATHER_ELEMENTS;
  if ((out->axis > 0 && !gathers) || out->axis == rank - 1) return false;
  for (int d = 0; d < rank; d++) {
    const bool given = carnot_sym_same(from->dims[d], of->dims[d]);
    const bool fits = d <= out->axis ? given : is_one(from, d);
    if (!fits || (d != out->axis && !is_whole(node, d))) return false;
  }
  out->indices = expand->inputs[0];
  return gathers || carnot_attr_is(carnot_node_row(node), &node->attrs, "reduction", "none");
}

static carnot_status* fold(carnot_node* node, const expanded* from) {
  const bool gathers = node->op == CARNOT_OP_GATHER_ELEMENTS;
  carnot_emitter e = {.at = node, .name = node->name};
  carnot_value* inputs[3] = {node->inputs[0], from->indices, gathers ? NULL : node->inputs[2]};
  for (int d = node->inputs[0]->type.rank - 1; d > from->axis + 1; d--)
    inputs[1] = carnot_emit_squeeze(&e, inputs[1], d);
  carnot_attrs attrs = {0};
  if (gathers) carnot_attrs_set_int(&attrs, &node->block->graph->arena, "batch_dims", from->axis);
  carnot_value* made = carnot_emit(&e, gathers ? CARNOT_OP_GATHER_ND : CARNOT_OP_SCATTER_ND, &attrs,
                                   inputs, gathers ? 2 : 3);
  return carnot_emit_replace(&e, node, made);
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    expanded from;
    if (read_expanded(node, &from)) CARNOT_TRY(fold(node, &from));
  }
  return NULL;
}

carnot_status* carnot_pass_fold_expanded_indices(carnot_graph* graph,
                                                 const carnot_pass_options* options) {
  if (options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
