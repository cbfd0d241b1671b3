// A server for tests: it implements the part of Triton's interface that the backend calls, in this
// process, and hands it models, instances and requests.
#ifndef CARNOT_TESTS_TRITON_HOST_H_
#define CARNOT_TESTS_TRITON_HOST_H_

#include <stdatomic.h>
#include <stdio.h>

#include "triton/triton_api.h"

enum { HOST_MAX_TENSORS = 8, HOST_MAX_RANK = 10, HOST_MAX_BUFFERS = 4 };

// ---- what the handles point to ----

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  char message[512];
};

struct TRITONSERVER_Message {
  char* text;
};

struct TRITONBACKEND_Backend {
  void* library;
  TRITONSERVER_Message config;
  TRITONSERVER_Error* (*model_initialize)(TRITONBACKEND_Model*);
  TRITONSERVER_Error* (*model_finalize)(TRITONBACKEND_Model*);
  TRITONSERVER_Error* (*instance_initialize)(TRITONBACKEND_ModelInstance*);
  TRITONSERVER_Error* (*instance_finalize)(TRITONBACKEND_ModelInstance*);
  TRITONSERVER_Error* (*execute)(TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request**, uint32_t);
  TRITONSERVER_Error* (*finalize)(TRITONBACKEND_Backend*);
};

struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend* backend;
  char folder[256];
  uint64_t version;
  char config[4096];  // as given, then as the backend completed it
  bool complete;      // the backend may complete it
  void* state;
};

struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model;
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device;
  void* state;
  // What the backend reported.
  uint64_t succeeded, failed, batches, batch_rows;
  bool has_wrong_times;
};

struct TRITONBACKEND_Input {
  const char* name;
  TRITONSERVER_DataType type;
  int64_t shape[HOST_MAX_RANK];
  uint32_t rank, buffer_count;
  uint64_t bytes;  // that the request says
  const void* data[HOST_MAX_BUFFERS];
  uint64_t sizes[HOST_MAX_BUFFERS];
  TRITONSERVER_MemoryType memory;
};

struct TRITONBACKEND_Output {
  char name[64];
  TRITONSERVER_DataType type;
  int64_t shape[HOST_MAX_RANK];
  uint32_t rank;
  void* data;
  uint64_t bytes;
};

struct TRITONBACKEND_Response {
  TRITONBACKEND_Request* request;
};

struct TRITONBACKEND_Request {
  uint32_t input_count, wanted_count, output_count;
  TRITONBACKEND_Input inputs[HOST_MAX_TENSORS];
  const char* wanted[HOST_MAX_TENSORS];
  atomic_bool is_cancelled;
  atomic_int cancel_after;  // queries that still say no; below 0: never
  int refuse_outputs;       // this many buffers of outputs cannot be had
  // The answer.
  TRITONBACKEND_Response response;
  TRITONBACKEND_Output outputs[HOST_MAX_TENSORS];
  int response_count, answer_count, release_count;
  TRITONSERVER_Error error;  // of the answer; an empty message: none
};

// ---- what tests call ----

// Opens the backend's library; ends the program where that fails.
TRITONBACKEND_Backend* host_open(const char* library);
void host_close(TRITONBACKEND_Backend* backend);

// Loads FOLDER/VERSION/model.plan with |config| (JSON). NULL where the backend refuses: its message
// is in |message| [512].
TRITONBACKEND_Model* host_load(TRITONBACKEND_Backend* backend, const char* folder, uint64_t version,
                               const char* config, bool complete, char* message);
void host_unload(TRITONBACKEND_Model* model);
TRITONBACKEND_ModelInstance* host_start(TRITONBACKEND_Model* model,
                                        TRITONSERVER_InstanceGroupKind kind, int32_t device,
                                        char* message);
void host_stop(TRITONBACKEND_ModelInstance* instance);

// An empty request; one that was answered may be emptied and used again.
void host_request_clear(TRITONBACKEND_Request* request);
// Adds an input of |count| equal parts of |data|, which is borrowed.
TRITONBACKEND_Input* host_request_add(TRITONBACKEND_Request* request, const char* name,
                                      TRITONSERVER_DataType type, const int64_t* shape,
                                      uint32_t rank, const void* data, uint64_t bytes,
                                      uint32_t count);
// Hands over |requests| [count]; ends the program unless each is answered and given back once.
void host_execute(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests,
                  uint32_t count);
// The output of an answer; NULL: there is none.
const TRITONBACKEND_Output* host_output(const TRITONBACKEND_Request* request, const char* name);

#endif  // CARNOT_TESTS_TRITON_HOST_H_
