// Limits of the convolutions by AMX tiles and weights of that in BF16. Portable C.
#include <string.h>

#include "kernel/cpu/common/kernels.h"
#include "kernel/cpu/conv/conv2d_tiles_layout.h"

bool carnot_conv2d_bf16_tiles_fits(const carnot_conv2d_bf16_tiles* p) {
  const tiles_conv conv = tiles_conv_of_bf16(p);
  return tiles_layout_of(&conv).fits;
}

bool carnot_conv2d_bf16_tiles_in_place(const carnot_conv2d_bf16_tiles* p) {
  const tiles_conv conv = tiles_conv_of_bf16(p);
  return tiles_layout_of(&conv).direct;
}

int64_t carnot_conv2d_bf16_tiles_scratch(const carnot_conv2d_bf16_tiles* p) {
  const tiles_conv conv = tiles_conv_of_bf16(p);
  return tiles_layout_of(&conv).bytes;
}

bool carnot_conv2d_s8_tiles_fits(const carnot_conv2d_s8_tiles* p) {
  const tiles_conv conv = tiles_conv_of_s8(p);
  return tiles_layout_of(&conv).fits;
}

int64_t carnot_conv2d_s8_tiles_scratch(const carnot_conv2d_s8_tiles* p) {
  const tiles_conv conv = tiles_conv_of_s8(p);
  return tiles_layout_of(&conv).bytes;
}

enum { kPanel = 16, kDepth = 32 };

void carnot_pack_k2n16d32_bf16(int64_t taps, int64_t depth, int64_t n, const float* k1n16,
                               uint16_t* packed) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_for(CARNOT_ISA_SCALAR);
  const int64_t runs = (n + kPanel - 1) / kPanel * taps;
  const int64_t filled = (depth + kDepth - 1) / kDepth * kDepth;
  memset(packed, 0, (size_t)(runs * filled * kPanel) * sizeof *packed);
  for (int64_t run = 0; run < runs; ++run, packed += filled * kPanel)
    for (int64_t k = 0; k < depth; ++k, k1n16 += kPanel) {
      uint16_t row[kPanel];
      kernels->bf16_of_f32(kPanel, k1n16, row);
      for (int j = 0; j < kPanel; ++j) packed[k / 2 * 2 * kPanel + 2 * j + k % 2] = row[j];
    }
}
