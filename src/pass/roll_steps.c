// What is written once for each step of an unrolled loop is computed for all steps at once:
//   Concat(Unsqueeze(f(x[0], w)), Unsqueeze(f(x[1], w)), ..) = f(x, w)
// for pointwise functions, reductions, MatMul by constant weights and by a vector of each step, of
// slices, and the chain
//   h[t] = a[t] * h[t-1] + b[t]
// becomes linear_scan: each step was a kernel or several.
#include "pass/emit.h"

enum { kLeastSteps = 4, kMostDepth = 16, kMostOperands = 4 };

typedef struct roller {
  carnot_emitter e;
  int count;     // steps
  int64_t axis;  // of the steps in what is computed for all
  int depth;
} roller;

static carnot_value* roll(roller* r, carnot_value* const* steps);

static carnot_value** new_steps(roller* r) {
  return CARNOT_NEW_ARRAY(&r->e.at->block->graph->arena, carnot_value*, (size_t)r->count + 1);
}

static bool is_same(const roller* r, carnot_value* const* steps) {
  for (int t = 1; t < r->count; t++)
    if (steps[t] != steps[0]) return false;
  return true;
}

// Operand |i| of what makes each step; NULL where one has none.
static carnot_value** operands(roller* r, carnot_value* const* steps, int i) {
  carnot_value** out = new_steps(r);
  for (int t = 0; out && t < r->count; t++) {
    const carnot_node* node = steps[t]->producer;
    if (!node || i >= node->input_count || !node->inputs[i]) return NULL;
    out[t] = node->inputs[i];
  }
  return out;
}

// Of an operand that broadcasts to results of |rank|: one value for all steps keeps its place.
static carnot_value* roll_operand(roller* r, carnot_value* const* steps, int rank) {
  if (!is_same(r, steps)) {
    for (int t = 0; t < r->count; t++)
      if (!carnot_is_ranked(steps[t]) || steps[t]->type.rank != rank) return NULL;
    return roll(r, steps);
  }
  if (!carnot_is_ranked(steps[0])) return NULL;
  const int64_t at = steps[0]->type.rank - (rank - r->axis);
  return at > 0 ? carnot_emit_unsqueeze(&r->e, steps[0], at) : steps[0];
}

// ---- slices ----

static carnot_value* gathered(const roller* r, carnot_value* const* steps) {
  carnot_value* x = NULL;
  for (int t = 0; t < r->count; t++) {
    const carnot_node* node = steps[t]->producer;
    int64_t index, axis;
    if (!node || node->op != CARNOT_OP_GATHER || node->inputs[1]->type.rank != 0 ||
        carnot_value_ints(node->inputs[1], &index, 1) != 1 || index != t ||
        (x && node->inputs[0] != x))
      return NULL;
    x = node->inputs[0];
    axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
    if (!carnot_is_ranked(x) || (axis < 0 ? axis + x->type.rank : axis) != r->axis) return NULL;
  }
  return carnot_sym_is(x->type.dims[r->axis], r->count) ? x : NULL;
}

// ---- h[t] = a[t] * h[t-1] + b[t] ----

typedef struct link {
  carnot_value *a, *b, *state;
  int at;  // operand of the sum that is the product
} link;

static bool is_alike(const carnot_node* a, const carnot_node* b);

// A step as a sum of something and a product with |state|.
static bool read_link(const carnot_value* step, const carnot_value* state, link* out) {
  const carnot_node* sum = step->producer;
  for (out->at = 0; carnot_node_is_fn(sum, CARNOT_FN_ADD) && out->at < 2; out->at++) {
    const carnot_node* product = sum->inputs[out->at]->producer;
    for (int i = 0; carnot_node_is_fn(product, CARNOT_FN_MUL) && i < 2; i++) {
      if (product->inputs[i] != state) continue;
      out->a = product->inputs[1 - i], out->b = sum->inputs[1 - out->at];
      out->state = product->inputs[i];
      return true;
    }
  }
  return false;
}

// The first step: its factor is made as that of |next| is, the other operand is the first state.
static bool read_first_link(const carnot_value* step, const link* next, link* out) {
  const carnot_node* sum = step->producer;
  if (!carnot_node_is_fn(sum, CARNOT_FN_ADD)) return false;
  const carnot_node* product = sum->inputs[next->at]->producer;
  if (!carnot_node_is_fn(product, CARNOT_FN_MUL)) return false;
  const int at = is_alike(product->inputs[0]->producer, next->a->producer) ? 0 : 1;
  *out = (link){product->inputs[at], sum->inputs[1 - next->at], product->inputs[1 - at], next->at};
  return true;
}

static carnot_value* scanned(roller* r, carnot_value* const* steps) {
  carnot_value **a = new_steps(r), **b = new_steps(r);
  link l = {.at = 0}, next = l;
  for (int t = r->count - 1; a && b && t >= 0; t--) {
    if (!(t ? read_link(steps[t], steps[t - 1], &l) : read_first_link(steps[0], &next, &l)) ||
        !carnot_same_dims(&steps[t]->type, &steps[0]->type) ||
        !carnot_same_dims(&l.a->type, &steps[0]->type) ||
        !carnot_same_dims(&l.b->type, &steps[0]->type))
      return NULL;
    a[t] = l.a, b[t] = l.b, next = l;
  }
  if (!a || !b || !carnot_same_dims(&l.state->type, &steps[0]->type)) return NULL;
  const int rank = steps[0]->type.rank;
  carnot_value* inputs[3] = {roll_operand(r, a, rank), roll_operand(r, b, rank), l.state};
  if (!inputs[0] || !inputs[1] || !carnot_same_dims(&inputs[0]->type, &inputs[1]->type))
    return NULL;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &r->e.at->block->graph->arena, "axis", r->axis);
  return carnot_emit(&r->e, CARNOT_OP_LINEAR_SCAN, &attrs, inputs, 3);
}

// ---- nodes of one kind ----

// What a node says beside its operands: numbers and words that all steps share.
static bool is_alike(const carnot_node* a, const carnot_node* b) {
  if (!a || !b || a->op != b->op || a->input_count != b->input_count || a->output_count != 1 ||
      b->output_count != 1 || a->attrs.count != b->attrs.count || a->precision != b->precision)
    return false;
  for (size_t i = 0; i < a->attrs.count; i++) {
    const carnot_attr *x = &a->attrs.items[i], *y = &b->attrs.items[i];
    if (x->type != y->type || strcmp(x->name, y->name) != 0) return false;
    if (x->type == CARNOT_ATTR_INT && x->i == y->i) continue;
    if (x->type == CARNOT_ATTR_STRING && carnot_view_equal(x->s, y->s)) continue;
    if (x->type == CARNOT_ATTR_FLOAT && memcmp(&x->f, &y->f, sizeof(x->f)) == 0) continue;
    return false;
  }
  return true;
}

// Axes behind the one of the steps move by one; false where one is before it.
static bool move_axes(const roller* r, const carnot_value* axes, int rank, int64_t* out,
                      int* out_count) {
  *out_count = carnot_value_ints(axes, out, CARNOT_MAX_RANK);
  for (int i = 0; i < *out_count; i++) {
    out[i] += out[i] < 0 ? rank : 0;
    if (out[i]++ < r->axis) return false;
  }
  return *out_count > 0;
}

static carnot_value* roll_pointwise(roller* r, carnot_value* const* steps) {
  const carnot_node* node = steps[0]->producer;
  carnot_value* inputs[kMostOperands] = {NULL};
  bool any = false;
  if (node->input_count > kMostOperands) return NULL;
  for (int i = 0; i < node->input_count; i++) {
    carnot_value** all = operands(r, steps, i);
    inputs[i] = all ? roll_operand(r, all, steps[0]->type.rank) : NULL;
    if (!inputs[i]) return NULL;
    any = any || !is_same(r, all);
  }
  return any ? carnot_emit(&r->e, node->op, &node->attrs, inputs, node->input_count) : NULL;
}

// Reductions, and axes that come or go: their second operand lists the axes, of tensors of |rank|.
static carnot_value* roll_axes(roller* r, carnot_value* const* steps, int rank) {
  const carnot_node* node = steps[0]->producer;
  int64_t axes[CARNOT_MAX_RANK], other[CARNOT_MAX_RANK];
  int count, others;
  carnot_value** all = operands(r, steps, 0);
  if (node->input_count != 2 || !all || is_same(r, all) || !node->inputs[1] ||
      !move_axes(r, node->inputs[1], rank, axes, &count))
    return NULL;
  for (int t = 1; t < r->count; t++)
    if (!steps[t]->producer->inputs[1] ||
        !move_axes(r, steps[t]->producer->inputs[1], rank, other, &others) || others != count ||
        memcmp(axes, other, (size_t)count * sizeof(*axes)) != 0)
      return NULL;
  carnot_value* x = roll(r, all);
  carnot_value* inputs[2] = {x, carnot_emit_ints(&r->e, axes, count)};
  return x ? carnot_emit(&r->e, node->op, &node->attrs, inputs, 2) : NULL;
}

static carnot_value* roll_matmul(roller* r, carnot_value* const* steps) {
  const carnot_node* node = steps[0]->producer;
  carnot_value **x = operands(r, steps, 0), **w = operands(r, steps, 1);
  if (node->input_count != 2 || !x || !w || is_same(r, x) || !is_same(r, w) ||
      !carnot_is_ranked(w[0]) || w[0]->type.rank != 2 || steps[0]->type.rank < 2 ||
      r->axis >= steps[0]->type.rank)
    return NULL;
  carnot_value* inputs[2] = {roll(r, x), w[0]};
  return inputs[0] ? carnot_emit(&r->e, node->op, &node->attrs, inputs, 2) : NULL;
}

// Products x[t] [.., m, k] by vectors w[t] [.., k, 1], stacked between m and 1:
//   y[.., m, t, 1] = sum_k x[.., m, t, k] * w[.., t, k]
static carnot_value* roll_vectors(roller* r, carnot_value* const* steps) {
  carnot_value **x = operands(r, steps, 0), **w = operands(r, steps, 1);
  const int rank = steps[0]->type.rank;
  if (!x || !w || rank < 2 || r->axis != rank - 1 ||
      !carnot_sym_is(steps[0]->type.dims[rank - 1], 1))
    return NULL;
  for (int t = 0; t < r->count; t++) {
    const carnot_node* node = w[t]->producer;
    int64_t axis;
    if (!node || node->op != CARNOT_OP_UNSQUEEZE || w[t]->type.rank != rank ||
        x[t]->type.rank != rank || carnot_value_ints(node->inputs[1], &axis, 1) != 1 ||
        (axis < 0 ? axis + rank : axis) != rank - 1)
      return NULL;
    w[t] = node->inputs[0];
  }
  carnot_value* wide = roll(r, x);
  r->axis = rank - 2;
  carnot_value* vectors = wide ? roll(r, w) : NULL;
  r->axis = rank - 1;
  if (!vectors) return NULL;
  vectors = carnot_emit_unsqueeze(&r->e, vectors, rank - 2);
  carnot_value* product = carnot_emit_binary(&r->e, CARNOT_FN_MUL, wide, vectors);
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, &r->e.at->block->graph->arena, "fn", "sum");
  carnot_value* inputs[2] = {product, carnot_emit_ints(&r->e, (int64_t[]){rank}, 1)};
  return carnot_emit(&r->e, CARNOT_OP_REDUCE, &attrs, inputs, 2);
}

static carnot_value* roll_nodes(roller* r, carnot_value* const* steps) {
  const carnot_node* node = steps[0]->producer;
  for (int t = 1; t < r->count; t++)
    if (!is_alike(node, steps[t]->producer)) return NULL;
  if (!node || !carnot_is_ranked(node->inputs[0])) return NULL;
  const int rank = node->inputs[0]->type.rank;
  if (carnot_node_fn(node) != CARNOT_FN_COUNT || node->op == CARNOT_OP_CAST)
    return roll_pointwise(r, steps);
  if (node->op == CARNOT_OP_REDUCE || node->op == CARNOT_OP_SQUEEZE)
    return roll_axes(r, steps, rank);
  if (node->op == CARNOT_OP_UNSQUEEZE) return roll_axes(r, steps, steps[0]->type.rank);
  if (node->op != CARNOT_OP_MATMUL) return NULL;
  carnot_value* products = roll_matmul(r, steps);
  return products ? products : roll_vectors(r, steps);
}

// One value that has all of |steps| along the axis; NULL where there is none.
static carnot_value* roll(roller* r, carnot_value* const* steps) {
  carnot_value* whole = gathered(r, steps);
  if (whole || r->depth == kMostDepth) return whole;
  r->depth++;
  whole = scanned(r, steps);
  if (!whole) whole = roll_nodes(r, steps);
  r->depth--;
  return whole;
}

// ---- the end: steps put side by side ----

static carnot_status* visit_concat(carnot_node* concat) {
  roller r = {.e = {.at = concat, .name = concat->name}, .count = concat->input_count};
  carnot_value** steps = new_steps(&r);
  CARNOT_TRY(carnot_arena_status(&concat->block->graph->arena));
  r.axis = carnot_attr_int(carnot_node_row(concat), &concat->attrs, "axis");
  if (!carnot_is_ranked(concat->outputs[0])) return NULL;
  if (r.axis < 0) r.axis += concat->outputs[0]->type.rank;
  for (int t = 0; t < r.count; t++) {
    const carnot_node* node = concat->inputs[t]->producer;
    int64_t axis;
    if (!node || node->op != CARNOT_OP_UNSQUEEZE || node->input_count != 2 ||
        carnot_value_ints(node->inputs[1], &axis, 1) != 1 ||
        (axis < 0 ? axis + concat->outputs[0]->type.rank : axis) != r.axis ||
        !carnot_is_ranked(node->inputs[0]) || !node->inputs[0]->producer)
      return NULL;
    steps[t] = node->inputs[0];
  }
  carnot_value* whole = roll(&r, steps);
  CARNOT_TRY(r.e.status);
  if (!whole || !carnot_same_dims(&whole->type, &concat->outputs[0]->type)) return NULL;
  if (whole->producer) carnot_absorb_pattern(whole->producer, concat);
  carnot_value_replace(concat->outputs[0], whole);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op == CARNOT_OP_CONCAT && node->input_count >= kLeastSteps)
      CARNOT_TRY(visit_concat(node));
  }
  return NULL;
}

carnot_status* carnot_pass_roll_steps(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
