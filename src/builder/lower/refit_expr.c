// Recipes: how a folded constant is made again when the user's weights change.
#include <stdlib.h>

#include "builder/lower/lower.h"

enum { kMaxNodes = 64, kMaxLeaves = 64 };

typedef struct gathering {
  carnot_lowering* l;
  const carnot_node* nodes[kMaxNodes];  // in an order in which they can be computed
  int node_count;
  const carnot_value* leaves[kMaxLeaves];
  int leaf_count;
} gathering;

static int find_node(const gathering* g, const carnot_node* node) {
  int i = 0;
  while (i < g->node_count && g->nodes[i] != node) i++;
  return i;
}
static int find_leaf(const gathering* g, const carnot_value* value) {
  int i = 0;
  while (i < g->leaf_count && g->leaves[i] != value) i++;
  return i;
}

static carnot_status* gather(gathering* g, const carnot_value* value, int depth) {
  const carnot_node* node = value->constant->made_by;
  if (!node) {
    if (find_leaf(g, value) < g->leaf_count) return NULL;
    CARNOT_CHECK(g->leaf_count < kMaxLeaves, UNSUPPORTED,
                 "constant %s is made of more than %d weights: it cannot be refitted", value->name,
                 kMaxLeaves);
    g->leaves[g->leaf_count++] = value;
    return NULL;
  }
  if (find_node(g, node) < g->node_count) return NULL;
  CARNOT_CHECK(depth < kMaxNodes, UNSUPPORTED,
               "constant %s is made in more than %d steps: it cannot be refitted", value->name,
               kMaxNodes);
  for (int i = 0; i < node->input_count; i++)
    if (node->inputs[i]) CARNOT_TRY(gather(g, node->inputs[i], depth + 1));
  CARNOT_CHECK(g->node_count < kMaxNodes, UNSUPPORTED,
               "constant %s is made in more than %d steps: it cannot be refitted", value->name,
               kMaxNodes);
  g->nodes[g->node_count++] = node;
  return NULL;
}

// The local value of a constant: a leaf's place, or the output of the node that makes it.
static uint32_t local_of(const gathering* g, const uint32_t* first_output,
                         const carnot_value* value) {
  if (!value->constant->made_by) return (uint32_t)find_leaf(g, value);
  return first_output[find_node(g, value->constant->made_by)] +
         (uint32_t)value->constant->made_output;
}

static carnot_status* write_refit_expr(gathering* g, const carnot_value* value,
                                       carnot_refit_expr* out) {
  carnot_arena* arena = &g->l->plan->arena;
  uint32_t next = (uint32_t)g->leaf_count, first_output[kMaxNodes];
  out->region.node_count = (uint32_t)g->node_count;
  out->region.nodes = CARNOT_NEW_ARRAY(arena, carnot_plan_node, (size_t)g->node_count);
  CARNOT_TRY(carnot_arena_status(arena));
  for (int n = 0; n < g->node_count; n++) {
    const carnot_node* node = g->nodes[n];
    carnot_plan_node* made = &out->region.nodes[n];
    *made = (carnot_plan_node){.op = node->op, .name = node->name, .attrs = node->attrs};
    made->input_count = (uint32_t)node->input_count;
    made->output_count = (uint32_t)node->output_count;
    uint32_t* inputs = CARNOT_NEW_ARRAY(arena, uint32_t, made->input_count + 1);
    uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, made->output_count + 1);
    CARNOT_TRY(carnot_arena_status(arena));
    for (int i = 0; i < node->input_count; i++)
      inputs[i] = node->inputs[i] ? local_of(g, first_output, node->inputs[i]) : CARNOT_PLAN_NONE;
    first_output[n] = next;
    for (int i = 0; i < node->output_count; i++) outputs[i] = next++;
    made->inputs = inputs;
    made->outputs = outputs;
  }
  uint32_t* inputs = CARNOT_NEW_ARRAY(arena, uint32_t, (size_t)g->leaf_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (int i = 0; i < g->leaf_count; i++)
    CARNOT_TRY(carnot_lowering_constant(g->l, g->leaves[i], &inputs[i]));
  out->inputs = inputs;
  out->input_count = (uint32_t)g->leaf_count;
  out->region.value_count = next;
  uint32_t result = local_of(g, first_output, value);
  out->region.outputs = carnot_arena_copy(arena, &result, sizeof(result));
  CARNOT_TRY(carnot_arena_status(arena));
  out->region.output_count = 1;
  return NULL;
}

carnot_status* carnot_lowering_refit_expr(carnot_lowering* l, const carnot_value* value,
                                          uint32_t* out_refit_expr) {
  *out_refit_expr = CARNOT_PLAN_NONE;
  if (!value->constant->made_by) return NULL;
  gathering* g = calloc(1, sizeof(*g));
  if (!g) return CARNOT_NO_MEMORY(sizeof(*g), "a refit_expr");
  g->l = l;
  carnot_refit_expr refit_expr = {.input_count = 0};
  carnot_status* status = gather(g, value, 0);
  if (!status) status = write_refit_expr(g, value, &refit_expr);
  free(g);
  if (status) return status;
  size_t capacity = l->refit_expr_capacity;
  void* refit_exprs = l->refit_exprs;
  CARNOT_TRY(carnot_grow(&refit_exprs, &capacity, l->refit_expr_count + 1, sizeof(*l->refit_exprs),
                         "refit_exprs"));
  l->refit_exprs = refit_exprs;
  l->refit_expr_capacity = (uint32_t)capacity;
  *out_refit_expr = l->refit_expr_count;
  l->refit_exprs[l->refit_expr_count++] = refit_expr;
  return NULL;
}
