// Matrices that are factored and systems that are solved. Source:
// tensorflow/core/ops/linalg_ops.cc.
#include "import/tensorflow/rows.h"

static carnot_value* swapped(tf_import* n, carnot_value* x) {
  int64_t perm[CARNOT_MAX_RANK];
  const int rank = import_rank(&n->node, x);
  if (rank < 2) return x;
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 2] = rank - 1, perm[rank - 1] = rank - 2;
  return import_transpose(&n->node, x, perm, rank);
}

static carnot_value* matrix_of(tf_import* n) {
  return tf_bool(n, "adjoint", false) ? swapped(n, n->inputs[0]) : n->inputs[0];
}
static void handle_inverse(tf_import* n) {
  n->outputs[0] = import_op(&n->node, CARNOT_OP_SOLVE, NULL, 1, matrix_of(n));
}
static void handle_solve(tf_import* n) {
  n->outputs[0] = import_op(&n->node, CARNOT_OP_SOLVE, NULL, 2, matrix_of(n), n->inputs[1]);
}
// What is above or below the diagonal is not read.
static void handle_triangular_solve(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "upper", !tf_bool(n, "lower", true));
  carnot_value* a = import_op(&n->node, CARNOT_OP_TRILU, &attrs, 1, n->inputs[0]);
  if (tf_bool(n, "adjoint", false)) a = swapped(n, a);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_SOLVE, NULL, 2, a, n->inputs[1]);
}
static void handle_cholesky(tf_import* n) {
  n->outputs[0] = import_op(&n->node, CARNOT_OP_CHOLESKY, NULL, 1, n->inputs[0]);
}

// The vector product over the last dimension of 3.
static void handle_cross(tf_import* n) {
  static const int64_t kNext[] = {1, 2, 0}, kAfter[] = {2, 0, 1};
  const int last = import_rank(&n->node, n->inputs[0]) - 1;
  carnot_value *next = import_ints(&n->node, kNext, 3), *after = import_ints(&n->node, kAfter, 3);
  if (last < 0) TF_FAIL(n, INVALID_MODEL, "a scalar is no vector");
  carnot_value *a = n->inputs[0], *b = n->inputs[1];
  carnot_value* x = import_binary(&n->node, CARNOT_FN_MUL, import_gather(&n->node, a, next, last),
                                  import_gather(&n->node, b, after, last));
  carnot_value* y = import_binary(&n->node, CARNOT_FN_MUL, import_gather(&n->node, a, after, last),
                                  import_gather(&n->node, b, next, last));
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_SUB, x, y);
}

static const tf_row kRows[] = {
    {"MatrixInverse", handle_inverse, 1, 1, 0, NULL, NULL},
    {"BatchMatrixInverse", handle_inverse, 1, 1, 0, NULL, NULL},
    {"MatrixSolve", handle_solve, 2, 2, 0, NULL, NULL},
    {"MatrixTriangularSolve", handle_triangular_solve, 2, 2, 0, NULL, NULL},
    {"Cholesky", handle_cholesky, 1, 1, 0, NULL, NULL},
    {"Cross", handle_cross, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_linalg = TF_ROW_TABLE(kRows);
