// Tensors made of nothing but their shape.
//   constant_of_shape: one value everywhere · eye_like: ones on a diagonal · range y[i] = start + i
//   * delta
// Source: ONNX ConstantOfShape-25, EyeLike-22, Range-27.
#include <math.h>

#include "ops/infer_help.h"
#include "ops/strided_copy.h"

// ---- constant_of_shape ----

static const carnot_tensor* fill_value(const carnot_attrs* attrs) {
  static float zero = 0;
  static const carnot_tensor kZero = {CARNOT_DTYPE_F32, 0, {0}, &zero};
  const carnot_attr* value = carnot_attrs_find(attrs, "value");
  return value && value->type == CARNOT_ATTR_TENSOR ? value->tensor : &kZero;
}

static carnot_status* infer_constant(carnot_infer* infer) {
  const carnot_tensor* value = fill_value(infer->attrs);
  const carnot_sym* shape;
  size_t count;
  CARNOT_TRY(carnot_infer_ints(infer, 0, &shape, &count));
  CARNOT_CHECK(carnot_tensor_count(value) == 1, INVALID_MODEL,
               "the value has %lld elements, must be 1", (long long)carnot_tensor_count(value));
  if (!shape) {
    carnot_infer_set_unknown(infer, 0, value->dtype, carnot_infer_list_length(infer, 0));
    return NULL;
  }
  CARNOT_CHECK(count <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%zu dimensions where at most %d are supported", count, CARNOT_MAX_RANK);
  for (size_t i = 0; i < count; i++) {
    CARNOT_CHECK(!carnot_sym_is_const(shape[i]) || shape[i].bits >= 0, INVALID_MODEL,
                 "dimension %zu is %lld, must be 0 or more", i, (long long)shape[i].bits);
  }
  carnot_infer_set(infer, 0, value->dtype, (int)count, shape);
  carnot_sym total = carnot_sym_product(infer->syms, shape, count);
  if (!carnot_dtype_is_integer(value->dtype) || !carnot_sym_is_const(total)) return NULL;
  carnot_sym* syms = carnot_infer_room_for_syms(infer, 0, total.bits);
  int64_t number = carnot_load_i64(value->dtype, value->data, 0);
  for (int64_t i = 0; syms && i < total.bits; i++) {
    syms[i] =
        carnot_sym_of(carnot_max_i64(-CARNOT_SYM_LIMIT, carnot_min_i64(CARNOT_SYM_LIMIT, number)));
  }
  return NULL;
}

static carnot_status* run_constant(carnot_call* call) {
  const carnot_tensor* value = fill_value(call->attrs);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (y) carnot_fill_elements(y->dtype, y->data, 0, value->data, 0, carnot_tensor_count(y));
  return NULL;
}

// ---- eye_like ----

static carnot_status* infer_eye(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_CHECK(x->rank < 0 || x->rank == 2, INVALID_MODEL, "rank %d, must be 2", x->rank);
  int64_t dtype = carnot_infer_int(infer, "dtype");
  return carnot_infer_like(infer, 0, 0, dtype ? (carnot_dtype)dtype : x->dtype);
}

static carnot_status* run_eye(carnot_call* call) {
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int64_t k = carnot_call_int(call, "k"), rows = y->dims[0], columns = y->dims[1];
  CARNOT_CHECK(carnot_dtype_bits(y->dtype) > 0, INVALID_MODEL, "type %s has no one",
               carnot_dtype_name(y->dtype));
  memset(y->data, 0, carnot_tensor_bytes(y));
  k = carnot_max_i64(-rows, carnot_min_i64(columns, k));
  for (int64_t r = carnot_max_i64(0, -k); r < rows && r + k < columns; r++) {
    if (carnot_dtype_is_float(y->dtype))
      carnot_store_f64(y->dtype, y->data, (size_t)(r * columns + r + k), 1);
    else
      carnot_store_i64(y->dtype, y->data, (size_t)(r * columns + r + k), 1);
  }
  return NULL;
}

// ---- range ----

// How many steps of |delta| lie in [start, limit).
static int64_t steps_i64(int64_t start, int64_t limit, int64_t delta) {
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t width = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
  uint64_t steps = span / width + (span % width != 0);
  return steps > INT64_MAX ? INT64_MAX : (int64_t)steps;
}

static int64_t steps_f64(double start, double limit, double delta) {
  double steps = ceil((limit - start) / delta);
  return steps > 0 ? (steps < 9e15 ? (int64_t)steps : INT64_MAX) : 0;
}

static void range_syms(carnot_infer* infer, carnot_sym start, carnot_sym delta, int64_t count) {
  carnot_sym* syms = carnot_infer_room_for_syms(infer, 0, count);
  for (int64_t i = 0; syms && i < count; i++) {
    syms[i] =
        carnot_sym_add(infer->syms, start, carnot_sym_mul(infer->syms, carnot_sym_of(i), delta));
  }
}

static carnot_status* infer_range(carnot_infer* infer) {
  const carnot_type* type;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &type));
  carnot_sym size = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  bool known = true;
  if (carnot_dtype_is_integer(type->dtype)) {
    carnot_sym v[3] = {{0}, {0}, {0}};
    for (int i = 0; i < 3; i++) {
      const carnot_sym* number;
      size_t count;
      CARNOT_TRY(carnot_infer_ints(infer, i, &number, &count));
      known &= number && count == 1;
      if (known) v[i] = number[0];
    }
    CARNOT_CHECK(!known || !carnot_sym_is(v[2], 0), INVALID_MODEL, "delta is 0");
    if (known && carnot_sym_is_const(v[0]) && carnot_sym_is_const(v[1]) &&
        carnot_sym_is_const(v[2])) {
      size = carnot_sym_of(steps_i64(v[0].bits, v[1].bits, v[2].bits));
      range_syms(infer, v[0], v[2], size.bits);
    } else if (known) {
      carnot_sym span = carnot_sym_sub(infer->syms, v[1], v[0]);
      size = carnot_sym_max(infer->syms, carnot_sym_ceildiv(infer->syms, span, v[2]),
                            carnot_sym_of(0));
    }
  } else {
    double v[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
      const double* number;
      size_t count;
      CARNOT_TRY(carnot_infer_floats(infer, i, &number, &count));
      known &= number && count == 1;
      if (known) v[i] = number[0];
    }
    CARNOT_CHECK(!known || v[2] != 0, INVALID_MODEL, "delta is 0");
    if (known) size = carnot_sym_of(carnot_min_i64(steps_f64(v[0], v[1], v[2]), CARNOT_SYM_LIMIT));
  }
  carnot_infer_set(infer, 0, type->dtype, 1, &size);
  return NULL;
}

static carnot_status* run_range(carnot_call* call) {
  const carnot_tensor *start = carnot_call_in(call, 0), *limit = carnot_call_in(call, 1),
                      *delta = carnot_call_in(call, 2);
  carnot_dtype t = start->dtype;
  if (carnot_dtype_is_integer(t)) {
    int64_t a = carnot_load_i64(t, start->data, 0), d = carnot_load_i64(t, delta->data, 0);
    CARNOT_CHECK(d != 0, INVALID_ARGUMENT, "delta is 0");
    int64_t count = steps_i64(a, carnot_load_i64(t, limit->data, 0), d);
    CARNOT_TRY(carnot_call_size_output(call, 0, t, 1, &count));
    carnot_tensor* y = carnot_call_out(call, 0);
    for (int64_t i = 0; y && i < count; i++) {
      carnot_store_i64(t, y->data, (size_t)i, (int64_t)((uint64_t)a + (uint64_t)i * (uint64_t)d));
    }
    return NULL;
  }
  double a = carnot_load_f64(t, start->data, 0), d = carnot_load_f64(t, delta->data, 0);
  CARNOT_CHECK(d != 0, INVALID_ARGUMENT, "delta is 0");
  int64_t count = steps_f64(a, carnot_load_f64(t, limit->data, 0), d);
  CARNOT_TRY(carnot_call_size_output(call, 0, t, 1, &count));
  carnot_tensor* y = carnot_call_out(call, 0);
  for (int64_t i = 0; y && i < count; i++)
    carnot_store_f64(t, y->data, (size_t)i, a + (double)i * d);
  return NULL;
}

static const carnot_attr_spec kConstant[] = {{"value", CARNOT_ATTR_TENSOR, false, 0, NULL, NULL},
                                             {0}};
static const carnot_attr_spec kEye[] = {{"dtype", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                        {"k", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                        {0}};
// Elements are computed in float64, wider than any type that stash_type may ask for.
static const carnot_attr_spec kRange[] = {
    {"stash_type", CARNOT_ATTR_INT, false, CARNOT_DTYPE_F32, NULL, NULL}, {0}};

const carnot_op_row carnot_op_constant_of_shape = {
    .name = "constant_of_shape",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kConstant,
    .sized_by = CARNOT_SIZED_BY_INPUT(0),
    .infer = infer_constant,
    .reference = run_constant,
    .source = "ONNX ConstantOfShape-25",
    .layer_type = "FILL",
};
const carnot_op_row carnot_op_eye_like = {
    .name = "eye_like",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kEye,
    .infer = infer_eye,
    .reference = run_eye,
    .source = "ONNX EyeLike-22",
    .layer_type = "FILL",
};
const carnot_op_row carnot_op_range = {
    .name = "range",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kRange,
    .sized_by = CARNOT_SIZED_BY_INPUT(0),
    .infer = infer_range,
    .reference = run_range,
    .source = "ONNX Range-27",
    .layer_type = "FILL",
};
