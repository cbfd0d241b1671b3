// Positions to and from data.
//   one_hot y[i.., k, j..] = indices[i.., j..] == k ? on : off · compress: the slices of x whose
//   condition holds non_zero: the coordinates of the elements that are not zero, one column each,
//   in row-major order
// Source: ONNX OneHot-28, Compress-28, NonZero-13.
#include "ops/infer_help.h"
#include "ops/move.h"

// ---- one_hot ----

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

// ---- compress ----

static carnot_status* infer_compress(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  carnot_sym dims[CARNOT_MAX_RANK];
  if (!carnot_attr_has(infer->attrs, "axis")) {
    dims[0] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
    carnot_infer_set(infer, 0, x->dtype, 1, dims);
    return NULL;
  }
  int axis = 0;
  if (x->rank >= 0)
    CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
  memcpy(dims, x->dims, sizeof(dims));
  dims[axis] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

static carnot_status* run_compress(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *condition = carnot_call_in(call, 1);
  bool flat = !carnot_attr_has(call->attrs, "axis");
  int axis = 0, rank = flat ? 1 : x->rank;
  int64_t dims[CARNOT_MAX_RANK];
  memcpy(dims, x->dims, sizeof(dims));
  if (flat)
    dims[0] = carnot_tensor_count(x);
  else
    CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  int64_t size = dims[axis], tests = carnot_min_i64(carnot_tensor_count(condition), size), kept = 0;
  const uint8_t* keep = condition->data;
  for (int64_t i = 0; i < tests; i++) kept += keep[i] != 0;
  int64_t outer = carnot_dims_count(dims, axis),
          inner = carnot_dims_count(dims + axis + 1, rank - axis - 1), to = 0;
  dims[axis] = kept;
  CARNOT_TRY(carnot_call_size_output(call, 0, x->dtype, rank, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  for (int64_t o = 0; y && o < outer; o++) {
    for (int64_t i = 0; i < tests; i++) {
      if (!keep[i]) continue;
      carnot_copy_elements(x->dtype, y->data, to, x->data, (o * size + i) * inner, inner);
      to += inner;
    }
  }
  return NULL;
}

// ---- non_zero ----

static carnot_status* infer_non_zero(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  carnot_sym dims[2] = {
      x->rank < 0 ? carnot_infer_unknown(infer, CARNOT_MAX_RANK) : carnot_sym_of(x->rank), {0}};
  int64_t min = 0, max = CARNOT_DIM_UNBOUNDED;
  if (x->rank >= 0) {
    carnot_sym_range(infer->syms, carnot_sym_product(infer->syms, x->dims, (size_t)x->rank), &min,
                     &max);
  }
  dims[1] = carnot_infer_unknown(infer, carnot_max_i64(max, 0));
  carnot_infer_set(infer, 0, CARNOT_DTYPE_I64, 2, dims);
  return NULL;
}

static bool is_zero(const carnot_tensor* x, int64_t i) {
  switch (carnot_dtype_kind_of(x->dtype)) {
    case CARNOT_KIND_FLOAT: return carnot_load_f64(x->dtype, x->data, (size_t)i) == 0;
    case CARNOT_KIND_STRING: return ((const carnot_strview*)x->data)[i].size == 0;
    case CARNOT_KIND_COMPLEX:
      if (x->dtype == CARNOT_DTYPE_C64)
        return ((float*)x->data)[2 * i] == 0 && ((float*)x->data)[2 * i + 1] == 0;
      return ((double*)x->data)[2 * i] == 0 && ((double*)x->data)[2 * i + 1] == 0;
    default: return carnot_load_i64(x->dtype, x->data, (size_t)i) == 0;
  }
}

static carnot_status* run_non_zero(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  int64_t count = carnot_tensor_count(x), found = 0;
  for (int64_t i = 0; i < count; i++) found += !is_zero(x, i);
  const int64_t dims[2] = {x->rank, found};
  CARNOT_TRY(carnot_call_size_output(call, 0, CARNOT_DTYPE_I64, 2, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int64_t* out = y->data;
  int64_t at = 0, index[CARNOT_MAX_RANK] = {0};
  for (int64_t i = 0; i < count; i++) {
    if (!is_zero(x, i)) {
      for (int d = 0; d < x->rank; d++) out[d * found + at] = index[d];
      at++;
    }
    for (int d = x->rank - 1; d >= 0 && ++index[d] == x->dims[d]; d--) index[d] = 0;
  }
  return NULL;
}

static const carnot_attr_spec kOneHot[] = {{"axis", CARNOT_ATTR_INT, false, -1, NULL}, {0}};
static const carnot_attr_spec kCompress[] = {{"axis", CARNOT_ATTR_INT, false, 0, NULL}, {0}};

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
const carnot_op_row carnot_op_compress = {
    .name = "compress",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .attrs = kCompress,
    .infer = infer_compress,
    .reference = run_compress,
    .source = "ONNX Compress-28",
    .layer_type = "GATHER",
};
const carnot_op_row carnot_op_non_zero = {
    .name = "non_zero",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .infer = infer_non_zero,
    .reference = run_non_zero,
    .source = "ONNX NonZero-13",
    .layer_type = "NON_ZERO",
};
