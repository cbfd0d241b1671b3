// Packing of float32 weights as k1n16.
#include "kernel/cpu/gemm/pack_f32.h"

enum { kPanel = 16 };

static int64_t packed_index(int64_t depth, int64_t k, int64_t n) {
  return (n / kPanel * depth + k) * kPanel + n % kPanel;
}

void carnot_pack_k1n16_f32(int64_t k, int64_t n, const float* b, int64_t rs, int64_t cs,
                           float* packed) {
  const int64_t padded = (n + kPanel - 1) / kPanel * kPanel;
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < padded; ++j) {
      packed[packed_index(k, i, j)] = j < n ? b[i * rs + j * cs] : 0;
    }
  }
}

void carnot_unpack_k1n16_f32(int64_t k, int64_t n, const float* packed, int64_t rs, int64_t cs,
                             float* b) {
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) b[i * rs + j * cs] = packed[packed_index(k, i, j)];
  }
}

void carnot_pack_conv_k1n16_f32(int64_t n, int64_t c, int64_t taps, const float* weights,
                                float* packed) {
  const int64_t padded = (n + kPanel - 1) / kPanel * kPanel;
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t i = 0; i < c; ++i) {
      for (int64_t j = 0; j < padded; ++j) {
        packed[packed_index(taps * c, tap * c + i, j)] =
            j < n ? weights[(j * c + i) * taps + tap] : 0;
      }
    }
  }
}

void carnot_unpack_conv_k1n16_f32(int64_t n, int64_t c, int64_t taps, const float* packed,
                                  float* weights) {
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t i = 0; i < c; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        weights[(j * c + i) * taps + tap] = packed[packed_index(taps * c, tap * c + i, j)];
      }
    }
  }
}
