// Operators that move elements. Source: tensorflow/core/ops/array_ops.cc.
#include "import/tensorflow/rows.h"

static void handle_transpose(tf_import* n) {
  size_t count = 0;
  const int64_t* perm = tf_need_ints(n, 1, "the permutation", &count);
  if (perm) n->outputs[0] = import_transpose(&n->node, n->inputs[0], perm, (int)count);
}

static void handle_concat(tf_import* n) {
  const bool axis_first = n->row->code == 1;
  const int64_t axis = tf_need_int(n, axis_first ? 0 : n->input_count - 1, "the axis");
  if (n->node.status) return;
  n->outputs[0] = import_concat(&n->node, axis, n->inputs + axis_first, n->input_count - 1);
}

// A new axis of the inputs.
static void handle_pack(tf_import* n) {
  const int rank = import_rank(&n->node, n->inputs[0]);
  int64_t axis = tf_int(n, "axis", 0);
  if (axis < 0) axis += rank + 1;
  carnot_value** parts = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, (size_t)n->input_count);
  if (!import_has_memory(&n->node)) return;
  for (int i = 0; i < n->input_count; i++)
    parts[i] = import_unsqueeze(&n->node, n->inputs[i], &axis, 1);
  n->outputs[0] = import_concat(&n->node, axis, parts, n->input_count);
}

// ---- padding ----

// [rank, 2] as all widths before, then all behind.
static carnot_value* pad_widths(tf_import* n) {
  static const int64_t kSwap[] = {1, 0}, kFlat[] = {-1};
  carnot_value* widths = import_transpose(&n->node, tf_int64(n, n->inputs[1]), kSwap, 2);
  size_t count = 0;
  const int64_t* list = tf_constant_ints(n, 1, &count);
  if (!list) return import_reshape_to(&n->node, widths, kFlat, 1);
  int64_t flat[2 * CARNOT_MAX_RANK];
  if (count > 2 * CARNOT_MAX_RANK || count % 2) {
    TF_FAIL(n, INVALID_MODEL, "%zu widths", count);
    return NULL;
  }
  for (size_t i = 0; i < count; i++) flat[i % 2 * (count / 2) + i / 2] = list[i];
  return import_ints(&n->node, flat, count);
}
static void handle_pad(tf_import* n) {
  carnot_value* value =
      n->input_count > 2 ? n->inputs[2] : import_number(&n->node, n->inputs[0], 0);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_PAD, NULL, 3, n->inputs[0], pad_widths(n), value);
}

// |count| elements of the end or the beginning of |axis|, in reverse order.
static carnot_value* mirrored(tf_import* n, carnot_value* x, int64_t axis, int64_t count,
                              bool at_end) {
  const int64_t start = at_end ? -1 : count - 1, step = -1, end = at_end ? -1 - count : INT64_MIN;
  return import_op(&n->node, CARNOT_OP_SLICE, NULL, 5, x, import_ints(&n->node, &start, 1),
                   import_ints(&n->node, &end, 1), import_ints(&n->node, &axis, 1),
                   import_ints(&n->node, &step, 1));
}
// SYMMETRIC repeats the border, REFLECT does not.
static void handle_mirror_pad(tf_import* n) {
  size_t count = 0;
  const int64_t* widths = tf_need_ints(n, 1, "the widths", &count);
  const int rank = import_rank(&n->node, n->inputs[0]);
  if (count != 2 * (size_t)rank)
    TF_FAIL(n, INVALID_MODEL, "%zu widths of %d dimensions", count, rank);
  if (n->node.status) return;
  if (tf_is(n, "mode", "REFLECT", "REFLECT")) {
    carnot_attrs attrs = {0};
    carnot_attrs_set_text(&attrs, n->node.arena, "mode", "reflect");
    n->outputs[0] = import_op(&n->node, CARNOT_OP_PAD, &attrs, 2, n->inputs[0], pad_widths(n));
    return;
  }
  carnot_value* y = n->inputs[0];
  for (int axis = 0; axis < rank; axis++) {
    const int64_t before = widths[2 * axis], behind = widths[2 * axis + 1];
    carnot_value* parts[3];
    int part_count = 0;
    if (before > 0) parts[part_count++] = mirrored(n, y, axis, before, false);
    parts[part_count++] = y;
    if (behind > 0) parts[part_count++] = mirrored(n, y, axis, behind, true);
    if (part_count > 1) y = import_concat(&n->node, axis, parts, part_count);
  }
  n->outputs[0] = y;
}

static void handle_tile(tf_import* n) {
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_TILE, NULL, 2, n->inputs[0], tf_int64(n, n->inputs[1]));
}

// ---- reversal and rotation ----

static carnot_value* reversed(tf_import* n, carnot_value* x, const int64_t* axes, size_t count) {
  int64_t starts[CARNOT_MAX_RANK], ends[CARNOT_MAX_RANK], steps[CARNOT_MAX_RANK];
  for (size_t i = 0; i < count; i++) starts[i] = -1, ends[i] = INT64_MIN, steps[i] = -1;
  if (count == 0) return x;
  return import_op(&n->node, CARNOT_OP_SLICE, NULL, 5, x, import_ints(&n->node, starts, count),
                   import_ints(&n->node, ends, count), import_ints(&n->node, axes, count),
                   import_ints(&n->node, steps, count));
}
static void handle_reverse_v2(tf_import* n) {
  size_t count = 0;
  const int64_t* axes = tf_need_ints(n, 1, "the axes", &count);
  if (count > CARNOT_MAX_RANK) TF_FAIL(n, INVALID_MODEL, "%zu axes", count);
  if (!n->node.status) n->outputs[0] = reversed(n, n->inputs[0], axes, count);
}
static void handle_reverse_sequence(tf_import* n) {
  carnot_attrs attrs = {0};
  const int64_t time = tf_int(n, "seq_dim", 0), batch = tf_int(n, "batch_dim", 0);
  const int rank = import_rank(&n->node, n->inputs[0]);
  int64_t perm[CARNOT_MAX_RANK], back[CARNOT_MAX_RANK];
  if (time < 0 || time >= rank || batch < 0 || batch >= rank || time == batch) {
    TF_FAIL(n, INVALID_MODEL, "seq_dim %lld and batch_dim %lld of %d dimensions", (long long)time,
            (long long)batch, rank);
    return;
  }
  // The operator takes the first two dimensions.
  perm[0] = batch, perm[1] = time;
  for (int i = 0, at = 2; i < rank; i++)
    if (i != batch && i != time) perm[at++] = i;
  for (int i = 0; i < rank; i++) back[perm[i]] = i;
  carnot_attrs_set_int(&attrs, n->node.arena, "batch_axis", 0);
  carnot_attrs_set_int(&attrs, n->node.arena, "time_axis", 1);
  carnot_value* x = import_transpose(&n->node, n->inputs[0], perm, rank);
  x = import_op(&n->node, CARNOT_OP_REVERSE_SEQUENCE, &attrs, 2, x, tf_int64(n, n->inputs[1]));
  n->outputs[0] = import_transpose(&n->node, x, back, rank);
}
// What is shifted out at one end comes in at the other.
static void handle_roll(tf_import* n) {
  size_t shift_count = 0, axis_count = 0;
  const int64_t* shifts = tf_need_ints(n, 1, "the shift", &shift_count);
  const int64_t* axes = tf_need_ints(n, 2, "the axis", &axis_count);
  const int rank = import_rank(&n->node, n->inputs[0]);
  if (shift_count != axis_count)
    TF_FAIL(n, INVALID_MODEL, "%zu shifts of %zu axes", shift_count, axis_count);
  if (n->node.status) return;
  carnot_value* y = n->inputs[0];
  for (size_t i = 0; i < axis_count; i++) {
    const int axis = import_axis(&n->node, axes[i], rank);
    const int64_t size = import_dim(y, axis);
    int64_t cut = -shifts[i];
    if (size > 0) cut = ((cut % size) + size) % size;
    if (n->node.status || cut == 0) continue;
    if (size < 0) {
      // In the run: the shift modulo the size.
      carnot_value* whole = import_shape_part(&n->node, y, axis, axis + 1);
      carnot_value* at =
          import_binary(&n->node, CARNOT_FN_MOD, import_ints(&n->node, &cut, 1), whole);
      const int64_t along = axis, zero = 0, end = INT64_MAX;
      carnot_value* axis_list = import_ints(&n->node, &along, 1);
      carnot_value* pair[2] = {import_op(&n->node, CARNOT_OP_SLICE, NULL, 4, y, at,
                                         import_ints(&n->node, &end, 1), axis_list),
                               import_op(&n->node, CARNOT_OP_SLICE, NULL, 4, y,
                                         import_ints(&n->node, &zero, 1), at, axis_list)};
      y = import_concat(&n->node, axis, pair, 2);
      continue;
    }
    carnot_value* parts[2] = {import_slice(&n->node, y, axis, cut, INT64_MAX),
                              import_slice(&n->node, y, axis, 0, cut)};
    y = import_concat(&n->node, axis, parts, 2);
  }
  n->outputs[0] = y;
}

// ---- bands ----

// Keeps |lower| diagonals below the main one and |upper| above; -1: all.
static void handle_band_part(tf_import* n) {
  const int64_t lower = tf_need_int(n, 1, "num_lower"), upper = tf_need_int(n, 2, "num_upper");
  carnot_value* y = n->inputs[0];
  carnot_attrs attrs = {0};
  if (n->node.status) return;
  if (lower >= 0)
    y = import_op(&n->node, CARNOT_OP_TRILU, NULL, 2, y, import_int(&n->node, -lower));
  carnot_attrs_set_int(&attrs, n->node.arena, "upper", 0);
  if (upper >= 0)
    y = import_op(&n->node, CARNOT_OP_TRILU, &attrs, 2, y, import_int(&n->node, upper));
  n->outputs[0] = y;
}

#define BY(op, f, least, most) \
  { op, f, least, most, 0, NULL, NULL }
static const tf_row kRows[] = {
    BY("Transpose", handle_transpose, 2, 2),
    {"ConcatV2", handle_concat, 2, -1, 0, NULL, NULL},
    {"Concat", handle_concat, 2, -1, 1, NULL, NULL},
    BY("Pack", handle_pack, 1, -1),
    BY("Pad", handle_pad, 2, 2),
    BY("PadV2", handle_pad, 3, 3),
    BY("MirrorPad", handle_mirror_pad, 2, 2),
    BY("Tile", handle_tile, 2, 2),
    BY("ReverseV2", handle_reverse_v2, 2, 2),
    BY("ReverseSequence", handle_reverse_sequence, 2, 2),
    BY("Roll", handle_roll, 3, 3),
    BY("MatrixBandPart", handle_band_part, 3, 3),
};
const tf_row_table tf_rows_movement = TF_ROW_TABLE(kRows);
