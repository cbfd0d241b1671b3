// Space to depth and to the batch, and back. Source: tensorflow/core/ops/array_ops.cc.
#include "import/tensorflow/rows.h"

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

static const tf_row kRows[] = {
    {"SpaceToDepth", handle_depth, 1, 1, CARNOT_OP_SPACE_TO_DEPTH, NULL, NULL},
    {"DepthToSpace", handle_depth, 1, 1, CARNOT_OP_DEPTH_TO_SPACE, NULL, NULL},
    {"SpaceToBatchND", handle_space_to_batch, 3, 3, 0, NULL, NULL},
    {"BatchToSpaceND", handle_batch_to_space, 3, 3, 0, NULL, NULL},
    {"SpaceToBatch", handle_space_to_batch, 2, 2, 0, NULL, NULL},
    {"BatchToSpace", handle_batch_to_space, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_space = TF_ROW_TABLE(kRows);
