#include "backend/cuda/gemm/weight_transpose.h"

enum { kBlock = 64 };

#define TRANSPOSE(bits)                                                                           \
  void carnot_cuda_transpose_weights_##bits(const uint##bits##_t* from, int64_t depth,            \
                                            int64_t columns, int64_t pitch, uint##bits##_t* to) { \
    for (int64_t n0 = 0; n0 < columns; n0 += kBlock)                                              \
      for (int64_t k0 = 0; k0 < depth; k0 += kBlock) {                                            \
        const int64_t n1 = n0 + kBlock < columns ? n0 + kBlock : columns,                         \
                      k1 = k0 + kBlock < depth ? k0 + kBlock : depth;                             \
        for (int64_t n = n0; n < n1; n++)                                                         \
          for (int64_t k = k0; k < k1; k++) to[n * pitch + k] = from[k * columns + n];            \
      }                                                                                           \
  }
TRANSPOSE(8)
TRANSPOSE(16)
