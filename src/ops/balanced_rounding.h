// Rounding of weights whose errors cancel.
#ifndef CARNOT_OPS_BALANCED_ROUNDING_H_
#define CARNOT_OPS_BALANCED_ROUNDING_H_

#include <stdint.h>

// |q| [count] holds |w| / |scale| rounded to nearest. Rounds some elements to their other
// neighbour, those nearest to the middle first, until the errors of each |kernel| consecutive
// elements, then of all, sum up to at most half a step. Inputs that a window covers are nearly
// equal, so the error of a sum of products is that of the sum. No element leaves [-127, 127];
// |count| is a multiple of |kernel|. Source: C. Guo et al., "SQuant: On-the-Fly Data-Free
// Quantization via Diagonal Hessian Approximation", ICLR 2022, sections 3.2 and 3.3.
void carnot_balance_rounding(const float* w, float scale, int64_t count, int64_t kernel, int8_t* q);

#endif  // CARNOT_OPS_BALANCED_ROUNDING_H_
