// Engines and refit as users see them.
#include "carnot/runtime.h"

#include <stdlib.h>

#include "engine/engine.h"
#include "engine/header.h"
#include "run/context.h"
#include "run/refit.h"

int carnot_runtime_version(void) { return CARNOT_API_VERSION; }

bool carnot_engine_is_file(const void* data, size_t size) {
  size_t length = sizeof(((carnot_header*)NULL)->magic);
  return size >= length && memcmp(data, CARNOT_ENGINE_MAGIC, length) == 0;
}

int carnot_engine_format_version(void) { return CARNOT_ENGINE_VERSION; }

void carnot_engine_get_stats(const carnot_engine* engine, carnot_engine_stats* out_stats) {
  const carnot_plan* plan = engine->plan;
  *out_stats = (carnot_engine_stats){.file_bytes = engine->file_bytes,
                                     .activation_bytes = plan->arena_bytes,
                                     .activation_bound_bytes = plan->arena_bound,
                                     .workspace_bytes = plan->workspace_bytes,
                                     .layer_count = plan->step_count,
                                     .is_stripped = plan->stripped};
}

uint32_t carnot_engine_tensor_count(const carnot_engine* engine) {
  return engine->plan->binding_count;
}

carnot_status* carnot_engine_tensor_info(const carnot_engine* engine, uint32_t index,
                                         carnot_tensor_info* out_info) {
  *out_info = (carnot_tensor_info){0};
  CARNOT_CHECK(index < engine->plan->binding_count, OUT_OF_RANGE, "tensor %u of %u", index,
               engine->plan->binding_count);
  const carnot_plan_binding* b = &engine->plan->bindings[index];
  *out_info = (carnot_tensor_info){.kind = (carnot_data_kind)engine->plan->values[b->value].kind,
                                   .name = b->name,
                                   .is_input = b->is_input,
                                   .is_shape = b->is_shape,
                                   .dtype = b->dtype,
                                   .format = b->format};
  out_info->dims.rank = b->rank;
  for (int d = 0; d < CARNOT_MAX_RANK; d++) {
    bool there = d < b->rank;
    out_info->dims.d[d] = there ? b->dims[d] : 0;
    out_info->dim_names[d] = there && b->dim_names[d] ? b->dim_names[d] : "";
  }
  return NULL;
}

carnot_status* carnot_engine_find_tensor(const carnot_engine* engine, const char* name,
                                         uint32_t* out_index) {
  return carnot_plan_find_binding(engine->plan, name, out_index);
}

uint32_t carnot_engine_profile_count(const carnot_engine* engine) {
  return engine->plan->profile_count;
}

// The binding of input |name|, where |profile| is one.
static carnot_status* profile_binding(const carnot_engine* engine, uint32_t profile,
                                      const char* name, const carnot_plan_binding** out_binding) {
  uint32_t index;
  CARNOT_TRY(carnot_plan_find_binding(engine->plan, name, &index));
  *out_binding = &engine->plan->bindings[index];
  CARNOT_CHECK((*out_binding)->is_input, INVALID_ARGUMENT,
               "%s is an output; profiles speak of inputs", name);
  CARNOT_CHECK(profile < engine->plan->profile_count, INVALID_ARGUMENT, "profile %u of %u", profile,
               engine->plan->profile_count);
  return NULL;
}

carnot_status* carnot_engine_profile_values(const carnot_engine* engine, uint32_t profile,
                                            const char* name, int64_t* out_min, int64_t* out_opt,
                                            int64_t* out_max, size_t* out_count) {
  const carnot_plan_binding* b;
  CARNOT_TRY(profile_binding(engine, profile, name, &b));
  if (out_count) *out_count = b->value_count;
  for (uint32_t i = 0; i < b->value_count; i++) {
    const carnot_dim_range* range = &b->value_ranges[profile * b->value_count + i];
    if (out_min) out_min[i] = range->min;
    if (out_opt) out_opt[i] = range->opt;
    if (out_max) out_max[i] = range->max;
  }
  return NULL;
}

carnot_status* carnot_engine_profile_shapes(const carnot_engine* engine, uint32_t profile,
                                            const char* name, carnot_dims* out_min,
                                            carnot_dims* out_opt, carnot_dims* out_max) {
  const carnot_plan_binding* b;
  CARNOT_TRY(profile_binding(engine, profile, name, &b));
  for (int d = 0; d < b->rank; d++) {
    const carnot_dim_range fixed = {b->dims[d], b->dims[d], b->dims[d]};
    const carnot_dim_range* range =
        b->ranges ? &b->ranges[profile * (uint32_t)b->rank + (uint32_t)d] : &fixed;
    if (out_min) out_min->d[d] = range->min;
    if (out_opt) out_opt->d[d] = range->opt;
    if (out_max) out_max->d[d] = range->max;
  }
  if (out_min) out_min->rank = b->rank;
  if (out_opt) out_opt->rank = b->rank;
  if (out_max) out_max->rank = b->rank;
  return NULL;
}

const char* carnot_engine_name(const carnot_engine* engine) {
  return engine->plan->name ? engine->plan->name : "";
}
const char* carnot_engine_device(const carnot_engine* engine) {
  return engine->plan->device ? engine->plan->device : "";
}
const char* carnot_engine_inspect(const carnot_engine* engine) {
  return engine->plan->inspector ? engine->plan->inspector : "";
}
uint64_t carnot_engine_memory_bytes(const carnot_engine* engine) {
  return engine->plan->arena_bytes + engine->plan->workspace_bytes;
}
bool carnot_engine_is_refittable(const carnot_engine* engine) { return engine->plan->refittable; }

carnot_status* carnot_engine_serialize(carnot_engine* engine, bool strip, void** out_data,
                                       size_t* out_size) {
  *out_data = NULL;
  *out_size = 0;
  CARNOT_CHECK(!strip || engine->plan->refittable, FAILED_PRECONDITION,
               "engine %s cannot be stripped: it was not built for refit",
               carnot_engine_name(engine));
  carnot_weights* weights = carnot_engine_take_weights(engine);
  carnot_plan plan = *engine->plan;
  carnot_arena_init(&plan.arena);
  void* blobs;
  carnot_status* status = carnot_arena_try(&plan.arena, plan.blob_count + 1,
                                           sizeof(carnot_plan_blob), "weights", &blobs);
  plan.blobs = blobs;
  plan.stripped = strip;
  for (uint32_t i = 0; !status && i < plan.blob_count; i++) {
    carnot_plan_blob* blob = &plan.blobs[i];
    *blob = engine->plan->blobs[i];
    bool leave_out = strip && carnot_blob_is_weight(blob);
    blob->tensor.data = leave_out ? NULL : (void*)(uintptr_t)weights->data[i];
    plan.stripped |= !blob->dropped && !blob->tensor.data && engine->plan->stripped;
  }
  if (!status) status = carnot_plan_write_memory(&plan, out_data, out_size);
  carnot_arena_deinit(&plan.arena);
  carnot_engine_drop_weights(engine, weights);
  return status;
}

void carnot_memory_free(void* memory) { free(memory); }

carnot_status* carnot_refit_set_weights(carnot_refit* refit, const char* name, carnot_dtype dtype,
                                        const carnot_dims* dims, const void* data) {
  CARNOT_CHECK(name && dims && data && dims->rank >= 0 && dims->rank <= CARNOT_MAX_RANK,
               INVALID_ARGUMENT, "refit needs a name, dimensions and data");
  carnot_tensor tensor = {.dtype = dtype, .rank = dims->rank, .data = (void*)(uintptr_t)data};
  memcpy(tensor.dims, dims->d, sizeof(tensor.dims));
  return carnot_refit_set(refit, name, &tensor);
}
