// Writes a Concat whose first operands are those of another as a Concat of its result:
//   Concat(a, b) and Concat(a, b, c)  =  Concat(a, b) and Concat(Concat(a, b), c)
// as dense blocks list all layers before each. Then each result is the beginning of one other:
// lowering lays it in the next, and nothing is copied.
#include "pass/emit.h"

// Lists of sizes are left alone.
static bool is_concat(const carnot_node* node) {
  return node->op == CARNOT_OP_CONCAT && carnot_is_ranked(node->outputs[0]) &&
         node->outputs[0]->type.rank > 1;
}

static int64_t axis_of(const carnot_node* concat) {
  const int64_t axis = carnot_attr_int(carnot_node_row(concat), &concat->attrs, "axis");
  return axis < 0 ? axis + concat->outputs[0]->type.rank : axis;
}

// Whether the operands of |small| are the first ones of |large|.
static bool begins(const carnot_node* small, const carnot_node* large) {
  if (small->input_count < 2 || small->input_count >= large->input_count ||
      small->block != large->block || axis_of(small) != axis_of(large) ||
      small->precision != large->precision)
    return false;
  for (int i = 0; i < small->input_count; i++)
    if (small->inputs[i] != large->inputs[i]) return false;
  return true;
}

// The longest Concat before |node| that its operands begin with.
static carnot_node* find_beginning(carnot_node* node) {
  carnot_node* best = NULL;
  const carnot_value* first = node->inputs[0];
  for (size_t u = 0; u < first->use_count; u++) {
    carnot_node* other = first->uses[u].node;
    if (is_concat(other) && other != node && begins(other, node) &&
        (!best || other->input_count > best->input_count) && carnot_node_comes_before(other, node))
      best = other;
  }
  return best;
}

static carnot_status* nest(carnot_node* node, carnot_node* beginning) {
  carnot_emitter e = {.at = node, .name = node->name};
  const int rest = node->input_count - beginning->input_count;
  carnot_value** parts =
      CARNOT_NEW_ARRAY(&node->block->graph->arena, carnot_value*, (size_t)rest + 1);
  CARNOT_TRY(carnot_arena_status(&node->block->graph->arena));
  parts[0] = beginning->outputs[0];
  memcpy(parts + 1, node->inputs + beginning->input_count, (size_t)rest * sizeof(*parts));
  return carnot_emit_replace(&e, node, carnot_emit_concat(&e, axis_of(node), parts, rest + 1));
}

// From the last to the first: the operands of the longer ones are compared before they change.
static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->last, *before; node; node = before) {
    before = node->previous;
    if (!is_concat(node) || !node->inputs[0]) continue;
    carnot_node* beginning = find_beginning(node);
    if (beginning) CARNOT_TRY(nest(node, beginning));
  }
  return NULL;
}

carnot_status* carnot_pass_nest_concats(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
