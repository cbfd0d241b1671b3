// Fuses the parts of activations into one element-wise function: GELU by erf or tanh, SiLU,
// hard-swish, as exporters write them.
#include <math.h>

#include "pass/pass.h"

// The operand of a commutative pair that is no scalar constant, with the scalar in *out_number.
static carnot_value* with_scalar(const carnot_node* node, carnot_fn fn, double* out_number) {
  if (!carnot_node_is_fn(node, fn)) return NULL;
  if (carnot_value_scalar(node->inputs[1], out_number)) return node->inputs[0];
  bool commutes = fn == CARNOT_FN_ADD || fn == CARNOT_FN_MUL;
  return commutes && carnot_value_scalar(node->inputs[0], out_number) ? node->inputs[1] : NULL;
}
static bool near(double a, double b) { return fabs(a - b) <= 1e-3 * fabs(b); }
static carnot_node* producer(const carnot_value* value) { return value ? value->producer : NULL; }

static carnot_status* put_unary(carnot_node* last, carnot_fn fn, double alpha, double beta,
                                carnot_value* x) {
  carnot_attrs attrs = {0};
  carnot_arena* arena = &last->block->graph->arena;
  carnot_attrs_set_int(&attrs, arena, "fn", fn);
  carnot_attrs_set_float(&attrs, arena, "alpha", alpha);
  carnot_attrs_set_float(&attrs, arena, "beta", beta);
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(last, CARNOT_OP_UNARY, last->name, &attrs, &x, 1, 1, &node));
  carnot_absorb_pattern(node, last);
  carnot_value_replace(last->outputs[0], node->outputs[0]);
  return NULL;
}

enum { kMostDegree = 3, kMostDepth = 8 };

// |value| as c[0] + c[1] x + c[2] x^2 + c[3] x^3, however it is written; false where it is none.
static bool polynomial(const carnot_value* value, const carnot_value* x, int depth, double* c) {
  double a[kMostDegree + 1] = {0}, b[kMostDegree + 1] = {0}, number;
  for (int i = 0; i <= kMostDegree; i++) c[i] = 0;
  if (value == x) return c[1] = 1, true;
  if (carnot_value_scalar(value, &c[0])) return true;
  const carnot_node* node = producer(value);
  carnot_fn fn = node ? carnot_node_fn(node) : CARNOT_FN_COUNT;
  if (depth == kMostDepth ||
      (fn != CARNOT_FN_ADD && fn != CARNOT_FN_MUL && fn != CARNOT_FN_DIV && fn != CARNOT_FN_POW))
    return false;
  if (!polynomial(node->inputs[0], x, depth + 1, a)) return false;
  int power = 1;
  if (fn == CARNOT_FN_DIV || fn == CARNOT_FN_POW) {
    if (!carnot_value_scalar(node->inputs[1], &number)) return false;
    power = fn == CARNOT_FN_DIV ? 1 : (int)number;
    if (number == 0 || (fn == CARNOT_FN_POW && (power != number || power < 1 || power > 3)))
      return false;
    b[0] = fn == CARNOT_FN_DIV ? 1 / number : 1;
  } else if (!polynomial(node->inputs[1], x, depth + 1, b)) {
    return false;
  }
  if (fn == CARNOT_FN_ADD) {
    for (int i = 0; i <= kMostDegree; i++) c[i] = a[i] + b[i];
    return true;
  }
  for (int n = 0; n < power; n++) {
    for (int i = 0; i <= kMostDegree; i++) c[i] = 0;
    for (int i = 0; i <= kMostDegree; i++)
      for (int k = 0; k <= kMostDegree; k++) {
        if (a[i] * b[k] != 0 && i + k > kMostDegree) return false;
        if (i + k <= kMostDegree) c[i + k] += a[i] * b[k];
      }
    for (int i = 0; i <= kMostDegree; i++) b[i] = c[i];
  }
  return true;
}

// 1 + erf(x / sqrt 2), or 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)): the function that x times half
// of it is; COUNT for others.
static carnot_fn gelu_core(const carnot_value* value, const carnot_value* x) {
  double number, c[kMostDegree + 1];
  const carnot_value* inner = with_scalar(producer(value), CARNOT_FN_ADD, &number);
  const carnot_node* node = producer(inner);
  bool erf = carnot_node_is_fn(node, CARNOT_FN_ERF), tanh = carnot_node_is_fn(node, CARNOT_FN_TANH);
  if (!inner || number != 1 || (!erf && !tanh) || !polynomial(node->inputs[0], x, 0, c) ||
      c[0] != 0 || c[2] != 0)
    return CARNOT_FN_COUNT;
  if (erf && near(c[1], 0.7071067811865476) && c[3] == 0) return CARNOT_FN_GELU_ERF;
  if (tanh && near(c[1], 0.7978845608028654) && near(c[3], 0.7978845608028654 * 0.044715))
    return CARNOT_FN_GELU_TANH;
  return CARNOT_FN_COUNT;
}

// gelu = 0.5 * x * core in any order of its three factors.
static carnot_status* match_gelu(carnot_node* node, bool* out_done) {
  if (!carnot_node_is_fn(node, CARNOT_FN_MUL)) return NULL;
  carnot_value* x = NULL;
  carnot_fn fn = CARNOT_FN_COUNT;
  double half;
  carnot_value* rest = with_scalar(node, CARNOT_FN_MUL, &half);
  carnot_node* product = producer(rest);
  if (rest && half == 0.5 && carnot_node_is_fn(product, CARNOT_FN_MUL))
    for (int i = 0; i < 2 && fn == CARNOT_FN_COUNT; i++) {
      x = product->inputs[1 - i];
      fn = gelu_core(product->inputs[i], x);
    }
  for (int i = 0; i < 2 && fn == CARNOT_FN_COUNT; i++) {
    // (0.5 x) * core, or x * (0.5 core)
    carnot_value* scaled = with_scalar(producer(node->inputs[i]), CARNOT_FN_MUL, &half);
    if (!scaled || half != 0.5) continue;
    x = scaled;
    fn = gelu_core(node->inputs[1 - i], x);
    if (fn != CARNOT_FN_COUNT) break;
    x = node->inputs[1 - i];
    fn = gelu_core(scaled, x);
  }
  if (fn == CARNOT_FN_COUNT) return NULL;
  *out_done = true;
  return put_unary(node, fn, 0, 0, x);
}

// x * sigmoid(x), x * hard_sigmoid(x), x * tanh(softplus(x)).
static carnot_status* match_gated(carnot_node* node, bool* out_done) {
  if (!carnot_node_is_fn(node, CARNOT_FN_MUL)) return NULL;
  for (int i = 0; i < 2; i++) {
    carnot_value* x = node->inputs[i];
    carnot_node* gate = producer(node->inputs[1 - i]);
    if (!gate || carnot_node_fn(gate) == CARNOT_FN_COUNT || gate->inputs[0] != x) continue;
    double alpha = carnot_attr_float(carnot_node_row(gate), &gate->attrs, "alpha");
    double beta = carnot_attr_float(carnot_node_row(gate), &gate->attrs, "beta");
    carnot_fn fn = carnot_node_fn(gate);
    *out_done = true;
    if (fn == CARNOT_FN_SIGMOID) return put_unary(node, CARNOT_FN_SWISH, 1, 0, x);
    if (fn == CARNOT_FN_HARD_SIGMOID && near(alpha, 1.0 / 6) && beta == 0.5)
      return put_unary(node, CARNOT_FN_HARD_SWISH, 0, 0, x);
    *out_done = false;
  }
  return NULL;
}

// clip with constant ends is a clamp; relu6-like forms come out of this too.
static carnot_status* match_clip(carnot_node* node, bool* out_done) {
  if (!carnot_node_is_fn(node, CARNOT_FN_CLIP) ||
      !carnot_dtype_is_float(node->outputs[0]->type.dtype))
    return NULL;
  double low = -INFINITY, high = INFINITY;
  if (node->inputs[1] && !carnot_value_scalar(node->inputs[1], &low)) return NULL;
  if (node->inputs[2] && !carnot_value_scalar(node->inputs[2], &high)) return NULL;
  if (low > high) return NULL;
  *out_done = true;
  return put_unary(node, CARNOT_FN_CLAMP, low, high, node->inputs[0]);
}

// clamp(x + 3, 0, 6) / 6 is a hard sigmoid with slope 1/6.
static carnot_status* match_hard_sigmoid(carnot_node* node, bool* out_done) {
  double number, three;
  carnot_value* clamped = with_scalar(node, CARNOT_FN_DIV, &number);
  if (!clamped) {
    clamped = with_scalar(node, CARNOT_FN_MUL, &number);
    number = 1 / number;
  }
  carnot_node* clamp = producer(clamped);
  if (!clamped || !near(number, 6) || !carnot_node_is_fn(clamp, CARNOT_FN_CLAMP)) return NULL;
  const carnot_op_row* row = carnot_node_row(clamp);
  if (carnot_attr_float(row, &clamp->attrs, "alpha") != 0 ||
      carnot_attr_float(row, &clamp->attrs, "beta") != 6)
    return NULL;
  carnot_value* x = with_scalar(producer(clamp->inputs[0]), CARNOT_FN_ADD, &three);
  if (!x || three != 3) return NULL;
  *out_done = true;
  return put_unary(node, CARNOT_FN_HARD_SIGMOID, 1.0 / 6, 0.5, x);
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  carnot_status* (*const matchers[])(carnot_node*, bool*) = {match_clip, match_hard_sigmoid,
                                                             match_gelu, match_gated};
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (carnot_node_fn(node) == CARNOT_FN_COUNT || !node->outputs[0]) continue;
    bool done = false;
    for (size_t i = 0; i < sizeof(matchers) / sizeof(matchers[0]) && !done; i++)
      CARNOT_TRY(matchers[i](node, &done));
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_activations(carnot_graph* graph,
                                            const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
