// The micro-kernel (register tile) shared by GEMM and convolution; private to their sources.
//   c[i,j] (+)= sum_{t,k} rows[t * row_count + i][k] * b[t * depth + k, j]
// Sums are float32; the weights' type and packing are those of the table that the tile is from.
// K is summed in parts of |part_taps| taps or |part_depth| elements of one tap. Every part is one
// chain of additions in order that starts from zero, and the parts of a tile are added in order:
// the error grows with the root of a part and not of K. The parts follow from K alone, whichever
// tile computes them, and the sum of a tile's parts may be added to what |c| holds: so the bits
// depend neither on tiles nor on threads.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_F32_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_F32_H_

#include <stdbool.h>
#include <stdint.h>

#define TILE_PANEL       16   // columns of a packed panel (formats k1n16 and k2n16)
#define TILE_MAX_ROWS    32   // the tallest tile of any ISA level
#define TILE_F32_ROWS    14   // the tallest over float32 rows
#define TILE_PANEL_DEPTH 832  // elements from one converted row to the next

typedef struct gemm_ukernel_f32 {
  const void* const* rows;  // [taps][row_count]: float32, or what |convert_a| of the table made
  int row_count;
  int64_t taps, depth;
  int64_t part_taps, part_depth;  // all taps of one part, or one tap
  const void* b;                  // first panel, at the first k
  int64_t b_panel;                // bytes from one panel to the next
  int64_t b_taps;                 // of a panel, where |taps_inside|
  float* c;
  int64_t ldc, columns;  // a tile is computed for each of its widths, the last one may have fewer
  // Added when the sum is complete, or NULL. A chain that starts from the bias is rounded at the
  // size of the bias in every addition: in a residual block whose normalizations are folded into
  // large biases that doubled the error of the result.
  const float* bias;
  const float* residual;
  int64_t residual_ld;
  float lo, hi;  // bounds of the result
  bool carry;    // the sum is added to |c|
  bool clip;     // bound the result
} gemm_ukernel_f32;

typedef void (*gemm_ukernel_fn)(const gemm_ukernel_f32* tile);

// Moves to the tile on the right, |panels| further; false after the last.
static inline bool gemm_ukernel_next(gemm_ukernel_f32* tile, int panels) {
  const int64_t columns = panels * TILE_PANEL;
  tile->columns -= columns;
  tile->b = (const char*)tile->b + panels * tile->b_panel;
  tile->c += columns;
  if (tile->bias) tile->bias += columns;
  if (tile->residual) tile->residual += columns;
  return tile->columns > 0;
}

// Copies |count| rows of |taps| runs of |depth| floats to |panel| as bf16, rows TILE_PANEL_DEPTH
// apart: every run is filled up with zeros to an even depth, a row to a multiple of 32.
typedef void (*gemm_convert_a_fn)(const void* const* rows, int count, int64_t taps, int64_t depth,
                                  uint16_t* panel);

// The tiles of one ISA level and type of weights: tiles[p][rows - 1] is 2^p panels wide and exists
// for 1 <= rows <= max_rows[p]; max_rows is 0 where a level has no tile of that width.
typedef struct gemm_ukernels_f32 {
  int weight_bytes;
  int depth_unit;    // a tap's depth is packed as a multiple of it: 1 (k1n16) or 2 (k2n16)
  bool taps_inside;  // |depth_unit| elements of every tap, then the next ones; else tap by tap
  gemm_convert_a_fn convert_a;  // tiles take bf16 rows of one tap that it makes; NULL: float32 rows
  // Around the tiles of a call of |rows| rows, on its thread; NULL: nothing.
  void (*begin)(int64_t rows);
  void (*end)(void);
  int max_rows[3];
  gemm_ukernel_fn tiles[3][TILE_MAX_ROWS];
  // Half a panel wide, for up to max_rows[0] rows; NULL: there are none.
  gemm_ukernel_fn half_tiles[TILE_MAX_ROWS];
} gemm_ukernels_f32;

#endif
