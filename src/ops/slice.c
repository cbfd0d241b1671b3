// A box cut out of a tensor, with steps.
//   y[i] = x[start + i * step] on each axis named; ends and negative positions as in Python.
// Source: ONNX Slice-13.
#include "ops/infer_help.h"
#include "ops/strided_copy.h"

// Exporters write INT32_MAX or INT64_MAX for "to the end": of a dimension not known that is taken
// at its word.
#define FAR ((int64_t)INT32_MAX)

// |at| clamped to [low, high] for a dimension |d|, negative positions counted from the end.
static carnot_sym clamp_position(carnot_infer* infer, carnot_sym at, carnot_sym d, carnot_sym low,
                                 carnot_sym high) {
  carnot_syms* s = infer->syms;
  int64_t min, max;
  carnot_sym_range(s, at, &min, &max);
  bool open = carnot_sym_is_const(at) && !carnot_sym_is_const(d);
  if (open && at.bits >= FAR) return high;
  if (open && at.bits < -FAR) return low;
  carnot_sym from_end = carnot_sym_add(s, d, at);
  if (max < 0) return carnot_sym_min(s, carnot_sym_max(s, from_end, low), high);
  if (min >= 0) return carnot_sym_min(s, at, high);
  carnot_sym negative = carnot_sym_make(s, CARNOT_SYM_LT, at, carnot_sym_of(0), carnot_sym_of(0));
  carnot_sym real = carnot_sym_make(s, CARNOT_SYM_SELECT, negative, from_end, at);
  return carnot_sym_min(s, carnot_sym_max(s, real, low), high);
}

// Start position and length of what is cut from a dimension |d|.
static void cut(carnot_infer* infer, carnot_sym d, carnot_sym start, carnot_sym end, int64_t step,
                carnot_sym* out_start, carnot_sym* out_length) {
  carnot_syms* s = infer->syms;
  carnot_sym zero = carnot_sym_of(0), last = carnot_sym_sub(s, d, carnot_sym_of(1));
  if (step > 0) {
    carnot_sym lo = clamp_position(infer, start, d, zero, d),
               hi = clamp_position(infer, end, d, zero, d);
    *out_start = lo;
    *out_length = carnot_sym_max(
        s, carnot_sym_ceildiv(s, carnot_sym_sub(s, hi, lo), carnot_sym_of(step)), zero);
    return;
  }
  // Backwards the start lies in [0, d - 1] and the end in [-1, d - 1].
  carnot_sym lo = clamp_position(infer, start, d, zero, last);
  carnot_sym hi = clamp_position(infer, end, d, carnot_sym_of(-1), last);
  // Of the most negative step any length gives one element: negation must not overflow.
  int64_t width = step == INT64_MIN ? INT64_MAX : -step;
  *out_start = lo;
  *out_length =
      carnot_sym_max(s,
                     carnot_sym_ceildiv(s, carnot_sym_sub(s, lo, hi),
                                        carnot_sym_of(carnot_min_i64(width, CARNOT_DIM_UNBOUNDED))),
                     zero);
}

typedef struct box {
  carnot_sym start[CARNOT_MAX_RANK], length[CARNOT_MAX_RANK];
  int64_t step[CARNOT_MAX_RANK];
} box;

// Axes named and not known in their bounds get unknown lengths; *out_known is false where not even
// axes are known.
static carnot_status* find_box(carnot_infer* infer, const carnot_type* x, box* b, bool* out_known) {
  const int64_t *axes, *steps;
  const carnot_sym *starts, *ends;
  size_t axis_count, step_count, start_count, end_count;
  bool axes_known, steps_known;
  CARNOT_TRY(carnot_infer_ints(infer, 1, &starts, &start_count));
  CARNOT_TRY(carnot_infer_ints(infer, 2, &ends, &end_count));
  CARNOT_TRY(carnot_infer_plain_ints(infer, 3, &axes, &axis_count, &axes_known));
  CARNOT_TRY(carnot_infer_plain_ints(infer, 4, &steps, &step_count, &steps_known));
  int length = carnot_infer_list_length(infer, 1);
  size_t count = starts ? start_count
                 : ends ? end_count
                 : axes ? axis_count
                        : (size_t)(length < 0 ? 0 : length);
  *out_known = axes_known && (starts || ends || axes || length >= 0);
  if (!*out_known) return NULL;
  CARNOT_CHECK((!ends || end_count == count) && (!axes || axis_count == count) &&
                   (!steps || step_count == count) && count <= (size_t)x->rank,
               INVALID_MODEL, "%zu starts, %zu ends, %zu axes and %zu steps for rank %d", count,
               end_count, axis_count, step_count, x->rank);
  for (int d = 0; d < x->rank; d++) {
    b->start[d] = carnot_sym_of(0);
    b->length[d] = x->dims[d];
    b->step[d] = 1;
  }
  for (size_t i = 0; i < count; i++) {
    int axis;
    CARNOT_TRY(carnot_axis(axes ? axes[i] : (int64_t)i, x->rank, "axis", &axis));
    b->length[axis] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
    if (!starts || !ends || !steps_known) continue;
    b->step[axis] = steps ? steps[i] : 1;
    CARNOT_CHECK(b->step[axis] != 0, INVALID_MODEL, "the step of axis %d is 0", axis);
    cut(infer, x->dims[axis], starts[i], ends[i], b->step[axis], &b->start[axis], &b->length[axis]);
  }
  return NULL;
}

static carnot_status* infer_slice(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  if (x->rank < 0) {
    carnot_infer_set(infer, 0, x->dtype, -1, NULL);
    return NULL;
  }
  box b;
  bool known;
  CARNOT_TRY(find_box(infer, x, &b, &known));
  if (!known) {
    carnot_infer_set_unknown(infer, 0, x->dtype, x->rank);
    return NULL;
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, b.length);
  const carnot_sym* from = infer->inputs[0].syms;
  if (x->rank != 1 || !from || !carnot_sym_is_const(b.start[0]) ||
      !carnot_sym_is_const(b.length[0]))
    return NULL;
  carnot_sym* syms = carnot_infer_room_for_syms(infer, 0, b.length[0].bits);
  for (int64_t i = 0; syms && i < b.length[0].bits; i++)
    syms[i] = from[b.start[0].bits + i * b.step[0]];
  return NULL;
}

// The same on plain numbers.
static int64_t position(int64_t at, int64_t d, int64_t low, int64_t high) {
  if (at < 0) at += d;
  return carnot_max_i64(low, carnot_min_i64(at, high));
}

static carnot_status* run_slice(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  const int64_t *starts, *axes, *steps;
  size_t count, axis_count, step_count;
  CARNOT_TRY(carnot_call_ints(call, carnot_call_in(call, 1), &starts, &count));
  CARNOT_TRY(carnot_call_ints(call, carnot_call_in(call, 3), &axes, &axis_count));
  CARNOT_TRY(carnot_call_ints(call, carnot_call_in(call, 4), &steps, &step_count));
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  carnot_strided_copy move = {.dtype = x->dtype, .rank = x->rank};
  int64_t strides[CARNOT_MAX_RANK];
  carnot_strides(x->dims, x->rank, strides);
  carnot_strides(y->dims, y->rank, move.dst_strides);
  for (int d = 0; d < x->rank; d++) {
    move.dims[d] = y->dims[d];
    move.src_strides[d] = strides[d];
  }
  for (size_t i = 0; i < count; i++) {
    int axis;
    CARNOT_TRY(carnot_axis(axes ? axes[i] : (int64_t)i, x->rank, "axis", &axis));
    int64_t step = steps ? steps[i] : 1, d = x->dims[axis];
    int64_t start = position(starts[i], d, 0, step > 0 ? d : d - 1);
    move.src_offset += start * strides[axis];
    // With one element or none the step does not matter, and a huge one would overflow.
    move.src_strides[axis] = y->dims[axis] > 1 ? strides[axis] * step : 0;
  }
  carnot_strided_copy_run(&move, y->data, x->data);
  return NULL;
}

const carnot_op_row carnot_op_slice = {
    .name = "slice",
    .min_inputs = 3,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .axes = {.moves = true, .axes_input = CARNOT_AXES_INPUT(3)},
    .infer = infer_slice,
    .reference = run_slice,
    .source = "ONNX Slice-13",
    .layer_type = "SLICE",
};
