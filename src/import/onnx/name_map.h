// A hash table from names to pointers. Names are borrowed.
#ifndef CARNOT_IMPORT_ONNX_NAME_MAP_H_
#define CARNOT_IMPORT_ONNX_NAME_MAP_H_

#include "base/arena.h"
#include "base/strview.h"

typedef struct onnx_name_slot {
  carnot_strview name;
  void* item;
  bool used;
} onnx_name_slot;

// Zero-initialised is an empty map. Memory comes from the arena given.
typedef struct onnx_name_map {
  carnot_arena* arena;
  onnx_name_slot* slots;
  size_t count, capacity;
} onnx_name_map;

// The slot of |name|, or NULL.
onnx_name_slot* onnx_name_map_find(const onnx_name_map* map, carnot_strview name);
// Adds or replaces.
void onnx_name_map_set(onnx_name_map* map, carnot_strview name, void* item);

#endif  // CARNOT_IMPORT_ONNX_NAME_MAP_H_
