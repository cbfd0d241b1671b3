// Rounding of weights to 4 bits in blocks.
#ifndef CARNOT_OPS_BLOCK_ROUNDING_H_
#define CARNOT_OPS_BLOCK_ROUNDING_H_

#include <stdint.h>

// |w| [dims[0], dims[1]] in blocks of |block| elements along |axis|: scales [.., ceil(K / block),
// ..] in the order of the dimensions, and integers in [-8, 7] as int4 of ONNX: two elements a byte,
// the first in the low bits. Of several scales for a block the one with the least squared error is
// taken. Source: ONNX DequantizeLinear-21.
void carnot_round_blocks_i4(const float* w, const int64_t* dims, int axis, int64_t block,
                            float* scales, uint8_t* q);

#endif  // CARNOT_OPS_BLOCK_ROUNDING_H_
