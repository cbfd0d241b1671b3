// Element-wise functions on symbolic elements: shape arithmetic stays an expression.
#include "ops/pointwise.h"
#include "ops/util.h"

static bool followed(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_I64 || dtype == CARNOT_DTYPE_I32 || dtype == CARNOT_DTYPE_BOOL ||
         dtype == CARNOT_DTYPE_F32 || dtype == CARNOT_DTYPE_F64;
}
// Expressions do not wrap as an int32 does.
static bool holds(carnot_dtype dtype, carnot_sym s) {
  return dtype != CARNOT_DTYPE_I32 || !carnot_sym_is_const(s) ||
         (s.bits >= INT32_MIN && s.bits <= INT32_MAX);
}

const carnot_sym* carnot_pointwise_syms(carnot_infer* infer, int input, size_t* out_count) {
  const carnot_infer_input* in = &infer->inputs[input];
  *out_count = 0;
  if (!in->type || in->type->kind != CARNOT_VALUE_TENSOR || !followed(in->type->dtype)) return NULL;
  if (in->syms) {
    *out_count = in->sym_count;
    return in->sym_count <= CARNOT_SYMS_LIMIT ? in->syms : NULL;
  }
  if (!in->tensor) return NULL;
  size_t count = (size_t)carnot_tensor_count(in->tensor);
  if (count > CARNOT_SYMS_LIMIT) return NULL;
  carnot_sym* syms = CARNOT_NEW_ARRAY(infer->arena, carnot_sym, count + 1);
  for (size_t i = 0; i < count; i++) {
    if (carnot_dtype_is_float(in->tensor->dtype)) {
      syms[i] =
          carnot_sym_float(infer->syms, carnot_load_f64(in->tensor->dtype, in->tensor->data, i));
      continue;
    }
    int64_t value = carnot_load_i64(in->tensor->dtype, in->tensor->data, i);
    if (value < -CARNOT_SYM_LIMIT || value > CARNOT_SYM_LIMIT) return NULL;
    syms[i] = carnot_sym_of(value);
  }
  *out_count = count;
  return syms;
}

// One element: |v| are the operands, of type |dtype|.
typedef struct element {
  carnot_syms* t;
  carnot_dtype dtype;
  carnot_sym v[3];
} element;

static carnot_sym make(const element* e, carnot_sym_op op, carnot_sym a, carnot_sym b) {
  carnot_sym s = carnot_sym_make(e->t, op, a, b, carnot_sym_of(0));
  bool rounds = e->dtype == CARNOT_DTYPE_F32 && op >= CARNOT_SYM_F_FROM_INT &&
                op <= CARNOT_SYM_F_SQRT && op != CARNOT_SYM_F_TO_INT;
  if (!rounds) return s;
  return carnot_sym_make(e->t, CARNOT_SYM_F_ROUND32, s, carnot_sym_of(0), carnot_sym_of(0));
}
static carnot_sym choose(const element* e, carnot_sym condition, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(e->t, CARNOT_SYM_SELECT, condition, a, b);
}
static carnot_sym invert(const element* e, carnot_sym s) {
  return make(e, CARNOT_SYM_NOT, s, carnot_sym_of(0));
}

static bool is_number(const element* e, carnot_sym s, double number) {
  return carnot_sym_same(s, carnot_sym_float(e->t, number));
}

static bool float_element(const element* e, carnot_fn fn, carnot_sym* out) {
  carnot_sym x = e->v[0], y = e->v[1], none = carnot_sym_of(0);
  carnot_sym zero = carnot_sym_float(e->t, 0);
  switch (fn) {
    case CARNOT_FN_IDENTITY: *out = x; return true;
    case CARNOT_FN_ADD: *out = make(e, CARNOT_SYM_F_ADD, x, y); return true;
    case CARNOT_FN_SUB: *out = make(e, CARNOT_SYM_F_SUB, x, y); return true;
    case CARNOT_FN_MUL: *out = make(e, CARNOT_SYM_F_MUL, x, y); return true;
    case CARNOT_FN_DIV: *out = make(e, CARNOT_SYM_F_DIV, x, y); return true;
    case CARNOT_FN_NEG: *out = make(e, CARNOT_SYM_F_SUB, zero, x); return true;
    case CARNOT_FN_FLOOR: *out = make(e, CARNOT_SYM_F_FLOOR, x, none); return true;
    case CARNOT_FN_CEIL: *out = make(e, CARNOT_SYM_F_CEIL, x, none); return true;
    case CARNOT_FN_ROUND: *out = make(e, CARNOT_SYM_F_ROUND, x, none); return true;
    case CARNOT_FN_SQRT: *out = make(e, CARNOT_SYM_F_SQRT, x, none); return true;
    case CARNOT_FN_POW:  // as exporters write roots and squares
      if (is_number(e, y, 0.5)) *out = make(e, CARNOT_SYM_F_SQRT, x, none);
      if (is_number(e, y, 1)) *out = x;
      if (is_number(e, y, 2)) *out = make(e, CARNOT_SYM_F_MUL, x, x);
      return is_number(e, y, 0.5) || is_number(e, y, 1) || is_number(e, y, 2);
    case CARNOT_FN_LESS: *out = make(e, CARNOT_SYM_F_LT, x, y); return true;
    case CARNOT_FN_GREATER: *out = make(e, CARNOT_SYM_F_LT, y, x); return true;
    case CARNOT_FN_EQUAL: *out = make(e, CARNOT_SYM_F_EQ, x, y); return true;
    case CARNOT_FN_MAX: *out = choose(e, make(e, CARNOT_SYM_F_LT, x, y), y, x); return true;
    case CARNOT_FN_MIN: *out = choose(e, make(e, CARNOT_SYM_F_LT, x, y), x, y); return true;
    default: return false;
  }
}

static bool integer_element(const element* e, carnot_fn fn, carnot_sym* out) {
  carnot_sym x = e->v[0], y = e->v[1], zero = carnot_sym_of(0);
  switch (fn) {
    case CARNOT_FN_IDENTITY: *out = x; return true;
    case CARNOT_FN_ADD: *out = make(e, CARNOT_SYM_ADD, x, y); return true;
    case CARNOT_FN_SUB: *out = make(e, CARNOT_SYM_SUB, x, y); return true;
    case CARNOT_FN_MUL: *out = make(e, CARNOT_SYM_MUL, x, y); return true;
    case CARNOT_FN_DIV: *out = make(e, CARNOT_SYM_TRUNCDIV, x, y); return true;
    case CARNOT_FN_FLOOR_DIV: *out = make(e, CARNOT_SYM_FLOORDIV, x, y); return true;
    case CARNOT_FN_MOD: *out = make(e, CARNOT_SYM_MOD, x, y); return true;
    case CARNOT_FN_MAX: *out = make(e, CARNOT_SYM_MAX, x, y); return true;
    case CARNOT_FN_MIN: *out = make(e, CARNOT_SYM_MIN, x, y); return true;
    case CARNOT_FN_NEG: *out = make(e, CARNOT_SYM_SUB, zero, x); return true;
    case CARNOT_FN_ABS:
      *out = make(e, CARNOT_SYM_MAX, x, make(e, CARNOT_SYM_SUB, zero, x));
      return true;
    case CARNOT_FN_RELU: *out = make(e, CARNOT_SYM_MAX, x, zero); return true;
    case CARNOT_FN_EQUAL: *out = make(e, CARNOT_SYM_EQ, x, y); return true;
    case CARNOT_FN_LESS: *out = make(e, CARNOT_SYM_LT, x, y); return true;
    case CARNOT_FN_GREATER: *out = make(e, CARNOT_SYM_LT, y, x); return true;
    case CARNOT_FN_LESS_EQUAL: *out = invert(e, make(e, CARNOT_SYM_LT, y, x)); return true;
    case CARNOT_FN_GREATER_EQUAL: *out = invert(e, make(e, CARNOT_SYM_LT, x, y)); return true;
    case CARNOT_FN_NOT: *out = invert(e, x); return true;
    case CARNOT_FN_AND: *out = make(e, CARNOT_SYM_AND, x, y); return true;
    case CARNOT_FN_OR: *out = make(e, CARNOT_SYM_OR, x, y); return true;
    case CARNOT_FN_XOR: *out = invert(e, make(e, CARNOT_SYM_EQ, x, y)); return true;
    case CARNOT_FN_CLIP:
      *out = make(e, CARNOT_SYM_MIN, make(e, CARNOT_SYM_MAX, x, y), e->v[2]);
      return true;
    default: return false;
  }
}

// Constant dimensions of output 0 and their product; false where unknown or too many.
static bool output_count(const carnot_infer* infer, int64_t* dims, int64_t* out_count) {
  const carnot_type* type = &infer->outputs[0].type;
  if (type->rank < 0) return false;
  *out_count = 1;
  for (int i = 0; i < type->rank; i++) {
    if (!carnot_sym_is_const(type->dims[i])) return false;
    dims[i] = type->dims[i].bits;
    if (dims[i] > CARNOT_SYMS_LIMIT) return false;
    *out_count *= dims[i];
    if (*out_count > CARNOT_SYMS_LIMIT) return false;
  }
  return true;
}

// Strides of input |input| under the dimensions of output 0; false unless its dimensions are known.
static bool input_strides(const carnot_infer* infer, int input, int rank, int64_t* out_strides) {
  const carnot_type* type = infer->inputs[input].type;
  carnot_tensor shape = {type->dtype, type->rank, {0}, NULL};
  for (int i = 0; i < type->rank; i++) {
    if (!carnot_sym_is_const(type->dims[i])) return false;
    shape.dims[i] = type->dims[i].bits;
  }
  carnot_broadcast_strides(&shape, rank, out_strides);
  return type->rank >= 0;
}

void carnot_pointwise_infer_syms(carnot_infer* infer, carnot_fn fn, int arity) {
  carnot_infer_output* out = &infer->outputs[0];
  int64_t dims[CARNOT_MAX_RANK], strides[3][CARNOT_MAX_RANK], count;
  const carnot_sym* in[3] = {NULL, NULL, NULL};
  if (!followed(out->type.dtype) || !output_count(infer, dims, &count)) return;
  int rank = out->type.rank;
  for (int i = 0; i < arity; i++) {
    size_t in_count;
    if (i >= infer->input_count || !(in[i] = carnot_pointwise_syms(infer, i, &in_count))) return;
    if (!input_strides(infer, i, rank, strides[i])) return;
  }
  carnot_sym* syms = CARNOT_NEW_ARRAY(infer->arena, carnot_sym, (size_t)count + 1);
  element e = {infer->syms, infer->inputs[arity - 1].type->dtype, {{0}, {0}, {0}}};
  for (int64_t k = 0; k < count; k++) {
    for (int i = 0; i < arity; i++) e.v[i] = in[i][carnot_offset(k, dims, strides[i], rank)];
    if (fn == CARNOT_FN_SELECT) {
      syms[k] = choose(&e, e.v[0], e.v[1], e.v[2]);
    } else if (!(carnot_dtype_is_float(e.dtype) ? float_element(&e, fn, &syms[k])
                                                : integer_element(&e, fn, &syms[k]))) {
      return;
    }
    if (!holds(out->type.dtype, syms[k])) return;
  }
  out->syms = syms;
  out->sym_count = (size_t)count;
}

void carnot_pointwise_infer_cast(carnot_infer* infer, carnot_dtype to) {
  size_t count;
  const carnot_sym* in = carnot_pointwise_syms(infer, 0, &count);
  if (!in || !followed(to) || infer->outputs[0].type.rank < 0) return;
  bool from_float = carnot_dtype_is_float(infer->inputs[0].type->dtype);
  element e = {infer->syms, to, {{0}, {0}, {0}}};
  carnot_sym* syms = CARNOT_NEW_ARRAY(infer->arena, carnot_sym, count + 1);
  carnot_sym none = carnot_sym_of(0);
  for (size_t i = 0; i < count; i++) {
    if (carnot_dtype_is_float(to)) {
      bool narrows = from_float && to == CARNOT_DTYPE_F32;
      syms[i] = !from_float ? make(&e, CARNOT_SYM_F_FROM_INT, in[i], none)
                : narrows   ? make(&e, CARNOT_SYM_F_ROUND32, in[i], none)
                            : in[i];
    } else if (to == CARNOT_DTYPE_BOOL) {
      carnot_sym zero = from_float ? carnot_sym_float(e.t, 0) : none;
      syms[i] = invert(&e, make(&e, from_float ? CARNOT_SYM_F_EQ : CARNOT_SYM_EQ, in[i], zero));
    } else {
      syms[i] = from_float ? make(&e, CARNOT_SYM_F_TO_INT, in[i], none) : in[i];
    }
    if (!holds(to, syms[i])) return;
  }
  infer->outputs[0].syms = syms;
  infer->outputs[0].sym_count = count;
}
