// The partial inverse of max pooling.
//   y[indices[i]] = x[i], 0 elsewhere
// |x|, |indices| [N,C,D..]; the indices are flat over [N,C,O..] with O = (D-1)*stride + kernel -
// pads. |output_shape| (optional) makes the result larger: the part above lies in its corner.
#include "ops/sliding_window.h"

static carnot_status* infer_unpool(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, &x));
  if (carnot_infer_has(infer, 2)) {
    const carnot_sym* shape;
    size_t count;
    CARNOT_TRY(carnot_infer_ints(infer, 2, &shape, &count));
    if (shape) {
      CARNOT_CHECK(x->rank < 0 || count == (size_t)x->rank, INVALID_MODEL,
                   "output_shape has %zu elements; %d are required", count, x->rank);
      carnot_infer_set(infer, 0, x->dtype, (int)count, shape);
      return NULL;
    }
  }
  carnot_sym dims[CARNOT_MAX_RANK];
  if (x->rank >= 0) {
    carnot_sliding_window w;
    CARNOT_TRY(carnot_sliding_window_read(infer->row, infer->attrs, x->rank - 2, NULL, &w));
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (int i = 0; i < w.rank; i++) {
      carnot_sym last = carnot_sym_add(infer->syms, x->dims[i + 2], carnot_sym_of(-1));
      carnot_sym size = carnot_sym_mul(infer->syms, last, carnot_sym_of(w.strides[i]));
      int64_t rest = w.kernel[i] - w.begin[i] - w.end[i];
      dims[i + 2] = carnot_infer_has(infer, 2)
                        ? carnot_infer_unknown(infer, INT32_MAX)
                        : carnot_sym_add(infer->syms, size, carnot_sym_of(rest));
    }
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

static carnot_status* run_unpool(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *indices = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  carnot_sliding_window w;
  CARNOT_TRY(carnot_sliding_window_of_call(call, x->rank - 2, NULL, &w));
  int64_t inner[CARNOT_MAX_RANK], dims[CARNOT_MAX_RANK];
  size_t given;
  memcpy(inner, x->dims, sizeof(inner));
  for (int i = 0; i < w.rank; i++) {
    inner[i + 2] = (x->dims[i + 2] - 1) * w.strides[i] + w.kernel[i] - w.begin[i] - w.end[i];
  }
  CARNOT_TRY(carnot_call_list(call, 2, CARNOT_MAX_RANK, dims, &given));
  if (!given) memcpy(dims, inner, sizeof(dims));
  CARNOT_TRY(carnot_call_size_output(call, 0, x->dtype, x->rank, dims));
  memset(y->data, 0, carnot_tensor_bytes(y));
  int64_t total = carnot_dims_count(inner, x->rank), count = carnot_tensor_count(x);
  int64_t strides[CARNOT_MAX_RANK], at[CARNOT_MAX_RANK];
  carnot_strides(dims, x->rank, strides);
  for (int64_t i = 0; i < count; i++) {
    int64_t index = carnot_load_i64(indices->dtype, indices->data, (size_t)i), to = 0;
    CARNOT_CHECK(index >= 0 && index < total, INVALID_ARGUMENT, "index %lld is outside [0, %lld)",
                 (long long)index, (long long)total);
    carnot_unravel(index, inner, x->rank, at);
    bool inside = true;
    for (int d = 0; d < x->rank; d++) {
      inside &= at[d] < dims[d];
      to += at[d] * strides[d];
    }
    if (inside) carnot_copy_element(x->dtype, y->data, (size_t)to, x->data, (size_t)i);
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_REQUIRED("kernel_shape", INTS),
                                          CARNOT_SPEC_LIST("pads", INTS),
                                          CARNOT_SPEC_LIST("strides", INTS), CARNOT_SPEC_END};

const carnot_op_row carnot_op_max_unpool = {
    .name = "max_unpool",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_unpool,
    .reference = run_unpool,
    .source = "ONNX MaxUnpool-22",
    .layer_type = "SCATTER",
};
