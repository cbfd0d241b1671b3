// Making expressions: what can be decided or simplified is, before it goes into the table.
#include <math.h>

#include "ir/sym_internal.h"

static bool float_const(const carnot_syms* syms, carnot_sym s, double* out) {
  if (carnot_sym_is_const(s) || carnot_sym_get(syms, s)->op != CARNOT_SYM_F_CONST) return false;
  *out = carnot_sym_float_of(carnot_sym_get(syms, s)->a.bits);
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
  return carnot_sym_intern(syms, CARNOT_SYM_F_FROM_INT, s, carnot_sym_of(0), carnot_sym_of(0));
}

static bool make_float(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                       carnot_sym* out) {
  double x, y = 0;
  carnot_sym i, j;
  bool binary = carnot_sym_arity(op) == 2;
  if (float_const(syms, a, &x) && (!binary || float_const(syms, b, &y))) {
    int64_t bits;
    carnot_status* status =
        carnot_sym_apply(op, carnot_sym_bits_of(x), carnot_sym_bits_of(y), 0, &bits);
    if (status) {
      carnot_status_free(status);
      return false;
    }
    bool integer = op == CARNOT_SYM_F_TO_INT || op == CARNOT_SYM_F_LT || op == CARNOT_SYM_F_EQ;
    *out = integer ? carnot_sym_of(bits) : carnot_sym_float(syms, carnot_sym_float_of(bits));
    return !integer || carnot_sym_plain(bits);
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
          carnot_sym_op divide =
              op == CARNOT_SYM_F_FLOOR ? CARNOT_SYM_FLOORDIV : CARNOT_SYM_CEILDIV;
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
      if (from_int(syms, a, &i) && from_int(syms, b, &j) && carnot_sym_divide(syms, i, j, out)) {
        *out = to_float(syms, *out);
        return true;
      }
      return false;
    default: return false;
  }
}

static bool make_division(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                          carnot_sym* out) {
  if (carnot_sym_is(b, 1)) {
    *out = a;
    return true;
  }
  if (carnot_sym_divide(syms, a, b, out)) return true;
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

// max(a, min(a, b)) is a, max(a, max(a, b)) is max(a, b): exporters nest them at every layer.
static bool absorb(const carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                   carnot_sym* out) {
  if (carnot_sym_is_const(b)) return false;
  const carnot_sym_expr* e = carnot_sym_get(syms, b);
  bool is_choice = e->op == CARNOT_SYM_MIN || e->op == CARNOT_SYM_MAX;
  if (!is_choice || (!carnot_sym_same(e->a, a) && !carnot_sym_same(e->b, a))) return false;
  *out = e->op == op ? b : a;
  return true;
}

static bool make_choice(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                        carnot_sym c, carnot_sym* out) {
  int less;
  switch (op) {
    case CARNOT_SYM_MIN:
    case CARNOT_SYM_MAX:
      *out = a;
      if (carnot_sym_same(a, b) || absorb(syms, op, a, b, out) || absorb(syms, op, b, a, out))
        return true;
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

carnot_sym carnot_sym_make(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                           carnot_sym c) {
  int arity = carnot_sym_arity(op);
  if (arity < 3) c = carnot_sym_of(0);
  if (arity < 2) b = carnot_sym_of(0);
  carnot_sym out;
  if (op == CARNOT_SYM_F_FROM_INT) return to_float(syms, a);
  if (op >= CARNOT_SYM_F_TO_INT) {
    if (make_float(syms, op, a, b, &out)) return out;
    return carnot_sym_intern(syms, op, a, b, c);
  }
  if (carnot_sym_is_const(a) && carnot_sym_is_const(b) && carnot_sym_is_const(c)) {
    int64_t value;
    carnot_status* status = carnot_sym_apply(op, a.bits, b.bits, c.bits, &value);
    if (!status && carnot_sym_plain(value)) return carnot_sym_of(value);
    carnot_status_free(status);
    return carnot_sym_new(syms, NULL, -CARNOT_SYM_LIMIT, CARNOT_SYM_LIMIT);
  }
  switch (op) {
    case CARNOT_SYM_ADD:
    case CARNOT_SYM_SUB:
      if (carnot_sym_linear(syms, op, a, b, &out)) return out;
      break;
    case CARNOT_SYM_MUL: return carnot_sym_product_of(syms, a, b);
    case CARNOT_SYM_FLOORDIV:
    case CARNOT_SYM_CEILDIV:
    case CARNOT_SYM_TRUNCDIV:
      if (make_division(syms, op, a, b, &out)) return out;
      break;
    case CARNOT_SYM_MOD:
      if (carnot_sym_is_const(b) && b.bits && carnot_sym_divisor(syms, a) % b.bits == 0)
        return carnot_sym_of(0);
      break;
    default:
      if (make_choice(syms, op, a, b, c, &out)) return out;
      break;
  }
  return carnot_sym_intern(syms, op, a, b, c);
}

carnot_sym carnot_sym_product(carnot_syms* syms, const carnot_sym* dims, size_t count) {
  carnot_sym product = carnot_sym_of(1);
  for (size_t i = 0; i < count; i++) product = carnot_sym_mul(syms, product, dims[i]);
  return product;
}
