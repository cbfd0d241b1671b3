// Joining tensors along an axis, and taking them apart.
//   concat y = [x_0, x_1, …] · split: y_0, y_1, … = x, of the sizes given or of equal ones (the
//   last may be smaller)
// Source: ONNX Concat-13, Split-18.
#include "ops/infer_help.h"
#include "ops/strided_copy.h"

// ---- concat ----

// The elements of all inputs behind one another, where they are known.
static void join_syms(carnot_infer* infer) {
  int64_t total = 0;
  for (int i = 0; i < infer->input_count; i++) {
    if (!infer->inputs[i].syms || infer->inputs[i].type->rank != 1) return;
    total += (int64_t)infer->inputs[i].sym_count;
  }
  carnot_sym* syms = carnot_infer_room_for_syms(infer, 0, total);
  size_t at = 0;
  for (int i = 0; syms && i < infer->input_count; i++) {
    for (size_t k = 0; k < infer->inputs[i].sym_count; k++) syms[at++] = infer->inputs[i].syms[k];
  }
}

static carnot_status* infer_concat(carnot_infer* infer) {
  carnot_type out = {.rank = -1};
  int axis = 0, known = 0;
  for (int i = 0; i < infer->input_count; i++) {
    const carnot_type* x;
    CARNOT_TRY(carnot_infer_tensor(infer, i, &x));
    if (i == 0) out.dtype = x->dtype;
    CARNOT_CHECK(x->dtype == out.dtype, INVALID_MODEL, "input %d has type %s, input 0 has %s", i,
                 carnot_dtype_name(x->dtype), carnot_dtype_name(out.dtype));
    if (x->rank < 0) continue;
    known++;
    if (out.rank < 0) {
      out = *x;
      CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
      continue;
    }
    CARNOT_CHECK(x->rank == out.rank, INVALID_MODEL, "input %d has rank %d, others have %d", i,
                 x->rank, out.rank);
    for (int d = 0; d < x->rank; d++) {
      if (d == axis)
        out.dims[d] = carnot_sym_add(infer->syms, out.dims[d], x->dims[d]);
      else
        CARNOT_TRY_AT(carnot_infer_merge(infer, out.dims[d], x->dims[d], "sizes beside the axis",
                                         &out.dims[d]),
                      "input %d, dimension %d", i, d);
    }
  }
  if (out.rank >= 0 && known < infer->input_count)
    out.dims[axis] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  carnot_infer_set(infer, 0, out.dtype, out.rank, out.dims);
  join_syms(infer);
  return NULL;
}

static carnot_status* run_concat(carnot_call* call) {
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int axis;
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), y->rank, "axis", &axis));
  int64_t outer = carnot_dims_count(y->dims, axis),
          row = carnot_dims_count(y->dims + axis, y->rank - axis), at = 0;
  for (int i = 0; i < call->input_count; i++) {
    const carnot_tensor* x = carnot_call_in(call, i);
    int64_t part = carnot_dims_count(x->dims + axis, x->rank - axis);
    carnot_strided_copy move = {.dtype = x->dtype,
                                .rank = 2,
                                .dims = {outer, part},
                                .src_strides = {part, 1},
                                .dst_strides = {row, 1},
                                .dst_offset = at};
    carnot_strided_copy_run(&move, y->data, x->data);
    at += part;
  }
  return NULL;
}

// ---- split ----

// The size of each part as expressions.
static carnot_status* part_sizes(carnot_infer* infer, carnot_sym whole, carnot_sym* sizes) {
  int count = infer->output_count;
  const carnot_sym* given = NULL;
  size_t given_count = 0;
  if (carnot_infer_has(infer, 1)) {
    CARNOT_TRY(carnot_infer_ints(infer, 1, &given, &given_count));
    CARNOT_CHECK(!given || given_count == (size_t)count, INVALID_MODEL, "%zu sizes for %d outputs",
                 given_count, count);
    carnot_sym sum = carnot_sym_of(0);
    for (int i = 0; i < count; i++) {
      sizes[i] = given ? given[i] : carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
      CARNOT_CHECK(!carnot_sym_is_const(sizes[i]) || sizes[i].bits >= 0, INVALID_MODEL,
                   "size %d is %lld, must be 0 or more", i, (long long)sizes[i].bits);
      sum = carnot_sym_add(infer->syms, sum, sizes[i]);
    }
    if (given)
      CARNOT_TRY(carnot_infer_merge(infer, sum, whole, "the sum of the sizes and the axis", &sum));
    return NULL;
  }
  int64_t parts =
      carnot_attr_has(infer->attrs, "num_outputs") ? carnot_infer_int(infer, "num_outputs") : count;
  CARNOT_CHECK(parts == count, INVALID_MODEL, "num_outputs is %lld for %d outputs",
               (long long)parts, count);
  carnot_sym each = carnot_sym_ceildiv(infer->syms, whole, carnot_sym_of(count));
  bool even = carnot_sym_divisor(infer->syms, whole) % count == 0;
  for (int i = 0; i < count; i++) sizes[i] = each;
  if (!even) {
    carnot_sym before = carnot_sym_make(infer->syms, CARNOT_SYM_MUL, each, carnot_sym_of(count - 1),
                                        carnot_sym_of(0));
    sizes[count - 1] = carnot_sym_sub(infer->syms, whole, before);
    CARNOT_CHECK(!carnot_sym_is_const(sizes[count - 1]) || sizes[count - 1].bits >= 0,
                 INVALID_MODEL, "an axis of %lld does not split into %d parts",
                 (long long)whole.bits, count);
  }
  return NULL;
}

static carnot_status* infer_split(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  if (x->rank < 0) {
    for (int i = 0; i < infer->output_count; i++) carnot_infer_set(infer, i, x->dtype, -1, NULL);
    return NULL;
  }
  int axis;
  CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
  carnot_sym* sizes = CARNOT_NEW_ARRAY(infer->arena, carnot_sym, (size_t)infer->output_count + 1);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  CARNOT_TRY(part_sizes(infer, x->dims[axis], sizes));
  const carnot_sym* known = x->rank == 1 ? infer->inputs[0].syms : NULL;
  int64_t at = 0;
  for (int i = 0; i < infer->output_count; i++) {
    carnot_sym dims[CARNOT_MAX_RANK];
    memcpy(dims, x->dims, sizeof(dims));
    dims[axis] = sizes[i];
    carnot_infer_set(infer, i, x->dtype, x->rank, dims);
    if (!carnot_sym_is_const(sizes[i])) known = NULL;
    carnot_sym* syms = known ? carnot_infer_room_for_syms(infer, i, sizes[i].bits) : NULL;
    for (int64_t k = 0; syms && k < sizes[i].bits; k++) syms[k] = known[at + k];
    at += known ? sizes[i].bits : 0;
  }
  return NULL;
}

static carnot_status* run_split(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *split = carnot_call_in(call, 1);
  int axis;
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  int64_t outer = carnot_dims_count(x->dims, axis),
          row = carnot_dims_count(x->dims + axis, x->rank - axis);
  int64_t inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1), at = 0;
  int64_t whole = x->dims[axis], each = carnot_ceildiv(whole, call->output_count);
  for (int i = 0; i < call->output_count; i++) {
    int64_t size = split ? carnot_load_i64(split->dtype, split->data, (size_t)i)
                         : carnot_min_i64(each, whole - at);
    CARNOT_CHECK(size >= 0 && size <= whole - at, INVALID_MODEL,
                 "part %d of size %lld does not fit into %lld", i, (long long)size,
                 (long long)(whole - at));
    carnot_tensor* y = carnot_call_out(call, i);
    if (y) {
      carnot_strided_copy move = {.dtype = x->dtype,
                                  .rank = 2,
                                  .dims = {outer, size * inner},
                                  .src_strides = {row, 1},
                                  .dst_strides = {size * inner, 1},
                                  .src_offset = at * inner};
      carnot_strided_copy_run(&move, y->data, x->data);
    }
    at += size;
  }
  return NULL;
}

static const carnot_attr_spec kConcatAttrs[] = {{"axis", CARNOT_ATTR_INT, true, 0, NULL, NULL},
                                                {0}};
static const carnot_attr_spec kSplitAttrs[] = {
    {"axis", CARNOT_ATTR_INT, false, 0, NULL, NULL},
    {"num_outputs", CARNOT_ATTR_INT, false, 0, NULL, NULL},
    {0}};

const carnot_op_row carnot_op_concat = {
    .name = "concat",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kConcatAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .axes = {.moves = true, .all_inputs = true, .axis = "axis"},
    .infer = infer_concat,
    .reference = run_concat,
    .source = "ONNX Concat-13",
    .layer_type = "CONCATENATION",
};
const carnot_op_row carnot_op_split = {
    .name = "split",
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = -1,
    .attrs = kSplitAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .axes = {.moves = true, .axis = "axis"},
    .infer = infer_split,
    .reference = run_split,
    .source = "ONNX Split-18",
    .layer_type = "SLICE",
};
