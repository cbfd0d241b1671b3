// Device graphs recorded by a context, by the shapes and addresses that they were recorded for.
#ifndef CARNOT_RUN_GRAPH_CACHE_H_
#define CARNOT_RUN_GRAPH_CACHE_H_

#include "backend/device.h"

// The device steps of a run for one set of shapes and addresses: a graph for each sequence of steps
// between steps of the CPU.
enum { CARNOT_GRAPH_CACHE_ENTRIES = 8 };
typedef struct carnot_graph_cache_entry {
  uint64_t key, last_use;
  carnot_device_graph** graphs;  // by first step
  bool* is_stale;                // by first step: of an earlier key, to be changed to this one
} carnot_graph_cache_entry;

typedef struct carnot_graph_cache {
  carnot_graph_cache_entry entries[CARNOT_GRAPH_CACHE_ENTRIES];
  uint64_t key;             // of what is set now
  uint64_t clock;           // of uses
  uint32_t recorded_count;  // graphs recorded so far
} carnot_graph_cache;

// The entry of |key|, for graphs of |step_count| steps. Without one, the least recently used entry,
// whose graphs are stale: recording changes them. OUT_OF_MEMORY.
carnot_status* carnot_graph_cache_get_or_evict(carnot_graph_cache* cache, uint64_t key,
                                               uint32_t step_count,
                                               carnot_graph_cache_entry** out) CARNOT_MUST_USE;
// Destroys the graphs of |entry|, recorded on |stream|, and empties it.
void carnot_graph_cache_drop(carnot_graph_cache_entry* entry, carnot_stream* stream,
                             uint32_t step_count);
void carnot_graph_cache_deinit(carnot_graph_cache* cache, carnot_stream* stream,
                               uint32_t step_count);

#endif  // CARNOT_RUN_GRAPH_CACHE_H_
