// Values that stand in two storage types: what the passes that change storage share.
#ifndef CARNOT_PASS_CAST_CACHE_H_
#define CARNOT_PASS_CAST_CACHE_H_

#include "pass/pass.h"

typedef struct carnot_cast_cache {
  carnot_value** of;  // by id: the same value in the other type
  uint32_t count;
} carnot_cast_cache;

carnot_status* carnot_cast_cache_init(const carnot_graph* graph,
                                      carnot_cast_cache* out) CARNOT_MUST_USE;
void carnot_cast_cache_deinit(carnot_cast_cache* cache);
static inline carnot_value* carnot_cast_cache_find(const carnot_cast_cache* cache,
                                                   const carnot_value* value) {
  return value->id < cache->count ? cache->of[value->id] : NULL;
}
// The twin of |value| as |to|, cast before |at| where there is none yet.
carnot_status* carnot_cast_cache_get_or_insert(carnot_cast_cache* cache, carnot_node* at,
                                               carnot_value* value, carnot_dtype to,
                                               carnot_value** out) CARNOT_MUST_USE;
// |node| made anew over |inputs|, then removed. Results whose type changes by that are cast back
// for those readers that stay; others find the twin.
carnot_status* carnot_cast_cache_replace_node(carnot_cast_cache* cache, carnot_node* node,
                                              carnot_value** inputs,
                                              carnot_node** out) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_CAST_CACHE_H_
