// Layout: moves transposes between channels-first and channels-last through operators that work in
// either order of axes, until they meet and vanish.
//
// A transpose commutes with most operators (carnot_op_axes). For each order of axes that transposes
// of the block use, every such operator either stays or works on transposed data. An edge between
// two that decide differently takes a transpose of its value. The choice that moves the fewest
// elements is a minimum cut: operators that change their order are on the source's side.
#include "pass/layout_edges.h"
#include "pass/min_cut.h"
#include "pass/move_axes.h"
#include "pass/pass.h"

enum { kMostRank = 6, kMostRounds = 4 };

typedef struct layout {
  carnot_order order;  // of the transposes that vanish; what changes works on data before them
  carnot_block* block;
  carnot_arena scratch;
  carnot_min_cut cut;
  int32_t* vertex_of;  // by id of the node; 0: it stays
  bool* is_seen;       // by id of the value
  carnot_status* status;
} layout;

static void add_edge(layout* l, int32_t from, int32_t to, int64_t cost) {
  if (!l->status && cost > 0) l->status = carnot_min_cut_add_edge(&l->cut, from, to, cost);
}

static int32_t add_vertex(layout* l) {
  int32_t vertex = 0;
  if (!l->status) l->status = carnot_min_cut_add_vertex(&l->cut, &vertex);
  return vertex;
}

static int32_t vertex_of(const layout* l, const carnot_node* node) {
  return node && node->block == l->block ? l->vertex_of[node->id] : 0;
}

// Elements that a transpose of |value| moves; open dimensions count once.
static int64_t cost_of(const layout* l, const carnot_value* value) {
  enum { kStep = 16 };  // a transpose is a step even where it moves nothing
  const carnot_type* type = &value->type;
  if (type->rank == l->order.rank && carnot_order_keeps_elements(&l->order, type)) return 1;
  int64_t elements = 1;
  for (int d = 0; d < type->rank; d++)
    if (carnot_sym_is_const(type->dims[d]) && elements < INT64_C(1) << 40)
      elements *= type->dims[d].bits;
  return kStep + elements;
}

// Who reads a value.
typedef struct readers {
  int32_t vertex;     // joined with every reader that may change
  bool some, others;  // readers that may change; that may not
} readers;

// Adds a vertex that is on the source's side only with all readers (|all|), or with any.
static readers join_readers(layout* l, const carnot_value* value, bool all) {
  readers r = {.others = value->block_output_count > 0};
  for (size_t i = 0; i < value->use_count; i++) {
    const carnot_node* reader = value->uses[i].node;
    const int32_t vertex = vertex_of(l, reader);
    if (!vertex || !carnot_node_input_moves(reader, value->uses[i].input)) {
      r.others |= vertex || reader->block != l->block || reader->op != CARNOT_OP_TRANSPOSE;
      continue;
    }
    if (!r.some) r.vertex = add_vertex(l);
    r.some = true;
    add_edge(l, all ? r.vertex : vertex, all ? vertex : r.vertex, CARNOT_MIN_CUT_INFINITE);
  }
  return r;
}

// True where the transpose's result is what an operator that may change reads, in the one order
// that is its own inverse: its price is counted there.
static bool is_priced_below(const layout* l, const carnot_node* transpose) {
  const carnot_value* value = transpose->outputs[0];
  if (!carnot_is_transpose_by(transpose, &l->order, l->order.perm)) return false;
  for (size_t i = 0; i < value->use_count; i++)
    if (vertex_of(l, value->uses[i].node)) return true;
  return false;
}

// A value that operator |maker| makes.
static void price_made(layout* l, const carnot_value* value, int32_t maker) {
  const int64_t cost = cost_of(l, value);
  const readers stay = join_readers(l, value, true);
  if (stay.some) {
    add_edge(l, maker, stay.vertex, cost);
    if (stay.others) add_edge(l, stay.vertex, CARNOT_MIN_CUT_SINK, CARNOT_MIN_CUT_INFINITE);
    const readers change = join_readers(l, value, false);
    add_edge(l, change.vertex, maker, cost);
  } else if (stay.others) {
    add_edge(l, maker, CARNOT_MIN_CUT_SINK, cost);
  }
  for (size_t i = 0; i < value->use_count; i++) {
    const carnot_node* reader = value->uses[i].node;
    if (reader->block == l->block && carnot_is_transpose_by(reader, &l->order, l->order.inverse) &&
        !is_priced_below(l, reader))
      add_edge(l, CARNOT_MIN_CUT_SOURCE, maker, cost);
  }
}

// A transpose of what a convolution gives: its kernel takes what follows as its epilogue, where
// nothing is between.
static bool follows_contraction(const carnot_node* transpose) {
  const carnot_node* producer = transpose->inputs[0]->producer;
  return producer && carnot_op_has_trait(producer->op, CARNOT_TRAIT_CONTRACTION);
}

// A value that is there in this order of axes.
static void price_given(layout* l, const carnot_value* value) {
  const int64_t cost = cost_of(l, value);
  const carnot_node* producer = value->producer;
  const bool is_transposed = producer && producer->block == l->block &&
                             carnot_is_transpose_by(producer, &l->order, l->order.perm);
  const readers r = join_readers(l, value, is_transposed);
  if (!is_transposed)
    add_edge(l, r.vertex, CARNOT_MIN_CUT_SINK, cost);
  else if (!r.others)
    add_edge(l, CARNOT_MIN_CUT_SOURCE, r.vertex, cost + follows_contraction(producer));
}

// Operands of an element-wise operator that have fewer axes.
static void price_small(layout* l, const carnot_value* value, int32_t vertex) {
  add_edge(l, vertex, CARNOT_MIN_CUT_SINK, cost_of(l, value));
}

static void price_node(layout* l, const carnot_node* node) {
  const int32_t vertex = vertex_of(l, node);
  add_edge(l, vertex, CARNOT_MIN_CUT_SINK, carnot_node_moved_results(node, &l->order));
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    if (!carnot_node_input_moves(node, i) || value->constant) continue;
    if (value->type.rank < l->order.rank) {
      price_small(l, value, vertex);
    } else if (!vertex_of(l, value->producer) && !l->is_seen[value->id]) {
      l->is_seen[value->id] = true;
      price_given(l, value);
    }
  }
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i] && node->outputs[i]->type.rank == l->order.rank)
      price_made(l, node->outputs[i], vertex);
}

// The vertices: operators that commute with the transposes. False where no transpose is there.
static bool add_vertices(layout* l) {
  bool found = false, any = false;
  for (const carnot_node* node = l->block->first; node; node = node->next)
    found |= carnot_is_transpose_by(node, &l->order, l->order.perm) ||
             carnot_is_transpose_by(node, &l->order, l->order.inverse);
  if (!found) return false;
  l->status = carnot_min_cut_init(&l->cut);
  for (const carnot_node* node = l->block->first; node && !l->status; node = node->next) {
    if (!carnot_node_can_move_axes(node, &l->order)) continue;
    l->vertex_of[node->id] = add_vertex(l);
    any = true;
  }
  return any;
}

static carnot_status* move_chosen(layout* l, const bool* chosen, bool* out_changed) {
  const uint32_t first_new = l->block->graph->node_count;
  for (carnot_node *node = l->block->first, *next; node; node = next) {
    next = node->next;
    if (node->id >= first_new || !l->vertex_of[node->id] || !chosen[l->vertex_of[node->id]])
      continue;
    CARNOT_TRY(carnot_node_move_axes(node, &l->order, first_new));
    *out_changed = true;
  }
  return NULL;
}

static carnot_status* choose(layout* l, bool* out_changed) {
  void *vertices, *seen, *chosen;
  const carnot_graph* graph = l->block->graph;
  CARNOT_TRY(
      carnot_arena_try(&l->scratch, graph->node_count, sizeof(int32_t), "a pass", &vertices));
  CARNOT_TRY(carnot_arena_try(&l->scratch, graph->value_count, sizeof(bool), "a pass", &seen));
  l->vertex_of = vertices;
  l->is_seen = seen;
  if (!add_vertices(l)) return l->status;
  for (const carnot_node* node = l->block->first; node && !l->status; node = node->next)
    if (l->vertex_of[node->id]) price_node(l, node);
  CARNOT_TRY(l->status);
  CARNOT_TRY(carnot_arena_try(&l->scratch, l->cut.vertex_count, sizeof(bool), "a pass", &chosen));
  CARNOT_TRY(carnot_min_cut_solve(&l->cut, chosen));
  return move_chosen(l, chosen, out_changed);
}

static bool has_transposes(const carnot_block* block) {
  for (const carnot_node* node = block->first; node; node = node->next)
    if (node->op == CARNOT_OP_TRANSPOSE) return true;
  return false;
}

typedef struct attempt {
  carnot_order order;
  bool has_changed;
} attempt;

static carnot_status* visit(carnot_block* block, void* user) {
  attempt* a = user;
  if (!has_transposes(block)) return NULL;
  layout l = {.order = a->order, .block = block};
  carnot_status* status = choose(&l, &a->has_changed);
  carnot_min_cut_deinit(&l.cut);
  carnot_arena_deinit(&l.scratch);
  return status;
}

static carnot_status* try_order(carnot_graph* graph, const carnot_pass_options* options,
                                carnot_order order, bool* out_changed) {
  attempt a = {.order = order};
  CARNOT_TRY(carnot_each_block(graph->main, visit, &a));
  if (!a.has_changed) return NULL;
  *out_changed = true;
  CARNOT_TRY(carnot_pass_algebraic_simplify(graph, options));
  return carnot_pass_cse(graph, options);
}

// A transpose that moves axes of one number only is a reshape, which others join with.
static carnot_status* as_reshape(carnot_node* node, const carnot_order* order, bool* out_changed) {
  const carnot_type* type = &node->outputs[0]->type;
  int64_t dims[CARNOT_MAX_RANK];
  int open = 0;
  for (int i = 0; i < type->rank; i++) {
    const bool known = carnot_sym_is_const(type->dims[i]);
    dims[i] = known ? type->dims[i].bits : -1;
    open += !known;
    if (dims[i] == 0) return NULL;
  }
  if (open > 1 || !carnot_order_keeps_elements(order, &node->inputs[0]->type)) return NULL;
  carnot_value* inputs[2] = {node->inputs[0], carnot_graph_ints(node->block, dims, type->rank)};
  carnot_node* made;
  CARNOT_TRY(
      carnot_node_insert_before(node, CARNOT_OP_RESHAPE, node->name, NULL, inputs, 2, 1, &made));
  made->order = node->order;
  made->is_unnamed = node->is_unnamed;
  carnot_value_keep_range(made->outputs[0], node->outputs[0]);
  made->outputs[0]->name = node->outputs[0]->name;
  carnot_value_replace(node->outputs[0], made->outputs[0]);
  carnot_node_remove(node);
  *out_changed = true;
  return NULL;
}

// A matrix multiplication reads it, perhaps scaled: its kernels take a transposed operand, and
// attention is recognised by that transpose of its keys.
static bool is_operand_of_matmul(const carnot_value* value, bool may_scale) {
  for (size_t i = 0; i < value->use_count; i++) {
    const carnot_node* reader = value->uses[i].node;
    if (reader->op == CARNOT_OP_MATMUL) return true;
    if (may_scale &&
        (carnot_node_is_fn(reader, CARNOT_FN_MUL) || carnot_node_is_fn(reader, CARNOT_FN_DIV)) &&
        is_operand_of_matmul(reader->outputs[0], false))
      return true;
  }
  return false;
}

static carnot_status* reshape_instead(carnot_block* block, void* user) {
  bool* changed = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op != CARNOT_OP_TRANSPOSE || !carnot_is_ranked(node->inputs[0]) ||
        node->inputs[0]->constant || is_operand_of_matmul(node->outputs[0], true))
      continue;
    const int rank = node->inputs[0]->type.rank;
    if (rank < 4 || rank > kMostRank) continue;
    const carnot_order last = carnot_order_channels_last(rank),
                       first = carnot_order_channels_first(rank);
    const carnot_order* order = carnot_is_transpose_by(node, &last, last.perm)     ? &last
                                : carnot_is_transpose_by(node, &first, first.perm) ? &first
                                                                                   : NULL;
    if (order) CARNOT_TRY(as_reshape(node, order, changed));
  }
  return NULL;
}

carnot_status* carnot_pass_layout(carnot_graph* graph, const carnot_pass_options* options) {
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; round++) {
    changed = false;
    for (int rank = 3; rank <= kMostRank; rank++) {
      CARNOT_TRY(try_order(graph, options, carnot_order_channels_last(rank), &changed));
      if (rank == 3) continue;  // both orders are one
      CARNOT_TRY(try_order(graph, options, carnot_order_channels_first(rank), &changed));
    }
    bool crossed = false;
    CARNOT_TRY(carnot_layout_cross_edges(graph, &crossed));
    if (crossed) CARNOT_TRY(carnot_pass_algebraic_simplify(graph, options));
    changed |= crossed;
  }
  changed = false;
  CARNOT_TRY(carnot_each_block(graph->main, reshape_instead, &changed));
  return changed ? carnot_pass_algebraic_simplify(graph, options) : NULL;
}
