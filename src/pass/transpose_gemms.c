// A GEMM along the axis before the last, which networks that mix tokens write between transposes:
//   transpose(transpose(x) . W + b)  =  transpose(W) . x + b [N,1]
// with a constant W [K,N] and an optional constant b [N]. For an accelerator, whose GEMMs take the
// constant as the first operand.
#include "pass/emit.h"

// A constant with one number for each of |count| columns of a result of rank |rank|.
static bool is_bias(const carnot_value* value, int64_t count, int rank) {
  if (!value || !value->constant || value->type.rank < 1 || value->type.rank > rank) return false;
  const carnot_tensor* t = &value->constant->tensor;
  return t->dims[t->rank - 1] == count && carnot_tensor_count(t) == count;
}

typedef struct transposed_gemm {
  carnot_value *x, *weights, *bias;  // |bias| may be NULL
  carnot_node* matmul;
} transposed_gemm;

// Whether |node|, a transpose, has the GEMM of a transpose before it.
static bool read_gemm(const carnot_node* node, transposed_gemm* out) {
  carnot_node* matmul = carnot_only_producer(node->inputs[0]);
  carnot_value* added[2] = {NULL, NULL};
  if (matmul && matmul->op == CARNOT_OP_BINARY && carnot_node_is_fn(matmul, CARNOT_FN_ADD)) {
    memcpy(added, matmul->inputs, sizeof(added));
    const int at = added[0]->constant ? 1 : 0;
    out->bias = added[1 - at];
    matmul = carnot_only_producer(added[at]);
  }
  if (!matmul || matmul->op != CARNOT_OP_MATMUL || matmul->block != node->block ||
      !carnot_swaps_last(matmul->inputs[0]->producer))
    return false;
  const carnot_value* weights = matmul->inputs[1];
  if (!weights->constant || weights->type.rank != 2) return false;
  if (added[0] &&
      !is_bias(out->bias, weights->constant->tensor.dims[1], node->inputs[0]->type.rank))
    return false;
  out->x = matmul->inputs[0]->producer->inputs[0];
  out->weights = matmul->inputs[1], out->matmul = matmul;
  return true;
}

static carnot_status* rewrite(carnot_node* node, const transposed_gemm* gemm) {
  static const int64_t kSwap[] = {1, 0}, kColumn[] = {-1, 1};
  carnot_emitter e = {.at = node, .name = node->name};
  carnot_value* operands[2] = {carnot_emit_transpose(&e, gemm->weights, kSwap, 2), gemm->x};
  carnot_value* y = carnot_emit(&e, CARNOT_OP_MATMUL, &gemm->matmul->attrs, operands, 2);
  if (gemm->bias)
    y = carnot_emit_binary(&e, CARNOT_FN_ADD, y, carnot_emit_reshape(&e, gemm->bias, kColumn, 2));
  CARNOT_TRY(e.status);
  carnot_absorb_pattern(y->producer, node);
  carnot_value_keep_range(y, node->outputs[0]);
  y->name = node->outputs[0]->name;
  carnot_value_replace(node->outputs[0], y);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    transposed_gemm gemm = {0};
    if (carnot_swaps_last(node) && read_gemm(node, &gemm)) CARNOT_TRY(rewrite(node, &gemm));
  }
  return NULL;
}

carnot_status* carnot_pass_transpose_gemms(carnot_graph* graph,
                                           const carnot_pass_options* options) {
  if (!options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
