// Writing at indices that are data, into a copy of the input.
//   scatter_elements y[i with i_axis = indices[i]] ∘= updates[i] · scatter_nd y[indices[k..], c..]
//   ∘= updates[k.., c..] with ∘ none (the last one stays), add, mul, max or min
// Negative indices count from the end; any other outside [-d, d) is INVALID_ARGUMENT with index and
// limit. Source: ONNX ScatterElements-18, ScatterND-18.
#include <math.h>

#include "ops/indices.h"
#include "ops/strided_copy.h"

typedef enum reduction { KEEP, ADD, MUL, MAX, MIN } reduction;

static carnot_status* read_reduction(const carnot_call* call, reduction* out) {
  static const char* const kNames[] = {"none", "add", "mul", "max", "min"};
  for (int i = 0; i < 5; i++) {
    *out = (reduction)i;
    if (carnot_call_is(call, "reduction", kNames[i])) return NULL;
  }
  return CARNOT_ERROR(INVALID_MODEL, "reduction must be none, add, mul, max or min");
}

static double reduce_f64(reduction how, double x, double y) {
  if (how == ADD) return x + y;
  if (how == MUL) return x * y;
  // NaN propagates.
  if (isnan(x) || isnan(y)) return NAN;
  return how == MAX ? fmax(x, y) : fmin(x, y);
}

static int64_t reduce_i64(reduction how, int64_t x, int64_t y, bool is_unsigned) {
  if (how == ADD) return (int64_t)((uint64_t)x + (uint64_t)y);
  if (how == MUL) return (int64_t)((uint64_t)x * (uint64_t)y);
  bool less = is_unsigned ? (uint64_t)x < (uint64_t)y : x < y;
  return (how == MAX) == less ? y : x;
}

// dst[to .. to + count) ∘= src[from .. from + count). F32 and F64 round once: the sum of two is
// exact in F64 or is it.
static void write_run(reduction how, const carnot_tensor* dst, int64_t to, const carnot_tensor* src,
                      int64_t from, int64_t count) {
  carnot_dtype t = dst->dtype;
  if (how == KEEP) {
    carnot_copy_elements(t, dst->data, to, src->data, from, count);
    return;
  }
  bool is_unsigned = carnot_dtype_kind_of(t) == CARNOT_KIND_UINT;
  for (int64_t i = 0; i < count; i++) {
    size_t a = (size_t)(to + i), b = (size_t)(from + i);
    if (carnot_dtype_is_float(t)) {
      carnot_store_f64(
          t, dst->data, a,
          reduce_f64(how, carnot_load_f64(t, dst->data, a), carnot_load_f64(t, src->data, b)));
    } else {
      carnot_store_i64(t, dst->data, a,
                       reduce_i64(how, carnot_load_i64(t, dst->data, a),
                                  carnot_load_i64(t, src->data, b), is_unsigned));
    }
  }
}

// The first input's type; the updates must have its data type.
static carnot_status* infer_scatter(carnot_infer* infer) {
  const carnot_type *x, *updates;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 2, &updates));
  CARNOT_CHECK(x->dtype == updates->dtype || !x->dtype || !updates->dtype, INVALID_MODEL,
               "updates have type %s, the input %s", carnot_dtype_name(updates->dtype),
               carnot_dtype_name(x->dtype));
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

static carnot_status* check_reduction(const carnot_tensor* x, reduction how) {
  carnot_dtype_kind kind = carnot_dtype_kind_of(x->dtype);
  CARNOT_CHECK(how == KEEP || (kind != CARNOT_KIND_STRING && kind != CARNOT_KIND_COMPLEX),
               INVALID_MODEL, "type %s cannot be reduced", carnot_dtype_name(x->dtype));
  return NULL;
}

static carnot_status* run_scatter_elements(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *indices = carnot_call_in(call, 1),
                      *u = carnot_call_in(call, 2);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  reduction how;
  int axis;
  CARNOT_TRY(read_reduction(call, &how));
  CARNOT_TRY(check_reduction(x, how));
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  CARNOT_CHECK(indices->rank == x->rank && u->rank == x->rank, INVALID_MODEL,
               "ranks %d, %d and %d must be equal", x->rank, indices->rank, u->rank);
  for (int d = 0; d < x->rank; d++) {
    CARNOT_CHECK((d == axis || indices->dims[d] <= x->dims[d]) && u->dims[d] == indices->dims[d],
                 INVALID_MODEL, "dimension %d: input %lld, indices %lld, updates %lld", d,
                 (long long)x->dims[d], (long long)indices->dims[d], (long long)u->dims[d]);
  }
  carnot_copy_elements(x->dtype, y->data, 0, x->data, 0, carnot_tensor_count(x));
  int64_t strides[CARNOT_MAX_RANK], index[CARNOT_MAX_RANK] = {0},
                                    count = carnot_tensor_count(indices);
  carnot_strides(x->dims, x->rank, strides);
  for (int64_t i = 0; i < count; i++) {
    int64_t at, to = 0;
    CARNOT_TRY(carnot_index(carnot_load_i64(indices->dtype, indices->data, (size_t)i),
                            x->dims[axis], i, &at));
    for (int d = 0; d < x->rank; d++) to += (d == axis ? at : index[d]) * strides[d];
    write_run(how, y, to, u, i, 1);
    for (int d = x->rank - 1; d >= 0 && ++index[d] == indices->dims[d]; d--) index[d] = 0;
  }
  return NULL;
}

static carnot_status* run_scatter_nd(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *indices = carnot_call_in(call, 1),
                      *u = carnot_call_in(call, 2);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  reduction how;
  CARNOT_TRY(read_reduction(call, &how));
  CARNOT_TRY(check_reduction(x, how));
  CARNOT_CHECK(indices->rank >= 1, INVALID_MODEL, "the indices are a scalar");
  int64_t depth = indices->dims[indices->rank - 1],
          rows = carnot_dims_count(indices->dims, indices->rank - 1);
  CARNOT_CHECK(depth <= x->rank, INVALID_MODEL, "%lld indices for rank %d", (long long)depth,
               x->rank);
  int64_t inner = carnot_dims_count(x->dims + depth, x->rank - (int)depth);
  CARNOT_CHECK(carnot_tensor_count(u) == rows * inner, INVALID_MODEL,
               "%lld updates where %lld belong", (long long)carnot_tensor_count(u),
               (long long)(rows * inner));
  carnot_copy_elements(x->dtype, y->data, 0, x->data, 0, carnot_tensor_count(x));
  for (int64_t r = 0; r < rows; r++) {
    int64_t at = 0;
    CARNOT_TRY(carnot_index_row(indices, r * depth, (int)depth, x->dims, &at));
    write_run(how, y, at * inner, u, r * inner, inner);
  }
  return NULL;
}

static const carnot_attr_spec kElements[] = {
    {"axis", CARNOT_ATTR_INT, false, 0, NULL, NULL},
    CARNOT_SPEC_WORD("reduction", "none", "none add mul max min"),
    {0}};
static const carnot_attr_spec kNd[] = {
    CARNOT_SPEC_WORD("reduction", "none", "none add mul max min"), {0}};

const carnot_op_row carnot_op_scatter_elements = {
    .name = "scatter_elements",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kElements,
    .infer = infer_scatter,
    .reference = run_scatter_elements,
    .source = "ONNX ScatterElements-18",
    .layer_type = "SCATTER",
};
const carnot_op_row carnot_op_scatter_nd = {
    .name = "scatter_nd",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kNd,
    .infer = infer_scatter,
    .reference = run_scatter_nd,
    .source = "ONNX ScatterND-18",
    .layer_type = "SCATTER",
};
