// Matrix products. Source: tensorflow/core/ops/math_ops.cc, linalg_ops.cc.
#include "import/tensorflow/rows.h"

static carnot_value* swapped(tf_import* n, carnot_value* x) {
  int64_t perm[CARNOT_MAX_RANK];
  const int rank = import_rank(&n->node, x);
  if (rank < 2) return x;
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 2] = rank - 1, perm[rank - 1] = rank - 2;
  return import_transpose(&n->node, x, perm, rank);
}
static void product(tf_import* n, const char* first, const char* second) {
  carnot_value *a = n->inputs[0], *b = n->inputs[1];
  if (tf_bool(n, first, false)) a = swapped(n, a);
  if (tf_bool(n, second, false)) b = swapped(n, b);
  n->outputs[0] = import_matmul(&n->node, a, b);
}
static void handle_matmul(tf_import* n) { product(n, "transpose_a", "transpose_b"); }
static void handle_batch_matmul(tf_import* n) { product(n, "adj_x", "adj_y"); }

// A matrix of |values| at |indices| [count, 2], zero elsewhere, times a matrix.
static void handle_sparse_product(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "reduction", "add");
  carnot_value* zeros =
      import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_number(&n->node, n->inputs[1], 0),
                tf_int64(n, n->inputs[2]));
  carnot_value* a = import_op(&n->node, CARNOT_OP_SCATTER_ND, &attrs, 3, zeros,
                              tf_int64(n, n->inputs[0]), n->inputs[1]);
  carnot_value* b = n->inputs[3];
  if (tf_bool(n, "adjoint_a", false)) a = swapped(n, a);
  if (tf_bool(n, "adjoint_b", false)) b = swapped(n, b);
  n->outputs[0] = import_matmul(&n->node, a, b);
}

static void handle_einsum(tf_import* n) {
  const tf_attr_value* equation = tf_attr_find(n->proto, "equation");
  carnot_attrs attrs = {0};
  if (!equation || !equation->s.size) {
    TF_FAIL(n, INVALID_MODEL, "attribute equation is missing");
    return;
  }
  carnot_attrs_set_text(&attrs, n->node.arena, "equation",
                        carnot_arena_text(n->node.arena, equation->s.data, equation->s.size));
  import_emit(&n->node, CARNOT_OP_EINSUM, &attrs, n->inputs, n->input_count, n->outputs, 1);
}

static const tf_row kRows[] = {
    {"MatMul", handle_matmul, 2, 2, 0, NULL, NULL},
    {"BatchMatMul", handle_batch_matmul, 2, 2, 0, NULL, NULL},
    {"BatchMatMulV2", handle_batch_matmul, 2, 2, 0, NULL, NULL},
    {"BatchMatMulV3", handle_batch_matmul, 2, 2, 0, NULL, NULL},
    {"SparseTensorDenseMatMul", handle_sparse_product, 4, 4, 0, NULL, NULL},
    {"Einsum", handle_einsum, 1, -1, 0, NULL, NULL},
};
const tf_row_table tf_rows_matmul = TF_ROW_TABLE(kRows);
