#include "triton/instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "triton/convert.h"
#include "triton/log.h"

// Called between the steps of a run.
static bool all_cancelled(void* user) {
  const carnot_triton_instance* instance = user;
  for (uint32_t i = 0; i < instance->running_count; i++)
    if (!carnot_triton_request_is_cancelled(instance->running[i])) return false;
  return instance->running_count > 0;
}

// The device that runs |instance|, in |name| [size]; NULL: the plan's own choice.
static carnot_status* choose_device(TRITONBACKEND_ModelInstance* handle,
                                    const carnot_engine* engine, char* name, size_t size,
                                    const char** out_device) {
  TRITONSERVER_InstanceGroupKind kind;
  int32_t number;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelInstanceKind(handle, &kind)));
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelInstanceDeviceId(handle, &number)));
  *out_device = NULL;
  const char* built_for = carnot_engine_device(engine);
  bool is_for_gpu = strncmp(built_for, "cuda", 4) == 0;
  CARNOT_CHECK(!is_for_gpu || kind != TRITONSERVER_INSTANCEGROUPKIND_CPU, INVALID_ARGUMENT,
               "the plan was built for %s: instance_group must have kind KIND_GPU", built_for);
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU) return NULL;
  if (!is_for_gpu) {
    carnot_triton_log(TRITONSERVER_LOG_WARN,
                      "the plan was built for %s and runs there, not on GPU %d", built_for, number);
    return NULL;
  }
  snprintf(name, size, "cuda:%d", number);
  *out_device = name;
  return NULL;
}

static carnot_status* open_context(carnot_triton_instance* instance) {
  const carnot_triton_model* model = instance->model;
  char name[32];
  const char* device;
  CARNOT_TRY(choose_device(instance->handle, model->engine, name, sizeof name, &device));
  carnot_context_config config = {
      .thread_count = model->thread_count, .host_tensors = true, .device = device};
  CARNOT_TRY(carnot_context_create(model->engine, &config, &instance->context));
  return carnot_context_set_cancel(instance->context, all_cancelled, instance);
}

static carnot_status* open_lists(carnot_triton_instance* instance) {
  uint32_t inputs = instance->model->input_count, outputs = instance->model->output_count;
  instance->gathered = calloc(inputs + 1, sizeof *instance->gathered);
  instance->values = calloc(2 * inputs + 1, sizeof *instance->values);
  instance->dims = calloc(inputs + 1, sizeof *instance->dims);
  instance->results = calloc(outputs + 1, sizeof *instance->results);
  bool is_there = instance->gathered && instance->values && instance->dims && instance->results;
  return is_there ? NULL : CARNOT_NO_MEMORY(inputs, "an instance's inputs");
}

carnot_status* carnot_triton_instance_create(TRITONBACKEND_ModelInstance* handle,
                                             const carnot_triton_model* model,
                                             carnot_triton_instance** out_instance) {
  *out_instance = NULL;
  carnot_triton_instance* instance = calloc(1, sizeof *instance);
  if (!instance) return CARNOT_NO_MEMORY(sizeof *instance, "an instance");
  instance->handle = handle;
  instance->model = model;
  carnot_status* status = open_lists(instance);
  if (!status) status = open_context(instance);
  if (!status) status = carnot_triton_instance_reserve(instance, 8);
  if (status)
    carnot_triton_instance_destroy(instance);
  else
    *out_instance = instance;
  return status;
}

static void free_lists(carnot_triton_instance* instance) {
  free(instance->requests);
  free(instance->inputs);
  free(instance->shapes);
  free(instance->wants);
  free(instance->open);
  free(instance->members);
}

void carnot_triton_instance_destroy(carnot_triton_instance* instance) {
  if (!instance) return;
  carnot_context_destroy(instance->context);
  for (uint32_t i = 0; instance->gathered && i < instance->model->input_count; i++)
    free(instance->gathered[i].data);
  free_lists(instance);
  free(instance->gathered);
  free(instance->values);
  free(instance->dims);
  free(instance->results);
  free(instance);
}

carnot_status* carnot_triton_instance_reserve(carnot_triton_instance* instance, uint32_t count) {
  if (count <= instance->capacity) return NULL;
  uint32_t inputs = instance->model->input_count, outputs = instance->model->output_count;
  free_lists(instance);
  instance->capacity = 0;
  instance->requests = calloc(count, sizeof *instance->requests);
  instance->inputs = calloc((size_t)count * inputs + 1, sizeof *instance->inputs);
  instance->shapes = calloc((size_t)count * inputs + 1, sizeof *instance->shapes);
  instance->wants = calloc((size_t)count * outputs + 1, sizeof *instance->wants);
  instance->open = calloc(count, sizeof *instance->open);
  instance->members = calloc(count, sizeof *instance->members);
  if (!instance->requests || !instance->inputs || !instance->shapes || !instance->wants ||
      !instance->open || !instance->members)
    return CARNOT_NO_MEMORY(count * sizeof *instance->requests, "requests");
  for (uint32_t i = 0; i < count; i++) {
    instance->requests[i].inputs = instance->inputs + (size_t)i * inputs;
    instance->requests[i].dims = instance->shapes + (size_t)i * inputs;
    instance->requests[i].wants = instance->wants + (size_t)i * outputs;
  }
  instance->capacity = count;
  return NULL;
}

carnot_status* carnot_triton_buffer_reserve(carnot_triton_buffer* buffer, size_t bytes) {
  if (buffer->data && bytes <= buffer->capacity) return NULL;
  free(buffer->data);
  buffer->capacity = 0;
  size_t size = (bytes + 64) & ~(size_t)63;
  buffer->data = aligned_alloc(64, size);
  if (!buffer->data) return CARNOT_NO_MEMORY(size, "the inputs of a run");
  buffer->capacity = size;
  return NULL;
}
