// Tensor lists, and tensor arrays, whose flow is the list and whose handle is their size. One that
// is made of a tensor stays that tensor, its elements along dimension 0; one that is filled item by
// item is a sequence. Source: tensorflow/core/ops/list_ops.cc.
#include "import/tensorflow/rows.h"
#include "import/tensorflow/scope.h"

static bool is_dense(const carnot_value* list) { return list->type.kind == CARNOT_VALUE_TENSOR; }

static carnot_value* scalar_index(tf_import* n, carnot_value* index) {
  return import_reshape_to(&n->node, tf_int64(n, index), NULL, 0);
}

// True where a node of the graph gives the list its elements one by one, outside of loops.
static bool is_set_directly(const tf_import* n) {
  const tf_scope* root = n->scope->root;
  for (size_t i = 0; i < root->slot_count; i++) {
    const tf_node* reader = root->slots[i].proto;
    if (!carnot_view_is(reader->op, "TensorListSetItem")) continue;
    tf_reference r;
    if (reader->input.count && tf_reference_read(reader->input.items[0], &r) &&
        carnot_view_equal(r.node, n->proto->name))
      return true;
  }
  return false;
}

// A list of |count| elements of zeros of the dimensions |shape|.
static void set_zeros(tf_import* n, carnot_dtype dtype, int64_t count, const int64_t* shape,
                      size_t rank) {
  carnot_value** items = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, (size_t)count + 1);
  if (!import_has_memory(&n->node)) return;
  carnot_value* zeros =
      import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, import_number_of(&n->node, dtype, 0),
                import_ints(&n->node, shape, rank));
  for (int64_t i = 0; i < count; i++) items[i] = zeros;
  import_emit(&n->node, CARNOT_OP_SEQUENCE_CONSTRUCT, NULL, items, (int)count, n->outputs, 1);
}

// Room for elements that are written in their order: an empty sequence. Elements that are set in
// any order take the places of zeros.
static void handle_empty(tf_import* n) {
  enum { kMostZeros = 4096 };
  const carnot_dtype dtype = tf_type(n, "element_dtype", CARNOT_DTYPE_F32);
  carnot_attrs attrs = {0};
  if (carnot_view_is(n->proto->op, "TensorListReserve") && is_set_directly(n)) {
    size_t rank = 0, one = 0;
    const int64_t *shape = tf_constant_ints(n, 0, &rank), *count = tf_constant_ints(n, 1, &one);
    bool is_known = shape && count && one == 1 && count[0] > 0 && count[0] <= kMostZeros;
    for (size_t i = 0; is_known && i < rank; i++) is_known = shape[i] >= 0;
    if (is_known) {
      set_zeros(n, dtype, count[0], shape, rank);
      return;
    }
  }
  carnot_attrs_set_int(&attrs, n->node.arena, "dtype", dtype);
  n->outputs[0] = import_op(&n->node, CARNOT_OP_SEQUENCE_EMPTY, &attrs, 0);
}

static void handle_from_tensor(tf_import* n) { n->outputs[0] = n->inputs[0]; }

static void get(tf_import* n, carnot_value* list, carnot_value* at) {
  carnot_value* index = scalar_index(n, at);
  n->outputs[0] = is_dense(list) ? import_gather(&n->node, list, index, 0)
                                 : import_op(&n->node, CARNOT_OP_SEQUENCE_AT, NULL, 2, list, index);
}

static void handle_get(tf_import* n) { get(n, n->inputs[0], n->inputs[1]); }

static carnot_value* body_param(tf_import* n, carnot_block* block, const carnot_value* like) {
  const char* name = import_unique_name(
      n->node.state, "", carnot_view(carnot_arena_print(n->node.arena, "%s/list", n->node.name)));
  return carnot_block_add_param(block, name, &like->type);
}

// |list| as |shorten| makes it of the list and |number| where |condition| holds, else itself.
static carnot_value* shorter_if(tf_import* n, carnot_value* condition, carnot_value* list,
                                carnot_value* number,
                                carnot_value* (*shorten)(import_node* node, carnot_value* list,
                                                         carnot_value* number)) {
  carnot_value* y = NULL;
  if (n->node.status) return NULL;
  carnot_block* blocks[2] = {carnot_block_create(n->node.state->graph),
                             carnot_block_create(n->node.state->graph)};
  carnot_value* params[2] = {body_param(n, blocks[0], list), body_param(n, blocks[0], number)};
  import_node inner = n->node;
  inner.block = blocks[0];
  carnot_value* shorter = shorten(&inner, params[0], params[1]);
  n->node.status = inner.status;
  if (n->node.status) return NULL;
  carnot_block_add_output(blocks[0], shorter);
  carnot_block_add_output(blocks[1], body_param(n, blocks[1], list));
  carnot_attrs attrs = {0};
  static const char* const kNames[] = {"then_branch", "else_branch"};
  for (int i = 0; i < 2; i++)
    carnot_attrs_set(
        &attrs, n->node.arena,
        (carnot_attr){.name = kNames[i], .type = CARNOT_ATTR_BLOCK, .block = blocks[i]});
  carnot_attrs_set_int(&attrs, n->node.arena, "then_inputs", 2);
  carnot_value* inputs[4] = {condition, list, number, list};
  import_emit(&n->node, CARNOT_OP_IF, &attrs, inputs, 4, &y, 1);
  return y;
}

static carnot_value* erase(import_node* node, carnot_value* list, carnot_value* index) {
  return import_op(node, CARNOT_OP_SEQUENCE_ERASE, NULL, 2, list, index);
}

// |list| without element |index| where it has one.
static carnot_value* without(tf_import* n, carnot_value* list, carnot_value* index) {
  carnot_value* length = import_op(&n->node, CARNOT_OP_SEQUENCE_LENGTH, NULL, 1, list);
  return shorter_if(n, import_binary(&n->node, CARNOT_FN_LESS, index, length), list, index, erase);
}

static void set(tf_import* n, carnot_value* list, carnot_value* at, carnot_value* item) {
  carnot_value* index = scalar_index(n, at);
  if (!is_dense(list)) {
    n->outputs[0] = import_op(&n->node, CARNOT_OP_SEQUENCE_INSERT, NULL, 3, without(n, list, index),
                              item, index);
    return;
  }
  static const int64_t kTuple[] = {1, 1}, kFront[] = {0};
  n->outputs[0] = import_op(&n->node, CARNOT_OP_SCATTER_ND, NULL, 3, list,
                            import_reshape_to(&n->node, index, kTuple, 2),
                            import_unsqueeze(&n->node, item, kFront, 1));
}

static void handle_set(tf_import* n) { set(n, n->inputs[0], n->inputs[1], n->inputs[2]); }

static void handle_push(tf_import* n) {
  carnot_value *list = n->inputs[0], *item = n->inputs[1];
  static const int64_t kFront[] = {0};
  if (!is_dense(list)) {
    n->outputs[0] = import_op(&n->node, CARNOT_OP_SEQUENCE_INSERT, NULL, 2, list, item);
    return;
  }
  carnot_value* parts[2] = {list, import_unsqueeze(&n->node, item, kFront, 1)};
  n->outputs[0] = import_concat(&n->node, 0, parts, 2);
}

static void handle_stack(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 0);
  carnot_attrs_set_int(&attrs, n->node.arena, "new_axis", 1);
  carnot_value* list = n->inputs[0];
  if (is_dense(list)) {
    n->outputs[0] = list;
    return;
  }
  carnot_value* y = import_op(&n->node, CARNOT_OP_CONCAT_FROM_SEQUENCE, &attrs, 1, list);
  // The dimensions of the elements are a promise of the graph.
  size_t count = 0;
  int64_t dims[CARNOT_MAX_RANK] = {-1};
  const int64_t* shape = tf_constant_ints(n, 1, &count);
  int open = 0;
  for (size_t i = 0; shape && i < count; i++) open += shape[i] < 0;
  if (!y || !shape || count + 1 > CARNOT_MAX_RANK || y->type.rank >= 0) {
    n->outputs[0] = y;
    return;
  }
  for (size_t i = 0; i < count; i++) dims[1 + i] = shape[i] < 0 ? 0 : shape[i];
  if (open == 0) {
    n->outputs[0] = import_reshape_to(&n->node, y, dims, (int)count + 1);
    return;
  }
  dims[0] = 0;
  n->outputs[0] = import_reshape_to(&n->node, y, dims, (int)count + 1);
}

// Dimension 0 of |x| up to |size| elements.
static carnot_value* cut(import_node* node, carnot_value* x, carnot_value* size) {
  static const int64_t kZero[] = {0}, kOne[] = {1};
  carnot_value* zero = import_ints(node, kZero, 1);
  return import_op(node, CARNOT_OP_SLICE, NULL, 4, x, zero, import_reshape_to(node, size, kOne, 1),
                   zero);
}

static carnot_value* cut_list(import_node* node, carnot_value* list, carnot_value* size) {
  carnot_attrs stack = {0}, split = {0};
  carnot_attrs_set_int(&stack, node->arena, "axis", 0);
  carnot_attrs_set_int(&stack, node->arena, "new_axis", 1);
  carnot_attrs_set_int(&split, node->arena, "axis", 0);
  carnot_attrs_set_int(&split, node->arena, "keepdims", 0);
  carnot_value* all = import_op(node, CARNOT_OP_CONCAT_FROM_SEQUENCE, &stack, 1, list);
  return import_op(node, CARNOT_OP_SPLIT_TO_SEQUENCE, &split, 1, cut(node, all, size));
}

// Of a sequence, more room is nothing yet: it has the elements that are set.
static void handle_resize(tf_import* n) {
  import_node* e = &n->node;
  carnot_value *list = n->inputs[0], *size = scalar_index(n, n->inputs[1]);
  static const int64_t kOne[] = {1};
  if (!is_dense(list)) {
    carnot_value* length = import_op(e, CARNOT_OP_SEQUENCE_LENGTH, NULL, 1, list);
    carnot_value* is_less = import_binary(e, CARNOT_FN_LESS, size, length);
    n->outputs[0] = shorter_if(n, is_less, list, size, cut_list);
    return;
  }
  carnot_value* kept = cut(e, list, size);
  const int rank = import_rank(e, list);
  int64_t none[2 * CARNOT_MAX_RANK] = {0};
  carnot_value* missing = import_binary(e, CARNOT_FN_SUB, import_reshape_to(e, size, kOne, 1),
                                        import_shape_part(e, kept, 0, 1));
  if (n->node.status) return;
  carnot_value* widths[3] = {import_ints(e, none, (size_t)rank), missing,
                             import_ints(e, none, (size_t)rank - 1)};
  n->outputs[0] =
      import_op(e, CARNOT_OP_PAD, NULL, 3, kept, import_concat(e, 0, widths, rank > 1 ? 3 : 2),
                import_number(e, list, 0));
}

static void handle_length(tf_import* n) {
  carnot_value* list = n->inputs[0];
  carnot_value* length =
      is_dense(list) ? import_reshape_to(&n->node, import_shape_part(&n->node, list, 0, 1), NULL, 0)
                     : import_op(&n->node, CARNOT_OP_SEQUENCE_LENGTH, NULL, 1, list);
  n->outputs[0] = import_cast(&n->node, length, CARNOT_DTYPE_I32);
}

// ---- tensor arrays ----

static carnot_value* stacked(tf_import* n, carnot_value* list) {
  carnot_attrs attrs = {0};
  if (is_dense(list)) return list;
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 0);
  carnot_attrs_set_int(&attrs, n->node.arena, "new_axis", 1);
  return import_op(&n->node, CARNOT_OP_CONCAT_FROM_SEQUENCE, &attrs, 1, list);
}

static void handle_array(tf_import* n) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "dtype", tf_type(n, "dtype", CARNOT_DTYPE_F32));
  n->outputs[0] = n->inputs[0];
  n->outputs[1] = import_op(&n->node, CARNOT_OP_SEQUENCE_EMPTY, &attrs, 0);
  n->output_count = 2;
}
static void handle_list_gather(tf_import* n) {
  n->outputs[0] = import_gather(&n->node, stacked(n, n->inputs[0]), tf_int64(n, n->inputs[1]), 0);
}
static void handle_write(tf_import* n) { set(n, n->inputs[3], n->inputs[1], n->inputs[2]); }
static void handle_read(tf_import* n) { get(n, n->inputs[2], n->inputs[1]); }
static void handle_array_gather(tf_import* n) {
  n->outputs[0] = import_gather(&n->node, stacked(n, n->inputs[2]), tf_int64(n, n->inputs[1]), 0);
}
// 0, 1, .. : a constant or RANGE.
static bool is_ramp(tf_import* n, int input) {
  size_t count = 0;
  const int64_t* indices = tf_constant_ints(n, input, &count);
  const carnot_node* range = n->inputs[input]->producer;
  if (range && range->op == CARNOT_OP_CAST) range = range->inputs[0]->producer;
  if (!indices && range && range->op == CARNOT_OP_RANGE) {
    size_t start_count = 0, step_count = 0;
    const int64_t *start = import_constant_ints(&n->node, range->inputs[0], &start_count),
                  *step = import_constant_ints(&n->node, range->inputs[2], &step_count);
    return start && step && start[0] == 0 && step[0] == 1;
  }
  for (size_t i = 0; i < count; i++)
    if (indices[i] != (int64_t)i) return false;
  return indices != NULL;
}

// All elements at once, [count, ..], to the positions |indices|, which they fill.
static void scatter(tf_import* n, int values, int indices) {
  static const int64_t kBehind[] = {1};
  import_node* e = &n->node;
  carnot_value* x = n->inputs[values];
  if (is_ramp(n, indices)) {
    carnot_value* count = import_op(e, CARNOT_OP_SIZE, NULL, 1, n->inputs[indices]);
    n->outputs[0] = import_gather(
        e, x, import_op(e, CARNOT_OP_RANGE, NULL, 3, import_int(e, 0), count, import_int(e, 1)), 0);
    return;
  }
  carnot_value* zeros =
      import_op(e, CARNOT_OP_EXPAND, NULL, 2, import_number(e, x, 0), import_shape_of(e, x));
  n->outputs[0] = import_op(e, CARNOT_OP_SCATTER_ND, NULL, 3, zeros,
                            import_unsqueeze(e, tf_int64(n, n->inputs[indices]), kBehind, 1), x);
}
static void handle_scatter(tf_import* n) { scatter(n, 2, 1); }
static void handle_list_scatter(tf_import* n) {
  const carnot_value* list = n->inputs[0];
  const carnot_node* made = list->producer;
  if (list->type.kind == CARNOT_VALUE_TENSOR || !made || made->op != CARNOT_OP_SEQUENCE_EMPTY)
    TF_FAIL(n, UNSUPPORTED, "the list must be empty before");
  if (!n->node.status) scatter(n, 1, 2);
}

// The elements one behind another along their first dimension.
static void concat_elements(tf_import* n, carnot_value* list) {
  import_node* e = &n->node;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", 0);
  if (!is_dense(list)) {
    n->outputs[0] = import_op(e, CARNOT_OP_CONCAT_FROM_SEQUENCE, &attrs, 1, list);
    return;
  }
  static const int64_t kOpen[] = {-1};
  const int rank = import_rank(e, list);
  if (rank < 2) TF_FAIL(n, INVALID_MODEL, "elements without dimensions");
  carnot_value* parts[2] = {import_ints(e, kOpen, 1), import_shape_part(e, list, 2, rank)};
  n->outputs[0] = import_reshape(e, list, import_concat(e, 0, parts, 2));
  // The length of each element.
  carnot_value* length = import_reshape_to(e, import_shape_part(e, list, 1, 2), NULL, 0);
  n->outputs[1] = import_op(e, CARNOT_OP_EXPAND, NULL, 2, length, import_shape_part(e, list, 0, 1));
  n->output_count = 2;
}
static void handle_list_concat(tf_import* n) { concat_elements(n, n->inputs[0]); }
static void handle_array_concat(tf_import* n) { concat_elements(n, n->inputs[1]); }
static void handle_array_size(tf_import* n) {
  carnot_value* list = n->inputs[1];
  carnot_value* length =
      is_dense(list) ? import_reshape_to(&n->node, import_shape_part(&n->node, list, 0, 1), NULL, 0)
                     : import_op(&n->node, CARNOT_OP_SEQUENCE_LENGTH, NULL, 1, list);
  length = import_cast(&n->node, length, CARNOT_DTYPE_I32);
  // One that grows is as long as what was written to it.
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_MAX, length, n->inputs[0]);
}

static const tf_row kRows[] = {
    {"TensorArrayV3", handle_array, 1, 1, 0, NULL, "handle flow"},
    {"TensorArrayWriteV3", handle_write, 4, 4, 0, NULL, NULL},
    {"TensorArrayReadV3", handle_read, 3, 3, 0, NULL, NULL},
    {"TensorArrayGatherV3", handle_array_gather, 3, 3, 0, NULL, NULL},
    {"TensorArrayScatterV3", handle_scatter, 4, 4, 0, NULL, NULL},
    {"TensorArrayConcatV3", handle_array_concat, 2, 2, 0, NULL, "value lengths"},
    {"TensorListConcatV2", handle_list_concat, 3, 3, 0, NULL, "tensor lengths"},
    {"TensorListConcat", handle_list_concat, 1, 1, 0, NULL, "tensor lengths"},
    {"TensorListScatterIntoExistingList", handle_list_scatter, 3, 3, 0, NULL, NULL},
    {"TensorArraySizeV3", handle_array_size, 2, 2, 0, NULL, NULL},
    {"TensorListReserve", handle_empty, 2, 2, 0, NULL, NULL},
    {"EmptyTensorList", handle_empty, 2, 2, 0, NULL, NULL},
    {"TensorListFromTensor", handle_from_tensor, 2, 2, 0, NULL, NULL},
    {"TensorListGetItem", handle_get, 3, 3, 0, NULL, NULL},
    {"TensorListSetItem", handle_set, 3, 3, 0, NULL, NULL},
    {"TensorListPushBack", handle_push, 2, 2, 0, NULL, NULL},
    {"TensorListStack", handle_stack, 2, 3, 0, NULL, NULL},
    {"TensorListGather", handle_list_gather, 3, 3, 0, NULL, NULL},
    {"TensorListResize", handle_resize, 2, 2, 0, NULL, NULL},
    {"TensorListLength", handle_length, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_list = TF_ROW_TABLE(kRows);
