// AMX micro-kernel over bfloat16 parts: 32 rows by 32 columns of one part of K, with the end of its
// sums. Included by gemm_loop_split.h only.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_SPLIT_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_SPLIT_H_

#if defined(__AMX_BF16__)

#include "kernel/cpu/gemm/gemm_ukernel_body.h"
#include "kernel/cpu/gemm/split_image.h"

enum {
  kPartSteps = 12,    // of a part of K, at most
  kTapPartSteps = 9,  // where there are several taps: a slice of a 3x3 filter
  kRows = 2 * kAmxRows,
  kColumns = 2 * TILE_PANEL,
  kMostColumns = CARNOT_SPLIT_MOST_COLUMNS,  // of a block
  kMostSums = 48 << 10,                      // floats
  kStreams = 4,                              // of software prefetches, of a panel of weights
  kAddedRows = 4,                            // of a tile that are added at a time
  kStayingBytes = 16 << 10,                  // of weights that stay in L1 beside pixels and sums
};

// Steps [s0, s1) of a chunk of channels.
typedef struct k_part {
  int64_t s0, s1;
} k_part;

typedef struct split_block_call {
  const split_image* image;
  int64_t n, p0, rows;     // image, first output row, output rows
  int64_t count;           // outputs of all groups; those of the last one end here
  const int64_t* groups;   // of 16 outputs: pixels from the first of the block to the group's first
  const int64_t* outputs;  // 16 of each group: the row of dst, or -1
  const char* pixels;
  int64_t steps, steps_of_tap;         // of the chunk
  int64_t slice0, slices_of_tap;       // the first slice of the chunk; slices of a tap in all
  int64_t slice_weights, panel_bytes;  // bytes of weights
  int64_t n_end;                       // columns of the call
  float lo, hi;                        // bounds of results
  float* sums;  // unfinished ones; of two panels alone where there is one chunk
  int64_t sums_ld;
} split_block_call;

// Where the tiles of a tile row are, step by step.
typedef struct split_steps {
  int64_t count;
  int64_t a[kPartSteps], b[kPartSteps];  // bytes from the first row, and from the first panel
} split_steps;

// The rows of A of a tile: the first pixels of its groups, and bytes from one pixel to the next.
typedef struct split_pixels {
  const char* group[2];
  int64_t pitch;
} split_pixels;

// Where a tile of one part of K goes.
typedef struct split_target {
  int64_t m, n;      // its first output, counted over groups, and its first column
  float* sums;       // of the parts before and of this one
  bool first, last;  // nothing is in |sums| yet; the result goes to dst
} split_target;

// The sums of a tile: in the accumulators, or stored at |at|.
typedef struct split_sums {
  split_target to;
  float* at;
  int64_t ld;
  int groups, panels;  // 0: there is none
} split_sums;

// Rows of a matrix that are split while the tiles of the rows before them are multiplied.
typedef struct split_rows_ahead {
  const float* src;   // the next row
  int64_t ld, depth;  // floats
  int64_t rows, k;    // rows that are left; of the next one, where its next slice begins
  char *row, *to;     // where its first slice and its next slice go
  int64_t slice;      // bytes
  int64_t step, due;  // slices of all that are due at a time, and those not split in time
  int64_t turns;      // |step| counts shares of so many
  split_range range;  // of all rows
} split_rows_ahead;

// What overlaps with the multiplications of a tile. Weights of the next tiles are prefetched into
// L2 in 2 * kStreams streams, kStreams of each panel. The accumulators of a tile are stored one by
// one as the next tile starts, and its rows are added or finished while that tile is multiplied: a
// store waits for the last multiplication into its accumulator, and the next one for the store.
typedef struct split_overlap {
  const char* ahead;
  int64_t panel, part;    // bytes from one panel to the next; of a part
  int64_t lines;          // of a part that are left
  int64_t step, due;      // lines of all parts to fetch at a time, and those not fetched in time
  split_sums last, done;  // of the tile before, and of that before it
  int row;                // of |done|: the next one to finish
  int idle;               // multiplications of tiles since a tile was stored
  split_rows_ahead rows;
} split_overlap;

// ---- tiles ----

// Accumulators 0 to 3, rows of A in 4 and 5, columns of B in 6 and 7.
CARNOT_INLINE void load_a(int groups, const split_pixels* a, int64_t at) {
  _tile_loadd(4, a->group[0] + at, a->pitch);
  if (groups > 1) _tile_loadd(5, a->group[1] + at, a->pitch);
}

#define SPLIT_LOAD_B(streams, t, from)           \
  do {                                           \
    if (streams)                                 \
      _tile_stream_loadd(t, from, kAmxRowBytes); \
    else                                         \
      _tile_loadd(t, from, kAmxRowBytes);        \
  } while (0)

CARNOT_INLINE void load_b(bool streams, int panels, const char* b, int64_t panel) {
  SPLIT_LOAD_B(streams, 6, b);
  if (panels > 1) SPLIT_LOAD_B(streams, 7, b + panel);
}

CARNOT_INLINE void multiply(int groups, int panels) {
  _tile_dpbf16ps(0, 4, 6);
  if (panels > 1) _tile_dpbf16ps(1, 4, 7);
  if (groups > 1) _tile_dpbf16ps(2, 5, 6);
  if (groups > 1 && panels > 1) _tile_dpbf16ps(3, 5, 7);
}

// The same, and loads the next A, or B, tiles as soon as the current ones have been read.
CARNOT_INLINE void multiply_then_a(int groups, int panels, const split_pixels* a, int64_t at) {
  _tile_dpbf16ps(0, 4, 6);
  if (panels > 1) _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(4, a->group[0] + at, a->pitch);
  if (groups > 1) _tile_dpbf16ps(2, 5, 6);
  if (groups > 1 && panels > 1) _tile_dpbf16ps(3, 5, 7);
  if (groups > 1) _tile_loadd(5, a->group[1] + at, a->pitch);
}

// The same, and loads the A and B tiles of the next step.
CARNOT_INLINE void multiply_then_both(bool streams, int groups, int panels, const split_pixels* a,
                                      int64_t at, const char* b, int64_t panel) {
  _tile_dpbf16ps(0, 4, 6);
  if (panels > 1) _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(4, a->group[0] + at, a->pitch);
  if (groups > 1) _tile_dpbf16ps(2, 5, 6);
  SPLIT_LOAD_B(streams, 6, b);
  if (groups > 1 && panels > 1) _tile_dpbf16ps(3, 5, 7);
  if (groups > 1) _tile_loadd(5, a->group[1] + at, a->pitch);
  if (panels > 1) SPLIT_LOAD_B(streams, 7, b + panel);
}

CARNOT_INLINE void multiply_then_b(bool streams, int groups, int panels, const char* b,
                                   int64_t panel) {
  _tile_dpbf16ps(0, 4, 6);
  if (groups > 1) _tile_dpbf16ps(2, 5, 6);
  SPLIT_LOAD_B(streams, 6, b);
  if (panels > 1) _tile_dpbf16ps(1, 4, 7);
  if (groups > 1 && panels > 1) _tile_dpbf16ps(3, 5, 7);
  if (panels > 1) SPLIT_LOAD_B(streams, 7, b + panel);
}

// ---- what overlaps with multiplications ----

// From now on |count| slices of weights of each panel from |ahead| on are prefetched, evenly over
// |multiplications|; NULL: none.
static void fetch_weights(const split_block_call* call, int panels, const char* ahead,
                          int64_t count, int64_t multiplications, split_overlap* b) {
  b->ahead = ahead;
  b->panel = panels > 1 ? call->panel_bytes : 0;
  b->lines = ahead ? (count * call->slice_weights / 64 + kStreams - 1) / kStreams : 0;
  b->part = b->lines * 64, b->due = 0;
  b->step = (b->lines * 2 * kStreams + multiplications - 1) / multiplications;
}

CARNOT_INLINE void fetch_ahead(split_overlap* b) {
  for (b->due += b->step; b->due >= 2 * kStreams && b->lines > 0; b->due -= 2 * kStreams) {
    CARNOT_UNROLL
    for (int i = 0; i < kStreams; ++i) {
      _mm_prefetch(b->ahead + i * b->part, _MM_HINT_T1);
      _mm_prefetch(b->ahead + b->panel + i * b->part, _MM_HINT_T1);
    }
    b->ahead += 64, --b->lines;
  }
}

// Adds kAddedRows rows from |row| on to the sums of the parts before.
CARNOT_INLINE void add_rows(int panels, const split_sums* s, int row, int64_t ld) {
  const float* from = s->at + row * kColumns;
  float* to = s->to.sums + row * ld;
  CARNOT_UNROLL
  for (int i = 0; i < kAddedRows * panels; ++i) {
    float* sum = to + i / panels * ld + i % panels * TILE_PANEL;
    v_store(sum,
            v_add(v_load(sum), v_load(from + i / panels * kColumns + i % panels * TILE_PANEL)));
  }
}

// Bounds are infinite where there are none; NaN passes both.
CARNOT_INLINE void finish_as(bool whole, bool adds, bool first, const split_block_call* call,
                             const split_sums* s, int begin, int end) {
  // Copies: the compiler takes a stored vector for a change of whatever pointers lead to.
  const carnot_conv2d_f32* c = call->image->conv;
  const carnot_epilogue_f32* e = &c->epilogue;
  const int64_t n = s->to.n, left = call->n_end - n, ld = c->ld, residual_ld = e->residual_ld,
                at_ld = s->ld, sums_ld = call->sums_ld;
  const int64_t* outputs = call->outputs + s->to.m;
  const float *at = s->at + begin * at_ld, *sums = s->to.sums + begin * sums_ld,
              *residuals = adds ? e->residual + n : NULL;
  float* results = c->dst + n;
  const __mmask32 mask = whole ? 0xffffffff : (__mmask32)((UINT64_C(1) << left) - 1);
  const vf32 lo = v_set(call->lo), hi = v_set(call->hi);
  vf32 bias[2];
  CARNOT_UNROLL
  for (int v = 0; v < 2; ++v) {
    const __mmask16 part = (__mmask16)(mask >> 16 * v);
    // x + -0 is x.
    bias[v] = e->bias ? _mm512_maskz_loadu_ps(part, e->bias + n + v * TILE_PANEL) : v_set(-0.0f);
  }
  for (int i = begin; i < end; ++i, at += at_ld, sums += sums_ld) {
    const int64_t m = outputs[i];
    if (m < 0) continue;
    float* dst = results + m * ld;
    CARNOT_UNROLL
    for (int v = 0; v < 2; ++v) {
      const __mmask16 part = (__mmask16)(mask >> 16 * v);
      vf32 x = v_load(at + v * TILE_PANEL);
      if (!first) x = v_add(v_load(sums + v * TILE_PANEL), x);
      x = v_add(x, bias[v]);
      if (adds)
        x = v_add(x, _mm512_maskz_loadu_ps(part, residuals + m * residual_ld + v * TILE_PANEL));
      x = v_min_to(hi, v_max_to(lo, x));
      _mm512_mask_storeu_ps(dst + v * TILE_PANEL, part, x);
    }
  }
}

CARNOT_INLINE void finish_parts(bool whole, bool adds, const split_block_call* call,
                                const split_sums* s, int begin, int end) {
  if (s->to.first)
    finish_as(whole, adds, /*first=*/true, call, s, begin, end);
  else
    finish_as(whole, adds, /*first=*/false, call, s, begin, end);
}

// Stores kFinishedRows rows of |done| to dst.
static void finish_rows(const split_block_call* call, split_overlap* b) {
  enum { kFinishedRows = 2 * kAddedRows };
  const split_sums* s = &b->done;
  const int rows = (int)min_i64(s->groups * kAmxRows, call->count - s->to.m);
  const int end = rows - b->row < kFinishedRows ? rows : b->row + kFinishedRows;
  const bool whole = call->n_end - s->to.n >= kColumns, adds = call->image->conv->epilogue.residual;
  if (whole && adds) finish_parts(true, true, call, s, b->row, end);
  if (whole && !adds) finish_parts(true, false, call, s, b->row, end);
  if (!whole && adds) finish_parts(false, true, call, s, b->row, end);
  if (!whole && !adds) finish_parts(false, false, call, s, b->row, end);
  b->row = end;
  if (end == rows) b->done.groups = 0;
}

CARNOT_INLINE void finish_some(const split_block_call* call, split_overlap* b) {
  const split_sums* s = &b->done;
  if (!s->groups) return;
  if (s->to.last) {
    finish_rows(call, b);
    return;
  }
  if (s->panels > 1)
    add_rows(2, s, b->row, call->sums_ld);
  else
    add_rows(1, s, b->row, call->sums_ld);
  b->row += kAddedRows;
  if (b->row == s->groups * kAmxRows) b->done.groups = 0;
}

static void finish_rest(const split_block_call* call, split_overlap* b) {
  while (b->done.groups) finish_some(call, b);
}

CARNOT_INLINE void split_slices(int parts, split_rows_ahead* s) {
  const float* src = s->src + s->k;
  char* to = s->to;
  split_range range = s->range;
  int64_t left = s->depth - s->k, due = s->due;
  const int64_t turns = s->turns, slice = s->slice;
  for (; due >= turns && s->rows > 0; due -= turns) {
    split_slice(parts, src, left, to, &range);
    src += kStepDepth, left -= kStepDepth, to += slice;
    if (left > 0) continue;
    split_range_end_row(&range);
    --s->rows;
    src = s->src += s->ld, left = s->depth;
    to = s->row += parts * kAmxRowBytes;
  }
  s->k = s->depth - left, s->to = to, s->range = range;
  s->due = due;
  if (!s->rows) s->step = s->due = 0;
}

static void split_slices_of_3(split_rows_ahead* s) { split_slices(3, s); }
static void split_slices_of_2(split_rows_ahead* s) { split_slices(2, s); }

CARNOT_INLINE void split_ahead(int parts, split_rows_ahead* s) {
  s->due += s->step;
  if (parts == 1 || s->due < s->turns) return;
  if (parts == 3)
    split_slices_of_3(s);
  else
    split_slices_of_2(s);
}

CARNOT_INLINE void overlap(int parts, const split_block_call* call, split_overlap* b) {
  if (++b->idle >= kAmxStoreInterval) {
    AMX_KEEP_STORES_AWAKE(6);
    b->idle = 0;
  }
  fetch_ahead(b);
  finish_some(call, b);
  split_ahead(parts, &b->rows);
}

// What is first and not last lies where the next parts are added.
static bool is_direct(const split_target* to) { return to->first && !to->last; }

// The last tile has been stored.
static void pass_on(const split_block_call* call, split_overlap* b) {
  finish_rest(call, b);
  if (!is_direct(&b->last.to)) b->done = b->last, b->row = 0;
  b->last.groups = 0;
}

#define SPLIT_STORE(t, g, p, s) \
  _tile_stored(t, (s)->at + (g)*kAmxRows * (s)->ld + (p)*TILE_PANEL, (s)->ld * 4)

static void store_last(split_overlap* b) {
  const split_sums* s = &b->last;
  if (!s->groups) return;
  AMX_BARRIER();
  SPLIT_STORE(0, 0, 0, s);
  if (s->panels > 1) SPLIT_STORE(1, 0, 1, s);
  if (s->groups > 1) SPLIT_STORE(2, 1, 0, s);
  if (s->groups > 1 && s->panels > 1) SPLIT_STORE(3, 1, 1, s);
  AMX_BARRIER();
}

static void finish_all(const split_block_call* call, split_overlap* b) {
  if (is_direct(&b->last.to)) finish_rest(call, b);
  store_last(b);
  if (b->last.groups) pass_on(call, b);
  finish_rest(call, b);
}

// ---- tiles of one part of K ----

// The first multiplications of a tile: each accumulator of the last tile is stored, then cleared.
CARNOT_INLINE void begin_tile(int groups, int panels, const split_block_call* call,
                              split_overlap* b) {
#define SPLIT_BEGIN(t, g, p, a, w)              \
  do {                                          \
    if (stored) SPLIT_STORE(t, g, p, &b->last); \
    _tile_zero(t);                              \
    _tile_dpbf16ps(t, a, w);                    \
  } while (0)
  const bool stored = b->last.groups == groups && b->last.panels == panels;
  AMX_BARRIER();
  SPLIT_BEGIN(0, 0, 0, 4, 6);
  if (panels > 1) SPLIT_BEGIN(1, 0, 1, 4, 7);
  if (groups > 1) SPLIT_BEGIN(2, 1, 0, 5, 6);
  if (groups > 1 && panels > 1) SPLIT_BEGIN(3, 1, 1, 5, 7);
  AMX_BARRIER();
#undef SPLIT_BEGIN
  b->idle = 0;
  fetch_ahead(b);
  if (b->last.groups) pass_on(call, b);
}

// Multiplies parts i and j with i + j < |parts|, in an order in which one operand changes. The
// first A and B tiles are loaded; those of the next step, at |next_at| and |next|, are when it
// ends, NULL: there is none.
CARNOT_INLINE void split_step(int parts, bool streams, int groups, int panels, bool begins,
                              const split_block_call* call, const split_pixels* a, int64_t at,
                              const char* b, int64_t next_at, const char* next,
                              split_overlap* side) {
  const int64_t panel = call->panel_bytes;
  const char* next_b = b + (parts - 2) * kTileBytes;
  if (begins && parts > 1) {
    begin_tile(groups, panels, call, side);
    load_b(streams, panels, next_b, panel);
  } else if (parts > 1) {
    multiply_then_b(streams, groups, panels, next_b, panel);
    overlap(parts, call, side);
  }
  if (parts > 1) {
    multiply_then_a(groups, panels, a, at + kAmxRowBytes);
    overlap(parts, call, side);
  }
  if (parts > 2) {
    multiply_then_b(streams, groups, panels, b, panel);
    overlap(parts, call, side);
    multiply_then_a(groups, panels, a, at + 2 * kAmxRowBytes);
    overlap(parts, call, side);
    multiply_then_a(groups, panels, a, at);
    overlap(parts, call, side);
  }
  if (parts == 1 && begins) {
    begin_tile(groups, panels, call, side);
    if (next) load_a(groups, a, next_at), load_b(streams, panels, next, panel);
    return;
  }
  if (next)
    multiply_then_both(streams, groups, panels, a, next_at, next, panel);
  else
    multiply(groups, panels);
  overlap(parts, call, side);
}

// The sums of a tile, which stay in the accumulators; |tile| is where they go from there.
CARNOT_INLINE void split_tile(int parts, bool streams, int groups, int panels,
                              const split_block_call* call, const split_pixels* a, const char* b,
                              const split_steps* steps, const split_target* to, float* tile,
                              split_overlap* side) {
  // Accumulators stored straight to |sums| would overwrite what |done| still adds.
  if (is_direct(&side->last.to)) finish_rest(call, side);
  if (side->last.groups && (side->last.groups != groups || side->last.panels != panels)) {
    store_last(side);
    pass_on(call, side);
  }
  const char* first = b + (parts - 1) * kTileBytes;
  load_a(groups, a, steps->a[0]);
  load_b(streams, panels, first + steps->b[0], call->panel_bytes);
  for (int64_t s = 0; s < steps->count; ++s) {
    const bool more = s + 1 < steps->count;
    const int64_t next_at = more ? steps->a[s + 1] : 0;
    const char* next = more ? first + steps->b[s + 1] : NULL;
    if (s == 0)
      split_step(parts, streams, groups, panels, /*begins=*/true, call, a, steps->a[s],
                 b + steps->b[s], next_at, next, side);
    else
      split_step(parts, streams, groups, panels, /*begins=*/false, call, a, steps->a[s],
                 b + steps->b[s], next_at, next, side);
  }
  const bool direct = is_direct(to);
  side->last = (split_sums){*to, direct ? to->sums : tile, direct ? call->sums_ld : kColumns,
                            groups, panels};
}

CARNOT_INLINE void split_tile_of(int parts, bool streams, int groups, int panels,
                                 const split_block_call* call, const split_pixels* a, const char* b,
                                 const split_steps* steps, const split_target* to, float* tile,
                                 split_overlap* side) {
  if (groups > 1 && panels > 1)
    split_tile(parts, streams, 2, 2, call, a, b, steps, to, tile, side);
  else if (groups > 1)
    split_tile(parts, streams, 2, 1, call, a, b, steps, to, tile, side);
  else if (panels > 1)
    split_tile(parts, streams, 1, 2, call, a, b, steps, to, tile, side);
  else
    split_tile(parts, streams, 1, 1, call, a, b, steps, to, tile, side);
}

#endif
#endif
