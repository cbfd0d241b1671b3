// Constants, inputs, shapes and what only changes dimensions. Source:
// tensorflow/core/ops/array_ops.cc.
#include "import/tensorflow/complex.h"
#include "import/tensorflow/rows.h"

static void handle_const(tf_import* n) {
  const tf_attr_value* value = tf_attr_find(n->proto, "value");
  carnot_tensor tensor;
  if (!value || !value->tensor) {
    TF_FAIL(n, INVALID_MODEL, "attribute value holds no tensor");
    return;
  }
  n->node.status = tf_tensor_read(value->tensor, tf_files(n), n->node.arena, &tensor);
  if (n->node.status) return;
  const char* name = import_unique_name(n->node.state, "", carnot_view(n->node.name));
  n->outputs[0] = carnot_graph_constant(n->node.block, name, &tensor);
  if (tf_is_complex_type(value->tensor->dtype)) n->outputs[0] = tf_complex_split(n, n->outputs[0]);
}

// That of complex numbers has their parts along a last axis of 2.
static void handle_placeholder(tf_import* n) {
  const tf_attr_value *shape = tf_attr_find(n->proto, "shape"),
                      *dtype = tf_attr_find(n->proto, "dtype");
  const bool is_complex = dtype && tf_is_complex_type(dtype->type);
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR};
  type.dtype =
      is_complex ? tf_complex_part_type(dtype->type) : tf_type(n, "dtype", CARNOT_DTYPE_F32);
  tf_read_shape(n, shape ? shape->shape : NULL, &type);
  if (is_complex) tf_complex_pair_type(n, &type);
  if (n->node.status) return;
  const char* name = import_unique_name(n->node.state, "", carnot_view(n->node.name));
  n->outputs[0] = carnot_block_add_param(n->node.block, name, &type);
  if (is_complex) n->outputs[0] = tf_complex_split(n, n->outputs[0]);
}

// One whose dimensions the caller sets, or an ordinary one.
static void handle_input(tf_import* n) {
  if (!tf_registered_import(n)) handle_placeholder(n);
}

static void handle_identity_n(tf_import* n) {
  n->output_count = n->input_count;
  for (int i = 0; i < n->input_count && i < TF_MOST_OUTPUTS; i++) n->outputs[i] = n->inputs[i];
}

// ---- of shapes ----

static void handle_shape(tf_import* n) {
  n->outputs[0] = import_cast(&n->node, import_shape_of(&n->node, n->inputs[0]),
                              tf_type(n, "out_type", CARNOT_DTYPE_I32));
}
static void handle_shape_n(tf_import* n) {
  n->output_count = n->input_count;
  for (int i = 0; i < n->input_count && i < TF_MOST_OUTPUTS; i++)
    n->outputs[i] = import_cast(&n->node, import_shape_of(&n->node, n->inputs[i]),
                                tf_type(n, "out_type", CARNOT_DTYPE_I32));
}
static void handle_size(tf_import* n) {
  n->outputs[0] = import_cast(&n->node, import_op(&n->node, CARNOT_OP_SIZE, NULL, 1, n->inputs[0]),
                              tf_type(n, "out_type", CARNOT_DTYPE_I32));
}
static void handle_rank(tf_import* n) {
  n->outputs[0] = import_number_of(&n->node, CARNOT_DTYPE_I32, import_rank(&n->node, n->inputs[0]));
}

// 0 in the list is a dimension of no elements.
static void handle_reshape(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "allowzero", 1);
  size_t count = 0;
  const int64_t* dims = tf_constant_ints(n, 1, &count);
  carnot_value* list = dims ? import_ints(&n->node, dims, count) : tf_int64(n, n->inputs[1]);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_RESHAPE, &attrs, 2, n->inputs[0], list);
}
static void handle_expand_dims(tf_import* n) {
  const int64_t axis = tf_need_int(n, 1, "the axis");
  if (!n->node.status) n->outputs[0] = import_unsqueeze(&n->node, n->inputs[0], &axis, 1);
}
static void handle_squeeze(tf_import* n) {
  tf_int_list axes = tf_ints(n, "squeeze_dims");
  if (!axes.count) axes = tf_ints(n, "axis");
  n->outputs[0] = axes.count ? import_squeeze(&n->node, n->inputs[0], axes.items, (int)axes.count)
                             : import_op(&n->node, CARNOT_OP_SQUEEZE, NULL, 1, n->inputs[0]);
}

// ---- filled ----

static carnot_value* filled(tf_import* n, carnot_value* value, carnot_value* dims) {
  return import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, value, tf_int64(n, dims));
}
static void handle_fill(tf_import* n) { n->outputs[0] = filled(n, n->inputs[1], n->inputs[0]); }
static void handle_broadcast_to(tf_import* n) {
  n->outputs[0] = filled(n, n->inputs[0], n->inputs[1]);
}
static void handle_like(tf_import* n) {
  carnot_value* value = import_number(&n->node, n->inputs[0], n->row->code);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, value,
                            import_shape_of(&n->node, n->inputs[0]));
}
static void handle_range(tf_import* n) {
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, n->inputs[0], n->inputs[1], n->inputs[2]);
}
// start + i * (stop - start) / (num - 1)
static void handle_lin_space(tf_import* n) {
  const int64_t count = tf_need_int(n, 2, "num");
  if (n->node.status) return;
  carnot_value* ramp =
      import_cast(&n->node,
                  import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0),
                            import_int(&n->node, count), import_int(&n->node, 1)),
                  n->inputs[0]->type.dtype);
  carnot_value* width = import_binary(&n->node, CARNOT_FN_SUB, n->inputs[1], n->inputs[0]);
  carnot_value* step =
      import_binary(&n->node, CARNOT_FN_DIV, width,
                    import_number(&n->node, n->inputs[0], count > 1 ? (double)(count - 1) : 1));
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_ADD,
                                import_binary(&n->node, CARNOT_FN_MUL, ramp, step), n->inputs[0]);
}
static void handle_one_hot(tf_import* n) {
  const int64_t axis = tf_int(n, "axis", -1);
  static const int64_t kOne[] = {1};
  // Indices outside of the depth give the off value everywhere; those of OneHot below 0 count from
  // the end, so they are moved out.
  carnot_value* index = tf_int64(n, n->inputs[0]);
  carnot_value* depth = tf_int64(n, n->inputs[1]);
  carnot_value* negative = import_binary(&n->node, CARNOT_FN_LESS, index, import_int(&n->node, 0));
  index = import_ternary(&n->node, CARNOT_FN_SELECT, negative, depth, index);
  carnot_value* pair[2] = {import_reshape_to(&n->node, n->inputs[3], kOne, 1),
                           import_reshape_to(&n->node, n->inputs[2], kOne, 1)};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", axis);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_ONE_HOT, &attrs, 3, index, depth,
                            import_concat(&n->node, 0, pair, 2));
}

#define BY(op, f, least, most) \
  { op, f, least, most, 0, NULL, NULL }
static const tf_row kRows[] = {
    BY("Const", handle_const, 0, 0),
    BY("Placeholder", handle_input, 0, 0),
    BY("PlaceholderV2", handle_input, 0, 0),
    {"IdentityN", handle_identity_n, 1, TF_MOST_OUTPUTS, 0, NULL, NULL},
    BY("Shape", handle_shape, 1, 1),
    {"ShapeN", handle_shape_n, 1, TF_MOST_OUTPUTS, 0, NULL, NULL},
    BY("Size", handle_size, 1, 1),
    BY("Rank", handle_rank, 1, 1),
    BY("Reshape", handle_reshape, 2, 2),
    BY("ExpandDims", handle_expand_dims, 2, 2),
    BY("Squeeze", handle_squeeze, 1, 1),
    BY("Fill", handle_fill, 2, 2),
    BY("BroadcastTo", handle_broadcast_to, 2, 2),
    {"ZerosLike", handle_like, 1, 1, 0, NULL, NULL},
    {"OnesLike", handle_like, 1, 1, 1, NULL, NULL},
    BY("Range", handle_range, 3, 3),
    BY("LinSpace", handle_lin_space, 3, 3),
    BY("OneHot", handle_one_hot, 4, 4),
};
const tf_row_table tf_rows_shape = TF_ROW_TABLE(kRows);
