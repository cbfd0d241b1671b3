// A hash table of names with open addressing, in an arena.
#include "import/common/name_map.h"

#include <stdint.h>

static uint64_t hash_of(carnot_strview name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (size_t i = 0; i < name.size; i++) hash = (hash ^ (uint8_t)name.data[i]) * 0x100000001b3u;
  return hash ^ hash >> 32;
}

// The slot that holds |name|, or the free one where it belongs.
static import_name_slot* probe(import_name_slot* slots, size_t capacity, carnot_strview name) {
  size_t i = (size_t)hash_of(name) & (capacity - 1);
  while (slots[i].used && !carnot_view_equal(slots[i].name, name)) i = (i + 1) & (capacity - 1);
  return &slots[i];
}

import_name_slot* import_name_map_find(const import_name_map* map, carnot_strview name) {
  if (!map->capacity) return NULL;
  import_name_slot* slot = probe(map->slots, map->capacity, name);
  return slot->used ? slot : NULL;
}

// False without memory; the map is as before.
static bool grow(import_name_map* map) {
  size_t capacity = map->capacity ? map->capacity * 2 : 32;
  import_name_slot* slots = CARNOT_NEW_ARRAY(map->arena, import_name_slot, capacity);
  if (!slots) return false;
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->slots[i].used) *probe(slots, capacity, map->slots[i].name) = map->slots[i];
  }
  map->slots = slots;
  map->capacity = capacity;
  return true;
}

void import_name_map_set(import_name_map* map, carnot_strview name, void* item) {
  // Without memory the name is not entered; the arena's owner reports the failure.
  if (map->count * 2 >= map->capacity && !grow(map)) return;
  import_name_slot* slot = probe(map->slots, map->capacity, name);
  if (!slot->used) map->count++;
  *slot = (import_name_slot){name, item, true};
}
