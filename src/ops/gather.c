// Reading at indices that are data.
//   gather y[a.., i.., b..] = x[a.., indices[i..], b..], a before the axis, b behind it
//   gather_elements y[i] = x[i with i_axis = indices[i]] · gather_nd y[b.., k.., c..] = x[b..,
//   indices[b.., k..], c..]
// Negative indices count from the end; any other outside [-d, d) is INVALID_ARGUMENT with index and
// limit. Source: ONNX Gather-13, GatherElements-13, GatherND-13.
#include "ops/indices.h"
#include "ops/infer_help.h"
#include "ops/strided_copy.h"

// ---- gather ----

// The elements chosen from a list of known ones by known indices.
static carnot_status* gather_syms(carnot_infer* infer) {
  const carnot_sym* from = infer->inputs[0].syms;
  if (!from || infer->inputs[0].type->rank != 1) return NULL;
  const int64_t* indices;
  size_t count;
  bool known;
  CARNOT_TRY(carnot_infer_plain_ints(infer, 1, &indices, &count, &known));
  if (!known) return NULL;
  carnot_sym* syms = carnot_infer_room_for_syms(infer, 0, (int64_t)count);
  int64_t limit = (int64_t)infer->inputs[0].sym_count;
  for (size_t i = 0; syms && i < count; i++) {
    int64_t at;
    CARNOT_TRY(carnot_index(indices[i], limit, (int64_t)i, &at));
    syms[i] = from[at];
  }
  return NULL;
}

static carnot_status* infer_gather(carnot_infer* infer) {
  const carnot_type *x, *indices;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &indices));
  CARNOT_CHECK(carnot_dtype_is_integer(indices->dtype) || !indices->dtype, INVALID_MODEL,
               "indices have type %s", carnot_dtype_name(indices->dtype));
  if (x->rank < 0 || indices->rank < 0) {
    carnot_infer_set(infer, 0, x->dtype, -1, NULL);
    return NULL;
  }
  int axis, rank = 0;
  CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
  CARNOT_CHECK(x->rank + indices->rank - 1 <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%d dimensions where at most %d are supported", x->rank + indices->rank - 1,
               CARNOT_MAX_RANK);
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int i = 0; i < axis; i++) dims[rank++] = x->dims[i];
  for (int i = 0; i < indices->rank; i++) dims[rank++] = indices->dims[i];
  for (int i = axis + 1; i < x->rank; i++) dims[rank++] = x->dims[i];
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  return gather_syms(infer);
}

static carnot_status* run_gather(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  int axis;
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  const int64_t* indices;
  size_t count;
  CARNOT_TRY(carnot_call_ints(call, carnot_call_in(call, 1), &indices, &count));
  int64_t limit = x->dims[axis], outer = carnot_dims_count(x->dims, axis);
  int64_t inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1), to = 0;
  for (int64_t o = 0; o < outer; o++) {
    for (size_t i = 0; i < count; i++, to += inner) {
      int64_t at;
      CARNOT_TRY(carnot_index(indices[i], limit, (int64_t)i, &at));
      carnot_copy_elements(x->dtype, y->data, to, x->data, (o * limit + at) * inner, inner);
    }
  }
  return NULL;
}

// ---- gather_elements ----

static carnot_status* infer_gather_elements(carnot_infer* infer) {
  const carnot_type *x, *indices;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &indices));
  CARNOT_CHECK(x->rank < 0 || indices->rank < 0 || x->rank == indices->rank, INVALID_MODEL,
               "indices have rank %d, the input %d", indices->rank, x->rank);
  return carnot_infer_like(infer, 0, 1, x->dtype);
}

static carnot_status* run_gather_elements(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *indices = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int axis;
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  for (int d = 0; d < x->rank; d++) {
    CARNOT_CHECK(d == axis || indices->dims[d] <= x->dims[d], INVALID_MODEL,
                 "dimension %d of the indices is %lld, the input has %lld", d,
                 (long long)indices->dims[d], (long long)x->dims[d]);
  }
  int64_t strides[CARNOT_MAX_RANK], index[CARNOT_MAX_RANK] = {0},
                                    count = carnot_tensor_count(indices);
  carnot_strides(x->dims, x->rank, strides);
  for (int64_t i = 0; i < count; i++) {
    int64_t at, from = 0;
    CARNOT_TRY(carnot_index(carnot_load_i64(indices->dtype, indices->data, (size_t)i),
                            x->dims[axis], i, &at));
    for (int d = 0; d < x->rank; d++) from += (d == axis ? at : index[d]) * strides[d];
    carnot_copy_elements(x->dtype, y->data, i, x->data, from, 1);
    for (int d = x->rank - 1; d >= 0 && ++index[d] == indices->dims[d]; d--) index[d] = 0;
  }
  return NULL;
}

// ---- gather_nd ----

static carnot_status* infer_gather_nd(carnot_infer* infer) {
  const carnot_type *x, *indices;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &indices));
  int64_t batch = carnot_infer_int(infer, "batch_dims");
  bool known =
      x->rank >= 0 && indices->rank > 0 && carnot_sym_is_const(indices->dims[indices->rank - 1]);
  if (!known) {
    carnot_infer_set(infer, 0, x->dtype, -1, NULL);
    return NULL;
  }
  int64_t depth = indices->dims[indices->rank - 1].bits;
  CARNOT_CHECK(batch >= 0 && batch < indices->rank && depth >= 1 && batch + depth <= x->rank,
               INVALID_MODEL,
               "indices of %lld numbers after %lld batch dimensions do not fit rank %d",
               (long long)depth, (long long)batch, x->rank);
  carnot_sym dims[2 * CARNOT_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < indices->rank - 1; i++) dims[rank++] = indices->dims[i];
  for (int i = (int)(batch + depth); i < x->rank; i++) dims[rank++] = x->dims[i];
  CARNOT_CHECK(rank <= CARNOT_MAX_RANK, UNSUPPORTED, "%d dimensions where at most %d are supported",
               rank, CARNOT_MAX_RANK);
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  return NULL;
}

static carnot_status* run_gather_nd(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *indices = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int batch = (int)carnot_call_int(call, "batch_dims"),
      depth = (int)indices->dims[indices->rank - 1];
  int64_t rows = carnot_dims_count(indices->dims, indices->rank - 1),
          batches = carnot_dims_count(x->dims, batch);
  CARNOT_CHECK(batches == carnot_dims_count(indices->dims, batch), INVALID_MODEL,
               "the batch dimensions of input and indices differ");
  int64_t inner = carnot_dims_count(x->dims + batch + depth, x->rank - batch - depth);
  int64_t sample = carnot_dims_count(x->dims + batch, x->rank - batch);
  for (int64_t r = 0; r < rows; r++) {
    int64_t from = 0;
    CARNOT_TRY(carnot_index_row(indices, r * depth, depth, x->dims + batch, &from));
    from = r / (rows / batches) * sample + from * inner;
    carnot_copy_elements(x->dtype, y->data, r * inner, x->data, from, inner);
  }
  return NULL;
}

static const carnot_attr_spec kAxis[] = {{"axis", CARNOT_ATTR_INT, false, 0, NULL, NULL}, {0}};
static const carnot_attr_spec kBatch[] = {{"batch_dims", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                          {0}};

const carnot_op_row carnot_op_gather = {
    .name = "gather",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAxis,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_gather,
    .reference = run_gather,
    .source = "ONNX Gather-13",
    .layer_type = "GATHER",
};
const carnot_op_row carnot_op_gather_elements = {
    .name = "gather_elements",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAxis,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .infer = infer_gather_elements,
    .reference = run_gather_elements,
    .source = "ONNX GatherElements-13",
    .layer_type = "GATHER",
};
const carnot_op_row carnot_op_gather_nd = {
    .name = "gather_nd",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kBatch,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .infer = infer_gather_nd,
    .reference = run_gather_nd,
    .source = "ONNX GatherND-13",
    .layer_type = "GATHER",
};
