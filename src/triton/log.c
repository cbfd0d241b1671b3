#include "triton/log.h"

#include <stdarg.h>
#include <stdio.h>

void carnot_triton_log(TRITONSERVER_LogLevel level, const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  TRITONSERVER_Error* error = TRITONSERVER_LogMessage(level, "carnot", __LINE__, line);
  if (error) TRITONSERVER_ErrorDelete(error);
}

void carnot_triton_log_error(const char* what, TRITONSERVER_Error* error) {
  if (!error) return;
  carnot_triton_log(TRITONSERVER_LOG_ERROR, "%s: %s", what, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
}
