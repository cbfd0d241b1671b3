// Packing of FP16 and BF16 weights.
#include "kernel/cpu/gemm/pack_half.h"

#include "kernel/cpu/common/kernels.h"

enum { kPanel = 16 };

void carnot_pack_k1n16_f16(int64_t count, const float* k1n16, uint16_t* packed) {
  carnot_cpu_kernels_for(CARNOT_ISA_SCALAR)->f16_of_f32(count, k1n16, packed);
}

// One tap of a panel: |depth| rows of 16.
static void pack_tap(int64_t depth, const float* rows, uint16_t* packed) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_for(CARNOT_ISA_SCALAR);
  for (int64_t k = 0; k < depth; k += 2, packed += 2 * kPanel) {
    uint16_t even[kPanel], odd[kPanel] = {0};
    kernels->bf16_of_f32(kPanel, rows + k * kPanel, even);
    if (k + 1 < depth) kernels->bf16_of_f32(kPanel, rows + (k + 1) * kPanel, odd);
    for (int j = 0; j < kPanel; ++j) packed[2 * j] = even[j], packed[2 * j + 1] = odd[j];
  }
}

void carnot_pack_k2n16_bf16(int64_t taps, int64_t depth, int64_t n, const float* k1n16,
                            uint16_t* packed) {
  const int64_t runs = (n + kPanel - 1) / kPanel * taps, run = (depth + 1) / 2 * 2 * kPanel;
  for (int64_t i = 0; i < runs; ++i) {
    pack_tap(depth, k1n16 + i * depth * kPanel, packed + i * run);
  }
}
