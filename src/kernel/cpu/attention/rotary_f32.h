// Rotary position embedding of one head: pairs (x[i], x[i + half]) or, interleaved, (x[2i],
// x[2i+1]) turn by the angles whose cosines and sines are given; elements from 2 half on stay.
//   dst[a] = cos[i] x[a] - sin[i] x[b];  dst[b] = sin[i] x[a] + cos[i] x[b]
// |src| and |dst| [d], |cosines| and |sines| [half], 2 half <= d. dst may be src. Any thread.
// Source: ONNX RotaryEmbedding-23; Su et al., RoFormer, section 3.4.
#ifndef CARNOT_KERNEL_CPU_ATTENTION_ROTARY_F32_H_
#define CARNOT_KERNEL_CPU_ATTENTION_ROTARY_F32_H_

#include <stdbool.h>
#include <stdint.h>

typedef void carnot_rotary_f32_fn(int64_t d, int64_t half, bool interleaved, const float* src,
                                  const float* cosines, const float* sines, float* dst);

#endif
