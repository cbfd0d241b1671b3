// A cache of casts: for each value, the same value in another storage type. The passes that change
// storage types share it.
#ifndef CARNOT_PASS_CAST_CACHE_H_
#define CARNOT_PASS_CAST_CACHE_H_

#include "pass/pass.h"

typedef struct carnot_cast_cache {
  carnot_value** of;  // by value id: the same value in the other type; NULL: none yet
  uint32_t count;
} carnot_cast_cache;

// An empty cache for the values of |graph|; deinit frees it.
carnot_status* carnot_cast_cache_init(const carnot_graph* graph,
                                      carnot_cast_cache* out) CARNOT_MUST_USE;
void carnot_cast_cache_deinit(carnot_cast_cache* cache);
// |value| in the other type, or NULL.
static inline carnot_value* carnot_cast_cache_find(const carnot_cast_cache* cache,
                                                   const carnot_value* value) {
  return value->id < cache->count ? cache->of[value->id] : NULL;
}
// |value| as |to|: from the cache, or by a cast inserted before |at|.
carnot_status* carnot_cast_cache_get_or_insert(carnot_cast_cache* cache, carnot_node* at,
                                               carnot_value* value, carnot_dtype to,
                                               carnot_value** out) CARNOT_MUST_USE;
// Replaces |node| by a copy that reads |inputs|. Results whose type changes are entered in the
// cache and cast back for readers that keep the old type. *out is the copy.
carnot_status* carnot_cast_cache_replace_node(carnot_cast_cache* cache, carnot_node* node,
                                              carnot_value** inputs,
                                              carnot_node** out) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_CAST_CACHE_H_
