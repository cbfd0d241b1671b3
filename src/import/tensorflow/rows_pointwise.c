// Element-wise operators. Source: tensorflow/core/ops/math_ops.cc and nn_ops.cc.
#include <math.h>

#include "import/tensorflow/complex.h"
#include "import/tensorflow/rows.h"

static carnot_value* number(tf_import* n, double value) {
  return import_number(&n->node, n->inputs[0], value);
}
static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}
static carnot_value* unary(tf_import* n, carnot_fn fn, carnot_value* x) {
  return import_unary(&n->node, fn, x);
}

static void handle_unary(tf_import* n) {
  n->outputs[0] = import_unary_with(&n->node, (carnot_fn)n->row->code, n->inputs[0], 1, 1);
}
static void handle_binary(tf_import* n) {
  n->outputs[0] = binary(n, (carnot_fn)n->row->code, n->inputs[0], n->inputs[1]);
}
static void handle_identity(tf_import* n) { n->outputs[0] = n->inputs[0]; }

// ---- of one operand ----

static void handle_square(tf_import* n) {
  n->outputs[0] = binary(n, CARNOT_FN_MUL, n->inputs[0], n->inputs[0]);
}
static void handle_rsqrt(tf_import* n) {
  n->outputs[0] = unary(n, CARNOT_FN_RECIP, unary(n, CARNOT_FN_SQRT, n->inputs[0]));
}
// tanh(x / 2) * (exp(x) + 1), which is accurate near 0 too; exp(x) - 1 overflows as it should.
static void handle_expm1(tf_import* n) {
  carnot_value* half = binary(n, CARNOT_FN_MUL, n->inputs[0], number(n, 0.5));
  carnot_value* e = unary(n, CARNOT_FN_EXP, n->inputs[0]);
  n->outputs[0] = binary(n, CARNOT_FN_MUL, unary(n, CARNOT_FN_TANH, half),
                         binary(n, CARNOT_FN_ADD, e, number(n, 1)));
}
// log(u) * x / (u - 1) with u = 1 + x as it is rounded; x where u is 1, u where it is infinite.
static void handle_log1p(tf_import* n) {
  carnot_value* x = n->inputs[0];
  carnot_value* u = binary(n, CARNOT_FN_ADD, x, number(n, 1));
  carnot_value* y = binary(n, CARNOT_FN_MUL, unary(n, CARNOT_FN_LOG, u),
                           binary(n, CARNOT_FN_DIV, x, binary(n, CARNOT_FN_SUB, u, number(n, 1))));
  carnot_value* infinite = import_unary_with(&n->node, CARNOT_FN_IS_INF, u, 1, 1);
  y = import_ternary(&n->node, CARNOT_FN_SELECT, infinite, u, y);
  carnot_value* small = binary(n, CARNOT_FN_EQUAL, u, number(n, 1));
  n->outputs[0] = import_ternary(&n->node, CARNOT_FN_SELECT, small, x, y);
}
static void handle_relu6(tf_import* n) {
  carnot_value* x = n->inputs[0];
  n->outputs[0] = carnot_dtype_is_float(x->type.dtype)
                      ? import_unary_with(&n->node, CARNOT_FN_CLAMP, x, 0, 6)
                      : import_ternary(&n->node, CARNOT_FN_CLIP, x, number(n, 0), number(n, 6));
}
static void handle_leaky_relu(tf_import* n) {
  n->outputs[0] =
      import_unary_with(&n->node, CARNOT_FN_LEAKY_RELU, n->inputs[0], tf_float(n, "alpha", 0.2), 0);
}
static void handle_selu(tf_import* n) {
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_SELU, n->inputs[0], 1.6732632423543772,
                                    1.0507009873554805);
}
static void handle_is_finite(tf_import* n) {
  carnot_value* bad = binary(n, CARNOT_FN_OR, unary(n, CARNOT_FN_IS_NAN, n->inputs[0]),
                             import_unary_with(&n->node, CARNOT_FN_IS_INF, n->inputs[0], 1, 1));
  n->outputs[0] = unary(n, CARNOT_FN_NOT, bad);
}
static void handle_round(tf_import* n) {
  carnot_value* x = n->inputs[0];
  n->outputs[0] = carnot_dtype_is_float(x->type.dtype) ? unary(n, CARNOT_FN_ROUND, x) : x;
}
static void handle_cast(tf_import* n) {
  const tf_attr_value* type = tf_attr_find(n->proto, "DstT");
  if (type && tf_is_complex_type(type->type)) {
    carnot_value* real = import_cast(&n->node, n->inputs[0], tf_complex_part_type(type->type));
    n->outputs[0] = tf_complex_new(n, real, tf_complex_part(n, real, 1));
    return;
  }
  const carnot_dtype to = tf_type(n, "DstT", CARNOT_DTYPE_F32);
  carnot_value* x = n->inputs[0];
  // To integers TensorFlow truncates; so does a cast.
  n->outputs[0] = import_cast(&n->node, x, to);
}

// ---- of two and more ----

static void handle_squared_difference(tf_import* n) {
  carnot_value* d = binary(n, CARNOT_FN_SUB, n->inputs[0], n->inputs[1]);
  n->outputs[0] = binary(n, CARNOT_FN_MUL, d, d);
}
// Sizes that do not broadcast.
static bool sizes_differ(const carnot_value* x, const carnot_value* y) {
  const int x_rank = x->type.rank, y_rank = y->type.rank;
  for (int i = 1; i <= x_rank && i <= y_rank; i++) {
    const int64_t a = import_dim(x, x_rank - i), b = import_dim(y, y_rank - i);
    if (a >= 0 && b >= 0 && a != 1 && b != 1 && a != b) return true;
  }
  return false;
}
// Where the attribute allows it, tensors of sizes that differ are unequal as a whole.
static void handle_equal(tf_import* n) {
  const bool negates = n->row->code == 1;
  if (!tf_bool(n, "incompatible_shape_error", true) && sizes_differ(n->inputs[0], n->inputs[1])) {
    n->outputs[0] = import_number_of(&n->node, CARNOT_DTYPE_BOOL, negates);
    return;
  }
  carnot_value* y = binary(n, CARNOT_FN_EQUAL, n->inputs[0], n->inputs[1]);
  n->outputs[0] = negates ? unary(n, CARNOT_FN_NOT, y) : y;
}
// Rounds towards minus infinity.
static void handle_floor_div(tf_import* n) {
  n->outputs[0] = binary(n, CARNOT_FN_FLOOR_DIV, n->inputs[0], n->inputs[1]);
}
static void handle_truncate_div(tf_import* n) {
  n->outputs[0] = binary(n, CARNOT_FN_DIV, n->inputs[0], n->inputs[1]);
}
// x / y, and 0 where y is 0.
static void handle_div_no_nan(tf_import* n) {
  carnot_value* zero = number(n, 0);
  carnot_value* quotient = binary(n, CARNOT_FN_DIV, n->inputs[0], n->inputs[1]);
  carnot_value* is_zero = binary(n, CARNOT_FN_EQUAL, n->inputs[1], zero);
  n->outputs[0] = import_ternary(&n->node, CARNOT_FN_SELECT, is_zero, zero, quotient);
}
// x * y, and 0 where y is 0, whatever x is.
static void handle_mul_no_nan(tf_import* n) {
  carnot_value* zero = number(n, 0);
  carnot_value* product = binary(n, CARNOT_FN_MUL, n->inputs[0], n->inputs[1]);
  carnot_value* is_zero = binary(n, CARNOT_FN_EQUAL, n->inputs[1], zero);
  n->outputs[0] = import_ternary(&n->node, CARNOT_FN_SELECT, is_zero, zero, product);
}
// 0 where x is 0, else x / y, x log y or x log(1 + y).
static void handle_x_of(tf_import* n) {
  carnot_value *x = n->inputs[0], *y = n->inputs[1], *zero = number(n, 0), *value;
  if (n->row->text[0] == 'd') {
    value = binary(n, CARNOT_FN_DIV, x, y);
  } else {
    if (n->row->text[0] == '1') y = binary(n, CARNOT_FN_ADD, y, number(n, 1));
    value = binary(n, CARNOT_FN_MUL, x, unary(n, CARNOT_FN_LOG, y));
  }
  carnot_value* is_zero = binary(n, CARNOT_FN_EQUAL, x, zero);
  n->outputs[0] = import_ternary(&n->node, CARNOT_FN_SELECT, is_zero, zero, value);
}
carnot_value* tf_atan2(tf_import* n, carnot_value* y, carnot_value* x) {
  carnot_value* zero = import_number(&n->node, y, 0);
  carnot_value* angle = unary(n, CARNOT_FN_ATAN, binary(n, CARNOT_FN_DIV, y, x));
  carnot_value* y_negative = binary(n, CARNOT_FN_LESS, y, zero);
  carnot_value* turn =
      import_ternary(&n->node, CARNOT_FN_SELECT, y_negative, import_number(&n->node, y, -M_PI),
                     import_number(&n->node, y, M_PI));
  carnot_value* left = binary(n, CARNOT_FN_ADD, angle, turn);
  angle =
      import_ternary(&n->node, CARNOT_FN_SELECT, binary(n, CARNOT_FN_LESS, x, zero), left, angle);
  // On the vertical axis, and at the origin.
  carnot_value* half =
      binary(n, CARNOT_FN_MUL, unary(n, CARNOT_FN_SIGN, y), import_number(&n->node, y, M_PI / 2));
  return import_ternary(&n->node, CARNOT_FN_SELECT, binary(n, CARNOT_FN_EQUAL, x, zero), half,
                        angle);
}
static void handle_atan2(tf_import* n) { n->outputs[0] = tf_atan2(n, n->inputs[0], n->inputs[1]); }
static void handle_add_n(tf_import* n) {
  carnot_value* sum = n->inputs[0];
  for (int i = 1; i < n->input_count; i++) sum = binary(n, CARNOT_FN_ADD, sum, n->inputs[i]);
  n->outputs[0] = sum;
}
static void handle_bias_add(tf_import* n) {
  n->outputs[0] = tf_is_channels_first(n)
                      ? import_add_channel(&n->node, n->inputs[0], n->inputs[1], CARNOT_FN_ADD)
                      : binary(n, CARNOT_FN_ADD, n->inputs[0], n->inputs[1]);
}
static void handle_bias_add_v1(tf_import* n) {
  n->outputs[0] = binary(n, CARNOT_FN_ADD, n->inputs[0], n->inputs[1]);
}
static void handle_clip(tf_import* n) {
  n->outputs[0] =
      import_ternary(&n->node, CARNOT_FN_CLIP, n->inputs[0], n->inputs[1], n->inputs[2]);
}
static void handle_select_v2(tf_import* n) {
  n->outputs[0] =
      import_ternary(&n->node, CARNOT_FN_SELECT, n->inputs[0], n->inputs[1], n->inputs[2]);
}
// A condition of one dimension chooses whole rows.
static void handle_select(tf_import* n) {
  carnot_value* condition = n->inputs[0];
  const int rank = import_rank(&n->node, n->inputs[1]), own = import_rank(&n->node, condition);
  int64_t axes[CARNOT_MAX_RANK];
  for (int i = 1; i < rank; i++) axes[i - 1] = i;
  if (own == 1 && rank > 1) condition = import_unsqueeze(&n->node, condition, axes, rank - 1);
  n->outputs[0] = import_ternary(&n->node, CARNOT_FN_SELECT, condition, n->inputs[1], n->inputs[2]);
}

#define ONE(op, FN) \
  { op, handle_unary, 1, 1, CARNOT_FN_##FN, NULL, NULL }
#define TWO(op, FN) \
  { op, handle_binary, 2, 2, CARNOT_FN_##FN, NULL, NULL }
#define BY(op, f, count) \
  { op, f, count, count, 0, NULL, NULL }
static void handle_to_bool(tf_import* n) {
  carnot_value* zero = number(n, 0);
  n->outputs[0] = unary(n, CARNOT_FN_NOT, binary(n, CARNOT_FN_EQUAL, n->inputs[0], zero));
}

static const tf_row kRows[] = {
    TWO("LeftShift", SHIFT_LEFT),
    TWO("RightShift", SHIFT_RIGHT),
    BY("ToBool", handle_to_bool, 1),
    ONE("Abs", ABS),
    ONE("Neg", NEG),
    ONE("Sign", SIGN),
    ONE("Sqrt", SQRT),
    ONE("Exp", EXP),
    ONE("Log", LOG),
    ONE("Floor", FLOOR),
    ONE("Ceil", CEIL),
    ONE("Rint", ROUND),
    ONE("Sin", SIN),
    ONE("Cos", COS),
    ONE("Tan", TAN),
    ONE("Asin", ASIN),
    ONE("Acos", ACOS),
    ONE("Atan", ATAN),
    ONE("Sinh", SINH),
    ONE("Cosh", COSH),
    ONE("Tanh", TANH),
    ONE("Asinh", ASINH),
    ONE("Acosh", ACOSH),
    ONE("Atanh", ATANH),
    ONE("Erf", ERF),
    ONE("Sigmoid", SIGMOID),
    ONE("Relu", RELU),
    ONE("Elu", ELU),
    ONE("Softplus", SOFTPLUS),
    ONE("Softsign", SOFTSIGN),
    ONE("LogicalNot", NOT),
    ONE("Invert", BIT_NOT),
    ONE("IsNan", IS_NAN),
    ONE("IsInf", IS_INF),
    ONE("Reciprocal", RECIP),
    ONE("Inv", RECIP),
    BY("Square", handle_square, 1),
    BY("Rsqrt", handle_rsqrt, 1),
    BY("Expm1", handle_expm1, 1),
    BY("Log1p", handle_log1p, 1),
    BY("Relu6", handle_relu6, 1),
    BY("LeakyRelu", handle_leaky_relu, 1),
    BY("Selu", handle_selu, 1),
    BY("IsFinite", handle_is_finite, 1),
    BY("Round", handle_round, 1),
    BY("Cast", handle_cast, 1),
    BY("Identity", handle_identity, 1),
    BY("Snapshot", handle_identity, 1),
    BY("StopGradient", handle_identity, 1),
    BY("PreventGradient", handle_identity, 1),
    BY("CheckNumerics", handle_identity, 1),
    BY("PlaceholderWithDefault", handle_identity, 1),
    BY("EnsureShape", handle_identity, 1),
    TWO("Add", ADD),
    TWO("AddV2", ADD),
    TWO("Sub", SUB),
    TWO("Mul", MUL),
    TWO("RealDiv", DIV),
    TWO("Div", DIV),
    TWO("FloorMod", MOD),
    TWO("TruncateMod", FMOD),
    TWO("Mod", FMOD),
    TWO("Maximum", MAX),
    TWO("Minimum", MIN),
    TWO("Pow", POW),
    {"Equal", handle_equal, 2, 2, 0, NULL, NULL},
    TWO("Less", LESS),
    TWO("LessEqual", LESS_EQUAL),
    TWO("Greater", GREATER),
    TWO("GreaterEqual", GREATER_EQUAL),
    TWO("LogicalAnd", AND),
    TWO("LogicalOr", OR),
    TWO("BitwiseAnd", BIT_AND),
    TWO("BitwiseOr", BIT_OR),
    TWO("BitwiseXor", BIT_XOR),
    BY("SquaredDifference", handle_squared_difference, 2),
    {"NotEqual", handle_equal, 2, 2, 1, NULL, NULL},
    BY("FloorDiv", handle_floor_div, 2),
    BY("TruncateDiv", handle_truncate_div, 2),
    BY("DivNoNan", handle_div_no_nan, 2),
    BY("MulNoNan", handle_mul_no_nan, 2),
    {"Xdivy", handle_x_of, 2, 2, 0, "divide", NULL},
    {"Xlogy", handle_x_of, 2, 2, 0, "log", NULL},
    {"Xlog1py", handle_x_of, 2, 2, 0, "1", NULL},
    BY("Atan2", handle_atan2, 2),
    {"AddN", handle_add_n, 1, -1, 0, NULL, NULL},
    {"AccumulateNV2", handle_add_n, 1, -1, 0, NULL, NULL},
    BY("BiasAdd", handle_bias_add, 2),
    BY("BiasAddV1", handle_bias_add_v1, 2),
    BY("ClipByValue", handle_clip, 3),
    BY("SelectV2", handle_select_v2, 3),
    BY("Select", handle_select, 3),
};
const tf_row_table tf_rows_pointwise = TF_ROW_TABLE(kRows);
