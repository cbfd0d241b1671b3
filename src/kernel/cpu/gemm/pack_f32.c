// Packing of float32 weights as k1n16.
#include "kernel/cpu/gemm/pack_f32.h"

enum { kPanel = 16 };

static int64_t packed_index(int64_t depth, int64_t k, int64_t n) {
  return (n / kPanel * depth + k) * kPanel + n % kPanel;
}

// The columns of |panel| that exist.
static int64_t panel_width(int64_t n, int64_t panel) {
  return n - panel * kPanel < kPanel ? n - panel * kPanel : kPanel;
}

// Panel by panel: the 16 columns of a panel are read as streams.
void carnot_pack_k1n16_f32(int64_t k, int64_t n, const float* b, int64_t rs, int64_t cs,
                           float* packed) {
  for (int64_t panel = 0; panel * kPanel < n; ++panel) {
    const int64_t width = panel_width(n, panel);
    const float* from = b + panel * kPanel * cs;
    for (int64_t i = 0; i < k; ++i, packed += kPanel) {
      for (int64_t j = 0; j < width; ++j) packed[j] = from[i * rs + j * cs];
      for (int64_t j = width; j < kPanel; ++j) packed[j] = 0;
    }
  }
}

void carnot_unpack_k1n16_f32(int64_t k, int64_t n, const float* packed, int64_t rs, int64_t cs,
                             float* b) {
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) b[i * rs + j * cs] = packed[packed_index(k, i, j)];
  }
}

// Each of the 16 filters of a panel is read from its begin to its end.
void carnot_pack_conv_k1n16_f32(int64_t n, int64_t c, int64_t taps, const float* weights,
                                float* packed) {
  for (int64_t panel = 0; panel * kPanel < n; ++panel, packed += taps * c * kPanel) {
    const int64_t width = panel_width(n, panel);
    const float* from = weights + panel * kPanel * c * taps;
    for (int64_t i = 0; i < c; ++i) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        float* row = packed + (tap * c + i) * kPanel;
        for (int64_t j = 0; j < width; ++j) row[j] = from[(j * c + i) * taps + tap];
        for (int64_t j = width; j < kPanel; ++j) row[j] = 0;
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
