// Diagonals of matrices: diagonal |k| holds the elements whose column is their row and k. Source:
// tensorflow/core/ops/array_ops.cc.
#include "import/tensorflow/rows.h"

// Dimension |axis| as a scalar, and 0, 1, … up to |size|.
static carnot_value* size_of(tf_import* n, carnot_value* x, int axis) {
  return import_reshape_to(&n->node, import_shape_part(&n->node, x, axis, axis + 1), NULL, 0);
}
static carnot_value* ramp(tf_import* n, carnot_value* size) {
  return import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0), size,
                   import_int(&n->node, 1));
}
static carnot_value* less_one(tf_import* n, carnot_value* x) {
  return import_binary(&n->node, CARNOT_FN_SUB, x, import_int(&n->node, 1));
}

// [rows, cols]: where diagonal |k| is.
static carnot_value* mask_of(tf_import* n, carnot_value* rows, carnot_value* cols, int64_t k) {
  static const int64_t kLast[] = {1};
  carnot_value* row = import_unsqueeze(&n->node, ramp(n, rows), kLast, 1);
  carnot_value* away = import_binary(&n->node, CARNOT_FN_SUB, ramp(n, cols), row);
  return import_binary(&n->node, CARNOT_FN_EQUAL, away, import_int(&n->node, k));
}

// |diagonal| [.., count] so that it broadcasts over matrices of [rows, cols]: by rows, or by
// columns below the main diagonal. Elements behind the last are not on the diagonal.
static carnot_value* spread(tf_import* n, carnot_value* diagonal, carnot_value* rows,
                            carnot_value* cols, int64_t k) {
  const int rank = import_rank(&n->node, diagonal);
  const int64_t axis = k >= 0 ? rank : rank - 1;
  carnot_value* last = less_one(n, size_of(n, diagonal, rank - 1));
  carnot_value* at = import_binary(&n->node, CARNOT_FN_MIN, ramp(n, k >= 0 ? rows : cols), last);
  return import_unsqueeze(&n->node, import_gather(&n->node, diagonal, at, rank - 1), &axis, 1);
}

// The only diagonal that input |input| names.
static int64_t one_diagonal(tf_import* n, int input) {
  size_t count = 0;
  const int64_t* k = input < n->input_count ? tf_need_ints(n, input, "k", &count) : NULL;
  if (!k) return 0;
  if (count < 1 || count > 2 || k[0] != k[count - 1])
    TF_FAIL(n, UNSUPPORTED, "bands of several diagonals are not supported");
  return k[0];
}

// ---- matrices of a diagonal ----

// The number of rows or columns that input |input| gives; |least| where it is -1.
static carnot_value* given_size(tf_import* n, int input, carnot_value* least) {
  const int64_t given = input < n->input_count ? tf_need_int(n, input, "a size") : -1;
  return given < 0 ? least : import_int(&n->node, given);
}

static void handle_matrix_diag(tf_import* n) {
  carnot_value* diagonal = n->inputs[0];
  const int rank = import_rank(&n->node, diagonal);
  const int64_t k = one_diagonal(n, 1), up = k > 0 ? k : 0, down = k < 0 ? -k : 0;
  if (rank < 1) TF_FAIL(n, INVALID_MODEL, "a scalar has no diagonal");
  if (n->node.status) return;
  carnot_value* count = size_of(n, diagonal, rank - 1);
  carnot_value* least_rows =
      import_binary(&n->node, CARNOT_FN_ADD, count, import_int(&n->node, down));
  carnot_value* least_cols =
      import_binary(&n->node, CARNOT_FN_ADD, count, import_int(&n->node, up));
  carnot_value *rows = given_size(n, 2, NULL), *cols = given_size(n, 3, NULL);
  // Without both the matrix is square, without one as small as can be.
  if (!rows && !cols) rows = cols = import_binary(&n->node, CARNOT_FN_MAX, least_rows, least_cols);
  if (!rows) rows = least_rows;
  if (!cols) cols = least_cols;
  carnot_value* padding = n->input_count > 4 ? n->inputs[4] : import_number(&n->node, diagonal, 0);
  n->outputs[0] = import_ternary(&n->node, CARNOT_FN_SELECT, mask_of(n, rows, cols, k),
                                 spread(n, diagonal, rows, cols, k), padding);
}
static void handle_diag(tf_import* n) {
  if (import_rank(&n->node, n->inputs[0]) != 1)
    TF_FAIL(n, UNSUPPORTED, "diagonals of more than one dimension are not supported");
  else
    handle_matrix_diag(n);
}

static void handle_set_diag(tf_import* n) {
  carnot_value* x = n->inputs[0];
  const int rank = import_rank(&n->node, x);
  const int64_t k = one_diagonal(n, 2);
  if (rank < 2) TF_FAIL(n, INVALID_MODEL, "%d dimensions; 2 or more are required", rank);
  if (n->node.status) return;
  carnot_value *rows = size_of(n, x, rank - 2), *cols = size_of(n, x, rank - 1);
  n->outputs[0] = import_ternary(&n->node, CARNOT_FN_SELECT, mask_of(n, rows, cols, k),
                                 spread(n, n->inputs[1], rows, cols, k), x);
}

// ---- diagonals of a matrix ----

static carnot_value* part(tf_import* n, int64_t k) {
  carnot_value* x = n->inputs[0];
  const int rank = import_rank(&n->node, x);
  const int64_t axis = rank - 1;
  if (rank < 2) TF_FAIL(n, INVALID_MODEL, "%d dimensions; 2 or more are required", rank);
  if (n->node.status) return NULL;
  // The diagonal of a matrix that begins where it does; all else is 0 in the sum of each row.
  if (k > 0) x = import_slice(&n->node, x, rank - 1, k, INT64_MAX);
  if (k < 0) x = import_slice(&n->node, x, rank - 2, -k, INT64_MAX);
  carnot_value *rows = size_of(n, x, rank - 2), *cols = size_of(n, x, rank - 1);
  carnot_value* only = import_ternary(&n->node, CARNOT_FN_SELECT, mask_of(n, rows, cols, 0), x,
                                      import_number(&n->node, x, 0));
  carnot_value* sums =
      import_squeeze(&n->node, import_reduce(&n->node, "sum", only, &axis, 1), &axis, 1);
  static const int64_t kOne[] = {1};
  const int64_t zero = 0, last = rank - 2;
  return import_op(&n->node, CARNOT_OP_SLICE, NULL, 4, sums, import_ints(&n->node, &zero, 1),
                   import_reshape_to(&n->node, cols, kOne, 1), import_ints(&n->node, &last, 1));
}

static void handle_matrix_diag_part(tf_import* n) { n->outputs[0] = part(n, one_diagonal(n, 1)); }
static void handle_diag_part(tf_import* n) {
  if (import_rank(&n->node, n->inputs[0]) != 2)
    TF_FAIL(n, UNSUPPORTED, "diagonals of more than one dimension are not supported");
  else
    n->outputs[0] = part(n, 0);
}

#define BY(op, f, least, most) \
  { op, f, least, most, 0, NULL, NULL }
static const tf_row kRows[] = {
    BY("Diag", handle_diag, 1, 1),
    BY("DiagPart", handle_diag_part, 1, 1),
    BY("MatrixDiag", handle_matrix_diag, 1, 1),
    BY("MatrixDiagV2", handle_matrix_diag, 5, 5),
    BY("MatrixDiagV3", handle_matrix_diag, 5, 5),
    BY("MatrixDiagPart", handle_matrix_diag_part, 1, 1),
    BY("MatrixDiagPartV2", handle_matrix_diag_part, 3, 3),
    BY("MatrixDiagPartV3", handle_matrix_diag_part, 3, 3),
    BY("MatrixSetDiag", handle_set_diag, 2, 2),
    BY("MatrixSetDiagV2", handle_set_diag, 3, 3),
    BY("MatrixSetDiagV3", handle_set_diag, 3, 3),
};
const tf_row_table tf_rows_diagonal = TF_ROW_TABLE(kRows);
