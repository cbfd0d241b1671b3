// The GEMM of gemm_dequant_f32.h for many rows, by the tiles of AMX.
//   c[m,n] = epilogue(sum_b scale[b,n] * sum_{k in b} a[m,k] * (q[k,n] - zero[b,n]))
// Integers of up to 8 bits are exact in BF16, and so are the three parts of a float32 number: three
// products of BF16 sum a block in float32, then its scale multiplies the sum. Rows that hold
// infinities, NaN or numbers so small that AMX flushes their parts go through gemm_dequant_f32.
//
// Activations in parts: groups of 32 rows; in a group slices of 32 k, every block of K begins one;
// in a slice three parts of [32 rows][16 pairs] BF16, pair j of k = j and k = j + 16, zeros beyond
// the block and the last row.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_DEQUANT_TILES_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_DEQUANT_TILES_H_

#include "kernel/cpu/gemm/gemm_dequant_f32.h"

enum {
  CARNOT_DEQUANT_GROUP_ROWS = 32,
  CARNOT_DEQUANT_SLICE_DEPTH = 32,
  CARNOT_DEQUANT_SLICE_BYTES = 3 * 32 * 64,
  CARNOT_DEQUANT_TILES_FLOATS = 128 * 512 + 16 * 512
};

// All rows of a GEMM in parts.
typedef struct carnot_dequant_parts {
  char* parts;     // carnot_dequant_group_bytes a group, at a multiple of 64
  uint8_t* exact;  // one a group: AMX multiplies it exactly
} carnot_dequant_parts;

static inline int64_t carnot_dequant_block_slices(const carnot_dequant_shape* shape, int64_t b) {
  const int64_t left = shape->k - b * shape->block;
  const int64_t depth = left < shape->block ? left : shape->block;
  return (depth + CARNOT_DEQUANT_SLICE_DEPTH - 1) / CARNOT_DEQUANT_SLICE_DEPTH;
}
// Bytes of a group of rows in parts.
static inline int64_t carnot_dequant_group_bytes(const carnot_dequant_shape* shape) {
  const int64_t last = carnot_dequant_blocks(shape) - 1;
  return (last * carnot_dequant_block_slices(shape, 0) + carnot_dequant_block_slices(shape, last)) *
         CARNOT_DEQUANT_SLICE_BYTES;
}
// Floats of workspace of a call, at a multiple of 64 bytes: sums of a block of rows and columns and
// weights in BF16, or the workspace of gemm_dequant_f32.
static inline int64_t carnot_dequant_tiles_workspace(const carnot_dequant_shape* shape) {
  const int64_t other = carnot_dequant_workspace(shape->k);
  return other > CARNOT_DEQUANT_TILES_FLOATS ? other : CARNOT_DEQUANT_TILES_FLOATS;
}

// Splits groups [g0, g1) of |gemm->gemm.a|. Any thread; disjoint groups may run at once.
typedef void carnot_split_rows_bf16_fn(const carnot_gemm_dequant_f32* gemm, int64_t g0, int64_t g1,
                                       const carnot_dequant_parts* parts);

// Rows [m0, m1), m0 a multiple of 32, of columns [n0, n1), n0 a multiple of 16. |gemm->workspace|
// has carnot_dequant_tiles_workspace floats. Bits do not depend on how the work is cut. The
// residual may be |c| itself as for carnot_gemm_f32_fn. Any thread.
typedef void carnot_gemm_dequant_tiles_fn(const carnot_gemm_dequant_f32* gemm,
                                          const carnot_dequant_parts* parts, int64_t m0, int64_t m1,
                                          int64_t n0, int64_t n1);

#endif
