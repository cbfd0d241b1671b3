// Special functions, by formulas over the functions of base/fn.def. Source:
// tensorflow/core/ops/math_ops.cc; Abramowitz and Stegun, Handbook of Mathematical Functions;
// Giles, Approximating the erfinv function (2011).
#include <math.h>

#include "import/tensorflow/rows.h"
#include "import/tensorflow/special.h"

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}
static carnot_value* with(tf_import* n, carnot_fn fn, carnot_value* x, double y) {
  return import_binary(&n->node, fn, x, import_number(&n->node, x, y));
}
static carnot_value* unary(tf_import* n, carnot_fn fn, carnot_value* x) {
  return import_unary(&n->node, fn, x);
}
static carnot_value* choose(tf_import* n, carnot_value* c, carnot_value* x, carnot_value* y) {
  return import_ternary(&n->node, CARNOT_FN_SELECT, c, x, y);
}
static carnot_value* number(tf_import* n, carnot_value* like, double value) {
  return import_number(&n->node, like, value);
}

// 1 - x where x is less than 1/2, else x.
static carnot_value* reflected(tf_import* n, carnot_value* x, carnot_value** out_is_left) {
  *out_is_left = with(n, CARNOT_FN_LESS, x, 0.5);
  return choose(n, *out_is_left, binary(n, CARNOT_FN_SUB, number(n, x, 1), x), x);
}

// Distance of x to the nearest integer, with its sign.
static carnot_value* fraction(tf_import* n, carnot_value* x) {
  return binary(n, CARNOT_FN_SUB, x, unary(n, CARNOT_FN_ROUND, x));
}

// log |gamma(x)|: Lanczos's sum of 9 terms for x >= 1/2, else
// log(pi / |sin(pi x)|) - lgamma(1 - x).
static void handle_lgamma(tf_import* n) {
  static const double kTerms[] = {676.5203681218851,     -1259.1392167224028,  771.32342877765313,
                                  -176.61502916214059,   12.507343278686905,   -0.13857109526572012,
                                  9.9843695780195716e-6, 1.5056327351493116e-7};
  carnot_value *x = n->inputs[0], *is_left, *z = reflected(n, x, &is_left);
  carnot_value* m = with(n, CARNOT_FN_SUB, z, 1);
  // log(sum) with the sum's leading 1 apart: what is added to it vanishes for large z.
  carnot_value* sum = number(n, x, 0.99999999999980993);
  for (int i = 0; i < 8; i++)
    sum =
        binary(n, CARNOT_FN_ADD, sum,
               binary(n, CARNOT_FN_DIV, number(n, x, kTerms[i]), with(n, CARNOT_FN_ADD, m, i + 1)));
  carnot_value* t = with(n, CARNOT_FN_ADD, m, 7.5);
  // (m + 1/2) (log t - 1) - 7, which is (m + 1/2) log t - t without the loss of t.
  carnot_value* y = binary(n, CARNOT_FN_MUL, with(n, CARNOT_FN_ADD, m, 0.5),
                           with(n, CARNOT_FN_SUB, unary(n, CARNOT_FN_LOG, t), 1));
  y = binary(n, CARNOT_FN_ADD, with(n, CARNOT_FN_SUB, y, 7.0 - 0.5 * log(2 * M_PI)),
             unary(n, CARNOT_FN_LOG, sum));
  carnot_value* is_infinite = import_unary_with(&n->node, CARNOT_FN_IS_INF, x, 1, 1);
  carnot_value* sine = unary(n, CARNOT_FN_SIN, with(n, CARNOT_FN_MUL, fraction(n, x), M_PI));
  carnot_value* shown =
      binary(n, CARNOT_FN_SUB,
             unary(n, CARNOT_FN_LOG,
                   binary(n, CARNOT_FN_DIV, number(n, x, M_PI), unary(n, CARNOT_FN_ABS, sine))),
             y);
  y = choose(n, is_left, shown, y);
  n->outputs[0] = choose(n, is_infinite, number(n, x, INFINITY), y);
}

// d/dx log gamma(x): psi(x + 6) less the sum of 1 / (x + i), i < 6, and the asymptotic series
// there; for x < 1/2: psi(1 - x) - pi / tan(pi x), NaN at its poles.
static void handle_digamma(tf_import* n) {
  static const double kTerms[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132};
  carnot_value *x = n->inputs[0], *is_left, *z = reflected(n, x, &is_left);
  carnot_value *sum = number(n, x, 0), *one = number(n, x, 1);
  for (int i = 0; i < 6; i++)
    sum =
        binary(n, CARNOT_FN_ADD, sum, binary(n, CARNOT_FN_DIV, one, with(n, CARNOT_FN_ADD, z, i)));
  carnot_value *far = with(n, CARNOT_FN_ADD, z, 6), *inverse = binary(n, CARNOT_FN_DIV, one, far);
  carnot_value *square = binary(n, CARNOT_FN_MUL, inverse, inverse), *series = number(n, x, 0);
  for (int i = 4; i >= 0; i--)
    series = binary(n, CARNOT_FN_MUL, square, with(n, CARNOT_FN_ADD, series, kTerms[i]));
  carnot_value* y =
      binary(n, CARNOT_FN_SUB, unary(n, CARNOT_FN_LOG, far), with(n, CARNOT_FN_MUL, inverse, 0.5));
  y = binary(n, CARNOT_FN_SUB, binary(n, CARNOT_FN_SUB, y, series), sum);
  carnot_value* part = fraction(n, x);
  carnot_value* tangent = unary(n, CARNOT_FN_TAN, with(n, CARNOT_FN_MUL, part, M_PI));
  carnot_value* shown =
      binary(n, CARNOT_FN_SUB, y, binary(n, CARNOT_FN_DIV, number(n, x, M_PI), tangent));
  carnot_value* is_pole = with(n, CARNOT_FN_EQUAL, part, 0);
  shown = choose(n, is_pole, number(n, x, NAN), shown);
  // At 0 TensorFlow gives the limit from the right.
  shown = choose(n, with(n, CARNOT_FN_EQUAL, x, 0), number(n, x, -INFINITY), shown);
  n->outputs[0] = choose(n, is_left, shown, y);
}

static carnot_value* polynomial(tf_import* n, carnot_value* w, const double* terms, int count) {
  carnot_value* y = number(n, w, terms[0]);
  for (int i = 1; i < count; i++)
    y = with(n, CARNOT_FN_ADD, binary(n, CARNOT_FN_MUL, y, w), terms[i]);
  return y;
}

carnot_value* tf_erfinv(tf_import* n, carnot_value* x) {
  static const double kNear[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                 -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                 -0.00417768164,  0.246640727,    1.50140941};
  static const double kFar[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                -0.00367342844,  0.00573950773,  -0.0076224613,
                                0.00943887047,   1.00167406,     2.83297682};
  carnot_value* one = number(n, x, 1);
  carnot_value* w = unary(n, CARNOT_FN_NEG,
                          unary(n, CARNOT_FN_LOG,
                                binary(n, CARNOT_FN_MUL, binary(n, CARNOT_FN_SUB, one, x),
                                       binary(n, CARNOT_FN_ADD, one, x))));
  carnot_value* near = polynomial(n, with(n, CARNOT_FN_SUB, w, 2.5), kNear, 9);
  carnot_value* far = polynomial(
      n, with(n, CARNOT_FN_SUB, unary(n, CARNOT_FN_SQRT, with(n, CARNOT_FN_MAX, w, 0)), 3), kFar,
      9);
  carnot_value* y =
      binary(n, CARNOT_FN_MUL, choose(n, with(n, CARNOT_FN_LESS, w, 5), near, far), x);
  carnot_value* at_end = binary(n, CARNOT_FN_EQUAL, unary(n, CARNOT_FN_ABS, x), one);
  return choose(n, at_end, with(n, CARNOT_FN_MUL, x, INFINITY), y);
}
static void handle_erfinv(tf_import* n) { n->outputs[0] = tf_erfinv(n, n->inputs[0]); }
// The quantile of the normal distribution: sqrt(2) erfinv(2 x - 1).
static void handle_ndtri(tf_import* n) {
  carnot_value* u = with(n, CARNOT_FN_SUB, with(n, CARNOT_FN_MUL, n->inputs[0], 2), 1);
  n->outputs[0] = with(n, CARNOT_FN_MUL, tf_erfinv(n, u), M_SQRT2);
}

static carnot_fn fn_of(const carnot_node* node) {
  if (node->op != CARNOT_OP_UNARY && node->op != CARNOT_OP_BINARY) return CARNOT_FN_COUNT;
  return (carnot_fn)carnot_attr_int(carnot_node_row(node), &node->attrs, "fn");
}

// |x| is -z: z, in *out_factor what it is multiplied by besides (NULL: nothing).
static carnot_value* negated(carnot_value* x, carnot_value** out_factor) {
  const carnot_node* node = x->producer;
  *out_factor = NULL;
  for (int i = 0; i < 2 && node && node->op == CARNOT_OP_BINARY; i++) {
    const carnot_node* neg = node->inputs[i]->producer;
    if (fn_of(node) != CARNOT_FN_MUL || !neg || fn_of(neg) != CARNOT_FN_NEG) continue;
    *out_factor = node->inputs[1 - i];
    return neg->inputs[0];
  }
  return node && fn_of(node) == CARNOT_FN_NEG ? node->inputs[0] : NULL;
}

// 1 - erf(x), and of -z, as Keras writes GELU, 1 + erf(z).
static void handle_erfc(tf_import* n) {
  carnot_value *factor, *z = negated(n->inputs[0], &factor);
  if (z && factor) z = binary(n, CARNOT_FN_MUL, z, factor);
  n->outputs[0] =
      z ? binary(n, CARNOT_FN_ADD, unary(n, CARNOT_FN_ERF, z), number(n, n->inputs[0], 1))
        : binary(n, CARNOT_FN_SUB, number(n, n->inputs[0], 1),
                 unary(n, CARNOT_FN_ERF, n->inputs[0]));
}

// ---- bits ----

static carnot_value* bits(tf_import* n, carnot_fn fn, carnot_value* x, int64_t y) {
  return import_binary(&n->node, fn, x, import_int(&n->node, y));
}

// Sums of neighbouring bits, pairs and nibbles, then of all bytes by a product.
static void handle_population_count(tf_import* n) {
  carnot_value* x = n->inputs[0];
  const int width = carnot_dtype_bits(x->type.dtype);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "to", CARNOT_DTYPE_I64);
  if (!carnot_dtype_is_integer(x->type.dtype) || width < 8) {
    TF_FAIL(n, INVALID_MODEL, "elements of %s", carnot_dtype_name(x->type.dtype));
    return;
  }
  if (x->type.dtype == CARNOT_DTYPE_U64)
    x = import_op(&n->node, CARNOT_OP_BIT_CAST, &attrs, 1, x);
  else
    x = tf_int64(n, x);
  if (width < 64) x = bits(n, CARNOT_FN_BIT_AND, x, ((int64_t)1 << width) - 1);
  carnot_value* half =
      bits(n, CARNOT_FN_BIT_AND, bits(n, CARNOT_FN_SHIFT_RIGHT, x, 1), 0x5555555555555555);
  x = binary(n, CARNOT_FN_SUB, x, half);
  x = binary(n, CARNOT_FN_ADD, bits(n, CARNOT_FN_BIT_AND, x, 0x3333333333333333),
             bits(n, CARNOT_FN_BIT_AND, bits(n, CARNOT_FN_SHIFT_RIGHT, x, 2), 0x3333333333333333));
  x = bits(n, CARNOT_FN_BIT_AND, binary(n, CARNOT_FN_ADD, x, bits(n, CARNOT_FN_SHIFT_RIGHT, x, 4)),
           0x0f0f0f0f0f0f0f0f);
  x = bits(n, CARNOT_FN_SHIFT_RIGHT, bits(n, CARNOT_FN_MUL, x, 0x0101010101010101), 56);
  n->outputs[0] = import_cast(&n->node, x, CARNOT_DTYPE_U8);
}

static const tf_row kRows[] = {
    {"Lgamma", handle_lgamma, 1, 1, 0, NULL, NULL},
    {"Digamma", handle_digamma, 1, 1, 0, NULL, NULL},
    {"Erfc", handle_erfc, 1, 1, 0, NULL, NULL},
    {"Erfinv", handle_erfinv, 1, 1, 0, NULL, NULL},
    {"Ndtri", handle_ndtri, 1, 1, 0, NULL, NULL},
    {"PopulationCount", handle_population_count, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_special = TF_ROW_TABLE(kRows);
