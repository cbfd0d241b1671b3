// Pixels with each channel multiplied by a number of its own.
//   dst[m,c] = src[m,c] * scale[c]
// |src| [M,C], pixels |src_ld| elements apart  |scale| [C]  |dst| [M,C], pixels |dst_ld| elements
// apart, not overlapping src. Elements are float32 or BF16, which is rounded once when it is stored
// (nearest even). Any thread.
#ifndef CARNOT_KERNEL_CPU_CONV_SCALE_CHANNELS_F32_H_
#define CARNOT_KERNEL_CPU_CONV_SCALE_CHANNELS_F32_H_

#include <stdbool.h>
#include <stdint.h>

typedef struct carnot_scale_channels_f32 {
  int64_t m, c;
  const void* src;
  int64_t src_ld;
  const float* scale;
  void* dst;
  int64_t dst_ld;
  bool src_is_bf16, dst_is_bf16;
} carnot_scale_channels_f32;

typedef void carnot_scale_channels_f32_fn(const carnot_scale_channels_f32* p);

#endif
