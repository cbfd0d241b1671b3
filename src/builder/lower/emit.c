// The values, blobs and steps of the plan under construction.
#include "builder/lower/lower.h"

carnot_status* carnot_lowering_add_value(carnot_lowering* l, const carnot_value* from,
                                         const char* name, carnot_layout layout,
                                         carnot_memory_space memory, uint32_t* out_value) {
  size_t capacity = l->value_capacity;
  void* values = l->values;
  carnot_status* status =
      carnot_grow(&values, &capacity, l->value_count + 1, sizeof(*l->values), "plan values");
  l->values = values;
  l->value_capacity = (uint32_t)capacity;
  CARNOT_TRY(status);
  carnot_value_builder* v = &l->values[l->value_count];
  *v = (carnot_value_builder){.from = from, .first = UINT32_MAX, .last = 0};
  v->plan.name = name;
  v->plan.kind = from->type.kind;
  v->plan.format.dtype = from->type.kind == CARNOT_VALUE_TENSOR
                             ? carnot_builder_stored_type(l->builder, from)
                             : CARNOT_DTYPE_INVALID;
  v->plan.format.layout = layout;
  v->plan.format.memory = memory;
  v->plan.storage = CARNOT_STORAGE_HEAP;
  v->next = l->first_of[from->id];
  l->first_of[from->id] = l->value_count + 1;
  *out_value = l->value_count++;
  return NULL;
}

uint32_t carnot_lowering_root(const carnot_lowering* l, uint32_t value) {
  while (l->values[value].plan.storage == CARNOT_STORAGE_ALIAS ||
         l->values[value].plan.storage == CARNOT_STORAGE_SUBVIEW)
    value = l->values[value].plan.index;
  return value;
}

carnot_status* carnot_lowering_add_blob(carnot_lowering* l, const carnot_plan_blob* blob,
                                        uint32_t* out_blob) {
  size_t capacity = l->blob_capacity;
  void* blobs = l->blobs;
  carnot_status* status =
      carnot_grow(&blobs, &capacity, l->blob_count + 1, sizeof(*l->blobs), "weights");
  l->blobs = blobs;
  l->blob_capacity = (uint32_t)capacity;
  CARNOT_TRY(status);
  l->blobs[l->blob_count] = *blob;
  *out_blob = l->blob_count++;
  return NULL;
}

carnot_status* carnot_lowering_add_step(carnot_lowering* l, const carnot_plan_step* step,
                                        const carnot_step_note* note) {
  carnot_step_list* list = &l->blocks[l->block].steps;
  void *items = list->items, *notes = list->notes;
  // By eighths of the block's regions: a list that doubles takes up to twice the memory.
  const size_t more = l->analysis->blocks[l->block].region_count / 8 + 1,
               count = list->count < list->capacity ? list->capacity : list->count + more;
  carnot_status* status =
      carnot_grow_to(&items, &list->capacity, count, sizeof(*list->items), "steps");
  list->items = items;
  if (!status)
    status = carnot_grow_to(&notes, &list->note_capacity, count, sizeof(*list->notes), "steps");
  list->notes = notes;
  if (status) return status;
  list->items[list->count] = *step;
  list->notes[list->count++] = *note;
  return NULL;
}
