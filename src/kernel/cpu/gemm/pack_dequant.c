// Packing of weights of 2, 4 or 8 bits in blocks.
#include <string.h>

#include "kernel/cpu/gemm/gemm_dequant_f32.h"

void carnot_pack_dequant(const carnot_dequant_shape* shape, const uint8_t* q, int64_t rs,
                         int64_t cs, void* packed) {
  const int64_t each = 32 / shape->bits, groups = carnot_dequant_groups(shape);
  const int64_t of_block = carnot_dequant_block_groups(shape);
  memset(packed, 0, (size_t)carnot_dequant_bytes(shape));
  uint32_t* words = packed;
  for (int64_t n = 0; n < shape->n; ++n) {
    uint32_t* column = words + n / 16 * groups * 16 + n % 16;
    for (int64_t k = 0; k < shape->k; ++k) {
      const int64_t in_block = k % shape->block;
      uint32_t* word = column + (k / shape->block * of_block + in_block / each) * 16;
      const int64_t place = in_block % each;  // byte place % 4, the place / 4-th number of it
      *word |= (uint32_t)q[k * rs + n * cs] << (place % 4 * 8 + place / 4 * shape->bits);
    }
  }
}
