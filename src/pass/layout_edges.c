// Moves transposes at the edges of control flow out of the bodies:
//   a carried value that the body transposes when it begins and back when it ends is carried
//   transposed; a value that a loop reads is transposed once, before the loop;
//   an input of a branch that was transposed back before is taken as it was;
//   results that both branches transpose alike are transposed behind the conditional.
#include "pass/layout_edges.h"

#include "pass/emit.h"

typedef struct perm {
  int64_t axes[CARNOT_MAX_RANK];
  int rank;
} perm;

static bool read_perm(const carnot_node* node, perm* out) {
  size_t count;
  if (!node || node->op != CARNOT_OP_TRANSPOSE) return false;
  const int64_t* axes = carnot_attr_ints(&node->attrs, "perm", &count);
  if (!axes || !carnot_is_ranked(node->inputs[0]) || count != (size_t)node->inputs[0]->type.rank)
    return false;
  out->rank = (int)count;
  memcpy(out->axes, axes, count * sizeof(*axes));
  return true;
}

static bool same_perm(const perm* a, const perm* b) {
  return a->rank == b->rank && memcmp(a->axes, b->axes, (size_t)a->rank * sizeof(*a->axes)) == 0;
}

static perm inverse_of(const perm* p) {
  perm out = {.rank = p->rank};
  for (int i = 0; i < p->rank; i++) out.axes[p->axes[i]] = i;
  return out;
}

// All readers of |param| transpose it alike.
static bool is_transposed(const carnot_value* param, perm* out) {
  perm other;
  if (param->block_output_count || !param->use_count || !read_perm(param->uses[0].node, out))
    return false;
  for (size_t i = 1; i < param->use_count; i++)
    if (!read_perm(param->uses[i].node, &other) || !same_perm(out, &other)) return false;
  return true;
}

// |param| is what its readers, transposes, made of it.
static carnot_status* drop_transposes(carnot_value* param) {
  const size_t count = param->use_count;
  carnot_arena* arena = &param->block->graph->arena;
  carnot_node** nodes = CARNOT_NEW_ARRAY(arena, carnot_node*, count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (size_t i = 0; i < count; i++) nodes[i] = param->uses[i].node;
  for (size_t i = 0; i < count; i++) {
    carnot_value_replace(nodes[i]->outputs[0], param);
    carnot_node_remove(nodes[i]);
  }
  return NULL;
}

// Input |i| of |node| transposed before it.
static carnot_status* transpose_input(carnot_node* node, int i, const perm* p) {
  carnot_emitter e = {.at = node};
  carnot_value* y = carnot_emit_transpose(&e, node->inputs[i], p->axes, p->rank);
  if (y) carnot_node_set_input(node, i, y);
  return e.status;
}

// Readers of result |i| of |node| read its transpose, which stands behind the node.
static carnot_status* transpose_result(carnot_node* node, int i, const perm* p) {
  carnot_value *result = node->outputs[i], *y;
  carnot_attrs attrs = {0};
  carnot_node* made;
  carnot_attrs_set_ints(&attrs, &node->block->graph->arena, "perm", p->axes, (size_t)p->rank);
  if (node->next)
    CARNOT_TRY(carnot_node_insert_before(node->next, CARNOT_OP_TRANSPOSE, NULL, &attrs, &result, 1,
                                         1, &made));
  else
    CARNOT_TRY(carnot_block_add_node(node->block, CARNOT_OP_TRANSPOSE, NULL, &attrs, &result, 1,
                                     NULL, 1, &made));
  y = made->outputs[0];
  y->name = result->name;
  carnot_value_replace(result, y);
  carnot_node_set_input(made, 0, result);
  return NULL;
}

// ---- loops ----

static carnot_status* cross_loop(carnot_node* node, bool* out_changed) {
  const carnot_op_row* row = carnot_node_row(node);
  carnot_block* body = carnot_attrs_find(&node->attrs, "body")->block;
  const bool is_loop = node->op == CARNOT_OP_LOOP;
  const int carried = (int)carnot_attr_int(row, &node->attrs, "carried"), first = is_loop ? 2 : 0,
            first_out = is_loop ? 1 : 0;
  const int scanned = is_loop ? 0 : (int)carnot_attr_int(row, &node->attrs, "scanned");
  bool changed = false;
  for (int i = first; i < node->input_count; i++) {
    carnot_value* param = body->params[i];
    perm p, back;
    if (!node->inputs[i] || !is_transposed(param, &p)) continue;
    if (i < first + carried) {
      const int k = i - first;
      const carnot_node* last = body->outputs[first_out + k]->producer;
      const perm inverse = inverse_of(&p);
      if (!read_perm(last, &back) || !same_perm(&back, &inverse) || !node->outputs[k]) continue;
      carnot_block_set_output(body, (size_t)(first_out + k), last->inputs[0]);
      CARNOT_TRY(transpose_input(node, i, &p));
      CARNOT_TRY(drop_transposes(param));
      CARNOT_TRY(carnot_node_infer(node));
      CARNOT_TRY(transpose_result(node, k, &inverse));
    } else if (i >= first + carried + scanned) {
      CARNOT_TRY(transpose_input(node, i, &p));
      CARNOT_TRY(drop_transposes(param));
      CARNOT_TRY(carnot_node_infer(node));
    } else {
      continue;
    }
    changed = true;
  }
  *out_changed |= changed;
  return NULL;
}

// ---- conditionals ----

static carnot_status* cross_branch_inputs(carnot_node* node, const carnot_block* branch, int first,
                                          bool* out_changed) {
  for (size_t k = 0; k < branch->param_count; k++) {
    const int i = first + (int)k;
    carnot_value* param = branch->params[k];
    const carnot_node* before = node->inputs[i] ? node->inputs[i]->producer : NULL;
    perm p, back;
    if (!is_transposed(param, &p) || !read_perm(before, &back)) continue;
    const perm inverse = inverse_of(&p);
    if (!same_perm(&back, &inverse)) continue;
    carnot_node_set_input(node, i, before->inputs[0]);
    CARNOT_TRY(drop_transposes(param));
    CARNOT_TRY(carnot_node_infer(node));
    *out_changed = true;
  }
  return NULL;
}

static carnot_status* cross_if(carnot_node* node, bool* out_changed) {
  carnot_block *then_branch = carnot_attrs_find(&node->attrs, "then_branch")->block,
               *else_branch = carnot_attrs_find(&node->attrs, "else_branch")->block;
  CARNOT_TRY(cross_branch_inputs(node, then_branch, 1, out_changed));
  CARNOT_TRY(
      cross_branch_inputs(node, else_branch, 1 + (int)then_branch->param_count, out_changed));
  for (int i = 0; i < node->output_count; i++) {
    perm a, b;
    const carnot_node *x = then_branch->outputs[i]->producer,
                      *y = else_branch->outputs[i]->producer;
    if (!node->outputs[i] || !read_perm(x, &a) || !read_perm(y, &b) || !same_perm(&a, &b)) continue;
    carnot_block_set_output(then_branch, (size_t)i, x->inputs[0]);
    carnot_block_set_output(else_branch, (size_t)i, y->inputs[0]);
    CARNOT_TRY(carnot_node_infer(node));
    CARNOT_TRY(transpose_result(node, i, &a));
    *out_changed = true;
  }
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op == CARNOT_OP_LOOP || node->op == CARNOT_OP_SCAN)
      CARNOT_TRY(cross_loop(node, user));
    else if (node->op == CARNOT_OP_IF)
      CARNOT_TRY(cross_if(node, user));
  }
  return NULL;
}

carnot_status* carnot_layout_cross_edges(carnot_graph* graph, bool* out_changed) {
  return carnot_each_block(graph->main, visit, out_changed);
}
