// Conversion of element types.
//   cast:     y = x as |to|. Float to integer truncates, saturates and gives 0 for NaN, but below 8
//   bits keeps the low
//             bits of the whole number, as ONNX's cases want; integer to integer keeps the low
//             bits; anything to bool is x != 0. |saturate| and |round_mode| (up, down, nearest; for
//             F8E8M0) apply to 8-bit floats. Text is read and written independent of the locale.
//   bit_cast: the bits of x as |to|, which has the same width.
// Shapes are unchanged.
#include <float.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/pointwise.h"
#include "ops/util.h"

enum { kPart = 1 << 14 };

static carnot_status* target_of(const carnot_op_row* row, const carnot_attrs* attrs,
                                carnot_dtype* out_dtype) {
  int64_t to = carnot_attr_int(row, attrs, "to");
  *out_dtype = (carnot_dtype)to;
  CARNOT_CHECK(to > 0 && carnot_dtype_valid((carnot_dtype)to), INVALID_MODEL,
               "attribute to is %lld, which is no data type", (long long)to);
  return NULL;
}

static carnot_status* infer_cast(carnot_infer* infer) {
  carnot_dtype to;
  const carnot_type* x;
  CARNOT_TRY(target_of(infer->row, infer->attrs, &to));
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_CHECK(carnot_dtype_kind_of(to) != CARNOT_KIND_COMPLEX &&
                   carnot_dtype_kind_of(x->dtype) != CARNOT_KIND_COMPLEX,
               UNSUPPORTED, "a cast from %s to %s", carnot_dtype_name(x->dtype),
               carnot_dtype_name(to));
  CARNOT_TRY(carnot_infer_like(infer, 0, 0, to));
  carnot_pointwise_infer_cast(infer, to);
  return NULL;
}

// ---- numbers ----

typedef struct cast_run {
  const carnot_tensor* x;
  carnot_tensor* y;
  int64_t count;
  bool saturate;
  carnot_strview round_mode;
} cast_run;

// The power of two nearest to |value| by the mode, as an exponent biased by 127.
static uint8_t e8m0_from(float value, bool saturate, carnot_strview mode) {
  if (value != value) return 255;
  float magnitude = fabsf(value);
  if (magnitude > FLT_MAX) return saturate ? 254 : 255;
  if (magnitude < 0x1p-127f) return saturate ? 0 : 255;
  int exponent;
  float fraction = frexpf(magnitude, &exponent);  // in [0.5, 1)
  bool up = carnot_view_is(mode, "up")     ? fraction > 0.5f
            : carnot_view_is(mode, "down") ? false
                                           : fraction >= 0.75f;
  int code = exponent - 1 + 127 + up;
  return (uint8_t)(code > 254 ? (saturate ? 254 : 255) : code);
}

static void cast_to_minifloat(const cast_run* run, size_t start, size_t count) {
  carnot_dtype to = run->y->dtype;
  for (size_t i = start; i < start + count; i++) {
    float value = (float)carnot_load_f64(run->x->dtype, run->x->data, i);
    uint8_t bits = to == CARNOT_DTYPE_F8E8M0
                       ? e8m0_from(value, run->saturate, run->round_mode)
                       : carnot_minifloat_from_float(to, value, run->saturate);
    ((uint8_t*)run->y->data)[i] = bits;
  }
}

static void cast_part(void* arg, int64_t part) {
  const cast_run* run = arg;
  size_t start = (size_t)part * kPart;
  size_t count = (size_t)carnot_min_i64(kPart, run->count - part * kPart);
  carnot_dtype from = run->x->dtype, to = run->y->dtype;
  bool from_float = carnot_dtype_is_float(from), to_float = carnot_dtype_is_float(to);
  if (to_float && carnot_dtype_bits(to) == 8) {
    cast_to_minifloat(run, start, count);
    return;
  }
  union {
    int64_t i[256];
    double f[256];
  } chunk;
  for (size_t at = start; at < start + count; at += 256) {
    size_t n = count - (at - start) < 256 ? count - (at - start) : 256;
    if (!from_float && to == CARNOT_DTYPE_F32) {  // rounds once
      for (size_t i = 0; i < n; i++) {
        int64_t v = carnot_load_i64(from, run->x->data, at + i);
        ((float*)run->y->data)[at + i] = from == CARNOT_DTYPE_U64 ? (float)(uint64_t)v : (float)v;
      }
    } else if (from_float && carnot_dtype_bits(to) < 8 && !to_float) {
      for (size_t i = 0; i < n; i++) {
        carnot_store_f64(CARNOT_DTYPE_I64, chunk.i, i, carnot_load_f64(from, run->x->data, at + i));
      }
      carnot_store_block_i64(to, run->y->data, at, 1, n, chunk.i);
    } else if (from == CARNOT_DTYPE_F32 && carnot_dtype_is_half(to)) {
      carnot_store_block_f32(to, run->y->data, at, 1, n, (const float*)run->x->data + at);
    } else if (from_float || to_float) {
      carnot_load_block_f64(from, run->x->data, at, 1, n, chunk.f);
      carnot_store_block_f64(to, run->y->data, at, 1, n, chunk.f);
    } else {
      carnot_load_block_i64(from, run->x->data, at, 1, n, chunk.i);
      carnot_store_block_i64(to, run->y->data, at, 1, n, chunk.i);
    }
  }
}

// ---- text ----

static carnot_status* number_from_text(carnot_strview text, carnot_tensor* y, size_t i) {
  char copy[64], *end;
  CARNOT_CHECK(text.size < sizeof(copy), INVALID_ARGUMENT,
               "text of %zu bytes is too long for a number", text.size);
  memcpy(copy, text.data ? text.data : "", text.size);
  copy[text.size] = 0;
  long long whole = strtoll(copy, &end, 10);
  bool is_whole = end != copy && *end == 0;
  double value = is_whole ? 0 : strtod(copy, &end);
  CARNOT_CHECK(end != copy && *end == 0, INVALID_ARGUMENT, "\"%s\" is no number", copy);
  if (is_whole && !carnot_dtype_is_float(y->dtype)) {
    carnot_store_i64(y->dtype, y->data, i, whole);
  } else {
    if (y->dtype == CARNOT_DTYPE_F32) value = (double)strtof(copy, NULL);
    if (is_whole && y->dtype != CARNOT_DTYPE_F32) value = strtod(copy, NULL);
    carnot_store_f64(y->dtype, y->data, i, value);
  }
  return NULL;
}

// The fewest digits that read back as the same number of type |dtype|.
static void number_to_text(const carnot_tensor* x, size_t i, char* text, size_t size) {
  if (x->dtype == CARNOT_DTYPE_BOOL) {
    snprintf(text, size, "%s", carnot_load_i64(x->dtype, x->data, i) ? "True" : "False");
    return;
  }
  if (!carnot_dtype_is_float(x->dtype)) {
    long long value = carnot_load_i64(x->dtype, x->data, i);
    if (x->dtype == CARNOT_DTYPE_U64) {
      snprintf(text, size, "%llu", (unsigned long long)value);
    } else {
      snprintf(text, size, "%lld", value);
    }
    return;
  }
  double value = carnot_load_f64(x->dtype, x->data, i);
  if (isnan(value) || isinf(value)) {
    snprintf(text, size, "%s", isnan(value) ? "NaN" : value < 0 ? "-INF" : "INF");
    return;
  }
  int digits = 1;
  for (;; digits++) {
    double back = 0;
    snprintf(text, size, "%.*e", digits - 1, value);
    carnot_store_f64(x->dtype, &back, 0, strtod(text, NULL));
    if (digits == 17 || carnot_load_f64(x->dtype, &back, 0) == value) break;
  }
  int exponent = atoi(strchr(text, 'e') + 1);
  if (exponent >= -5 && exponent < 16) {
    int decimals = digits - 1 - exponent;
    snprintf(text, size, "%.*f", decimals > 0 ? decimals : 0, value);
    if (!strchr(text, '.')) strncat(text, ".0", size - strlen(text) - 1);
  }
}

static carnot_status* cast_text(carnot_call* call, const carnot_tensor* x, carnot_tensor* y) {
  size_t count = (size_t)carnot_tensor_count(x);
  for (size_t i = 0; i < count; i++) {
    if (x->dtype == CARNOT_DTYPE_STRING && y->dtype == CARNOT_DTYPE_STRING) {
      ((carnot_strview*)y->data)[i] = ((carnot_strview*)x->data)[i];
    } else if (x->dtype == CARNOT_DTYPE_STRING) {
      CARNOT_TRY(number_from_text(((carnot_strview*)x->data)[i], y, i));
    } else {
      char text[64];
      number_to_text(x, i, text, sizeof(text));
      CARNOT_TRY(carnot_call_text(call, carnot_view(text), &((carnot_strview*)y->data)[i]));
    }
  }
  return NULL;
}

static carnot_status* run_cast(carnot_call* call) {
  cast_run run = {carnot_call_in(call, 0), carnot_call_out(call, 0), 0, true, {NULL, 0}};
  if (!run.y) return NULL;
  run.count = carnot_tensor_count(run.x);
  run.saturate = carnot_call_int(call, "saturate") != 0;
  run.round_mode = carnot_attr_text(call->row, call->attrs, "round_mode");
  if (run.x->dtype == CARNOT_DTYPE_STRING || run.y->dtype == CARNOT_DTYPE_STRING) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    CARNOT_CHECK(plain, OUT_OF_MEMORY, "no memory for a locale");
    locale_t before = uselocale(plain);
    carnot_status* status = cast_text(call, run.x, run.y);
    uselocale(before);
    freelocale(plain);
    return status;
  }
  if (run.x->dtype == run.y->dtype) {
    if (run.count) memcpy(run.y->data, run.x->data, carnot_tensor_bytes(run.x));
    return NULL;
  }
  carnot_call_parallel(call, carnot_ceildiv(run.count, kPart), cast_part, &run);
  return NULL;
}

// ---- bit_cast ----

static carnot_status* infer_bit_cast(carnot_infer* infer) {
  carnot_dtype to;
  const carnot_type* x;
  CARNOT_TRY(target_of(infer->row, infer->attrs, &to));
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_CHECK(carnot_dtype_bits(x->dtype) == carnot_dtype_bits(to) && carnot_dtype_bits(to) > 0,
               INVALID_MODEL, "%s has %d bits and %s has %d; both must have the same",
               carnot_dtype_name(x->dtype), carnot_dtype_bits(x->dtype), carnot_dtype_name(to),
               carnot_dtype_bits(to));
  return carnot_infer_like(infer, 0, 0, to);
}

static carnot_status* run_bit_cast(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (y && carnot_tensor_count(x)) memcpy(y->data, x->data, carnot_tensor_bytes(x));
  return NULL;
}

static const carnot_attr_spec kCastAttrs[] = {
    CARNOT_SPEC_REQUIRED("to", INT), CARNOT_SPEC_INT("saturate", 1),
    CARNOT_SPEC_WORD("round_mode", "up", "up down nearest"), CARNOT_SPEC_END};
static const carnot_attr_spec kBitCastAttrs[] = {CARNOT_SPEC_REQUIRED("to", INT), CARNOT_SPEC_END};

const carnot_op_row carnot_op_cast = {
    .name = "cast",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kCastAttrs,
    .traits = CARNOT_TRAIT_IGNORES_PRECISION,
    .axes = {.moves = true},
    .infer = infer_cast,
    .reference = run_cast,
    .source = "ONNX Cast-28, CastLike-25",
    .layer_type = "CAST",
};
const carnot_op_row carnot_op_bit_cast = {
    .name = "bit_cast",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kBitCastAttrs,
    .infer = infer_bit_cast,
    .reference = run_bit_cast,
    .source = "ONNX BitCast-26",
    .layer_type = "CAST",
};
