// Linear quantization.
//   quantize_linear:   y = saturate(round(x / scale) + zero_point), ties to even; 8-bit floats by
//   |saturate| dequantize_linear: y = (x - zero_point) * scale dynamic_quantize_linear: scale and
//   zero point of uint8 from the range of x, zero included
// |scale|, |zero_point| scalar or [1] (per tensor), [D] along |axis|, or x's shape with |axis|
// divided in blocks of |block_size|. NaN quantizes to 0 in integer types. The quotient has the
// precision of |precision|, else of scale.
//   |rounding| "balanced" (quantize_linear to int8 along axis 0): errors of a slice and of the
// kernels in it cancel (balanced_rounding.h).
#include "ops/balanced_rounding.h"
#include "ops/util.h"

typedef struct quantization {
  carnot_axis_view lanes;  // of x around the axis
  int64_t blocks, block_size;
  bool per_tensor;
} quantization;

static carnot_status* granularity(const carnot_call* call, quantization* out) {
  const carnot_tensor *x = carnot_call_in(call, 0), *scale = carnot_call_in(call, 1);
  out->per_tensor = carnot_tensor_count(scale) == 1 && (scale->rank < 2 || x->rank < 2);
  if (x->rank == 0 || out->per_tensor) {
    out->lanes = (carnot_axis_view){1, 1, carnot_tensor_count(x)};
    out->per_tensor = true;
    return NULL;
  }
  int axis = 0;
  if (x->rank > 1) CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  out->lanes = carnot_axis_view_of(x->dims, x->rank, axis);
  int64_t block = carnot_call_int(call, "block_size");
  bool blocked = scale->rank == x->rank && (block > 0 || scale->rank > 1);
  out->blocks = blocked ? scale->dims[axis] : 0;
  if (!blocked) {
    CARNOT_CHECK(carnot_tensor_count(scale) == x->dims[axis], INVALID_MODEL,
                 "scale has %lld elements; dimension %d of x is %lld",
                 (long long)carnot_tensor_count(scale), axis, (long long)x->dims[axis]);
    return NULL;
  }
  CARNOT_CHECK(out->blocks > 0, INVALID_MODEL, "scale has 0 blocks along dimension %d", axis);
  out->block_size = block > 0 ? block : carnot_ceildiv(x->dims[axis], out->blocks);
  int64_t scales = out->lanes.outer * out->blocks * out->lanes.inner;
  CARNOT_CHECK(carnot_tensor_count(scale) == scales &&
                   out->block_size >= carnot_ceildiv(x->dims[axis], out->blocks),
               INVALID_MODEL, "scale has %lld elements in %lld blocks of %lld; %lld are required",
               (long long)carnot_tensor_count(scale), (long long)out->blocks,
               (long long)out->block_size, (long long)scales);
  return NULL;
}

// Where the scale of row |row| of outer*length begins, and how far apart those of its elements are.
static int64_t scale_start(const quantization* q, int64_t row, int64_t* out_step) {
  *out_step = 0;
  if (q->per_tensor) return 0;
  int64_t outer = row / q->lanes.length, at = row % q->lanes.length;
  if (!q->blocks) return at;
  *out_step = 1;
  return (outer * q->blocks + at / q->block_size) * q->lanes.inner;
}

typedef struct quantize_run {
  quantization q;
  const carnot_tensor *x, *scale, *zero;
  carnot_tensor* y;
  bool saturate;
  carnot_dtype precision;  // of the quotient or product
} quantize_run;

static double rounded_to(carnot_dtype dtype, double value) {
  if (dtype == CARNOT_DTYPE_F64) return value;
  if (dtype == CARNOT_DTYPE_F16)
    return (double)carnot_half_to_float(carnot_half_from_float((float)value));
  if (dtype == CARNOT_DTYPE_BF16) {
    return (double)carnot_bfloat_to_float(carnot_bfloat_from_float((float)value));
  }
  return (double)(float)value;
}

static void quantize_element(const quantize_run* r, int64_t i, int64_t s) {
  double scale = carnot_load_f64(r->scale->dtype, r->scale->data, (size_t)s);
  double x = carnot_load_f64(r->x->dtype, r->x->data, (size_t)i);
  double zero = r->zero ? carnot_load_f64(r->zero->dtype, r->zero->data, (size_t)s) : 0;
  carnot_dtype to = r->y->dtype;
  double value = rounded_to(r->precision, x / scale);
  if (!carnot_dtype_is_float(to)) {
    carnot_store_f64(to, r->y->data, (size_t)i, (isnan(value) ? 0 : rint(value)) + zero);
  } else if (carnot_dtype_bits(to) == 8) {
    ((uint8_t*)r->y->data)[i] = carnot_minifloat_from_float(to, (float)(value + zero), r->saturate);
  } else {
    carnot_store_f64(to, r->y->data, (size_t)i, value + zero);
  }
}

static void dequantize_element(const quantize_run* r, int64_t i, int64_t s) {
  double scale = carnot_load_f64(r->scale->dtype, r->scale->data, (size_t)s);
  double x = carnot_load_f64(r->x->dtype, r->x->data, (size_t)i);
  double zero = r->zero ? carnot_load_f64(r->zero->dtype, r->zero->data, (size_t)s) : 0;
  double value = (double)((float)(x - zero) * (float)scale);
  carnot_store_f64(r->y->dtype, r->y->data, (size_t)i, value);
}

// Rows in order, on one thread: rows of packed types may share bytes.
static void each_element(const quantize_run* r,
                         void (*fn)(const quantize_run* r, int64_t i, int64_t s)) {
  int64_t rows = r->q.lanes.outer * r->q.lanes.length;
  for (int64_t row = 0; row < rows; row++) {
    int64_t step, start = scale_start(&r->q, row, &step);
    for (int64_t i = 0; i < r->q.lanes.inner; i++) {
      fn(r, row * r->q.lanes.inner + i, start + i * step);
    }
  }
}

static carnot_status* run_linear(carnot_call* call,
                                 void (*fn)(const quantize_run* r, int64_t i, int64_t s)) {
  quantize_run r = {.x = carnot_call_in(call, 0),
                    .scale = carnot_call_in(call, 1),
                    .zero = carnot_call_in(call, 2),
                    .y = carnot_call_out(call, 0)};
  if (!r.y || carnot_tensor_count(r.x) == 0) return NULL;
  CARNOT_TRY(granularity(call, &r.q));
  CARNOT_CHECK(!r.zero || carnot_tensor_count(r.zero) == carnot_tensor_count(r.scale),
               INVALID_MODEL, "zero_point has %lld elements and scale %lld; both must be equal",
               (long long)carnot_tensor_count(r.zero), (long long)carnot_tensor_count(r.scale));
  r.saturate = carnot_call_int(call, "saturate") != 0;
  int64_t precision = carnot_call_int(call, "precision");
  r.precision = precision ? (carnot_dtype)precision : r.scale->dtype;
  each_element(&r, fn);
  return NULL;
}

static carnot_status* balance(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *scale = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(x) == 0) return NULL;
  CARNOT_CHECK(x->dtype == CARNOT_DTYPE_F32 && scale->dtype == CARNOT_DTYPE_F32 &&
                   y->dtype == CARNOT_DTYPE_I8 && x->rank > 0 && !carnot_call_in(call, 2) &&
                   carnot_tensor_count(scale) == x->dims[0] && carnot_call_int(call, "axis") == 0,
               INVALID_MODEL, "balanced rounding is of float32 to int8 along axis 0");
  int64_t each = carnot_tensor_count(x) / x->dims[0], kernel = 1;
  for (int d = 2; d < x->rank; d++) kernel *= x->dims[d];
  for (int64_t i = 0; i < x->dims[0]; i++)
    carnot_balance_rounding((const float*)x->data + i * each, ((const float*)scale->data)[i], each,
                            kernel, (int8_t*)y->data + i * each);
  return NULL;
}

static carnot_status* run_quantize(carnot_call* call) {
  CARNOT_TRY(run_linear(call, quantize_element));
  return carnot_view_is(carnot_attr_text(call->row, call->attrs, "rounding"), "balanced")
             ? balance(call)
             : NULL;
}
static carnot_status* run_dequantize(carnot_call* call) {
  return run_linear(call, dequantize_element);
}

// Attribute output_dtype; 0 where it is absent.
static carnot_status* output_dtype(const carnot_infer* infer, carnot_dtype* out) {
  int64_t dtype = carnot_infer_int(infer, "output_dtype");
  *out = (carnot_dtype)dtype;
  CARNOT_CHECK(dtype == 0 || carnot_dtype_valid(*out), INVALID_MODEL,
               "output_dtype is %lld, which is no data type", (long long)dtype);
  return NULL;
}

static carnot_status* infer_quantize(carnot_infer* infer) {
  const carnot_type *x, *zero = NULL;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  if (carnot_infer_has(infer, 2)) CARNOT_TRY(carnot_infer_tensor(infer, 2, &zero));
  carnot_dtype dtype;
  CARNOT_TRY(output_dtype(infer, &dtype));
  CARNOT_CHECK(!zero || !dtype || zero->dtype == dtype, INVALID_MODEL,
               "output_dtype is %s where zero_point is %s; both must be one type",
               carnot_dtype_name(dtype), carnot_dtype_name(zero->dtype));
  if (zero) dtype = zero->dtype;
  return carnot_infer_like(infer, 0, 0, dtype ? dtype : CARNOT_DTYPE_U8);
}

static carnot_status* infer_dequantize(carnot_infer* infer) {
  const carnot_type* scale;
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &scale));
  carnot_dtype dtype;
  CARNOT_TRY(output_dtype(infer, &dtype));
  return carnot_infer_like(infer, 0, 0, dtype ? dtype : scale->dtype);
}

// ---- dynamic_quantize_linear ----

static carnot_status* infer_dynamic(carnot_infer* infer) {
  CARNOT_TRY(carnot_infer_like(infer, 0, 0, CARNOT_DTYPE_U8));
  carnot_infer_set(infer, 1, CARNOT_DTYPE_F32, 0, NULL);
  carnot_infer_set(infer, 2, CARNOT_DTYPE_U8, 0, NULL);
  return NULL;
}

static carnot_status* run_dynamic(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor *y = carnot_call_out(call, 0), *out_scale = carnot_call_out(call, 1),
                *out_zero = carnot_call_out(call, 2);
  const float* v;
  CARNOT_TRY(carnot_call_f32(call, x, &v));
  size_t count = (size_t)carnot_tensor_count(x);
  float low = 0, high = 0;
  for (size_t i = 0; i < count; i++) {
    low = v[i] < low ? v[i] : low;
    high = v[i] > high ? v[i] : high;
  }
  float scale = high == low ? 1 : (high - low) / 255;
  uint8_t zero;
  carnot_store_f64(CARNOT_DTYPE_U8, &zero, 0, (double)rintf(-low / scale));
  for (size_t i = 0; y && i < count; i++) {
    const float step = v[i] / scale;
    carnot_store_f64(CARNOT_DTYPE_U8, y->data, i, (isnan(step) ? 0 : (double)rintf(step)) + zero);
  }
  if (out_scale) *(float*)out_scale->data = scale;
  if (out_zero) *(uint8_t*)out_zero->data = zero;
  return NULL;
}

// Both directions take the same list, so that one code reads it.
static const carnot_attr_spec kAttrs[] = {
    CARNOT_SPEC_INT("axis", 1),
    CARNOT_SPEC_INT("block_size", 0),
    CARNOT_SPEC_INT("output_dtype", 0),
    CARNOT_SPEC_INT("precision", 0),
    CARNOT_SPEC_INT("saturate", 1),
    CARNOT_SPEC_WORD("rounding", "nearest", "nearest balanced"),
    CARNOT_SPEC_END};

const carnot_op_row carnot_op_quantize_linear = {
    .name = "quantize_linear",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_quantize,
    .reference = run_quantize,
    .source = "ONNX QuantizeLinear-28",
    .layer_type = "QUANTIZE",
};
const carnot_op_row carnot_op_dequantize_linear = {
    .name = "dequantize_linear",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_dequantize,
    .reference = run_dequantize,
    .source = "ONNX DequantizeLinear-28",
    .layer_type = "DEQUANTIZE",
};
const carnot_op_row carnot_op_dynamic_quantize_linear = {
    .name = "dynamic_quantize_linear",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 3,
    .max_outputs = 3,
    .infer = infer_dynamic,
    .reference = run_dynamic,
    .source = "ONNX DynamicQuantizeLinear-11",
    .layer_type = "DYNAMIC_QUANTIZE",
};
