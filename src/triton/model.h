// A model of the server: its engine, shared by all instances, and what its configuration says.
#ifndef CARNOT_TRITON_MODEL_H_
#define CARNOT_TRITON_MODEL_H_

#include "carnot/runtime.h"
#include "triton/triton_api.h"

// More rows than a server gathers: the plan does not bound its batch.
#define CARNOT_TRITON_OPEN_BATCH INT32_MAX

// The shapes that a profile allows for an input.
typedef struct carnot_triton_range {
  carnot_dims min, opt, max;
} carnot_triton_range;

// Immutable after create: instances on any threads read it.
typedef struct carnot_triton_model {
  carnot_engine* engine;
  carnot_tensor_info* tensors;  // [tensor_count], inputs first
  uint32_t tensor_count, input_count, output_count;
  carnot_triton_range* ranges;  // [profile_count][input_count]
  uint32_t profile_count;
  int64_t plan_batch;     // the most rows of a run along dimension 0; 0: that is no batch
  int64_t default_batch;  // where the plan leaves it open
  int64_t max_batch;      // the most rows that the server gathers; 0: requests run one by one
  int thread_count;       // of a CPU instance; 0: all processors
} carnot_triton_model;

// Loads the plan of |handle| and completes its configuration, where the server allows that.
// INVALID_ARGUMENT names the entry of the configuration that does not fit the plan.
carnot_status* carnot_triton_model_create(TRITONBACKEND_Model* handle,
                                          carnot_triton_model** out_model) CARNOT_MUST_USE;
// NULL is allowed. After the last instance.
void carnot_triton_model_destroy(carnot_triton_model* model);

// True where |dims| lie in |range|; an input that is not given (rank -1) fits always.
bool carnot_triton_range_takes(const carnot_triton_range* range, const carnot_dims* dims);

// The profile that takes inputs of these |dims| [input_count] and was tuned for the nearest shapes;
// profile_count where none takes them.
uint32_t carnot_triton_model_find_profile(const carnot_triton_model* model,
                                          const carnot_dims* dims);

#endif  // CARNOT_TRITON_MODEL_H_
