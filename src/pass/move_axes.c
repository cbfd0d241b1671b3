// Rewrites one operator to work on transposed data: renames the axes that its row says it names.
#include "pass/move_axes.h"

#include <string.h>

#include "pass/pass.h"

enum { kMostInputs = 64, kMostOutputs = 16 };

// ---- orders ----

static carnot_order with_inverse(carnot_order order) {
  for (int i = 0; i < order.rank; i++) order.inverse[order.perm[i]] = i;
  return order;
}

carnot_order carnot_order_channels_last(int rank) {
  carnot_order order = {.rank = rank};
  for (int i = 1; i < rank; i++) order.perm[i] = i + 1 < rank ? i + 1 : 1;
  return with_inverse(order);
}

carnot_order carnot_order_channels_first(int rank) {
  carnot_order order = {.rank = rank};
  for (int i = 1; i < rank; i++) order.perm[i] = i == 1 ? rank - 1 : i - 1;
  return with_inverse(order);
}

bool carnot_is_transpose_by(const carnot_node* node, const carnot_order* order, const int* perm) {
  if (!node || node->op != CARNOT_OP_TRANSPOSE) return false;
  size_t count;
  const int64_t* its = carnot_attr_ints(&node->attrs, "perm", &count);
  if (!its || count != (size_t)order->rank) return false;
  for (int i = 0; i < order->rank; i++)
    if (its[i] != perm[i]) return false;
  return true;
}

bool carnot_order_keeps_elements(const carnot_order* order, const carnot_type* type) {
  int last = -1;
  for (int i = 0; i < order->rank; i++) {
    if (carnot_sym_is(type->dims[order->perm[i]], 1)) continue;
    if (order->perm[i] < last) return false;
    last = order->perm[i];
  }
  return true;
}

// ---- what an operator names ----

static const carnot_op_axes* axes_of(const carnot_node* node) {
  return &carnot_node_row(node)->axes;
}

static bool is_elementwise(const carnot_node* node) {
  return carnot_node_fn(node) != CARNOT_FN_COUNT;
}

bool carnot_node_input_moves(const carnot_node* node, int i) {
  return node->inputs[i] && (i == 0 || axes_of(node)->all_inputs) && node->inputs[i]->type.rank > 0;
}

typedef struct axis_list {
  int64_t items[CARNOT_MAX_RANK];
  int count;  // -1: not known
} axis_list;

static bool has_input(const carnot_node* node, int i) {
  return i >= 0 && i < node->input_count && node->inputs[i];
}

static axis_list axes_up_to(int count) {
  axis_list list = {.count = count};
  for (int i = 0; i < count; i++) list.items[i] = i;
  return list;
}

// The axes that an input lists; where it is absent, all that the input before it has items for.
static axis_list listed_axes(const carnot_node* node) {
  axis_list list = {.count = -1};
  const int input = axes_of(node)->axes_input - 1;
  const int rank = node->inputs[0]->type.rank;
  if (has_input(node, input)) {
    list.count = carnot_value_ints(node->inputs[input], list.items, CARNOT_MAX_RANK);
  } else if (axes_of(node)->per_axis) {
    list = axes_up_to(rank);
  } else if (input == 1) {
    list.count = 0;  // of a reduction: none are named
  } else {
    const carnot_type* starts = &node->inputs[1]->type;
    if (starts->rank == 1 && carnot_sym_is_const(starts->dims[0]) && starts->dims[0].bits <= rank)
      list = axes_up_to((int)starts->dims[0].bits);
  }
  for (int i = 0; i < list.count; i++) {
    if (list.items[i] < 0) list.items[i] += rank;
    if (list.items[i] < 0 || list.items[i] >= rank) return (axis_list){.count = -1};
  }
  return list;
}

static int named_axis(const carnot_node* node) {
  const int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, axes_of(node)->axis);
  const int rank = carnot_is_ranked(node->outputs[0]) && axes_of(node)->all_inputs
                       ? node->outputs[0]->type.rank
                       : node->inputs[0]->type.rank;
  const int64_t at = axis < 0 ? axis + rank : axis;
  return at >= 0 && at < rank ? (int)at : -1;
}

static bool lists_axes(const carnot_node* node) {
  size_t count = 0;
  const carnot_op_axes* axes = axes_of(node);
  if (axes->axes) (void)carnot_attr_ints(&node->attrs, axes->axes, &count);
  return count > 0 || has_input(node, axes->axes_input - 1);
}

// Lists of an item for each axis: constants, in one or two parts.
static bool has_constant_lists(const carnot_node* node, int rank) {
  for (int i = 1; i < node->input_count; i++) {
    if (!(axes_of(node)->per_axis >> i & 1) || !node->inputs[i]) continue;
    const carnot_constant* list = node->inputs[i]->constant;
    if (!list || !list->tensor.data || list->tensor.rank != 1) return false;
    if (!lists_axes(node) && list->tensor.dims[0] % rank != 0) return false;
  }
  return true;
}

static bool operands_fit(const carnot_node* node, int rank) {
  const bool broadcasts = is_elementwise(node);
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    if (!value) continue;
    if (!carnot_is_ranked(value)) return false;
    if (i == 0 || axes_of(node)->all_inputs) {
      if (broadcasts ? value->type.rank > rank : value->type.rank != rank) return false;
    } else if (value->type.rank > 1) {
      return false;
    }
  }
  return true;
}

static bool results_fit(const carnot_node* node, int rank) {
  if (node->output_count < 1 || node->output_count > kMostOutputs) return false;
  for (int i = 0; i < node->output_count; i++) {
    const carnot_value* value = node->outputs[i];
    if (!value) continue;
    if (!carnot_is_ranked(value)) return false;
    if (value->type.rank != rank && (value->type.rank > rank || node->output_count > 1))
      return false;
  }
  return node->outputs[0] != NULL;
}

// The axes that a result of fewer axes lacks; -1 where they are not known.
static axis_list dropped_axes(const carnot_node* node) {
  axis_list list = {.count = 0};
  const int rank = node->inputs[0]->type.rank, lost = rank - node->outputs[0]->type.rank;
  if (lost == 0 || is_elementwise(node)) return list;
  if (axes_of(node)->axis) {
    list = (axis_list){{named_axis(node)}, 1};
  } else if (axes_of(node)->axes_input) {
    list = listed_axes(node);
    if (list.count == 0) list = axes_up_to(rank);
  }
  if (list.count != lost) list.count = -1;
  return list;
}

bool carnot_node_can_move_axes(const carnot_node* node, const carnot_order* order) {
  const carnot_op_axes* axes = axes_of(node);
  if (!axes->moves || node->input_count < 1 || node->input_count > kMostInputs ||
      !node->inputs[0] || !operands_fit(node, order->rank) || !results_fit(node, order->rank))
    return false;
  if (is_elementwise(node)) return node->outputs[0]->type.rank == order->rank;
  if (axes->axis && named_axis(node) < 0) return false;
  if (axes->axes_input && listed_axes(node).count < 0) return false;
  return has_constant_lists(node, order->rank) && dropped_axes(node).count >= 0;
}

// ---- rewriting ----

typedef struct move {
  const carnot_order* order;
  carnot_node* node;
  uint32_t first_new;
} move;

static carnot_status* put_transpose(carnot_node* at, carnot_value* x, const int* perm, int rank,
                                    carnot_value** out) {
  int64_t list[CARNOT_MAX_RANK];
  carnot_attrs attrs = {0};
  carnot_node* made;
  for (int i = 0; i < rank; i++) list[i] = perm[i];
  carnot_attrs_set_ints(&attrs, &at->block->graph->arena, "perm", list, (size_t)rank);
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_TRANSPOSE, NULL, &attrs, &x, 1, 1, &made));
  *out = made->outputs[0];
  carnot_value_keep_range(*out, x);
  return NULL;
}

// |x| with leading axes of 1.
static carnot_status* pad_rank(const move* m, carnot_value** x) {
  int64_t axes[CARNOT_MAX_RANK];
  const int missing = m->order->rank - (*x)->type.rank;
  if (missing == 0) return NULL;
  for (int i = 0; i < missing; i++) axes[i] = i;
  carnot_value* inputs[2] = {*x, carnot_graph_ints(m->node->block, axes, missing)};
  carnot_node* made;
  CARNOT_TRY(
      carnot_node_insert_before(m->node, CARNOT_OP_UNSQUEEZE, NULL, NULL, inputs, 2, 1, &made));
  carnot_value_keep_range(made->outputs[0], *x);
  *x = made->outputs[0];
  return NULL;
}

// |x| by order->inverse.
static carnot_status* reordered(const move* m, carnot_value* x, carnot_value** out) {
  const carnot_node* producer = x->producer;
  *out = NULL;
  if (carnot_is_transpose_by(producer, m->order, m->order->perm) &&
      producer->block == m->node->block) {
    *out = producer->inputs[0];
    return NULL;
  }
  for (size_t i = 0; i < x->use_count; i++) {
    const carnot_node* reader = x->uses[i].node;
    if (reader->id < m->first_new || reader->block != m->node->block ||
        !carnot_is_transpose_by(reader, m->order, m->order->inverse))
      continue;
    *out = reader->outputs[0];
    return NULL;
  }
  CARNOT_TRY(pad_rank(m, &x));
  return put_transpose(m->node, x, m->order->inverse, m->order->rank, out);
}

// The list of input |i| with its items in the order of the new axes.
static carnot_value* reorder_list(const move* m, int i) {
  const carnot_tensor* from = &m->node->inputs[i]->constant->tensor;
  const size_t rank = (size_t)m->order->rank,
               item = carnot_tensor_bytes(from) / (size_t)from->dims[0];
  carnot_tensor to = *from;
  to.data = carnot_arena_alloc(&m->node->block->graph->arena, (size_t)from->dims[0], item);
  if (!to.data) return m->node->inputs[i];  // the arena has failed
  for (size_t k = 0; k < (size_t)from->dims[0]; k++) {
    const size_t part = k / rank * rank, at = part + (size_t)m->order->perm[k % rank];
    memcpy((char*)to.data + at * item, (const char*)from->data + k * item, item);
  }
  return carnot_graph_constant(m->node->block, NULL, &to);
}

// Copies the attributes of the node with the axes that they name renamed.
static carnot_attrs rename_attributes(const move* m) {
  carnot_arena* arena = &m->node->block->graph->arena;
  const carnot_op_axes* axes = axes_of(m->node);
  carnot_attrs attrs = {0};
  for (size_t i = 0; i < m->node->attrs.count; i++)
    carnot_attrs_set(&attrs, arena, m->node->attrs.items[i]);
  if (axes->axis)
    carnot_attrs_set_int(&attrs, arena, axes->axis, m->order->perm[named_axis(m->node)]);
  size_t count = 0;
  const int64_t* from = axes->axes ? carnot_attr_ints(&attrs, axes->axes, &count) : NULL;
  if (count == 0 || count > CARNOT_MAX_RANK) return attrs;
  int64_t list[CARNOT_MAX_RANK];
  for (size_t i = 0; i < count; i++)
    list[i] = m->order->perm[from[i] < 0 ? from[i] + m->order->rank : from[i]];
  carnot_attrs_set_ints(&attrs, arena, axes->axes, list, count);
  return attrs;
}

static carnot_value* renamed_axes(const move* m) {
  axis_list list = listed_axes(m->node);
  for (int i = 0; i < list.count; i++) list.items[i] = m->order->perm[list.items[i]];
  const bool scalar = has_input(m->node, axes_of(m->node)->axes_input - 1) &&
                      m->node->inputs[axes_of(m->node)->axes_input - 1]->type.rank == 0;
  return carnot_graph_ints(m->node->block, list.items, scalar ? -1 : list.count);
}

// The operands of the new node; *out_count may be more than the old node has.
static carnot_status* reorder_operands(const move* m, carnot_value** out, int* out_count) {
  const carnot_node* node = m->node;
  const carnot_op_axes* axes = axes_of(node);
  const int axes_input = axes->axes_input - 1;
  *out_count = node->input_count;
  for (int i = 0; i < node->input_count; i++) {
    out[i] = node->inputs[i];
    if (carnot_node_input_moves(node, i)) {
      CARNOT_TRY(reordered(m, node->inputs[i], &out[i]));
    } else if (out[i] && axes->per_axis >> i & 1 && !lists_axes(node) &&
               out[i]->constant->tensor.dims[0] > 0) {
      out[i] = reorder_list(m, i);
    }
  }
  const bool listed = has_input(node, axes_input);
  if (axes_input < 0 || (!listed && (axes->per_axis || axes_input == 1))) return NULL;
  while (*out_count <= axes_input) out[(*out_count)++] = NULL;
  out[axes_input] = renamed_axes(m);
  return NULL;
}

// How the axes of a result are ordered in the new node's.
static carnot_order result_order(const move* m) {
  const axis_list dropped = dropped_axes(m->node);
  if (is_elementwise(m->node) || dropped.count == 0) return *m->order;
  unsigned gone = 0;
  carnot_order order = {.rank = m->order->rank - dropped.count};
  for (int i = 0; i < dropped.count; i++) gone |= 1u << dropped.items[i];
  for (int axis = 0, i = 0; axis < m->order->rank; axis++) {
    if (gone >> axis & 1) continue;
    int at = 0;  // of the axis among those left, in the new order
    for (int other = 0; other < m->order->rank; other++)
      at += !(gone >> other & 1) && m->order->perm[other] < m->order->perm[axis];
    order.perm[i++] = at;
  }
  return with_inverse(order);
}

static bool is_identity(const carnot_order* order) {
  for (int i = 0; i < order->rank; i++)
    if (order->perm[i] != i) return false;
  return true;
}

int64_t carnot_node_moved_results(const carnot_node* node, const carnot_order* order) {
  const carnot_type* type = &node->outputs[0]->type;
  if (type->rank == order->rank) return 0;
  const move m = {.order = order, .node = (carnot_node*)(uintptr_t)node};
  const carnot_order results = result_order(&m);
  if (is_identity(&results)) return 0;
  int64_t elements = 1;
  for (int d = 0; d < type->rank; d++)
    if (carnot_sym_is_const(type->dims[d]) && elements < INT64_C(1) << 40)
      elements *= type->dims[d].bits;
  return elements;
}

// The readers of |from| read a transpose of |to|, which takes over its name.
static carnot_status* replace_result(const move* m, carnot_value* from, carnot_value* to,
                                     const carnot_order* order) {
  carnot_value* result = to;
  carnot_value_keep_range(to, from);
  if (!is_identity(order))
    CARNOT_TRY(put_transpose(m->node, to, order->perm, order->rank, &result));
  result->name = from->name;
  result->forced_dtype = from->forced_dtype;
  carnot_value_keep_range(result, from);
  carnot_value_replace(from, result);
  return NULL;
}

carnot_status* carnot_node_move_axes(carnot_node* node, const carnot_order* order,
                                     uint32_t first_new) {
  const move m = {order, node, first_new};
  const carnot_order results = result_order(&m);
  const carnot_attrs attrs = rename_attributes(&m);
  carnot_value* operands[kMostInputs + 4];
  int count;
  carnot_node* made;
  CARNOT_TRY(reorder_operands(&m, operands, &count));
  CARNOT_TRY(carnot_node_insert_before(node, node->op, node->name, &attrs, operands, count,
                                       node->output_count, &made));
  made->order = node->order;
  made->is_unnamed = node->is_unnamed;
  made->type_name = node->type_name;
  made->precision = node->precision;
  made->absorbed = node->absorbed;
  made->absorbed_count = node->absorbed_count;
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i])
      CARNOT_TRY(replace_result(&m, node->outputs[i], made->outputs[i], &results));
  carnot_node_remove(node);
  return NULL;
}
