// Writes a run of steps into a cache, at a place of its own for each sample.
//   y[b, .., write_indices[b] + s, ..] = update[b, .., s, ..], elsewhere y = cache
// |cache| [B, .., C, ..] and |update| [B, .., S, ..] along |axis|; write_indices [B] int64, absent:
// 0. Input 3, one number: y is at least that long on |axis|; places that neither fills are 0.
// Linear: write_indices[b] in [0, C' - S], C' the length of y, else INVALID_ARGUMENT; circular:
// modulo C'. Source: ONNX TensorScatter-24; input 3: present_key of com.microsoft
// GroupQueryAttention-1.
#include "ops/strided_copy.h"
#include "ops/util.h"

static carnot_status* infer_tensor_scatter(carnot_infer* infer) {
  const carnot_type *x, *update;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &update));
  CARNOT_CHECK(x->dtype == update->dtype || !x->dtype || !update->dtype, INVALID_MODEL,
               "updates have type %s, the input %s", carnot_dtype_name(update->dtype),
               carnot_dtype_name(x->dtype));
  if (!carnot_infer_has(infer, 3) || x->rank < 0) return carnot_infer_like(infer, 0, 0, x->dtype);
  const carnot_sym* least;
  size_t count;
  int axis;
  CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
  CARNOT_TRY(carnot_infer_ints(infer, 3, &least, &count));
  CARNOT_CHECK(!least || count == 1, INVALID_MODEL, "the least length has %zu elements, must be 1",
               count);
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  dims[axis] = least ? carnot_sym_max(infer->syms, dims[axis], least[0])
                     : carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

// The dimensions of y, which is longer than |x| where input 3 says so.
static carnot_status* size_result(const carnot_call* call, const carnot_tensor* x, int axis,
                                  int64_t* dims) {
  const carnot_tensor* least = carnot_call_in(call, 3);
  for (int d = 0; d < x->rank; d++) dims[d] = x->dims[d];
  if (!least) return NULL;
  CARNOT_CHECK(carnot_tensor_count(least) == 1, INVALID_MODEL,
               "the least length has %lld elements, must be 1",
               (long long)carnot_tensor_count(least));
  dims[axis] = carnot_max_i64(dims[axis], carnot_load_i64(least->dtype, least->data, 0));
  return carnot_call_size_output(call, 0, x->dtype, x->rank, dims);
}

static carnot_status* check_update(const carnot_tensor* u, const carnot_tensor* indices, int rank,
                                   const int64_t* dims, int axis) {
  CARNOT_CHECK(axis > 0 && u->rank == rank, INVALID_MODEL, "axis %d of ranks %d and %d", axis, rank,
               u->rank);
  for (int d = 0; d < rank; d++) {
    CARNOT_CHECK(u->dims[d] == dims[d] || (d == axis && u->dims[d] <= dims[d]), INVALID_MODEL,
                 "dimension %d: cache %lld, update %lld", d, (long long)dims[d],
                 (long long)u->dims[d]);
  }
  CARNOT_CHECK(!indices || carnot_tensor_count(indices) == dims[0], INVALID_MODEL,
               "%lld write indices for %lld samples", (long long)carnot_tensor_count(indices),
               (long long)dims[0]);
  return NULL;
}

static carnot_status* run_tensor_scatter(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *u = carnot_call_in(call, 1),
                      *write_indices = carnot_call_in(call, 2);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int axis;
  int64_t dims[CARNOT_MAX_RANK];
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  bool circular = carnot_call_is(call, "mode", "circular");
  CARNOT_CHECK(circular || carnot_call_is(call, "mode", "linear"), INVALID_MODEL,
               "mode must be linear or circular");
  CARNOT_TRY(size_result(call, x, axis, dims));
  CARNOT_TRY(check_update(u, write_indices, x->rank, dims, axis));
  int64_t outer = carnot_dims_count(dims, axis),
          inner = carnot_dims_count(dims + axis + 1, x->rank - axis - 1);
  int64_t size = dims[axis], before = x->dims[axis], steps = u->dims[axis];
  size_t bytes = (size_t)carnot_dtype_bits(x->dtype) / 8;
  for (int64_t o = 0; o < outer && y->data != x->data; o++) {  // one buffer keeps what it holds
    carnot_copy_elements(x->dtype, y->data, o * size * inner, x->data, o * before * inner,
                         before * inner);
    if (size > before)
      memset((char*)y->data + (size_t)((o * size + before) * inner) * bytes, 0,
             (size_t)((size - before) * inner) * bytes);
  }
  for (int64_t o = 0; o < outer && steps; o++) {
    int64_t sample = o / (outer / dims[0]);
    int64_t start = write_indices
                        ? carnot_load_i64(write_indices->dtype, write_indices->data, (size_t)sample)
                        : 0;
    if (circular) start = ((start % size) + size) % size;
    CARNOT_CHECK(circular || (start >= 0 && start <= size - steps), INVALID_ARGUMENT,
                 "%lld steps from place %lld of sample %lld do not fit into %lld", (long long)steps,
                 (long long)start, (long long)sample, (long long)size);
    for (int64_t s = 0; s < steps; s++) {
      int64_t at = circular ? (start + s) % size : start + s;
      carnot_copy_elements(x->dtype, y->data, (o * size + at) * inner, u->data,
                           (o * steps + s) * inner, inner);
    }
  }
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {{"axis", CARNOT_ATTR_INT, false, -2, NULL, NULL},
                                          CARNOT_SPEC_WORD("mode", "linear", "linear circular"),
                                          {0}};

const carnot_op_row carnot_op_tensor_scatter = {
    .name = "tensor_scatter",
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(3),
    .infer = infer_tensor_scatter,
    .reference = run_tensor_scatter,
    .source = "ONNX TensorScatter-24; com.microsoft GroupQueryAttention-1",
    .layer_type = "KVCACHE_UPDATE",
};
