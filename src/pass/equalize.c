// Makes the channels of tensors alike before they are quantized. A tensor x with factors f by
// channel becomes x / f, which has a range of its own, and the layers that read it multiply by f:
//
//   conv(w, b) -> relu, max pooling -> layers(v)   ->  conv(w / f, b / f) -> .. -> layers(v * f)
//   matmul(w) + b -> relu -> layers(v)              ->  the same
//   norm(scale, bias) -> layers(v), others          ->  norm(scale, bias) -> others,
//                                                       norm(scale / f, bias / f) -> layers(v * f)
//
// Where the tensor is made otherwise, or others than layers in 8 bits read what does not come from
// a norm, it stays as it is: a product of its own would cost more than it gives. Weights are
// multiplied by nodes over constants, which constant folding computes, so refit knows how they
// were made. Source: see calibration/equalize.h.
#include <string.h>

#include "pass/pass.h"

typedef struct maker {
  carnot_node* at;  // new nodes go before it
  carnot_status* status;
} maker;

// |x| times the constant |numbers| of |shape|.
static carnot_value* scaled(maker* m, carnot_value* x, const float* numbers, int rank,
                            const int64_t* shape) {
  if (m->status) return NULL;
  carnot_tensor tensor = {.dtype = CARNOT_DTYPE_F32, .rank = rank, .data = (void*)numbers};
  memcpy(tensor.dims, shape, (size_t)rank * sizeof(shape[0]));
  carnot_value* inputs[2] = {x, carnot_graph_constant(m->at->block, NULL, &tensor)};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->at->block->graph->arena, "fn", CARNOT_FN_MUL);
  carnot_node* node;
  m->status = carnot_node_insert_before(m->at, CARNOT_OP_BINARY, NULL, &attrs, inputs, 2, 1, &node);
  return m->status ? NULL : node->outputs[0];
}

static void set_ones(int64_t shape[CARNOT_MAX_RANK]) {
  for (int d = 0; d < CARNOT_MAX_RANK; d++) shape[d] = 1;
}

static bool is_f32_constant(const carnot_value* value) {
  return carnot_value_is_constant(value) && value->type.dtype == CARNOT_DTYPE_F32;
}

static int64_t dim(const carnot_value* value, int d) { return value->constant->tensor.dims[d]; }

// ---- the layers that read it ----

static bool is_matrix_layer(const carnot_node* node) {
  return node->op == CARNOT_OP_MATMUL || node->op == CARNOT_OP_GEMM;
}

static bool is_transposed(const carnot_node* node) {
  return carnot_attr_int(carnot_node_row(node), &node->attrs, "transB") != 0;
}

// Reads |channels| channels as the operand of a layer in 8 bits whose weights take factors.
static bool takes_factors(const carnot_use* use, size_t channels) {
  const carnot_node* node = use->node;
  if (use->input != 0 || !carnot_takes_qdq(node) || !is_f32_constant(node->inputs[1])) return false;
  if (node->op == CARNOT_OP_CONV)
    return (size_t)(dim(node->inputs[1], 1) *
                    carnot_attr_int(carnot_node_row(node), &node->attrs, "group")) == channels;
  return is_matrix_layer(node) && (size_t)dim(node->inputs[1], is_transposed(node)) == channels;
}

// Multiplies the weights of |node| by the factors of the channels that they meet.
static carnot_status* multiply_weights(carnot_node* node, const carnot_equalization* e) {
  carnot_arena* arena = &node->block->graph->arena;
  carnot_value* w = node->inputs[1];
  int64_t shape[CARNOT_MAX_RANK];
  set_ones(shape);
  const int rank = w->type.rank, axis = node->op == CARNOT_OP_CONV || is_transposed(node) ? 1 : 0;
  const int64_t inputs = dim(w, axis);
  shape[axis] = inputs;
  int64_t groups = (int64_t)e->count / inputs;
  if (groups > 1) shape[0] = dim(w, 0);  // each filter has the channels of its group
  const int64_t filters = groups > 1 ? shape[0] : 1;
  float* numbers = CARNOT_NEW_ARRAY(arena, float, (size_t)(filters * inputs));
  CARNOT_TRY(carnot_arena_status(arena));
  for (int64_t i = 0; i < filters * inputs; i++)
    numbers[i] =
        e->factors[i / inputs / (filters / groups ? filters / groups : 1) * inputs + i % inputs];
  maker m = {.at = node};
  carnot_value* product = scaled(&m, w, numbers, rank, shape);
  CARNOT_TRY(m.status);
  carnot_node_set_input(node, 1, product);
  return NULL;
}

// ---- the nodes that make it ----

// Where factors go: a layer or norm, the sum with its bias, and what is between it and the tensor.
typedef struct source {
  carnot_node *maker, *sum;  // |sum|: NULL: none
  bool is_norm;
} source;

static bool is_scale_free(const carnot_node* node) {
  return carnot_node_is_fn(node, CARNOT_FN_RELU) ||
         (carnot_op_has_trait(node->op, CARNOT_TRAIT_MAXIMUM) && node->input_count == 1 &&
          node->output_count == 1);
}

static bool is_norm(const carnot_node* node, size_t channels) {
  if (node->op != CARNOT_OP_LAYER_NORM && node->op != CARNOT_OP_RMS_NORM) return false;
  if (node->output_count > 1 || node->input_count < 2) return false;
  for (int i = 1; i < node->input_count; i++)
    if (node->inputs[i] && (!is_f32_constant(node->inputs[i]) || node->inputs[i]->type.rank != 1 ||
                            (size_t)dim(node->inputs[i], 0) != channels))
      return false;
  return node->inputs[1] != NULL;
}

static bool is_layer(const carnot_node* node, size_t channels) {
  if (carnot_dtype_is_half(node->precision)) return false;  // its range is small
  const carnot_value* bias = node->input_count > 2 ? node->inputs[2] : NULL;
  const bool is_conv = node->op == CARNOT_OP_CONV;
  if (!is_conv && !is_matrix_layer(node)) return false;
  const carnot_value* w = node->inputs[1];
  if (!is_f32_constant(w) || w->type.rank < 2 || (!is_conv && w->type.rank != 2)) return false;
  if (bias && (!is_f32_constant(bias) || bias->type.rank != 1 || (size_t)dim(bias, 0) != channels))
    return false;
  return (size_t)dim(w, is_conv || is_transposed(node) ? 0 : 1) == channels;
}

// A sum with a constant by the last axis, behind a product of matrices.
static int bias_input(const carnot_node* node, size_t channels) {
  if (!carnot_node_is_fn(node, CARNOT_FN_ADD)) return -1;
  for (int i = 0; i < 2; i++) {
    const carnot_value* b = node->inputs[i];
    const carnot_node* made_by = node->inputs[!i]->producer;
    if (is_f32_constant(b) && b->type.rank == 1 && (size_t)dim(b, 0) == channels && made_by &&
        is_matrix_layer(made_by))
      return i;
  }
  return -1;
}

static bool find_source(carnot_value* value, size_t channels, source* out) {
  carnot_node* node = value->producer;
  *out = (source){.maker = node};
  if (!node || node->block != value->block) return false;
  out->is_norm = is_norm(node, channels);
  if (out->is_norm) return true;
  while (is_scale_free(node)) {
    carnot_value* x = node->inputs[0];
    if (carnot_only_user(x) != node || !x->producer || x->block != value->block) return false;
    node = x->producer;
  }
  const int bias = bias_input(node, channels);
  if (bias >= 0) {
    carnot_value* product = node->inputs[!bias];
    if (carnot_only_user(product) != node) return false;
    out->sum = node;
    node = product->producer;
  }
  out->maker = node;
  return is_layer(node, channels);
}

static carnot_status* divide(carnot_node* at, carnot_node* node, int input, const float* numbers,
                             int axis, size_t count) {
  if (node->input_count <= input || !node->inputs[input]) return NULL;
  int64_t shape[CARNOT_MAX_RANK];
  set_ones(shape);
  shape[axis] = (int64_t)count;
  maker m = {.at = at};
  carnot_value* x = node->inputs[input];
  carnot_value* product = scaled(&m, x, numbers, x->type.rank, shape);
  CARNOT_TRY(m.status);
  carnot_node_set_input(node, input, product);
  return NULL;
}

// 1 / f.
static float* reciprocals(carnot_graph* graph, const carnot_equalization* e) {
  float* out = CARNOT_NEW_ARRAY(&graph->arena, float, e->count);
  for (size_t i = 0; out && i < e->count; i++) out[i] = 1 / e->factors[i];
  return out;
}

static carnot_status* divide_layer(const source* from, const carnot_equalization* e) {
  carnot_node* node = from->maker;
  const float* r = reciprocals(node->block->graph, e);
  CARNOT_TRY(carnot_arena_status(&node->block->graph->arena));
  const int axis = node->op == CARNOT_OP_CONV || is_transposed(node) ? 0 : 1;
  CARNOT_TRY(divide(node, node, 1, r, axis, e->count));
  CARNOT_TRY(divide(node, node, 2, r, 0, e->count));
  if (!from->sum) return NULL;
  const int bias = bias_input(from->sum, e->count);
  return divide(from->sum, from->sum, bias, r, 0, e->count);
}

// A norm of its own for the layers; *out_value is its result.
static carnot_status* divide_norm(carnot_node* norm, const carnot_equalization* e,
                                  carnot_value** out_value) {
  const float* r = reciprocals(norm->block->graph, e);
  CARNOT_TRY(carnot_arena_status(&norm->block->graph->arena));
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(norm, norm->op, norm->name, &norm->attrs, norm->inputs,
                                       norm->input_count, 1, &node));
  node->order = norm->order;
  node->is_unnamed = norm->is_unnamed;
  node->type_name = norm->type_name;
  for (int i = 1; i < node->input_count; i++) CARNOT_TRY(divide(node, node, i, r, 0, e->count));
  *out_value = node->outputs[0];
  return NULL;
}

// ---- one tensor ----

static void set_range(carnot_value* value, const carnot_equalization* e) {
  value->range[0] = e->range[0];
  value->range[1] = e->range[1];
  value->equalization = NULL;
}

// What lies between |value| and the layer that makes it has no known range any more.
static void forget_ranges(carnot_value* value, const source* from) {
  for (carnot_node* node = value->producer; node != from->maker;) {
    carnot_value* x =
        node->inputs[node == from->sum ? !bias_input(node, value->equalization->count) : 0];
    x->range[0] = x->range[1] = 0;
    x->equalization = NULL;
    node = x->producer;
  }
}

static carnot_status* equalize(carnot_value* value) {
  const carnot_equalization* e = value->equalization;
  source from;
  if (!find_source(value, e->count, &from)) return NULL;
  size_t layers = 0;
  for (size_t i = 0; i < value->use_count; i++) layers += takes_factors(&value->uses[i], e->count);
  const bool is_theirs = layers == value->use_count && !value->block_output_count;
  if (!layers || (!is_theirs && !from.is_norm)) return NULL;
  carnot_value* made = value;
  if (from.is_norm) {
    CARNOT_TRY(divide_norm(from.maker, e, &made));
  } else {
    forget_ranges(value, &from);
    CARNOT_TRY(divide_layer(&from, e));
  }
  for (size_t i = value->use_count; i-- > 0;) {
    if (!takes_factors(&value->uses[i], e->count)) continue;
    carnot_node* node = value->uses[i].node;
    CARNOT_TRY(multiply_weights(node, e));
    if (made != value) carnot_node_set_input(node, 0, made);
  }
  set_range(made, e);
  value->equalization = NULL;
  return NULL;
}

carnot_status* carnot_pass_equalize(carnot_graph* graph, const carnot_pass_options* options) {
  if (!options->quantize) return NULL;
  for (carnot_node* node = graph->main->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++) {
      if (!node->outputs[i] || !node->outputs[i]->equalization) continue;
      CARNOT_TRY(equalize(node->outputs[i]));
      // The next tensor divides what this one multiplied.
      CARNOT_TRY(carnot_pass_constant_folding(graph, options));
    }
  return NULL;
}
