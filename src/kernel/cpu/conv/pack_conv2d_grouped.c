#include "kernel/cpu/conv/conv2d_grouped_f32.h"

void carnot_pack_conv2d_grouped_f32(int64_t groups, int64_t k, int64_t c, int64_t r, int64_t s,
                                    const float* weights, float* packed) {
  for (int64_t panel = 0; panel < carnot_conv2d_grouped_panels(groups, k); ++panel) {
    const int64_t first = carnot_conv2d_grouped_first(k, panel),
                  count = carnot_conv2d_grouped_count(groups, k, panel);
    for (int64_t row = 0; row < r; ++row) {
      for (int64_t i = 0; i < c; ++i) {
        for (int64_t col = 0; col < s; ++col, packed += 16) {
          for (int64_t m = 0; m < 16; ++m)
            packed[m] = m < count ? weights[(((first + m) * c + i) * r + row) * s + col] : 0;
        }
      }
    }
  }
}
