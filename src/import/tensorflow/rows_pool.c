// Pooling that tells where each maximum is. Source: tensorflow/core/ops/nn_ops.cc.
#include "import/tensorflow/rows.h"

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}
// Dimension |axis| as a scalar, and 0, 1, … up to it.
static carnot_value* size_of(tf_import* n, carnot_value* x, int axis) {
  return import_reshape_to(&n->node, import_shape_part(&n->node, x, axis, axis + 1), NULL, 0);
}
static carnot_value* ramp(tf_import* n, carnot_value* size) {
  return import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0), size,
                   import_int(&n->node, 1));
}

static bool read_pool(tf_import* n, carnot_attrs* attrs) {
  const tf_int_list k = tf_ints(n, "ksize"), s = tf_ints(n, "strides");
  const bool same = tf_is(n, "padding", "SAME", "VALID");
  if (import_rank(&n->node, n->inputs[0]) != 4 || k.count != 4 || s.count != 4 || k.items[0] != 1 ||
      k.items[3] != 1 || s.items[0] != 1 || s.items[3] != 1)
    TF_FAIL(n, UNSUPPORTED, "windows over pixels of four dimensions are supported");
  else if (k.items[1] < 1 || k.items[2] < 1 || s.items[1] < 1 || s.items[2] < 1)
    TF_FAIL(n, INVALID_MODEL, "ksize and strides must be positive");
  else if (!same && !tf_is(n, "padding", "VALID", "VALID"))
    TF_FAIL(n, UNSUPPORTED, "padding must be SAME or VALID");
  if (n->node.status) return false;
  carnot_attrs_set_ints(attrs, n->node.arena, "kernel_shape", k.items + 1, 2);
  carnot_attrs_set_ints(attrs, n->node.arena, "strides", s.items + 1, 2);
  if (same) carnot_attrs_set_text(attrs, n->node.arena, "auto_pad", "SAME_UPPER");
  return true;
}

// The place of a maximum is (y * width + x) * channels + channel, behind those of the pictures
// before where include_batch_in_index says so; the operator's own is over [N, C, H, W].
static void handle_argmax_pool(tf_import* n) {
  static const int64_t kBatch[] = {1, 2, 3};
  carnot_attrs attrs = {0};
  carnot_value *x = n->inputs[0], *found[2];
  if (!read_pool(n, &attrs)) return;
  carnot_value* inputs[1] = {import_move_channels(&n->node, x, false)};
  import_emit(&n->node, CARNOT_OP_MAX_POOL, &attrs, inputs, 1, found, 2);
  if (n->node.status) return;
  carnot_value* channels = size_of(n, x, 3);
  carnot_value* pixels = binary(n, CARNOT_FN_MUL, size_of(n, x, 1), size_of(n, x, 2));
  carnot_value* place =
      binary(n, CARNOT_FN_MOD, import_move_channels(&n->node, found[1], true), pixels);
  place = binary(n, CARNOT_FN_ADD, binary(n, CARNOT_FN_MUL, place, channels), ramp(n, channels));
  if (tf_bool(n, "include_batch_in_index", false)) {
    carnot_value* batch = import_unsqueeze(&n->node, ramp(n, size_of(n, x, 0)), kBatch, 3);
    carnot_value* each = binary(n, CARNOT_FN_MUL, pixels, channels);
    place = binary(n, CARNOT_FN_ADD, place, binary(n, CARNOT_FN_MUL, batch, each));
  }
  n->outputs[0] = import_move_channels(&n->node, found[0], true);
  n->outputs[1] = import_cast(&n->node, place, tf_type(n, "Targmax", CARNOT_DTYPE_I64));
  n->output_count = 2;
}

static const tf_row kRows[] = {
    {"MaxPoolWithArgmax", handle_argmax_pool, 1, 1, 0, NULL, "output argmax"},
};
const tf_row_table tf_rows_pool = TF_ROW_TABLE(kRows);
