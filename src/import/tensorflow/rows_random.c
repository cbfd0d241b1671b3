// Random numbers: drawn anew in each run, by Carnot's own generator. Source:
// tensorflow/core/ops/random_ops.cc.
#include "import/tensorflow/rows.h"
#include "import/tensorflow/special.h"

// |op| draws for a tensor of |dtype| whose dimensions are input 0.
static carnot_value* drawn(tf_import* n, carnot_op op, carnot_dtype dtype) {
  carnot_value* like = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2,
                                 import_number_of(&n->node, dtype, 0), tf_int64(n, n->inputs[0]));
  return import_op(&n->node, op, NULL, 1, like);
}

static void handle_random(tf_import* n) {
  n->outputs[0] = drawn(n, (carnot_op)n->row->code, tf_type(n, "dtype", CARNOT_DTYPE_F32));
}
// floor(u (maxval - minval)) + minval, in double.
static void handle_integers(tf_import* n) {
  const carnot_dtype dtype = n->inputs[1]->type.dtype;
  carnot_value* width =
      import_cast(&n->node, import_binary(&n->node, CARNOT_FN_SUB, n->inputs[2], n->inputs[1]),
                  CARNOT_DTYPE_F64);
  carnot_value* u = drawn(n, CARNOT_OP_RANDOM_UNIFORM, CARNOT_DTYPE_F64);
  carnot_value* step =
      import_unary(&n->node, CARNOT_FN_FLOOR, import_binary(&n->node, CARNOT_FN_MUL, u, width));
  n->outputs[0] =
      import_binary(&n->node, CARNOT_FN_ADD, import_cast(&n->node, step, dtype), n->inputs[1]);
}
// Normal numbers between -2 and 2: sqrt(2) erfinv(v), v uniform between -erf(sqrt 2) and erf(sqrt
// 2).
static void handle_truncated(tf_import* n) {
  static const double kMost = 0.95449973610364158, kRoot = 1.41421356237309505;
  carnot_value* u = drawn(n, CARNOT_OP_RANDOM_UNIFORM, tf_type(n, "dtype", CARNOT_DTYPE_F32));
  carnot_value* v = import_unary_with(&n->node, CARNOT_FN_AFFINE, u, 2 * kMost, -kMost);
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_AFFINE, tf_erfinv(n, v), kRoot, 0);
}

static const tf_row kRows[] = {
    {"RandomUniform", handle_random, 1, 1, CARNOT_OP_RANDOM_UNIFORM, NULL, NULL},
    {"RandomStandardNormal", handle_random, 1, 1, CARNOT_OP_RANDOM_NORMAL, NULL, NULL},
    {"RandomUniformInt", handle_integers, 3, 3, 0, NULL, NULL},
    {"TruncatedNormal", handle_truncated, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_random = TF_ROW_TABLE(kRows);
