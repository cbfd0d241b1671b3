// The place of the largest or smallest element along an axis.
//   y[kept] = argmax or argmin of x along |axis|, int64; of equal elements the first, or the last
//   with select_last_index. NaN wins both. keepdims leaves 1 where the axis was.
#include "ops/axis_iter.h"

static carnot_status* infer_arg(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 0, CARNOT_MAX_RANK, &x));
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank = x->rank < 0 ? -1 : 0, axis = 0;
  if (x->rank > 0) {
    CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
    CARNOT_CHECK(!carnot_sym_is(x->dims[axis], 0), INVALID_MODEL,
                 "dimension %d is 0; an element is required", axis);
  }
  for (int i = 0; i < x->rank; i++) {
    if (i != axis) {
      dims[rank++] = x->dims[i];
    } else if (carnot_infer_int(infer, "keepdims")) {
      dims[rank++] = carnot_sym_of(1);
    }
  }
  carnot_infer_set(infer, 0, CARNOT_DTYPE_I64, rank, dims);
  return NULL;
}

// Whether |a| replaces |b|, which comes before it.
static bool better(const carnot_tensor* x, int64_t a, int64_t b, bool max, bool last) {
  if (carnot_dtype_is_float(x->dtype)) {
    double u = carnot_load_f64(x->dtype, x->data, (size_t)a);
    double v = carnot_load_f64(x->dtype, x->data, (size_t)b);
    if (u != u || v != v) return u != u && (last || v == v);
    return (max ? u > v : u < v) || (last && u == v);
  }
  int64_t u = carnot_load_i64(x->dtype, x->data, (size_t)a);
  int64_t v = carnot_load_i64(x->dtype, x->data, (size_t)b);
  bool less = x->dtype == CARNOT_DTYPE_U64 ? (uint64_t)u < (uint64_t)v : u < v;
  if (u == v) return last;
  return max ? !less : less;
}

static carnot_status* run_arg(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int axis = 0;
  if (x->rank) CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  carnot_axis_view lanes =
      x->rank ? carnot_axis_view_of(x->dims, x->rank, axis) : (carnot_axis_view){1, 1, 1};
  int64_t count = lanes.outer * lanes.inner;
  CARNOT_CHECK(lanes.length > 0 || count == 0, INVALID_ARGUMENT,
               "dimension %d is 0; an element is required", axis);
  bool max = carnot_call_is(call, "fn", "max");
  bool last = carnot_call_int(call, "select_last_index") != 0;
  for (int64_t lane = 0; lane < count; lane++) {
    int64_t start = carnot_axis_slice_start(&lanes, lane), best = 0;
    for (int64_t i = 1; i < lanes.length; i++) {
      if (better(x, start + i * lanes.inner, start + best * lanes.inner, max, last)) best = i;
    }
    ((int64_t*)y->data)[lane] = best;
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {
    CARNOT_SPEC_REQUIRED_WORD("fn", "max min"), CARNOT_SPEC_INT("axis", 0),
    CARNOT_SPEC_INT("keepdims", 1), CARNOT_SPEC_INT("select_last_index", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_arg_reduce = {
    .name = "arg_reduce",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_arg,
    .reference = run_arg,
    .source = "ONNX ArgMax-13, ArgMin-13",
    .layer_type = "TOPK",
};
