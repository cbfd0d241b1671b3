// One request: read and checked when it comes, answered once.
#ifndef CARNOT_TRITON_REQUEST_H_
#define CARNOT_TRITON_REQUEST_H_

#include "triton/model.h"

// An input of a request. It borrows from the request.
typedef struct carnot_triton_input {
  TRITONBACKEND_Input* handle;  // NULL: not given
  carnot_dtype dtype;
  uint64_t bytes;
  uint32_t buffer_count;
} carnot_triton_input;

typedef struct carnot_triton_request {
  TRITONBACKEND_Request* handle;
  carnot_triton_input* inputs;  // [input_count], memory of the instance
  carnot_dims* dims;            // [input_count], of the inputs; rank -1: not given
  bool* wants;                  // [output_count], memory of the instance: the outputs asked for
  int64_t rows;                 // along dimension 0 where requests are gathered, else 0
} carnot_triton_request;

// Times of the monotonic clock in nanoseconds, as the server's statistics have them.
typedef struct carnot_triton_times {
  uint64_t start, compute_start, compute_end;
} carnot_triton_times;
// The monotonic clock.
uint64_t carnot_triton_now(void);

// Reads |handle| into |request|, whose lists are given, and checks it against |model|:
// names, types, shapes, sizes. CANCELLED where the client gave up; the other errors name the input
// or output, what was found and what is required.
carnot_status* carnot_triton_request_open(const carnot_triton_model* model,
                                          TRITONBACKEND_Request* handle,
                                          carnot_triton_request* request) CARNOT_MUST_USE;

// True where one run can take both: the same inputs, of the same shapes but for the rows.
bool carnot_triton_request_fits(const carnot_triton_model* model, const carnot_triton_request* a,
                                const carnot_triton_request* b);

// True once the client has given up.
bool carnot_triton_request_is_cancelled(const carnot_triton_request* request);

// Sends |response| (NULL: none could be made), or |status| where it is an error, which is taken;
// counts the request in the statistics and gives it back to the server.
void carnot_triton_request_answer(TRITONBACKEND_ModelInstance* instance,
                                  const carnot_triton_request* request,
                                  TRITONBACKEND_Response* response, carnot_status* status,
                                  const carnot_triton_times* times);

#endif  // CARNOT_TRITON_REQUEST_H_
