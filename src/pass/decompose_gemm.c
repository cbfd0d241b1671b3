// Gemm -> transpose, matmul, affine, add on the CPU, whose GEMM kernels read rows of A and, where B
// is computed too, add no C:
//   alpha * A' * B' + beta * C
// With a constant B the Gemm stays, over the transpose of A.
#include "pass/emit.h"

static bool flag(const carnot_node* node, const char* name) {
  return carnot_attr_int(carnot_node_row(node), &node->attrs, name) != 0;
}

static bool is_float_matrix(const carnot_value* x) {
  return carnot_is_ranked(x) && x->type.rank == 2 &&
         (x->type.dtype == CARNOT_DTYPE_F32 || x->type.dtype == CARNOT_DTYPE_F64);
}

// A dequantized operand is the pattern of an integer GEMM.
static bool is_dequantized(const carnot_value* x) {
  return x->producer && x->producer->op == CARNOT_OP_DEQUANTIZE_LINEAR;
}

static bool takes(const carnot_node* node) {
  if (node->op != CARNOT_OP_GEMM) return false;
  for (int i = 0; i < 2; i++)
    if (!is_float_matrix(node->inputs[i]) || is_dequantized(node->inputs[i])) return false;
  return flag(node, "transA") || !carnot_value_is_constant(node->inputs[1]);
}

static carnot_value* transposed(carnot_emitter* e, carnot_value* x) {
  const int64_t perm[2] = {1, 0};
  return carnot_emit_transpose(e, x, perm, 2);
}

// |x| times the factor that the node has by this name.
static carnot_value* scaled(carnot_emitter* e, carnot_value* x, const char* name) {
  const double number = carnot_attr_float(carnot_node_row(e->at), &e->at->attrs, name);
  carnot_attrs attrs = {0};
  carnot_arena* arena = &e->at->block->graph->arena;
  if (number == 1 || !x) return x;
  carnot_attrs_set_int(&attrs, arena, "fn", CARNOT_FN_AFFINE);
  carnot_attrs_set_float(&attrs, arena, "alpha", number);
  return carnot_emit(e, CARNOT_OP_UNARY, &attrs, &x, 1);
}

static carnot_value* product(carnot_emitter* e, carnot_value* a) {
  carnot_node* node = e->at;
  carnot_attrs attrs = {0};
  if (flag(node, "transB")) carnot_attrs_set_int(&attrs, &node->block->graph->arena, "transB", 1);
  carnot_value* inputs[2] = {a, node->inputs[1]};
  return carnot_emit(e, CARNOT_OP_MATMUL, &attrs, inputs, 2);
}

static carnot_status* rewrite(carnot_node* node) {
  carnot_emitter e = {.at = node, .name = node->name};
  carnot_value *a = node->inputs[0], *c = node->input_count > 2 ? node->inputs[2] : NULL;
  if (flag(node, "transA")) a = transposed(&e, a);
  if (carnot_value_is_constant(node->inputs[1])) {
    CARNOT_TRY(e.status);
    carnot_attrs_set_int(&node->attrs, &node->block->graph->arena, "transA", 0);
    carnot_node_set_input(node, 0, a);
    return NULL;
  }
  carnot_value* y = scaled(&e, product(&e, a), "alpha");
  const bool adds = c && carnot_attr_float(carnot_node_row(node), &node->attrs, "beta") != 0;
  if (adds) y = carnot_emit_binary(&e, CARNOT_FN_ADD, y, scaled(&e, c, "beta"));
  CARNOT_TRY(e.status);
  carnot_value_replace(node->outputs[0], y);
  carnot_node_absorb(y->producer, node);
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

carnot_status* carnot_pass_decompose_gemm(carnot_graph* graph, const carnot_pass_options* options) {
  (void)options;
  return carnot_each_block(graph->main, visit, NULL);
}
