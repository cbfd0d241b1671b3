// Pads channels between convolutions to multiples of eight, which kernels of half precision read at
// once:
//   conv(conv(x, W [27, 96, ..]), V [162, 27, ..])
//     -> conv(conv(x, W and zeros [32, 96, ..]), V and zeros [168, 32, ..]) ..
// Tensors whose channels correspond one to one (activations, sums, pooling, depthwise convolution)
// are one class. Slice, Split and Concat by channel cut a class into segments, and each segment is
// padded by itself, so that parts stay aligned. A padded channel is f(0) with f finite at 0, and
// the weights that read it are zero. The arithmetic on weights is nodes over constants.
//
// A class whose channels anything else reads or makes stays as it is. For an accelerator.
#include <stdlib.h>

#include "pass/emit.h"

enum { kMultiple = 8, kChannelAxis = 1, kLeastPixels = 16 };

typedef struct channel_class {
  uint32_t parent;   // union-find by value id
  bool is_known;     // a node of the block makes a tensor of it
  bool is_fixed;     // channels must stay as they are; also of constants and of what is not known
  bool has_pixels;   // a tensor of it has kLeastPixels or more
  int64_t channels;  // 0: not known yet
  bool* cuts;        // [channels + 1]: where segments begin
} channel_class;

// Channels [offset, offset + those of |part|) of |whole|.
typedef struct channel_part {
  uint32_t whole, part;
  int64_t offset;
} channel_part;

typedef struct padding {
  carnot_block* block;
  channel_class* classes;  // by value id
  uint32_t value_count;
  channel_part* parts;
  size_t part_count, part_capacity;
} padding;

static uint32_t root_of(const padding* p, uint32_t id) {
  while (p->classes[id].parent != id) id = p->classes[id].parent;
  return id;
}
static channel_class* class_of(const padding* p, const carnot_value* value) {
  return &p->classes[root_of(p, value->id)];
}
static void fix(const padding* p, const carnot_value* value) {
  if (value) class_of(p, value)->is_fixed = true;
}

// [N, C, ..] with C known, of floats.
static bool has_channels(const carnot_value* value) {
  return carnot_is_ranked(value) && value->type.rank >= 3 &&
         carnot_dtype_is_float(value->type.dtype) &&
         carnot_sym_is_const(value->type.dims[kChannelAxis]) &&
         value->type.dims[kChannelAxis].bits > 0;
}

static void see(const padding* p, const carnot_value* value) {
  channel_class* c = class_of(p, value);
  if (!has_channels(value) || value->constant || value->block != p->block || !value->producer ||
      value->block_output_count || carnot_value_has_range(value))
    return;
  for (size_t u = 0; u < value->use_count; u++)
    if (value->uses[u].node->block != p->block) return;
  c->is_known = true, c->is_fixed = false;
  c->channels = value->type.dims[kChannelAxis].bits;
  int64_t pixels = 1;
  for (int d = 2; d < value->type.rank; d++)
    pixels *= carnot_sym_is_const(value->type.dims[d]) ? value->type.dims[d].bits : kLeastPixels;
  c->has_pixels = pixels >= kLeastPixels;
}

static void join(const padding* p, const carnot_value* a, const carnot_value* b) {
  channel_class *to = class_of(p, a), *from = class_of(p, b);
  if (to == from) return;
  if (to->channels != from->channels) to->is_fixed = true;
  to->is_fixed = to->is_fixed || from->is_fixed;
  to->has_pixels = to->has_pixels || from->has_pixels;
  from->parent = to->parent;
}

// ---- what nodes ask of the channels of their operands and results ----

// f(0) is finite, also of finite numbers that other padded channels hold.
static bool keeps_finite(carnot_fn fn) {
  switch (fn) {
    case CARNOT_FN_IDENTITY:
    case CARNOT_FN_ABS:
    case CARNOT_FN_NEG:
    case CARNOT_FN_TANH:
    case CARNOT_FN_ERF:
    case CARNOT_FN_SIGMOID:
    case CARNOT_FN_RELU:
    case CARNOT_FN_LEAKY_RELU:
    case CARNOT_FN_ELU:
    case CARNOT_FN_SELU:
    case CARNOT_FN_CELU:
    case CARNOT_FN_SOFTPLUS:
    case CARNOT_FN_SOFTSIGN:
    case CARNOT_FN_HARD_SIGMOID:
    case CARNOT_FN_HARD_SWISH:
    case CARNOT_FN_SWISH:
    case CARNOT_FN_MISH:
    case CARNOT_FN_GELU_ERF:
    case CARNOT_FN_GELU_TANH:
    case CARNOT_FN_CLAMP:
    case CARNOT_FN_ADD:
    case CARNOT_FN_SUB:
    case CARNOT_FN_MUL:
    case CARNOT_FN_MAX:
    case CARNOT_FN_MIN: return true;
    default: return false;
  }
}

// A convolution with constant weights whose operands' channels can change.
static bool is_paddable_conv(const carnot_node* node, bool* is_depthwise) {
  if (node->op != CARNOT_OP_CONV || !node->inputs[1]->constant ||
      (node->input_count > 2 && node->inputs[2] && !node->inputs[2]->constant) ||
      !has_channels(node->inputs[0]) || !has_channels(node->outputs[0]))
    return false;
  const int64_t group = carnot_attr_int(carnot_node_row(node), &node->attrs, "group");
  *is_depthwise = group > 1 && carnot_sym_is(node->inputs[0]->type.dims[kChannelAxis], group) &&
                  carnot_sym_is(node->outputs[0]->type.dims[kChannelAxis], group);
  return group == 1 || *is_depthwise;
}

// A constant that is the same for all channels.
static bool is_for_all_channels(const carnot_value* value, int rank) {
  const int axis = kChannelAxis - (rank - value->type.rank);
  return value->constant && value->type.rank <= rank &&
         (axis < 0 || carnot_sym_is(value->type.dims[axis], 1));
}

static bool note_elementwise(const padding* p, const carnot_node* node) {
  const carnot_value* y = node->outputs[0];
  if (!keeps_finite(carnot_node_fn(node))) return false;
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* x = node->inputs[i];
    if (!x || (!is_for_all_channels(x, y->type.rank) &&
               (!has_channels(x) || x->constant || x->type.rank != y->type.rank ||
                !carnot_sym_same(x->type.dims[kChannelAxis], y->type.dims[kChannelAxis]))))
      return false;
  }
  for (int i = 0; i < node->input_count; i++)
    if (!node->inputs[i]->constant) join(p, y, node->inputs[i]);
  return true;
}

// A mean over pixels that keeps its axes.
static bool is_pixel_mean(const carnot_node* node) {
  int64_t axes[CARNOT_MAX_RANK];
  const int count = node->op == CARNOT_OP_REDUCE && node->input_count > 1 && node->inputs[1]
                        ? carnot_value_ints(node->inputs[1], axes, CARNOT_MAX_RANK)
                        : 0;
  if (count <= 0 || !carnot_attr_is(carnot_node_row(node), &node->attrs, "fn", "mean") ||
      node->inputs[0]->type.rank != node->outputs[0]->type.rank)
    return false;
  const int rank = node->inputs[0]->type.rank;
  for (int i = 0; i < count; i++)
    if ((axes[i] < 0 ? axes[i] + rank : axes[i]) <= kChannelAxis) return false;
  return true;
}

static carnot_status* note_part(padding* p, const carnot_value* whole, const carnot_value* part,
                                int64_t offset) {
  void* parts = p->parts;
  CARNOT_TRY(carnot_grow(&parts, &p->part_capacity, p->part_count + 1, sizeof(*p->parts), "parts"));
  p->parts = parts;
  p->parts[p->part_count++] =
      (channel_part){.whole = whole->id, .part = part->id, .offset = offset};
  return NULL;
}

static bool is_channel_concat(const carnot_node* node) {
  if (node->op != CARNOT_OP_CONCAT || !has_channels(node->outputs[0])) return false;
  const int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  if ((axis < 0 ? axis + node->outputs[0]->type.rank : axis) != kChannelAxis) return false;
  for (int i = 0; i < node->input_count; i++)
    if (!has_channels(node->inputs[i])) return false;
  return true;
}

// A Slice or Split of channels without steps.
static bool is_channel_cut(const carnot_node* node) {
  carnot_slice s;
  if (node->op != CARNOT_OP_SLICE && node->op != CARNOT_OP_SPLIT) return false;
  for (int i = 0; i < node->output_count; i++)
    if (!has_channels(node->outputs[i]) || !carnot_read_slice(node->outputs[i], &s) ||
        s.axis != kChannelAxis || s.step != 1 || s.start >= s.end)
      return false;
  return has_channels(node->inputs[0]);
}

static bool is_pool(const carnot_node* node) {
  return (node->op == CARNOT_OP_MAX_POOL || node->op == CARNOT_OP_AVERAGE_POOL) &&
         node->output_count == 1;
}

static carnot_status* note_node(padding* p, const carnot_node* node) {
  bool is_depthwise, known = true;
  if (is_paddable_conv(node, &is_depthwise)) {
    if (is_depthwise) join(p, node->outputs[0], node->inputs[0]);
  } else if (is_channel_concat(node)) {
    for (int64_t i = 0, at = 0; i < node->input_count; i++) {
      CARNOT_TRY(note_part(p, node->outputs[0], node->inputs[i], at));
      at += node->inputs[i]->type.dims[kChannelAxis].bits;
    }
  } else if (is_channel_cut(node)) {
    for (int i = 0; i < node->output_count; i++) {
      carnot_slice s;
      if (carnot_read_slice(node->outputs[i], &s))
        CARNOT_TRY(note_part(p, node->inputs[0], node->outputs[i], s.start));
    }
  } else if (is_pool(node) || is_pixel_mean(node)) {
    join(p, node->outputs[0], node->inputs[0]);
  } else {
    known = node->output_count == 1 && has_channels(node->outputs[0]) && note_elementwise(p, node);
  }
  for (int i = 0; i < node->input_count && !known; i++) fix(p, node->inputs[i]);
  for (int i = 0; i < node->output_count && !known; i++) fix(p, node->outputs[i]);
  return NULL;
}

// ---- segments ----

static bool cut_at(channel_class* c, int64_t at) {
  const bool is_new = !c->cuts[at];
  c->cuts[at] = true;
  return is_new;
}

// One round over all parts; whether anything changed.
static bool spread(padding* p) {
  bool changed = false;
  for (size_t i = 0; i < p->part_count; i++) {
    const channel_part* part = &p->parts[i];
    channel_class *whole = &p->classes[part->whole], *piece = &p->classes[part->part];
    if (whole->is_fixed != piece->is_fixed) whole->is_fixed = piece->is_fixed = changed = true;
    if (whole->is_fixed) continue;
    for (int64_t k = 0; k <= piece->channels; k++)
      if (piece->cuts[k] || whole->cuts[part->offset + k]) {
        changed = cut_at(piece, k) || changed;
        changed = cut_at(whole, part->offset + k) || changed;
      }
  }
  return changed;
}

// Where channel |at| of a class is after padding; |at| is the begin of a segment or the end.
static int64_t padded(const channel_class* c, int64_t at) {
  int64_t sum = 0;
  for (int64_t begin = 0, k = 1; k <= at; k++)
    if (c->cuts[k]) sum += carnot_ceildiv(k - begin, kMultiple) * kMultiple, begin = k;
  return sum;
}

static bool is_padded(const channel_class* c) {
  return c->is_known && !c->is_fixed && padded(c, c->channels) != c->channels;
}

static carnot_status* find_segments(padding* p) {
  carnot_arena* arena = &p->block->graph->arena;
  for (uint32_t i = 0; i < p->value_count; i++) {
    channel_class* c = &p->classes[i];
    if (c->parent != i || !c->is_known) continue;
    c->cuts = carnot_arena_alloc(arena, (size_t)c->channels + 1, sizeof(bool));
    if (!c->cuts) return carnot_graph_status(p->block->graph);
    memset(c->cuts, 0, ((size_t)c->channels + 1) * sizeof(bool));
    c->cuts[0] = c->cuts[c->channels] = true;
    c->is_fixed = c->is_fixed || !c->has_pixels;
  }
  for (bool changed = true; changed;) {
    changed = spread(p);
    // What would be mostly padding stays as it is.
    for (uint32_t i = 0; i < p->value_count && !changed; i++) {
      channel_class* c = &p->classes[i];
      if (c->parent != i || !c->is_known || c->is_fixed) continue;
      c->is_fixed = changed = 2 * padded(c, c->channels) > 3 * c->channels;
    }
  }
  return NULL;
}

// ---- rewriting ----

// |value| with zeros behind each segment of |axis|.
static carnot_value* emit_padded(carnot_emitter* e, const channel_class* c, carnot_value* value,
                                 int axis) {
  carnot_arena* arena = &e->at->block->graph->arena;
  const int rank = value->type.rank;
  carnot_value** segments = carnot_arena_alloc(arena, (size_t)c->channels, sizeof(carnot_value*));
  int count = 0;
  for (int64_t begin = 0, k = 1; k <= c->channels && segments; k++) {
    if (!c->cuts[k]) continue;
    carnot_value* segment =
        begin || k < c->channels ? carnot_emit_slice(e, value, axis, begin, k) : value;
    int64_t widths[2 * CARNOT_MAX_RANK] = {0}, size = k - begin;
    widths[rank + axis] = carnot_ceildiv(size, kMultiple) * kMultiple - size;
    if (widths[rank + axis]) {
      carnot_value* inputs[2] = {segment, carnot_emit_ints(e, widths, 2 * rank)};
      segment = carnot_emit(e, CARNOT_OP_PAD, NULL, inputs, 2);
    }
    segments[count++] = segment;
    begin = k;
  }
  return count == 1 ? segments[0] : carnot_emit_concat(e, axis, segments, count);
}

static carnot_status* pad_conv(const padding* p, carnot_node* conv, bool is_depthwise) {
  const channel_class *x = class_of(p, conv->inputs[0]), *y = class_of(p, conv->outputs[0]);
  carnot_emitter e = {.at = conv, .name = conv->name};
  carnot_arena* arena = &conv->block->graph->arena;
  carnot_value *weights = conv->inputs[1], *bias = conv->input_count > 2 ? conv->inputs[2] : NULL;
  if (is_padded(x) && !is_depthwise) weights = emit_padded(&e, x, weights, 1);
  if (is_padded(y) && !e.status) weights = emit_padded(&e, y, weights, 0);
  if (is_padded(y) && !e.status && bias) bias = emit_padded(&e, y, bias, 0);
  CARNOT_TRY(e.status);
  carnot_node_set_input(conv, 1, weights);
  if (bias) carnot_node_set_input(conv, 2, bias);
  if (!is_depthwise || !is_padded(y)) return NULL;
  carnot_attrs attrs = {0};
  for (size_t i = 0; i < conv->attrs.count; i++)
    carnot_attrs_set(&attrs, arena, conv->attrs.items[i]);
  carnot_attrs_set_int(&attrs, arena, "group", padded(y, y->channels));
  conv->attrs = attrs;
  return NULL;
}

static void pad_slice(const padding* p, carnot_node* node, const channel_class* c) {
  carnot_slice s;
  if (!carnot_read_slice(node->outputs[0], &s)) return;
  const int64_t start = padded(c, s.start), end = padded(c, s.end);
  carnot_node_set_input(node, 1, carnot_graph_ints(p->block, &start, 1));
  carnot_node_set_input(node, 2, carnot_graph_ints(p->block, &end, 1));
}

// Replaces |node| by the Split of the padded parts.
static carnot_status* pad_split(const padding* p, carnot_node* node) {
  carnot_arena* arena = &p->block->graph->arena;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, arena, "axis", kChannelAxis);
  int64_t* sizes = carnot_arena_alloc(arena, (size_t)node->output_count, sizeof(*sizes));
  if (!sizes) return carnot_graph_status(p->block->graph);
  for (int i = 0; i < node->output_count; i++) {
    const channel_class* c = class_of(p, node->outputs[i]);
    sizes[i] = padded(c, c->channels);
  }
  carnot_value* inputs[2] = {node->inputs[0],
                             carnot_graph_ints(p->block, sizes, node->output_count)};
  const channel_class* whole = class_of(p, node->inputs[0]);
  node->inputs[0]->type.dims[kChannelAxis] = carnot_sym_of(padded(whole, whole->channels));
  carnot_node* split;
  CARNOT_TRY(carnot_node_insert_before(node, CARNOT_OP_SPLIT, node->name, &attrs, inputs, 2,
                                       node->output_count, &split));
  split->precision = node->precision;
  carnot_node_absorb(split, node);
  for (int i = 0; i < node->output_count; i++) {
    split->outputs[i]->name = node->outputs[i]->name;
    carnot_value_replace(node->outputs[i], split->outputs[i]);
  }
  carnot_node_remove(node);
  return NULL;
}

static carnot_status* rewrite(const padding* p) {
  bool is_depthwise;
  for (carnot_node* node = p->block->first; node; node = node->next)
    if (is_paddable_conv(node, &is_depthwise))
      CARNOT_TRY(pad_conv(p, node, is_depthwise));
    else if (node->op == CARNOT_OP_SLICE && is_channel_cut(node) &&
             is_padded(class_of(p, node->inputs[0])))
      pad_slice(p, node, class_of(p, node->inputs[0]));
  // From back to front: a Split whose results are new is behind none that is still to come.
  for (carnot_node *node = p->block->last, *previous; node; node = previous) {
    previous = node->previous;
    if (node->op == CARNOT_OP_SPLIT && is_channel_cut(node) &&
        is_padded(class_of(p, node->inputs[0])))
      CARNOT_TRY(pad_split(p, node));
  }
  for (carnot_node* node = p->block->first; node; node = node->next)
    CARNOT_TRY(carnot_node_infer(node));
  return carnot_graph_status(p->block->graph);
}

static carnot_status* pad(padding* p) {
  for (carnot_node* node = p->block->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i]) see(p, node->outputs[i]);
  for (carnot_node* node = p->block->first; node; node = node->next) CARNOT_TRY(note_node(p, node));
  for (size_t i = 0; i < p->part_count; i++) {
    channel_part* part = &p->parts[i];
    part->whole = root_of(p, part->whole), part->part = root_of(p, part->part);
  }
  CARNOT_TRY(find_segments(p));
  bool any = false;
  for (uint32_t i = 0; i < p->value_count && !any; i++)
    any = p->classes[i].parent == i && is_padded(&p->classes[i]);
  return any ? rewrite(p) : NULL;
}

carnot_status* carnot_pass_pad_channels(carnot_graph* graph, const carnot_pass_options* options) {
  if (!options->device || options->half == CARNOT_DTYPE_INVALID) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(graph->value_count, sizeof(channel_class), "channels", &memory));
  padding p = {.block = graph->main, .classes = memory, .value_count = graph->value_count};
  for (uint32_t i = 0; i < p.value_count; i++)
    p.classes[i] = (channel_class){.parent = i, .is_fixed = true};
  carnot_status* status = pad(&p);
  free(p.parts);
  free(p.classes);
  return status;
}
