// A linear recurrence along one axis, element by element.
//   y[t] = a[t] * y[t-1] + b[t];  y[-1] is |initial|
// |a|, |b| of one shape; |initial| of theirs without the axis. Made by pass roll_steps. Computed in
// double.
#include "ops/util.h"

static carnot_status* infer_linear_scan(carnot_infer* infer) {
  const carnot_type* b;
  CARNOT_TRY(carnot_infer_rank(infer, 1, 1, CARNOT_MAX_RANK, &b));
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  CARNOT_TRY(carnot_infer_same_dtype(infer, 1, 2));
  return carnot_infer_like(infer, 0, 1, b->dtype);
}

static carnot_status* run_linear_scan(carnot_call* call) {
  const carnot_tensor *a = carnot_call_in(call, 0), *b = carnot_call_in(call, 1),
                      *initial = carnot_call_in(call, 2);
  carnot_tensor* y = carnot_call_out(call, 0);
  const double *av, *bv, *first;
  double* yv;
  int axis;
  CARNOT_TRY(carnot_call_f64(call, a, &av));
  CARNOT_TRY(carnot_call_f64(call, b, &bv));
  CARNOT_TRY(carnot_call_f64(call, initial, &first));
  CARNOT_TRY(carnot_call_f64_out(call, y, &yv));
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), b->rank, "axis", &axis));
  const int64_t steps = b->dims[axis],
                inner = carnot_dims_count(b->dims + axis + 1, b->rank - axis - 1),
                lanes = carnot_dims_count(b->dims, axis) * inner;
  CARNOT_CHECK(carnot_tensor_count(a) == carnot_tensor_count(b) &&
                   (int64_t)carnot_tensor_count(initial) == lanes,
               INVALID_MODEL, "%lld factors and %lld first values; %lld and %lld are required",
               (long long)carnot_tensor_count(a), (long long)carnot_tensor_count(initial),
               (long long)carnot_tensor_count(b), (long long)lanes);
  for (int64_t i = 0; i < lanes; i++) {
    double state = first[i];
    for (int64_t t = 0; t < steps; t++) {
      const int64_t at = (i / inner * steps + t) * inner + i % inner;
      yv[at] = state = av[at] * state + bv[at];
    }
  }
  carnot_write_f64(y, yv);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_INT("axis", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_linear_scan = {
    .name = "linear_scan",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF,
    .infer = infer_linear_scan,
    .reference = run_linear_scan,
    .source = "Prefix Sums and Their Applications, Blelloch 1990",
    .layer_type = "RECURRENCE",
};
