// Addresses of the values whose size is known before the run.
#include <stdlib.h>

#include "run/context.h"

carnot_status* carnot_own_output(const carnot_context* context, carnot_run_binding* binding,
                                 size_t bytes) {
  const size_t limit = context->memory.limit_bytes;
  if (binding->own_bytes >= bytes && binding->own) return NULL;
  CARNOT_CHECK(!limit || bytes <= limit, OUT_OF_MEMORY,
               "an output takes %zu bytes, the memory limit of the context is %zu", bytes, limit);
  free(binding->own);
  size_t size = carnot_align_up(bytes ? bytes : 1, 64);
  binding->own = aligned_alloc(64, size);
  binding->own_bytes = binding->own ? size : 0;
  return binding->own ? NULL : CARNOT_NO_MEMORY(size, "an output");
}

static carnot_status* place_output(carnot_context* context, uint32_t index, size_t bytes,
                                   void** out_data) {
  carnot_run_binding* binding = &context->bindings[index];
  const char* name = context->plan->bindings[index].name;
  *out_data = NULL;
  if (carnot_waits_for_memory(binding, bytes)) return NULL;
  if (binding->address) {
    CARNOT_CHECK(bytes <= binding->capacity_bytes, OUT_OF_RANGE,
                 "output %s takes %zu bytes, its memory holds %zu", name, bytes,
                 binding->capacity_bytes);
    *out_data = binding->address;
    return NULL;
  }
  CARNOT_TRY(carnot_own_output(context, binding, bytes));
  *out_data = binding->own;
  return NULL;
}

// The member that holds the address of a value.
static void** address_of(const carnot_plan_value* v, carnot_run_value* value) {
  return v->format.memory == CARNOT_MEMORY_DEVICE ? &value->device_data : &value->cell.tensor.data;
}

carnot_status* carnot_stored_bytes(const carnot_plan_value* v, const carnot_tensor* t,
                                   size_t* out_bytes) {
  CARNOT_TRY_AT(
      carnot_dims_bytes(carnot_plan_stored_dtype(v, t->dtype), t->dims, t->rank, out_bytes),
      "value %s", v->name);
  return NULL;
}

static carnot_status* place_part(carnot_context* context, uint32_t index) {
  const carnot_plan_value* v = &context->plan->values[index];
  carnot_run_value* value = &context->values[index];
  carnot_run_value* whole = &context->values[v->index];
  carnot_tensor* t = &value->cell.tensor;
  const carnot_dtype dtype = carnot_plan_stored_dtype(v, t->dtype);
  CARNOT_CHECK(whole->known && whole->cell.tensor.rank == t->rank && v->axis < t->rank &&
                   carnot_plan_stored_dtype(&context->plan->values[v->index],
                                            whole->cell.tensor.dtype) == dtype &&
                   carnot_dtype_bits(dtype) >= 8,
               INVALID_MODEL, "value %s is no part of %s", v->name,
               context->plan->values[v->index].name);
  int64_t before = 0;
  for (uint32_t i = 0; i < v->before_count; i++) {
    const carnot_run_value* other = &context->values[v->before[i]];
    CARNOT_CHECK(other->known && other->cell.tensor.rank == t->rank, INVALID_MODEL,
                 "value %s is no part of %s", context->plan->values[v->before[i]].name,
                 context->plan->values[v->index].name);
    before += other->cell.tensor.dims[v->axis];
  }
  for (int d = 0; d < t->rank; d++) {
    int64_t limit = whole->cell.tensor.dims[d] - (d == v->axis ? before : 0);
    CARNOT_CHECK(t->dims[d] <= limit, INVALID_MODEL,
                 "value %s does not fit in %s: dimension %d is %lld of %lld", v->name,
                 context->plan->values[v->index].name, d, (long long)t->dims[d], (long long)limit);
    value->strides[d] = whole->strides[d];
  }
  size_t element = (size_t)carnot_dtype_bits(dtype) / 8;
  char* base = *address_of(&context->plan->values[v->index], whole);
  // An output that waits for its allocator has no memory yet.
  *address_of(v, value) = base ? base + (size_t)(before * whole->strides[v->axis]) * element : NULL;
  return NULL;
}

carnot_status* carnot_place_value(carnot_context* context, uint32_t index, int depth) {
  const carnot_plan_value* v = &context->plan->values[index];
  carnot_run_value* value = &context->values[index];
  if (!value->known || value->cell.kind != CARNOT_VALUE_TENSOR ||
      v->storage == CARNOT_STORAGE_CONSTANT)
    return NULL;
  carnot_tensor* t = &value->cell.tensor;
  size_t bytes;
  CARNOT_TRY(carnot_stored_bytes(v, t, &bytes));
  carnot_layout_strides(v->format.layout, t->rank, t->dims, value->strides);
  void** address = address_of(v, value);
  bool on_device = v->format.memory == CARNOT_MEMORY_DEVICE;
  switch (v->storage) {
    case CARNOT_STORAGE_BINDING:
      if (on_device) return carnot_place_on_device(context, v->index, bytes, address);
      if (!context->plan->bindings[v->index].is_input)
        return place_output(context, v->index, bytes, &t->data);
      t->data = context->bindings[v->index].address;
      return NULL;
    case CARNOT_STORAGE_ARENA:
      CARNOT_CHECK(bytes <= v->max_bytes, INVALID_MODEL,
                   "value %s takes %zu bytes, the plan has room for %llu", v->name, bytes,
                   (unsigned long long)v->max_bytes);
      *address = (on_device ? context->device.arena : context->memory.arena) +
                 v->offsets[context->profile];
      return NULL;
    case CARNOT_STORAGE_DYNAMIC_ARENA:
      *address = on_device ? context->device.arena + context->plan->device_arena_bytes
                           : context->memory.arena + context->plan->arena_bytes;
      *address = (char*)*address + value->dynamic_offset;
      return NULL;
    case CARNOT_STORAGE_HEAP:
      CARNOT_CHECK(!on_device, INVALID_MODEL, "value %s on the device has no fixed place", v->name);
      // A shape step has put its elements there already.
      return t->data ? NULL : carnot_run_arena_alloc(&context->memory.shapes, bytes, &t->data);
    case CARNOT_STORAGE_ALIAS: {
      CARNOT_TRY(carnot_place_value(context, v->index, depth + 1));
      const carnot_plan_value* whole = &context->plan->values[v->index];
      const carnot_tensor* other = &context->values[v->index].cell.tensor;
      size_t other_bytes;
      CARNOT_TRY(carnot_stored_bytes(whole, other, &other_bytes));
      CARNOT_CHECK(context->values[v->index].known && other_bytes == bytes, INVALID_MODEL,
                   "value %s takes %zu bytes, %s has %zu", v->name, bytes, whole->name,
                   other_bytes);
      t->data = other->data;
      value->device_data = context->values[v->index].device_data;
      return NULL;
    }
    case CARNOT_STORAGE_SUBVIEW:
      CARNOT_TRY(carnot_place_value(context, v->index, depth + 1));
      return place_part(context, index);
    default: return NULL;
  }
}

// Offsets of the values whose size has no bound at build: planned for the shapes that are set.
carnot_status* carnot_place_dynamic(carnot_context* context, carnot_memory_space place) {
  const carnot_plan* plan = context->plan;
  if (!plan->dynamic_count) return NULL;
  void* memory;
  CARNOT_TRY(carnot_run_arena_alloc(&context->memory.shapes,
                                    plan->dynamic_count * sizeof(carnot_interval), &memory));
  carnot_interval* intervals = memory;
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->value_count && count < plan->dynamic_count; i++) {
    const carnot_plan_value* v = &plan->values[i];
    if (v->storage != CARNOT_STORAGE_DYNAMIC_ARENA || v->format.memory != place ||
        !context->values[i].known)
      continue;
    size_t bytes;
    CARNOT_TRY(carnot_stored_bytes(v, &context->values[i].cell.tensor, &bytes));
    intervals[count++] =
        (carnot_interval){.id = i, .bytes = bytes, .first = v->first_step, .last = v->last_step};
  }
  uint64_t total = 0;
  CARNOT_TRY(carnot_memory_plan(intervals, count, &total));
  for (uint32_t i = 0; i < count; i++)
    context->values[intervals[i].id].dynamic_offset = intervals[i].offset;
  if (place == CARNOT_MEMORY_HOST)
    return carnot_run_memory_grow_arena(&context->memory, plan->arena_bytes + total);
  return carnot_device_session_grow(&context->device, plan->device_arena_bytes + total,
                                    (void**)&context->device.arena, &context->device.arena_bytes);
}
