// One-hot encoding.
//   y[i.., k, j..] = indices[i.., j..] == k ? values[1] : values[0], for k < depth
// A negative index counts from |depth|; one out of range gives a slice of values[0] alone.
// Source: ONNX OneHot-28.
#include "ops/infer_help.h"
#include "ops/strided_copy.h"

static carnot_status* infer_one_hot(carnot_infer* infer) {
  const carnot_type *indices, *depth, *values;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &indices));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &depth));
  CARNOT_TRY(carnot_infer_tensor(infer, 2, &values));
  if (indices->rank < 0) {
    carnot_infer_set(infer, 0, values->dtype, -1, NULL);
    return NULL;
  }
  CARNOT_CHECK(indices->rank < CARNOT_MAX_RANK, UNSUPPORTED,
               "%d dimensions where at most %d are supported", indices->rank + 1, CARNOT_MAX_RANK);
  carnot_sym size = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  if (carnot_dtype_is_float(depth->dtype)) {
    const double* number;
    size_t count;
    CARNOT_TRY(carnot_infer_floats(infer, 1, &number, &count));
    if (number && count == 1 && number[0] >= 0 && number[0] < 1e15)
      size = carnot_sym_of((int64_t)number[0]);
  } else {
    const carnot_sym* number;
    size_t count;
    CARNOT_TRY(carnot_infer_ints(infer, 1, &number, &count));
    if (number && count == 1) size = number[0];
  }
  CARNOT_CHECK(!carnot_sym_is_const(size) || size.bits >= 0, INVALID_MODEL, "depth is %lld",
               (long long)size.bits);
  int axis;
  CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), indices->rank + 1, "axis", &axis));
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int i = 0, from = 0; i <= indices->rank; i++)
    dims[i] = i == axis ? size : indices->dims[from++];
  carnot_infer_set(infer, 0, values->dtype, indices->rank + 1, dims);
  return NULL;
}

static carnot_status* run_one_hot(carnot_call* call) {
  const carnot_tensor *indices = carnot_call_in(call, 0), *values = carnot_call_in(call, 2);
  const carnot_tensor* depth_input = carnot_call_in(call, 1);
  int axis;
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), indices->rank + 1, "axis", &axis));
  int64_t dims[CARNOT_MAX_RANK],
      depth = (int64_t)carnot_load_f64(depth_input->dtype, depth_input->data, 0);
  for (int i = 0, from = 0; i <= indices->rank; i++)
    dims[i] = i == axis ? depth : indices->dims[from++];
  CARNOT_CHECK(carnot_tensor_count(values) == 2, INVALID_MODEL, "%lld values, must be 2",
               (long long)carnot_tensor_count(values));
  CARNOT_TRY(carnot_call_size_output(call, 0, values->dtype, indices->rank + 1, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  carnot_fill_elements(y->dtype, y->data, 0, values->data, 0, carnot_tensor_count(y));
  int64_t inner = carnot_dims_count(dims + axis + 1, indices->rank - axis),
          count = carnot_tensor_count(indices);
  for (int64_t i = 0; i < count; i++) {
    bool real = carnot_dtype_is_float(indices->dtype);
    double number = real ? carnot_load_f64(indices->dtype, indices->data, (size_t)i) : 0;
    // A number no index can be would overflow on its way to an integer.
    if (real && !(number > -1e15 && number < 1e15)) continue;
    int64_t at = real ? (int64_t)number : carnot_load_i64(indices->dtype, indices->data, (size_t)i);
    if (at < -depth || at >= depth) continue;
    if (at < 0) at += depth;
    carnot_copy_elements(y->dtype, y->data, (i / inner * depth + at) * inner + i % inner,
                         values->data, 1, 1);
  }
  return NULL;
}

static const carnot_attr_spec kOneHot[] = {{"axis", CARNOT_ATTR_INT, false, -1, NULL, NULL}, {0}};

const carnot_op_row carnot_op_one_hot = {
    .name = "one_hot",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kOneHot,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_one_hot,
    .reference = run_one_hot,
    .source = "ONNX OneHot-28",
    .layer_type = "ONE_HOT",
};
