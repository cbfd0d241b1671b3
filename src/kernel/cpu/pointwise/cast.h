// Casts between integers, truth values, float32 and float64.
//   y[i] = x[i] as the type |to|
// Floats are truncated, kept within the integer's range, and 0 where they are no number; integers
// keep their low bits; anything to a truth value is x != 0. |x| and |y| do not overlap. Any thread.
// Source: ONNX Cast-21.
#ifndef CARNOT_KERNEL_CPU_POINTWISE_CAST_H_
#define CARNOT_KERNEL_CPU_POINTWISE_CAST_H_

#include <stdbool.h>
#include <stdint.h>

typedef struct carnot_cast_type {
  bool is_float, is_signed, is_truth;
  int8_t bytes_log2;  // 0 to 3; of floats 2 and 3
} carnot_cast_type;

// False, and nothing is done: there is no loop between the types. With n = 0 the call only says so.
typedef bool carnot_cast_fn(carnot_cast_type from, carnot_cast_type to, const void* x, void* y,
                            int64_t n);

#endif
