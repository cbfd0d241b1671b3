// The sums of a step of a convolution by AMX tiles: four accumulators of 16 pixels by 16 channels,
// loaded and stored once for all of K. Private to conv2d_tiles_loop.h.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_SUMS_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_SUMS_H_

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/conv/conv2d_tiles_layout.h"
#include "kernel/cpu/gemm/amx_tiles.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum {
  kPanel = 16,  // columns of a tile
  kStepColumns = 2 * kPanel,
  kMostSteps = 64  // of a block
};

typedef struct tiles_call tiles_call;

// A step: 32 pixels by 32 channels over all of K.
typedef struct tiles_step {
  const char* a[2];        // the first pixels of two groups of 16 under tap offset 0
  int64_t stride[2];       // bytes from one pixel of a group to the next
  int groups;              // 1 or 2
  int count;               // pixels
  bool dense;              // pixels are |out[0]| and those behind it, all stored
  bool guarded;            // numbers behind the channels of a tap are not multiplied
  int64_t out[kTileRows];  // output pixels; -1: not stored
} tiles_step;

// What is done beside each tile of K while the tiles multiply.
typedef struct tiles_beside {
  const char *from, *end;  // memory that a later step reads: some lines are fetched
  int64_t lines;           // at a time
  const tiles_step* step;  // an earlier step: some of its rows from |row| on are stored
  int64_t n;
  void* sums;
  int row, rows;  // the next one; how many at a time
} tiles_beside;

// What the steps of a call share.
struct tiles_call {
  tiles_conv conv;
  const void* problem;  // the kernel's
  // Copies |count| pixels of the input, |stride| bytes apart, to pixels |depth| bytes apart.
  void (*copy_pixels)(const tiles_call* call, const char* from, int64_t stride, int64_t count,
                      char* to);
  // Copies |count| pixels of an input row from column |w| on, one behind the other, zeros where
  // they are in the padding. Returns whether all numbers are finite.
  bool (*copy_dense)(const tiles_call* call, const char* row, int64_t w, int64_t count, char* to);
  // Sums of columns from |n| on: sums_of_step with the kernel's type.
  void (*sum)(const tiles_call* call, const tiles_step* s, int64_t n, tiles_beside* beside,
              void* sums);
  // Stores rows [begin, end) of the |sums| [32][32] of columns from |n| on, which it may change.
  void (*store)(const tiles_call* call, const tiles_step* s, int64_t n, int begin, int end,
                void* sums);
  int border;  // the byte of pixels in the padding
  char* scratch;
  const char* weights;
  tiles_layout layout;
  int64_t n0, n1;
  bool streams;       // the weights do not stay in L1
  bool fetches_rows;  // those of the next step, which lie one behind the other
  int64_t panel;      // bytes from one panel of weights to the next
  int64_t offsets[kMostTaps];
};

typedef enum tiles_type { TILES_BF16, TILES_U8S8, TILES_S8S8 } tiles_type;

#define TILES_DOT(type, c, a, b)   \
  do {                             \
    if ((type) == TILES_BF16)      \
      _tile_dpbf16ps(c, a, b);     \
    else if ((type) == TILES_U8S8) \
      _tile_dpbusd(c, a, b);       \
    else                           \
      _tile_dpbssd(c, a, b);       \
  } while (0)

CARNOT_INLINE void store_some(const tiles_call* call, tiles_beside* b) {
  if (!b->step || b->row >= b->step->count) return;
  const int end = b->step->count - b->row < b->rows ? b->step->count : b->row + b->rows;
  call->store(call, b->step, b->n, b->row, end, b->sums);
  b->row = end;
}

CARNOT_INLINE void work_beside(const tiles_call* call, tiles_beside* b) {
  for (int64_t i = 0; i < b->lines && b->from < b->end; ++i, b->from += 64)
    _mm_prefetch(b->from, _MM_HINT_T1);
  store_some(call, b);
}

// Weights that do not stay in L1 are loaded past it, so that the pixels do.
#define TILES_LOAD_WEIGHTS(streams, tile, from) \
  do {                                          \
    if (streams)                                \
      _tile_stream_loadd(tile, from, 64);       \
    else                                        \
      _tile_loadd(tile, from, 64);              \
  } while (0)

// Adds |depth| bytes of K from |a| bytes behind the pixels on.
CARNOT_INLINE void accumulate(tiles_type type, bool streams, int groups, int panels,
                              const tiles_call* call, const tiles_step* s, int64_t a, const char* b,
                              int64_t depth, tiles_beside* beside) {
  for (int64_t k = 0; k < depth; k += kTileBytes, b += kPanel * kTileBytes) {
    TILES_LOAD_WEIGHTS(streams, 6, b);
    _tile_loadd(4, s->a[0] + a + k, s->stride[0]);
    if (panels > 1) TILES_LOAD_WEIGHTS(streams, 7, b + call->panel);
    if (groups > 1) _tile_loadd(5, s->a[1] + a + k, s->stride[1]);
    TILES_DOT(type, 0, 4, 6);
    if (panels > 1) TILES_DOT(type, 1, 4, 7);
    if (groups > 1) TILES_DOT(type, 2, 5, 6);
    if (groups > 1 && panels > 1) TILES_DOT(type, 3, 5, 7);
    work_beside(call, beside);
  }
}

// The sums of 32 pixels by 32 columns, four bytes each, to |sums|.
CARNOT_INLINE void sums_of_shape(tiles_type type, bool streams, int groups, int panels,
                                 const tiles_call* call, const tiles_step* s, const char* b,
                                 tiles_beside* beside, char* sums) {
  const int64_t ld = kStepColumns * 4, depth = call->layout.depth;
  AMX_BARRIER();
  _tile_zero(0);
  if (panels > 1) _tile_zero(1);
  if (groups > 1) _tile_zero(2);
  if (groups > 1 && panels > 1) _tile_zero(3);
  for (int64_t k = 0; k < depth; k += kChannelBlock) {
    const int64_t part = min_i64(kChannelBlock, depth - k);
    for (int64_t t = 0; t < call->layout.taps; ++t)
      accumulate(type, streams, groups, panels, call, s, call->offsets[t] + k,
                 b + (t * depth + k) * kPanel, part, beside);
  }
  _tile_stored(0, sums, ld);
  if (panels > 1) _tile_stored(1, sums + kPanel * 4, ld);
  if (groups > 1) _tile_stored(2, sums + kGroupRows * ld, ld);
  if (groups > 1 && panels > 1) _tile_stored(3, sums + kGroupRows * ld + kPanel * 4, ld);
  AMX_BARRIER();
}

// The channels under tap |t| of 16 pixels that lie |stride| apart from |a| on, zeros behind them.
static void copy_tap(const tiles_call* call, int64_t t, const char* a, int64_t stride, char* to) {
  const tiles_conv* c = &call->conv;
  const int64_t s = t % call->layout.row_taps * c->joined;
  const int64_t bytes = min_i64(c->joined, c->s - s) * c->c * c->element;
  const __mmask64 mask = bytes < kTileBytes ? (UINT64_C(1) << bytes) - 1 : ~UINT64_C(0);
  for (int i = 0; i < kGroupRows; ++i, a += stride, to += kTileBytes)
    _mm512_store_si512(to, _mm512_maskz_loadu_epi8(mask, a));
}

// The same sums where numbers that are not finite lie behind the channels of a tap.
static void guarded_sums(tiles_type type, const tiles_call* call, const tiles_step* s, int64_t n,
                         tiles_beside* beside, char* sums) {
  char tile[kGroupRows * kTileBytes] __attribute__((aligned(64)));
  const int64_t ld = kStepColumns * 4;
  while (beside->step && beside->row < beside->step->count) work_beside(call, beside);
  for (int g = 0; g < s->groups; ++g) {
    for (int64_t panel = n; panel < min_i64(call->n1, n + kStepColumns); panel += kPanel) {
      const char* b = call->weights + panel / kPanel * call->panel;
      AMX_BARRIER();
      _tile_zero(0);
      for (int64_t t = 0; t < call->layout.taps; ++t, b += kPanel * kTileBytes) {
        copy_tap(call, t, s->a[g] + call->offsets[t], s->stride[g], tile);
        AMX_BARRIER();
        _tile_loadd(4, tile, kTileBytes);
        _tile_loadd(6, b, 64);
        TILES_DOT(type, 0, 4, 6);
        AMX_BARRIER();
      }
      _tile_stored(0, sums + g * kGroupRows * ld + (panel - n) * 4, ld);
      AMX_BARRIER();
    }
  }
}

CARNOT_INLINE void sums_as(tiles_type type, bool streams, const tiles_call* call,
                           const tiles_step* s, int64_t n, tiles_beside* beside, char* sums) {
  const char* b = call->weights + n / kPanel * call->panel;
  const bool two = call->n1 - n > kPanel;
  if (s->groups == 2 && two)
    sums_of_shape(type, streams, 2, 2, call, s, b, beside, sums);
  else if (s->groups == 2)
    sums_of_shape(type, streams, 2, 1, call, s, b, beside, sums);
  else if (two)
    sums_of_shape(type, streams, 1, 2, call, s, b, beside, sums);
  else
    sums_of_shape(type, streams, 1, 1, call, s, b, beside, sums);
}

CARNOT_INLINE void sums_of_step(tiles_type type, const tiles_call* call, const tiles_step* s,
                                int64_t n, tiles_beside* beside, void* sums) {
  if (s->guarded)
    guarded_sums(type, call, s, n, beside, sums);
  else if (call->streams)
    sums_as(type, true, call, s, n, beside, sums);
  else
    sums_as(type, false, call, s, n, beside, sums);
}

#endif  // CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_SUMS_H_
