// Hoists slices and gathers: slice(f(x)) -> f(slice(x)) through GEMMs by constant weights, norms,
// pointwise nodes, transposes and reshapes, so that rows that nothing reads (all but the class
// token of a vision transformer, all but the last position of a sequence) are not computed. A value
// with other readers stays whole.
#include "pass/pass.h"

enum { kMostOperands = 8, kMostDepth = 24 };

// A gather by constant indices, or a slice, along one axis.
typedef struct taking {
  carnot_node* node;
  int axis;
  int64_t count;  // of what is taken
} taking;

// ---- what takes ----

static bool read_taking(carnot_node* node, taking* out) {
  int64_t axis;
  *out = (taking){.node = node};
  for (int i = 1; i < node->input_count; i++)
    if (!node->inputs[i] || !node->inputs[i]->constant) return false;
  if ((node->op != CARNOT_OP_GATHER && node->op != CARNOT_OP_SLICE) ||
      !carnot_is_ranked(node->inputs[0]))
    return false;
  int rank = node->inputs[0]->type.rank;
  if (node->op == CARNOT_OP_GATHER)
    axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  else if (node->input_count < 4 || carnot_value_ints(node->inputs[3], &axis, 1) != 1)
    return false;
  out->axis = (int)(axis < 0 ? axis + rank : axis);
  if (out->axis < 0 || out->axis >= rank || node->outputs[0]->type.rank != rank) return false;
  carnot_sym count = node->outputs[0]->type.dims[out->axis];
  out->count = carnot_sym_is_const(count) ? count.bits : -1;
  return out->count > 0;
}

static carnot_status* put_taking(const taking* like, carnot_node* at, carnot_value* data, int axis,
                                 carnot_value** out) {
  carnot_arena* arena = &at->block->graph->arena;
  carnot_value* inputs[kMostOperands] = {data};
  carnot_attrs attrs = {0};
  carnot_node* made;
  int64_t along = axis;
  for (int i = 1; i < like->node->input_count; i++) inputs[i] = like->node->inputs[i];
  if (like->node->op == CARNOT_OP_GATHER)
    carnot_attrs_set_int(&attrs, arena, "axis", axis);
  else
    inputs[3] = carnot_graph_ints(at->block, &along, 1);
  CARNOT_TRY(carnot_node_insert_before(at, like->node->op, NULL, &attrs, inputs,
                                       like->node->input_count, 1, &made));
  *out = made->outputs[0];
  return NULL;
}

// One index without an axis of its own: as a list of one, and the axis taken away behind.
static carnot_status* give_axis(carnot_node* node) {
  double index;
  carnot_value *pair[2], *taken;
  carnot_node* squeezed;
  if (node->op != CARNOT_OP_GATHER || !carnot_is_ranked(node->inputs[0]) ||
      !carnot_is_ranked(node->inputs[1]) || node->inputs[1]->type.rank != 0 ||
      !carnot_value_scalar(node->inputs[1], &index))
    return NULL;
  int64_t at = (int64_t)index;
  int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  if (axis < 0) axis += node->inputs[0]->type.rank;
  carnot_node list = *node;
  carnot_value* inputs[2] = {node->inputs[0], carnot_graph_ints(node->block, &at, 1)};
  list.inputs = inputs;
  const taking like = {.node = &list};
  CARNOT_TRY(put_taking(&like, node, inputs[0], (int)axis, &taken));
  pair[0] = taken, pair[1] = carnot_graph_ints(node->block, &axis, 1);
  CARNOT_TRY(carnot_node_insert_before(node, CARNOT_OP_SQUEEZE, NULL, NULL, pair, 2, 1, &squeezed));
  carnot_value_replace(node->outputs[0], squeezed->outputs[0]);
  carnot_node_remove(node);
  return NULL;
}

// ---- what it may be taken of ----

// By weights: attention's products are recognised as a whole.
static bool is_product(const carnot_node* node) {
  return (node->op == CARNOT_OP_MATMUL || node->op == CARNOT_OP_GEMM) &&
         carnot_value_is_constant(node->inputs[1]);
}
static bool is_norm(const carnot_node* node) {
  return (node->op == CARNOT_OP_LAYER_NORM || node->op == CARNOT_OP_RMS_NORM) &&
         (node->output_count == 1);
}
static bool is_pointwise(const carnot_node* node) {
  return carnot_node_fn(node) != CARNOT_FN_COUNT || node->op == CARNOT_OP_CAST;
}

// A product is, where what leads to it is for this reader alone; a norm, which
// others may read the operand of, costs less for fewer rows.
static bool is_worth_it(const carnot_value* value, int depth) {
  const carnot_node* node = value ? value->producer : NULL;
  if (!node || depth == kMostDepth || !carnot_only_user(value)) return false;
  if (is_product(node) || is_norm(node)) return true;
  int inputs = is_pointwise(node) ? node->input_count : 1;
  if (!is_pointwise(node) && node->op != CARNOT_OP_RESHAPE && node->op != CARNOT_OP_TRANSPOSE)
    return false;
  for (int i = 0; i < inputs; i++)
    if (is_worth_it(node->inputs[i], depth + 1)) return true;
  return false;
}

// The axis of an operand that broadcasts to |like|; -1 where it is not that long there.
static int axis_in(const carnot_value* operand, const carnot_type* like, int axis) {
  int at = axis - (like->rank - operand->type.rank);
  return at >= 0 && carnot_sym_same(operand->type.dims[at], like->dims[axis]) ? at : -1;
}
static bool repeats_in(const carnot_value* operand, const carnot_type* like, int axis) {
  int at = axis - (like->rank - operand->type.rank);
  return at < 0 || carnot_sym_is(operand->type.dims[at], 1);
}

// |dims| as a list for a reshape; false where it takes more than one open dimension.
static bool list_of(const carnot_sym* dims, int rank, int64_t* out) {
  int open = 0;
  for (int d = 0; d < rank; d++) {
    bool known = carnot_sym_is_const(dims[d]);
    out[d] = known ? dims[d].bits : -1;
    open += !known;
    if (out[d] == 0) return false;
  }
  return open <= 1;
}

// ---- taking of operands ----

typedef struct rewrite {
  const taking* t;
  carnot_node* from;  // the node whose result was taken of
  carnot_status* status;
} rewrite;

static carnot_value* take(rewrite* r, carnot_value* data, int axis) {
  carnot_value* out = NULL;
  if (!r->status) r->status = put_taking(r->t, r->from, data, axis, &out);
  return out;
}

// |gone|: the node in whose place it is, NULL where there was none.
static carnot_value* put(rewrite* r, carnot_op op, const carnot_attrs* attrs, carnot_value** inputs,
                         int count, const carnot_node* gone) {
  carnot_node* made;
  const char* name = gone ? gone->name : NULL;
  if (r->status) return NULL;
  r->status = carnot_node_insert_before(r->from, op, name, attrs, inputs, count, 1, &made);
  if (r->status) return NULL;
  if (gone) made->precision = gone->precision;
  if (gone) carnot_node_absorb(made, gone);
  return made->outputs[0];
}

static carnot_value* shaped(rewrite* r, carnot_value* x, const int64_t* dims, int rank) {
  carnot_value* inputs[2] = {x, carnot_graph_ints(r->from->block, dims, rank)};
  return put(r, CARNOT_OP_RESHAPE, NULL, inputs, 2, NULL);
}

static carnot_value* through_pointwise(rewrite* r) {
  carnot_node* node = r->from;
  const carnot_type* type = &node->outputs[0]->type;
  carnot_value* inputs[kMostOperands];
  bool any = false;  // else the axis has one place, which may be taken more than once
  if (node->input_count > kMostOperands) return NULL;
  for (int i = 0; i < node->input_count; i++) {
    if (!carnot_is_ranked(node->inputs[i])) return NULL;
    bool repeats = repeats_in(node->inputs[i], type, r->t->axis);
    if (!repeats && axis_in(node->inputs[i], type, r->t->axis) < 0) return NULL;
    any |= !repeats;
  }
  if (!any) return NULL;
  for (int i = 0; i < node->input_count; i++) {
    int at = axis_in(node->inputs[i], type, r->t->axis);
    bool whole = at < 0 || repeats_in(node->inputs[i], type, r->t->axis);
    inputs[i] = whole ? node->inputs[i] : take(r, node->inputs[i], at);
  }
  return put(r, node->op, &node->attrs, inputs, node->input_count, node);
}

// Of the first operand, the others as they are.
static carnot_value* through_first(rewrite* r, int axis) {
  carnot_node* node = r->from;
  carnot_value* inputs[kMostOperands];
  if (node->input_count > kMostOperands) return NULL;
  for (int i = 1; i < node->input_count; i++) inputs[i] = node->inputs[i];
  inputs[0] = take(r, node->inputs[0], axis);
  return put(r, node->op, &node->attrs, inputs, node->input_count, node);
}

static carnot_value* through_norm(rewrite* r) {
  const carnot_node* node = r->from;
  int64_t first = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  if (first < 0) first += node->outputs[0]->type.rank;
  return r->t->axis < first ? through_first(r, r->t->axis) : NULL;
}

// Rows of a product are its first operand's; of one in two axes what is added repeats or is
// constant.
static carnot_value* through_product(rewrite* r) {
  const carnot_node* node = r->from;
  const carnot_type *y = &node->outputs[0]->type, *a = &node->inputs[0]->type;
  bool gemm = node->op == CARNOT_OP_GEMM;
  if (r->t->axis != y->rank - 2 || a->rank < 2 ||
      !carnot_sym_same(a->dims[a->rank - 2], y->dims[y->rank - 2]))
    return NULL;
  if (gemm && carnot_attr_int(carnot_node_row(node), &node->attrs, "transA")) return NULL;
  if (gemm && node->input_count > 2 && node->inputs[2] &&
      !repeats_in(node->inputs[2], y, r->t->axis))
    return NULL;
  return through_first(r, a->rank - 2);
}

// One that moves axes of one number only is a reshape, which products do not mind.
static carnot_value* through_transpose(rewrite* r) {
  const carnot_type* type = &r->from->outputs[0]->type;
  int64_t dims[CARNOT_MAX_RANK];
  size_t count, last = 0;
  const int64_t* perm = carnot_attr_ints(&r->from->attrs, "perm", &count);
  if (!perm || count != (size_t)type->rank) return NULL;
  bool in_order = list_of(type->dims, type->rank, dims);
  dims[r->t->axis] = r->t->count;
  for (size_t d = 0; d < count && in_order; d++) {
    if (dims[d] == 1) continue;
    in_order = (size_t)perm[d] >= last;
    last = (size_t)perm[d];
  }
  int axis = (int)perm[r->t->axis];
  return in_order ? shaped(r, take(r, r->from->inputs[0], axis), dims, type->rank)
                  : through_first(r, axis);
}

// A flattened product shaped afterwards: its operand is shaped instead, and taken of.
static carnot_value* through_flat_product(rewrite* r, const carnot_node* product) {
  const carnot_type *y = &r->from->outputs[0]->type, *a = &product->inputs[0]->type;
  carnot_sym last = y->dims[y->rank - 1];
  carnot_value *inputs[kMostOperands], *x;
  int64_t whole[CARNOT_MAX_RANK], part[CARNOT_MAX_RANK];
  bool flat = product->outputs[0]->type.rank == 2 && a->rank == 2 && r->t->axis < y->rank - 1 &&
              carnot_sym_same(last, product->outputs[0]->type.dims[1]) &&
              carnot_only_user(product->outputs[0]) && product->input_count <= 3;
  if (product->op == CARNOT_OP_GEMM)
    flat = flat && !carnot_attr_int(carnot_node_row(product), &product->attrs, "transA") &&
           (product->input_count < 3 || !product->inputs[2] ||
            repeats_in(product->inputs[2], &product->outputs[0]->type, 0));
  carnot_type rows = *y;
  rows.dims[y->rank - 1] = a->dims[1];
  if (!flat || !list_of(rows.dims, y->rank, whole) || !list_of(y->dims, y->rank, part)) return NULL;
  const int64_t folded[2] = {-1, whole[y->rank - 1]};
  if (folded[1] < 0) return NULL;
  part[r->t->axis] = r->t->count;
  x = product->inputs[0];
  bool flattened = x->producer && x->producer->op == CARNOT_OP_RESHAPE &&
                   carnot_same_dims(&x->producer->inputs[0]->type, &rows);
  x = flattened ? x->producer->inputs[0] : shaped(r, x, whole, y->rank);
  x = take(r, x, r->t->axis);
  for (int i = 1; i < product->input_count; i++) inputs[i] = product->inputs[i];
  inputs[0] = shaped(r, x, folded, 2);
  return shaped(r, put(r, product->op, &product->attrs, inputs, product->input_count, product),
                part, y->rank);
}

// Axes up to the one that is taken of stay what they are.
static carnot_value* through_reshape(rewrite* r) {
  const carnot_value* x = r->from->inputs[0];
  const carnot_type *from = &x->type, *to = &r->from->outputs[0]->type;
  int64_t part[CARNOT_MAX_RANK];
  bool same = carnot_is_ranked(x) && from->rank > r->t->axis;
  for (int d = 0; same && d <= r->t->axis; d++) same = carnot_sym_same(from->dims[d], to->dims[d]);
  if (carnot_is_ranked(x) && x->producer && is_product(x->producer) && !same)
    return through_flat_product(r, x->producer);
  if (!same || !list_of(to->dims, to->rank, part)) return NULL;
  part[r->t->axis] = r->t->count;
  return shaped(r, take(r, r->from->inputs[0], r->t->axis), part, to->rank);
}

static carnot_value* through(rewrite* r) {
  const carnot_node* node = r->from;
  if (!carnot_is_ranked(node->outputs[0])) return NULL;
  if (is_pointwise(node)) return through_pointwise(r);
  if (is_norm(node)) return through_norm(r);
  if (is_product(node)) return through_product(r);
  if (node->op == CARNOT_OP_TRANSPOSE) return through_transpose(r);
  return node->op == CARNOT_OP_RESHAPE ? through_reshape(r) : NULL;
}

// Merges readers that take the same slice of one value, at the position of the first.
static void join(carnot_node* node, const taking* t) {
  const carnot_value* data = node->inputs[0];
  for (size_t i = data->use_count; i-- > 0;) {
    carnot_node* other = data->uses[i].node;
    taking its;
    if (other == node || other->block != node->block || other->op != node->op ||
        !read_taking(other, &its) || its.axis != t->axis ||
        other->input_count != node->input_count || other->inputs[1] != node->inputs[1] ||
        (node->input_count > 2 && other->inputs[2] != node->inputs[2]))
      continue;
    bool behind = false;
    for (const carnot_node* n = node; n && !behind; n = n->next) behind = n == other;
    if (!behind) continue;
    carnot_value_replace(other->outputs[0], node->outputs[0]);
    carnot_node_remove(other);
  }
}

// Takes |node| out and what was there for it alone, so that others are the only readers again.
static void drop(carnot_node* node) {
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i] && carnot_value_used(node->outputs[i])) return;
  carnot_node* makers[kMostOperands];
  int count = 0;
  for (int i = 0; i < node->input_count && count < kMostOperands; i++)
    if (node->inputs[i] && node->inputs[i]->producer && node->inputs[i]->block == node->block)
      makers[count++] = node->inputs[i]->producer;
  carnot_node_remove(node);
  for (int i = 0; i < count; i++)
    if (makers[i]->block == node->block && (makers[i]->next || makers[i]->previous))
      drop(makers[i]);
}

// One step up; *out_done where there was one.
static carnot_status* visit_one(carnot_block* block, bool* out_done) {
  for (carnot_node* node = block->last; node; node = node->previous) {
    taking t;
    if (!read_taking(node, &t)) continue;
    join(node, &t);
    const carnot_value* data = node->inputs[0];
    if (carnot_only_user(data) != node || !data->producer || data->producer->block != block ||
        !is_worth_it(data, 0))
      continue;
    rewrite r = {.t = &t, .from = data->producer};
    carnot_value* made = through(&r);
    CARNOT_TRY(r.status);
    if (!made) continue;
    *out_done = true;
    carnot_value_replace(node->outputs[0], made);
    drop(node);
    return NULL;
  }
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op == CARNOT_OP_GATHER && is_worth_it(node->inputs[0], 0))
      CARNOT_TRY(give_axis(node));
  }
  for (bool done = true; done;) {
    done = false;
    CARNOT_TRY(visit_one(block, &done));
  }
  return NULL;
}

carnot_status* carnot_pass_hoist_slices(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
