// A hash table from names to pointers. Names are borrowed.
#ifndef CARNOT_IMPORT_COMMON_NAME_MAP_H_
#define CARNOT_IMPORT_COMMON_NAME_MAP_H_

#include "base/arena.h"
#include "base/strview.h"

typedef struct import_name_slot {
  carnot_strview name;
  void* item;
  bool used;
} import_name_slot;

// Zero-initialised is an empty map. Memory comes from the arena given.
typedef struct import_name_map {
  carnot_arena* arena;
  import_name_slot* slots;
  size_t count, capacity;
} import_name_map;

// The slot of |name|, or NULL.
import_name_slot* import_name_map_find(const import_name_map* map, carnot_strview name);
// Adds or replaces.
void import_name_map_set(import_name_map* map, carnot_strview name, void* item);

#endif  // CARNOT_IMPORT_COMMON_NAME_MAP_H_
