// Common subexpression elimination: merges nodes of equal operator, attributes and inputs in one
// block, and nodes whose results are known to be the same integers, as sizes of layers that lie one
// behind the other.
#include <stdlib.h>

#include "base/hash.h"
#include "pass/pass.h"

static bool same_attr(const carnot_attr* a, const carnot_attr* b) {
  if (a->type != b->type || a->count != b->count || strcmp(a->name, b->name) != 0) return false;
  switch (a->type) {
    case CARNOT_ATTR_INT: return a->i == b->i;
    case CARNOT_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof(a->f)) == 0;
    case CARNOT_ATTR_STRING: return carnot_view_equal(a->s, b->s);
    case CARNOT_ATTR_INTS: return memcmp(a->ints, b->ints, a->count * sizeof(*a->ints)) == 0;
    case CARNOT_ATTR_FLOATS:
      return memcmp(a->floats, b->floats, a->count * sizeof(*a->floats)) == 0;
    default: return false;
  }
}

// Weights with names of their own may change apart where the engine can be refitted.
static bool same_constant(const carnot_value* a, const carnot_value* b, bool refit) {
  if (!a->constant || !b->constant || (refit && (a->constant->name || b->constant->name)))
    return false;
  const carnot_tensor *x = &a->constant->tensor, *y = &b->constant->tensor;
  if (x->dtype != y->dtype || x->rank != y->rank || x->dtype == CARNOT_DTYPE_STRING || !x->data ||
      !y->data)
    return false;
  if (memcmp(x->dims, y->dims, (size_t)x->rank * sizeof(*x->dims)) != 0) return false;
  return memcmp(x->data, y->data, carnot_tensor_bytes(x)) == 0;
}

static bool same_node(const carnot_node* a, const carnot_node* b, bool refit) {
  if (a->op != b->op || a->input_count != b->input_count || a->output_count != b->output_count ||
      a->attrs.count != b->attrs.count || a->precision != b->precision)
    return false;
  for (int i = 0; i < a->input_count; i++) {
    const carnot_value *x = a->inputs[i], *y = b->inputs[i];
    if (x != y && !(x && y && same_constant(x, y, refit))) return false;
  }
  for (int i = 0; i < a->output_count; i++)
    if (!a->outputs[i] != !b->outputs[i]) return false;
  for (size_t i = 0; i < a->attrs.count; i++)
    if (!same_attr(&a->attrs.items[i], &b->attrs.items[i])) return false;
  return true;
}

// The only result of |node| where its elements are known expressions, else NULL.
static const carnot_value* known_integers(const carnot_node* node) {
  const carnot_value* value = node->output_count == 1 ? node->outputs[0] : NULL;
  return value && value->syms && value->sym_count ? value : NULL;
}

static bool same_integers(const carnot_value* a, const carnot_value* b) {
  return a && b && a->type.dtype == b->type.dtype && carnot_same_dims(&a->type, &b->type) &&
         a->sym_count == b->sym_count &&
         memcmp(a->syms, b->syms, a->sym_count * sizeof(*a->syms)) == 0;
}

static bool same_result(const carnot_node* a, const carnot_node* b, bool refit) {
  return same_node(a, b, refit) ||
         (a->precision == b->precision && same_integers(known_integers(a), known_integers(b)));
}

static uint64_t hash_node(const carnot_node* node) {
  const carnot_value* known = known_integers(node);
  if (known) return carnot_hash(known->syms, known->sym_count * sizeof(*known->syms), /*seed=*/0);
  uint64_t h = (uint64_t)node->op * 31 + (uint64_t)node->input_count;
  for (int i = 0; i < node->input_count; i++) {
    const carnot_value* value = node->inputs[i];
    uint64_t part = value ? value->constant ? 7 : (uint64_t)value->id + 16 : 3;
    h = (h ^ part) * 0x9e3779b97f4a7c15u;
  }
  return h ^ h >> 32;
}

static carnot_status* merge_block(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  size_t node_count = 1, slot_count = 16;
  for (carnot_node* node = block->first; node; node = node->next) node_count++;
  while (slot_count < node_count * 2) slot_count *= 2;
  void* memory;
  CARNOT_TRY(carnot_calloc(slot_count, sizeof(carnot_node*), "the table of nodes", &memory));
  carnot_node** slots = memory;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (carnot_node_row(node)->flags &
        (CARNOT_OP_RANDOM | CARNOT_OP_CONTROL | CARNOT_OP_SIDE_EFFECT))
      continue;
    size_t at = hash_node(node) & (slot_count - 1);
    while (slots[at] && !same_result(slots[at], node, options->refit))
      at = (at + 1) & (slot_count - 1);
    if (!slots[at]) {
      slots[at] = node;
      continue;
    }
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i]) carnot_value_replace(node->outputs[i], slots[at]->outputs[i]);
    carnot_node_absorb(slots[at], node);
    carnot_node_remove(node);
  }
  free(slots);
  return NULL;
}

carnot_status* carnot_pass_cse(carnot_graph* graph, const carnot_pass_options* options) {
  return carnot_each_block(graph->main, merge_block, (void*)(uintptr_t)options);
}
