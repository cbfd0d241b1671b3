// Algebraic simplification: removes operators whose result equals their first input, merges a
// transpose of a transpose and a reshape of a view, squeezes where a gather takes all there is,
// adds two constants to each other, and leaves it to element-wise functions to broadcast.
#include "pass/emit.h"

static bool same_type(const carnot_value* a, const carnot_value* b) {
  return a->type.dtype == b->type.dtype && carnot_same_dims(&a->type, &b->type);
}

static bool all_ints(const carnot_value* value, int64_t wanted) {
  int64_t list[64];
  int count = carnot_value_ints(value, list, 64);
  for (int i = 0; i < count; i++)
    if (list[i] != wanted) return false;
  return count > 0;
}

static const int64_t* permutation(const carnot_node* node, size_t* out_count) {
  return carnot_attr_ints(&node->attrs, "perm", out_count);
}

static bool is_identity_transpose(const carnot_node* node) {
  size_t count;
  const int64_t* perm = permutation(node, &count);
  int rank = node->inputs[0]->type.rank;
  if (!perm) return rank >= 0 && rank <= 1;
  for (size_t i = 0; i < count; i++)
    if (perm[i] != (int64_t)i) return false;
  return true;
}

// x * 1, x / 1, x - 0 and x ^ 1 give x bit for bit; x + 0 does not for x = -0.
static bool is_neutral(const carnot_node* node) {
  double number;
  carnot_fn fn = carnot_node_fn(node);
  if (node->op != CARNOT_OP_BINARY || !carnot_value_scalar(node->inputs[1], &number)) return false;
  if (fn == CARNOT_FN_MUL || fn == CARNOT_FN_DIV || fn == CARNOT_FN_POW) return number == 1;
  return fn == CARNOT_FN_SUB && number == 0 && carnot_dtype_is_float(node->outputs[0]->type.dtype);
}

static bool is_fn_identity(const carnot_node* node) {
  return carnot_node_is_fn(node, CARNOT_FN_IDENTITY);
}

static bool is_inference_dropout(const carnot_node* node) {
  double training;
  if (node->input_count < 3 || !node->inputs[2]) return true;
  return carnot_value_scalar(node->inputs[2], &training) && training == 0;
}

static bool has_one_input(const carnot_node* node) { return node->input_count == 1; }

static bool pads_nothing(const carnot_node* node) { return all_ints(node->inputs[1], 0); }

static bool slices_everything(const carnot_node* node) {
  return all_ints(node->inputs[1], 0) &&
         (node->input_count < 5 || !node->inputs[4] || all_ints(node->inputs[4], 1));
}

// 1 * x: with the factor first.
static bool is_one_times(const carnot_node* node) {
  double number;
  return carnot_node_is_fn(node, CARNOT_FN_MUL) && carnot_value_scalar(node->inputs[0], &number) &&
         number == 1 && !carnot_value_scalar(node->inputs[1], &number) &&
         same_type(node->inputs[1], node->outputs[0]);
}

// Operators whose first output may equal their first input: where both have the same type
// (|same_type|), and where |holds| does.
static const struct {
  carnot_op op;
  bool same_type;
  bool (*holds)(const carnot_node* node);  // NULL: always
} kIdentities[] = {
    {CARNOT_OP_IDENTITY, false, NULL},
    {CARNOT_OP_UNARY, false, is_fn_identity},
    {CARNOT_OP_CAST, true, NULL},
    {CARNOT_OP_RESHAPE, true, NULL},
    {CARNOT_OP_EXPAND, true, NULL},
    {CARNOT_OP_SQUEEZE, true, NULL},
    {CARNOT_OP_UNSQUEEZE, true, NULL},
    {CARNOT_OP_DROPOUT, false, is_inference_dropout},
    {CARNOT_OP_TRANSPOSE, false, is_identity_transpose},
    {CARNOT_OP_CONCAT, false, has_one_input},
    {CARNOT_OP_PAD, true, pads_nothing},
    {CARNOT_OP_SLICE, true, slices_everything},
    {CARNOT_OP_BINARY, true, is_neutral},
};

static bool changes_nothing(const carnot_node* node) {
  if (node->output_count < 1 || !node->outputs[0] || node->input_count < 1 || !node->inputs[0])
    return false;
  for (int i = 1; i < node->output_count; i++)
    if (node->outputs[i] && carnot_value_used(node->outputs[i])) return false;
  for (size_t i = 0; i < sizeof(kIdentities) / sizeof(kIdentities[0]); i++)
    if (kIdentities[i].op == node->op)
      return (!kIdentities[i].same_type || same_type(node->inputs[0], node->outputs[0])) &&
             (!kIdentities[i].holds || kIdentities[i].holds(node));
  return false;
}

static carnot_status* join_transposes(carnot_node* node) {
  carnot_node* before = node->inputs[0]->producer;
  if (!before || before->op != CARNOT_OP_TRANSPOSE || before->block != node->block) return NULL;
  size_t count, count_before;
  const int64_t* perm = permutation(node, &count);
  const int64_t* perm_before = permutation(before, &count_before);
  if (!perm || !perm_before || count != count_before || count > CARNOT_MAX_RANK) return NULL;
  int64_t joined[CARNOT_MAX_RANK];
  for (size_t i = 0; i < count; i++) joined[i] = perm_before[perm[i]];
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &node->block->graph->arena, "perm", joined, count);
  node->attrs = attrs;
  carnot_node_set_input(node, 0, before->inputs[0]);
  return carnot_node_infer(node);
}

static bool is_view(const carnot_node* node) {
  return node && carnot_op_has_trait(node->op, CARNOT_TRAIT_VIEW);
}

// reshape(view(x)) = reshape(x), when the target copies no dimension of what is between.
static carnot_status* join_views(carnot_node* node) {
  carnot_node* before = node->inputs[0]->producer;
  if (!is_view(before) || before->block != node->block) return NULL;
  int64_t target[CARNOT_MAX_RANK];
  int count = carnot_value_ints(node->inputs[1], target, CARNOT_MAX_RANK);
  if (count < 0) return NULL;
  for (int i = 0; i < count; i++)
    if (target[i] == 0) return NULL;
  carnot_node_set_input(node, 0, before->inputs[0]);
  return carnot_node_infer(node);
}

// The only element of an axis: gather(x, 0) = squeeze(x).
static carnot_status* squeeze_gather(carnot_node* node) {
  const carnot_value *x = node->inputs[0], *index = node->inputs[1];
  int64_t at;
  if (!carnot_is_ranked(x) || !carnot_is_ranked(index) || index->type.rank != 0 ||
      carnot_value_ints(index, &at, 1) != 1 || (at != 0 && at != -1))
    return NULL;
  int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  if (axis < 0) axis += x->type.rank;
  if (!carnot_sym_is(x->type.dims[axis], 1)) return NULL;
  carnot_emitter e = {.at = node};
  return carnot_emit_replace(&e, node, carnot_emit_squeeze(&e, node->inputs[0], axis));
}

// x + c + d = x + (c + d), of constants of one shape.
static carnot_status* join_constants(carnot_node* add) {
  const int at = add->inputs[0]->constant ? 1 : 0;
  carnot_node* first = add->inputs[at]->producer;
  carnot_value* last = add->inputs[1 - at];
  if (!last->constant || !first || first->block != add->block ||
      !carnot_node_is_fn(first, CARNOT_FN_ADD) || first->precision != add->precision ||
      carnot_only_user(first->outputs[0]) != add)
    return NULL;
  const int constant = first->inputs[0]->constant ? 0 : 1;
  carnot_value *x = first->inputs[1 - constant], *c = first->inputs[constant];
  if (!c->constant || x->constant || !same_type(c, last) ||
      !same_type(add->outputs[0], first->outputs[0]))
    return NULL;
  carnot_emitter e = {.at = add};
  carnot_value* sum = carnot_emit_binary(&e, CARNOT_FN_ADD, c, last);
  CARNOT_TRY(e.status);
  carnot_node_set_input(add, at, x);
  carnot_node_set_input(add, 1 - at, sum);
  carnot_node_absorb(add, first);
  return NULL;
}

// f(x, expand(y)) = f(x, y) where x has all elements.
static void take_unexpanded(carnot_node* node) {
  const carnot_type* result = &node->outputs[0]->type;
  for (int i = 0; i < node->input_count && carnot_is_ranked(node->outputs[0]); i++) {
    const carnot_node* expand = node->inputs[i] ? node->inputs[i]->producer : NULL;
    if (!expand || expand->op != CARNOT_OP_EXPAND || !carnot_is_ranked(expand->inputs[0])) continue;
    bool has_all = false;
    for (int k = 0; k < node->input_count; k++)
      has_all |= k != i && node->inputs[k] && carnot_same_dims(&node->inputs[k]->type, result);
    if (has_all) carnot_node_set_input(node, i, expand->inputs[0]);
  }
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op == CARNOT_OP_TRANSPOSE && node->inputs[0]) CARNOT_TRY(join_transposes(node));
    if (node->op == CARNOT_OP_RESHAPE && node->input_count > 1) CARNOT_TRY(join_views(node));
    if (node->op == CARNOT_OP_GATHER) CARNOT_TRY(squeeze_gather(node));
    if (carnot_node_is_fn(node, CARNOT_FN_ADD)) CARNOT_TRY(join_constants(node));
    if (carnot_node_fn(node) != CARNOT_FN_COUNT) take_unexpanded(node);
    if (is_one_times(node)) {
      carnot_value* one = node->inputs[0];
      carnot_node_set_input(node, 0, node->inputs[1]);
      carnot_node_set_input(node, 1, one);
    }
    if (!changes_nothing(node)) continue;
    // A result must keep a value of its own block.
    if (node->outputs[0]->block_output_count && node->inputs[0]->block != block) continue;
    carnot_value_replace(node->outputs[0], node->inputs[0]);
    if (node->inputs[0]->producer) carnot_node_absorb(node->inputs[0]->producer, node);
    carnot_node_remove(node);
  }
  return NULL;
}

carnot_status* carnot_pass_algebraic_simplify(carnot_graph* graph,
                                              const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
