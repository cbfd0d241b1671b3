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

// ---- gathers and scatters ----

static void handle_gather(tf_import* n) {
  const int64_t axis = n->input_count > 2 ? tf_need_int(n, 2, "the axis") : 0;
  const int64_t batch = tf_int(n, "batch_dims", 0);
  carnot_value *x = n->inputs[0], *index = tf_int64(n, n->inputs[1]);
  const int rank = import_rank(&n->node, x), own = import_rank(&n->node, index);
  if (n->node.status) return;
  const int at = import_axis(&n->node, axis, rank);
  const int64_t b = batch < 0 ? batch + own : batch;
  if (b == 0) {
    n->outputs[0] = import_gather(&n->node, x, index, at);
    return;
  }
  if (b < 0 || at < b || own < b) {
    TF_FAIL(n, INVALID_MODEL, "batch_dims %lld with axis %lld", (long long)batch, (long long)axis);
    return;
  }
  // The axis comes right behind the batch; what was between them goes back before the indices.
  int64_t perm[CARNOT_MAX_RANK], back[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i < b ? i : i == b ? at : i <= at ? i - 1 : i;
  if (at != b) x = import_transpose(&n->node, x, perm, rank);
  // GatherND takes index tuples of one number behind the batch.
  const int64_t last = own;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "batch_dims", b);
  carnot_value* y = import_op(&n->node, CARNOT_OP_GATHER_ND, &attrs, 2, x,
                              import_unsqueeze(&n->node, index, &last, 1));
  // [batch.., indices.., between.., behind..]
  const int taken = own - (int)b, between = at - (int)b, result = rank - 1 + taken;
  if (between && result <= CARNOT_MAX_RANK) {
    for (int i = 0; i < result; i++)
      back[i] = i < b ? i : i < b + between ? i + taken : i < b + between + taken ? i - between : i;
    y = import_transpose(&n->node, y, back, result);
  }
  n->outputs[0] = y;
}
static void handle_gather_nd(tf_import* n) {
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_GATHER_ND, NULL, 2, n->inputs[0], tf_int64(n, n->inputs[1]));
}
static carnot_value* scatter(tf_import* n, carnot_value* into, carnot_value* index,
                             carnot_value* updates, const char* reduction) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, n->node.arena, "reduction", reduction);
  return import_op(&n->node, CARNOT_OP_SCATTER_ND, &attrs, 3, into, tf_int64(n, index), updates);
}
// Sums what falls on one place.
static void handle_scatter_nd(tf_import* n) {
  carnot_value* zeros =
      import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_number(&n->node, n->inputs[1], 0),
                tf_int64(n, n->inputs[2]));
  n->outputs[0] = scatter(n, zeros, n->inputs[0], n->inputs[1], "add");
}
static void handle_tensor_scatter(tf_import* n) {
  n->outputs[0] = scatter(n, n->inputs[0], n->inputs[1], n->inputs[2], n->row->text);
}
static void handle_tensor_scatter_sub(tf_import* n) {
  carnot_value* updates = import_unary(&n->node, CARNOT_FN_NEG, n->inputs[2]);
  n->outputs[0] = scatter(n, n->inputs[0], n->inputs[1], updates, "add");
}
static void handle_invert_permutation(tf_import* n) {
  static const int64_t kLast[] = {1};
  carnot_value* x = n->inputs[0];
  carnot_value* index = import_unsqueeze(&n->node, tf_int64(n, x), kLast, 1);
  carnot_value* size = import_op(&n->node, CARNOT_OP_SIZE, NULL, 1, x);
  carnot_value* ramp = import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0), size,
                                 import_int(&n->node, 1));
  n->outputs[0] = scatter(n, x, index, import_cast(&n->node, ramp, x->type.dtype), "none");
}
// The indices of elements that are not 0, [count, rank].
static void handle_where(tf_import* n) {
  static const int64_t kSwap[] = {1, 0};
  carnot_value* index = import_op(&n->node, CARNOT_OP_NON_ZERO, NULL, 1, n->inputs[0]);
  n->outputs[0] = import_transpose(&n->node, index, kSwap, 2);
}

// ---- space and depth, batch ----

static void handle_depth(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "blocksize", tf_int(n, "block_size", 2));
  n->outputs[0] = tf_last(
      n, import_op(&n->node, (carnot_op)n->row->code, &attrs, 1, tf_first(n, n->inputs[0])));
}

static bool blocks_fit(tf_import* n, const int64_t* block, size_t count, const int64_t* widths,
                       size_t width_count) {
  int64_t product = 1;
  for (size_t i = 0; i < count; i++) {
    if (block[i] >= 1 && block[i] < 1 << 20 && carnot_mul_i64(product, block[i], &product))
      continue;
    TF_FAIL(n, INVALID_MODEL, "block %zu is %lld", i, (long long)block[i]);
    return false;
  }
  for (size_t i = 0; i < width_count; i++) {
    if (widths[i] >= 0 && widths[i] < CARNOT_DIM_UNBOUNDED) continue;
    TF_FAIL(n, INVALID_MODEL, "width %zu is %lld", i, (long long)widths[i]);
    return false;
  }
  return true;
}

// The block of each spatial dimension: input 1, or the attribute of the first version for two.
static const int64_t* read_blocks(tf_import* n, size_t* out_count) {
  if (n->input_count > 2) return tf_need_ints(n, 1, "the blocks", out_count);
  int64_t* blocks = CARNOT_NEW_ARRAY(n->node.arena, int64_t, 2);
  *out_count = 2;
  if (import_has_memory(&n->node)) blocks[0] = blocks[1] = tf_int(n, "block_size", 0);
  return blocks;
}

// Pads each of the |m| spatial dimensions, cuts it into blocks and puts these before the batch.
static void handle_space_to_batch(tf_import* n) {
  size_t m = 0, pad_count = 0;
  const int64_t* block = read_blocks(n, &m);
  const int64_t* pads = tf_constant_ints(n, n->input_count - 1, &pad_count);
  const int rank = import_rank(&n->node, n->inputs[0]);
  if (n->node.status) return;
  if (!pads || pad_count != 2 * m || (int)m + 1 > rank ||
      2 * m + (size_t)rank > 2 * CARNOT_MAX_RANK) {
    TF_FAIL(n, UNSUPPORTED, "paddings must be constant, two for each block");
    return;
  }
  if (!blocks_fit(n, block, m, pads, pad_count)) return;
  int64_t widths[2 * CARNOT_MAX_RANK] = {0}, perm[2 * CARNOT_MAX_RANK], blocks = 1;
  for (size_t i = 0; i < m; i++) {
    widths[1 + i] = pads[2 * i], widths[rank + 1 + (int)i] = pads[2 * i + 1];
    blocks *= block[i];
  }
  carnot_value* x = import_op(&n->node, CARNOT_OP_PAD, NULL, 2, n->inputs[0],
                              import_ints(&n->node, widths, 2 * (size_t)rank));
  // [batch, H, W, ..] to [batch, H/b, b, W/b, b, ..]
  carnot_value *shape[2 * CARNOT_MAX_RANK], *whole = import_shape_of(&n->node, x);
  int count = 0;
  for (int i = 0; i < rank; i++) {
    carnot_value* dim = import_slice(&n->node, whole, 0, i, i + 1);
    const bool is_cut = i > 0 && i <= (int)m;
    if (is_cut)
      dim = import_binary(&n->node, CARNOT_FN_DIV, dim, import_ints(&n->node, &block[i - 1], 1));
    shape[count++] = dim;
    if (is_cut) shape[count++] = import_ints(&n->node, &block[i - 1], 1);
  }
  if (count > CARNOT_MAX_RANK) {
    TF_FAIL(n, UNSUPPORTED, "%d dimensions on the way; at most %d", count, CARNOT_MAX_RANK);
    return;
  }
  x = import_reshape(&n->node, x, import_concat(&n->node, 0, shape, count));
  int at = 0;
  for (size_t i = 0; i < m; i++) perm[at++] = 2 + 2 * (int64_t)i;
  perm[at++] = 0;
  for (size_t i = 0; i < m; i++) perm[at++] = 1 + 2 * (int64_t)i;
  for (int i = (int)m + 1; i < rank; i++) perm[at++] = i + (int64_t)m;
  x = import_transpose(&n->node, x, perm, count);
  // Blocks and batch become one.
  carnot_value* parts[CARNOT_MAX_RANK];
  carnot_value* batch = import_slice(&n->node, whole, 0, 0, 1);
  parts[0] = import_binary(&n->node, CARNOT_FN_MUL, batch, import_ints(&n->node, &blocks, 1));
  for (int i = 1; i < rank; i++) {
    carnot_value* dim = import_slice(&n->node, whole, 0, i, i + 1);
    parts[i] = i <= (int)m ? import_binary(&n->node, CARNOT_FN_DIV, dim,
                                           import_ints(&n->node, &block[i - 1], 1))
                           : dim;
  }
  n->outputs[0] = import_reshape(&n->node, x, import_concat(&n->node, 0, parts, rank));
}

// The reverse, then crops.
static void handle_batch_to_space(tf_import* n) {
  size_t m = 0, crop_count = 0;
  const int64_t* block = read_blocks(n, &m);
  const int64_t* crops = tf_constant_ints(n, n->input_count - 1, &crop_count);
  const int rank = import_rank(&n->node, n->inputs[0]);
  if (n->node.status) return;
  if (!crops || crop_count != 2 * m || (int)m + 1 > rank || m + (size_t)rank > CARNOT_MAX_RANK) {
    TF_FAIL(n, UNSUPPORTED, "crops must be constant, two for each block");
    return;
  }
  if (!blocks_fit(n, block, m, crops, crop_count)) return;
  int64_t blocks = 1, perm[CARNOT_MAX_RANK];
  for (size_t i = 0; i < m; i++) blocks *= block[i];
  carnot_value *x = n->inputs[0], *whole = import_shape_of(&n->node, x), *parts[CARNOT_MAX_RANK];
  int count = 0;
  for (size_t i = 0; i < m; i++) parts[count++] = import_ints(&n->node, &block[i], 1);
  carnot_value* batch =
      import_binary(&n->node, CARNOT_FN_DIV, import_slice(&n->node, whole, 0, 0, 1),
                    import_ints(&n->node, &blocks, 1));
  parts[count++] = batch;
  for (int i = 1; i < rank; i++) parts[count++] = import_slice(&n->node, whole, 0, i, i + 1);
  x = import_reshape(&n->node, x, import_concat(&n->node, 0, parts, count));
  int at = 0;
  perm[at++] = (int64_t)m;
  for (size_t i = 0; i < m; i++) {
    perm[at++] = (int64_t)(m + 1 + i);
    perm[at++] = (int64_t)i;
  }
  for (int i = (int)(2 * m) + 1; i < count; i++) perm[at++] = i;
  x = import_transpose(&n->node, x, perm, count);
  parts[0] = batch;
  for (int i = 1; i < rank; i++) {
    carnot_value* dim = import_slice(&n->node, whole, 0, i, i + 1);
    parts[i] = i <= (int)m ? import_binary(&n->node, CARNOT_FN_MUL, dim,
                                           import_ints(&n->node, &block[i - 1], 1))
                           : dim;
  }
  x = import_reshape(&n->node, x, import_concat(&n->node, 0, parts, rank));
  for (size_t i = 0; i < m; i++)
    if (crops[2 * i] || crops[2 * i + 1])
      x = import_slice(&n->node, x, (int64_t)i + 1, crops[2 * i],
                       crops[2 * i + 1] ? -crops[2 * i + 1] : INT64_MAX);
  n->outputs[0] = x;
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
    BY("Gather", handle_gather, 2, 2),
    BY("GatherV2", handle_gather, 3, 3),
    BY("GatherNd", handle_gather_nd, 2, 2),
    BY("ScatterNd", handle_scatter_nd, 3, 3),
    {"TensorScatterUpdate", handle_tensor_scatter, 3, 3, 0, "none", NULL},
    {"TensorScatterAdd", handle_tensor_scatter, 3, 3, 0, "add", NULL},
    {"TensorScatterSub", handle_tensor_scatter_sub, 3, 3, 0, NULL, NULL},
    {"TensorScatterMax", handle_tensor_scatter, 3, 3, 0, "max", NULL},
    {"TensorScatterMin", handle_tensor_scatter, 3, 3, 0, "min", NULL},
    BY("InvertPermutation", handle_invert_permutation, 1, 1),
    BY("Where", handle_where, 1, 1),
    {"SpaceToDepth", handle_depth, 1, 1, CARNOT_OP_SPACE_TO_DEPTH, NULL, NULL},
    {"DepthToSpace", handle_depth, 1, 1, CARNOT_OP_DEPTH_TO_SPACE, NULL, NULL},
    BY("SpaceToBatchND", handle_space_to_batch, 3, 3),
    BY("BatchToSpaceND", handle_batch_to_space, 3, 3),
    BY("SpaceToBatch", handle_space_to_batch, 2, 2),
    BY("BatchToSpace", handle_batch_to_space, 2, 2),
    BY("MatrixBandPart", handle_band_part, 3, 3),
};
const tf_row_table tf_rows_movement = TF_ROW_TABLE(kRows);
