// Outputs of a run, to the requests that it gathered.
#ifndef CARNOT_TRITON_REPLY_H_
#define CARNOT_TRITON_REPLY_H_

#include "triton/instance.h"

// Finds the outputs of the last run, of |rows| rows; 0: requests were not gathered. INTERNAL names
// an output that does not have a row for each.
carnot_status* carnot_triton_reply_find(carnot_triton_instance* instance,
                                        int64_t rows) CARNOT_MUST_USE;

// Writes the outputs that |request| asks for into a new response: all of them, or of a run of |all|
// rows the rows from |first| on.
carnot_status* carnot_triton_reply_write(const carnot_triton_instance* instance,
                                         const carnot_triton_request* request, int64_t all,
                                         int64_t first,
                                         TRITONBACKEND_Response** out_response) CARNOT_MUST_USE;

#endif  // CARNOT_TRITON_REPLY_H_
