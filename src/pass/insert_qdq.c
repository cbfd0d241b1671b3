// Quantizes layers from the ranges of their tensors: quantize and dequantize nodes around the
// operands of convolutions and GEMMs with constant weights.
//
//   activations: one quantize node a tensor, one dequantize node a reader. A range [-r, r] is int8
//     with scale r / 127; another is uint8 with scale (max - min) / 255.
//   weights: int8, scale = largest absolute value of an output channel / 127; of convolutions
//     rounded so that errors cancel within a kernel and an output channel
//   bias: int32, scale = product of the two
//   the addition behind a convolution: its other operand where that is quantized anyway, or is the
//     result of a later convolution
//   max pooling in front of layers: its operand, with the range of its result
//   a mean between two layers: its operand
//   attention, in FP8 where it is asked for: queries, keys and values, with one scale where they
//     project one value; and softmax's result, which is at most 1, with scale 1 / 448
//
// Networks that are written to a file (options->qdq) get the types that their readers want, keep
// float biases, and pool floats.
//
// Weights are quantized by nodes over constants, which constant folding computes, so refit knows
// how they were made. Layers without a range, and those that were asked to compute in another type,
// stay as they are. Source: ONNX QuantizeLinear-21; V. Jacob et al., "Quantization and Training of
// Neural Networks for Efficient Integer-Arithmetic-Only Inference", CVPR 2018, section 2.
#include <float.h>
#include <math.h>

#include "pass/pass.h"

enum { kLargestFp8 = 448 };  // of E4M3FN

typedef struct inserter {
  carnot_node* at;                            // new nodes go before it
  carnot_value **quantized, **scale, **zero;  // by the id of an activation; NULL: none
  bool* is_result;  // by value id: a result of a layer that was quantized, epilogue included
  bool* attends;    // by value id: the result of attention whose queries and keys are quantized
  carnot_qdq_style style;
  size_t value_count;
  carnot_status* status;
} inserter;

// ---- nodes ----

static carnot_value* add(inserter* m, carnot_op op, const carnot_attrs* attrs,
                         carnot_value* const* inputs, int count) {
  carnot_node* node;
  if (!m->status)
    m->status = carnot_node_insert_before(m->at, op, NULL, attrs, inputs, count, 1, &node);
  return m->status ? NULL : node->outputs[0];
}

static carnot_value* apply(inserter* m, carnot_fn fn, carnot_value* a, carnot_value* b) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->at->block->graph->arena, "fn", fn);
  return add(m, b ? CARNOT_OP_BINARY : CARNOT_OP_UNARY, &attrs, (carnot_value*[]){a, b}, b ? 2 : 1);
}

static carnot_value* number(inserter* m, double value) {
  return m->status ? NULL : carnot_graph_float(m->at->block, CARNOT_DTYPE_F32, value);
}

// Quantize and dequantize along |axis|; -1: per tensor. |zero| may be NULL: 0.
static carnot_value* convert(inserter* m, carnot_op op, carnot_value* x, carnot_value* scale,
                             carnot_value* zero, int axis, carnot_dtype to) {
  carnot_arena* arena = &m->at->block->graph->arena;
  carnot_attrs attrs = {0};
  if (axis >= 0) carnot_attrs_set_int(&attrs, arena, "axis", axis);
  if (op == CARNOT_OP_QUANTIZE_LINEAR && !zero)
    carnot_attrs_set_int(&attrs, arena, "output_dtype", to);
  return add(m, op, &attrs, (carnot_value*[]){x, scale, zero}, zero ? 3 : 2);
}

// ---- activations ----

// The range of |value|, or of what it is a view of; false: there is none.
static bool range_of(const carnot_value* value, double* out_min, double* out_max) {
  while (!carnot_value_has_range(value)) {
    const carnot_node* node = value->producer;
    if (!node || !carnot_op_has_trait(node->op, CARNOT_TRAIT_VIEW)) return false;
    value = node->inputs[0];
  }
  *out_min = value->range[0];
  *out_max = value->range[1];
  return true;
}

static bool is_fp8(const inserter* m) { return m->style.type == CARNOT_DTYPE_F8E4M3FN; }

static void make_zero(inserter* m, const carnot_value* value, uint8_t zero) {
  uint8_t* number = CARNOT_NEW(&m->at->block->graph->arena, uint8_t);
  if (!m->status) m->status = carnot_arena_status(&m->at->block->graph->arena);
  if (m->status) return;
  *number = zero;
  carnot_tensor tensor = {.dtype = CARNOT_DTYPE_U8, .rank = 0, .data = number};
  m->zero[value->id] = carnot_graph_constant(m->at->block, NULL, &tensor);
}

// Scale and zero point of |value| by its range, unless it has them.
static void make_scale(inserter* m, const carnot_value* value) {
  double min = 0, max = 0;
  if (m->scale[value->id]) return;
  range_of(value, &min, &max);
  const carnot_dtype type = m->style.type;
  const bool is_symmetric = type == CARNOT_DTYPE_INVALID ? min == -max : type != CARNOT_DTYPE_U8;
  double levels = is_fp8(m) ? kLargestFp8 : 127;
  double scale = is_symmetric ? fmax(-min, max) / levels : (max - min) / 255;
  m->scale[value->id] = number(m, scale);
  if (!is_symmetric) make_zero(m, value, (uint8_t)nearbyint(-min / (double)(float)scale));
}

// |value| in 8 bits, which a node before m->at makes.
static void quantize(inserter* m, carnot_value* value) {
  if (m->quantized[value->id]) return;
  make_scale(m, value);
  carnot_value* zero = m->zero[value->id];
  carnot_dtype dtype = zero ? CARNOT_DTYPE_U8 : is_fp8(m) ? m->style.type : CARNOT_DTYPE_I8;
  m->quantized[value->id] = convert(m, CARNOT_OP_QUANTIZE_LINEAR, value, m->scale[value->id], zero,
                                    /*axis=*/-1, dtype);
}

// |value| rounded to 8 bits, as a float again: a dequantize node of its own before m->at.
static carnot_value* rounded(inserter* m, carnot_value* value) {
  quantize(m, value);
  return convert(m, CARNOT_OP_DEQUANTIZE_LINEAR, m->quantized[value->id], m->scale[value->id],
                 m->zero[value->id], /*axis=*/-1, CARNOT_DTYPE_INVALID);
}

static bool is_quantizable(const inserter* m, const carnot_value* value) {
  double min, max;
  return value && value->id < m->value_count && !value->constant && carnot_is_ranked(value) &&
         value->type.dtype == CARNOT_DTYPE_F32 && range_of(value, &min, &max);
}

// The only node that reads the elements of |value|, not its shape; NULL: there is not one.
static const carnot_node* only_reader(const carnot_value* value) {
  const carnot_node* reader = NULL;
  if (value->block_output_count) return NULL;
  for (size_t i = 0; i < value->use_count; i++) {
    if (value->uses[i].node->op == CARNOT_OP_SHAPE) continue;
    if (reader) return NULL;
    reader = value->uses[i].node;
  }
  return reader;
}

// ---- weights ----

// A constant, or one that is stored in half precision.
static bool is_weight(const carnot_value* value) {
  const carnot_node* cast = value->producer;
  if (cast && cast->op == CARNOT_OP_CAST) value = cast->inputs[0];
  return carnot_value_is_constant(value);
}

// One scale for each slice of |w| along |axis| as float32 [n], or one number where axis is -1.
static carnot_value* weight_scale(inserter* m, carnot_value* w, int axis) {
  int64_t axes[CARNOT_MAX_RANK];
  int count = 0;
  for (int d = 0; d < w->type.rank; d++)
    if (d != axis) axes[count++] = d;
  carnot_arena* arena = &m->at->block->graph->arena;
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, arena, "fn", "max");
  carnot_attrs_set_int(&attrs, arena, "keepdims", 0);
  carnot_value* magnitude = apply(m, CARNOT_FN_ABS, w, NULL);
  carnot_value* largest =
      add(m, CARNOT_OP_REDUCE, &attrs,
          (carnot_value*[]){magnitude, carnot_graph_ints(m->at->block, axes, count)}, 2);
  carnot_value* scale = apply(m, CARNOT_FN_DIV, largest, number(m, is_fp8(m) ? kLargestFp8 : 127));
  return apply(m, CARNOT_FN_MAX, scale, number(m, (double)FLT_MIN));  // a channel of zeros
}

// The axis of the output channels among the dimensions of |node|'s weights; -1: there is not one.
static int channel_axis(const carnot_node* node) {
  const carnot_op_row* row = carnot_node_row(node);
  switch (node->op) {
    case CARNOT_OP_CONV: return 0;
    case CARNOT_OP_CONV_TRANSPOSE: return carnot_attr_int(row, &node->attrs, "group") == 1 ? 1 : -1;
    default: return carnot_attr_int(row, &node->attrs, "transB") ? 0 : 1;
  }
}

static void quantize_bias(inserter* m, carnot_node* node, carnot_value* x_scale,
                          carnot_value* w_scale, int axis) {
  carnot_value* bias = node->input_count > 2 ? node->inputs[2] : NULL;
  if (m->style.is_exported || !bias || !is_weight(bias) || bias->type.dtype != CARNOT_DTYPE_F32 ||
      bias->type.rank != 1 || axis < 0 || node->op == CARNOT_OP_CONV_TRANSPOSE)
    return;
  if (!carnot_sym_same(bias->type.dims[0], node->inputs[1]->type.dims[axis])) return;
  carnot_value* scale = apply(m, CARNOT_FN_MUL, w_scale, x_scale);
  carnot_value* q =
      convert(m, CARNOT_OP_QUANTIZE_LINEAR, bias, scale, NULL, /*axis=*/0, CARNOT_DTYPE_I32);
  carnot_value* back =
      convert(m, CARNOT_OP_DEQUANTIZE_LINEAR, q, scale, NULL, /*axis=*/0, CARNOT_DTYPE_INVALID);
  if (!m->status) carnot_node_set_input(node, 2, back);
}

// ---- layers ----

static bool is_layer(const carnot_node* node) {
  if (node->op == CARNOT_OP_CONV || node->op == CARNOT_OP_CONV_TRANSPOSE) return true;
  return (node->op == CARNOT_OP_MATMUL || node->op == CARNOT_OP_GEMM) &&
         !carnot_attr_int(carnot_node_row(node), &node->attrs, "transA") &&
         carnot_is_ranked(node->inputs[1]) && node->inputs[1]->type.rank == 2;
}

bool carnot_takes_qdq(const carnot_node* node) {
  return carnot_takes_qdq_in_f32(node) && node->inputs[1]->type.dtype == CARNOT_DTYPE_F32;
}

bool carnot_takes_qdq_in_f32(const carnot_node* node) {
  return is_layer(node) && is_weight(node->inputs[1]) &&
         (node->inputs[1]->type.dtype == CARNOT_DTYPE_F32 ||
          carnot_dtype_is_half(node->inputs[1]->type.dtype)) &&
         (node->precision == CARNOT_DTYPE_INVALID || node->precision == CARNOT_DTYPE_I8);
}

// Results of pointwise nodes behind a quantized layer belong to its region.
static void mark_results(inserter* m, const carnot_value* value) {
  for (; value && value->id < m->value_count;) {
    m->is_result[value->id] = true;
    const carnot_node* reader = carnot_only_user(value);
    if (!reader || reader->op != CARNOT_OP_UNARY) return;
    value = reader->outputs[0];
  }
}

// Both have one scale: |from|'s.
static void share_scale(inserter* m, const carnot_value* from, const carnot_value* to) {
  m->scale[to->id] = m->scale[from->id];
  m->zero[to->id] = m->zero[from->id];
}

// Max pooling whose result layers alone read pools bytes: its operand is quantized with the range
// of the result. These are the same numbers, as rounding and the maximum commute.
static void quantize_maximum(inserter* m, carnot_value* value) {
  carnot_node *pool = value->producer, *layer = m->at;
  if (m->scale[value->id] || !pool || pool->block != layer->block ||
      !carnot_op_has_trait(pool->op, CARNOT_TRAIT_MAXIMUM) || pool->input_count != 1 ||
      pool->output_count != 1 || pool->inputs[0]->id >= m->value_count ||
      carnot_only_user(pool->inputs[0]) != pool || value->block_output_count)
    return;
  for (size_t i = 0; i < value->use_count; i++)
    if (value->uses[i].input != 0 || !carnot_takes_qdq(value->uses[i].node)) return;
  carnot_value* x = pool->inputs[0];
  m->at = pool;
  make_scale(m, value);
  share_scale(m, value, x);
  if (m->style.is_exported) {
    carnot_value* back = rounded(m, x);
    if (!m->status) carnot_node_set_input(pool, 0, back);
  } else {
    quantize(m, x);
    m->quantized[value->id] = add(m, pool->op, &pool->attrs, &m->quantized[x->id], 1);
  }
  m->at = layer;
  if (m->status || m->style.is_exported) return;
  carnot_node* made = m->quantized[value->id]->producer;
  made->name = pool->name;
  made->order = pool->order;
  made->is_unnamed = pool->is_unnamed;
  made->type_name = pool->type_name;
}

static void quantize_layer(inserter* m, carnot_node* node) {
  carnot_value *x = node->inputs[0], *w = node->inputs[1];
  int axis = channel_axis(node);
  quantize_maximum(m, x);
  carnot_value* x_back = rounded(m, x);
  carnot_value* w_scale = weight_scale(m, w, axis);
  carnot_dtype dtype = is_fp8(m) ? CARNOT_DTYPE_F8E4M3FN : CARNOT_DTYPE_I8;
  carnot_value* q = convert(m, CARNOT_OP_QUANTIZE_LINEAR, w, w_scale, NULL, axis, dtype);
  if (q && node->op == CARNOT_OP_CONV && !is_fp8(m))
    carnot_attrs_set_text(&q->producer->attrs, &m->at->block->graph->arena, "rounding", "balanced");
  carnot_value* w_back =
      convert(m, CARNOT_OP_DEQUANTIZE_LINEAR, q, w_scale, NULL, axis, CARNOT_DTYPE_INVALID);
  quantize_bias(m, node, m->scale[x->id], w_scale, axis);
  if (m->status) return;
  carnot_node_set_input(node, 0, x_back);
  carnot_node_set_input(node, 1, w_back);
  if (node->op == CARNOT_OP_CONV || m->style.rounds_results) mark_results(m, node->outputs[0]);
}

static bool is_result(const inserter* m, const carnot_value* value) {
  return value->id < m->value_count && m->is_result[value->id];
}

// The residual addition behind a convolution.
static void quantize_residual(inserter* m, carnot_node* node) {
  carnot_value *a = node->inputs[0], *b = node->inputs[1];
  if (a == b || !carnot_is_ranked(a) || !carnot_is_ranked(b) ||
      !carnot_same_dims(&a->type, &b->type))
    return;
  int residual = -1;
  for (int i = 0; i < 2; i++)
    if (is_result(m, node->inputs[!i]) && is_quantizable(m, node->inputs[i]) &&
        (m->quantized[node->inputs[i]->id] || !is_result(m, node->inputs[i])))
      residual = i;
  // Regions form in the order of the nodes: the earlier convolution takes the addition.
  if (residual < 0 && is_result(m, a) && is_result(m, b))
    residual = carnot_node_comes_before(a->producer, b->producer) ? 1 : 0;
  if (residual < 0 || !is_quantizable(m, node->inputs[residual])) return;
  carnot_value* back = rounded(m, node->inputs[residual]);
  if (m->status) return;
  carnot_node_set_input(node, residual, back);
  mark_results(m, node->outputs[0]);
}

static bool is_mean(const carnot_node* node) {
  return node->op == CARNOT_OP_REDUCE &&
         carnot_attr_is(carnot_node_row(node), &node->attrs, "fn", "mean");
}

// The layer that alone reads |value|, or a view of it, as its operand; NULL: there is not one.
static const carnot_node* only_layer(const carnot_value* value) {
  for (;;) {
    const carnot_node* reader = only_reader(value);
    if (!reader || reader->inputs[0] != value) return NULL;
    if (carnot_takes_qdq(reader)) return reader;
    if (!carnot_op_has_trait(reader->op, CARNOT_TRAIT_VIEW)) return NULL;
    value = reader->outputs[0];
  }
}

// A mean between two layers, which reads and writes bytes.
static void quantize_mean(inserter* m, carnot_node* node) {
  const carnot_node* layer = only_layer(node->outputs[0]);
  if (!is_result(m, node->inputs[0]) || !is_quantizable(m, node->inputs[0]) || !layer ||
      !is_quantizable(m, layer->inputs[0]))
    return;
  carnot_value* back = rounded(m, node->inputs[0]);
  if (!m->status) carnot_node_set_input(node, 0, back);
}

// The softmax of the scores |value|, behind a scale and a mask that nothing else reads.
static const carnot_node* softmax_of(const carnot_value* value) {
  for (;;) {
    const carnot_node* reader = carnot_only_user(value);
    if (!reader || reader->op == CARNOT_OP_SOFTMAX) return reader;
    if (!carnot_node_is_fn(reader, CARNOT_FN_ADD) && !carnot_node_is_fn(reader, CARNOT_FN_MUL) &&
        !carnot_node_is_fn(reader, CARNOT_FN_DIV))
      return NULL;
    value = reader->outputs[0];
  }
}

// The MatMul of softmax's result and the values, behind a guard against rows without a key.
static carnot_node* values_matmul(const carnot_node* softmax) {
  const carnot_value* weights = softmax->outputs[0];
  double other = 1;
  for (size_t u = 0; u < softmax->outputs[0]->use_count; u++) {
    const carnot_node* reader = softmax->outputs[0]->uses[u].node;
    if (carnot_node_is_fn(reader, CARNOT_FN_SELECT) && reader->inputs[2] == softmax->outputs[0] &&
        carnot_value_scalar(reader->inputs[1], &other) && other == 0)
      weights = reader->outputs[0];
  }
  carnot_node* matmul = carnot_only_user(weights);
  return matmul && matmul->op == CARNOT_OP_MATMUL && matmul->inputs[0] == weights &&
                 weights->type.dtype == CARNOT_DTYPE_F32
             ? matmul
             : NULL;
}

static void round_operand(inserter* m, carnot_node* node, int input) {
  carnot_value* back = rounded(m, node->inputs[input]);
  if (!m->status) carnot_node_set_input(node, input, back);
}

// Where an operand of a node comes from: the input of |node| behind which there are only moves of
// elements and scales for this operand.
typedef struct origin {
  carnot_node* node;
  int input;
} origin;

static origin origin_of(carnot_node* node, int input) {
  origin at = {node, input};
  for (;;) {
    const carnot_value* value = at.node->inputs[at.input];
    carnot_node* from = value->producer;
    double number;
    if (!from || from->block != node->block || only_reader(value) != at.node) return at;
    const bool scales =
        carnot_node_is_fn(from, CARNOT_FN_MUL) || carnot_node_is_fn(from, CARNOT_FN_DIV);
    if (carnot_op_has_trait(from->op, CARNOT_TRAIT_VIEW) || from->op == CARNOT_OP_TRANSPOSE ||
        (scales && carnot_value_scalar(from->inputs[1], &number)))
      at = (origin){from, 0};
    else
      return at;
  }
}

static bool has_range(const inserter* m, origin at) {
  return is_quantizable(m, at.node->inputs[at.input]);
}

static void round_origin(inserter* m, origin at) {
  carnot_node* visited = m->at;
  m->at = at.node;
  round_operand(m, at.node, at.input);
  m->at = visited;
}

// The value that |at| projects by a MatMul of constant weights and the addition of a constant;
// NULL: it is not such a projection.
static const carnot_value* projected(origin at) {
  const carnot_node* sum = at.node->inputs[at.input]->producer;
  if (!carnot_node_is_fn(sum, CARNOT_FN_ADD)) return NULL;
  for (int i = 0; i < 2; i++) {
    const carnot_node* matmul = sum->inputs[i]->producer;
    if (!matmul || matmul->op != CARNOT_OP_MATMUL || !sum->inputs[1 - i]->constant) continue;
    const carnot_node* from = matmul->inputs[0]->producer;
    return from && from->op == CARNOT_OP_DEQUANTIZE_LINEAR ? from->inputs[0] : matmul->inputs[0];
  }
  return NULL;
}

// Projections of one value get one scale, so that they stay one GEMM: that of the widest range.
// Numbers of E4M3 keep three bits below it down to 1 / 28,672.
static void share_widest_scale(inserter* m, const origin* all, int count) {
  enum { kMostRatio = 64 };
  double widest = 0, least = INFINITY;
  for (int i = 0; i < count; i++) {
    const carnot_value* value = all[i].node->inputs[all[i].input];
    double min = 0, max = 0;
    range_of(value, &min, &max);
    if (m->scale[value->id] || !projected(all[i]) || projected(all[i]) != projected(all[0])) return;
    widest = fmax(widest, fmax(-min, max));
    least = fmin(least, fmax(-min, max));
  }
  if (!(widest <= kMostRatio * least)) return;
  carnot_value* scale = number(m, widest / kLargestFp8);
  for (int i = 0; i < count; i++) m->scale[all[i].node->inputs[all[i].input]->id] = scale;
}

// The MatMul of queries and keys of attention, which decides for the other one, of weights and
// values. Queries, keys and values are rounded where their projections write them.
static void quantize_attention(inserter* m, carnot_node* node) {
  const origin left = origin_of(node, 0), right = origin_of(node, 1);
  if (m->attends[node->outputs[0]->id]) {
    m->scale[node->inputs[0]->id] = number(m, 1.0 / kLargestFp8);
    round_operand(m, node, 0);
    round_origin(m, right);
    return;
  }
  const carnot_node* softmax = softmax_of(node->outputs[0]);
  carnot_node* last = softmax ? values_matmul(softmax) : NULL;
  if (!last || last->block != node->block) return;
  const origin operands[] = {left, right, origin_of(last, 1)};
  for (int i = 0; i < 3; i++)
    if (!has_range(m, operands[i])) return;
  share_widest_scale(m, operands, 3);
  m->attends[last->outputs[0]->id] = true;
  round_origin(m, left);
  round_origin(m, right);
}

// What |node| reads of the results of layers, where it is not part of one.
static void round_results(inserter* m, carnot_node* node) {
  const carnot_value* read = NULL;
  for (int i = 0; i < node->input_count && !m->status; i++) {
    carnot_value* x = node->inputs[i];
    const bool is_part = x && node->op == CARNOT_OP_UNARY && carnot_only_user(x) == node;
    if (!x || is_part || !is_result(m, x) || !is_quantizable(m, x)) continue;
    carnot_value* back = rounded(m, x);
    if (!m->status) carnot_node_set_input(node, i, back);
    read = x;
  }
  // What moves, adds or pools rounded numbers is rounded too; what moves them keeps their scale.
  const bool moves = carnot_op_has_trait(node->op, CARNOT_TRAIT_MAXIMUM) ||
                     carnot_op_has_trait(node->op, CARNOT_TRAIT_MOVES_DATA);
  if (m->status || !read || (!moves && !carnot_node_is_fn(node, CARNOT_FN_ADD) && !is_mean(node)))
    return;
  for (int i = 0; i < node->output_count; i++) {
    if (!node->outputs[i] || !is_quantizable(m, node->outputs[i])) continue;
    mark_results(m, node->outputs[i]);
    if (moves && node->op != CARNOT_OP_CONCAT) share_scale(m, read, node->outputs[i]);
  }
}

carnot_status* carnot_pass_insert_qdq(carnot_graph* graph, const carnot_pass_options* options) {
  if (!options->quantize) return NULL;
  size_t count = graph->value_count;
  carnot_arena* arena = &graph->arena;
  inserter m = {.style = options->qdq,
                .value_count = count,
                .quantized = CARNOT_NEW_ARRAY(arena, carnot_value*, count + 1),
                .scale = CARNOT_NEW_ARRAY(arena, carnot_value*, count + 1),
                .zero = CARNOT_NEW_ARRAY(arena, carnot_value*, count + 1),
                .is_result = CARNOT_NEW_ARRAY(arena, bool, count + 1),
                .attends = CARNOT_NEW_ARRAY(arena, bool, count + 1)};
  CARNOT_TRY(carnot_arena_status(arena));
  for (carnot_node* node = graph->main->first; node && !m.status; node = node->next) {
    m.at = node;
    if (carnot_takes_qdq(node) && is_quantizable(&m, node->inputs[0]))
      quantize_layer(&m, node);
    else if (m.style.attention && node->op == CARNOT_OP_MATMUL)
      quantize_attention(&m, node);
    else if (m.style.rounds_results)
      round_results(&m, node);
    else if (carnot_node_is_fn(node, CARNOT_FN_ADD))
      quantize_residual(&m, node);
    else if (is_mean(node))
      quantize_mean(&m, node);
    if (node->precision == CARNOT_DTYPE_I8) node->precision = CARNOT_DTYPE_INVALID;  // it is done
  }
  CARNOT_TRY(m.status);
  return carnot_pass_constant_folding(graph, options);
}
