// Packing of depthwise INT8 weights as t2n16.
#include <string.h>

#include "kernel/cpu/conv/depthwise_u8s8.h"

void carnot_pack_t2n16_s16(int64_t taps, int64_t c, const int8_t* weights, int64_t stride_tap,
                           int64_t stride_c, int16_t* packed) {
  memset(packed, 0, (size_t)carnot_packed_t2n16_count(taps, c) * sizeof(*packed));
  const int64_t pairs = (taps + 1) / 2;
  for (int64_t i = 0; i < c; ++i) {
    for (int64_t t = 0; t < taps; ++t) {
      packed[((i / 16 * pairs + t / 2) * 16 + i % 16) * 2 + t % 2] =
          weights[t * stride_tap + i * stride_c];
    }
  }
}
