// Transposition of 4x4 bytes in registers.
#pragma once

#include "kernel/cuda/common/types.cuh"

// Bytes 0 to 3 of each of |from| to word 0 to 3 of |to|.
DEVICE void transpose4(const u32* from, u32* to) {
  u32 a = __byte_perm(from[0], from[1], 0x5140), b = __byte_perm(from[2], from[3], 0x5140),
      c = __byte_perm(from[0], from[1], 0x7362), d = __byte_perm(from[2], from[3], 0x7362);
  to[0] = __byte_perm(a, b, 0x5410), to[1] = __byte_perm(a, b, 0x7632);
  to[2] = __byte_perm(c, d, 0x5410), to[3] = __byte_perm(c, d, 0x7632);
}
