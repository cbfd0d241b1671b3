#include "ir/sym.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { kMaxTerms = 16, kMaxDepth = 200 };

static const struct {
  const char* text;
  int arity;
} kOps[CARNOT_SYM_OP_COUNT] = {
#define OP_FACT(NAME, text, arity) {text, arity},
    CARNOT_SYM_OPS(OP_FACT)
#undef OP_FACT
};

int carnot_sym_arity(carnot_sym_op op) { return (unsigned)op < CARNOT_SYM_OP_COUNT ? kOps[op].arity : 0; }

void carnot_syms_init(carnot_syms* syms) { memset(syms, 0, sizeof(*syms)); }

void carnot_syms_deinit(carnot_syms* syms) {
  carnot_arena_deinit(&syms->arena);
  free(syms->items);
  free(syms->buckets);
  carnot_syms_init(syms);
}

void carnot_syms_reset(carnot_syms* syms) {
  syms->count = 0;
  if (syms->buckets) memset(syms->buckets, 0, syms->bucket_count * sizeof(*syms->buckets));
}

static carnot_sym handle_of(size_t index) { return carnot_sym_of(INT64_MIN + (int64_t)index); }

static size_t hash_expr(carnot_sym_op op, carnot_sym a, carnot_sym b, carnot_sym c) {
  uint64_t h = (uint64_t)op * 0x9e3779b97f4a7c15u;
  h = (h ^ (uint64_t)a.bits) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 29 ^ (uint64_t)b.bits) * 0xc4ceb9fe1a85ec53u;
  h = (h ^ h >> 31 ^ (uint64_t)c.bits) * 0x9e3779b97f4a7c15u;
  return (size_t)(h ^ h >> 32);
}

// Memory for expressions is small and of the program's own making; running out of it is fatal, as in the arena.
static void* must_realloc(void* memory, size_t bytes) {
  void* grown = realloc(memory, bytes);
  if (!grown) {
    fprintf(stderr, "carnot: no memory for %zu bytes of symbolic dimensions\n", bytes);
    abort();
  }
  return grown;
}

static void rehash(carnot_syms* syms) {
  syms->bucket_count = syms->bucket_count ? syms->bucket_count * 2 : 64;
  syms->buckets = must_realloc(syms->buckets, syms->bucket_count * sizeof(*syms->buckets));
  memset(syms->buckets, 0, syms->bucket_count * sizeof(*syms->buckets));
  for (size_t i = 0; i < syms->count; i++) {
    const carnot_sym_expr* e = &syms->items[i];
    if (e->op == CARNOT_SYM_SYMBOL) continue;
    size_t at = hash_expr(e->op, e->a, e->b, e->c) & (syms->bucket_count - 1);
    while (syms->buckets[at]) at = (at + 1) & (syms->bucket_count - 1);
    syms->buckets[at] = (uint32_t)i + 1;
  }
}

static size_t append(carnot_syms* syms, carnot_sym_expr expr) {
  if (syms->count == syms->capacity) {
    syms->capacity = syms->capacity ? syms->capacity * 2 : 32;
    syms->items = must_realloc(syms->items, syms->capacity * sizeof(*syms->items));
  }
  if ((syms->count + 1) * 2 > syms->bucket_count) rehash(syms);
  syms->items[syms->count] = expr;
  return syms->count++;
}

carnot_sym carnot_sym_new(carnot_syms* syms, const char* name, int64_t min, int64_t max) {
  carnot_sym_expr expr = {.op = CARNOT_SYM_SYMBOL, .min = min, .max = max, .divisor = 1};
  if (name) expr.name = carnot_arena_text(&syms->arena, name, strlen(name));
  return handle_of(append(syms, expr));
}

// ---- what is known of a value ----

void carnot_sym_range(const carnot_syms* syms, carnot_sym s, int64_t* out_min, int64_t* out_max) {
  if (carnot_sym_is_const(s)) {
    *out_min = *out_max = s.bits;
  } else {
    *out_min = carnot_sym_get(syms, s)->min;
    *out_max = carnot_sym_get(syms, s)->max;
  }
}

int64_t carnot_sym_divisor(const carnot_syms* syms, carnot_sym s) {
  if (!carnot_sym_is_const(s)) return carnot_sym_get(syms, s)->divisor;
  return s.bits == 0 ? CARNOT_SYM_LIMIT : s.bits < 0 ? -s.bits : s.bits;
}

bool carnot_sym_is_float(const carnot_syms* syms, carnot_sym s) {
  if (carnot_sym_is_const(s)) return false;
  carnot_sym_op op = carnot_sym_get(syms, s)->op;
  return op >= CARNOT_SYM_F_CONST && op != CARNOT_SYM_F_TO_INT && op != CARNOT_SYM_F_LT && op != CARNOT_SYM_F_EQ;
}

static int64_t clamp(int64_t v) {
  return v > CARNOT_SYM_LIMIT ? CARNOT_SYM_LIMIT : v < -CARNOT_SYM_LIMIT ? -CARNOT_SYM_LIMIT : v;
}
static int64_t sat_add(int64_t a, int64_t b) {
  int64_t sum;
  if (carnot_add_i64(a, b, &sum)) return clamp(sum);
  return a < 0 ? -CARNOT_SYM_LIMIT : CARNOT_SYM_LIMIT;
}
static int64_t sat_mul(int64_t a, int64_t b) {
  int64_t product;
  if (carnot_mul_i64(a, b, &product)) return clamp(product);
  return (a < 0) == (b < 0) ? CARNOT_SYM_LIMIT : -CARNOT_SYM_LIMIT;
}
static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a ? a : 1;
}

static void min_max_of(const int64_t* v, int count, int64_t* out_min, int64_t* out_max) {
  *out_min = *out_max = v[0];
  for (int i = 1; i < count; i++) {
    *out_min = carnot_min_i64(*out_min, v[i]);
    *out_max = carnot_max_i64(*out_max, v[i]);
  }
}

// Interval and divisor of a new expression.
static void bound(const carnot_syms* syms, carnot_sym_expr* e) {
  int64_t amin = 0, amax = 0, bmin = 0, bmax = 0, cmin = 0, cmax = 0;
  e->min = -CARNOT_SYM_LIMIT;
  e->max = CARNOT_SYM_LIMIT;
  e->divisor = 1;
  if (e->op == CARNOT_SYM_F_CONST) return;
  carnot_sym_range(syms, e->a, &amin, &amax);
  carnot_sym_range(syms, e->b, &bmin, &bmax);
  carnot_sym_range(syms, e->c, &cmin, &cmax);
  int64_t adiv = carnot_sym_divisor(syms, e->a), bdiv = carnot_sym_divisor(syms, e->b);
  switch (e->op) {
    case CARNOT_SYM_ADD:
      e->min = sat_add(amin, bmin), e->max = sat_add(amax, bmax), e->divisor = gcd(adiv, bdiv);
      break;
    case CARNOT_SYM_SUB:
      e->min = sat_add(amin, -bmax), e->max = sat_add(amax, -bmin), e->divisor = gcd(adiv, bdiv);
      break;
    case CARNOT_SYM_MUL: {
      int64_t v[4] = {sat_mul(amin, bmin), sat_mul(amin, bmax), sat_mul(amax, bmin), sat_mul(amax, bmax)};
      min_max_of(v, 4, &e->min, &e->max);
      e->divisor = carnot_max_i64(1, sat_mul(adiv, bdiv));
      break;
    }
    case CARNOT_SYM_FLOORDIV:
    case CARNOT_SYM_CEILDIV:
    case CARNOT_SYM_TRUNCDIV:
      if (bmin > 0) {
        int64_t ends[4] = {amin / bmin, amin / bmax, amax / bmin, amax / bmax};
        min_max_of(ends, 4, &e->min, &e->max);
        if (e->op == CARNOT_SYM_FLOORDIV && amin < 0) e->min -= 1;
        if (e->op == CARNOT_SYM_CEILDIV && amax > 0) e->max += 1;
        if (carnot_sym_is_const(e->b) && adiv % e->b.bits == 0) e->divisor = carnot_max_i64(1, adiv / e->b.bits);
      }
      break;
    case CARNOT_SYM_MOD:
      if (bmin > 0) e->min = 0, e->max = bmax - 1;
      break;
    case CARNOT_SYM_MIN:
      e->min = carnot_min_i64(amin, bmin), e->max = carnot_min_i64(amax, bmax), e->divisor = gcd(adiv, bdiv);
      break;
    case CARNOT_SYM_MAX:
      e->min = carnot_max_i64(amin, bmin), e->max = carnot_max_i64(amax, bmax), e->divisor = gcd(adiv, bdiv);
      break;
    case CARNOT_SYM_SELECT:
      e->min = carnot_min_i64(bmin, cmin), e->max = carnot_max_i64(bmax, cmax);
      e->divisor = gcd(bdiv, carnot_sym_divisor(syms, e->c));
      break;
    case CARNOT_SYM_EQ:
    case CARNOT_SYM_LT:
    case CARNOT_SYM_AND:
    case CARNOT_SYM_OR:
    case CARNOT_SYM_NOT:
    case CARNOT_SYM_F_LT:
    case CARNOT_SYM_F_EQ: e->min = 0, e->max = 1; break;
    default: break;
  }
}

// The expression itself, without simplification.
static carnot_sym intern(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b, carnot_sym c) {
  if (syms->bucket_count) {
    size_t at = hash_expr(op, a, b, c) & (syms->bucket_count - 1);
    for (; syms->buckets[at]; at = (at + 1) & (syms->bucket_count - 1)) {
      const carnot_sym_expr* e = &syms->items[syms->buckets[at] - 1];
      if (e->op == op && e->a.bits == a.bits && e->b.bits == b.bits && e->c.bits == c.bits)
        return handle_of(syms->buckets[at] - 1);
    }
  }
  carnot_sym_expr expr = {.op = op, .a = a, .b = b, .c = c};
  bound(syms, &expr);
  size_t index = append(syms, expr);
  size_t at = hash_expr(op, a, b, c) & (syms->bucket_count - 1);
  while (syms->buckets[at]) {
    if (syms->buckets[at] == index + 1) return handle_of(index);
    at = (at + 1) & (syms->bucket_count - 1);
  }
  syms->buckets[at] = (uint32_t)index + 1;
  return handle_of(index);
}

void carnot_sym_set_range(carnot_syms* syms, carnot_sym symbol, int64_t min, int64_t max) {
  carnot_sym_expr* e = &syms->items[carnot_sym_index(symbol)];
  e->min = min;
  e->max = max;
}

void carnot_syms_rebound(carnot_syms* syms) {
  for (size_t i = 0; i < syms->count; i++)
    if (syms->items[i].op != CARNOT_SYM_SYMBOL) bound(syms, &syms->items[i]);
}

carnot_sym carnot_sym_intern(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b, carnot_sym c) {
  return intern(syms, op, a, b, c);
}

static double float_of(int64_t bits) {
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
static int64_t bits_of(double value) {
  int64_t bits;
  memcpy(&bits, &value, 8);
  return bits;
}

carnot_sym carnot_sym_float(carnot_syms* syms, double value) {
  // The bits of a double may look like a handle; c marks the operand as raw.
  return intern(syms, CARNOT_SYM_F_CONST, (carnot_sym){bits_of(value)}, carnot_sym_of(0), carnot_sym_of(0));
}

// ---- linear forms and products: sums and products in one order, so that equal ones meet ----

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
      for (int i = at; i + 1 < t->count; i++) t->atom[i] = t->atom[i + 1], t->factor[i] = t->factor[i + 1];
      t->count--;
    }
    return;
  }
  if (t->count == kMaxTerms) {
    t->failed = true;
    return;
  }
  for (int i = t->count++; i > at; i--) t->atom[i] = t->atom[i - 1], t->factor[i] = t->factor[i - 1];
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

static bool plain(int64_t v) { return v >= -CARNOT_SYM_LIMIT && v <= CARNOT_SYM_LIMIT; }

static carnot_sym rebuild_sum(carnot_syms* syms, const terms* t) {
  carnot_sym sum = carnot_sym_of(0);
  bool any = false;
  for (int i = 0; i < t->count; i++) {
    carnot_sym term = t->factor[i] == 1 ? t->atom[i]
                                        : intern(syms, CARNOT_SYM_MUL, t->atom[i], carnot_sym_of(t->factor[i]),
                                                 carnot_sym_of(0));
    sum = any ? intern(syms, CARNOT_SYM_ADD, sum, term, carnot_sym_of(0)) : term;
    any = true;
  }
  if (!any) return carnot_sym_of(t->rest);
  return t->rest ? intern(syms, CARNOT_SYM_ADD, sum, carnot_sym_of(t->rest), carnot_sym_of(0)) : sum;
}

static bool make_linear(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b, carnot_sym* out) {
  terms t = {.count = 0};
  if (op == CARNOT_SYM_MUL) {
    linearize(syms, a, b.bits, &t, 0);
  } else {
    linearize(syms, a, 1, &t, 0);
    linearize(syms, b, op == CARNOT_SYM_SUB ? -1 : 1, &t, 0);
  }
  bool ok = !t.failed && plain(t.rest);
  for (int i = 0; i < t.count; i++) ok = ok && plain(t.factor[i]);
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
    product = intern(syms, CARNOT_SYM_MUL, product, t->atom[i], carnot_sym_of(0));
  if (t->rest == 1) return product;
  return intern(syms, CARNOT_SYM_MUL, product, carnot_sym_of(t->rest), carnot_sym_of(0));
}

static carnot_sym make_product(carnot_syms* syms, carnot_sym a, carnot_sym b) {
  carnot_sym out;
  if (carnot_sym_is_const(a)) {
    carnot_sym swap = a;
    a = b;
    b = swap;
  }
  if (carnot_sym_is_const(b) && make_linear(syms, CARNOT_SYM_MUL, a, b, &out)) return out;
  terms t = {.rest = 1};
  factorize(syms, a, &t, 0);
  factorize(syms, b, &t, 0);
  if (!t.failed && plain(t.rest)) return rebuild_product(syms, &t);
  return intern(syms, CARNOT_SYM_MUL, a, b, carnot_sym_of(0));
}

// a / b where b divides a for sure (for b ≠ 0): common factors cancel, a linear form is divided term by term.
static bool divide_exactly(carnot_syms* syms, carnot_sym a, carnot_sym b, carnot_sym* out) {
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

// ---- making expressions ----

static bool float_const(const carnot_syms* syms, carnot_sym s, double* out) {
  if (carnot_sym_is_const(s) || carnot_sym_get(syms, s)->op != CARNOT_SYM_F_CONST) return false;
  *out = float_of(carnot_sym_get(syms, s)->a.bits);
  return true;
}
// The integer expression that a float expression was made from.
static bool from_int(const carnot_syms* syms, carnot_sym s, carnot_sym* out) {
  double value;
  if (float_const(syms, s, &value) && value == floor(value) && fabs(value) < 0x1p52) {
    *out = carnot_sym_of((int64_t)value);
    return true;
  }
  if (carnot_sym_is_const(s) || carnot_sym_get(syms, s)->op != CARNOT_SYM_F_FROM_INT) return false;
  *out = carnot_sym_get(syms, s)->a;
  return true;
}
static carnot_sym to_float(carnot_syms* syms, carnot_sym s) {
  if (carnot_sym_is_const(s)) return carnot_sym_float(syms, (double)s.bits);
  return intern(syms, CARNOT_SYM_F_FROM_INT, s, carnot_sym_of(0), carnot_sym_of(0));
}

static bool make_float(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b, carnot_sym* out) {
  double x, y = 0;
  carnot_sym i, j;
  bool binary = kOps[op].arity == 2;
  if (float_const(syms, a, &x) && (!binary || float_const(syms, b, &y))) {
    int64_t bits;
    carnot_status* status = carnot_sym_apply(op, bits_of(x), bits_of(y), 0, &bits);
    if (status) {
      carnot_status_free(status);
      return false;
    }
    bool integer = op == CARNOT_SYM_F_TO_INT || op == CARNOT_SYM_F_LT || op == CARNOT_SYM_F_EQ;
    *out = integer ? carnot_sym_of(bits) : carnot_sym_float(syms, float_of(bits));
    return !integer || plain(bits);
  }
  switch (op) {
    case CARNOT_SYM_F_TO_INT: return from_int(syms, a, out);
    case CARNOT_SYM_F_ROUND32:
    case CARNOT_SYM_F_FLOOR:
    case CARNOT_SYM_F_CEIL:
    case CARNOT_SYM_F_ROUND:
      if (from_int(syms, a, &i)) {
        *out = a;
        return true;
      }
      // floor(int / int) is an integer division.
      if (!carnot_sym_is_const(a)) {
        carnot_sym_expr e = *carnot_sym_get(syms, a);
        if (e.op == CARNOT_SYM_F_DIV && (op == CARNOT_SYM_F_FLOOR || op == CARNOT_SYM_F_CEIL) &&
            from_int(syms, e.a, &i) && from_int(syms, e.b, &j)) {
          carnot_sym_op divide = op == CARNOT_SYM_F_FLOOR ? CARNOT_SYM_FLOORDIV : CARNOT_SYM_CEILDIV;
          *out = to_float(syms, carnot_sym_make(syms, divide, i, j, carnot_sym_of(0)));
          return true;
        }
      }
      return false;
    case CARNOT_SYM_F_ADD:
    case CARNOT_SYM_F_SUB:
    case CARNOT_SYM_F_MUL:
      if (!from_int(syms, a, &i) || !from_int(syms, b, &j)) return false;
      *out = to_float(syms, op == CARNOT_SYM_F_ADD   ? carnot_sym_add(syms, i, j)
                            : op == CARNOT_SYM_F_SUB ? carnot_sym_sub(syms, i, j)
                                                     : carnot_sym_mul(syms, i, j));
      return true;
    case CARNOT_SYM_F_DIV:
      if (from_int(syms, b, &j) && carnot_sym_is(j, 1)) {
        *out = a;
        return true;
      }
      if (from_int(syms, a, &i) && from_int(syms, b, &j) && divide_exactly(syms, i, j, out)) {
        *out = to_float(syms, *out);
        return true;
      }
      return false;
    default: return false;
  }
}

static bool make_division(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b, carnot_sym* out) {
  if (carnot_sym_is(b, 1)) {
    *out = a;
    return true;
  }
  if (divide_exactly(syms, a, b, out)) return true;
  int64_t amin, amax, bmin, bmax;
  carnot_sym_range(syms, a, &amin, &amax);
  carnot_sym_range(syms, b, &bmin, &bmax);
  if (amin >= 0 && bmin > amax && op != CARNOT_SYM_CEILDIV) {
    *out = carnot_sym_of(0);
    return true;
  }
  return false;
}

// 1, 0 or -1 (unknown) for a < b by their intervals and that of their difference.
static int decide_less(carnot_syms* syms, carnot_sym a, carnot_sym b) {
  int64_t min, max;
  carnot_sym_range(syms, carnot_sym_sub(syms, a, b), &min, &max);
  return max < 0 ? 1 : min >= 0 ? 0 : -1;
}

static bool make_choice(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b, carnot_sym c,
                        carnot_sym* out) {
  int less;
  switch (op) {
    case CARNOT_SYM_MIN:
    case CARNOT_SYM_MAX:
      *out = a;
      if (carnot_sym_same(a, b)) return true;
      less = decide_less(syms, a, b);
      if (less < 0) return false;
      if ((op == CARNOT_SYM_MIN) != (less == 1)) *out = b;
      return true;
    case CARNOT_SYM_EQ: {
      int64_t min, max;
      carnot_sym difference = carnot_sym_sub(syms, a, b);
      carnot_sym_range(syms, difference, &min, &max);
      *out = carnot_sym_of(carnot_sym_is(difference, 0));
      return carnot_sym_is(difference, 0) || min > 0 || max < 0;
    }
    case CARNOT_SYM_LT:
      less = decide_less(syms, a, b);
      *out = carnot_sym_of(less == 1);
      return less >= 0;
    case CARNOT_SYM_AND:
    case CARNOT_SYM_OR: {
      bool is_and = op == CARNOT_SYM_AND;
      if (carnot_sym_is_const(a)) {
        *out = (a.bits != 0) == is_and ? b : carnot_sym_of(!is_and);
        return true;
      }
      if (carnot_sym_is_const(b)) {
        *out = (b.bits != 0) == is_and ? a : carnot_sym_of(!is_and);
        return true;
      }
      *out = a;
      return carnot_sym_same(a, b);
    }
    case CARNOT_SYM_SELECT:
      *out = carnot_sym_is_const(a) ? (a.bits ? b : c) : b;
      return carnot_sym_is_const(a) || carnot_sym_same(b, c);
    default: return false;
  }
}

carnot_sym carnot_sym_make(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b, carnot_sym c) {
  int arity = kOps[op].arity;
  if (arity < 3) c = carnot_sym_of(0);
  if (arity < 2) b = carnot_sym_of(0);
  carnot_sym out;
  if (op == CARNOT_SYM_F_FROM_INT) return to_float(syms, a);
  if (op >= CARNOT_SYM_F_TO_INT) {
    if (make_float(syms, op, a, b, &out)) return out;
    return intern(syms, op, a, b, c);
  }
  if (carnot_sym_is_const(a) && carnot_sym_is_const(b) && carnot_sym_is_const(c)) {
    int64_t value;
    carnot_status* status = carnot_sym_apply(op, a.bits, b.bits, c.bits, &value);
    if (!status && plain(value)) return carnot_sym_of(value);
    carnot_status_free(status);
    return carnot_sym_new(syms, NULL, -CARNOT_SYM_LIMIT, CARNOT_SYM_LIMIT);
  }
  switch (op) {
    case CARNOT_SYM_ADD:
    case CARNOT_SYM_SUB:
      if (make_linear(syms, op, a, b, &out)) return out;
      break;
    case CARNOT_SYM_MUL: return make_product(syms, a, b);
    case CARNOT_SYM_FLOORDIV:
    case CARNOT_SYM_CEILDIV:
    case CARNOT_SYM_TRUNCDIV:
      if (make_division(syms, op, a, b, &out)) return out;
      break;
    case CARNOT_SYM_MOD:
      if (carnot_sym_is_const(b) && b.bits && carnot_sym_divisor(syms, a) % b.bits == 0) return carnot_sym_of(0);
      break;
    default:
      if (make_choice(syms, op, a, b, c, &out)) return out;
      break;
  }
  return intern(syms, op, a, b, c);
}

carnot_sym carnot_sym_product(carnot_syms* syms, const carnot_sym* dims, size_t count) {
  carnot_sym product = carnot_sym_of(1);
  for (size_t i = 0; i < count; i++) product = carnot_sym_mul(syms, product, dims[i]);
  return product;
}

// ---- evaluation ----

#define CHECKED(call) CARNOT_CHECK(call, OUT_OF_RANGE, "dimension arithmetic overflows: %lld %s %lld", (long long)a, kOps[op].text, (long long)b)
#define DIVISOR() CARNOT_CHECK(b != 0 && !(a == INT64_MIN && b == -1), INVALID_ARGUMENT, "dimension arithmetic divides %lld by %lld", (long long)a, (long long)b)

carnot_status* carnot_sym_apply(carnot_sym_op op, int64_t a, int64_t b, int64_t c, int64_t* out) {
  *out = 0;
  switch (op) {
    case CARNOT_SYM_ADD: CHECKED(carnot_add_i64(a, b, out)); break;
    case CARNOT_SYM_SUB: CHECKED(carnot_sub_i64(a, b, out)); break;
    case CARNOT_SYM_MUL: CHECKED(carnot_mul_i64(a, b, out)); break;
    case CARNOT_SYM_FLOORDIV: DIVISOR(); *out = carnot_floordiv(a, b); break;
    case CARNOT_SYM_CEILDIV: DIVISOR(); *out = carnot_ceildiv(a, b); break;
    case CARNOT_SYM_TRUNCDIV: DIVISOR(); *out = a / b; break;
    case CARNOT_SYM_MOD: DIVISOR(); *out = a - b * carnot_floordiv(a, b); break;
    case CARNOT_SYM_MIN: *out = carnot_min_i64(a, b); break;
    case CARNOT_SYM_MAX: *out = carnot_max_i64(a, b); break;
    case CARNOT_SYM_EQ: *out = a == b; break;
    case CARNOT_SYM_LT: *out = a < b; break;
    case CARNOT_SYM_AND: *out = a && b; break;
    case CARNOT_SYM_OR: *out = a || b; break;
    case CARNOT_SYM_NOT: *out = !a; break;
    case CARNOT_SYM_SELECT: *out = a ? b : c; break;
    case CARNOT_SYM_F_CONST: *out = a; break;
    case CARNOT_SYM_F_FROM_INT: *out = bits_of((double)a); break;
    case CARNOT_SYM_F_TO_INT: {
      double value = float_of(a);
      *out = !(value == value) ? 0 : value >= 0x1p63 ? INT64_MAX : value <= -0x1p63 ? INT64_MIN : (int64_t)value;
      break;
    }
    case CARNOT_SYM_F_ADD: *out = bits_of(float_of(a) + float_of(b)); break;
    case CARNOT_SYM_F_SUB: *out = bits_of(float_of(a) - float_of(b)); break;
    case CARNOT_SYM_F_MUL: *out = bits_of(float_of(a) * float_of(b)); break;
    case CARNOT_SYM_F_DIV: *out = bits_of(float_of(a) / float_of(b)); break;
    case CARNOT_SYM_F_FLOOR: *out = bits_of(floor(float_of(a))); break;
    case CARNOT_SYM_F_CEIL: *out = bits_of(ceil(float_of(a))); break;
    case CARNOT_SYM_F_ROUND: *out = bits_of(nearbyint(float_of(a))); break;
    case CARNOT_SYM_F_SQRT: *out = bits_of(sqrt(float_of(a))); break;
    case CARNOT_SYM_F_LT: *out = float_of(a) < float_of(b); break;
    case CARNOT_SYM_F_EQ: *out = float_of(a) == float_of(b); break;
    case CARNOT_SYM_F_ROUND32: *out = bits_of((double)(float)float_of(a)); break;
    default: return CARNOT_ERROR(INVALID_MODEL, "dimension arithmetic has no operator %d", (int)op);
  }
  return NULL;
}

static carnot_status* eval(const carnot_syms* syms, carnot_sym s, int64_t* values, bool* known, int depth,
                           int64_t* out) {
  if (carnot_sym_is_const(s)) {
    *out = s.bits;
    return NULL;
  }
  size_t index = carnot_sym_index(s);
  if (!known[index]) {
    const carnot_sym_expr* e = &syms->items[index];
    CARNOT_CHECK(e->op != CARNOT_SYM_SYMBOL, INVALID_ARGUMENT, "dimension %s has no value yet",
                 e->name ? e->name : "(unnamed)");
    CARNOT_CHECK(depth < 4096, OUT_OF_RANGE, "dimension arithmetic is nested deeper than 4096");
    int64_t v[3] = {0, 0, 0};
    carnot_sym operands[3] = {e->a, e->b, e->c};
    if (e->op == CARNOT_SYM_F_CONST) v[0] = e->a.bits;
    for (int i = 0; i < kOps[e->op].arity; i++)
      CARNOT_TRY(eval(syms, operands[i], values, known, depth + 1, &v[i]));
    CARNOT_TRY(carnot_sym_apply(e->op, v[0], v[1], v[2], &values[index]));
    known[index] = true;
  }
  *out = values[index];
  return NULL;
}

carnot_status* carnot_sym_eval(const carnot_syms* syms, carnot_sym s, int64_t* values, bool* known,
                               int64_t* out_value) {
  return eval(syms, s, values, known, 0, out_value);
}

// ---- printing ----

static void print(const carnot_syms* syms, carnot_sym s, FILE* out, int depth) {
  if (carnot_sym_is_const(s)) {
    fprintf(out, "%lld", (long long)s.bits);
    return;
  }
  const carnot_sym_expr* e = carnot_sym_get(syms, s);
  if (e->op == CARNOT_SYM_SYMBOL) {
    if (e->name) {
      fputs(e->name, out);
    } else {
      fprintf(out, "?%zu", carnot_sym_index(s));
    }
  } else if (e->op == CARNOT_SYM_F_CONST) {
    fprintf(out, "%g", float_of(e->a.bits));
  } else if (depth > 8) {
    fputs("…", out);
  } else {
    carnot_sym operands[3] = {e->a, e->b, e->c};
    bool infix = kOps[e->op].arity == 2 && strchr("+-*=</", kOps[e->op].text[0]);
    if (!infix) fputs(kOps[e->op].text, out);
    fputc('(', out);
    for (int i = 0; i < kOps[e->op].arity; i++) {
      if (i) fputs(infix ? kOps[e->op].text : ",", out);
      print(syms, operands[i], out, depth + 1);
    }
    fputc(')', out);
  }
}

void carnot_sym_print(const carnot_syms* syms, carnot_sym s, char* text, size_t size) {
  if (size == 0) return;
  text[0] = 0;
  FILE* out = fmemopen(text, size, "w");
  if (!out) return;
  print(syms, s, out, 0);
  fclose(out);
  text[size - 1] = 0;
}
