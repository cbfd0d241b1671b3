// Messages in the server's log. Any thread.
#ifndef CARNOT_TRITON_LOG_H_
#define CARNOT_TRITON_LOG_H_

#include "carnot/status.h"
#include "triton/triton_api.h"

// A line in the server's log, as printf formats it.
void carnot_triton_log(TRITONSERVER_LogLevel level, const char* format, ...) CARNOT_PRINTF(2, 3);

// "|what|: " and the message of |error| as an error line; takes |error|. Nothing for NULL.
void carnot_triton_log_error(const char* what, TRITONSERVER_Error* error);

#endif  // CARNOT_TRITON_LOG_H_
