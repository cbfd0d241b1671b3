// Running sums and products along an axis.
//   y[i] = fn of x[0..i]; |exclusive|: of x[0..i-1]; |reverse|: from the end. fn is sum or prod.
// |axis| is input 1, a scalar. Floats run in double, integers in 64 bits and are wrapped on store.
#include "ops/util.h"

static carnot_status* infer_cumulative(carnot_infer* infer) {
  const carnot_type *x, *axis;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &axis));
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

static carnot_status* run_cumulative(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(x) == 0) return NULL;
  bool prod = carnot_call_is(call, "fn", "prod");
  bool exclusive = carnot_call_int(call, "exclusive") != 0;
  bool reverse = carnot_call_int(call, "reverse") != 0;
  int axis = 0;
  carnot_axis_view lanes = {1, 1, 1};
  if (x->rank) {
    CARNOT_TRY(carnot_axis(carnot_scalar_i64(carnot_call_in(call, 1), 0), x->rank, "axis", &axis));
    lanes = carnot_axis_view_of(x->dims, x->rank, axis);
  }
  bool floats = carnot_dtype_is_float(x->dtype);
  for (int64_t lane = 0; lane < lanes.outer * lanes.inner; lane++) {
    int64_t start = carnot_axis_slice_start(&lanes, lane);
    double sum = prod;
    uint64_t whole = prod;
    for (int64_t k = 0; k < lanes.length; k++) {
      size_t at = (size_t)(start + (reverse ? lanes.length - 1 - k : k) * lanes.inner);
      double before = sum;
      uint64_t whole_before = whole;
      if (floats) {
        double v = carnot_load_f64(x->dtype, x->data, at);
        sum = prod ? sum * v : sum + v;
        carnot_store_f64(y->dtype, y->data, at, exclusive ? before : sum);
      } else {
        uint64_t v = (uint64_t)carnot_load_i64(x->dtype, x->data, at);
        whole = prod ? whole * v : whole + v;
        carnot_store_i64(y->dtype, y->data, at, (int64_t)(exclusive ? whole_before : whole));
      }
    }
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_WORD("fn", "sum", "sum prod"),
                                          CARNOT_SPEC_INT("exclusive", 0),
                                          CARNOT_SPEC_INT("reverse", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_cumulative = {
    .name = "cumulative",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .axes = {.moves = true, .axes_input = CARNOT_AXES_INPUT(1)},
    .infer = infer_cumulative,
    .reference = run_cumulative,
    .source = "ONNX CumSum-14, CumProd-26",
    .layer_type = "CUMULATIVE",
};
