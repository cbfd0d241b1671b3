// AMX micro-kernel over bfloat16 parts: 32 rows by 32 columns of one part of K, with the end of its
// sums. Included by gemm_loop_split.h only.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_SPLIT_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_SPLIT_H_

#if defined(__AMX_BF16__)

#include "kernel/cpu/gemm/gemm_ukernel_body.h"
#include "kernel/cpu/gemm/split_image.h"

enum {
  kPartSteps = 4,      // of three or two parts
  kRoundedSteps = 16,  // of numbers rounded to one part
  kRows = 2 * kAmxRows,
  kColumns = 2 * TILE_PANEL,
  kMostColumns = 256,    // of a block
  kMostSums = 48 << 10,  // floats
};

// Steps [s0, s1) of a chunk of channels.
typedef struct k_part {
  int64_t s0, s1;
} k_part;

typedef struct split_block_call {
  const split_image* image;
  int64_t n, p0, rows;     // image, first output row, output rows
  int64_t m_begin, m_end;  // outputs of the block that are wanted, counted over |width|
  const char* pixels;
  int64_t steps, steps_of_tap;         // of the chunk
  int64_t slice0, slices_of_tap;       // the first slice of the chunk; slices of a tap in all
  int64_t slice_weights, panel_bytes;  // bytes of weights
  const int64_t* outputs;              // of m_begin and on: the row of dst, or -1
  int64_t n_end;                       // columns of the call
  gemm_ukernel_f32 end;                // what is the same in all ends of sums
  float* sums;  // unfinished ones; of two panels alone where there is one chunk
  int64_t sums_ld;
} split_block_call;

// Where the tiles of a tile row are, step by step.
typedef struct split_steps {
  int64_t count;
  int64_t a[kRoundedSteps], b[kRoundedSteps];  // bytes from the first row, and from the first panel
} split_steps;

// Weights that the next tiles read, fetched beside the products of these.
typedef struct split_ahead {
  const char* at;
  int64_t panel;    // bytes from one panel to the next
  int lines, step;  // lines left of each panel; lines at a time
} split_ahead;

CARNOT_INLINE void fetch_ahead(split_ahead* ahead) {
  if (ahead->lines <= 0) return;
  for (int i = 0; i < ahead->step; ++i) {
    _mm_prefetch(ahead->at + i * 64, _MM_HINT_T1);
    _mm_prefetch(ahead->at + ahead->panel + i * 64, _MM_HINT_T1);
  }
  ahead->at += ahead->step * 64;
  ahead->lines -= ahead->step;
}

// ---- tiles ----

// Accumulators 0 to 3, rows of A in 4 and 5, columns of B in 6 and 7.
CARNOT_INLINE void load_a(int groups, const char* a, int64_t pitch) {
  _tile_loadd(4, a, pitch);
  if (groups > 1) _tile_loadd(5, a + kAmxRows * pitch, pitch);
}

CARNOT_INLINE void load_b(int panels, const char* b, int64_t panel, int part) {
  _tile_loadd(6, b + part * kTileBytes, kAmxRowBytes);
  if (panels > 1) _tile_loadd(7, b + panel + part * kTileBytes, kAmxRowBytes);
}

CARNOT_INLINE void multiply(int groups, int panels) {
  _tile_dpbf16ps(0, 4, 6);
  if (panels > 1) _tile_dpbf16ps(1, 4, 7);
  if (groups > 1) _tile_dpbf16ps(2, 5, 6);
  if (groups > 1 && panels > 1) _tile_dpbf16ps(3, 5, 7);
}

// The products of parts i and j with i + j < |parts|, in an order in which one operand changes.
CARNOT_INLINE void split_step(int parts, int groups, int panels, const char* a, int64_t pitch,
                              const char* b, int64_t panel, split_ahead* ahead) {
  load_a(groups, a, pitch);
  if (parts == 1) {
    load_b(panels, b, panel, 0);
    multiply(groups, panels);
    fetch_ahead(ahead);
    return;
  }
  if (parts > 2) {
    load_b(panels, b, panel, 2);
    multiply(groups, panels);
    fetch_ahead(ahead);
  }
  load_b(panels, b, panel, 1);
  multiply(groups, panels);
  fetch_ahead(ahead);
  if (parts == 2) {
    load_b(panels, b, panel, 0);
    multiply(groups, panels);
    fetch_ahead(ahead);
  }
  load_a(groups, a + kAmxRowBytes, pitch);
  multiply(groups, panels);
  fetch_ahead(ahead);
  if (parts == 2) return;
  load_b(panels, b, panel, 0);
  multiply(groups, panels);
  fetch_ahead(ahead);
  load_a(groups, a + 2 * kAmxRowBytes, pitch);
  multiply(groups, panels);
  fetch_ahead(ahead);
  load_a(groups, a, pitch);
  multiply(groups, panels);
  fetch_ahead(ahead);
}

CARNOT_INLINE void store_tiles(int groups, int panels, float* to, int64_t ld) {
  const int64_t bytes = ld * (int64_t)sizeof *to;
  _tile_stored(0, to, bytes);
  if (panels > 1) _tile_stored(1, to + TILE_PANEL, bytes);
  if (groups > 1) _tile_stored(2, to + kAmxRows * ld, bytes);
  if (groups > 1 && panels > 1) _tile_stored(3, to + kAmxRows * ld + TILE_PANEL, bytes);
}

// Where a tile of one part of K goes.
typedef struct split_target {
  int64_t m, n;      // its first output, counted from m_begin, and its first column
  float* sums;       // of the parts before and of this one
  bool first, last;  // nothing is in |sums| yet; the result goes to dst
} split_target;

CARNOT_INLINE void add_tile(int groups, int panels, const float* tile, float* sums, int64_t ld) {
  for (int i = 0; i < groups * kAmxRows; ++i) {
    CARNOT_UNROLL
    for (int j = 0; j < panels * TILE_PANEL; j += V_LANES) {
      float* sum = sums + i * ld + j;
      v_store(sum, v_add(v_load(sum), v_load(tile + i * kColumns + j)));
    }
  }
}

CARNOT_INLINE void finish_tile(int groups, int panels, const split_block_call* call,
                               const split_target* to, const float* tile) {
  const carnot_conv2d_f32* c = call->image->conv;
  const carnot_epilogue_f32* e = &c->epilogue;
  const int64_t rows = min_i64(groups * kAmxRows, call->m_end - call->m_begin - to->m);
  gemm_ukernel_f32 row = call->end;
  row.columns = call->n_end - to->n;
  row.bias = e->bias ? e->bias + to->n : NULL;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t m = call->outputs[to->m + i];
    if (m < 0) continue;
    row.c = c->dst + m * c->ld + to->n;
    row.residual = e->residual ? e->residual + m * e->residual_ld + to->n : NULL;
    vf32 acc[2];
    CARNOT_UNROLL
    for (int j = 0; j < panels; ++j) {
      acc[j] = v_load(tile + i * kColumns + j * V_LANES);
      if (!to->first) acc[j] = v_add(v_load(to->sums + i * call->sums_ld + j * V_LANES), acc[j]);
    }
    tile_finish(1, panels, &row, acc);
  }
}

// One tile of one part of K.
CARNOT_INLINE void split_tile(int parts, int groups, int panels, const split_block_call* call,
                              const char* a, const char* b, const split_steps* steps,
                              const split_target* to, split_ahead* ahead) {
  const int64_t pitch = call->image->pitch, ld = call->sums_ld;
  float tile[kRows * kColumns] __attribute__((aligned(64)));
  AMX_BARRIER();
  _tile_zero(0);
  if (panels > 1) _tile_zero(1);
  if (groups > 1) _tile_zero(2);
  if (groups > 1 && panels > 1) _tile_zero(3);
  for (int64_t s = 0; s < steps->count; ++s) {
    split_step(parts, groups, panels, a + steps->a[s], pitch, b + steps->b[s], call->panel_bytes,
               ahead);
  }
  const bool direct = to->first && !to->last;
  store_tiles(groups, panels, direct ? to->sums : tile, direct ? ld : kColumns);
  AMX_BARRIER();
  if (to->last)
    finish_tile(groups, panels, call, to, tile);
  else if (!direct)
    add_tile(groups, panels, tile, to->sums, ld);
}

#endif
#endif
