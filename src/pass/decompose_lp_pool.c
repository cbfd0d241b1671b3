// LpPool of p 1 and 2 -> |x| or x x, average_pool, affine, square root on the CPU, whose pooling
// kernels have no powers:
//   (sum |x|^p)^(1/p) = (taps * mean |x|^p)^(1/p), the mean over padding too
#include "pass/emit.h"

static bool takes(const carnot_node* node) {
  if (node->op != CARNOT_OP_LP_POOL || node->inputs[0]->type.dtype != CARNOT_DTYPE_F32)
    return false;
  const carnot_op_row* row = carnot_node_row(node);
  const int64_t p = carnot_attr_int(row, &node->attrs, "p");
  // Rounded up, a last window may reach beyond the padding: its mean is over fewer taps.
  return (p == 1 || p == 2) && !carnot_attr_int(row, &node->attrs, "ceil_mode");
}

static carnot_value* unary(carnot_emitter* e, carnot_fn fn, double alpha, carnot_value* x) {
  carnot_attrs attrs = {0};
  carnot_arena* arena = &e->at->block->graph->arena;
  carnot_attrs_set_int(&attrs, arena, "fn", fn);
  if (fn == CARNOT_FN_AFFINE) carnot_attrs_set_float(&attrs, arena, "alpha", alpha);
  return carnot_emit(e, CARNOT_OP_UNARY, &attrs, &x, 1);
}

// The mean over windows of |node|'s sizes.
static carnot_value* mean(carnot_emitter* e, carnot_value* x) {
  static const char* const kLists[] = {"dilations", "kernel_shape", "pads", "strides"};
  const carnot_node* node = e->at;
  carnot_arena* arena = &node->block->graph->arena;
  carnot_attrs attrs = {0};
  for (size_t i = 0; i < sizeof(kLists) / sizeof(kLists[0]); i++) {
    size_t count;
    const int64_t* list = carnot_attr_ints(&node->attrs, kLists[i], &count);
    if (list) carnot_attrs_set_ints(&attrs, arena, kLists[i], list, count);
  }
  const carnot_attr* auto_pad = carnot_attrs_find(&node->attrs, "auto_pad");
  if (auto_pad) carnot_attrs_set(&attrs, arena, *auto_pad);
  carnot_attrs_set_int(&attrs, arena, "count_include_pad", 1);
  return carnot_emit(e, CARNOT_OP_AVERAGE_POOL, &attrs, &x, 1);
}

static carnot_status* rewrite(carnot_node* node) {
  carnot_emitter e = {.at = node, .name = node->name};
  const bool squares = carnot_attr_int(carnot_node_row(node), &node->attrs, "p") == 2;
  size_t rank;
  const int64_t* kernel = carnot_attr_ints(&node->attrs, "kernel_shape", &rank);
  const double taps = (double)carnot_dims_count(kernel, (int)rank);
  carnot_value* x = node->inputs[0];
  x = squares ? carnot_emit_binary(&e, CARNOT_FN_MUL, x, x) : unary(&e, CARNOT_FN_ABS, 0, x);
  x = unary(&e, CARNOT_FN_AFFINE, taps, mean(&e, x));
  if (squares) x = unary(&e, CARNOT_FN_SQRT, 0, x);
  CARNOT_TRY(e.status);
  carnot_value_replace(node->outputs[0], x);
  carnot_node_absorb(x->producer, node);
  carnot_node_remove(node);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (takes(node)) CARNOT_TRY(rewrite(node));
  }
  return NULL;
}

carnot_status* carnot_pass_decompose_lp_pool(carnot_graph* graph,
                                             const carnot_pass_options* options) {
  (void)options;
  return carnot_each_block(graph->main, visit, NULL);
}
