// ReLU and clip at zero of BF16 and float32; the compiler vectorises the loops.
#include "kernel/cpu/pointwise/rectify.h"

#include <string.h>

#include "kernel/cpu/common/kernels_isa.h"

void CARNOT_KERNEL(rectify_bf16)(int64_t rows, int64_t n, uint16_t* x, int64_t ld, float limit) {
  uint32_t bits;
  memcpy(&bits, &limit, sizeof(bits));
  const int16_t most = (int16_t)(bits >> 16), infinity = 0x7f80;
  for (int64_t m = 0; m < rows; m++) {
    int16_t* row = (int16_t*)(x + m * ld);
    for (int64_t i = 0; i < n; i++) {
      const int16_t v = row[i], positive = v < 0 ? 0 : v, y = positive > most ? most : positive;
      row[i] = (v & 0x7fff) > infinity ? v : y;
    }
  }
}

void CARNOT_KERNEL(rectify_f32)(int64_t rows, int64_t n, float* x, int64_t ld, float limit) {
  for (int64_t m = 0; m < rows; m++) {
    float* row = x + m * ld;
    for (int64_t i = 0; i < n; i++) {
      const float v = row[i], positive = v < 0 ? 0 : v;
      row[i] = positive > limit ? limit : positive;
    }
  }
}
