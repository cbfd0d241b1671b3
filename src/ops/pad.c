// Borders added to or taken from a tensor.
//   pad: constant value, edge (the last element repeats), reflect (without the last element), wrap;
//   negative pads cut center_crop_pad: cropped or padded with zeros around the middle, to a shape
// Source: ONNX Pad-25, CenterCropPad-18.
#include "ops/infer_help.h"
#include "ops/strided_copy.h"

// Axes that input |input| or the attribute names, all of them when absent, and whether that is
// known.
static carnot_status* pad_axes(carnot_infer* infer, int rank, int* out_axes, int* out_count,
                               bool* out_known) {
  const int64_t* axes;
  size_t count;
  CARNOT_TRY(carnot_infer_plain_ints(infer, 3, &axes, &count, out_known));
  if (!*out_known) return NULL;
  if (!axes) count = (size_t)rank;
  CARNOT_CHECK(count <= (size_t)rank, INVALID_MODEL, "%zu axes for rank %d", count, rank);
  for (size_t i = 0; i < count; i++)
    CARNOT_TRY(carnot_axis(axes ? axes[i] : (int64_t)i, rank, "axis", &out_axes[i]));
  *out_count = (int)count;
  return NULL;
}

static carnot_status* infer_pad(carnot_infer* infer) {
  const carnot_type* x;
  const carnot_sym* pads;
  size_t pad_count;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_ints(infer, 1, &pads, &pad_count));
  int axes[CARNOT_MAX_RANK], count = 0;
  bool known = false;
  if (x->rank >= 0) CARNOT_TRY(pad_axes(infer, x->rank, axes, &count, &known));
  if (!known || !pads) {
    carnot_infer_set_unknown(infer, 0, x->dtype, x->rank);
    return NULL;
  }
  CARNOT_CHECK(pad_count == 2 * (size_t)count, INVALID_MODEL,
               "%zu pads for %d axes, must be two for each", pad_count, count);
  carnot_sym dims[CARNOT_MAX_RANK];
  memcpy(dims, x->dims, sizeof(dims));
  for (int i = 0; i < count; i++) {
    int d = axes[i];
    dims[d] =
        carnot_sym_add(infer->syms, dims[d], carnot_sym_add(infer->syms, pads[i], pads[i + count]));
    CARNOT_CHECK(!carnot_sym_is_const(dims[d]) || dims[d].bits >= 0, INVALID_MODEL,
                 "dimension %d becomes %lld with its pads", d, (long long)dims[d].bits);
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

enum { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_WRAP };

// Where position |i| (before 0 or behind d - 1 too) is taken from; -1: the constant.
static int64_t source_of(int64_t i, int64_t d, int mode) {
  if (i >= 0 && i < d) return i;
  if (mode == PAD_CONSTANT || d == 0) return -1;
  if (mode == PAD_EDGE || d == 1) return i < 0 ? 0 : d - 1;
  int64_t period = mode == PAD_WRAP ? d : 2 * (d - 1);
  int64_t at = i % period;
  if (at < 0) at += period;
  return at < d ? at : period - at;
}

static carnot_status* read_mode(const carnot_call* call, int* out_mode) {
  static const char* const kModes[] = {"constant", "edge", "reflect", "wrap"};
  for (*out_mode = 0; *out_mode < 4; (*out_mode)++) {
    if (carnot_call_is(call, "mode", kModes[*out_mode])) return NULL;
  }
  carnot_strview mode = carnot_attr_text(call->row, call->attrs, "mode");
  return CARNOT_ERROR(INVALID_MODEL,
                      "mode \"" CARNOT_VIEW_FMT "\" must be constant, edge, reflect or wrap",
                      CARNOT_VIEW_ARG(mode));
}

// Copies row by row: |maps|[d][i] is the source of position i on axis d.
static void copy_padded(const carnot_tensor* x, const carnot_tensor* y, int64_t* const* maps,
                        const void* fill) {
  int last = y->rank - 1;
  int64_t strides[CARNOT_MAX_RANK], index[CARNOT_MAX_RANK] = {0}, row = y->rank ? y->dims[last] : 1;
  carnot_strides(x->dims, x->rank, strides);
  int64_t rows = row ? carnot_tensor_count(y) / row : 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t from = 0;
    bool outside = false;
    for (int d = 0; d < last; d++) {
      int64_t at = maps[d][index[d]];
      outside |= at < 0;
      from += at * strides[d];
    }
    for (int64_t i = 0; i < row;) {
      int64_t at = outside || !y->rank ? -1 : maps[last][i], run = 1;
      if (!y->rank) at = 0;
      while (i + run < row &&
             (at < 0 ? outside || maps[last][i + run] < 0 : maps[last][i + run] == at + run))
        run++;
      if (at < 0)
        carnot_fill_elements(y->dtype, y->data, r * row + i, fill, 0, run);
      else
        carnot_copy_elements(y->dtype, y->data, r * row + i, x->data, from + at, run);
      i += run;
    }
    for (int d = last - 1; d >= 0 && ++index[d] == y->dims[d]; d--) index[d] = 0;
  }
}

// Positions of every axis: output i is position i - before[d] of the input.
static carnot_status* make_maps(const carnot_call* call, const carnot_tensor* x,
                                const carnot_tensor* y, const int64_t* before, int mode,
                                int64_t** maps) {
  for (int d = 0; d < y->rank; d++) {
    void* memory;
    CARNOT_TRY(carnot_call_alloc(call, (size_t)(y->dims[d] + 1) * sizeof(int64_t), &memory));
    maps[d] = memory;
    for (int64_t i = 0; i < y->dims[d]; i++)
      maps[d][i] = source_of(i - before[d], x->dims[d], mode);
    CARNOT_CHECK(mode == PAD_CONSTANT || x->dims[d] > 0 || y->dims[d] == 0, INVALID_MODEL,
                 "dimension %d is empty and has nothing to pad from", d);
  }
  return NULL;
}

static carnot_status* run_pad(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *value = carnot_call_in(call, 2);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  const int64_t *pads, *axes;
  size_t pad_count, axis_count;
  CARNOT_TRY(carnot_call_ints(call, carnot_call_in(call, 1), &pads, &pad_count));
  CARNOT_TRY(carnot_call_ints(call, carnot_call_in(call, 3), &axes, &axis_count));
  int64_t before[CARNOT_MAX_RANK] = {0};
  for (size_t i = 0; i < pad_count / 2; i++) {
    int axis;
    CARNOT_TRY(carnot_axis(axes ? axes[i] : (int64_t)i, x->rank, "axis", &axis));
    before[axis] = pads[i];
  }
  int mode;
  CARNOT_TRY(read_mode(call, &mode));
  const char zero[16] = {0};
  const carnot_strview no_text = {"", 0};
  const void* fill = x->dtype == CARNOT_DTYPE_STRING ? (const void*)&no_text : zero;
  if (value && carnot_tensor_count(value) == 1) {
    CARNOT_CHECK(value->dtype == x->dtype, INVALID_MODEL, "the constant has type %s, the input %s",
                 carnot_dtype_name(value->dtype), carnot_dtype_name(x->dtype));
    fill = value->data;
  }
  int64_t* maps[CARNOT_MAX_RANK];
  CARNOT_TRY(make_maps(call, x, y, before, mode, maps));
  copy_padded(x, y, maps, fill);
  return NULL;
}

// ---- center_crop_pad ----

static carnot_status* crop_axes(const carnot_attrs* attrs, int rank, int* out_axes,
                                int* out_count) {
  size_t count;
  const int64_t* axes = carnot_attr_ints(attrs, "axes", &count);
  if (!axes) count = (size_t)rank;
  CARNOT_CHECK(count <= (size_t)rank, INVALID_MODEL, "%zu axes for rank %d", count, rank);
  for (size_t i = 0; i < count; i++)
    CARNOT_TRY(carnot_axis(axes ? axes[i] : (int64_t)i, rank, "axis", &out_axes[i]));
  *out_count = (int)count;
  return NULL;
}

static carnot_status* infer_crop(carnot_infer* infer) {
  const carnot_type* x;
  const carnot_sym* shape;
  size_t shape_count;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_ints(infer, 1, &shape, &shape_count));
  if (x->rank < 0) {
    carnot_infer_set(infer, 0, x->dtype, -1, NULL);
    return NULL;
  }
  int axes[CARNOT_MAX_RANK], count = 0;
  CARNOT_TRY(crop_axes(infer->attrs, x->rank, axes, &count));
  CARNOT_CHECK(!shape || shape_count == (size_t)count, INVALID_MODEL, "a shape of %zu for %d axes",
               shape_count, count);
  carnot_sym dims[CARNOT_MAX_RANK];
  memcpy(dims, x->dims, sizeof(dims));
  for (int i = 0; i < count; i++) {
    dims[axes[i]] = shape ? shape[i] : carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
    CARNOT_CHECK(!carnot_sym_is_const(dims[axes[i]]) || dims[axes[i]].bits >= 0, INVALID_MODEL,
                 "size %lld of axis %d is negative", (long long)dims[axes[i]].bits, axes[i]);
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

static carnot_status* run_crop(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int64_t before[CARNOT_MAX_RANK];
  for (int d = 0; d < x->rank; d++) {
    int64_t grow = y->dims[d] - x->dims[d];
    before[d] = grow >= 0 ? grow / 2 : -(-grow / 2);
  }
  const char zero[16] = {0};
  int64_t* maps[CARNOT_MAX_RANK];
  CARNOT_TRY(make_maps(call, x, y, before, PAD_CONSTANT, maps));
  copy_padded(x, y, maps, zero);
  return NULL;
}

static const carnot_attr_spec kPadAttrs[] = {
    CARNOT_SPEC_WORD("mode", "constant", "constant edge reflect wrap"), {0}};
static const carnot_attr_spec kCropAttrs[] = {{"axes", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
                                              {0}};

const carnot_op_row carnot_op_pad = {
    .name = "pad",
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kPadAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_FILLS | CARNOT_TRAIT_IGNORES_PRECISION,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .axes = {.moves = true, .axes_input = CARNOT_AXES_INPUT(3), .per_axis = 1u << 1},
    .infer = infer_pad,
    .reference = run_pad,
    .source = "ONNX Pad-25",
    .layer_type = "SLICE",
};
const carnot_op_row carnot_op_center_crop_pad = {
    .name = "center_crop_pad",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kCropAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_crop,
    .reference = run_crop,
    .source = "ONNX CenterCropPad-18",
    .layer_type = "SLICE",
};
