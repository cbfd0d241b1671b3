// An instance of a model: a context with the memory that gathers requests. One thread at a time.
#ifndef CARNOT_TRITON_INSTANCE_H_
#define CARNOT_TRITON_INSTANCE_H_

#include "carnot/data.h"
#include "triton/model.h"
#include "triton/request.h"

// Memory that grows and is kept.
typedef struct carnot_triton_buffer {
  char* data;
  size_t capacity;
} carnot_triton_buffer;

typedef struct carnot_triton_instance {
  TRITONBACKEND_ModelInstance* handle;
  const carnot_triton_model* model;
  carnot_context* context;
  uint32_t profile;  // of |context|
  // Requests of one call, and the memory of their lists.
  carnot_triton_request* requests;
  carnot_triton_input* inputs;
  carnot_dims* shapes;
  bool* wants;
  carnot_triton_request** open;     // those that wait for a run
  carnot_triton_request** members;  // of the run that is put together
  uint32_t capacity;                // in requests
  // Per input: the rows of all requests of a run one after another, and the values that have them.
  carnot_triton_buffer* gathered;
  carnot_data** values;  // [2 * input_count]: what is given to the context, and an optional's item
  carnot_dims* dims;     // [input_count] of a run
  const carnot_data** results;  // [output_count]; they belong to |context|
  // The run in progress, which ends when all of its clients have given up.
  carnot_triton_request* const* running;
  uint32_t running_count;
} carnot_triton_instance;

// Makes a context on the device that the instance group names. INVALID_ARGUMENT where the plan was
// built for another kind of device.
carnot_status* carnot_triton_instance_create(TRITONBACKEND_ModelInstance* handle,
                                             const carnot_triton_model* model,
                                             carnot_triton_instance** out_instance) CARNOT_MUST_USE;
// NULL is allowed.
void carnot_triton_instance_destroy(carnot_triton_instance* instance);

// Makes room for |count| requests of one call.
carnot_status* carnot_triton_instance_reserve(carnot_triton_instance* instance,
                                              uint32_t count) CARNOT_MUST_USE;

// Makes |buffer| at least |bytes| large, aligned to 64 bytes; what it had is lost.
carnot_status* carnot_triton_buffer_reserve(carnot_triton_buffer* buffer,
                                            size_t bytes) CARNOT_MUST_USE;

#endif  // CARNOT_TRITON_INSTANCE_H_
