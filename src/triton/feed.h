// Inputs of a run, from the requests that it gathers.
#ifndef CARNOT_TRITON_FEED_H_
#define CARNOT_TRITON_FEED_H_

#include "triton/instance.h"

// Gives all inputs of |members| [count] to the context of |instance|, one request after another
// along dimension 0. One request's memory is lent as it is; several are copied together. The values
// are the instance's until carnot_triton_feed_drop. INVALID_ARGUMENT for text that breaks its
// format, UNSUPPORTED for memory of a GPU.
carnot_status* carnot_triton_feed(carnot_triton_instance* instance,
                                  carnot_triton_request* const* members,
                                  uint32_t count) CARNOT_MUST_USE;
// Forgets the inputs, after the run.
void carnot_triton_feed_drop(carnot_triton_instance* instance);

#endif  // CARNOT_TRITON_FEED_H_
