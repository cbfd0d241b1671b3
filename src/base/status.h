// Raising, passing up and annotating errors (see carnot/status.h for what a status is).
#ifndef CARNOT_BASE_STATUS_H_
#define CARNOT_BASE_STATUS_H_

#include <stddef.h>

#include "carnot/status.h"

// CARNOT_ERROR(INVALID_ARGUMENT, "axis %d is outside [-%d, %d)", ...)
#define CARNOT_ERROR(code, ...) carnot_status_make(CARNOT_##code, __FILE__, __LINE__, __VA_ARGS__)

// Returns from the enclosing function when |expr| fails.
#define CARNOT_TRY(expr)                         \
  do {                                           \
    carnot_status* carnot_try_ = (expr);         \
    if (carnot_try_ != NULL) return carnot_try_; \
  } while (0)

// As CARNOT_TRY, with words put before the message.
#define CARNOT_TRY_AT(expr, ...)                                                      \
  do {                                                                                \
    carnot_status* carnot_try_ = (expr);                                              \
    if (carnot_try_ != NULL) return carnot_status_annotate(carnot_try_, __VA_ARGS__); \
  } while (0)

// Returns an error unless |condition| holds.
#define CARNOT_CHECK(condition, code, ...)                    \
  do {                                                        \
    if (!(condition)) return CARNOT_ERROR(code, __VA_ARGS__); \
  } while (0)

// The error for a failed allocation of |bytes| for |what|.
#define CARNOT_NO_MEMORY(bytes, what) \
  CARNOT_ERROR(OUT_OF_MEMORY, "no memory for %zu bytes of %s", (size_t)(bytes), (what))

#endif  // CARNOT_BASE_STATUS_H_
