// The graph cache: least recently used out.
#include "run/graph_cache.h"

#include <stdlib.h>

void carnot_graph_cache_drop(carnot_graph_cache_entry* entry, carnot_stream* stream,
                             uint32_t step_count) {
  for (uint32_t i = 0; entry->graphs && i < step_count; i++)
    if (entry->graphs[i]) stream->device->backend->graph_destroy(stream, entry->graphs[i]);
  free(entry->graphs);
  free(entry->is_stale);
  *entry = (carnot_graph_cache_entry){0};
}

void carnot_graph_cache_deinit(carnot_graph_cache* cache, carnot_stream* stream,
                               uint32_t step_count) {
  for (int i = 0; i < CARNOT_GRAPH_CACHE_ENTRIES; i++)
    carnot_graph_cache_drop(&cache->entries[i], stream, step_count);
}

carnot_status* carnot_graph_cache_get_or_evict(carnot_graph_cache* cache, uint64_t key,
                                               uint32_t step_count,
                                               carnot_graph_cache_entry** out) {
  carnot_graph_cache_entry* oldest = &cache->entries[0];
  for (int i = 0; i < CARNOT_GRAPH_CACHE_ENTRIES; i++) {
    carnot_graph_cache_entry* entry = &cache->entries[i];
    if (entry->graphs && entry->key == key) oldest = entry;
    if (entry->graphs && entry->key == key) break;
    if (entry->last_use < oldest->last_use) oldest = entry;
  }
  *out = oldest;
  oldest->last_use = ++cache->clock;
  if (oldest->graphs && oldest->key == key) return NULL;
  oldest->key = key;
  size_t steps = (size_t)step_count + 1;
  if (!oldest->graphs) {
    void *graphs, *is_stale;
    CARNOT_TRY(carnot_calloc(steps, sizeof(void*), "graphs", &graphs));
    oldest->graphs = graphs;
    CARNOT_TRY(carnot_calloc(steps, sizeof(bool), "graphs", &is_stale));
    oldest->is_stale = is_stale;
  }
  for (size_t i = 0; i < steps; i++) oldest->is_stale[i] = oldest->graphs[i] != NULL;
  return NULL;
}
