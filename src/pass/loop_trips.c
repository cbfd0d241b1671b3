// How often a loop's body runs, and which values of it count the iterations.
//   condition' = i_1 + 1 < n_1 and i_2 + 1 < n_2 ..: min(n_k - first_k) iterations, where the
//   condition before the loop is first_1 < n_1 and first_2 < n_2 ..
#include <math.h>

#include "pass/loops.h"

enum { kMostBounds = 8, kMostDepth = 8 };

carnot_loop carnot_loop_of(carnot_node* node) {
  const carnot_attr* body = carnot_attrs_find(&node->attrs, "body");
  return (carnot_loop){
      .node = node,
      .body = body->block,
      .carried = (int)carnot_attr_int(carnot_node_row(node), &node->attrs, "carried")};
}

static int param_of(const carnot_loop* loop, const carnot_value* value) {
  for (size_t i = 0; i < loop->body->param_count; i++)
    if (loop->body->params[i] == value) return (int)i;
  return -1;
}

bool carnot_loop_keeps(const carnot_loop* loop, const carnot_value* value) {
  if (!value || value->constant) return value != NULL;
  if (value->producer) return false;
  const int i = param_of(loop, value);
  return i >= 2 && (i >= 2 + loop->carried || loop->body->outputs[i - 1] == value);
}

carnot_value* carnot_loop_outer(const carnot_loop* loop, const carnot_value* value) {
  if (!value->constant) return loop->node->inputs[param_of(loop, value)];
  carnot_value* copy =
      carnot_graph_constant(loop->node->block, value->constant->name, &value->constant->tensor);
  copy->constant->made_by = value->constant->made_by;
  copy->constant->made_output = value->constant->made_output;
  return copy;
}

static bool is_number(const carnot_value* value, double number) {
  double it;
  return carnot_value_scalar(value, &it) && it == number;
}

bool carnot_loop_counts(const carnot_loop* loop, int k, int64_t* out_first) {
  const carnot_value *param = loop->body->params[2 + k], *first = loop->node->inputs[2 + k];
  const carnot_node* add = loop->body->outputs[1 + k]->producer;
  double number;
  if (!carnot_is_ranked(param) || param->type.rank != 0 ||
      !carnot_dtype_is_integer(param->type.dtype) || !carnot_node_is_fn(add, CARNOT_FN_ADD))
    return false;
  const bool grows = (add->inputs[0] == param && is_number(add->inputs[1], 1)) ||
                     (add->inputs[1] == param && is_number(add->inputs[0], 1));
  if (!grows || !carnot_value_scalar(first, &number)) return false;
  *out_first = (int64_t)number;
  return true;
}

bool carnot_loop_is_iteration(const carnot_loop* loop, const carnot_value* value) {
  int64_t first;
  while (value && value->producer && carnot_is_ranked(value) &&
         (value->producer->op == CARNOT_OP_CAST || value->producer->op == CARNOT_OP_RESHAPE ||
          value->producer->op == CARNOT_OP_SQUEEZE || value->producer->op == CARNOT_OP_IDENTITY))
    value = value->producer->inputs[0];
  if (!value || value->producer || !carnot_is_ranked(value) || value->type.rank != 0) return false;
  const int i = param_of(loop, value);
  return i == 0 ||
         (i >= 2 && i < 2 + loop->carried && carnot_loop_counts(loop, i - 2, &first) && first == 0);
}

// ---- bounds ----

// One comparison: a counter from |first| on stays below |limit|, a value around the loop.
typedef struct bound {
  int64_t first;
  const carnot_value* limit;
} bound;

typedef struct bounds {
  bound items[kMostBounds];
  int count;
} bounds;

static bool same_number(const carnot_value* a, const carnot_value* b) {
  double x;
  if (a == b || (carnot_value_scalar(a, &x) && is_number(b, x))) return true;
  return a->syms && b->syms && a->sym_count == 1 && b->sym_count == 1 &&
         carnot_sym_same(a->syms[0], b->syms[0]);
}

static bool add_bound(bounds* all, int64_t first, const carnot_value* limit) {
  if (!carnot_is_ranked(limit) || limit->type.rank != 0 ||
      !carnot_dtype_is_integer(limit->type.dtype))
    return false;
  for (int i = 0; i < all->count; i++)
    if (all->items[i].first == first && same_number(all->items[i].limit, limit)) return true;
  if (all->count == kMostBounds) return false;
  all->items[all->count++] = (bound){first, limit};
  return true;
}

// Reads a + 1 < n of the body.
static bool read_after(const carnot_loop* loop, const carnot_value* value, int depth, bounds* all) {
  const carnot_node* node = value->producer;
  if (carnot_node_is_fn(node, CARNOT_FN_AND))
    return depth < kMostDepth && read_after(loop, node->inputs[0], depth + 1, all) &&
           read_after(loop, node->inputs[1], depth + 1, all);
  const bool less = carnot_node_is_fn(node, CARNOT_FN_LESS);
  if (!less && !carnot_node_is_fn(node, CARNOT_FN_GREATER)) return false;
  const carnot_value *small = node->inputs[less ? 0 : 1], *limit = node->inputs[less ? 1 : 0];
  if (!carnot_loop_keeps(loop, limit)) return false;
  for (int k = 0; k < loop->carried; k++) {
    int64_t first;
    if (loop->body->outputs[1 + k] == small && carnot_loop_counts(loop, k, &first)) {
      const int i = limit->constant ? -1 : param_of(loop, limit);
      return add_bound(all, first, i < 0 ? limit : loop->node->inputs[i]);
    }
  }
  return false;
}

// Reads first < n around the loop.
static bool read_before(const carnot_value* value, int depth, bounds* all) {
  const carnot_node* node = value->producer;
  double first;
  if (is_number(value, 1)) return true;
  if (carnot_node_is_fn(node, CARNOT_FN_AND))
    return depth < kMostDepth && read_before(node->inputs[0], depth + 1, all) &&
           read_before(node->inputs[1], depth + 1, all);
  const bool less = carnot_node_is_fn(node, CARNOT_FN_LESS);
  if (!less && !carnot_node_is_fn(node, CARNOT_FN_GREATER)) return false;
  return carnot_value_scalar(node->inputs[less ? 0 : 1], &first) &&
         add_bound(all, (int64_t)first, node->inputs[less ? 1 : 0]);
}

// Those of |a| that are not certain are in |b|.
static bool has_all(const bounds* a, const bounds* b) {
  for (int i = 0; i < a->count; i++) {
    double limit;
    bool found = carnot_value_scalar(a->items[i].limit, &limit) && a->items[i].first < limit;
    for (int k = 0; k < b->count && !found; k++)
      found = a->items[i].first == b->items[k].first &&
              same_number(a->items[i].limit, b->items[k].limit);
    if (!found) return false;
  }
  return true;
}

static carnot_value* least(carnot_emitter* e, const bounds* all) {
  carnot_value* trips = NULL;
  double fixed = INFINITY;
  for (int i = 0; i < all->count; i++) {
    const bound* b = &all->items[i];
    double limit;
    if (carnot_value_scalar(b->limit, &limit)) {
      fixed = fmin(fixed, limit - (double)b->first);
      continue;
    }
    carnot_value* count = carnot_emit_cast(e, (carnot_value*)(uintptr_t)b->limit, CARNOT_DTYPE_I64);
    if (b->first) count = carnot_emit_binary(e, CARNOT_FN_SUB, count, carnot_emit_int(e, b->first));
    trips = trips ? carnot_emit_binary(e, CARNOT_FN_MIN, trips, count) : count;
  }
  if (isinf(fixed)) return trips;
  carnot_value* number = carnot_emit_int(e, (int64_t)fixed);
  return trips ? carnot_emit_binary(e, CARNOT_FN_MIN, trips, number) : number;
}

// ONNX wants a name of its own for each result, also for a condition that stays as it is.
static const carnot_value* without_identities(const carnot_value* value) {
  while (value->producer && value->producer->op == CARNOT_OP_IDENTITY)
    value = value->producer->inputs[0];
  return value;
}

carnot_value* carnot_loop_trips(const carnot_loop* loop, carnot_emitter* e) {
  const carnot_node* node = loop->node;
  const carnot_value *begins = node->inputs[1], *again = without_identities(loop->body->outputs[0]);
  bounds before = {.count = 0}, after = {.count = 0};
  if (node->inputs[0]) {
    const bool always = (!begins || is_number(begins, 1)) &&
                        (again == loop->body->params[1] || is_number(again, 1)) &&
                        carnot_is_ranked(node->inputs[0]) && node->inputs[0]->type.rank == 0;
    return always ? carnot_emit_cast(e, node->inputs[0], CARNOT_DTYPE_I64) : NULL;
  }
  if (!begins || !read_after(loop, again, 0, &after) || !read_before(begins, 0, &before) ||
      !has_all(&after, &before) || !has_all(&before, &after))
    return NULL;
  return least(e, &after);
}
