// Sliding windows: attributes, output sizes, padding of auto_pad.
#include "ops/sliding_window.h"

static bool has_spec(const carnot_op_row* row, const char* name) {
  for (const carnot_attr_spec* spec = row->attrs; spec && spec->name; spec++) {
    if (strcmp(spec->name, name) == 0) return true;
  }
  return false;
}

// A list of |count| integers from |low| to 2^31, or |otherwise| for each where it is absent.
static carnot_status* read_list(const carnot_attrs* attrs, const char* name, int count, int64_t low,
                                int64_t otherwise, int64_t* out) {
  size_t found;
  const int64_t* values = carnot_attr_ints(attrs, name, &found);
  for (int i = 0; i < count; i++) out[i] = otherwise;
  if (!values || found == 0) return NULL;
  CARNOT_CHECK(found == (size_t)count, INVALID_MODEL, "%s has %zu elements; %d are required", name,
               found, count);
  for (int i = 0; i < count; i++) {
    CARNOT_CHECK(values[i] >= low && values[i] <= INT32_MAX, INVALID_MODEL,
                 "%s[%d] is %lld; a value from %lld to %d is required", name, i,
                 (long long)values[i], (long long)low, INT32_MAX);
    out[i] = values[i];
  }
  return NULL;
}

static carnot_status* read_auto_pad(const carnot_op_row* row, const carnot_attrs* attrs,
                                    carnot_auto_pad* out) {
  *out = CARNOT_PAD_NOTSET;
  if (!has_spec(row, "auto_pad")) return NULL;
  static const char* const kNames[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  carnot_strview name = carnot_attr_text(row, attrs, "auto_pad");
  for (int i = 0; i < 4; i++) {
    if (carnot_view_is(name, kNames[i])) {
      *out = (carnot_auto_pad)i;
      return NULL;
    }
  }
  return CARNOT_ERROR(INVALID_MODEL,
                      "auto_pad is \"" CARNOT_VIEW_FMT
                      "\"; NOTSET, SAME_UPPER, SAME_LOWER or VALID is required",
                      CARNOT_VIEW_ARG(name));
}

carnot_status* carnot_sliding_window_read(const carnot_op_row* row, const carnot_attrs* attrs,
                                          int rank, const carnot_type* weights,
                                          carnot_sliding_window* out) {
  memset(out, 0, sizeof(*out));
  CARNOT_CHECK(rank >= 0 && rank <= CARNOT_SLIDING_WINDOW_RANK, INVALID_MODEL,
               "%d spatial dimensions; 0 to %d are required", rank, CARNOT_SLIDING_WINDOW_RANK);
  out->rank = rank;
  CARNOT_TRY(read_auto_pad(row, attrs, &out->auto_pad));
  CARNOT_TRY(read_list(attrs, "kernel_shape", rank, 1, 0, out->kernel));
  CARNOT_TRY(read_list(attrs, "strides", rank, 1, 1, out->strides));
  CARNOT_TRY(read_list(attrs, "dilations", rank, 1, 1, out->dilations));
  int64_t pads[2 * CARNOT_SLIDING_WINDOW_RANK];
  CARNOT_TRY(read_list(attrs, "pads", 2 * rank, -INT32_MAX, 0, pads));
  int64_t taps = 1;
  bool explicit_pads = out->auto_pad == CARNOT_PAD_NOTSET;
  for (int i = 0; i < rank; i++) {
    out->begin[i] = explicit_pads ? pads[i] : 0;
    out->end[i] = explicit_pads ? pads[rank + i] : 0;
    if (weights && weights->rank == rank + 2 && carnot_sym_is_const(weights->dims[i + 2])) {
      int64_t size = weights->dims[i + 2].bits;
      CARNOT_CHECK(!out->kernel[i] || out->kernel[i] == size, INVALID_MODEL,
                   "kernel_shape[%d] is %lld where the weights have %lld", i,
                   (long long)out->kernel[i], (long long)size);
      out->kernel[i] = size;
    }
    CARNOT_CHECK(out->kernel[i] || weights, INVALID_MODEL, "kernel_shape is absent");
    CARNOT_CHECK(
        carnot_mul_i64(taps, carnot_max_i64(out->kernel[i], 1), &taps) && taps <= INT32_MAX,
        OUT_OF_RANGE, "the kernel has more than %d elements", INT32_MAX);
  }
  return NULL;
}

carnot_status* carnot_sliding_window_of_call(const carnot_call* call, int rank,
                                             const carnot_tensor* weights,
                                             carnot_sliding_window* out) {
  carnot_type type = {CARNOT_VALUE_TENSOR, CARNOT_DTYPE_INVALID, 0, {{0}}, NULL};
  if (weights) {
    type.rank = weights->rank;
    for (int i = 0; i < weights->rank; i++) type.dims[i] = carnot_sym_of(weights->dims[i]);
  }
  return carnot_sliding_window_read(call->row, call->attrs, rank, weights ? &type : NULL, out);
}

carnot_status* carnot_sliding_window_infer(carnot_infer* infer, const carnot_sliding_window* w,
                                           const carnot_sym* in, carnot_sym* out) {
  carnot_syms* t = infer->syms;
  for (int i = 0; i < w->rank; i++) {
    carnot_sym stride = carnot_sym_of(w->strides[i]);
    if (w->auto_pad == CARNOT_PAD_SAME_UPPER || w->auto_pad == CARNOT_PAD_SAME_LOWER) {
      out[i] = carnot_sym_ceildiv(t, in[i], stride);
      continue;
    }
    if (!w->kernel[i]) {  // the weights' size is not known
      out[i] = carnot_infer_unknown(infer, INT32_MAX);
      continue;
    }
    int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
    carnot_sym room = carnot_sym_add(t, in[i], carnot_sym_of(w->begin[i] + w->end[i] - reach));
    CARNOT_CHECK(!carnot_sym_is_const(room) || room.bits >= -1, INVALID_MODEL,
                 "spatial dimension %d is %lld with padding %lld; the kernel reaches over %lld", i,
                 (long long)in[i].bits, (long long)(w->begin[i] + w->end[i]), (long long)reach);
    if (!w->ceil_mode || carnot_sym_is(room, -1)) {
      out[i] = carnot_sym_add(t, carnot_sym_floordiv(t, room, stride), carnot_sym_of(1));
      if (carnot_sym_is(room, -1)) out[i] = carnot_sym_of(0);
      continue;
    }
    // The last window begins inside the input or the padding before it.
    carnot_sym most =
        carnot_sym_ceildiv(t, carnot_sym_add(t, in[i], carnot_sym_of(w->begin[i])), stride);
    out[i] = carnot_sym_min(
        t, most, carnot_sym_add(t, carnot_sym_ceildiv(t, room, stride), carnot_sym_of(1)));
  }
  return NULL;
}

void carnot_sliding_window_resolve(carnot_sliding_window* w, const int64_t* in,
                                   const int64_t* out) {
  if (w->auto_pad != CARNOT_PAD_SAME_UPPER && w->auto_pad != CARNOT_PAD_SAME_LOWER) return;
  for (int i = 0; i < w->rank; i++) {
    int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
    int64_t total = carnot_max_i64((out[i] - 1) * w->strides[i] + reach - in[i], 0);
    w->begin[i] = w->auto_pad == CARNOT_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    w->end[i] = total - w->begin[i];
  }
}

void carnot_sliding_window_resolve_transposed(carnot_sliding_window* w, int axis, int64_t in,
                                              int64_t out, int64_t extra) {
  const int64_t total = w->strides[axis] * (in - 1) + extra +
                        (w->kernel[axis] - 1) * w->dilations[axis] + 1 - out,
                padded = carnot_max_i64(total, 0);
  w->begin[axis] = w->auto_pad == CARNOT_PAD_SAME_UPPER ? padded / 2 : padded - padded / 2;
  w->end[axis] = total - w->begin[axis];
}
