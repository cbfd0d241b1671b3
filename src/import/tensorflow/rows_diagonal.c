// Diagonals of matrices: diagonal |k| holds the elements whose column is their row and k. Several
// diagonals are the rows of a matrix, the upmost first; a shorter one is filled up to the longest,
// at its beginning where it is aligned right. Source: tensorflow/core/ops/array_ops.cc.
#include "import/tensorflow/rows.h"

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}
static carnot_value* with(tf_import* n, carnot_fn fn, carnot_value* x, int64_t y) {
  return binary(n, fn, x, import_int(&n->node, y));
}
static carnot_value* add(tf_import* n, carnot_value* x, carnot_value* y) {
  return binary(n, CARNOT_FN_ADD, x, y);
}
static carnot_value* sub(tf_import* n, carnot_value* x, carnot_value* y) {
  return binary(n, CARNOT_FN_SUB, x, y);
}
// max(-x, 0): the row of the first element of diagonal |x|.
static carnot_value* below_zero(tf_import* n, carnot_value* x) {
  return sub(n, import_int(&n->node, 0), with(n, CARNOT_FN_MIN, x, 0));
}

// Dimension |axis| as a scalar, and 0, 1, … up to |size|.
static carnot_value* size_of(tf_import* n, carnot_value* x, int axis) {
  return import_reshape_to(&n->node, import_shape_part(&n->node, x, axis, axis + 1), NULL, 0);
}
static carnot_value* ramp(tf_import* n, carnot_value* size) {
  return import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0), size,
                   import_int(&n->node, 1));
}
static carnot_value* as_column(tf_import* n, carnot_value* list) {
  static const int64_t kLast[] = {1};
  return import_unsqueeze(&n->node, list, kLast, 1);
}

// Diagonals |low| to |high| of matrices.
typedef struct band {
  int64_t low, high;
  bool above_right, below_right;  // alignment of diagonals above and below the main
  carnot_value *rows, *cols, *longest;
} band;

// The diagonals that input |input| names; the main one without it.
static band read_band(tf_import* n, int input) {
  band b = {0};
  size_t count = 0;
  const int64_t* k = input < n->input_count ? tf_need_ints(n, input, "k", &count) : NULL;
  const char version = n->proto->op.data[n->proto->op.size - 1];
  const char* absent = version == '3' ? "RIGHT_LEFT" : "LEFT_LEFT";
  if (!k) return b;
  if (count < 1 || count > 2 || k[0] > k[count - 1])
    TF_FAIL(n, INVALID_MODEL, "k has %zu numbers; 1, or 2 in ascending order, are required", count);
  else
    b.low = k[0], b.high = k[count - 1];
  if (b.low < -INT32_MAX || b.high > INT32_MAX)
    TF_FAIL(n, INVALID_MODEL, "diagonals %lld to %lld", (long long)b.low, (long long)b.high);
  b.above_right =
      tf_is(n, "align", "RIGHT_LEFT", absent) || tf_is(n, "align", "RIGHT_RIGHT", absent);
  b.below_right =
      tf_is(n, "align", "LEFT_RIGHT", absent) || tf_is(n, "align", "RIGHT_RIGHT", absent);
  return b;
}
static bool is_one(const band* b) { return b->low == b->high; }

// The elements of diagonals |k|: min(rows + min(k, 0), cols - max(k, 0)).
static carnot_value* length_of(tf_import* n, const band* b, carnot_value* k) {
  return binary(n, CARNOT_FN_MIN, add(n, b->rows, with(n, CARNOT_FN_MIN, k, 0)),
                sub(n, b->cols, with(n, CARNOT_FN_MAX, k, 0)));
}

// What diagonals |k| of |length| elements are filled up with at the beginning.
static carnot_value* offset_of(tf_import* n, const band* b, carnot_value* k, carnot_value* length) {
  carnot_value *zero = import_int(&n->node, 0), *missing = sub(n, b->longest, length);
  return import_ternary(&n->node, CARNOT_FN_SELECT, with(n, CARNOT_FN_LESS, k, 0),
                        b->below_right ? missing : zero, b->above_right ? missing : zero);
}

// |x| with its last two dimensions as one.
static carnot_value* flat(tf_import* n, carnot_value* x, int rank) {
  static const int64_t kOpen[] = {-1};
  carnot_value* parts[2] = {import_shape_part(&n->node, x, 0, rank - 2),
                            import_ints(&n->node, kOpen, 1)};
  return import_reshape(&n->node, x, import_concat(&n->node, 0, parts, 2));
}

// |index|, or the nearest that there is of |count|.
static carnot_value* clipped(tf_import* n, carnot_value* index, carnot_value* count) {
  return binary(n, CARNOT_FN_MIN, with(n, CARNOT_FN_MAX, index, 0),
                with(n, CARNOT_FN_SUB, count, 1));
}

// ---- matrices of diagonals ----

// The matrices |others| with the diagonals [.., count, longest], or [.., longest] of one diagonal.
static carnot_value* put(tf_import* n, band* b, carnot_value* diagonals, carnot_value* others) {
  const int rank = import_rank(&n->node, diagonals);
  if (rank < (is_one(b) ? 1 : 2))
    TF_FAIL(n, INVALID_MODEL, "diagonals of %d dimensions; %d or more are required", rank,
            is_one(b) ? 1 : 2);
  if (n->node.status) return NULL;
  b->longest = size_of(n, diagonals, rank - 1);
  carnot_value *row = as_column(n, ramp(n, b->rows)), *col = ramp(n, b->cols),
               *k = sub(n, col, row);
  carnot_value* is_in = binary(n, CARNOT_FN_AND, with(n, CARNOT_FN_GREATER_EQUAL, k, b->low),
                               with(n, CARNOT_FN_LESS_EQUAL, k, b->high));
  carnot_value* at = binary(n, CARNOT_FN_MIN, row, col);
  if (!is_one(b)) at = add(n, at, offset_of(n, b, k, length_of(n, b, k)));
  at = clipped(n, at, b->longest);
  if (!is_one(b)) {
    carnot_value* which = sub(n, import_int(&n->node, b->high), k);
    which = clipped(n, which, import_int(&n->node, b->high - b->low + 1));
    at = add(n, binary(n, CARNOT_FN_MUL, which, b->longest), at);
    diagonals = flat(n, diagonals, rank);
  }
  carnot_value* spread = import_gather(&n->node, diagonals, at, rank - (is_one(b) ? 1 : 2));
  return import_ternary(&n->node, CARNOT_FN_SELECT, is_in, spread, others);
}

// The number of rows or columns that input |input| gives; |least| where it is -1.
static carnot_value* given_size(tf_import* n, int input, carnot_value* least) {
  const int64_t given = input < n->input_count ? tf_need_int(n, input, "a size") : -1;
  return given < 0 ? least : import_int(&n->node, given);
}

static void handle_matrix_diag(tf_import* n) {
  carnot_value* diagonals = n->inputs[0];
  const int rank = import_rank(&n->node, diagonals);
  band b = read_band(n, 1);
  if (rank < 1) TF_FAIL(n, INVALID_MODEL, "a scalar has no diagonal");
  if (n->node.status) return;
  carnot_value* count = size_of(n, diagonals, rank - 1);
  carnot_value* least_rows = with(n, CARNOT_FN_SUB, count, b.high < 0 ? b.high : 0);
  carnot_value* least_cols = with(n, CARNOT_FN_ADD, count, b.low > 0 ? b.low : 0);
  b.rows = given_size(n, 2, NULL), b.cols = given_size(n, 3, NULL);
  // Without both the matrix is square, without one as small as can be.
  if (!b.rows && !b.cols) b.rows = b.cols = binary(n, CARNOT_FN_MAX, least_rows, least_cols);
  if (!b.rows) b.rows = least_rows;
  if (!b.cols) b.cols = least_cols;
  n->outputs[0] = put(n, &b, diagonals,
                      n->input_count > 4 ? n->inputs[4] : import_number(&n->node, diagonals, 0));
}

static void handle_set_diag(tf_import* n) {
  carnot_value* x = n->inputs[0];
  const int rank = import_rank(&n->node, x);
  band b = read_band(n, 2);
  if (rank < 2) TF_FAIL(n, INVALID_MODEL, "%d dimensions; 2 or more are required", rank);
  if (n->node.status) return;
  b.rows = size_of(n, x, rank - 2), b.cols = size_of(n, x, rank - 1);
  n->outputs[0] = put(n, &b, n->inputs[1], x);
}

// ---- diagonals of matrices ----

static bool diagonals_are_there(tf_import* n, const band* b, const carnot_value* x, int rank) {
  const int64_t rows = import_dim(x, rank - 2), cols = import_dim(x, rank - 1);
  if ((rows >= 0 && b->low <= -rows && b->low) || (cols >= 0 && b->high >= cols && b->high))
    TF_FAIL(n, INVALID_MODEL, "diagonals %lld to %lld of matrices of %lld rows and %lld columns",
            (long long)b->low, (long long)b->high, (long long)rows, (long long)cols);
  return !n->node.status;
}

// Diagonals |b| of the matrices |x|: [.., count, longest], or [.., longest] of one diagonal.
static carnot_value* part(tf_import* n, band* b, carnot_value* x, carnot_value* padding) {
  const int rank = import_rank(&n->node, x);
  if (rank < 2) TF_FAIL(n, INVALID_MODEL, "%d dimensions; 2 or more are required", rank);
  if (n->node.status || !diagonals_are_there(n, b, x, rank)) return NULL;
  b->rows = size_of(n, x, rank - 2), b->cols = size_of(n, x, rank - 1);
  // The longest diagonal is the nearest to the main one.
  const int64_t nearest = b->high < 0 ? b->high : b->low > 0 ? b->low : 0;
  b->longest = length_of(n, b, import_int(&n->node, nearest));
  carnot_value *k = import_int(&n->node, b->low), *at = ramp(n, b->longest), *is_in = NULL;
  if (!is_one(b)) {
    k = import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, b->high),
                  import_int(&n->node, b->low - 1), import_int(&n->node, -1));
    k = as_column(n, k);
    carnot_value* length = length_of(n, b, k);
    at = sub(n, at, offset_of(n, b, k, length));
    is_in = binary(n, CARNOT_FN_AND, with(n, CARNOT_FN_GREATER_EQUAL, at, 0),
                   binary(n, CARNOT_FN_LESS, at, length));
  }
  carnot_value *row = add(n, at, below_zero(n, k)), *col = add(n, at, with(n, CARNOT_FN_MAX, k, 0));
  carnot_value* index = add(n, binary(n, CARNOT_FN_MUL, row, b->cols), col);
  if (is_in) index = clipped(n, index, binary(n, CARNOT_FN_MUL, b->rows, b->cols));
  carnot_value* y = import_gather(&n->node, flat(n, x, rank), index, rank - 2);
  return is_in ? import_ternary(&n->node, CARNOT_FN_SELECT, is_in, y, padding) : y;
}

static void handle_matrix_diag_part(tf_import* n) {
  band b = read_band(n, 1);
  if (!n->node.status)
    n->outputs[0] = part(n, &b, n->inputs[0], n->input_count > 2 ? n->inputs[2] : NULL);
}

// ---- of tensors: both halves of the dimensions are the same ----

static void handle_diag(tf_import* n) {
  static const int64_t kFlat[] = {-1};
  carnot_value *x = n->inputs[0], *list = import_reshape_to(&n->node, x, kFlat, 1);
  carnot_value *shape = import_shape_of(&n->node, x), *twice[2] = {shape, shape};
  band b = {0};
  if (n->node.status) return;
  b.rows = b.cols = size_of(n, list, 0);
  n->outputs[0] = import_reshape(&n->node, put(n, &b, list, import_number(&n->node, x, 0)),
                                 import_concat(&n->node, 0, twice, 2));
}
static void handle_diag_part(tf_import* n) {
  carnot_value* x = n->inputs[0];
  const int rank = import_rank(&n->node, x);
  band b = {0};
  if (rank < 2 || rank % 2)
    TF_FAIL(n, INVALID_MODEL, "%d dimensions; an even number from 2 on is required", rank);
  if (n->node.status) return;
  carnot_value *half = import_shape_part(&n->node, x, 0, rank / 2), *size = NULL, *square = NULL;
  size = import_reduce(&n->node, "prod", half, (const int64_t[]){0}, 1);
  carnot_value* sizes[2] = {size, size};
  square = import_reshape(&n->node, x, import_concat(&n->node, 0, sizes, 2));
  n->outputs[0] = import_reshape(&n->node, part(n, &b, square, NULL), half);
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
