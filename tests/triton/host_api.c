// The functions of Triton's interface that the backend calls.
#include <stdlib.h>
#include <string.h>

#include "host.h"

// ---- errors, messages, log ----

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* msg) {
  TRITONSERVER_Error* error = calloc(1, sizeof *error);
  error->code = code;
  snprintf(error->message, sizeof error->message, "%s", msg);
  return error;
}
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) { free(error); }
TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error* error) { return error->code; }
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->message; }

const char* TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype) {
  static const char* const kNames[] = {"<invalid>", "BOOL", "UINT8", "UINT16", "UINT32",
                                       "UINT64",    "INT8", "INT16", "INT32",  "INT64",
                                       "FP16",      "FP32", "FP64",  "BYTES",  "BF16"};
  return kNames[datatype];
}

TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** message,
                                                              const char* base, size_t byte_size) {
  *message = calloc(1, sizeof **message);
  (*message)->text = strndup(base, byte_size);
  return NULL;
}
TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message) {
  free(message->text);
  free(message);
  return NULL;
}
TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* message,
                                                        const char** base, size_t* byte_size) {
  *base = message->text;
  *byte_size = strlen(message->text);
  return NULL;
}
TRITONSERVER_Error* TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char* filename,
                                            int line, const char* msg) {
  fprintf(stderr, "log %d %s:%d: %s\n", (int)level, filename, line, msg);
  return NULL;
}

// ---- backend and models ----

TRITONSERVER_Error* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = CARNOT_TRITON_API_MAJOR;
  *minor = CARNOT_TRITON_API_MINOR;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend* backend,
                                                TRITONSERVER_Message** backend_config) {
  *backend_config = &backend->config;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* model,
                                               TRITONBACKEND_Backend** backend) {
  *backend = model->backend;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelVersion(TRITONBACKEND_Model* model, uint64_t* version) {
  *version = model->version;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelRepository(TRITONBACKEND_Model* model,
                                                  TRITONBACKEND_ArtifactType* artifact_type,
                                                  const char** location) {
  *artifact_type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = model->folder;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* model, uint32_t config_version,
                                              TRITONSERVER_Message** model_config) {
  (void)config_version;
  return TRITONSERVER_MessageNewFromSerializedJson(model_config, model->config,
                                                   strlen(model->config));
}
TRITONSERVER_Error* TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model* model,
                                                          bool* auto_complete_config) {
  *auto_complete_config = model->complete;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* model,
                                                 uint32_t config_version,
                                                 TRITONSERVER_Message* model_config) {
  (void)config_version;
  snprintf(model->config, sizeof model->config, "%s", model_config->text);
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state) {
  *state = model->state;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state) {
  model->state = state;
  return NULL;
}

// ---- instances ----

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance* instance,
                                                    const char** name) {
  (void)instance;
  *name = "model_0_0";
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance* instance,
                                                    TRITONSERVER_InstanceGroupKind* kind) {
  *kind = instance->kind;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance* instance,
                                                        int32_t* device_id) {
  *device_id = instance->device;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* instance,
                                                     TRITONBACKEND_Model** model) {
  *model = instance->model;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* instance,
                                                     void** state) {
  *state = instance->state;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* instance,
                                                        void* state) {
  instance->state = state;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request, bool success,
    uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t compute_end_ns,
    uint64_t exec_end_ns) {
  if (request->release_count) instance->has_wrong_times = true;
  *(success ? &instance->succeeded : &instance->failed) += 1;
  instance->has_wrong_times |= exec_start_ns > compute_start_ns ||
                               compute_start_ns > compute_end_ns || compute_end_ns > exec_end_ns;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance* instance, uint64_t batch_size, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns) {
  instance->batches++;
  instance->batch_rows += batch_size;
  instance->has_wrong_times |= exec_start_ns > compute_start_ns ||
                               compute_start_ns > compute_end_ns || compute_end_ns > exec_end_ns;
  return NULL;
}

// ---- requests and responses ----

TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* request,
                                                     bool* is_cancelled) {
  if (request->cancel_after >= 0 && request->cancel_after-- == 0) request->is_cancelled = true;
  *is_cancelled = request->is_cancelled;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request* request,
                                                    uint32_t* count) {
  *count = request->input_count;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request* request,
                                                      uint32_t index, TRITONBACKEND_Input** input) {
  *input = &request->inputs[index];
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request* request,
                                                     uint32_t* count) {
  *count = request->wanted_count;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request* request, uint32_t index,
                                                    const char** output_name) {
  *output_name = request->wanted[index];
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request,
                                                 uint32_t release_flags) {
  (void)release_flags;
  request->release_count++;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_InputProperties(TRITONBACKEND_Input* input, const char** name,
                                                  TRITONSERVER_DataType* datatype,
                                                  const int64_t** shape, uint32_t* dims_count,
                                                  uint64_t* byte_size, uint32_t* buffer_count) {
  *name = input->name;
  *datatype = input->type;
  *shape = input->shape;
  *dims_count = input->rank;
  *byte_size = input->bytes;
  *buffer_count = input->buffer_count;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* input, uint32_t index,
                                              const void** buffer, uint64_t* buffer_byte_size,
                                              TRITONSERVER_MemoryType* memory_type,
                                              int64_t* memory_type_id) {
  *buffer = input->data[index];
  *buffer_byte_size = input->sizes[index];
  *memory_type = input->memory;
  *memory_type_id = 0;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response,
                                              TRITONBACKEND_Request* request) {
  request->response_count++;
  *response = &request->response;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response,
                                                 TRITONBACKEND_Output** output, const char* name,
                                                 TRITONSERVER_DataType datatype,
                                                 const int64_t* shape, uint32_t dims_count) {
  TRITONBACKEND_Request* request = response->request;
  *output = &request->outputs[request->output_count++];
  **output = (TRITONBACKEND_Output){.type = datatype, .rank = dims_count};
  snprintf((*output)->name, sizeof(*output)->name, "%s", name);
  memcpy((*output)->shape, shape, dims_count * sizeof *shape);
  if (request->refuse_outputs-- > 0)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory for an output");
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** buffer,
                                               uint64_t buffer_byte_size,
                                               TRITONSERVER_MemoryType* memory_type,
                                               int64_t* memory_type_id) {
  output->data = malloc(buffer_byte_size + 1);
  output->bytes = buffer_byte_size;
  *buffer = output->data;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
  return NULL;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response,
                                               uint32_t send_flags, TRITONSERVER_Error* error) {
  (void)send_flags;
  response->request->answer_count++;
  if (error) response->request->error = *error;
  return NULL;
}
