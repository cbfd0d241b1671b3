// Micro-kernels over weights packed k1n16 in a type that loads as float32: the including source
// defines |tile_weight| before it and load_weights behind it.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_K1N16_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_K1N16_H_

#include "kernel/cpu/gemm/gemm_ukernel_body.h"

// Weights come from L2 for every tile of rows and are prefetched into L1, so many rows of them
// ahead. Tiles of few rows wait for memory, which this does not help; measured on AVX-512 only.
enum { kPrefetchDistance = 32, kLeastRowsToPrefetch = V_LANES == 16 ? 8 : TILE_MAX_ROWS + 1 };

CARNOT_INLINE vf32 load_weights(const tile_weight* p);

// The loops over sums are single and unrolled early, or the compiler keeps the sums in memory.
CARNOT_INLINE const void* tile_accumulate(int row_count, int width, const gemm_ukernel_f32* t,
                                          const tile_part* part, vf32* acc) {
  const tile_weight* b = part->b;
  const int64_t panel = t->b_panel / (int64_t)sizeof *b, depth = part->k1 - part->k0;
  for (int64_t tap = part->t0; tap < part->t1; ++tap) {
    const float* a[TILE_MAX_ROWS];
    CARNOT_UNROLL
    for (int i = 0; i < row_count; ++i)
      a[i] = (const float*)t->rows[tap * row_count + i] + part->k0;
    for (int64_t k = 0; k < depth; ++k, b += TILE_PANEL) {
      vf32 bv[16];
      CARNOT_UNROLL
      for (int j = 0; j < width; ++j) {
        const tile_weight* weights = b + j / VECTORS * panel + j % VECTORS * V_LANES;
        if (row_count >= kLeastRowsToPrefetch)
          __builtin_prefetch(weights + kPrefetchDistance * TILE_PANEL);
        bv[j] = load_weights(weights);
      }
      CARNOT_UNROLL
      for (int x = 0; x < row_count * width; ++x) {
        acc[x] = v_fma(v_set(a[x / width][k]), bv[x % width], acc[x]);
      }
    }
  }
  return b;
}

#endif
