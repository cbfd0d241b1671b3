// Operators on shapes, and changes of shape that leave the data as they are.
//   identity y = x · shape y = dimensions [start, end) of x · size y = their product
//   reshape, squeeze, unsqueeze: the same elements in the same order · expand: broadcast to a shape
// Source: ONNX Identity-25, Shape-25, Size-25, Reshape-25, Squeeze-25, Unsqueeze-25, Expand-13.
#include "ops/infer_help.h"
#include "ops/strided_copy.h"

// Passes the known elements of input 0 on, where the output has the same elements in the same
// order.
static void pass_syms(carnot_infer* infer) {
  infer->outputs[0].syms = (carnot_sym*)(uintptr_t)infer->inputs[0].syms;
  infer->outputs[0].sym_count = infer->inputs[0].sym_count;
}

static carnot_status* copy_data(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  size_t bytes = carnot_tensor_bytes(x);
  CARNOT_CHECK(y->data && carnot_tensor_bytes(y) == bytes, INVALID_MODEL,
               "%lld elements do not fit into %lld", (long long)carnot_tensor_count(x),
               (long long)carnot_tensor_count(y));
  if (bytes) memcpy(y->data, x->data, bytes);
  return NULL;
}

// ---- identity ----

static carnot_status* infer_identity(carnot_infer* infer) {
  CARNOT_CHECK(carnot_infer_has(infer, 0), INVALID_MODEL, "input 0 of identity is missing");
  infer->outputs[0].type = *infer->inputs[0].type;
  pass_syms(infer);
  return NULL;
}

static carnot_status* run_identity(carnot_call* call) {
  const carnot_rt_value* x = call->inputs[0];
  if (!call->outputs[0]) return NULL;
  if (x->kind != CARNOT_VALUE_TENSOR)
    return carnot_call_set_items(call, 0, x->kind, x->items, x->item_count);
  CARNOT_TRY(carnot_call_size_output(call, 0, x->tensor.dtype, x->tensor.rank, x->tensor.dims));
  return copy_data(call);
}

// ---- shape, size ----

// The dimensions that attributes start and end choose.
static void shape_range(const carnot_op_row* row, const carnot_attrs* attrs, int rank,
                        int* out_start, int* out_end) {
  int64_t start = carnot_attr_int(row, attrs, "start");
  int64_t end = carnot_attr_has(attrs, "end") ? carnot_attr_int(row, attrs, "end") : rank;
  start = carnot_min_i64(carnot_max_i64(start < 0 ? start + rank : start, 0), rank);
  end = carnot_min_i64(carnot_max_i64(end < 0 ? end + rank : end, 0), rank);
  *out_start = (int)start;
  *out_end = (int)carnot_max_i64(start, end);
}

static carnot_status* infer_shape(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  if (x->rank < 0) {
    carnot_sym count = carnot_infer_unknown(infer, CARNOT_MAX_RANK);
    carnot_infer_set(infer, 0, CARNOT_DTYPE_I64, 1, &count);
    return NULL;
  }
  int start, end;
  shape_range(infer->row, infer->attrs, x->rank, &start, &end);
  carnot_sym count = carnot_sym_of(end - start);
  carnot_infer_set(infer, 0, CARNOT_DTYPE_I64, 1, &count);
  infer->outputs[0].syms =
      carnot_arena_copy(infer->arena, x->dims + start, (size_t)(end - start) * sizeof(carnot_sym));
  CARNOT_TRY(carnot_arena_status(infer->arena));
  infer->outputs[0].sym_count = (size_t)(end - start);
  return NULL;
}

static carnot_status* run_shape(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  int start, end;
  shape_range(call->row, call->attrs, x->rank, &start, &end);
  int64_t count = end - start;
  CARNOT_TRY(carnot_call_size_output(call, 0, CARNOT_DTYPE_I64, 1, &count));
  carnot_tensor* y = carnot_call_out(call, 0);
  for (int i = start; y && i < end; i++) ((int64_t*)y->data)[i - start] = x->dims[i];
  return NULL;
}

static carnot_status* infer_size(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  carnot_infer_set(infer, 0, CARNOT_DTYPE_I64, 0, NULL);
  if (x->rank < 0) return NULL;
  carnot_sym* size = CARNOT_NEW(infer->arena, carnot_sym);
  *size = carnot_sym_product(infer->syms, x->dims, (size_t)x->rank);
  infer->outputs[0].syms = size;
  infer->outputs[0].sym_count = 1;
  return NULL;
}

static carnot_status* run_size(carnot_call* call) {
  carnot_tensor* y = carnot_call_out(call, 0);
  if (y) *(int64_t*)y->data = carnot_tensor_count(carnot_call_in(call, 0));
  return NULL;
}

// ---- reshape ----

// The dimension -1 of a reshape: what is left of x. Dimensions that occur on both sides are taken
// out first, so that a zero among them does no harm and expressions stay small.
static carnot_status* fit_dim(carnot_infer* infer, const carnot_type* x, const carnot_sym* dims,
                              int rank, int open, carnot_sym* out) {
  carnot_sym left[CARNOT_MAX_RANK], rest[CARNOT_MAX_RANK];
  int left_count = x->rank, rest_count = 0;
  memcpy(left, x->dims, sizeof(left));
  for (int i = 0; i < rank; i++) {
    if (i == open) continue;
    int found = -1;
    for (int j = 0; j < left_count && found < 0; j++) {
      if (carnot_sym_same(left[j], dims[i])) found = j;
    }
    if (found < 0)
      rest[rest_count++] = dims[i];
    else
      left[found] = left[--left_count];
  }
  carnot_sym total = carnot_sym_product(infer->syms, left, (size_t)left_count);
  carnot_sym known = carnot_sym_product(infer->syms, rest, (size_t)rest_count);
  CARNOT_CHECK(!carnot_sym_is(known, 0), INVALID_MODEL,
               "dimension -1 cannot be found beside a dimension of 0");
  if (carnot_sym_is_const(total) && carnot_sym_is_const(known)) {
    CARNOT_CHECK(total.bits % known.bits == 0, INVALID_MODEL,
                 "%lld elements do not divide into %lld for dimension -1", (long long)total.bits,
                 (long long)known.bits);
  }
  *out = carnot_sym_floordiv(infer->syms, total, known);
  return NULL;
}

// The known dimensions hold no more elements than 63 bits count.
static carnot_status* check_count(const carnot_sym* dims, int rank) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++)
    if (carnot_sym_is(dims[i], 0)) return NULL;
  for (int i = 0; i < rank; i++)
    CARNOT_CHECK(!carnot_sym_is_const(dims[i]) || carnot_mul_i64(count, dims[i].bits, &count),
                 INVALID_MODEL, "dimension %d is %lld: the shape has more than 2^63 - 1 elements",
                 i, (long long)dims[i].bits);
  return NULL;
}

static carnot_status* infer_reshape(carnot_infer* infer) {
  const carnot_type *x, *shape;
  const carnot_sym* wanted;
  size_t count;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &shape));
  CARNOT_TRY(carnot_infer_ints(infer, 1, &wanted, &count));
  if (!wanted) {
    carnot_infer_set_unknown(infer, 0, x->dtype, carnot_infer_list_length(infer, 1));
    return NULL;
  }
  CARNOT_CHECK(count <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%zu dimensions where at most %d are supported", count, CARNOT_MAX_RANK);
  bool keep_zero = carnot_infer_int(infer, "allowzero") != 0;
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank = (int)count, open = -1;
  for (int i = 0; i < rank; i++) {
    dims[i] = wanted[i];
    if (carnot_sym_is(wanted[i], 0) && !keep_zero) {
      CARNOT_CHECK(x->rank < 0 || i < x->rank, INVALID_MODEL,
                   "dimension %d is to be copied from an input of rank %d", i, x->rank);
      dims[i] = x->rank < 0 ? carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED) : x->dims[i];
    } else if (carnot_sym_is(wanted[i], -1)) {
      CARNOT_CHECK(open < 0, INVALID_MODEL, "dimensions %d and %d are both -1", open, i);
      open = i;
    } else {
      CARNOT_CHECK(!carnot_sym_is_const(wanted[i]) || wanted[i].bits >= 0, INVALID_MODEL,
                   "dimension %d is %lld, must be -1 or more", i, (long long)wanted[i].bits);
    }
  }
  if (open >= 0) dims[open] = carnot_sym_of(1);
  CARNOT_TRY(check_count(dims, rank));
  if (open >= 0 && x->rank < 0)
    dims[open] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  else if (open >= 0)
    CARNOT_TRY(fit_dim(infer, x, dims, rank, open, &dims[open]));
  if (x->rank >= 0) {
    carnot_sym have = carnot_sym_product(infer->syms, x->dims, (size_t)x->rank);
    carnot_sym want = carnot_sym_product(infer->syms, dims, (size_t)rank);
    CARNOT_CHECK(!carnot_sym_is_const(have) || !carnot_sym_is_const(want) || have.bits == want.bits,
                 INVALID_MODEL, "%lld elements do not fill a shape of %lld", (long long)have.bits,
                 (long long)want.bits);
  }
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  pass_syms(infer);
  return NULL;
}

// ---- squeeze, unsqueeze ----

// The axes input as a set of bits below |rank|; false when it is not known.
static carnot_status* axes_set(carnot_infer* infer, int rank, unsigned* out_set, bool* out_known) {
  const carnot_sym* axes;
  size_t count;
  *out_set = 0;
  *out_known = false;
  CARNOT_TRY(carnot_infer_ints(infer, 1, &axes, &count));
  if (!axes) return NULL;
  for (size_t i = 0; i < count; i++) {
    if (!carnot_sym_is_const(axes[i])) return NULL;
    int axis;
    CARNOT_TRY(carnot_axis(axes[i].bits, rank, "axis", &axis));
    CARNOT_CHECK(!(*out_set >> axis & 1), INVALID_MODEL, "axis %d is named twice", axis);
    *out_set |= 1u << axis;
  }
  *out_known = true;
  return NULL;
}

// Without axes every dimension of one goes; which those are must be decided.
static bool ones_of(carnot_infer* infer, const carnot_type* x, unsigned* out_set) {
  *out_set = 0;
  for (int i = 0; i < x->rank; i++) {
    int64_t min, max;
    carnot_sym_range(infer->syms, x->dims[i], &min, &max);
    if (carnot_sym_is(x->dims[i], 1))
      *out_set |= 1u << i;
    else if (min <= 1 && max >= 1)
      return false;
  }
  return true;
}

static carnot_status* infer_squeeze(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  unsigned set = 0;
  bool known = false;
  if (x->rank >= 0 && carnot_infer_has(infer, 1))
    CARNOT_TRY(axes_set(infer, x->rank, &set, &known));
  else if (x->rank >= 0)
    known = ones_of(infer, x, &set);
  if (!known) {
    int count = carnot_infer_has(infer, 1) ? carnot_infer_list_length(infer, 1) : -1;
    carnot_infer_set_unknown(infer, 0, x->dtype,
                             x->rank >= 0 && count >= 0 && count <= x->rank ? x->rank - count : -1);
    return NULL;
  }
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < x->rank; i++) {
    if (!(set >> i & 1)) {
      dims[rank++] = x->dims[i];
      continue;
    }
    CARNOT_CHECK(!carnot_sym_is_const(x->dims[i]) || x->dims[i].bits == 1, INVALID_MODEL,
                 "dimension %d is %lld, only one of 1 can be squeezed", i,
                 (long long)x->dims[i].bits);
  }
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  pass_syms(infer);
  return NULL;
}

static carnot_status* infer_unsqueeze(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  const carnot_sym* axes;
  size_t count;
  CARNOT_TRY(carnot_infer_ints(infer, 1, &axes, &count));
  int added = axes ? (int)carnot_min_i64((int64_t)count, CARNOT_MAX_RANK + 1)
                   : carnot_infer_list_length(infer, 1);
  int rank = x->rank < 0 || added < 0 ? -1 : x->rank + added;
  CARNOT_CHECK(rank <= CARNOT_MAX_RANK, UNSUPPORTED, "%d dimensions where at most %d are supported",
               rank, CARNOT_MAX_RANK);
  unsigned set = 0;
  bool known = false;
  if (rank >= 0) CARNOT_TRY(axes_set(infer, rank, &set, &known));
  if (!known) {
    carnot_infer_set_unknown(infer, 0, x->dtype, rank);
    return NULL;
  }
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int i = 0, from = 0; i < rank; i++)
    dims[i] = set >> i & 1 ? carnot_sym_of(1) : x->dims[from++];
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  pass_syms(infer);
  return NULL;
}

// ---- expand ----

static carnot_status* infer_expand(carnot_infer* infer) {
  const carnot_type *x, *shape;
  const carnot_sym* wanted;
  size_t count;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &shape));
  CARNOT_TRY(carnot_infer_ints(infer, 1, &wanted, &count));
  if (!wanted) {
    int length = carnot_infer_list_length(infer, 1);
    carnot_infer_set_unknown(
        infer, 0, x->dtype, x->rank < 0 || length < 0 ? -1 : (length > x->rank ? length : x->rank));
    return NULL;
  }
  CARNOT_CHECK(count <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%zu dimensions where at most %d are supported", count, CARNOT_MAX_RANK);
  carnot_type target = {.kind = CARNOT_VALUE_TENSOR, .dtype = x->dtype, .rank = (int)count};
  for (size_t i = 0; i < count; i++) {
    CARNOT_CHECK(!carnot_sym_is_const(wanted[i]) || wanted[i].bits >= 0, INVALID_MODEL,
                 "dimension %zu is %lld, must be 0 or more", i, (long long)wanted[i].bits);
    target.dims[i] = wanted[i];
  }
  CARNOT_TRY(carnot_infer_broadcast(infer, &target, x));
  carnot_infer_set(infer, 0, x->dtype, target.rank, target.dims);
  carnot_sym total =
      carnot_sym_product(infer->syms, target.dims, (size_t)(target.rank < 0 ? 0 : target.rank));
  if (target.rank < 0 || infer->inputs[0].sym_count != 1 || !carnot_sym_is_const(total) ||
      total.bits > CARNOT_MAX_SYMS) {
    return NULL;
  }
  carnot_sym* syms = CARNOT_NEW_ARRAY(infer->arena, carnot_sym, (size_t)total.bits + 1);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  for (int64_t i = 0; i < total.bits; i++) syms[i] = infer->inputs[0].syms[0];
  infer->outputs[0].syms = syms;
  infer->outputs[0].sym_count = (size_t)total.bits;
  return NULL;
}

static carnot_status* run_expand(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  carnot_strided_copy move = {.dtype = x->dtype, .rank = y->rank};
  int64_t strides[CARNOT_MAX_RANK];
  carnot_strides(x->dims, x->rank, strides);
  carnot_strides(y->dims, y->rank, move.dst_strides);
  for (int i = 0; i < y->rank; i++) {
    int from = i - (y->rank - x->rank);
    move.dims[i] = y->dims[i];
    move.src_strides[i] = from < 0 || x->dims[from] == 1 ? 0 : strides[from];
  }
  carnot_strided_copy_run(&move, y->data, x->data);
  return NULL;
}

// ---- rows ----

static const carnot_attr_spec kShapeAttrs[] = {{"start", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                               {"end", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                               {0}};
static const carnot_attr_spec kReshapeAttrs[] = {
    {"allowzero", CARNOT_ATTR_INT, false, 0, NULL, NULL}, {0}};

const carnot_op_row carnot_op_identity = {
    .name = "identity",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_IGNORES_PRECISION,
    .axes = {.moves = true},
    .infer = infer_identity,
    .reference = run_identity,
    .source = "ONNX Identity-25",
    .layer_type = "IDENTITY",
};
const carnot_op_row carnot_op_shape = {
    .name = "shape",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kShapeAttrs,
    .traits = CARNOT_TRAIT_READS_DIMS_ONLY,
    .infer = infer_shape,
    .reference = run_shape,
    .source = "ONNX Shape-25",
    .layer_type = "SHAPE",
};
const carnot_op_row carnot_op_size = {
    .name = "size",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .traits = CARNOT_TRAIT_READS_DIMS_ONLY,
    .infer = infer_size,
    .reference = run_size,
    .source = "ONNX Size-25",
    .layer_type = "SHAPE",
};
const carnot_op_row carnot_op_reshape = {
    .name = "reshape",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kReshapeAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_VIEW | CARNOT_TRAIT_IGNORES_PRECISION,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_reshape,
    .reference = copy_data,
    .source = "ONNX Reshape-25",
    .layer_type = "SHUFFLE",
};
const carnot_op_row carnot_op_squeeze = {
    .name = "squeeze",
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_VIEW | CARNOT_TRAIT_IGNORES_PRECISION,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_squeeze,
    .reference = copy_data,
    .source = "ONNX Squeeze-25",
    .layer_type = "SQUEEZE",
};
const carnot_op_row carnot_op_unsqueeze = {
    .name = "unsqueeze",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_VIEW | CARNOT_TRAIT_IGNORES_PRECISION,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_unsqueeze,
    .reference = copy_data,
    .source = "ONNX Unsqueeze-25",
    .layer_type = "UNSQUEEZE",
};
const carnot_op_row carnot_op_expand = {
    .name = "expand",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_expand,
    .reference = run_expand,
    .source = "ONNX Expand-13",
    .layer_type = "SLICE",
};
