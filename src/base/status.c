// Status objects: code, message, annotations.
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct carnot_status {
  carnot_code code;
  char message[];
};

static carnot_status g_no_memory = {CARNOT_OUT_OF_MEMORY};

static const char* const kCodeNames[] = {
#define CODE_NAME(NAME, text) text,
    CARNOT_CODES(CODE_NAME)
#undef CODE_NAME
};

const char* carnot_code_name(carnot_code code) {
  size_t count = sizeof(kCodeNames) / sizeof(kCodeNames[0]);
  return (size_t)code < count ? kCodeNames[code] : "unknown code";
}

carnot_code carnot_status_code(const carnot_status* status) {
  return status ? status->code : CARNOT_OK;
}

const char* carnot_status_message(const carnot_status* status) {
  if (!status) return "ok";
  return status == &g_no_memory ? "out of memory" : status->message;
}

void carnot_status_free(carnot_status* status) {
  if (status != &g_no_memory) free(status);
}

// "prefix" formatted, then |tail|, in a new status.
static carnot_status* compose(carnot_code code, const char* tail, const char* format,
                              va_list args) {
  va_list counting;
  va_copy(counting, args);
  int length = vsnprintf(NULL, 0, format, counting);
  va_end(counting);
  if (length < 0) length = 0;
  size_t tail_length = strlen(tail);
  carnot_status* status = malloc(sizeof(*status) + (size_t)length + tail_length + 1);
  if (!status) return &g_no_memory;
  status->code = code;
  vsnprintf(status->message, (size_t)length + 1, format, args);
  memcpy(status->message + length, tail, tail_length + 1);
  return status;
}

carnot_status* carnot_status_make(carnot_code code, const char* file, int line, const char* format,
                                  ...) {
  const char* name = strrchr(file, '/');
  char place[160] = "";
  // Only a defect of Carnot itself names its place in the source.
  if (code == CARNOT_INTERNAL)
    snprintf(place, sizeof(place), " (%s:%d)", name ? name + 1 : file, line);
  va_list args;
  va_start(args, format);
  carnot_status* status = compose(code, place, format, args);
  va_end(args);
  return status;
}

carnot_status* carnot_status_annotate(carnot_status* status, const char* format, ...) {
  if (!status || status == &g_no_memory) return status;
  size_t length = strlen(status->message);
  char* tail = malloc(length + 3);
  if (!tail) return status;
  memcpy(tail, ": ", 2);
  memcpy(tail + 2, status->message, length + 1);
  va_list args;
  va_start(args, format);
  carnot_status* result = compose(status->code, tail, format, args);
  va_end(args);
  free(tail);
  carnot_status_free(status);
  return result;
}
