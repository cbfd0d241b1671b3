// The register tile shared by GEMM and convolution; private to their sources.
//   c[i,j] (+)= sum_{t,k} rows[t * row_count + i][k] * b[t * depth + k, j]
// Every element is one chain of additions over (t, k) in order, whichever tile computes it, and a
// chain may be cut and carried on through |c|: so the bits depend neither on tiles nor on threads.
#ifndef CARNOT_KERNEL_CPU_GEMM_TILE_F32_H_
#define CARNOT_KERNEL_CPU_GEMM_TILE_F32_H_

#include <stdbool.h>
#include <stdint.h>

#define TILE_PANEL    16  // columns of a packed panel (format k1n16)
#define TILE_MAX_ROWS 14  // the tallest tile of any ISA level

typedef struct gemm_tile_f32 {
  const float* const* rows;  // [taps][row_count]
  int64_t taps, depth;
  const float* b;   // first panel, at the first k
  int64_t b_panel;  // floats from one panel to the next
  float* c;
  int64_t ldc, columns;  // columns: how many of the tile's exist
  const float* bias;     // starts the chain, or NULL for zero; ignored if |carry|
  const float* residual;
  int64_t residual_ld;
  float lo, hi;  // bounds of the result
  bool carry;    // the chain goes on from |c|
  bool clip;     // bound the result
} gemm_tile_f32;

typedef void (*gemm_tile_fn)(const gemm_tile_f32* tile);

// The tiles of one ISA level: tiles[p][rows - 1] is 2^p panels wide and exists for
// 1 <= rows <= max_rows[p]; max_rows is 0 where a level has no tile of that width.
typedef struct gemm_tiles_f32 {
  int max_rows[3];
  gemm_tile_fn tiles[3][TILE_MAX_ROWS];
} gemm_tiles_f32;

#endif
