// Packing of INT8 weights as k4n16.
#include <string.h>

#include "kernel/cpu/gemm/gemm_u8s8.h"

// |steps|: of four k, of a tap.
static int64_t packed_index(int64_t taps, int64_t steps, int64_t n, int64_t tap, int64_t i) {
  return (((n / 16 * taps + tap) * steps + i / 4) * 16 + n % 16) * 4 + i % 4;
}

static void pack(int64_t taps, int64_t c, int64_t n, int64_t steps, const int8_t* weights,
                 int64_t stride_n, int64_t stride_tap, int64_t stride_c, int8_t* packed) {
  memset(packed, 0, (size_t)carnot_packed_k4n16_bytes(taps, 4 * steps, n));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t i = 0; i < c; ++i) {
        packed[packed_index(taps, steps, j, tap, i)] =
            weights[j * stride_n + tap * stride_tap + i * stride_c];
      }
    }
  }
}

void carnot_pack_k4n16_s8(int64_t taps, int64_t c, int64_t n, const int8_t* weights,
                          int64_t stride_n, int64_t stride_tap, int64_t stride_c, int8_t* packed) {
  pack(taps, c, n, (c + 3) / 4, weights, stride_n, stride_tap, stride_c, packed);
}

void carnot_pack_k4n16d64_s8(int64_t taps, int64_t c, int64_t n, const int8_t* weights,
                             int64_t stride_n, int64_t stride_tap, int64_t stride_c,
                             int8_t* packed) {
  pack(taps, c, n, (c + 63) / 64 * 16, weights, stride_n, stride_tap, stride_c, packed);
}

void carnot_unpack_k4n16_s8(int64_t taps, int64_t c, int64_t n, const int8_t* packed,
                            int64_t stride_n, int64_t stride_tap, int64_t stride_c,
                            int8_t* weights) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t i = 0; i < c; ++i) {
        weights[j * stride_n + tap * stride_tap + i * stride_c] =
            packed[packed_index(taps, (c + 3) / 4, j, tap, i)];
      }
    }
  }
}
