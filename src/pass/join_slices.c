// Writes Slices that cut one tensor into parts without gaps as one Split, as gated units cut a
// projection in halves:
//   x[.., :n] and x[.., n:]  =  Split(x)
// Lowering lays the parts of a Split in the tensor where their readers take rows that are apart; it
// is one kernel where they do not. For an accelerator.
#include "pass/emit.h"

enum { kMostParts = 16 };

typedef struct cut {
  carnot_value* parts[kMostParts];  // by position
  int64_t sizes[kMostParts];
  int count;
} cut;

static bool read_part(const carnot_node* node, carnot_slice* out) {
  return node->op == CARNOT_OP_SLICE && carnot_is_ranked(node->outputs[0]) &&
         node->outputs[0]->type.rank > 1 && node->outputs[0]->use_count &&
         carnot_read_slice(node->outputs[0], out) && out->step == 1 && out->end > out->start;
}

// The Slice of |first| that begins at |start|, behind |node|; NULL where there is none or several.
static carnot_node* part_at(const carnot_node* node, const carnot_slice* first, int64_t start,
                            int64_t* out_end) {
  carnot_node* found = NULL;
  for (size_t u = 0; u < first->from->use_count; u++) {
    carnot_node* other = first->from->uses[u].node;
    carnot_slice s;
    if (!read_part(other, &s) || s.from != first->from || s.axis != first->axis ||
        s.start != start || (u && first->from->uses[u - 1].node == other))
      continue;
    if (found || other->block != node->block || other->precision != node->precision) return NULL;
    found = other, *out_end = s.end;
  }
  return found;
}

// Whether |node| is the first of Slices that cut what it reads without gaps.
static bool read_cut(carnot_node* node, carnot_slice* first, cut* out) {
  if (!read_part(node, first)) return false;
  const int64_t size = first->from->type.dims[first->axis].bits;
  for (int64_t at = 0, end; at < size; at = end) {
    carnot_node* part = out->count < kMostParts ? part_at(node, first, at, &end) : NULL;
    if (!part || (part != node && !carnot_node_comes_before(node, part))) return false;
    out->parts[out->count] = part->outputs[0], out->sizes[out->count++] = end - at;
  }
  return out->count > 1;
}

static carnot_status* join(carnot_node* node, const carnot_slice* first, const cut* c) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &node->block->graph->arena, "axis", first->axis);
  carnot_value* inputs[2] = {first->from, carnot_graph_ints(node->block, c->sizes, c->count)};
  carnot_node* split;
  CARNOT_TRY(carnot_node_insert_before(node, CARNOT_OP_SPLIT, node->name, &attrs, inputs, 2,
                                       c->count, &split));
  split->precision = node->precision;
  for (int i = 0; i < c->count; i++) {
    carnot_value_keep_range(split->outputs[i], c->parts[i]);
    split->outputs[i]->name = c->parts[i]->name;
    carnot_node_absorb(split, c->parts[i]->producer);
    carnot_value_replace(c->parts[i], split->outputs[i]);
  }
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    carnot_slice first;
    cut c = {.count = 0};
    if (read_cut(node, &first, &c)) CARNOT_TRY(join(node, &first, &c));
  }
  return NULL;
}

carnot_status* carnot_pass_join_slices(carnot_graph* graph, const carnot_pass_options* options) {
  if (!options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
