// Packing of depthwise INT8 weights as t4n32.
#include <string.h>

#include "kernel/cpu/conv/depthwise_u8s8.h"

void carnot_pack_t4n32_s8(int64_t taps, int64_t c, const int8_t* weights, int64_t stride_tap,
                          int64_t stride_c, int8_t* packed) {
  memset(packed, 0, (size_t)carnot_packed_t4n32_bytes(taps, c));
  const int64_t fours = (taps + 3) / 4;
  for (int64_t i = 0; i < c; ++i) {
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t at = i % 16 / 4 * 32 + i % 32 / 16 * 16 + i % 4 * 4 + t % 4;
      packed[(i / 32 * fours + t / 4) * 128 + at] = weights[t * stride_tap + i * stride_c];
    }
  }
}
