// Stores FP32 layers as FP16 or BF16 on an accelerator, where the configuration or the layer's
// requested precision allows it: contractions, recurrent layers, norms of images, and layers behind
// them whose results stay in the range of their operands (traits of ir/op.h, column range of
// base/fn.def).
// Kernels accumulate in FP32. Inputs and results of the network keep their types, as do layers for
// which FP32 was requested, constants that FP16 cannot hold, and contractions of quantized operands
// that a kernel computes in integers. Those of FP8 operands get results in half precision.
#include <math.h>
#include <string.h>

#include "pass/cast_cache.h"
#include "pass/quantized_region.h"

typedef struct narrower {
  const carnot_pass_options* options;
  carnot_cast_cache cache;
} narrower;

static bool is_f32(const carnot_value* value) {
  return value && value->type.kind == CARNOT_VALUE_TENSOR && value->type.dtype == CARNOT_DTYPE_F32;
}

// True for an operand whose numbers are computed with. Resize's others say where it reads.
static bool is_narrowed(const carnot_node* node, int i) {
  return is_f32(node->inputs[i]) && (node->op != CARNOT_OP_RESIZE || i == 0);
}

// Whether one of the |count| finite numbers exceeds the largest float16.
static bool exceeds_f16(const float* x, size_t count) {
  enum { kBlock = 4096 };
  const int32_t largest_f16 = 0x477fe000, largest_f32 = 0x7f7fffff;  // bits of 65504 and FLT_MAX
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = count - begin < kBlock ? count : begin + kBlock;
    int32_t found = 0;
    for (size_t i = begin; i < end; i++) {
      int32_t bits;
      memcpy(&bits, x + i, sizeof(bits));
      bits &= 0x7fffffff;
      found |= (bits > largest_f16) & (bits <= largest_f32);
    }
    if (found) return true;
  }
  return false;
}

// The numbers of a constant as float16: none becomes infinite, and no single one vanishes.
static bool survives(const narrower* n, const carnot_value* value, carnot_dtype to) {
  const carnot_tensor* t = value->constant ? &value->constant->tensor : NULL;
  if (!t || !t->data || to != CARNOT_DTYPE_F16) return true;
  const size_t count = (size_t)carnot_tensor_count(t);
  if (n->options->refit && count > 1) return true;  // these numbers may change
  const float* x = t->data;
  const float size = count == 1 ? fabsf(x[0]) : 1;
  return !(size > 0 && size < 6.2e-5f) && !exceeds_f16(x, count);
}

// Whether |node| adds input |i|, a constant mask, to scores in front of a softmax: its numbers
// beyond float16 close keys, and every query has an open key. The weights of closed keys are zero
// with the lowest float16 as well.
static bool adds_closing_mask(const narrower* n, const carnot_node* node, int i) {
  const carnot_node* next = carnot_only_user(node->outputs[0]);
  const carnot_value* value = node->inputs[i];
  const carnot_tensor* t = value->constant ? &value->constant->tensor : NULL;
  if (!carnot_node_is_fn(node, CARNOT_FN_ADD) || !next || next->op != CARNOT_OP_SOFTMAX || !t ||
      !t->data || t->rank < 2 || t->dims[t->rank - 1] < 1 || n->options->refit)
    return false;
  const int64_t axis = carnot_attr_int(carnot_node_row(next), &next->attrs, "axis"),
                keys = t->dims[t->rank - 1];
  if (axis != -1 && axis != next->inputs[0]->type.rank - 1) return false;
  const size_t count = (size_t)carnot_tensor_count(t);
  const float* x = t->data;
  for (size_t row = 0; row < count; row += (size_t)keys) {
    bool is_open = false;
    for (size_t k = row; k < row + (size_t)keys; k++) {
      if (!(x[k] <= 65504)) return false;
      is_open |= x[k] > -1e4f;
    }
    if (!is_open) return false;
  }
  return true;
}

// The mask with the lowest float16 in place of numbers below it, one for all layers.
static carnot_status* narrow_mask(narrower* n, carnot_node* node, int i, carnot_dtype to) {
  carnot_value *mask = node->inputs[i], *known = carnot_cast_cache_find(&n->cache, mask);
  if (known) {
    carnot_node_set_input(node, i, known);
    return NULL;
  }
  carnot_tensor t = mask->constant->tensor;
  const float* x = t.data;
  const size_t count = (size_t)carnot_tensor_count(&t);
  uint16_t* y = CARNOT_NEW_ARRAY(&node->block->graph->arena, uint16_t, count);
  CARNOT_TRY(carnot_arena_status(&node->block->graph->arena));
  for (size_t k = 0; k < count; k++)
    carnot_store_f64(to, y, k, x[k] < -65504 ? -65504 : (double)x[k]);
  t.dtype = to, t.data = y;
  known = carnot_graph_constant(node->block, NULL, &t);
  CARNOT_TRY(carnot_arena_status(&node->block->graph->arena));
  if (mask->id < n->cache.count) n->cache.of[mask->id] = known;
  carnot_node_set_input(node, i, known);
  return NULL;
}

static bool is_constant_input(const carnot_node* node, int i) {
  return node->inputs[i] && node->inputs[i]->constant != NULL;
}

// A sum of a few numbers, which has the range of as many additions.
static bool sums_few(const carnot_node* node) {
  enum { kFew = 16 };
  const carnot_type* x = &node->inputs[0]->type;
  int64_t axes[CARNOT_MAX_RANK], count = 1;
  const int axis_count =
      node->input_count > 1 ? carnot_value_ints(node->inputs[1], axes, CARNOT_MAX_RANK) : -1;
  if (!carnot_attr_is(carnot_node_row(node), &node->attrs, "fn", "sum") || axis_count < 1)
    return false;
  for (int i = 0; i < axis_count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];
    if (axis < 0 || axis >= x->rank) return false;
    if (!carnot_sym_is_const(x->dims[axis]) || x->dims[axis].bits > kFew) return false;
    count *= x->dims[axis].bits;
  }
  return count <= kFew;
}

static bool reduction_keeps_range(const carnot_node* node) {
  const carnot_op_row* row = carnot_node_row(node);
  if (sums_few(node)) return true;
  return carnot_attr_is(row, &node->attrs, "fn", "mean") ||
         carnot_attr_is(row, &node->attrs, "fn", "max") ||
         carnot_attr_is(row, &node->attrs, "fn", "min");
}

// True when an operand exists in half precision already, or |node| gathers rows of a constant
// table.
static bool has_half(const narrower* n, const carnot_node* node) {
  for (int i = 0; i < node->input_count; i++)
    if (is_f32(node->inputs[i]) && carnot_cast_cache_find(&n->cache, node->inputs[i])) return true;
  return node->op == CARNOT_OP_GATHER && is_constant_input(node, 0);
}

static bool gains(const narrower* n, const carnot_node* node) {
  unsigned traits = carnot_node_row(node)->traits;
  // Only kernels of half precision share the statistics of an image among blocks.
  if (node->op == CARNOT_OP_GROUP_NORM || node->op == CARNOT_OP_INSTANCE_NORM) return true;
  if (traits & CARNOT_TRAIT_RECURRENCE) return true;
  if (traits & CARNOT_TRAIT_CONTRACTION)
    return !is_constant_input(node, 0) || !is_constant_input(node, 1);
  bool keeps_range =
      (traits & (CARNOT_TRAIT_MOVES_DATA | CARNOT_TRAIT_F32_AS_HALF)) != 0 ||
      ((traits & CARNOT_TRAIT_ELEMENTWISE) && carnot_fn_get(carnot_node_fn(node))->keeps_range) ||
      (node->op == CARNOT_OP_REDUCE && reduction_keeps_range(node));
  return keeps_range && has_half(n, node);
}

// The type to store |node| in; INVALID: as it is.
static carnot_dtype type_for(const narrower* n, const carnot_node* node) {
  carnot_dtype to = node->precision ? node->precision : n->options->half;
  bool half = to == CARNOT_DTYPE_F16 || to == CARNOT_DTYPE_BF16;
  if (!half || node->output_count < 1 || !gains(n, node)) return CARNOT_DTYPE_INVALID;
  for (int i = 0; i < node->input_count; i++)
    if (is_narrowed(node, i) && !survives(n, node->inputs[i], to) && !adds_closing_mask(n, node, i))
      return CARNOT_DTYPE_INVALID;
  for (int i = 0; i < node->output_count; i++) {
    const carnot_value* value = node->outputs[i];
    if (i > 0 && is_f32(value) && node->op != CARNOT_OP_SPLIT &&
        !carnot_op_has_trait(node->op, CARNOT_TRAIT_RECURRENCE))
      return CARNOT_DTYPE_INVALID;
    if (value && value->forced_dtype && value->forced_dtype != to) return CARNOT_DTYPE_INVALID;
  }
  return is_f32(node->outputs[0]) || carnot_node_is_fn(node, CARNOT_FN_IS_NAN)
             ? to
             : CARNOT_DTYPE_INVALID;
}

// A mask is read by the scores of every layer: each gets its own cast, which joins the attention
// then, so that numbers like -1e38 are added in float32.
static bool is_mask(const carnot_node* node, const carnot_value* input) {
  const carnot_node* next = carnot_only_user(node->outputs[0]);
  return carnot_node_is_fn(node, CARNOT_FN_ADD) && next && next->op == CARNOT_OP_SOFTMAX &&
         !input->constant;
}

static carnot_status* narrow_node(narrower* n, carnot_node* node, carnot_dtype to) {
  carnot_value** inputs =
      CARNOT_NEW_ARRAY(&node->block->graph->arena, carnot_value*, (size_t)node->input_count + 1);
  CARNOT_TRY(carnot_arena_status(&node->block->graph->arena));
  for (int i = 0; i < node->input_count; i++) {
    if (is_narrowed(node, i) && adds_closing_mask(n, node, i) && !survives(n, node->inputs[i], to))
      CARNOT_TRY(narrow_mask(n, node, i, to));
    carnot_value* value = inputs[i] = node->inputs[i];
    if (!is_narrowed(node, i)) continue;
    if (is_mask(node, value) && !carnot_cast_cache_find(&n->cache, value))
      CARNOT_TRY(carnot_insert_cast(node, value, to, &inputs[i]));
    else
      CARNOT_TRY(carnot_cast_cache_get_or_insert(&n->cache, node, value, to, &inputs[i]));
  }
  carnot_dtype asked = node->precision;
  carnot_node* made;
  CARNOT_TRY(carnot_cast_cache_replace_node(&n->cache, node, inputs, &made));
  made->precision = asked;
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  narrower* n = user;
  CARNOT_TRY(carnot_cast_cache_init(block->graph, &n->cache));
  carnot_status* status = NULL;
  for (carnot_node *node = block->first, *next; node && !status; node = next) {
    next = node->next;
    carnot_dtype to = type_for(n, node);
    bool is_quantized = false;
    if (to && !node->precision && !carnot_is_fp8_anchor(node))
      status = carnot_accepts_quantized(n->options, node, &is_quantized);
    if (to && !is_quantized && !status) status = narrow_node(n, node, to);
  }
  carnot_cast_cache_deinit(&n->cache);
  return status;
}

carnot_status* carnot_pass_convert_to_mixed_precision(carnot_graph* graph,
                                                      const carnot_pass_options* options) {
  if (!options->device) return NULL;
  CARNOT_TRY(carnot_pass_constant_folding(graph, options));  // arithmetic on weights stays float32
  narrower n = {.options = options};
  CARNOT_TRY(carnot_each_block(graph->main, visit, &n));
  CARNOT_TRY(carnot_pass_dce(graph, options));
  return carnot_pass_constant_folding(graph, options);
}
