// ReLU and clip at zero in place, of elements as they are stored.
//   x = min(max(x, 0), limit), NaN stays NaN
// Rows of |n| elements, |ld| apart; limit >= 0 or infinity. Floats that are not negative are in the
// order of their bits as integers, so that no conversion is needed. Any thread.
#ifndef CARNOT_KERNEL_CPU_POINTWISE_RECTIFY_H_
#define CARNOT_KERNEL_CPU_POINTWISE_RECTIFY_H_

#include <stdint.h>

// BF16 holds |limit|.
typedef void carnot_rectify_bf16_fn(int64_t rows, int64_t n, uint16_t* x, int64_t ld, float limit);
typedef void carnot_rectify_f32_fn(int64_t rows, int64_t n, float* x, int64_t ld, float limit);

#endif
