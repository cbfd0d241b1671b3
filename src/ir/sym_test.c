// Symbolic dimensions: what the simplifier makes of an expression has the value of the expression,
// lies in its interval and is a multiple of its divisor; checked against brute force over small
// integers. And: equal forms meet in one handle.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/sym_internal.h"

enum { kSymbols = 3, kMin = -2, kMax = 4, kTerms = 24, kTables = 400, kExpressions = 4096 };

// ---- an expression as it was asked for, beside the handle that was made of it ----

typedef struct term {
  carnot_sym_op op;
  int operands[3];  // of terms
  int64_t number;   // of a leaf that is no symbol
  carnot_sym made;
} term;

typedef struct table {
  carnot_syms syms;
  carnot_sym symbols[kSymbols];
  term terms[kTerms];
  int count;
} table;

static uint32_t g_seed = 1;
static int draw(int count) {
  g_seed = g_seed * 1664525u + 1013904223u;
  return (int)((g_seed >> 8) % (uint32_t)count);
}

// The value of a term by its definition; false where an operation has none (division by zero).
static bool value_of(const table* t, int at, const int64_t* symbols, int64_t* out) {
  const term* x = &t->terms[at];
  int64_t v[3] = {0};
  if (at < kSymbols) return *out = symbols[at], true;
  if (x->op == CARNOT_SYM_SYMBOL) return *out = x->number, true;
  for (int i = 0; i < carnot_sym_arity(x->op); i++)
    if (!value_of(t, x->operands[i], symbols, &v[i])) return false;
  carnot_status* status = carnot_sym_apply(x->op, v[0], v[1], v[2], out);
  carnot_status_free(status);
  return !status;
}

static bool eval(const carnot_syms* syms, const carnot_sym* symbols, const int64_t* values,
                 carnot_sym s, int64_t* out) {
  int64_t memo[kExpressions];
  bool known[kExpressions] = {false};
  assert_true(syms->count <= kExpressions);
  for (int i = 0; i < kSymbols; i++) {
    memo[carnot_sym_index(symbols[i])] = values[i];
    known[carnot_sym_index(symbols[i])] = true;
  }
  carnot_status* status = carnot_sym_eval(syms, s, memo, known, out);
  carnot_status_free(status);
  return !status;
}

static void check_term(const table* t, int at, const int64_t* values) {
  int64_t wanted, found, min, max;
  if (!value_of(t, at, values, &wanted)) return;
  carnot_sym made = t->terms[at].made;
  char text[512];
  carnot_sym_print(&t->syms, made, text, sizeof(text));
  if (!eval(&t->syms, t->symbols, values, made, &found)) fail_msg("%s has no value", text);
  carnot_sym_range(&t->syms, made, &min, &max);
  int64_t divisor = carnot_sym_divisor(&t->syms, made);
  if (found != wanted || wanted < min || wanted > max || divisor < 1 || wanted % divisor)
    fail_msg("%s is %lld in [%lld, %lld] by %lld, wanted %lld (a=%lld b=%lld c=%lld)", text,
             (long long)found, (long long)min, (long long)max, (long long)divisor,
             (long long)wanted, (long long)values[0], (long long)values[1], (long long)values[2]);
}

// Calls |visit| with every assignment of the symbols.
static void for_all_values(const table* t, int64_t least,
                           void (*visit)(const table* t, const int64_t* values)) {
  int64_t v[kSymbols];
  for (v[0] = least; v[0] <= kMax; v[0]++)
    for (v[1] = least; v[1] <= kMax; v[1]++)
      for (v[2] = least; v[2] <= kMax; v[2]++) visit(t, v);
}

static void check_all(const table* t, const int64_t* values) {
  for (int i = 0; i < t->count; i++) check_term(t, i, values);
}

static void add_leaf(table* t, int64_t number, carnot_sym made) {
  t->terms[t->count++] = (term){.op = CARNOT_SYM_SYMBOL, .number = number, .made = made};
}

static void add_term(table* t, carnot_sym_op op, int a, int b, int c) {
  term* x = &t->terms[t->count++];
  *x = (term){.op = op, .operands = {a, b, c}};
  x->made = carnot_sym_make(&t->syms, op, t->terms[a].made, t->terms[b].made, t->terms[c].made);
}

static void table_init(table* t, int64_t least) {
  static const char* const kNames[kSymbols] = {"a", "b", "c"};
  memset(t, 0, sizeof(*t));
  carnot_syms_init(&t->syms);
  for (int i = 0; i < kSymbols; i++) {
    t->symbols[i] = carnot_sym_new(&t->syms, kNames[i], least, kMax);
    add_leaf(t, 0, t->symbols[i]);
  }
  for (int n = -2; n <= 6; n += 2) add_leaf(t, n, carnot_sym_of(n));
}

// Conditions are 0 or 1: comparisons and what is made of them.
static bool is_condition(const table* t, int at) {
  carnot_sym_op op = t->terms[at].op;
  return op >= CARNOT_SYM_EQ && op <= CARNOT_SYM_NOT;
}

static int draw_condition(const table* t) {
  for (int tries = 0; tries < 20; tries++) {
    int at = draw(t->count);
    if (is_condition(t, at)) return at;
  }
  return -1;
}

static void add_random_term(table* t) {
  static const carnot_sym_op kArithmetic[] = {
      CARNOT_SYM_ADD,     CARNOT_SYM_SUB,      CARNOT_SYM_MUL, CARNOT_SYM_FLOORDIV,
      CARNOT_SYM_CEILDIV, CARNOT_SYM_TRUNCDIV, CARNOT_SYM_MOD, CARNOT_SYM_MIN,
      CARNOT_SYM_MAX,     CARNOT_SYM_EQ,       CARNOT_SYM_LT};
  static const carnot_sym_op kLogic[] = {CARNOT_SYM_AND, CARNOT_SYM_OR, CARNOT_SYM_NOT,
                                         CARNOT_SYM_SELECT};
  int condition = draw(4) ? -1 : draw_condition(t), other = draw_condition(t);
  if (condition < 0 || other < 0) {
    add_term(t, kArithmetic[draw(11)], draw(t->count), draw(t->count), 0);
    return;
  }
  carnot_sym_op op = kLogic[draw(4)];
  if (op == CARNOT_SYM_SELECT)
    add_term(t, op, condition, draw(t->count), draw(t->count));
  else
    add_term(t, op, condition, op == CARNOT_SYM_NOT ? 0 : other, 0);
}

static void random_expressions(int64_t least) {
  for (int i = 0; i < kTables; i++) {
    table t;
    table_init(&t, least);
    while (t.count < kTerms) add_random_term(&t);
    for_all_values(&t, least, check_all);
    carnot_syms_deinit(&t.syms);
  }
}

static void expressions_of_any_sign(void** state) {
  (void)state;
  random_expressions(kMin);
}

// Dimensions are not negative: more is decided then.
static void expressions_of_dimensions(void** state) {
  (void)state;
  random_expressions(1);
}

// ---- forms ----

typedef struct forms {
  carnot_syms syms;
  carnot_sym a, b, c;
} forms;

static forms* forms_init(forms* f) {
  carnot_syms_init(&f->syms);
  f->a = carnot_sym_new(&f->syms, "a", 1, 100);
  f->b = carnot_sym_new(&f->syms, "b", 1, 100);
  f->c = carnot_sym_new(&f->syms, "c", 1, 100);
  return f;
}

static carnot_sym number(int64_t value) { return carnot_sym_of(value); }

static void assert_same(const forms* f, carnot_sym x, carnot_sym y) {
  char left[256], right[256];
  carnot_sym_print(&f->syms, x, left, sizeof(left));
  carnot_sym_print(&f->syms, y, right, sizeof(right));
  if (!carnot_sym_same(x, y)) fail_msg("%s and %s have different handles", left, right);
}

static void sums_have_one_form(void** state) {
  (void)state;
  forms f;
  carnot_syms* t = &forms_init(&f)->syms;
  carnot_sym ab = carnot_sym_add(t, f.a, f.b);
  assert_same(&f, carnot_sym_add(t, ab, f.c), carnot_sym_add(t, f.c, carnot_sym_add(t, f.b, f.a)));
  assert_same(&f, carnot_sym_sub(t, ab, f.b), f.a);
  assert_same(&f, carnot_sym_sub(t, ab, ab), number(0));
  carnot_sym four = carnot_sym_mul(t, ab, number(4));
  assert_same(
      &f, four,
      carnot_sym_add(t, carnot_sym_mul(t, f.a, number(4)), carnot_sym_mul(t, number(4), f.b)));
  assert_same(&f, carnot_sym_add(t, carnot_sym_add(t, f.a, number(3)), number(-3)), f.a);
  carnot_syms_deinit(t);
}

static void products_have_one_form(void** state) {
  (void)state;
  forms f;
  carnot_syms* t = &forms_init(&f)->syms;
  carnot_sym ab = carnot_sym_mul(t, f.a, f.b);
  assert_same(&f, carnot_sym_mul(t, ab, f.c), carnot_sym_mul(t, f.c, carnot_sym_mul(t, f.b, f.a)));
  const carnot_sym dims[] = {f.c, number(2), f.a, f.b};
  assert_same(&f, carnot_sym_product(t, dims, 4),
              carnot_sym_mul(t, carnot_sym_mul(t, ab, number(2)), f.c));
  assert_same(&f, carnot_sym_mul(t, f.a, number(0)), number(0));
  assert_same(&f, carnot_sym_mul(t, f.a, number(1)), f.a);
  carnot_syms_deinit(t);
}

static void divisions_cancel(void** state) {
  (void)state;
  forms f;
  carnot_syms* t = &forms_init(&f)->syms;
  carnot_sym ab = carnot_sym_mul(t, f.a, f.b), ab6 = carnot_sym_mul(t, ab, number(6));
  assert_same(&f, carnot_sym_floordiv(t, ab, f.b), f.a);
  assert_same(&f, carnot_sym_floordiv(t, ab6, carnot_sym_mul(t, f.a, number(3))),
              carnot_sym_mul(t, f.b, number(2)));
  assert_same(&f, carnot_sym_ceildiv(t, carnot_sym_add(t, ab6, number(12)), number(6)),
              carnot_sym_add(t, ab, number(2)));
  assert_same(&f, carnot_sym_make(t, CARNOT_SYM_MOD, ab6, number(3), number(0)), number(0));
  // Not a multiple: the division stays.
  assert_false(carnot_sym_is_const(carnot_sym_floordiv(t, f.a, number(2))));
  assert_true(carnot_sym_divisor(t, ab6) % 6 == 0);
  carnot_syms_deinit(t);
}

static void choices_are_decided_by_intervals(void** state) {
  (void)state;
  forms f;
  carnot_syms* t = &forms_init(&f)->syms;
  carnot_sym next = carnot_sym_add(t, f.a, number(1)), least = carnot_sym_min(t, f.a, f.b);
  assert_same(&f, carnot_sym_max(t, f.a, number(1)), f.a);
  assert_same(&f, carnot_sym_min(t, f.a, number(101)), f.a);
  assert_same(&f, carnot_sym_max(t, f.a, next), next);
  assert_same(&f, carnot_sym_max(t, f.a, least), f.a);
  assert_same(&f, carnot_sym_min(t, f.b, least), least);
  assert_same(&f, carnot_sym_make(t, CARNOT_SYM_EQ, f.a, next, number(0)), number(0));
  assert_same(&f, carnot_sym_make(t, CARNOT_SYM_LT, f.a, next, number(0)), number(1));
  carnot_sym open = carnot_sym_make(t, CARNOT_SYM_EQ, f.a, number(1), number(0));
  assert_false(carnot_sym_is_const(open));
  assert_same(&f, carnot_sym_make(t, CARNOT_SYM_SELECT, open, f.b, f.b), f.b);
  carnot_syms_deinit(t);
}

// ---- floats: exporters write Shape, Cast, Mul, Floor, Cast ----

static carnot_sym make1(carnot_syms* t, carnot_sym_op op, carnot_sym a) {
  return carnot_sym_make(t, op, a, number(0), number(0));
}
static carnot_sym make2(carnot_syms* t, carnot_sym_op op, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(t, op, a, b, number(0));
}

static void floats_return_to_integers(void** state) {
  (void)state;
  forms f;
  carnot_syms* t = &forms_init(&f)->syms;
  carnot_sym x = make1(t, CARNOT_SYM_F_FROM_INT, f.a), two = carnot_sym_float(t, 2);
  assert_true(carnot_sym_is_float(t, x));
  carnot_sym twice = make2(t, CARNOT_SYM_F_MUL, x, two);
  assert_same(&f, make1(t, CARNOT_SYM_F_TO_INT, make1(t, CARNOT_SYM_F_FLOOR, twice)),
              carnot_sym_mul(t, f.a, number(2)));
  carnot_sym halved = make2(t, CARNOT_SYM_F_DIV, x, two);
  assert_same(&f, make1(t, CARNOT_SYM_F_TO_INT, make1(t, CARNOT_SYM_F_FLOOR, halved)),
              carnot_sym_floordiv(t, f.a, number(2)));
  assert_same(&f, make1(t, CARNOT_SYM_F_TO_INT, make1(t, CARNOT_SYM_F_CEIL, halved)),
              carnot_sym_ceildiv(t, f.a, number(2)));
  assert_same(&f, make1(t, CARNOT_SYM_F_TO_INT, carnot_sym_float(t, 2.75)), number(2));
  carnot_syms_deinit(t);
}

static void apply_follows_c(void** state) {
  (void)state;
  for (int64_t a = -7; a <= 7; a++)
    for (int64_t b = -3; b <= 3; b++) {
      int64_t floor_of, ceil_of, mod_of;
      carnot_status* status = carnot_sym_apply(CARNOT_SYM_FLOORDIV, a, b, 0, &floor_of);
      if (b == 0) {
        assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
        carnot_status_free(status);
        continue;
      }
      assert_null(status);
      assert_null(carnot_sym_apply(CARNOT_SYM_CEILDIV, a, b, 0, &ceil_of));
      assert_null(carnot_sym_apply(CARNOT_SYM_MOD, a, b, 0, &mod_of));
      assert_int_equal(floor_of, (int64_t)floor((double)a / (double)b));
      assert_int_equal(ceil_of, (int64_t)ceil((double)a / (double)b));
      assert_int_equal(mod_of, a - b * floor_of);
    }
}

// ---- the table ----

static void overflow_and_division_by_zero(void** state) {
  (void)state;
  forms f;
  carnot_syms* t = &forms_init(&f)->syms;
  int64_t memo[64] = {0}, out;
  bool known[64] = {false};
  // At build they give a symbol of unknown value ..
  carnot_sym none = carnot_sym_floordiv(t, number(1), number(0));
  assert_false(carnot_sym_is_const(none));
  assert_false(carnot_sym_is_const(carnot_sym_mul(t, number(CARNOT_SYM_LIMIT), number(4))));
  // .. and in evaluation an error.
  carnot_sym square = carnot_sym_mul(t, f.a, f.a);
  memo[carnot_sym_index(f.a)] = INT64_C(1) << 40;
  known[carnot_sym_index(f.a)] = true;
  carnot_status* status = carnot_sym_eval(t, square, memo, known, &out);
  assert_int_equal(carnot_status_code(status), CARNOT_OUT_OF_RANGE);
  carnot_status_free(status);
  status = carnot_sym_eval(t, f.b, memo, known, &out);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
  carnot_status_free(status);
  carnot_syms_deinit(t);
}

static void ranges_follow_their_symbols(void** state) {
  (void)state;
  forms f;
  carnot_syms* t = &forms_init(&f)->syms;
  int64_t min, max;
  carnot_sym s = carnot_sym_add(t, carnot_sym_mul(t, f.a, number(4)), number(-1));
  carnot_sym_range(t, s, &min, &max);
  assert_int_equal(min, 3);
  assert_int_equal(max, 399);
  carnot_sym_set_range(t, f.a, 2, 3);
  carnot_syms_rebound(t);
  carnot_sym_range(t, s, &min, &max);
  assert_int_equal(min, 7);
  assert_int_equal(max, 11);
  carnot_syms_deinit(t);
}

static void many_expressions_stay_distinct(void** state) {
  (void)state;
  forms f;
  carnot_syms* t = &forms_init(&f)->syms;
  for (int64_t i = 2; i < 2000; i++) {
    carnot_sym x = carnot_sym_floordiv(t, f.a, number(i));
    if (i > 100) assert_true(carnot_sym_is(x, 0));  // a <= 100
    assert_same(&f, x, carnot_sym_floordiv(t, f.a, number(i)));
  }
  assert_true(t->count < 200);
  char text[64];
  carnot_sym_print(t, carnot_sym_add(t, f.a, number(1)), text, sizeof(text));
  assert_string_equal(text, "(a+1)");
  carnot_syms_reset(t);
  assert_int_equal(t->count, 0);
  carnot_syms_deinit(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(expressions_of_any_sign),
      cmocka_unit_test(expressions_of_dimensions),
      cmocka_unit_test(sums_have_one_form),
      cmocka_unit_test(products_have_one_form),
      cmocka_unit_test(divisions_cancel),
      cmocka_unit_test(choices_are_decided_by_intervals),
      cmocka_unit_test(floats_return_to_integers),
      cmocka_unit_test(apply_follows_c),
      cmocka_unit_test(overflow_and_division_by_zero),
      cmocka_unit_test(ranges_follow_their_symbols),
      cmocka_unit_test(many_expressions_stay_distinct),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
