// Element-wise functions.
//   unary:   y = fn(x; alpha, beta)
//   binary:  z = fn(x, y)            operands broadcast against each other (ONNX multidirectional)
//   ternary: w = fn(x, y, z)         select: x ? y : z; clip: y and z may be absent
// |fn| is a carnot_fn. Operands have one type, save the exponent of pow and the condition of
// select. Floating types up to 32 bits are computed in f32, F64 in f64, integers in 64 bits and
// wrapped on store.
#include "ops/pointwise.h"

#include "ops/elementwise_fn.h"
#include "ops/util.h"

enum { kChunk = 512, kPart = 1 << 15 };

static carnot_status* fn_of(const carnot_op_row* row, const carnot_attrs* attrs, int arity,
                            carnot_fn* out_fn) {
  *out_fn = CARNOT_FN_IDENTITY;
  int64_t fn = carnot_attr_int(row, attrs, "fn");
  CARNOT_CHECK(fn >= 0 && fn < CARNOT_FN_COUNT, INVALID_MODEL, "there is no function %lld",
               (long long)fn);
  *out_fn = (carnot_fn)fn;
  const carnot_fn_fact* fact = carnot_fn_get(*out_fn);
  CARNOT_CHECK(fact->arity == arity, INVALID_MODEL, "function %s takes %d operands, not %d",
               fact->name, fact->arity, arity);
  return NULL;
}

// ---- infer ----

static carnot_status* check_type(const carnot_fn_fact* fact, carnot_dtype dtype) {
  carnot_dtype_kind kind = carnot_dtype_kind_of(dtype);
  bool number = kind == CARNOT_KIND_FLOAT || kind == CARNOT_KIND_INT || kind == CARNOT_KIND_UINT;
  bool fits = true;
  switch (fact->types) {
    case 'F': fits = number; break;
    case 'I': fits = carnot_dtype_is_integer(dtype) || kind == CARNOT_KIND_BOOL; break;
    case 'N': fits = number || kind == CARNOT_KIND_BOOL; break;
    case 'B': fits = kind == CARNOT_KIND_BOOL; break;
    default: break;
  }
  CARNOT_CHECK(fits, INVALID_MODEL, "function %s is not defined for %s", fact->name,
               carnot_dtype_name(dtype));
  return NULL;
}

static carnot_status* infer_fn(carnot_infer* infer, int arity) {
  carnot_fn fn;
  CARNOT_TRY(fn_of(infer->row, infer->attrs, arity, &fn));
  const carnot_fn_fact* fact = carnot_fn_get(fn);
  int leader = fn == CARNOT_FN_SELECT ? 1 : 0;  // the operand whose type the result has
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, leader, &x));
  CARNOT_TRY(check_type(fact, x->dtype));
  carnot_type result = *infer->inputs[0].type;
  for (int i = 1; i < arity; i++) {
    if (!carnot_infer_has(infer, i) && fn == CARNOT_FN_CLIP) continue;
    const carnot_type* y;
    CARNOT_TRY(carnot_infer_tensor(infer, i, &y));
    if (fn != CARNOT_FN_POW) CARNOT_TRY(carnot_infer_same_dtype(infer, leader, i));
    CARNOT_TRY(carnot_infer_broadcast(infer, &result, y));
  }
  if (fn == CARNOT_FN_SELECT) {
    CARNOT_CHECK(infer->inputs[0].type->dtype == CARNOT_DTYPE_BOOL, INVALID_MODEL,
                 "the condition is %s; bool is required",
                 carnot_dtype_name(infer->inputs[0].type->dtype));
  }
  carnot_infer_set(infer, 0, fact->to_bool ? CARNOT_DTYPE_BOOL : x->dtype, result.rank,
                   result.dims);
  carnot_pointwise_infer_syms(infer, fn, arity);
  return NULL;
}
static carnot_status* infer_unary(carnot_infer* infer) { return infer_fn(infer, 1); }
static carnot_status* infer_binary(carnot_infer* infer) { return infer_fn(infer, 2); }
static carnot_status* infer_ternary(carnot_infer* infer) { return infer_fn(infer, 3); }

// ---- reference ----

typedef enum domain { DOMAIN_F32, DOMAIN_F64, DOMAIN_I64, DOMAIN_COPY } domain;

// One call: up to three operands walked together over collapsed dimensions.
typedef struct walk {
  carnot_fn_call fn;
  domain domain;
  int arity, rank;
  int64_t dims[CARNOT_MAX_RANK];
  int64_t strides[3][CARNOT_MAX_RANK];
  const carnot_tensor* in[3];  // NULL: an absent bound of clip
  carnot_tensor* out;
  int64_t count;
} walk;

// Joins neighbouring dimensions that every operand walks as one.
static void collapse(walk* w) {
  int rank = 0;
  for (int i = 0; i < w->rank; i++) {
    if (w->dims[i] == 1) continue;
    bool joins = rank > 0;
    for (int k = 0; joins && k < w->arity; k++) {
      joins = w->strides[k][rank - 1] == w->strides[k][i] * w->dims[i];
    }
    if (!joins) rank++;
    w->dims[rank - 1] = joins ? w->dims[rank - 1] * w->dims[i] : w->dims[i];
    for (int k = 0; k < w->arity; k++) w->strides[k][rank - 1] = w->strides[k][i];
  }
  if (rank == 0) {
    w->dims[0] = 1;
    for (int k = 0; k < w->arity; k++) w->strides[k][0] = 0;
    rank = 1;
  }
  w->rank = rank;
}

// |count| results from position |start| on, of one row of the innermost dimension; |at| are the
// operands' offsets.
#define RUN(suffix, ctype, low, high)                                                          \
  static void run_##suffix(const walk* w, int64_t start, const int64_t* at, size_t count) {    \
    ctype v[3][kChunk], result[kChunk];                                                        \
    for (int k = 0; k < w->arity; k++) {                                                       \
      if (w->in[k]) {                                                                          \
        carnot_load_block_##suffix(w->in[k]->dtype, w->in[k]->data, (size_t)at[k],             \
                                   w->strides[k][w->rank - 1], count, v[k]);                   \
      } else {                                                                                 \
        for (size_t i = 0; i < count; i++) v[k][i] = k == 1 ? (low) : (high);                  \
      }                                                                                        \
    }                                                                                          \
    carnot_fn_apply_##suffix(&w->fn, v[0], v[1], v[2], result, count);                         \
    carnot_store_block_##suffix(w->out->dtype, w->out->data, (size_t)start, 1, count, result); \
  }
RUN(f32, float, -INFINITY, INFINITY)
RUN(f64, double, -(double)INFINITY, (double)INFINITY)
RUN(i64, int64_t, w->fn.is_unsigned ? 0 : INT64_MIN, w->fn.is_unsigned ? -1 : INT64_MAX)

static void copy_any(carnot_dtype dtype, void* dst, int64_t dst_at, const void* src,
                     int64_t src_at) {
  if (dtype == CARNOT_DTYPE_STRING) {
    ((carnot_strview*)dst)[dst_at] = ((const carnot_strview*)src)[src_at];
  } else {
    carnot_copy_element(dtype, dst, (size_t)dst_at, src, (size_t)src_at);
  }
}

static bool equal_any(const carnot_tensor* x, int64_t i, const carnot_tensor* y, int64_t j) {
  if (x->dtype == CARNOT_DTYPE_STRING) {
    return carnot_view_equal(((carnot_strview*)x->data)[i], ((carnot_strview*)y->data)[j]);
  }
  size_t parts = 2;  // complex numbers
  carnot_dtype part = x->dtype == CARNOT_DTYPE_C64 ? CARNOT_DTYPE_F32 : CARNOT_DTYPE_F64;
  for (size_t k = 0; k < parts; k++) {
    if (carnot_load_f64(part, x->data, (size_t)i * parts + k) !=
        carnot_load_f64(part, y->data, (size_t)j * parts + k)) {
      return false;
    }
  }
  return true;
}

// Functions that only move or compare elements, of any type.
static void run_copy(const walk* w, int64_t start, const int64_t* at, size_t count) {
  int64_t step[3];
  for (int k = 0; k < w->arity; k++) step[k] = w->strides[k][w->rank - 1];
  for (int64_t i = 0; i < (int64_t)count; i++) {
    if (w->fn.fn == CARNOT_FN_EQUAL) {
      ((uint8_t*)w->out->data)[start + i] =
          equal_any(w->in[0], at[0] + i * step[0], w->in[1], at[1] + i * step[1]);
      continue;
    }
    int from = 0;
    if (w->fn.fn == CARNOT_FN_SELECT) {
      from = ((const uint8_t*)w->in[0]->data)[at[0] + i * step[0]] ? 1 : 2;
    }
    copy_any(w->out->dtype, w->out->data, start + i, w->in[from]->data, at[from] + i * step[from]);
  }
}

static void run_part(void* arg, int64_t part) {
  const walk* w = arg;
  int64_t end = carnot_min_i64(w->count, (part + 1) * kPart), width = w->dims[w->rank - 1];
  for (int64_t start = part * kPart; start < end;) {
    int64_t at[3];
    for (int k = 0; k < w->arity; k++) {
      at[k] = carnot_offset(start, w->dims, w->strides[k], w->rank);
    }
    int64_t count = carnot_min_i64(width - start % width, carnot_min_i64(kChunk, end - start));
    switch (w->domain) {
      case DOMAIN_F32: run_f32(w, start, at, (size_t)count); break;
      case DOMAIN_F64: run_f64(w, start, at, (size_t)count); break;
      case DOMAIN_I64: run_i64(w, start, at, (size_t)count); break;
      case DOMAIN_COPY: run_copy(w, start, at, (size_t)count); break;
    }
    start += count;
  }
}

static domain domain_of(const walk* w) {
  carnot_dtype dtype =
      w->in[w->arity > 1 ? 1 : 0] ? w->in[w->arity > 1 ? 1 : 0]->dtype : w->in[0]->dtype;
  bool moves = w->fn.fn == CARNOT_FN_SELECT || w->fn.fn == CARNOT_FN_IDENTITY;
  if (moves || carnot_dtype_kind_of(dtype) >= CARNOT_KIND_COMPLEX) return DOMAIN_COPY;
  if (w->fn.fn == CARNOT_FN_POW && w->in[0]->dtype != w->in[1]->dtype) {
    bool floats = carnot_dtype_is_float(w->in[0]->dtype) || carnot_dtype_is_float(dtype);
    return floats ? DOMAIN_F64 : DOMAIN_I64;
  }
  dtype = w->in[0]->dtype;
  if (!carnot_dtype_is_float(dtype)) return DOMAIN_I64;
  return dtype == CARNOT_DTYPE_F64 ? DOMAIN_F64 : DOMAIN_F32;
}

static carnot_status* run_fn(carnot_call* call, int arity) {
  walk w = {0};
  CARNOT_TRY(fn_of(call->row, call->attrs, arity, &w.fn.fn));
  w.arity = arity;
  w.out = carnot_call_out(call, 0);
  if (!w.out) return NULL;
  w.rank = w.out->rank;
  w.count = carnot_tensor_count(w.out);
  if (w.count == 0) return NULL;
  memcpy(w.dims, w.out->dims, sizeof(w.dims));
  for (int k = 0; k < arity; k++) {
    w.in[k] = carnot_call_in(call, k);
    if (w.in[k]) carnot_broadcast_strides(w.in[k], w.rank, w.strides[k]);
  }
  w.fn.a = carnot_call_float(call, "alpha");
  w.fn.b = carnot_call_float(call, "beta");
  carnot_dtype_kind kind = carnot_dtype_kind_of(w.in[0]->dtype);
  w.fn.is_unsigned = kind == CARNOT_KIND_UINT || kind == CARNOT_KIND_BOOL;
  w.fn.bits = carnot_dtype_bits(w.in[0]->dtype);
  w.domain = domain_of(&w);
  collapse(&w);
  carnot_call_parallel(call, carnot_ceildiv(w.count, kPart), run_part, &w);
  return NULL;
}
static carnot_status* run_unary(carnot_call* call) { return run_fn(call, 1); }
static carnot_status* run_binary(carnot_call* call) { return run_fn(call, 2); }
static carnot_status* run_ternary(carnot_call* call) { return run_fn(call, 3); }

// ---- rows ----

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_REQUIRED("fn", INT),
                                          CARNOT_SPEC_FLOAT("alpha", 0),
                                          CARNOT_SPEC_FLOAT("beta", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_unary = {
    .name = "unary",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_ELEMENTWISE | CARNOT_TRAIT_HALF_AS_F32,
    .axes = {.moves = true, .all_inputs = true},
    .infer = infer_unary,
    .reference = run_unary,
    .source = "base/fn.def; ONNX Abs-13, Relu-14, Gelu-20 and their like",
    .layer_type = "UNARY",
};
const carnot_op_row carnot_op_binary = {
    .name = "binary",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_ELEMENTWISE | CARNOT_TRAIT_HALF_AS_F32,
    .axes = {.moves = true, .all_inputs = true},
    .infer = infer_binary,
    .reference = run_binary,
    .source = "base/fn.def; ONNX Add-14, Mod-28, BitShift-28 and their like",
    .layer_type = "ELEMENTWISE",
};
const carnot_op_row carnot_op_ternary = {
    .name = "ternary",
    .min_inputs = 1,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_ELEMENTWISE | CARNOT_TRAIT_HALF_AS_F32,
    .axes = {.moves = true, .all_inputs = true},
    .infer = infer_ternary,
    .reference = run_ternary,
    .source = "base/fn.def; ONNX Where-16, Clip-13",
    .layer_type = "SELECT",
};
