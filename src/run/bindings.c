// The user's tensors and the constants of a context.
#include "run/context.h"

#include <stdio.h>
#include <stdlib.h>

#include "plan/io_format.h"

carnot_status* carnot_plan_find_binding(const carnot_plan* plan, const char* name,
                                        uint32_t* out_index) {
  char names[512] = "";
  size_t at = 0;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    if (strcmp(plan->bindings[i].name, name) == 0) {
      *out_index = i;
      return NULL;
    }
    if (at < sizeof(names))
      at += (size_t)snprintf(names + at, sizeof(names) - at, at ? ", %s" : "%s",
                             plan->bindings[i].name);
  }
  *out_index = CARNOT_PLAN_NONE;
  return CARNOT_ERROR(NOT_FOUND, "there is no tensor %s; the engine has %s", name, names);
}

// ---- creation ----

// The accelerator's copy of a blob, NULL where it has none.
static void* uploaded(const carnot_context* context, uint32_t blob) {
  for (const carnot_device_weights* u = context->weights->uploads; u; u = u->next)
    if (context->device.stream && u->device == context->device.stream->device)
      return (void*)u->data[blob];
  return NULL;
}

void carnot_bind_constants(carnot_context* context) {
  const carnot_plan* plan = context->plan;
  for (uint32_t i = 0; i < plan->value_count; i++) {
    const carnot_plan_value* v = &plan->values[i];
    if (v->storage != CARNOT_STORAGE_CONSTANT) continue;
    carnot_run_value* value = &context->values[i];
    value->cell =
        (carnot_rt_value){.kind = CARNOT_VALUE_TENSOR, .tensor = plan->blobs[v->index].tensor};
    value->cell.tensor.data = (void*)context->weights->data[v->index];
    if (v->format.memory == CARNOT_MEMORY_DEVICE) value->device_data = uploaded(context, v->index);
    value->known = true;
    carnot_layout_strides(v->format.layout, value->cell.tensor.rank, value->cell.tensor.dims,
                          value->strides);
  }
  for (uint32_t s = 0; s < plan->step_count; s++) {
    for (uint32_t k = 0; k < plan->steps[s].variant_count; k++) {
      const carnot_variant* variant = &plan->steps[s].variants[k];
      carnot_step_view* view = &context->steps[s].views[k];
      for (uint32_t c = 0; c < variant->constant_count; c++) {
        const carnot_plan_blob* blob = &plan->blobs[variant->constants[c]];
        view->constants[c] = carnot_blob_is_read_there(context->steps[s].tactics[k], blob)
                                 ? uploaded(context, variant->constants[c])
                                 : context->weights->data[variant->constants[c]];
        // Of the tensor: a stripped engine's blobs have no bytes in the file.
        view->constant_bytes[c] = view->constants[c] ? carnot_tensor_bytes(&blob->tensor) : 0;
      }
    }
  }
}

// ---- layouts of the user's tensors ----

carnot_rt_value carnot_stored_cell(const carnot_plan_binding* b, const carnot_rt_value* cell) {
  carnot_rt_value out = *cell;
  if (b->format == CARNOT_TENSOR_LINEAR || cell->kind != CARNOT_VALUE_TENSOR) return out;
  out.tensor.rank =
      carnot_io_stored_dims(b->format, cell->tensor.rank, cell->tensor.dims, out.tensor.dims);
  return out;
}

carnot_status* carnot_shown_cell(const carnot_plan_binding* b, const carnot_rt_value* stored,
                                 carnot_rt_value* out_cell) {
  *out_cell = *stored;
  if (b->format == CARNOT_TENSOR_LINEAR || stored->kind != CARNOT_VALUE_TENSOR) return NULL;
  CARNOT_CHECK(carnot_io_shown_dims(b->format, b->rank, b->dims, stored->tensor.rank,
                                    stored->tensor.dims, out_cell->tensor.dims),
               INVALID_MODEL, "output %s of format %s is stored with %d dimensions", b->name,
               carnot_tensor_format_name(b->format), stored->tensor.rank);
  out_cell->tensor.rank = b->rank;
  return NULL;
}

// ---- inputs and outputs ----

static const char* const kKinds[] = {[CARNOT_VALUE_UNKNOWN] = "nothing",
                                     [CARNOT_VALUE_TENSOR] = "a tensor",
                                     [CARNOT_VALUE_SEQUENCE] = "a sequence",
                                     [CARNOT_VALUE_OPTIONAL] = "an optional"};

static carnot_status* check_input(const carnot_context* context, const carnot_plan_binding* b,
                                  const carnot_rt_value* cell, uint32_t profile) {
  if (b->rank < 0 || cell->kind != CARNOT_VALUE_TENSOR) {
    carnot_value_kind kind = context->plan->values[b->value].kind;
    CARNOT_CHECK(kind == CARNOT_VALUE_UNKNOWN || kind == cell->kind, INVALID_ARGUMENT,
                 "input %s is %s, must be %s", b->name, kKinds[cell->kind], kKinds[kind]);
    CARNOT_CHECK(cell->kind != CARNOT_VALUE_TENSOR || !b->dtype || cell->tensor.dtype == b->dtype,
                 INVALID_ARGUMENT, "input %s has type %s, must be %s", b->name,
                 carnot_dtype_name(cell->tensor.dtype), carnot_dtype_name(b->dtype));
    return NULL;
  }
  const carnot_tensor* t = &cell->tensor;
  CARNOT_CHECK(t->dtype == b->dtype, INVALID_ARGUMENT, "input %s has type %s, must be %s", b->name,
               carnot_dtype_name(t->dtype), carnot_dtype_name(b->dtype));
  CARNOT_CHECK(t->rank == b->rank, INVALID_ARGUMENT, "input %s has %d dimensions, must have %d",
               b->name, t->rank, b->rank);
  for (int i = 0; i < t->rank; i++) {
    const carnot_dim_range* range = &b->ranges[profile * (uint32_t)b->rank + (uint32_t)i];
    CARNOT_CHECK(b->dims[i] < 0 || b->dims[i] == t->dims[i], INVALID_ARGUMENT,
                 "input %s: dimension %d is %lld, must be %lld", b->name, i, (long long)t->dims[i],
                 (long long)b->dims[i]);
    CARNOT_CHECK(t->dims[i] >= range->min && t->dims[i] <= range->max, INVALID_ARGUMENT,
                 "input %s: dimension %d is %lld, profile %u allows [%lld, %lld]", b->name, i,
                 (long long)t->dims[i], profile, (long long)range->min, (long long)range->max);
  }
  size_t bytes;
  CARNOT_TRY_AT(carnot_dims_bytes(t->dtype, t->dims, t->rank, &bytes), "input %s", b->name);
  return NULL;
}

static bool same_shape(const carnot_rt_value* a, const carnot_rt_value* b) {
  return a->kind == b->kind && a->kind == CARNOT_VALUE_TENSOR &&
         a->tensor.dtype == b->tensor.dtype && a->tensor.rank == b->tensor.rank &&
         memcmp(a->tensor.dims, b->tensor.dims, (size_t)a->tensor.rank * sizeof(*a->tensor.dims)) ==
             0;
}

carnot_status* carnot_context_set_input_cell(carnot_context* context, uint32_t binding,
                                             const carnot_rt_value* cell) {
  const carnot_plan_binding* b = &context->plan->bindings[binding];
  CARNOT_CHECK(b->is_input, INVALID_ARGUMENT, "%s is an output", b->name);
  CARNOT_TRY(check_input(context, b, cell, context->profile));
  carnot_run_binding* run = &context->bindings[binding];
  if (!run->is_set || b->is_shape || !same_shape(&run->cell, cell)) context->resolved = false;
  context->addresses_changed = true;
  run->cell = *cell;
  run->address = cell->tensor.data;
  run->is_set = true;
  return NULL;
}

carnot_status* carnot_context_set_output_address(carnot_context* context, uint32_t binding,
                                                 void* address, size_t capacity_bytes) {
  CARNOT_CHECK(!context->plan->bindings[binding].is_input, INVALID_ARGUMENT, "%s is an input",
               context->plan->bindings[binding].name);
  context->bindings[binding].address = address;
  context->bindings[binding].capacity_bytes = capacity_bytes;
  context->bindings[binding].is_given = false;
  context->addresses_changed = true;
  return NULL;
}

carnot_status* carnot_ask_allocator(carnot_context* context, uint32_t index, size_t bytes,
                                    void** out_data) {
  carnot_run_binding* binding = &context->bindings[index];
  const char* name = context->plan->bindings[index].name;
  *out_data = binding->allocate(binding->allocate_user, name, binding->address, bytes);
  CARNOT_CHECK(*out_data || !bytes, OUT_OF_MEMORY,
               "the output allocator gave no memory for %zu bytes of %s", bytes, name);
  if (*out_data == binding->address && bytes <= binding->capacity_bytes) return NULL;
  CARNOT_TRY(carnot_context_set_output_address(context, index, *out_data, bytes));
  binding->is_given = true;
  return NULL;
}

void carnot_context_set_allocator(
    carnot_context* context, uint32_t index,
    void* (*allocate)(void* user, const char* name, void* current, size_t bytes),
    void (*notify)(void* user, const char* name, const carnot_dims* dims), void* user) {
  carnot_run_binding* binding = &context->bindings[index];
  // What an allocator gave is not for its successor.
  if (binding->is_given) {
    binding->address = NULL;
    binding->capacity_bytes = 0;
    binding->is_given = false;
  }
  binding->allocate = allocate;
  binding->notify = notify;
  binding->allocate_user = user;
  context->resolved = false;
}

void carnot_context_clear_tensors(carnot_context* context) {
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    carnot_run_binding* run = &context->bindings[i];
    run->address = NULL;
    run->capacity_bytes = 0;
    run->is_given = false;
    run->cell.tensor.data = NULL;
    if (!context->plan->bindings[i].is_input || run->cell.kind == CARNOT_VALUE_TENSOR) continue;
    // The items of sequences and optionals are the user's as well.
    run->is_set = context->resolved = false;
  }
  context->addresses_changed = true;
}

carnot_status* carnot_context_choose_profile(carnot_context* context, uint32_t profile) {
  CARNOT_CHECK(profile < context->plan->profile_count, INVALID_ARGUMENT, "profile %u of %u",
               profile, context->plan->profile_count);
  context->profile = profile;
  context->resolved = false;
  for (uint32_t i = 0; i < context->plan->binding_count; i++)
    if (context->plan->bindings[i].is_input) context->bindings[i].is_set = false;
  return NULL;
}

const carnot_rt_value* carnot_context_output(const carnot_context* context, uint32_t binding) {
  return &context->bindings[binding].cell;
}
