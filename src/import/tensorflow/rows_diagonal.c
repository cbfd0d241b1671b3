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

// The columns or rows that diagonal |k| of [rows, cols] has.
static int64_t length_of(int64_t rows, int64_t cols, int64_t k) {
  const int64_t down = k < 0 ? rows + k : rows, across = k > 0 ? cols - k : cols;
  return down < across ? down : across;
}

// Diagonal |k| filled up to |most| elements: at its beginning where |is_right|.
static carnot_value* padded_part(tf_import* n, int64_t k, int64_t length, int64_t most,
                                 bool is_right) {
  const int rank = import_rank(&n->node, n->inputs[0]) - 1;
  const int64_t axis = rank - 1;
  int64_t widths[2 * CARNOT_MAX_RANK] = {0};
  carnot_value* y = part(n, k);
  widths[is_right ? rank - 1 : 2 * rank - 1] = most - length;
  if (most > length)
    y = import_op(&n->node, CARNOT_OP_PAD, NULL, 3, y,
                  import_ints(&n->node, widths, 2 * (size_t)rank), n->inputs[2]);
  return import_unsqueeze(&n->node, y, &axis, 1);
}

// Diagonals k[1] to k[0], one in each row. align names the side of those above and below the main.
static void handle_band_part(tf_import* n, const int64_t* k) {
  const int rank = import_rank(&n->node, n->inputs[0]);
  const int64_t rows = import_dim(n->inputs[0], rank - 2),
                cols = import_dim(n->inputs[0], rank - 1);
  const bool is_v3 = carnot_view_is(n->proto->op, "MatrixDiagPartV3");
  const char* absent = is_v3 ? "RIGHT_LEFT" : "LEFT_LEFT";
  const bool above = tf_is(n, "align", "RIGHT_LEFT", absent) ||
                     tf_is(n, "align", "RIGHT_RIGHT", absent),
             below = tf_is(n, "align", "LEFT_RIGHT", absent) ||
                     tf_is(n, "align", "RIGHT_RIGHT", absent);
  if (rows < 1 || cols < 1)
    TF_FAIL(n, UNSUPPORTED, "several diagonals of matrices of open size are not supported");
  else if (k[0] > k[1] || k[0] <= -rows || k[1] >= cols)
    TF_FAIL(n, INVALID_MODEL, "diagonals %lld to %lld of %lld x %lld", (long long)k[0],
            (long long)k[1], (long long)rows, (long long)cols);
  if (n->node.status) return;
  const int64_t count = k[1] - k[0] + 1;
  int64_t most = 0;
  carnot_value** parts = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, (size_t)count);
  if (!import_has_memory(&n->node)) return;
  for (int64_t d = k[0]; d <= k[1]; d++) {
    const int64_t length = length_of(rows, cols, d);
    if (length > most) most = length;
  }
  for (int64_t i = 0; i < count && !n->node.status; i++) {
    const int64_t d = k[1] - i;
    parts[i] = padded_part(n, d, length_of(rows, cols, d), most, d >= 0 ? above : below);
  }
  n->outputs[0] = import_concat(&n->node, rank - 2, parts, (int)count);
}

static void handle_matrix_diag_part(tf_import* n) {
  size_t count = 0;
  const int64_t* k = n->input_count > 1 ? tf_need_ints(n, 1, "k", &count) : NULL;
  if (n->node.status) return;
  if (count == 2 && k[0] != k[1])
    handle_band_part(n, k);
  else
    n->outputs[0] = part(n, one_diagonal(n, 1));
}
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
