#include "pass/twins.h"

#include <stdlib.h>

carnot_status* carnot_twins_init(const carnot_graph* graph, carnot_twins* out) {
  *out = (carnot_twins){.count = graph->value_count + 1};
  void* of;
  CARNOT_TRY(carnot_calloc(out->count, sizeof(*out->of), "values", &of));
  out->of = of;
  return NULL;
}

void carnot_twins_deinit(carnot_twins* twins) { free(twins->of); }

carnot_status* carnot_twin_make(carnot_twins* twins, carnot_node* at, carnot_value* value,
                                carnot_dtype to, carnot_value** out) {
  *out = carnot_twin(twins, value);
  if (*out && (*out)->type.dtype == to) return NULL;
  CARNOT_TRY(carnot_insert_cast(at, value, to, out));
  if (value->id < twins->count && !value->constant) twins->of[value->id] = *out;
  return NULL;
}

static carnot_status* reserve(carnot_twins* twins, uint32_t id) {
  if (id < twins->count) return NULL;
  size_t capacity = twins->count;
  void* of = twins->of;
  CARNOT_TRY(carnot_grow(&of, &capacity, id + 1, sizeof(*twins->of), "values"));
  twins->of = of;
  twins->count = (uint32_t)capacity;
  return NULL;
}

carnot_status* carnot_twins_replace(carnot_twins* twins, carnot_node* node, carnot_value** inputs,
                                    carnot_node** out) {
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
    twins->of[old->id] = made->outputs[i];
    carnot_value* back;
    CARNOT_TRY(carnot_insert_cast(node, made->outputs[i], old->type.dtype, &back));
    CARNOT_TRY(reserve(twins, back->id));
    twins->of[back->id] = made->outputs[i];
    carnot_value_replace(old, back);
  }
  carnot_node_remove(node);
  if (out) *out = made;
  return NULL;
}
