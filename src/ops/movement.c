// Operators that put elements into another order.
//   transpose y[i_perm] = x[i] · tile y = x repeated along each axis · reverse_sequence: the first
//   lengths[b] steps of each sequence backwards · depth_to_space, space_to_depth: blocks of pixels
//   to and from channels · trilu: the upper or lower triangle of each matrix, zero elsewhere
// Source: ONNX Transpose-25, Tile-13, ReverseSequence-28, DepthToSpace-28, SpaceToDepth-28,
// Trilu-14.
#include "ops/infer_help.h"
#include "ops/strided_copy.h"

// ---- transpose ----

// The permutation; reversed order where the attribute is absent.
static carnot_status* read_perm(const carnot_attrs* attrs, int rank, int* out_perm) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(attrs, "perm", &count);
  unsigned seen = 0;
  for (int i = 0; i < rank; i++) out_perm[i] = rank - 1 - i;
  if (!perm) return NULL;
  CARNOT_CHECK(count == (size_t)rank, INVALID_MODEL, "perm has %zu numbers for an input of rank %d",
               count, rank);
  for (int i = 0; i < rank; i++) {
    CARNOT_TRY(carnot_axis(perm[i], rank, "perm", &out_perm[i]));
    CARNOT_CHECK(!(seen >> out_perm[i] & 1), INVALID_MODEL, "perm names axis %d twice",
                 out_perm[i]);
    seen |= 1u << out_perm[i];
  }
  return NULL;
}

static carnot_status* infer_transpose(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  int perm[CARNOT_MAX_RANK];
  carnot_sym dims[CARNOT_MAX_RANK];
  if (x->rank < 0) {
    size_t count;
    const int64_t* given = carnot_attr_ints(infer->attrs, "perm", &count);
    carnot_infer_set_unknown(infer, 0, x->dtype,
                             given && count <= CARNOT_MAX_RANK ? (int)count : -1);
    return NULL;
  }
  CARNOT_TRY(read_perm(infer->attrs, x->rank, perm));
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[perm[i]];
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  if (x->rank <= 1) {
    infer->outputs[0].syms = (carnot_sym*)(uintptr_t)infer->inputs[0].syms;
    infer->outputs[0].sym_count = infer->inputs[0].sym_count;
  }
  return NULL;
}

static carnot_status* run_transpose(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int perm[CARNOT_MAX_RANK];
  CARNOT_TRY(read_perm(call->attrs, x->rank, perm));
  carnot_strided_copy move = {.dtype = x->dtype, .rank = x->rank};
  int64_t strides[CARNOT_MAX_RANK];
  carnot_strides(x->dims, x->rank, strides);
  carnot_strides(y->dims, y->rank, move.dst_strides);
  for (int i = 0; i < x->rank; i++) {
    move.dims[i] = y->dims[i];
    move.src_strides[i] = strides[perm[i]];
  }
  carnot_strided_copy_run(&move, y->data, x->data);
  return NULL;
}

// ---- tile ----

static carnot_status* infer_tile(carnot_infer* infer) {
  const carnot_type* x;
  const carnot_sym* repeats;
  size_t count;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_TRY(carnot_infer_ints(infer, 1, &repeats, &count));
  if (x->rank < 0 || !repeats) {
    carnot_infer_set_unknown(infer, 0, x->dtype,
                             x->rank >= 0 ? x->rank : carnot_infer_list_length(infer, 1));
    return NULL;
  }
  CARNOT_CHECK(count == (size_t)x->rank, INVALID_MODEL, "%zu repeats for an input of rank %d",
               count, x->rank);
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int i = 0; i < x->rank; i++) {
    CARNOT_CHECK(!carnot_sym_is_const(repeats[i]) || repeats[i].bits >= 0, INVALID_MODEL,
                 "repeat %d is %lld, must be 0 or more", i, (long long)repeats[i].bits);
    dims[i] = carnot_sym_mul(infer->syms, x->dims[i], repeats[i]);
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  size_t known = infer->inputs[0].sym_count;
  if (x->rank != 1 || !infer->inputs[0].syms || !carnot_sym_is_const(dims[0])) return NULL;
  carnot_sym* syms = carnot_infer_room_for_syms(infer, 0, dims[0].bits);
  for (int64_t i = 0; syms && i < dims[0].bits; i++)
    syms[i] = infer->inputs[0].syms[(size_t)i % known];
  return NULL;
}

static carnot_status* run_tile(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  carnot_strided_copy move = {.dtype = x->dtype, .rank = 2 * x->rank};
  int64_t from[CARNOT_MAX_RANK], to[CARNOT_MAX_RANK];
  carnot_strides(x->dims, x->rank, from);
  carnot_strides(y->dims, y->rank, to);
  for (int i = 0; i < x->rank; i++) {
    move.dims[2 * i] = x->dims[i] ? y->dims[i] / x->dims[i] : 0;
    move.dst_strides[2 * i] = to[i] * x->dims[i];
    move.dims[2 * i + 1] = x->dims[i];
    move.src_strides[2 * i + 1] = from[i];
    move.dst_strides[2 * i + 1] = to[i];
  }
  carnot_strided_copy_run(&move, y->data, x->data);
  return NULL;
}

// ---- reverse_sequence ----

static carnot_status* infer_reverse_sequence(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  int64_t time = carnot_infer_int(infer, "time_axis"),
          batch = carnot_infer_int(infer, "batch_axis");
  CARNOT_CHECK((time == 0 && batch == 1) || (time == 1 && batch == 0), INVALID_MODEL,
               "time_axis %lld and batch_axis %lld must be 0 and 1 or 1 and 0", (long long)time,
               (long long)batch);
  CARNOT_CHECK(x->rank < 0 || x->rank >= 2, INVALID_MODEL, "rank %d, must be 2 or more", x->rank);
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

static carnot_status* run_reverse_sequence(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *lengths = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  int time = carnot_call_int(call, "time_axis") != 0, batch = !time;
  int64_t steps = x->dims[time], inner = carnot_dims_count(x->dims + 2, x->rank - 2);
  CARNOT_CHECK(carnot_tensor_count(lengths) == x->dims[batch], INVALID_MODEL,
               "%lld lengths for %lld sequences", (long long)carnot_tensor_count(lengths),
               (long long)x->dims[batch]);
  for (int64_t b = 0; b < x->dims[batch]; b++) {
    int64_t length = carnot_load_i64(lengths->dtype, lengths->data, (size_t)b);
    CARNOT_CHECK(length >= 0 && length <= steps, INVALID_MODEL,
                 "length %lld of sequence %lld is outside [0, %lld]", (long long)length,
                 (long long)b, (long long)steps);
    for (int64_t t = 0; t < steps; t++) {
      int64_t from = t < length ? length - 1 - t : t;
      int64_t to_row = time ? b * steps + t : t * x->dims[batch] + b;
      int64_t from_row = time ? b * steps + from : from * x->dims[batch] + b;
      carnot_copy_elements(x->dtype, y->data, to_row * inner, x->data, from_row * inner, inner);
    }
  }
  return NULL;
}

// ---- depth_to_space, space_to_depth ----

static carnot_status* infer_blocks(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  int64_t size = carnot_infer_int(infer, "blocksize");
  CARNOT_CHECK(size > 0 && size < 1 << 15, INVALID_MODEL, "blocksize is %lld, must be positive",
               (long long)size);
  CARNOT_CHECK(x->rank < 0 || x->rank == 4, INVALID_MODEL, "rank %d, must be 4", x->rank);
  bool mode = carnot_infer_is(infer, "mode", "DCR") || carnot_infer_is(infer, "mode", "CRD");
  CARNOT_CHECK(mode, INVALID_MODEL, "mode must be DCR or CRD");
  if (x->rank < 0) {
    carnot_infer_set_unknown(infer, 0, x->dtype, 4);
    return NULL;
  }
  carnot_syms* s = infer->syms;
  carnot_sym side = carnot_sym_of(size), area = carnot_sym_of(size * size);
  carnot_sym dims[4] = {x->dims[0]};
  bool to_space = infer->row == &carnot_op_depth_to_space;
  for (int i = 1; i < 4; i++) {
    carnot_sym by = i == 1 ? area : side;
    bool divide = (i == 1) == to_space;
    CARNOT_CHECK(!divide || !carnot_sym_is_const(x->dims[i]) || x->dims[i].bits % by.bits == 0,
                 INVALID_MODEL, "dimension %d is %lld, must be a multiple of %lld", i,
                 (long long)x->dims[i].bits, (long long)by.bits);
    dims[i] = divide ? carnot_sym_floordiv(s, x->dims[i], by) : carnot_sym_mul(s, x->dims[i], by);
  }
  carnot_infer_set(infer, 0, x->dtype, 4, dims);
  return NULL;
}

// Both ways are one walk over [batch, depth, row block, row, column block, column]: |deep| has the
// blocks in its channels, |wide| in its pixels.
static carnot_status* run_blocks(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  bool to_space = call->row == &carnot_op_depth_to_space, crd = carnot_call_is(call, "mode", "CRD");
  const carnot_tensor *deep = to_space ? x : y, *wide = to_space ? y : x;
  int64_t size = carnot_call_int(call, "blocksize");
  int64_t depth = wide->dims[1], rows = deep->dims[2], columns = deep->dims[3],
          plane = rows * columns;
  const int64_t dims[6] = {deep->dims[0], depth, rows, size, columns, size};
  const int64_t channel = crd ? size * size : 1, row_step = crd ? size : size * depth,
                column_step = crd ? 1 : depth;
  const int64_t deep_strides[6] = {
      deep->dims[1] * plane, channel * plane, columns, row_step * plane, 1, column_step * plane};
  const int64_t line = wide->dims[3];
  const int64_t wide_strides[6] = {
      depth * wide->dims[2] * line, wide->dims[2] * line, size * line, line, size, 1};
  carnot_strided_copy move = {.dtype = x->dtype, .rank = 6};
  memcpy(move.dims, dims, sizeof(dims));
  memcpy(move.src_strides, to_space ? deep_strides : wide_strides, sizeof(deep_strides));
  memcpy(move.dst_strides, to_space ? wide_strides : deep_strides, sizeof(deep_strides));
  carnot_strided_copy_run(&move, y->data, x->data);
  return NULL;
}

// ---- trilu ----

static carnot_status* infer_trilu(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  CARNOT_CHECK(x->rank < 0 || x->rank >= 2, INVALID_MODEL, "rank %d, must be 2 or more", x->rank);
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

static carnot_status* run_trilu(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *diagonal = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y) return NULL;
  bool upper = carnot_call_int(call, "upper") != 0;
  int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  int64_t matrices = carnot_dims_count(x->dims, x->rank - 2);
  int64_t k = diagonal && carnot_tensor_count(diagonal)
                  ? carnot_load_i64(diagonal->dtype, diagonal->data, 0)
                  : 0;
  k = carnot_max_i64(-rows - 1, carnot_min_i64(columns + 1, k));
  memset(y->data, 0, carnot_tensor_bytes(y));
  for (int64_t row = 0; row < matrices * rows; row++) {
    // Upper: columns from r + k on; lower: up to r + k.
    int64_t edge = row % rows + k;
    int64_t first = upper ? carnot_max_i64(edge, 0) : 0;
    int64_t last = upper ? columns : carnot_min_i64(edge + 1, columns);
    int64_t at = row * columns + first;
    carnot_copy_elements(x->dtype, y->data, at, x->data, at, last - first);
  }
  return NULL;
}

// ---- rows ----

static const carnot_attr_spec kTransposeAttrs[] = {{"perm", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
                                                   {0}};
static const carnot_attr_spec kReverseAttrs[] = {
    {"batch_axis", CARNOT_ATTR_INT, false, 1, NULL, NULL},
    {"time_axis", CARNOT_ATTR_INT, false, 0, NULL, NULL},
    {0}};
static const carnot_attr_spec kBlockAttrs[] = {{"blocksize", CARNOT_ATTR_INT, true, 0, NULL, NULL},
                                               CARNOT_SPEC_WORD("mode", "DCR", "DCR CRD"),
                                               {0}};
static const carnot_attr_spec kTriluAttrs[] = {{"upper", CARNOT_ATTR_INT, false, 1, NULL, NULL},
                                               {0}};

const carnot_op_row carnot_op_transpose = {
    .name = "transpose",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kTransposeAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .infer = infer_transpose,
    .reference = run_transpose,
    .source = "ONNX Transpose-25",
    .layer_type = "SHUFFLE",
};
const carnot_op_row carnot_op_tile = {
    .name = "tile",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .axes = {.moves = true, .per_axis = 1u << 1},
    .infer = infer_tile,
    .reference = run_tile,
    .source = "ONNX Tile-13",
    .layer_type = "SLICE",
};
const carnot_op_row carnot_op_reverse_sequence = {
    .name = "reverse_sequence",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kReverseAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .infer = infer_reverse_sequence,
    .reference = run_reverse_sequence,
    .source = "ONNX ReverseSequence-28",
    .layer_type = "REVERSE_SEQUENCE",
};
const carnot_op_row carnot_op_depth_to_space = {
    .name = "depth_to_space",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kBlockAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .infer = infer_blocks,
    .reference = run_blocks,
    .source = "ONNX DepthToSpace-28",
    .layer_type = "SHUFFLE",
};
const carnot_op_row carnot_op_space_to_depth = {
    .name = "space_to_depth",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kBlockAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_IGNORES_PRECISION,
    .infer = infer_blocks,
    .reference = run_blocks,
    .source = "ONNX SpaceToDepth-28",
    .layer_type = "SHUFFLE",
};
const carnot_op_row carnot_op_trilu = {
    .name = "trilu",
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kTriluAttrs,
    .traits = CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_FILLS | CARNOT_TRAIT_IGNORES_PRECISION,
    .infer = infer_trilu,
    .reference = run_trilu,
    .source = "ONNX Trilu-14",
    .layer_type = "SELECT",
};
