// Fuses the parts of layer and RMS normalization into one operator:
//   d / sqrt(mean(d^2) + epsilon) * scale + bias, with d = x - mean(x) (layer) or d = x (RMS)
// over trailing axes, as exporters before opset 17 write it; and as TensorFlow does, with
// s = scale / sqrt(..):
//   x * s + (bias - mean(x) * s)
// On an accelerator also x / max(|x|, epsilon) by the Euclidean norm along the last axis.
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

// ---- TensorFlow's form ----

// A constant that is 1 before the normalized axes.
static bool is_wide_parameter(const carnot_value* value, const carnot_value* x, int axis) {
  if (!value || !value->constant || value->type.dtype != x->type.dtype || value->type.rank < 1)
    return false;
  const int before = value->type.rank - (x->type.rank - axis);
  for (int d = 0; d < before; d++)
    if (!carnot_sym_is(value->type.dims[d], 1)) return false;
  return value->type.rank <= x->type.rank;
}

// A parameter with the dimensions of the normalized axes alone.
static carnot_status* narrowed(carnot_node* at, carnot_value* value, const carnot_value* x,
                               int axis, carnot_value** out) {
  const int before = value->type.rank - (x->type.rank - axis);
  int64_t axes[CARNOT_MAX_RANK];
  *out = value;
  if (before <= 0) return NULL;
  for (int d = 0; d < before; d++) axes[d] = d;
  carnot_value* inputs[2] = {value, carnot_graph_ints(at->block, axes, before)};
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_SQUEEZE, NULL, NULL, inputs, 2, 1, &node));
  *out = node->outputs[0];
  return NULL;
}

typedef struct moments {
  carnot_value *x, *mean, *scale, *bias;  // scale and bias: NULL, or parameters
  carnot_value* factor;                   // what x and mean are multiplied by
  double epsilon;
  int axis;
} moments;

// |factor| is 1 / sqrt(variance of x + epsilon), or that times a parameter.
static bool match_factor(carnot_value* factor, carnot_value* x, moments* m) {
  carnot_node* node = producer(factor);
  carnot_value* inverse = factor;
  m->scale = NULL;
  for (int i = 0; i < 2 && carnot_node_is_fn(node, CARNOT_FN_MUL) && !m->scale; i++) {
    if (!node->inputs[i]->constant) continue;
    m->scale = node->inputs[i];
    inverse = node->inputs[1 - i];
  }
  node = producer(inverse);
  carnot_node* root = carnot_node_is_fn(node, CARNOT_FN_RECIP) ? producer(node->inputs[0]) : NULL;
  carnot_node* sum = carnot_node_is_fn(root, CARNOT_FN_SQRT) ? producer(root->inputs[0]) : NULL;
  for (int i = 0; i < 2 && carnot_node_is_fn(sum, CARNOT_FN_ADD); i++) {
    carnot_node* variance = producer(sum->inputs[i]);
    carnot_node* square = variance && variance->input_count ? producer(variance->inputs[0]) : NULL;
    carnot_value* d = square && square->input_count ? square->inputs[0] : NULL;
    carnot_node* centred = producer(d);
    if (!d || !is_deviation(node->inputs[0], d, &m->epsilon, &m->axis) ||
        !carnot_node_is_fn(centred, CARNOT_FN_SUB) || centred->inputs[0] != x)
      continue;
    int axis;
    m->mean = centred->inputs[1];
    return is_trailing_mean(producer(m->mean), &axis) && axis == m->axis &&
           producer(m->mean)->inputs[0] == x &&
           (!m->scale || is_wide_parameter(m->scale, x, m->axis));
  }
  return false;
}

// |value| is mean * factor.
static bool is_shift(const carnot_value* value, const moments* m, bool negated) {
  const carnot_node* node = producer(value);
  for (int i = 0; i < 2 && carnot_node_is_fn(node, CARNOT_FN_MUL); i++) {
    const carnot_node* neg = producer(node->inputs[i]);
    const carnot_value* mean = node->inputs[i];
    if (negated) mean = carnot_node_is_fn(neg, CARNOT_FN_NEG) ? neg->inputs[0] : NULL;
    if (mean == m->mean && node->inputs[1 - i] == m->factor) return true;
  }
  return false;
}

// |value| is bias - mean * factor, the bias a parameter or absent.
static bool match_rest(carnot_value* value, moments* m) {
  carnot_node* node = producer(value);
  m->bias = NULL;
  if (is_shift(value, m, /*negated=*/true)) return true;
  if (carnot_node_is_fn(node, CARNOT_FN_SUB)) {
    m->bias = node->inputs[0];
    return is_shift(node->inputs[1], m, /*negated=*/false) &&
           is_wide_parameter(m->bias, m->x, m->axis);
  }
  for (int i = 0; i < 2 && carnot_node_is_fn(node, CARNOT_FN_ADD); i++) {
    if (!is_shift(node->inputs[i], m, /*negated=*/true)) continue;
    m->bias = node->inputs[1 - i];
    return is_wide_parameter(m->bias, m->x, m->axis);
  }
  return false;
}

static bool match_moments(const carnot_node* last, moments* m) {
  for (int i = 0; i < 2; i++) {
    const carnot_node* product = producer(last->inputs[i]);
    for (int k = 0; k < 2 && carnot_node_is_fn(product, CARNOT_FN_MUL); k++) {
      m->x = product->inputs[k];
      m->factor = product->inputs[1 - k];
      if (carnot_is_ranked(m->x) && match_factor(m->factor, m->x, m) &&
          match_rest(last->inputs[1 - i], m))
        return true;
    }
  }
  return false;
}

static carnot_status* recognise_moments(carnot_node* last) {
  moments m;
  carnot_node* node;
  if (!match_moments(last, &m) || !carnot_dtype_is_float(m.x->type.dtype)) return NULL;
  carnot_value *scale = m.scale, *bias = m.bias;
  if (scale)
    CARNOT_TRY(narrowed(last, scale, m.x, m.axis, &scale));
  else if (!(scale = ones(last->block, m.x)))
    return NULL;
  if (bias) CARNOT_TRY(narrowed(last, bias, m.x, m.axis, &bias));
  carnot_attrs attrs = {0};
  carnot_arena* arena = &last->block->graph->arena;
  carnot_attrs_set_int(&attrs, arena, "axis", m.axis);
  carnot_attrs_set_float(&attrs, arena, "epsilon", m.epsilon);
  carnot_value* inputs[3] = {m.x, scale, bias};
  CARNOT_TRY(carnot_node_insert_before(last, CARNOT_OP_LAYER_NORM, last->name, &attrs, inputs,
                                       bias ? 3 : 2, 1, &node));
  carnot_absorb_pattern(node, last);
  node->outputs[0]->name = last->outputs[0]->name;
  carnot_value_replace(last->outputs[0], node->outputs[0]);
  return NULL;
}

// ---- Euclidean norm ----

// |value| without an expansion, and without a lower bound, which goes to *out_least.
static carnot_value* unbounded(carnot_value* value, double* out_least) {
  const carnot_node* node = producer(value);
  *out_least = 0;
  if (node && node->op == CARNOT_OP_EXPAND) node = producer(value = node->inputs[0]);
  if (!carnot_node_is_fn(node, CARNOT_FN_CLIP) && !carnot_node_is_fn(node, CARNOT_FN_MAX))
    return value;
  double most;
  const bool has_most = carnot_node_is_fn(node, CARNOT_FN_CLIP);
  if (!carnot_value_scalar(node->inputs[1], out_least) || !(*out_least >= 0) ||
      (has_most && !(carnot_value_scalar(node->inputs[2], &most) && most >= 3.4e38)))
    return NULL;
  return node->inputs[0];
}

// |value| is the Euclidean norm of |x| along its last axis.
static bool is_l2(const carnot_value* value, const carnot_value* x) {
  const carnot_node* node = producer(value);
  int64_t axis;
  return node && node->op == CARNOT_OP_REDUCE && node->inputs[0] == x && node->input_count > 1 &&
         carnot_attr_is(carnot_node_row(node), &node->attrs, "fn", "l2") &&
         carnot_attr_int(carnot_node_row(node), &node->attrs, "keepdims") &&
         carnot_value_ints(node->inputs[1], &axis, 1) == 1 &&
         (axis == -1 || axis == x->type.rank - 1);
}

static carnot_status* recognise_l2(carnot_node* quotient) {
  carnot_value* x = quotient->inputs[0];
  double epsilon;
  if (!carnot_is_ranked(x) || x->type.rank < 1 || !carnot_dtype_is_float(x->type.dtype))
    return NULL;
  carnot_value* norm = unbounded(quotient->inputs[1], &epsilon);
  // Without a bound, zeros divided by their norm are NaN, which lp_norm does not give.
  if (!norm || epsilon == 0 || !is_l2(norm, x)) return NULL;
  carnot_attrs attrs = {0};
  carnot_arena* arena = &quotient->block->graph->arena;
  carnot_attrs_set_int(&attrs, arena, "axis", -1);
  carnot_attrs_set_float(&attrs, arena, "epsilon", epsilon);
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(quotient, CARNOT_OP_LP_NORM, quotient->name, &attrs, &x, 1,
                                       1, &node));
  carnot_absorb_pattern(node, quotient);
  node->outputs[0]->name = quotient->outputs[0]->name;
  carnot_value_replace(quotient->outputs[0], node->outputs[0]);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (carnot_node_is_fn(node, CARNOT_FN_DIV) || carnot_node_is_fn(node, CARNOT_FN_MUL))
      CARNOT_TRY(recognise(node));
    if (options->device && carnot_node_is_fn(node, CARNOT_FN_DIV)) CARNOT_TRY(recognise_l2(node));
    if (carnot_node_is_fn(node, CARNOT_FN_ADD)) CARNOT_TRY(recognise_moments(node));
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_norms(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, (void*)(uintptr_t)options));
  return carnot_pass_dce(graph, options);
}
