// Run arena: a growable bump allocator for values whose size is known only while running. Emptied
// at the start of each run; keeps its memory, so that a steady state allocates nothing.
#ifndef CARNOT_RUN_RUN_ARENA_H_
#define CARNOT_RUN_RUN_ARENA_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct carnot_run_arena_chunk carnot_run_arena_chunk;

// Where an arena's memory comes from.
typedef struct carnot_run_arena_source {
  carnot_status* (*alloc)(void* user, size_t bytes, void** out_memory);
  void (*free)(void* user, void* memory);
  void* user;
  size_t alignment;  // of what is given out; that of alloc's memory is no less
} carnot_run_arena_source;

typedef struct carnot_run_arena {
  carnot_run_arena_source source;
  carnot_run_arena_chunk *first, *current;
  size_t used_bytes;   // since the last reset
  size_t high_bytes;   // the most ever used
  size_t limit_bytes;  // 0: none
  size_t chunk_count;
} carnot_run_arena;

// In host memory, aligned to 64.
void carnot_run_arena_init(carnot_run_arena* store, size_t limit_bytes);
void carnot_run_arena_init_on(carnot_run_arena* store, const carnot_run_arena_source* source,
                              size_t limit_bytes);
void carnot_run_arena_deinit(carnot_run_arena* store);
void carnot_run_arena_reset(carnot_run_arena* store);
// True when |data| is in the arena's memory.
bool carnot_run_arena_holds(const carnot_run_arena* store, const void* data);
// Memory that is valid until the next reset.
carnot_status* carnot_run_arena_alloc(carnot_run_arena* store, size_t bytes,
                                      void** out_memory) CARNOT_MUST_USE;

#endif  // CARNOT_RUN_RUN_ARENA_H_
