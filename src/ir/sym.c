// The table of expressions: hash-consing, intervals, divisors.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ir/sym_internal.h"

static const struct {
  const char* text;
  int arity;
} kOps[CARNOT_SYM_OP_COUNT] = {
#define OP_FACT(NAME, text, arity) {text, arity},
    CARNOT_SYM_OPS(OP_FACT)
#undef OP_FACT
};

int carnot_sym_arity(carnot_sym_op op) {
  return (unsigned)op < CARNOT_SYM_OP_COUNT ? kOps[op].arity : 0;
}
const char* carnot_sym_text(carnot_sym_op op) {
  return (unsigned)op < CARNOT_SYM_OP_COUNT ? kOps[op].text : "?";
}

void carnot_syms_init(carnot_syms* syms) { memset(syms, 0, sizeof(*syms)); }

void carnot_syms_deinit(carnot_syms* syms) {
  carnot_arena_deinit(&syms->arena);
  free(syms->items);
  free(syms->buckets);
  carnot_syms_init(syms);
}

void carnot_syms_reset(carnot_syms* syms) {
  syms->count = 0;
  syms->failed = false;
  carnot_arena_reset(&syms->arena);
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

carnot_status* carnot_syms_status(const carnot_syms* syms) {
  return syms->failed ? CARNOT_ERROR(OUT_OF_MEMORY, "no memory for symbolic dimensions") : NULL;
}

carnot_status* carnot_syms_end(const carnot_syms* syms, carnot_status* status) {
  if (!syms->failed || carnot_status_code(status) == CARNOT_OUT_OF_MEMORY) return status;
  carnot_status_free(status);
  return carnot_syms_status(syms);
}

// False without memory; the table is as before.
static bool rehash(carnot_syms* syms) {
  size_t count = syms->bucket_count ? syms->bucket_count * 2 : 64;
  uint32_t* buckets = calloc(count, sizeof(*buckets));
  if (!buckets) return false;
  free(syms->buckets);
  syms->buckets = buckets;
  syms->bucket_count = count;
  for (size_t i = 0; i < syms->count; i++) {
    const carnot_sym_expr* e = &syms->items[i];
    if (e->op == CARNOT_SYM_SYMBOL) continue;
    size_t at = hash_expr(e->op, e->a, e->b, e->c) & (syms->bucket_count - 1);
    while (syms->buckets[at]) at = (at + 1) & (syms->bucket_count - 1);
    syms->buckets[at] = (uint32_t)i + 1;
  }
  return true;
}

// False, and the failure is latched, without memory for one more expression.
static bool append(carnot_syms* syms, carnot_sym_expr expr, size_t* out_index) {
  if (syms->count == syms->capacity) {
    size_t capacity = syms->capacity ? syms->capacity * 2 : 32;
    void* items = realloc(syms->items, capacity * sizeof(*syms->items));
    if (!items) return !(syms->failed = true);
    syms->items = items;
    syms->capacity = capacity;
  }
  if ((syms->count + 1) * 2 > syms->bucket_count && !rehash(syms)) return !(syms->failed = true);
  *out_index = syms->count;
  syms->items[syms->count++] = expr;
  return true;
}

carnot_sym carnot_sym_new(carnot_syms* syms, const char* name, int64_t min, int64_t max) {
  carnot_sym_expr expr = {.op = CARNOT_SYM_SYMBOL, .min = min, .max = max, .divisor = 1};
  if (name) expr.name = carnot_arena_text(&syms->arena, name, strlen(name));
  size_t index;
  syms->failed |= syms->arena.failed;
  return append(syms, expr, &index) ? handle_of(index) : carnot_sym_of(1);
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
  return op >= CARNOT_SYM_F_CONST && op != CARNOT_SYM_F_TO_INT && op != CARNOT_SYM_F_LT &&
         op != CARNOT_SYM_F_EQ;
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
      int64_t v[4] = {sat_mul(amin, bmin), sat_mul(amin, bmax), sat_mul(amax, bmin),
                      sat_mul(amax, bmax)};
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
        if (carnot_sym_is_const(e->b) && adiv % e->b.bits == 0)
          e->divisor = carnot_max_i64(1, adiv / e->b.bits);
      }
      break;
    case CARNOT_SYM_MOD:
      if (bmin > 0) e->min = 0, e->max = bmax - 1;
      break;
    case CARNOT_SYM_MIN:
      e->min = carnot_min_i64(amin, bmin), e->max = carnot_min_i64(amax, bmax),
      e->divisor = gcd(adiv, bdiv);
      break;
    case CARNOT_SYM_MAX:
      e->min = carnot_max_i64(amin, bmin), e->max = carnot_max_i64(amax, bmax),
      e->divisor = gcd(adiv, bdiv);
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
carnot_sym carnot_sym_intern(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                             carnot_sym c) {
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
  size_t index;
  if (!append(syms, expr, &index)) return carnot_sym_of(1);
  size_t at = hash_expr(op, a, b, c) & (syms->bucket_count - 1);
  while (syms->buckets[at]) {
    if (syms->buckets[at] == index + 1) return handle_of(index);
    at = (at + 1) & (syms->bucket_count - 1);
  }
  syms->buckets[at] = (uint32_t)index + 1;
  return handle_of(index);
}

void carnot_sym_set_range(carnot_syms* syms, carnot_sym symbol, int64_t min, int64_t max) {
  if (carnot_sym_is_const(symbol)) return;  // made without memory
  carnot_sym_expr* e = &syms->items[carnot_sym_index(symbol)];
  e->min = min;
  e->max = max;
}

void carnot_syms_rebound(carnot_syms* syms) {
  for (size_t i = 0; i < syms->count; i++)
    if (syms->items[i].op != CARNOT_SYM_SYMBOL) bound(syms, &syms->items[i]);
}

carnot_sym carnot_sym_float(carnot_syms* syms, double value) {
  // The bits of a double may look like a handle; c marks the operand as raw.
  return carnot_sym_intern(syms, CARNOT_SYM_F_CONST, (carnot_sym){carnot_sym_bits_of(value)},
                           carnot_sym_of(0), carnot_sym_of(0));
}
