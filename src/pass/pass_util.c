// Helpers that passes share: matching, constants, casts, fusing nodes into a region.
#include "pass/pass.h"

bool carnot_node_comes_before(const carnot_node* a, const carnot_node* b) {
  for (const carnot_node* n = a; n; n = n->next)
    if (n == b) return true;
  return false;
}

carnot_node* carnot_only_user(const carnot_value* value) {
  return value && value->use_count == 1 && !value->block_output_count ? value->uses[0].node : NULL;
}

carnot_node* carnot_only_producer(const carnot_value* value) {
  return value && carnot_only_user(value) ? value->producer : NULL;
}

bool carnot_has_perm(const carnot_node* node, const int64_t* perm, size_t rank) {
  size_t count;
  const int64_t* own = node && node->op == CARNOT_OP_TRANSPOSE
                           ? carnot_attr_ints(&node->attrs, "perm", &count)
                           : NULL;
  return own && count == rank && memcmp(own, perm, rank * sizeof(*perm)) == 0;
}

bool carnot_swaps_last(const carnot_node* node) {
  size_t count;
  const int64_t* perm = node && node->op == CARNOT_OP_TRANSPOSE
                            ? carnot_attr_ints(&node->attrs, "perm", &count)
                            : NULL;
  if (!perm || count < 2) return false;
  bool swaps = perm[count - 1] == (int64_t)count - 2 && perm[count - 2] == (int64_t)count - 1;
  for (size_t d = 0; d + 2 < count; d++) swaps = swaps && perm[d] == (int64_t)d;
  return swaps;
}

// |value| is a part of a split into constant sizes.
static bool read_split(const carnot_node* node, const carnot_value* value, carnot_slice* out) {
  if (!carnot_is_ranked(node->inputs[0])) return false;
  out->from = node->inputs[0], out->start = 0;
  out->axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  if (out->axis < 0) out->axis += out->from->type.rank;
  if (out->axis < 0 || out->axis >= out->from->type.rank ||
      !carnot_sym_is_const(out->from->type.dims[out->axis]))
    return false;
  for (int i = 0; i < node->output_count; i++, out->start = out->end) {
    const carnot_value* part = node->outputs[i];
    if (!carnot_is_ranked(part) || !carnot_sym_is_const(part->type.dims[out->axis])) return false;
    out->end = out->start + part->type.dims[out->axis].bits;
    if (part == value) return true;
  }
  return false;
}

bool carnot_read_slice(const carnot_value* value, carnot_slice* out) {
  const carnot_node* node = value ? value->producer : NULL;
  out->step = 1;
  if (node && node->op == CARNOT_OP_SPLIT) return read_split(node, value, out);
  if (!node || node->op != CARNOT_OP_SLICE || node->input_count < 4 || !node->inputs[3] ||
      carnot_value_ints(node->inputs[1], &out->start, 1) != 1 ||
      carnot_value_ints(node->inputs[2], &out->end, 1) != 1 ||
      carnot_value_ints(node->inputs[3], &out->axis, 1) != 1 ||
      (node->input_count > 4 && node->inputs[4] &&
       carnot_value_ints(node->inputs[4], &out->step, 1) != 1))
    return false;
  out->from = node->inputs[0];
  const carnot_type* t = &out->from->type;
  if (t->rank < 1) return false;
  if (out->axis < 0) out->axis += t->rank;
  if (out->axis < 0 || out->axis >= t->rank || !carnot_sym_is_const(t->dims[out->axis]))
    return false;
  const int64_t size = t->dims[out->axis].bits;
  if (out->end > size) out->end = size;
  return out->start >= 0 && out->end >= 0 && out->step > 0;
}

carnot_value* carnot_element_of(const carnot_value* value, int64_t* out_index) {
  const carnot_node* node = value ? value->producer : NULL;
  if (!node || !carnot_is_ranked(value)) return NULL;
  if (node->op == CARNOT_OP_GATHER) {
    const bool first = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis") == 0;
    return first && node->inputs[1]->type.rank == 0 &&
                   carnot_value_ints(node->inputs[1], out_index, 1) == 1
               ? node->inputs[0]
               : NULL;
  }
  carnot_slice slice;
  if (node->op != CARNOT_OP_SQUEEZE || !carnot_read_slice(node->inputs[0], &slice) || slice.axis ||
      slice.end != slice.start + 1 || slice.from->type.rank != value->type.rank + 1)
    return NULL;
  for (int d = 0; d < value->type.rank; d++)
    if (!carnot_sym_same(value->type.dims[d], slice.from->type.dims[d + 1])) return NULL;
  *out_index = slice.start;
  return slice.from;
}

bool carnot_same_dims(const carnot_type* a, const carnot_type* b) {
  if (a->kind != CARNOT_VALUE_TENSOR || b->kind != a->kind || a->rank != b->rank || a->rank < 0)
    return false;
  for (int d = 0; d < a->rank; d++)
    if (!carnot_sym_same(a->dims[d], b->dims[d])) return false;
  return true;
}

carnot_fn carnot_node_fn(const carnot_node* node) {
  if (!node || !carnot_op_has_trait(node->op, CARNOT_TRAIT_ELEMENTWISE)) return CARNOT_FN_COUNT;
  return (carnot_fn)carnot_attr_int(carnot_node_row(node), &node->attrs, "fn");
}

bool carnot_value_scalar(const carnot_value* value, double* out) {
  if (!value || !value->constant || !value->constant->tensor.data) return false;
  const carnot_tensor* t = &value->constant->tensor;
  if (carnot_tensor_count(t) != 1 || t->dtype == CARNOT_DTYPE_STRING) return false;
  *out = carnot_load_f64(t->dtype, t->data, 0);
  return true;
}

int carnot_value_ints(const carnot_value* value, int64_t* out, int capacity) {
  if (!value || !value->constant || !value->constant->tensor.data) return -1;
  const carnot_tensor* t = &value->constant->tensor;
  if (!carnot_dtype_is_integer(t->dtype) || carnot_tensor_count(t) > capacity) return -1;
  int count = (int)carnot_tensor_count(t);
  for (int i = 0; i < count; i++) out[i] = carnot_load_i64(t->dtype, t->data, (size_t)i);
  return count;
}

carnot_status* carnot_each_block(carnot_block* block,
                                 carnot_status* (*visit)(carnot_block* block, void* user),
                                 void* user) {
  for (carnot_node* node = block->first; node; node = node->next)
    for (size_t i = 0; i < node->attrs.count; i++)
      if (node->attrs.items[i].type == CARNOT_ATTR_BLOCK && node->op != CARNOT_OP_REGION)
        CARNOT_TRY(carnot_each_block(node->attrs.items[i].block, visit, user));
  return visit(block, user);
}

// ---- fusing ----

enum { kMaxFused = 64, kMaxOuter = 64 };

typedef struct fusion {
  carnot_node* const* nodes;
  int count;
  carnot_block* body;
  carnot_value* outer[kMaxOuter];  // what the nodes read from outside, in order of appearance
  int outer_count;
  carnot_value *old_values[kMaxOuter], *new_values[kMaxOuter];  // outputs outside and inside
  int value_count;
} fusion;

static carnot_value* inner_value(const fusion* f, const carnot_value* value) {
  for (int i = 0; i < f->value_count; i++)
    if (f->old_values[i] == value) return f->new_values[i];
  for (int i = 0; i < f->outer_count; i++)
    if (f->outer[i] == value) return f->body->params[i];
  return NULL;
}

static bool is_inside(const fusion* f, const carnot_node* node) {
  for (int i = 0; i < f->count; i++)
    if (f->nodes[i] == node) return true;
  return false;
}

static bool read_outside(const fusion* f, const carnot_value* value) {
  if (value->block_output_count) return true;
  for (size_t i = 0; i < value->use_count; i++)
    if (!is_inside(f, value->uses[i].node)) return true;
  return false;
}

static carnot_status* add_inner(fusion* f, const carnot_node* node) {
  carnot_value* inputs[kMaxOuter];
  CARNOT_CHECK(node->input_count <= kMaxOuter, INTERNAL, "node %s has too many inputs to be fused",
               node->name);
  for (int i = 0; i < node->input_count; i++) {
    carnot_value* value = node->inputs[i];
    if (!value) {
      inputs[i] = NULL;
      continue;
    }
    inputs[i] = inner_value(f, value);
    if (inputs[i]) continue;
    CARNOT_CHECK(f->outer_count < kMaxOuter, INTERNAL, "node %s: a region reads too many values",
                 node->name);
    f->outer[f->outer_count++] = value;
    carnot_value* param = carnot_block_add_param(f->body, value->name, &value->type);
    param->syms = value->syms;
    param->sym_count = value->sym_count;
    inputs[i] = param;
  }
  const char* names[8];
  CARNOT_CHECK(node->output_count <= 8 && f->value_count + node->output_count <= kMaxOuter,
               INTERNAL, "node %s has too many outputs to be fused", node->name);
  for (int i = 0; i < node->output_count; i++)
    names[i] = node->outputs[i] ? node->outputs[i]->name : "";
  carnot_node* inner;
  CARNOT_TRY(carnot_block_add_node(f->body, node->op, node->name, &node->attrs, inputs,
                                   node->input_count, names, node->output_count, &inner));
  inner->type_name = node->type_name;
  inner->order = node->order;
  inner->is_unnamed = node->is_unnamed;
  inner->absorbed = node->absorbed;
  inner->absorbed_count = node->absorbed_count;
  inner->precision = node->precision;
  for (int i = 0; i < node->output_count; i++) {
    if (!node->outputs[i]) continue;
    f->old_values[f->value_count] = node->outputs[i];
    f->new_values[f->value_count++] = inner->outputs[i];
  }
  return NULL;
}

// Infer must see what is constant among the inputs; a region's parameters do not say so.
static carnot_status* add_nodes(fusion* f) {
  for (int i = 0; i < f->count; i++) CARNOT_TRY(add_inner(f, f->nodes[i]));
  return NULL;
}

carnot_status* carnot_fuse(carnot_node* const* nodes, int count, carnot_node** out_node) {
  carnot_node* last = nodes[count - 1];
  carnot_graph* graph = last->block->graph;
  fusion* f = CARNOT_NEW(&graph->arena, fusion);
  f->nodes = nodes;
  f->count = count;
  f->body = carnot_block_create(graph);
  CARNOT_TRY(add_nodes(f));
  carnot_value* results[kMaxOuter];
  int result_count = 0;
  for (int i = 0; i < f->value_count; i++) {
    if (!read_outside(f, f->old_values[i])) continue;
    carnot_block_add_output(f->body, f->new_values[i]);
    results[result_count++] = f->old_values[i];
  }
  carnot_attrs attrs = {0};
  carnot_attrs_set(&attrs, &graph->arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = f->body});
  carnot_node* region;
  CARNOT_TRY(carnot_node_insert_before(last, CARNOT_OP_REGION, last->name, &attrs, f->outer,
                                       f->outer_count, result_count, &region));
  region->order = last->order;
  region->is_unnamed = last->is_unnamed;
  for (int i = 0; i < result_count; i++) {
    region->outputs[i]->name = results[i]->name;
    carnot_value_replace(results[i], region->outputs[i]);
  }
  for (int i = count - 1; i >= 0; i--) {
    if (nodes[i] != last) carnot_node_absorb(region, nodes[i]);
    carnot_node_remove(nodes[i]);
  }
  if (out_node) *out_node = region;
  return NULL;
}

// True when |nodes| [count] hold every reader of |node|'s results.
static bool is_read_by(const carnot_node* node, carnot_node* const* nodes, int count) {
  for (int o = 0; o < node->output_count; o++) {
    const carnot_value* value = node->outputs[o];
    if (value && value->block_output_count) return false;
    for (size_t u = 0; value && u < value->use_count; u++) {
      bool found = false;
      for (int i = 0; i < count && !found; i++) found = nodes[i] == value->uses[u].node;
      if (!found) return false;
    }
  }
  return true;
}

enum { kMostPattern = 32 };

// |last| and what it is computed from, back to the inputs of |node|; their number.
static int collect_pattern(const carnot_node* node, carnot_node* last, carnot_node** parts) {
  int count = 0;
  parts[count++] = last;
  for (int at = 0; at < count; at++) {
    for (int i = 0; i < parts[at]->input_count && count < kMostPattern; i++) {
      const carnot_value* value = parts[at]->inputs[i];
      carnot_node* producer = value ? value->producer : NULL;
      bool is_outside = !producer || producer == node || producer->block != node->block;
      for (int k = 0; k < node->input_count && !is_outside; k++)
        is_outside = node->inputs[k] == value;
      for (int k = 0; k < count && !is_outside; k++) is_outside = parts[k] == producer;
      if (!is_outside) parts[count++] = producer;
    }
  }
  return count;
}

void carnot_absorb_pattern(carnot_node* node, carnot_node* last) {
  carnot_node* parts[kMostPattern];
  int count = collect_pattern(node, last, parts);
  // What others read stays a node, and so does what it is computed from.
  for (int i = 1; i < count; i++) {
    if (is_read_by(parts[i], parts, count)) continue;
    parts[i] = parts[--count];
    i = 0;
  }
  for (int i = 0; i < count; i++) carnot_node_absorb(node, parts[i]);
}

carnot_status* carnot_insert_cast(carnot_node* at, carnot_value* from, carnot_dtype to,
                                  carnot_value** out) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &at->block->graph->arena, "to", to);
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_CAST, NULL, &attrs, &from, 1, 1, &node));
  *out = node->outputs[0];
  carnot_value_keep_range(*out, from);
  return NULL;
}

carnot_status* carnot_block_positions(const carnot_block* block, uint32_t** out_positions) {
  void* memory;
  CARNOT_TRY(carnot_arena_try(&block->graph->arena, block->graph->node_count + 1, sizeof(uint32_t),
                              "the order of nodes", &memory));
  uint32_t next = 0;
  *out_positions = memory;
  for (const carnot_node* node = block->first; node; node = node->next)
    (*out_positions)[node->id] = next++;
  return NULL;
}

void carnot_sort_nodes(carnot_node** nodes, int count, const uint32_t* positions) {
  for (int i = 1; i < count; i++) {
    carnot_node* node = nodes[i];
    int at = i;
    for (; at && positions[nodes[at - 1]->id] > positions[node->id]; at--)
      nodes[at] = nodes[at - 1];
    nodes[at] = node;
  }
}
