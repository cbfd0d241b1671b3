// The largest or smallest elements along an axis, in order.
//   values, indices (int64): the first k of the lane sorted; of equal elements the lower index
//   first
// |k| is input 1 (one element). NaN counts as greater than every number. Results are sorted
// whatever |sorted| says.
#include "ops/axis_iter.h"

static carnot_status* infer_top_k(carnot_infer* infer) {
  const carnot_type* x;
  const carnot_sym* k;
  size_t count;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 1, CARNOT_MAX_RANK, &x));
  CARNOT_TRY(carnot_infer_ints(infer, 1, &k, &count));
  CARNOT_CHECK(!k || count == 1, INVALID_MODEL, "k has %zu elements; 1 is required", count);
  carnot_sym dims[CARNOT_MAX_RANK];
  if (x->rank > 0) {
    int axis;
    CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
    memcpy(dims, x->dims, sizeof(dims));
    bool known = k && carnot_sym_is_const(k[0]) && carnot_sym_is_const(dims[axis]);
    CARNOT_CHECK(!known || (k[0].bits >= 0 && k[0].bits <= dims[axis].bits), INVALID_MODEL,
                 "k is %lld; dimension %d has %lld elements", (long long)k[0].bits, axis,
                 (long long)dims[axis].bits);
    dims[axis] = k ? k[0] : carnot_infer_unknown(infer, INT64_MAX / 2);
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  if (infer->output_count > 1) carnot_infer_set(infer, 1, CARNOT_DTYPE_I64, x->rank, dims);
  return NULL;
}

// An integer that orders as the element does.
static int64_t key_of(const carnot_tensor* x, int64_t at) {
  if (!carnot_dtype_is_float(x->dtype)) {
    int64_t v = carnot_load_i64(x->dtype, x->data, (size_t)at);
    return x->dtype == CARNOT_DTYPE_U64 ? (int64_t)((uint64_t)v ^ (uint64_t)1 << 63) : v;
  }
  double v = carnot_load_f64(x->dtype, x->data, (size_t)at);
  if (v != v) return INT64_MAX;
  v += 0.0;  // one zero
  int64_t bits;
  memcpy(&bits, &v, sizeof(bits));
  return bits < 0 ? (int64_t)((uint64_t)bits ^ (uint64_t)INT64_MAX) : bits;
}

typedef struct order {
  const int64_t* keys;
  bool largest;
} order;
static bool before(const void* context, int64_t a, int64_t b) {
  const order* o = context;
  return o->largest ? o->keys[a] > o->keys[b] : o->keys[a] < o->keys[b];
}

static carnot_status* run_top_k(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  int axis;
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  carnot_axis_view lanes = carnot_axis_view_of(x->dims, x->rank, axis);
  int64_t k = carnot_scalar_i64(carnot_call_in(call, 1), 0), dims[CARNOT_MAX_RANK];
  CARNOT_CHECK(k >= 0 && k <= lanes.length, INVALID_ARGUMENT,
               "k is %lld; dimension %d has %lld elements", (long long)k, axis,
               (long long)lanes.length);
  memcpy(dims, x->dims, sizeof(dims));
  dims[axis] = k;
  carnot_tensor *values = carnot_call_out(call, 0), *indices = carnot_call_out(call, 1);
  if (values) CARNOT_TRY(carnot_call_size_output(call, 0, x->dtype, x->rank, dims));
  if (indices) CARNOT_TRY(carnot_call_size_output(call, 1, CARNOT_DTYPE_I64, x->rank, dims));
  int64_t *keys = NULL, *items = NULL, *scratch = NULL;
  CARNOT_TRY(carnot_call_array(call, lanes.length, sizeof(int64_t), &keys));
  CARNOT_TRY(carnot_call_array(call, lanes.length, sizeof(int64_t), &items));
  CARNOT_TRY(carnot_call_array(call, lanes.length, sizeof(int64_t), &scratch));
  order o = {keys, carnot_call_int(call, "largest") != 0};
  carnot_axis_view out = {lanes.outer, k, lanes.inner};
  for (int64_t lane = 0; k > 0 && lane < lanes.outer * lanes.inner; lane++) {
    int64_t from = carnot_axis_slice_start(&lanes, lane), to = carnot_axis_slice_start(&out, lane);
    for (int64_t i = 0; i < lanes.length; i++) {
      items[i] = i;
      keys[i] = key_of(x, from + i * lanes.inner);
    }
    carnot_sort_stable(items, scratch, lanes.length, before, &o);
    for (int64_t i = 0; i < k; i++) {
      size_t at = (size_t)(to + i * lanes.inner);
      if (values) {
        carnot_copy_element(x->dtype, values->data, at, x->data,
                            (size_t)(from + items[i] * lanes.inner));
      }
      if (indices) ((int64_t*)indices->data)[at] = items[i];
    }
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_INT("axis", -1),
                                          CARNOT_SPEC_INT("largest", 1),
                                          CARNOT_SPEC_INT("sorted", 1), CARNOT_SPEC_END};

const carnot_op_row carnot_op_top_k = {
    .name = "top_k",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 2,
    .attrs = kAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_top_k,
    .reference = run_top_k,
    .source = "ONNX TopK-24",
    .layer_type = "TOPK",
};
