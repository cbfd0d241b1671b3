// Fuses the parts of layer and RMS normalization into one operator:
//   d / sqrt(mean(d^2) + epsilon) * scale + bias, with d = x - mean(x) (layer) or d = x (RMS)
// over trailing axes, as exporters before opset 17 write it.
#include "pass/pass.h"

static carnot_node* producer(const carnot_value* value) { return value ? value->producer : NULL; }

// mean over trailing axes with keepdims; the first axis in *out_axis.
static bool is_trailing_mean(const carnot_node* node, int* out_axis) {
  if (!node || node->op != CARNOT_OP_REDUCE ||
      !carnot_attr_is(carnot_node_row(node), &node->attrs, "fn", "mean"))
    return false;
  if (!carnot_attr_int(carnot_node_row(node), &node->attrs, "keepdims")) return false;
  int rank = node->inputs[0]->type.rank;
  int64_t axes[CARNOT_MAX_RANK];
  int count =
      node->input_count > 1 ? carnot_value_ints(node->inputs[1], axes, CARNOT_MAX_RANK) : -1;
  if (rank < 1 || count < 1) return false;
  bool reduced[CARNOT_MAX_RANK] = {false};
  for (int i = 0; i < count; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) return false;
    reduced[axis] = true;
  }
  int first = rank;
  while (first > 0 && reduced[first - 1]) first--;
  for (int i = 0; i < first; i++)
    if (reduced[i]) return false;
  *out_axis = first;
  return first < rank;
}

// |value| is the square of |x|: x^2 or x * x, or x * y with y equal to x.
static bool is_square(const carnot_value* value, const carnot_value* x) {
  carnot_node* node = producer(value);
  double two;
  if (carnot_node_is_fn(node, CARNOT_FN_POW))
    return node->inputs[0] == x && carnot_value_scalar(node->inputs[1], &two) && two == 2;
  return carnot_node_is_fn(node, CARNOT_FN_MUL) && node->inputs[0] == x && node->inputs[1] == x;
}

// |value| is sqrt(mean(d^2) + epsilon).
static bool is_deviation(const carnot_value* value, const carnot_value* d, double* out_epsilon,
                         int* out_axis) {
  carnot_node* root = producer(value);
  if (!carnot_node_is_fn(root, CARNOT_FN_SQRT)) {
    double half;
    if (!carnot_node_is_fn(root, CARNOT_FN_POW) || !carnot_value_scalar(root->inputs[1], &half) ||
        half != 0.5)
      return false;
  }
  carnot_node* add = producer(root->inputs[0]);
  if (!carnot_node_is_fn(add, CARNOT_FN_ADD)) return false;
  int at = carnot_value_scalar(add->inputs[1], out_epsilon)   ? 0
           : carnot_value_scalar(add->inputs[0], out_epsilon) ? 1
                                                              : -1;
  if (at < 0) return false;
  carnot_node* mean = producer(add->inputs[at]);
  return is_trailing_mean(mean, out_axis) && is_square(mean->inputs[0], d);
}

// The quotient d / deviation, or d * (1 / deviation): d, and the facts of the deviation.
static carnot_value* match_quotient(const carnot_node* node, double* out_epsilon, int* out_axis) {
  if (carnot_node_is_fn(node, CARNOT_FN_DIV))
    return is_deviation(node->inputs[1], node->inputs[0], out_epsilon, out_axis) ? node->inputs[0]
                                                                                 : NULL;
  if (!carnot_node_is_fn(node, CARNOT_FN_MUL)) return NULL;
  for (int i = 0; i < 2; i++) {
    carnot_node* inverse = producer(node->inputs[1 - i]);
    const carnot_value* deviation = NULL;
    double one;
    if (carnot_node_is_fn(inverse, CARNOT_FN_RECIP)) deviation = inverse->inputs[0];
    if (carnot_node_is_fn(inverse, CARNOT_FN_DIV) &&
        carnot_value_scalar(inverse->inputs[0], &one) && one == 1)
      deviation = inverse->inputs[1];
    if (deviation && is_deviation(deviation, node->inputs[i], out_epsilon, out_axis))
      return node->inputs[i];
  }
  return NULL;
}

// A constant that broadcasts over the normalized axes alone.
static bool is_parameter(const carnot_value* value, const carnot_value* x, int axis) {
  if (!value || !value->constant) return false;
  const carnot_tensor* t = &value->constant->tensor;
  return t->rank <= x->type.rank - axis && t->rank > 0 && t->dtype == x->type.dtype;
}

// The node that alone reads |value| and applies |fn| with a parameter, which goes to
// *out_parameter.
static carnot_node* next_with_parameter(carnot_value* value, carnot_fn fn, const carnot_value* x,
                                        int axis, carnot_value** out_parameter) {
  carnot_node* node = carnot_only_user(value);
  if (!carnot_node_is_fn(node, fn)) return NULL;
  carnot_value* other = node->inputs[0] == value ? node->inputs[1] : node->inputs[0];
  if (!is_parameter(other, x, axis)) return NULL;
  *out_parameter = other;
  return node;
}

static carnot_value* ones(carnot_block* block, const carnot_value* x) {
  carnot_sym last = x->type.dims[x->type.rank - 1];
  if (!carnot_sym_is_const(last)) return NULL;
  carnot_tensor t = {.dtype = x->type.dtype, .rank = 1, .dims = {last.bits}};
  t.data = carnot_arena_alloc(&block->graph->arena, (size_t)last.bits, 8);
  for (int64_t i = 0; i < last.bits; i++) carnot_store_f64(t.dtype, t.data, (size_t)i, 1);
  return carnot_graph_constant(block, NULL, &t);
}

static carnot_status* recognise(carnot_node* quotient) {
  double epsilon;
  int axis;
  carnot_value* d = match_quotient(quotient, &epsilon, &axis);
  if (!d || !carnot_dtype_is_float(d->type.dtype)) return NULL;
  carnot_node* sub = producer(d);
  int mean_axis;
  bool centred = carnot_node_is_fn(sub, CARNOT_FN_SUB) &&
                 is_trailing_mean(producer(sub->inputs[1]), &mean_axis) &&
                 producer(sub->inputs[1])->inputs[0] == sub->inputs[0] && mean_axis == axis;
  carnot_value* x = centred ? sub->inputs[0] : d;
  carnot_node* last = quotient;
  carnot_value *scale = NULL, *bias = NULL;
  carnot_node* next = next_with_parameter(last->outputs[0], CARNOT_FN_MUL, x, axis, &scale);
  if (next) last = next;
  next = centred ? next_with_parameter(last->outputs[0], CARNOT_FN_ADD, x, axis, &bias) : NULL;
  if (next) last = next;
  if (!scale) scale = ones(quotient->block, x);
  if (!scale) return NULL;
  carnot_attrs attrs = {0};
  carnot_arena* arena = &quotient->block->graph->arena;
  carnot_attrs_set_int(&attrs, arena, "axis", axis);
  carnot_attrs_set_float(&attrs, arena, "epsilon", epsilon);
  carnot_value* inputs[3] = {x, scale, bias};
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(last, centred ? CARNOT_OP_LAYER_NORM : CARNOT_OP_RMS_NORM,
                                       last->name, &attrs, inputs, bias ? 3 : 2, 1, &node));
  carnot_absorb_pattern(node, last);
  node->outputs[0]->name = last->outputs[0]->name;
  carnot_value_replace(last->outputs[0], node->outputs[0]);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (carnot_node_is_fn(node, CARNOT_FN_DIV) || carnot_node_is_fn(node, CARNOT_FN_MUL))
      CARNOT_TRY(recognise(node));
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_norms(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
