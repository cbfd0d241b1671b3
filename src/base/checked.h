// Arithmetic on sizes that may come from outside: false on overflow.
#ifndef CARNOT_BASE_CHECKED_H_
#define CARNOT_BASE_CHECKED_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool carnot_mul_size(size_t a, size_t b, size_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool carnot_add_size(size_t a, size_t b, size_t* out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool carnot_mul_i64(int64_t a, int64_t b, int64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool carnot_add_i64(int64_t a, int64_t b, int64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool carnot_sub_i64(int64_t a, int64_t b, int64_t* out) {
  return !__builtin_sub_overflow(a, b, out);
}

static inline int64_t carnot_floordiv(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}
static inline int64_t carnot_ceildiv(int64_t a, int64_t b) {
  return a / b + ((a % b != 0) && ((a < 0) == (b < 0)));
}
static inline size_t carnot_align_up(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
static inline int64_t carnot_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t carnot_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

#endif  // CARNOT_BASE_CHECKED_H_
