// Selection by data: sizes of the results are known only after the run.
//   compress   the slices of x along an axis (or its elements) whose condition holds
//   non_zero   coordinates of the elements that are not zero, one column each, in row-major order
// Source: ONNX Compress-28, NonZero-13.
#include "ops/infer_help.h"
#include "ops/strided_copy.h"

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

static const carnot_attr_spec kCompress[] = {{"axis", CARNOT_ATTR_INT, false, 0, NULL, NULL}, {0}};

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
