// The entry points that the server calls.
#include "base/status.h"
#include "triton/convert.h"
#include "triton/execute.h"
#include "triton/log.h"

static carnot_status* check_version(void) {
  uint32_t major, minor;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ApiVersion(&major, &minor)));
  CARNOT_CHECK(major == CARNOT_TRITON_API_MAJOR && minor >= CARNOT_TRITON_API_MINOR, UNSUPPORTED,
               "the server's backend interface is %u.%u, must be %d.%d or a later %d", major, minor,
               CARNOT_TRITON_API_MAJOR, CARNOT_TRITON_API_MINOR, CARNOT_TRITON_API_MAJOR);
  return NULL;
}

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  (void)backend;
  return carnot_triton_to_error(check_version());
}

TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  (void)backend;
  return NULL;
}

// ---- models ----

static carnot_status* open_model(TRITONBACKEND_Model* handle) {
  carnot_triton_model* model;
  CARNOT_TRY(carnot_triton_model_create(handle, &model));
  carnot_status* status = carnot_triton_from_error(TRITONBACKEND_ModelSetState(handle, model));
  if (status) carnot_triton_model_destroy(model);
  return status;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return carnot_triton_to_error(open_model(model));
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  void* state = NULL;
  TRITONSERVER_Error* error = TRITONBACKEND_ModelState(model, &state);
  if (!error) carnot_triton_model_destroy(state);
  return error;
}

// ---- instances ----

static carnot_status* open_instance(TRITONBACKEND_ModelInstance* handle) {
  TRITONBACKEND_Model* model;
  void* state;
  const char* name;
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelInstanceName(handle, &name)));
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelInstanceModel(handle, &model)));
  CARNOT_TRY(carnot_triton_from_error(TRITONBACKEND_ModelState(model, &state)));
  carnot_triton_instance* instance;
  CARNOT_TRY_AT(carnot_triton_instance_create(handle, state, &instance), "instance %s", name);
  carnot_status* status =
      carnot_triton_from_error(TRITONBACKEND_ModelInstanceSetState(handle, instance));
  if (status) carnot_triton_instance_destroy(instance);
  return status;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return carnot_triton_to_error(open_instance(instance));
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  void* state = NULL;
  TRITONSERVER_Error* error = TRITONBACKEND_ModelInstanceState(instance, &state);
  if (!error) carnot_triton_instance_destroy(state);
  return error;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests,
                                                       uint32_t request_count) {
  void* state = NULL;
  TRITONSERVER_Error* error = TRITONBACKEND_ModelInstanceState(instance, &state);
  if (!error) carnot_triton_execute(state, requests, request_count);
  return error;
}
