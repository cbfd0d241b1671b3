// Contexts as users see them: creation, tensors, runs. Each call takes the guard of the context.
#include "run/context.h"

#include <stdlib.h>

#include "api/runtime/measure.h"
#include "carnot/runtime.h"
#include "plugin/registry.h"

carnot_status* carnot_context_create(carnot_engine* engine, const carnot_context_config* config,
                                     carnot_context** out_context) {
  *out_context = NULL;
  carnot_context_options options = {.isa = -1, .allow_code = carnot_plugin_engine_code_allowed()};
  carnot_executor* own = NULL;
  if (config) {
    options.executor = config->executor;
    options.memory_limit_bytes = config->memory_limit_bytes;
    options.host_io = config->host_tensors;
    options.device = config->device;
    if (!config->executor && config->thread_count != 1)
      CARNOT_TRY(carnot_executor_create(config->thread_count, &own));
    if (own) options.executor = own;
  }
  carnot_status* status = carnot_context_create_on(engine, &options, out_context);
  if (status && own) carnot_executor_destroy(own);
  if (!status) (*out_context)->own_executor = own;
  return status;
}

void carnot_context_destroy(carnot_context* context) {
  if (!context) return;
  carnot_context_drop_watch(context);
  carnot_executor* own = context->own_executor;
  carnot_context_free(context);
  if (own) carnot_executor_destroy(own);
}

carnot_engine* carnot_context_engine(const carnot_context* context) { return context->engine; }

// ---- inputs and outputs ----

static carnot_status* set_input(carnot_context* context, uint32_t index, const carnot_dims* dims,
                                const void* data) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  CARNOT_CHECK(dims->rank >= 0 && dims->rank <= CARNOT_MAX_RANK, INVALID_ARGUMENT,
               "input %s: %d dimensions", b->name, dims->rank);
  carnot_rt_value cell = {
      .kind = CARNOT_VALUE_TENSOR,
      .tensor = {.dtype = b->dtype, .rank = dims->rank, .data = (void*)(uintptr_t)data}};
  memcpy(cell.tensor.dims, dims->d, (size_t)dims->rank * sizeof(*dims->d));
  return carnot_context_set_input_cell(context, index, &cell);
}

carnot_status* carnot_context_set_input(carnot_context* context, const char* name,
                                        const carnot_dims* dims, const void* data) {
  uint32_t index;
  CARNOT_TRY(carnot_plan_find_binding(context->plan, name, &index));
  CARNOT_CHECK(dims, INVALID_ARGUMENT, "input %s: no dimensions", name);
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, set_input(context, index, dims, data));
}

carnot_status* carnot_context_set_input_shape(carnot_context* context, const char* name,
                                              const carnot_dims* dims) {
  uint32_t index;
  CARNOT_TRY(carnot_plan_find_binding(context->plan, name, &index));
  CARNOT_CHECK(dims, INVALID_ARGUMENT, "input %s: no dimensions", name);
  CARNOT_CHECK(context->plan->bindings[index].is_input, INVALID_ARGUMENT, "%s is an output", name);
  CARNOT_TRY(carnot_context_enter(context, __func__));
  const void* address = context->bindings[index].address;
  return carnot_context_leave(context, set_input(context, index, dims, address));
}

static carnot_status* set_address(carnot_context* context, uint32_t index, void* data,
                                  size_t capacity_bytes) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  if (!b->is_input) return carnot_context_set_output_address(context, index, data, capacity_bytes);
  carnot_dims dims = {.rank = b->rank};
  const carnot_rt_value* cell = &context->bindings[index].cell;
  bool is_set = context->bindings[index].is_set && cell->kind == CARNOT_VALUE_TENSOR;
  for (int d = 0; d < b->rank; d++) {
    dims.d[d] = is_set ? cell->tensor.dims[d] : b->dims[d];
    CARNOT_CHECK(dims.d[d] >= 0, FAILED_PRECONDITION,
                 "input %s has dynamic dimensions: set its shape first", b->name);
  }
  return set_input(context, index, &dims, data);
}

carnot_status* carnot_context_set_tensor_address(carnot_context* context, const char* name,
                                                 void* data, size_t capacity_bytes) {
  uint32_t index;
  CARNOT_TRY(carnot_plan_find_binding(context->plan, name, &index));
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, set_address(context, index, data, capacity_bytes));
}

carnot_status* carnot_context_clear_addresses(carnot_context* context) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  carnot_context_clear_tensors(context);
  return carnot_context_leave(context, NULL);
}

carnot_status* carnot_context_set_profile(carnot_context* context, uint32_t profile) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, carnot_context_choose_profile(context, profile));
}

carnot_status* carnot_context_set_output_allocator(
    carnot_context* context, const char* name,
    void* (*allocate)(void* user, const char* name, void* current, size_t bytes),
    void (*notify)(void* user, const char* name, const carnot_dims* dims), void* user) {
  uint32_t index;
  CARNOT_TRY(carnot_plan_find_binding(context->plan, name, &index));
  CARNOT_CHECK(!context->plan->bindings[index].is_input, INVALID_ARGUMENT, "%s is an input", name);
  CARNOT_TRY(carnot_context_enter(context, __func__));
  carnot_context_set_allocator(context, index, allocate, notify, user);
  return carnot_context_leave(context, NULL);
}

// ---- running ----

static carnot_status* infer_shapes(carnot_context* context) {
  CARNOT_TRY(carnot_context_resolve(context));
  // Data-dependent dimensions are those of the previous run: drop them.
  for (uint32_t i = 0; i < context->plan->binding_count; i++)
    if (!context->plan->bindings[i].is_input &&
        !context->values[context->plan->bindings[i].value].known)
      context->bindings[i].cell = (carnot_rt_value){0};
  return NULL;
}

carnot_status* carnot_context_infer_shapes(carnot_context* context) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, infer_shapes(context));
}

static void tensor_dims(const carnot_context* context, uint32_t index, carnot_dims* out_dims) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  const carnot_rt_value* cell = &context->bindings[index].cell;
  out_dims->rank = b->rank;
  memcpy(out_dims->d, b->dims, sizeof(out_dims->d));
  // After resolve what shapes decide is known; after a run everything.
  if (cell->kind != CARNOT_VALUE_TENSOR) return;
  out_dims->rank = cell->tensor.rank;
  memcpy(out_dims->d, cell->tensor.dims, sizeof(out_dims->d));
}

carnot_status* carnot_context_tensor_dims(const carnot_context* context, const char* name,
                                          carnot_dims* out_dims) {
  *out_dims = (carnot_dims){.rank = -1};
  uint32_t index;
  bool taken;
  CARNOT_TRY(carnot_plan_find_binding(context->plan, name, &index));
  CARNOT_TRY(carnot_context_enter_to_read(context, __func__, &taken));
  tensor_dims(context, index, out_dims);
  carnot_context_leave_read(context, taken);
  return NULL;
}

carnot_status* carnot_context_run(carnot_context* context) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, carnot_context_run_now(context));
}

carnot_status* carnot_context_enqueue(carnot_context* context, void* stream) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, carnot_context_enqueue_now(context, stream));
}

carnot_status* carnot_context_wait(carnot_context* context, void* stream) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, carnot_context_wait_now(context, stream));
}

static const void* output_data(const carnot_context* context, const char* name) {
  uint32_t index;
  carnot_status* status = carnot_plan_find_binding(context->plan, name, &index);
  carnot_status_free(status);
  const carnot_rt_value* cell = status ? NULL : &context->bindings[index].cell;
  bool is_tensor =
      cell && cell->kind == CARNOT_VALUE_TENSOR && !context->plan->bindings[index].is_input;
  return is_tensor ? cell->tensor.data : NULL;
}

const void* carnot_context_output_data(const carnot_context* context, const char* name) {
  bool taken;
  carnot_status* status = carnot_context_enter_to_read(context, __func__, &taken);
  carnot_status_free(status);
  const void* data = status ? NULL : output_data(context, name);
  carnot_context_leave_read(context, taken);
  return data;
}

carnot_status* carnot_context_set_cancel(carnot_context* context, bool (*cancel)(void* user),
                                         void* user) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  context->hooks.cancel = cancel;
  context->hooks.cancel_user = user;
  return carnot_context_leave(context, NULL);
}
