// Makes one convolution of the sum of several that read the same input:
//   conv(x, W) + conv(x, V) = conv(x, W + V with zeros around), and
//   conv(x, W) + x * s + b = conv(x, W + s at the centre) with b added to the bias
// as networks whose branches are summed are written before they are re-parameterized. The
// arithmetic on weights is nodes over constants, which constant folding computes.
#include "pass/emit.h"

enum { kPixels = CARNOT_MAX_RANK - 2, kMostDiagonal = 1 << 22 };

// A term of a sum: a convolution, or a product and a sum by channel, which is one of 1 x 1.
typedef struct term {
  carnot_node* conv;  // NULL: by channel
  carnot_value *x, *weights, *bias, *scale;
  int pixels;  // axes of the window
  int64_t kernel[kPixels], begin[kPixels], end[kPixels];
} term;

static bool is_all(const carnot_node* conv, const char* name, int64_t wanted) {
  size_t count;
  const int64_t* list = carnot_attr_ints(&conv->attrs, name, &count);
  for (size_t i = 0; list && i < count; i++)
    if (list[i] != wanted) return false;
  return true;
}

static bool read_conv(carnot_node* node, const carnot_node* reader, term* out) {
  *out = (term){.conv = node};
  if (!node || node->op != CARNOT_OP_CONV || carnot_only_user(node->outputs[0]) != reader ||
      node->block != reader->block || !carnot_value_is_constant(node->inputs[1]) ||
      !carnot_is_ranked(node->inputs[0]) || !is_all(node, "dilations", 1) ||
      !carnot_attr_is(carnot_node_row(node), &node->attrs, "auto_pad", "NOTSET"))
    return false;
  out->x = node->inputs[0], out->weights = node->inputs[1];
  out->bias = node->input_count > 2 ? node->inputs[2] : NULL;
  out->pixels = out->weights->type.rank - 2;
  if (out->bias && !out->bias->constant) return false;
  size_t count;
  const int64_t* pads = carnot_attr_ints(&node->attrs, "pads", &count);
  if (pads && count && count != (size_t)(2 * out->pixels)) return false;
  for (int d = 0; d < out->pixels; d++) {
    out->kernel[d] = out->weights->type.dims[2 + d].bits;
    out->begin[d] = pads && count ? pads[d] : 0;
    out->end[d] = pads && count ? pads[out->pixels + d] : 0;
  }
  return true;
}

// The constant by channel that |node| applies to its other operand, which goes to *out_x.
static carnot_value* by_channel(const carnot_node* node, carnot_fn fn, carnot_value** out_x) {
  if (!carnot_node_is_fn(node, fn)) return NULL;
  const int at = node->inputs[1]->constant ? 1 : 0;
  carnot_value *c = node->inputs[at], *x = node->inputs[1 - at];
  const carnot_type* t = &c->type;
  if (!c->constant || !carnot_is_ranked(x) || x->type.rank < 3 || t->rank > x->type.rank ||
      t->dtype != x->type.dtype)
    return NULL;
  const int missing = x->type.rank - t->rank;
  for (int d = 0; d < t->rank; d++)
    if (d + missing != 1 && !carnot_sym_is(t->dims[d], 1)) return NULL;
  *out_x = x;
  return missing <= 1 && carnot_sym_same(t->dims[1 - missing], x->type.dims[1]) ? c : NULL;
}

static bool read_affine(carnot_value* value, const carnot_node* reader, term* out) {
  carnot_node* sum = value->producer;
  carnot_value *product, *x;
  *out = (term){.bias = NULL};
  if (!sum || carnot_only_user(value) != reader ||
      !(out->bias = by_channel(sum, CARNOT_FN_ADD, &product)) || !product->producer ||
      carnot_only_user(product) != sum ||
      !(out->scale = by_channel(product->producer, CARNOT_FN_MUL, &x)))
    return false;
  out->x = x;
  out->pixels = x->type.rank - 2;
  for (int d = 0; d < out->pixels; d++) out->kernel[d] = 1;
  return true;
}

// Whether |small| is |large| with fewer taps. Results of the same size are given.
static bool lies_in(const term* small, const term* large) {
  if (!large->conv || small->x != large->x || small->pixels != large->pixels) return false;
  for (int d = 0; d < small->pixels; d++) {
    const int64_t before = large->begin[d] - small->begin[d],
                  behind = large->end[d] - small->end[d];
    if (before < 0 || behind < 0 || before + small->kernel[d] + behind != large->kernel[d])
      return false;
  }
  const carnot_op_row* row = carnot_node_row(large->conv);
  const int64_t group = carnot_attr_int(row, &large->conv->attrs, "group");
  if (!small->conv)
    return is_all(large->conv, "strides", 1) &&
           carnot_sym_same(large->weights->type.dims[0], large->x->type.dims[1]) &&
           large->weights->type.dims[0].bits * large->weights->type.dims[1].bits <= kMostDiagonal;
  size_t a, b;
  const int64_t *strides = carnot_attr_ints(&small->conv->attrs, "strides", &a),
                *wide = carnot_attr_ints(&large->conv->attrs, "strides", &b);
  for (int d = 0; d < small->pixels; d++)
    if ((strides && a ? strides[d] : 1) != (wide && b ? wide[d] : 1)) return false;
  return carnot_attr_int(row, &small->conv->attrs, "group") == group &&
         small->conv->precision == large->conv->precision &&
         carnot_sym_same(small->weights->type.dims[1], large->weights->type.dims[1]);
}

static carnot_value* emit_fn(carnot_emitter* e, carnot_fn fn, carnot_value* a, carnot_value* b) {
  return a && b ? carnot_emit_binary(e, fn, a, b) : a ? a : b;
}

// Weights [C, C / group, 1, ..] of a product by channel.
static carnot_value* emit_diagonal(carnot_emitter* e, const term* small, const term* large) {
  const int64_t filters = large->weights->type.dims[0].bits,
                inputs = large->weights->type.dims[1].bits;
  int64_t dims[CARNOT_MAX_RANK];
  carnot_tensor t = {.dtype = large->weights->type.dtype, .rank = small->pixels + 2};
  for (int d = 0; d < t.rank; d++) dims[d] = t.dims[d] = 1;
  t.dims[0] = dims[0] = filters, t.dims[1] = inputs;
  t.data = carnot_arena_alloc(&e->at->block->graph->arena, (size_t)(filters * inputs), 8);
  for (int64_t i = 0; t.data && i < filters * inputs; i++)
    carnot_store_f64(t.dtype, t.data, (size_t)i, i % inputs == i / inputs % inputs);
  carnot_value* scale = carnot_emit_reshape(e, small->scale, dims, t.rank);
  return emit_fn(e, CARNOT_FN_MUL, carnot_graph_constant(e->at->block, NULL, &t), scale);
}

static carnot_value* emit_padded(carnot_emitter* e, carnot_value* weights, const term* small,
                                 const term* large) {
  int64_t widths[2 * CARNOT_MAX_RANK] = {0};
  const int rank = small->pixels + 2;
  bool any = false;
  for (int d = 0; d < small->pixels; d++) {
    widths[2 + d] = large->begin[d] - small->begin[d];
    widths[rank + 2 + d] = large->end[d] - small->end[d];
    any = any || widths[2 + d] || widths[rank + 2 + d];
  }
  carnot_value* inputs[2] = {weights, carnot_emit_ints(e, widths, 2 * rank)};
  return any ? carnot_emit(e, CARNOT_OP_PAD, NULL, inputs, 2) : weights;
}

static carnot_status* merge(carnot_node* sum, const term* small, const term* large) {
  const int64_t all = -1;
  carnot_emitter e = {.at = sum, .name = large->conv->name};
  carnot_value *weights = small->conv ? small->weights : emit_diagonal(&e, small, large),
               *bias = small->conv ? small->bias : carnot_emit_reshape(&e, small->bias, &all, 1);
  weights = emit_fn(&e, CARNOT_FN_ADD, large->weights, emit_padded(&e, weights, small, large));
  carnot_value* inputs[3] = {large->x, weights, emit_fn(&e, CARNOT_FN_ADD, large->bias, bias)};
  carnot_value* made =
      carnot_emit(&e, CARNOT_OP_CONV, &large->conv->attrs, inputs, inputs[2] ? 3 : 2);
  CARNOT_TRY(e.status);
  made->producer->precision = large->conv->precision;
  carnot_absorb_pattern(made->producer, sum);
  carnot_value_keep_range(made, sum->outputs[0]);
  made->name = sum->outputs[0]->name;
  carnot_value_replace(sum->outputs[0], made);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  bool* merged = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (!carnot_node_is_fn(node, CARNOT_FN_ADD) || node->inputs[0] == node->inputs[1] ||
        !carnot_same_dims(&node->inputs[0]->type, &node->inputs[1]->type))
      continue;
    term terms[2];
    bool both = true, any = false;
    for (int i = 0; i < 2; i++) {
      const bool is_conv = read_conv(node->inputs[i]->producer, node, &terms[i]);
      both = both && (is_conv || read_affine(node->inputs[i], node, &terms[i]));
      any = any || is_conv;
    }
    if (!both || !any) continue;
    const int small = lies_in(&terms[0], &terms[1]) ? 0 : lies_in(&terms[1], &terms[0]) ? 1 : -1;
    if (small < 0) continue;
    CARNOT_TRY(merge(node, &terms[small], &terms[1 - small]));
    *merged = true;
  }
  return NULL;
}

carnot_status* carnot_pass_merge_convolutions(carnot_graph* graph,
                                              const carnot_pass_options* options) {
  // A sum of more than two is merged in as many rounds: weights are read as constants.
  for (bool merged = true; merged;) {
    merged = false;
    CARNOT_TRY(carnot_pass_constant_folding(graph, options));
    CARNOT_TRY(carnot_each_block(graph->main, visit, &merged));
    CARNOT_TRY(carnot_pass_dce(graph, options));
  }
  return NULL;
}
