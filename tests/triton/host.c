#include "host.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void die(const char* what, const char* why) {
  fprintf(stderr, "host: %s: %s\n", what, why);
  exit(1);
}

// ---- backend, models, instances ----

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) die(name, dlerror());
  return found;
}

TRITONBACKEND_Backend* host_open(const char* library) {
  TRITONBACKEND_Backend* backend = calloc(1, sizeof *backend);
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!opened) die(library, dlerror());
  backend->library = opened;
  backend->config.text = "{\"cmdline\":{\"default-max-batch-size\":\"4\"}}";
  *(void**)&backend->model_initialize = symbol(opened, "TRITONBACKEND_ModelInitialize");
  *(void**)&backend->model_finalize = symbol(opened, "TRITONBACKEND_ModelFinalize");
  *(void**)&backend->instance_initialize = symbol(opened, "TRITONBACKEND_ModelInstanceInitialize");
  *(void**)&backend->instance_finalize = symbol(opened, "TRITONBACKEND_ModelInstanceFinalize");
  *(void**)&backend->execute = symbol(opened, "TRITONBACKEND_ModelInstanceExecute");
  *(void**)&backend->finalize = symbol(opened, "TRITONBACKEND_Finalize");
  TRITONSERVER_Error* (*initialize)(TRITONBACKEND_Backend*);
  *(void**)&initialize = symbol(opened, "TRITONBACKEND_Initialize");
  TRITONSERVER_Error* error = initialize(backend);
  if (error) die("TRITONBACKEND_Initialize", error->message);
  return backend;
}

void host_close(TRITONBACKEND_Backend* backend) {
  TRITONSERVER_Error* error = backend->finalize(backend);
  if (error) die("TRITONBACKEND_Finalize", error->message);
  free(backend);
}

// Moves the text of |error| to |message| [512]; false for NULL.
static bool take_error(TRITONSERVER_Error* error, char* message) {
  if (!error) return false;
  snprintf(message, sizeof error->message, "%s", error->message);
  TRITONSERVER_ErrorDelete(error);
  return true;
}

TRITONBACKEND_Model* host_load(TRITONBACKEND_Backend* backend, const char* folder, uint64_t version,
                               const char* config, bool complete, char* message) {
  TRITONBACKEND_Model* model = calloc(1, sizeof *model);
  *model = (TRITONBACKEND_Model){.backend = backend, .version = version, .complete = complete};
  snprintf(model->folder, sizeof model->folder, "%s", folder);
  snprintf(model->config, sizeof model->config, "%s", config);
  if (!take_error(backend->model_initialize(model), message)) return model;
  free(model);
  return NULL;
}

void host_unload(TRITONBACKEND_Model* model) {
  TRITONSERVER_Error* error = model->backend->model_finalize(model);
  if (error) die("TRITONBACKEND_ModelFinalize", error->message);
  free(model);
}

TRITONBACKEND_ModelInstance* host_start(TRITONBACKEND_Model* model,
                                        TRITONSERVER_InstanceGroupKind kind, int32_t device,
                                        char* message) {
  TRITONBACKEND_ModelInstance* instance = calloc(1, sizeof *instance);
  *instance = (TRITONBACKEND_ModelInstance){.model = model, .kind = kind, .device = device};
  if (!take_error(model->backend->instance_initialize(instance), message)) return instance;
  free(instance);
  return NULL;
}

void host_stop(TRITONBACKEND_ModelInstance* instance) {
  TRITONSERVER_Error* error = instance->model->backend->instance_finalize(instance);
  if (error) die("TRITONBACKEND_ModelInstanceFinalize", error->message);
  free(instance);
}

// ---- requests ----

void host_request_clear(TRITONBACKEND_Request* request) {
  for (uint32_t i = 0; i < request->output_count; i++) free(request->outputs[i].data);
  memset(request, 0, sizeof *request);
  request->cancel_after = -1;
  request->response.request = request;
}

TRITONBACKEND_Input* host_request_add(TRITONBACKEND_Request* request, const char* name,
                                      TRITONSERVER_DataType type, const int64_t* shape,
                                      uint32_t rank, const void* data, uint64_t bytes,
                                      uint32_t count) {
  TRITONBACKEND_Input* input = &request->inputs[request->input_count++];
  *input = (TRITONBACKEND_Input){
      .name = name, .type = type, .rank = rank, .bytes = bytes, .buffer_count = count};
  memcpy(input->shape, shape, rank * sizeof *shape);
  for (uint32_t b = 0; b < count; b++) {
    uint64_t begin = bytes * b / count, end = bytes * (b + 1) / count;
    input->data[b] = (const char*)data + begin;
    input->sizes[b] = end - begin;
  }
  return input;
}

void host_execute(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests,
                  uint32_t count) {
  TRITONSERVER_Error* error = instance->model->backend->execute(instance, requests, count);
  if (error) die("TRITONBACKEND_ModelInstanceExecute", error->message);
  for (uint32_t i = 0; i < count; i++) {
    if (requests[i]->answer_count != 1) die("a request", "not answered exactly once");
    if (requests[i]->release_count != 1) die("a request", "not given back exactly once");
    if (requests[i]->response_count != 1) die("a request", "not exactly one response");
  }
}

const TRITONBACKEND_Output* host_output(const TRITONBACKEND_Request* request, const char* name) {
  for (uint32_t i = 0; i < request->output_count; i++)
    if (strcmp(request->outputs[i].name, name) == 0) return &request->outputs[i];
  return NULL;
}
