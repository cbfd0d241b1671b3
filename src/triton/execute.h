// Requests that the server hands over together, in as few runs as their shapes allow.
#ifndef CARNOT_TRITON_EXECUTE_H_
#define CARNOT_TRITON_EXECUTE_H_

#include "triton/instance.h"

// Takes |requests| [count] and answers each once: with its outputs, or with an error that is its
// own. Requests of one shape but for the batch share a run, as far as the plan's profiles allow;
// where such a run fails, each of them runs alone.
void carnot_triton_execute(carnot_triton_instance* instance, TRITONBACKEND_Request** requests,
                           uint32_t count);

#endif  // CARNOT_TRITON_EXECUTE_H_
