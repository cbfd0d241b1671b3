// Memory that a model's weights are read from, which can be given back while nobody reads it:
// mapped files, whose pages the system reads again, and aligned copies of weights that lie in files
// at any byte. A build packs a weight and then releases the original, so that it never holds all of
// both; restore fills the copies again before the next reader. One thread at a time.
#ifndef CARNOT_BASE_SOURCE_MEMORY_H_
#define CARNOT_BASE_SOURCE_MEMORY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

// A copy of |bytes| at |source|, in a mapped file.
typedef struct carnot_source_copy {
  char* data;
  const void* source;
  size_t bytes;
  uint32_t readers;  // constants of the build in progress that point here
  bool is_released;
} carnot_source_copy;

// Pages with copies one after the other; given back together.
typedef struct carnot_source_slab {
  char* data;
  size_t size, used, released;
  carnot_source_copy* copies;
  size_t copy_count, copy_capacity;
  bool is_empty;  // its pages were given back
} carnot_source_slab;

typedef struct carnot_source_map {
  char* data;
  size_t size;
} carnot_source_map;

// Zero-initialised is valid.
typedef struct carnot_source_memory {
  struct carnot_source_memory* next;  // of the same graph
  bool is_lent;                       // somebody may read any time: nothing is released any more
  bool has_released;                  // since the last restore
  carnot_source_map* maps;
  size_t map_count, map_capacity;
  carnot_source_slab* slabs;
  size_t slab_count, slab_capacity;
  size_t map_bytes;   // of all maps
  size_t read_bytes;  // of the maps, since their pages were given back
} carnot_source_memory;

void carnot_source_memory_deinit(carnot_source_memory* memory);
// Notes a file mapped read-only, which must stay mapped as long as copies of it are used.
carnot_status* carnot_source_memory_add_map(carnot_source_memory* memory, void* data,
                                            size_t size) CARNOT_MUST_USE;
// True when |source| [bytes] lies in a mapped file.
bool carnot_source_memory_maps(const carnot_source_memory* memory, const void* source,
                               size_t bytes);
// A copy of |source|, which lies in a mapped file, aligned to 64 bytes.
carnot_status* carnot_source_memory_copy(carnot_source_memory* memory, const void* source,
                                         size_t bytes, void** out_data) CARNOT_MUST_USE;
// Gives back the pages of the mapped files: the next read of one takes it from the file again.
void carnot_source_memory_drop_maps(carnot_source_memory* memory);

// ---- of a build ----

// Counts a constant that points to |data|.
void carnot_source_memory_count_reader(carnot_source_memory* memory, const void* data);
// The one reader of |data| [bytes] is done with it. True when its contents are gone or may go:
// nobody may read them until restore. False where there are more readers, the memory is lent, or
// |data| is not of it.
bool carnot_source_memory_release(carnot_source_memory* memory, const void* data, size_t bytes);
// All contents are there again, and no readers are counted.
void carnot_source_memory_restore(carnot_source_memory* memory);
// Restores, and releases nothing from now on: a pointer into the memory was given away.
void carnot_source_memory_lend(carnot_source_memory* memory);

#endif  // CARNOT_BASE_SOURCE_MEMORY_H_
