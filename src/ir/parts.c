// Parts: the nodes of the user's network that became one node, and their names.
#include <stdlib.h>

#include "ir/graph.h"

void carnot_node_absorb(carnot_node* node, const carnot_node* gone) {
  carnot_arena* arena = &node->block->graph->arena;
  // A node in the place of another may have its name.
  bool same = strcmp(gone->name, node->name) == 0;
  if (same && gone->order < node->order) node->order = gone->order;
  size_t count = node->absorbed_count, added = !same && !gone->is_unnamed;
  carnot_part* parts =
      CARNOT_NEW_ARRAY(arena, carnot_part, count + added + gone->absorbed_count + 1);
  if (!parts) return;
  if (count) memcpy(parts, node->absorbed, count * sizeof(*parts));
  if (added) parts[count++] = (carnot_part){gone->name, gone->order};
  if (gone->absorbed_count)
    memcpy(&parts[count], gone->absorbed, gone->absorbed_count * sizeof(*parts));
  node->absorbed = parts;
  node->absorbed_count = count + gone->absorbed_count;
}

static int by_order(const void* a, const void* b) {
  const carnot_part *x = a, *y = b;
  return x->order < y->order ? -1 : x->order > y->order;
}

// The names of one node and its parts behind the |count| there are; returns the new count.
static size_t list_parts(const carnot_node* node, carnot_part* parts, const char** names,
                         size_t count) {
  size_t part_count = 0;
  if (!node->is_unnamed) parts[part_count++] = (carnot_part){node->name, node->order};
  for (size_t i = 0; i < node->absorbed_count; i++) parts[part_count++] = node->absorbed[i];
  qsort(parts, part_count, sizeof(*parts), by_order);
  for (size_t i = 0; i < part_count; i++) {
    bool is_there = false;
    for (size_t k = 0; k < count && !is_there; k++) is_there = strcmp(names[k], parts[i].name) == 0;
    if (!is_there) names[count++] = parts[i].name;
  }
  return count;
}

const char** carnot_node_part_names(const carnot_node* node, const carnot_block* block,
                                    size_t* out_count) {
  carnot_arena* arena = &node->block->graph->arena;
  size_t most = node->absorbed_count + 1;
  for (const carnot_node* n = block ? block->first : NULL; n; n = n->next)
    most += n->absorbed_count + 1;
  const char** names = CARNOT_NEW_ARRAY(arena, const char*, most);
  carnot_part* parts = CARNOT_NEW_ARRAY(arena, carnot_part, most);
  *out_count = 0;
  if (!names || !parts) return NULL;
  size_t count = 0;
  for (const carnot_node* n = block ? block->first : NULL; n; n = n->next)
    count = list_parts(n, parts, names, count);
  // Of a region what is in no node of it, such as a part that was folded away.
  *out_count = list_parts(node, parts, names, count);
  return names;
}
