// The growable store: values whose size is known only while running. Emptied at the start of each
// run; keeps its memory, so that a steady state allocates nothing.
#ifndef CARNOT_RUN_STORE_H_
#define CARNOT_RUN_STORE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct carnot_store_chunk carnot_store_chunk;

// Where a store's memory comes from.
typedef struct carnot_store_source {
  carnot_status* (*alloc)(void* user, size_t bytes, void** out_memory);
  void (*free)(void* user, void* memory);
  void* user;
  size_t alignment;  // of what is given out; that of alloc's memory is no less
} carnot_store_source;

typedef struct carnot_store {
  carnot_store_source source;
  carnot_store_chunk *first, *current;
  size_t used_bytes;   // since the last reset
  size_t high_bytes;   // the most ever used
  size_t limit_bytes;  // 0: none
  size_t chunk_count;
} carnot_store;

// Of the processor's memory, aligned to 64.
void carnot_store_init(carnot_store* store, size_t limit_bytes);
void carnot_store_init_on(carnot_store* store, const carnot_store_source* source,
                          size_t limit_bytes);
void carnot_store_deinit(carnot_store* store);
void carnot_store_reset(carnot_store* store);
// Does |data| lie in the store's memory?
bool carnot_store_holds(const carnot_store* store, const void* data);
// Memory that is valid until the next reset.
carnot_status* carnot_store_alloc(carnot_store* store, size_t bytes,
                                  void** out_memory) CARNOT_MUST_USE;

#endif  // CARNOT_RUN_STORE_H_
