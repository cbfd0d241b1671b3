// Linear forms and products: sums and products in one order, so that equal ones meet.
#include "base/checked.h"
#include "ir/sym_internal.h"

enum { kMaxTerms = 16, kMaxDepth = 200 };

typedef struct terms {
  carnot_sym atom[kMaxTerms];
  int64_t factor[kMaxTerms];
  int count;
  int64_t rest;
  bool failed;
} terms;

static void add_term(terms* t, carnot_sym atom, int64_t factor) {
  int at = 0;
  while (at < t->count && t->atom[at].bits < atom.bits) at++;
  if (at < t->count && t->atom[at].bits == atom.bits) {
    t->failed |= !carnot_add_i64(t->factor[at], factor, &t->factor[at]);
    if (t->factor[at] == 0) {
      for (int i = at; i + 1 < t->count; i++)
        t->atom[i] = t->atom[i + 1], t->factor[i] = t->factor[i + 1];
      t->count--;
    }
    return;
  }
  if (t->count == kMaxTerms) {
    t->failed = true;
    return;
  }
  for (int i = t->count++; i > at; i--)
    t->atom[i] = t->atom[i - 1], t->factor[i] = t->factor[i - 1];
  t->atom[at] = atom;
  t->factor[at] = factor;
}

// Adds factor * s to the sum.
static void linearize(const carnot_syms* syms, carnot_sym s, int64_t factor, terms* t, int depth) {
  if (t->failed || depth > kMaxDepth) {
    t->failed = true;
    return;
  }
  if (carnot_sym_is_const(s)) {
    int64_t part;
    t->failed |= !carnot_mul_i64(s.bits, factor, &part) || !carnot_add_i64(t->rest, part, &t->rest);
    return;
  }
  const carnot_sym_expr* e = carnot_sym_get(syms, s);
  if (e->op == CARNOT_SYM_ADD) {
    linearize(syms, e->a, factor, t, depth + 1);
    linearize(syms, e->b, factor, t, depth + 1);
  } else if (e->op == CARNOT_SYM_MUL && carnot_sym_is_const(e->b)) {
    int64_t product;
    t->failed |= !carnot_mul_i64(factor, e->b.bits, &product);
    linearize(syms, e->a, product, t, depth + 1);
  } else {
    add_term(t, s, factor);
  }
}

static carnot_sym rebuild_sum(carnot_syms* syms, const terms* t) {
  carnot_sym sum = carnot_sym_of(0);
  bool any = false;
  for (int i = 0; i < t->count; i++) {
    carnot_sym term = t->factor[i] == 1
                          ? t->atom[i]
                          : carnot_sym_intern(syms, CARNOT_SYM_MUL, t->atom[i],
                                              carnot_sym_of(t->factor[i]), carnot_sym_of(0));
    sum = any ? carnot_sym_intern(syms, CARNOT_SYM_ADD, sum, term, carnot_sym_of(0)) : term;
    any = true;
  }
  if (!any) return carnot_sym_of(t->rest);
  return t->rest ? carnot_sym_intern(syms, CARNOT_SYM_ADD, sum, carnot_sym_of(t->rest),
                                     carnot_sym_of(0))
                 : sum;
}

bool carnot_sym_linear(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                       carnot_sym* out) {
  terms t = {.count = 0};
  if (op == CARNOT_SYM_MUL) {
    linearize(syms, a, b.bits, &t, 0);
  } else {
    linearize(syms, a, 1, &t, 0);
    linearize(syms, b, op == CARNOT_SYM_SUB ? -1 : 1, &t, 0);
  }
  bool ok = !t.failed && carnot_sym_plain(t.rest);
  for (int i = 0; i < t.count; i++) ok = ok && carnot_sym_plain(t.factor[i]);
  if (ok) *out = rebuild_sum(syms, &t);
  return ok;
}

// Factors of a product in |t| (factor[] unused, rest the constant), |t->rest| set to 1 before.
static void factorize(const carnot_syms* syms, carnot_sym s, terms* t, int depth) {
  if (carnot_sym_is_const(s)) {
    t->failed |= !carnot_mul_i64(t->rest, s.bits, &t->rest);
    return;
  }
  const carnot_sym_expr* e = carnot_sym_get(syms, s);
  if (e->op == CARNOT_SYM_MUL && depth < kMaxDepth) {
    factorize(syms, e->a, t, depth + 1);
    factorize(syms, e->b, t, depth + 1);
    return;
  }
  if (t->count == kMaxTerms) {
    t->failed = true;
    return;
  }
  int at = t->count++;
  for (; at > 0 && t->atom[at - 1].bits > s.bits; at--) t->atom[at] = t->atom[at - 1];
  t->atom[at] = s;
}

static carnot_sym rebuild_product(carnot_syms* syms, const terms* t) {
  if (t->rest == 0 || t->count == 0) return carnot_sym_of(t->rest);
  carnot_sym product = t->atom[0];
  for (int i = 1; i < t->count; i++)
    product = carnot_sym_intern(syms, CARNOT_SYM_MUL, product, t->atom[i], carnot_sym_of(0));
  if (t->rest == 1) return product;
  return carnot_sym_intern(syms, CARNOT_SYM_MUL, product, carnot_sym_of(t->rest), carnot_sym_of(0));
}

carnot_sym carnot_sym_product_of(carnot_syms* syms, carnot_sym a, carnot_sym b) {
  carnot_sym out;
  if (carnot_sym_is_const(a)) {
    carnot_sym swap = a;
    a = b;
    b = swap;
  }
  if (carnot_sym_is(b, 0)) return b;
  if (carnot_sym_is_const(b) && carnot_sym_linear(syms, CARNOT_SYM_MUL, a, b, &out)) return out;
  terms t = {.rest = 1};
  factorize(syms, a, &t, 0);
  factorize(syms, b, &t, 0);
  if (!t.failed && carnot_sym_plain(t.rest)) return rebuild_product(syms, &t);
  return carnot_sym_intern(syms, CARNOT_SYM_MUL, a, b, carnot_sym_of(0));
}

// a / b where b divides a for sure (for b ≠ 0): common factors cancel, a linear form is divided
// term by term.
bool carnot_sym_divide(carnot_syms* syms, carnot_sym a, carnot_sym b, carnot_sym* out) {
  if (carnot_sym_is_const(b)) {
    terms t = {.count = 0};
    linearize(syms, a, 1, &t, 0);
    if (t.failed || b.bits == 0 || t.rest % b.bits) return false;
    for (int i = 0; i < t.count; i++)
      if (t.factor[i] % b.bits) return false;
    t.rest /= b.bits;
    for (int i = 0; i < t.count; i++) t.factor[i] /= b.bits;
    *out = rebuild_sum(syms, &t);
    return true;
  }
  terms x = {.rest = 1}, y = {.rest = 1};
  factorize(syms, a, &x, 0);
  factorize(syms, b, &y, 0);
  if (x.failed || y.failed || y.rest == 0 || x.rest % y.rest) return false;
  x.rest /= y.rest;
  for (int i = 0; i < y.count; i++) {
    int at = 0;
    while (at < x.count && x.atom[at].bits != y.atom[i].bits) at++;
    if (at == x.count) return false;
    for (; at + 1 < x.count; at++) x.atom[at] = x.atom[at + 1];
    x.count--;
  }
  *out = rebuild_product(syms, &x);
  return true;
}
