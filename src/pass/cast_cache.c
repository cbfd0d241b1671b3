// The cache of casts that passes which change storage types share.
#include "pass/cast_cache.h"

#include <stdlib.h>

carnot_status* carnot_cast_cache_init(const carnot_graph* graph, carnot_cast_cache* out) {
  *out = (carnot_cast_cache){.count = graph->value_count + 1};
  void* of;
  CARNOT_TRY(carnot_calloc(out->count, sizeof(*out->of), "values", &of));
  out->of = of;
  return NULL;
}

void carnot_cast_cache_deinit(carnot_cast_cache* cache) { free(cache->of); }

carnot_status* carnot_cast_cache_get_or_insert(carnot_cast_cache* cache, carnot_node* at,
                                               carnot_value* value, carnot_dtype to,
                                               carnot_value** out) {
  *out = carnot_cast_cache_find(cache, value);
  if (*out && (*out)->type.dtype == to) return NULL;
  CARNOT_TRY(carnot_insert_cast(at, value, to, out));
  if (value->id < cache->count && !value->constant) cache->of[value->id] = *out;
  return NULL;
}

static carnot_status* reserve(carnot_cast_cache* cache, uint32_t id) {
  if (id < cache->count) return NULL;
  size_t capacity = cache->count;
  void* of = cache->of;
  CARNOT_TRY(carnot_grow(&of, &capacity, id + 1, sizeof(*cache->of), "values"));
  cache->of = of;
  cache->count = (uint32_t)capacity;
  return NULL;
}

carnot_status* carnot_cast_cache_replace_node(carnot_cast_cache* cache, carnot_node* node,
                                              carnot_value** inputs, carnot_node** out) {
  carnot_node* made;
  CARNOT_TRY(carnot_node_insert_before(node, node->op, node->name, &node->attrs, inputs,
                                       node->input_count, node->output_count, &made));
  made->type_name = node->type_name;
  for (int i = 0; i < node->output_count; i++) {
    carnot_value* old = node->outputs[i];
    if (!old) continue;
    if (made->outputs[i]->type.dtype == old->type.dtype) {
      carnot_value_replace(old, made->outputs[i]);
      continue;
    }
    made->outputs[i]->name = old->name;
    carnot_value_keep_range(made->outputs[i], old);
    cache->of[old->id] = made->outputs[i];
    carnot_value* back;
    CARNOT_TRY(carnot_insert_cast(node, made->outputs[i], old->type.dtype, &back));
    CARNOT_TRY(reserve(cache, back->id));
    cache->of[back->id] = made->outputs[i];
    carnot_value_replace(old, back);
  }
  carnot_node_remove(node);
  if (out) *out = made;
  return NULL;
}
