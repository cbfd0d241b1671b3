// Evaluation and printing.
#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "ir/sym_internal.h"

#define CHECKED(call)                                                                            \
  CARNOT_CHECK(call, OUT_OF_RANGE, "dimension arithmetic overflows: %lld %s %lld", (long long)a, \
               carnot_sym_text(op), (long long)b)
#define DIVISOR()                                                        \
  CARNOT_CHECK(b != 0 && !(a == INT64_MIN && b == -1), INVALID_ARGUMENT, \
               "dimension arithmetic divides %lld by %lld", (long long)a, (long long)b)

carnot_status* carnot_sym_apply(carnot_sym_op op, int64_t a, int64_t b, int64_t c, int64_t* out) {
  *out = 0;
  switch (op) {
    case CARNOT_SYM_ADD: CHECKED(carnot_add_i64(a, b, out)); break;
    case CARNOT_SYM_SUB: CHECKED(carnot_sub_i64(a, b, out)); break;
    case CARNOT_SYM_MUL: CHECKED(carnot_mul_i64(a, b, out)); break;
    case CARNOT_SYM_FLOORDIV:
      DIVISOR();
      *out = carnot_floordiv(a, b);
      break;
    case CARNOT_SYM_CEILDIV:
      DIVISOR();
      *out = carnot_ceildiv(a, b);
      break;
    case CARNOT_SYM_TRUNCDIV:
      DIVISOR();
      *out = a / b;
      break;
    case CARNOT_SYM_MOD:
      DIVISOR();
      *out = a - b * carnot_floordiv(a, b);
      break;
    case CARNOT_SYM_MIN: *out = carnot_min_i64(a, b); break;
    case CARNOT_SYM_MAX: *out = carnot_max_i64(a, b); break;
    case CARNOT_SYM_EQ: *out = a == b; break;
    case CARNOT_SYM_LT: *out = a < b; break;
    case CARNOT_SYM_AND: *out = a && b; break;
    case CARNOT_SYM_OR: *out = a || b; break;
    case CARNOT_SYM_NOT: *out = !a; break;
    case CARNOT_SYM_SELECT: *out = a ? b : c; break;
    case CARNOT_SYM_F_CONST: *out = a; break;
    case CARNOT_SYM_F_FROM_INT: *out = carnot_sym_bits_of((double)a); break;
    case CARNOT_SYM_F_TO_INT: {
      double value = carnot_sym_float_of(a);
      *out = !(value == value)  ? 0
             : value >= 0x1p63  ? INT64_MAX
             : value <= -0x1p63 ? INT64_MIN
                                : (int64_t)value;
      break;
    }
    case CARNOT_SYM_F_ADD:
      *out = carnot_sym_bits_of(carnot_sym_float_of(a) + carnot_sym_float_of(b));
      break;
    case CARNOT_SYM_F_SUB:
      *out = carnot_sym_bits_of(carnot_sym_float_of(a) - carnot_sym_float_of(b));
      break;
    case CARNOT_SYM_F_MUL:
      *out = carnot_sym_bits_of(carnot_sym_float_of(a) * carnot_sym_float_of(b));
      break;
    case CARNOT_SYM_F_DIV:
      *out = carnot_sym_bits_of(carnot_sym_float_of(a) / carnot_sym_float_of(b));
      break;
    case CARNOT_SYM_F_FLOOR: *out = carnot_sym_bits_of(floor(carnot_sym_float_of(a))); break;
    case CARNOT_SYM_F_CEIL: *out = carnot_sym_bits_of(ceil(carnot_sym_float_of(a))); break;
    case CARNOT_SYM_F_ROUND: *out = carnot_sym_bits_of(nearbyint(carnot_sym_float_of(a))); break;
    case CARNOT_SYM_F_SQRT: *out = carnot_sym_bits_of(sqrt(carnot_sym_float_of(a))); break;
    case CARNOT_SYM_F_LT: *out = carnot_sym_float_of(a) < carnot_sym_float_of(b); break;
    case CARNOT_SYM_F_EQ: *out = carnot_sym_float_of(a) == carnot_sym_float_of(b); break;
    case CARNOT_SYM_F_ROUND32:
      *out = carnot_sym_bits_of((double)(float)carnot_sym_float_of(a));
      break;
    default: return CARNOT_ERROR(INVALID_MODEL, "dimension arithmetic has no operator %d", (int)op);
  }
  return NULL;
}

static carnot_status* eval(const carnot_syms* syms, carnot_sym s, int64_t* values, bool* known,
                           int depth, int64_t* out) {
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
    for (int i = 0; i < carnot_sym_arity(e->op); i++)
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
    fprintf(out, "%g", carnot_sym_float_of(e->a.bits));
  } else if (depth > 8) {
    fputs("…", out);
  } else {
    carnot_sym operands[3] = {e->a, e->b, e->c};
    bool infix = carnot_sym_arity(e->op) == 2 && strchr("+-*=</", carnot_sym_text(e->op)[0]);
    if (!infix) fputs(carnot_sym_text(e->op), out);
    fputc('(', out);
    for (int i = 0; i < carnot_sym_arity(e->op); i++) {
      if (i) fputs(infix ? carnot_sym_text(e->op) : ",", out);
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
