// Conditionals of any number of branches: IF nested by the index.
#include "import/tensorflow/case.h"

void tf_emit_if(import_node* node, carnot_value* condition, const tf_branch* branches,
                carnot_value** outputs, int output_count) {
  static const char* const kNames[] = {"then_branch", "else_branch"};
  const size_t total = 1 + (size_t)branches[0].count + (size_t)branches[1].count;
  carnot_value** inputs = CARNOT_NEW_ARRAY(node->arena, carnot_value*, total);
  carnot_attrs attrs = {0};
  if (!import_has_memory(node)) return;
  int count = 0;
  inputs[count++] = condition;
  for (int b = 0; b < 2; b++) {
    for (int i = 0; i < branches[b].count; i++) inputs[count++] = branches[b].given[i];
    carnot_attrs_set(
        &attrs, node->arena,
        (carnot_attr){.name = kNames[b], .type = CARNOT_ATTR_BLOCK, .block = branches[b].block});
  }
  carnot_attrs_set_int(&attrs, node->arena, "then_inputs", branches[0].count);
  import_emit(node, CARNOT_OP_IF, &attrs, inputs, count, outputs, output_count);
}

static carnot_value* param_like(import_node* node, const carnot_value* value) {
  const char* name = import_unique_name(
      node->state, "", carnot_view(carnot_arena_print(node->arena, "%s/arg", node->name)));
  return carnot_block_add_param(node->block, name, &value->type);
}

// The values that the branches of an inner block need, each once, and their parameters there.
typedef struct passed {
  carnot_value **given, **params;
  int count;
} passed;

// The parameter of |value|, which is a new one where no branch needs it before; |hint|: where it
// may be, as functions take the same values in the same order.
static carnot_value* pass_on(import_node* inner, passed* p, carnot_value* value, int hint) {
  int at = hint < p->count && p->given[hint] == value ? hint : 0;
  while (at < p->count && p->given[at] != value) at++;
  if (at == p->count) {
    p->given[at] = value;
    p->params[at] = param_like(inner, value);
    p->count++;
  }
  return p->params[at];
}

static void emit_from(import_node* node, carnot_value* index, int at, const tf_branch* branches,
                      int count, carnot_value** outputs, int output_count);

// A block that decides between all branches but the first: its parameters are the index and the
// values of the branches.
static tf_branch make_rest(import_node* node, carnot_value* index, int at,
                           const tf_branch* branches, int count, int output_count) {
  const tf_branch none = {NULL, NULL, 0};
  size_t total = 1;
  for (int b = 1; b < count; b++) total += (size_t)branches[b].count;
  passed p = {CARNOT_NEW_ARRAY(&node->state->arena, carnot_value*, total),
              CARNOT_NEW_ARRAY(&node->state->arena, carnot_value*, total), 0};
  carnot_value** inside = CARNOT_NEW_ARRAY(node->arena, carnot_value*, (size_t)output_count + 1);
  tf_branch* rest = CARNOT_NEW_ARRAY(node->arena, tf_branch, (size_t)count);
  if (!import_has_memory(node)) return none;
  import_node inner = *node;
  inner.block = carnot_block_create(node->state->graph);
  carnot_value* own = pass_on(&inner, &p, index, 0);
  for (int b = 1; b < count; b++) {
    rest[b] = branches[b];
    rest[b].given = CARNOT_NEW_ARRAY(node->arena, carnot_value*, (size_t)branches[b].count + 1);
    if (!import_has_memory(node)) return none;
    for (int i = 0; i < branches[b].count; i++)
      rest[b].given[i] = pass_on(&inner, &p, branches[b].given[i], 1 + i);
  }
  emit_from(&inner, own, at + 1, rest + 1, count - 1, inside, output_count);
  node->status = inner.status, node->placed = inner.placed;
  for (int i = 0; i < output_count && !node->status; i++)
    carnot_block_add_output(inner.block, inside[i]);
  return (tf_branch){inner.block, p.given, p.count};
}

// Branch |at| or one behind it, whose values are those of node->block.
static void emit_from(import_node* node, carnot_value* index, int at, const tf_branch* branches,
                      int count, carnot_value** outputs, int output_count) {
  carnot_value* here = import_binary(node, CARNOT_FN_EQUAL, index, import_number(node, index, at));
  tf_branch pair[2] = {branches[0], branches[1]};
  if (node->status) return;
  if (count > 2) pair[1] = make_rest(node, index, at, branches, count, output_count);
  if (!node->status) tf_emit_if(node, here, pair, outputs, output_count);
}

void tf_emit_case(tf_import* n, carnot_value* index, const tf_branch* branches, int count,
                  carnot_value** outputs, int output_count) {
  emit_from(&n->node, index, 0, branches, count, outputs, output_count);
}
