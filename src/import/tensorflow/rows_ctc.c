// Labels of sequences. Source: tensorflow/core/ops/ctc_ops.cc, tensorflow/core/util/ctc.
#include "import/tensorflow/rows.h"

// Frames that count: [T, B], true where t < length[b].
static carnot_value* frames_in(tf_import* n, carnot_value* x, carnot_value* length) {
  static const int64_t kBehind[] = {1};
  import_node* e = &n->node;
  carnot_value* count = import_reshape_to(e, import_shape_part(e, x, 0, 1), NULL, 0);
  carnot_value* t =
      import_op(e, CARNOT_OP_RANGE, NULL, 3, import_int(e, 0), count, import_int(e, 1));
  return import_binary(e, CARNOT_FN_LESS, import_unsqueeze(e, t, kBehind, 1), tf_int64(n, length));
}

// The label of each frame [T, B]: the class of the largest number.
static carnot_value* best_labels(tf_import* n, carnot_value* x) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "fn", "max");
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 2);
  carnot_attrs_set_int(&attrs, n->node.arena, "keepdims", 0);
  return import_op(&n->node, CARNOT_OP_ARG_REDUCE, &attrs, 1, x);
}

// True where the label is the one of the frame before.
static carnot_value* repeated(tf_import* n, carnot_value* best) {
  static const int64_t kPads[] = {1, 0, 0, 0};
  import_node* e = &n->node;
  carnot_value* before = import_op(e, CARNOT_OP_PAD, NULL, 3, import_slice(e, best, 0, 0, -1),
                                   import_ints(e, kPads, 4), import_int(e, -1));
  return import_binary(e, CARNOT_FN_EQUAL, best, before);
}

// The labels |best| [B, T] where |kept| as a sparse matrix [B, longest]: its first three results.
static void set_sparse(tf_import* n, carnot_value* best, carnot_value* kept, carnot_value* batch) {
  static const int64_t kSwap[] = {1, 0}, kLast[] = {1}, kBoth[] = {0, 1}, kFront[] = {0},
                       kPads[] = {0, 1, 0, 0};
  import_node* e = &n->node;
  carnot_attrs sum = {0};
  carnot_attrs_set_text(&sum, n->node.arena, "fn", "sum");
  carnot_value* numbers = import_op(e, CARNOT_OP_CUMULATIVE, &sum, 2,
                                    import_cast(e, kept, CARNOT_DTYPE_I64), import_int(e, 1));
  carnot_value* where =
      import_transpose(e, import_op(e, CARNOT_OP_NON_ZERO, NULL, 1, kept), kSwap, 2);
  carnot_value* column =
      import_binary(e, CARNOT_FN_SUB, import_op(e, CARNOT_OP_GATHER_ND, NULL, 2, numbers, where),
                    import_int(e, 1));
  carnot_value* pair[2] = {import_slice(e, where, 1, 0, 1), import_unsqueeze(e, column, kLast, 1)};
  n->outputs[0] = import_concat(e, 1, pair, 2);
  n->outputs[1] = import_op(e, CARNOT_OP_GATHER_ND, NULL, 2, best, where);
  // The largest count; 0 where there are no frames.
  carnot_value* counts =
      import_op(e, CARNOT_OP_PAD, NULL, 3, numbers, import_ints(e, kPads, 4), import_int(e, 0));
  carnot_value* longest = import_reduce(e, "max", counts, kBoth, 2);
  carnot_value* sizes[2] = {batch, import_squeeze(e, longest, kFront, 1)};
  n->outputs[2] = import_concat(e, 0, sizes, 2);
}

// The label of each frame of [T, B, classes], without blanks and, with merge_repeated, without
// those of the frame before.
static void handle_greedy(tf_import* n) {
  static const int64_t kSwap[] = {1, 0}, kClasses[] = {2}, kFrames[] = {0}, kBehind[] = {1};
  import_node* e = &n->node;
  carnot_value* x = n->inputs[0];
  const int64_t classes = import_rank(e, x) == 3 ? import_dim(x, 2) : 0,
                blank = tf_int(n, "blank_index", -1);
  if (classes == 0 || (classes > 0 && (blank < -classes || blank >= classes)))
    TF_FAIL(n, INVALID_MODEL, "blank_index %lld of %lld classes", (long long)blank,
            (long long)classes);
  if (n->node.status) return;
  carnot_value* is_blank = import_int(e, blank);
  if (blank < 0)  // counted from the end
    is_blank = import_binary(e, CARNOT_FN_ADD, is_blank,
                             import_reshape_to(e, import_shape_part(e, x, 2, 3), NULL, 0));
  carnot_value *best = best_labels(n, x), *inside = frames_in(n, x, n->inputs[1]);
  carnot_value* dropped = import_binary(e, CARNOT_FN_EQUAL, best, is_blank);
  if (tf_bool(n, "merge_repeated", false))
    dropped = import_binary(e, CARNOT_FN_OR, dropped, repeated(n, best));
  carnot_value* kept =
      import_binary(e, CARNOT_FN_AND, inside, import_unary(e, CARNOT_FN_NOT, dropped));
  set_sparse(n, import_transpose(e, best, kSwap, 2), import_transpose(e, kept, kSwap, 2),
             import_shape_part(e, x, 1, 2));
  // Less the sum of the largest numbers.
  carnot_value* most = import_squeeze(e, import_reduce(e, "max", x, kClasses, 1), kClasses, 1);
  most = import_ternary(e, CARNOT_FN_SELECT, inside, most, import_number(e, x, 0));
  carnot_value* total = import_squeeze(e, import_reduce(e, "sum", most, kFrames, 1), kFrames, 1);
  n->outputs[3] = import_unary(e, CARNOT_FN_NEG, import_unsqueeze(e, total, kBehind, 1));
  n->output_count = 4;
}

static const tf_row kRows[] = {
    {"CTCGreedyDecoder", handle_greedy, 2, 2, 0, NULL,
     "decoded_indices decoded_values decoded_shape log_probability"},
};
const tf_row_table tf_rows_ctc = TF_ROW_TABLE(kRows);
