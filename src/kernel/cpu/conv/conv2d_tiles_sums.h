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
  kMostSteps = 64,  // of a block
  kStreams = 8,     // of software prefetches
  kEpilogueBytes = 320
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

// Sums of a step for columns from |n| on.
typedef struct tiles_sums {
  const tiles_step* step;
  int64_t n;
  char* sums;  // [32][32], four bytes each
  int shape;   // TILES_SHAPE of those that are in the accumulators yet; 0: none
} tiles_sums;

#define TILES_SHAPE(groups, panels) (2 * (groups) + (panels))

// What overlaps with the multiplications of each tile of K. The sums of a step leave the
// accumulators one by one as those of the next step begin, and become results during the step after
// that: a tile store waits for the last multiplication into its tile, and the next multiplication
// for the store.
typedef struct tiles_overlap {
  // Memory from |from| on that a later step reads is prefetched into L2 in kStreams streams of
  // |part| bytes each: lines |at| to |end| of the first stream are left.
  const char *from, *at, *end;
  int64_t part;
  int64_t lines, due;     // to fetch at a time, and those not fetched in time
  tiles_sums last, done;  // of the step before, and of that before it
  int row, rows;          // of |done|: the next one to store; how many at a time
  int idle;               // tiles of K since a tile was stored
  char state[kEpilogueBytes] __attribute__((aligned(64)));  // of |done|, by |prepare|
} tiles_overlap;

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
  void (*sum)(const tiles_call* call, const tiles_step* s, int64_t n, tiles_overlap* overlap,
              char* sums);
  // Optional. Makes the kernel's |state| for results in columns from |n| on.
  void (*prepare)(const tiles_call* call, int64_t n, void* state);
  // Stores rows [begin, end) of the |sums| [32][32] of columns from |n| on, which it may change.
  void (*store)(const tiles_call* call, const void* state, const tiles_step* s, int64_t n,
                int begin, int end, void* sums);
  int border;  // the byte of pixels in the padding
  char* scratch;
  const char* weights;
  tiles_layout layout;
  int64_t n0, n1;
  int64_t n_next;     // the end of the columns whose weights are read behind those up to n1
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

CARNOT_INLINE void store_some(const tiles_call* call, tiles_overlap* b) {
  const tiles_sums* done = &b->done;
  if (!done->step || b->row >= done->step->count) return;
  const int end = done->step->count - b->row < b->rows ? done->step->count : b->row + b->rows;
  call->store(call, b->state, done->step, done->n, b->row, end, done->sums);
  b->row = end;
}

// The hardware prefetcher follows each page on its own, and one page keeps too few lines in flight
// to hide the latency of L3 and DRAM. So one line of each stream at a time.
CARNOT_INLINE void fetch_some(tiles_overlap* b) {
  for (b->due += b->lines; b->due >= kStreams && b->at < b->end; b->due -= kStreams, b->at += 64) {
    CARNOT_UNROLL
    for (int i = 0; i < kStreams; ++i) _mm_prefetch(b->at + i * b->part, _MM_HINT_T1);
  }
}

// From now on |bytes| from |from| on are prefetched; what is left of them, if they already are.
static void fetch_range(tiles_overlap* b, const char* from, int64_t bytes) {
  const int64_t part = (bytes + kStreams * 64 - 1) / (kStreams * 64) * 64;
  if (b->from == from && b->part == part) return;
  b->from = b->at = from, b->end = from + part;
  b->part = part, b->due = 0;
}

// Once per tile of K.
CARNOT_INLINE void stay_awake(tiles_overlap* b) {
  if (++b->idle < kAmxStoreInterval) return;
  AMX_KEEP_STORES_AWAKE(6);
  b->idle = 0;
}

enum { kSumsLd = kStepColumns * 4 };

// Stores accumulator |t|, of group |g| and panel |p|, of |sums|.
#define TILES_STORE(t, g, p, sums) \
  _tile_stored(t, (sums) + (g)*kGroupRows * kSumsLd + (p)*kPanel * 4, kSumsLd)

static void store_tiles(tiles_sums* s) {
  const bool two_groups = s->shape >= TILES_SHAPE(2, 1), two_panels = s->shape % 2 == 0;
  if (!s->shape) return;
  AMX_BARRIER();
  TILES_STORE(0, 0, 0, s->sums);
  if (two_panels) TILES_STORE(1, 0, 1, s->sums);
  if (two_groups) TILES_STORE(2, 1, 0, s->sums);
  if (two_groups && two_panels) TILES_STORE(3, 1, 1, s->sums);
  AMX_BARRIER();
  s->shape = 0;
}

static void store_rest(const tiles_call* call, tiles_overlap* b) {
  while (b->done.step && b->row < b->done.step->count) store_some(call, b);
}

// Stores the rest of |done|, for the sums of the last step have left the accumulators.
static void pass_on(const tiles_call* call, tiles_overlap* b) {
  store_rest(call, b);
  b->done = b->last, b->last = (tiles_sums){0};
  b->row = 0;
  if (b->done.step && call->prepare) call->prepare(call, b->done.n, b->state);
}

static void store_all(const tiles_call* call, tiles_overlap* b) {
  store_tiles(&b->last);
  b->rows = kTileRows;
  pass_on(call, b);
  store_rest(call, b);
}

// Weights that do not stay in L1 are loaded past it, so that the pixels do.
#define TILES_LOAD_WEIGHTS(streams, tile, from) \
  do {                                          \
    if (streams)                                \
      _tile_stream_loadd(tile, from, 64);       \
    else                                        \
      _tile_loadd(tile, from, 64);              \
  } while (0)

#define TILES_LOAD(streams, groups, panels, call, s, at, b)                \
  do {                                                                     \
    TILES_LOAD_WEIGHTS(streams, 6, b);                                     \
    _tile_loadd(4, (s)->a[0] + (at), (s)->stride[0]);                      \
    if ((panels) > 1) TILES_LOAD_WEIGHTS(streams, 7, (b) + (call)->panel); \
    if ((groups) > 1) _tile_loadd(5, (s)->a[1] + (at), (s)->stride[1]);    \
  } while (0)

// Adds |depth| bytes of K from |a| bytes behind the pixels on.
CARNOT_INLINE void accumulate(tiles_type type, bool streams, int groups, int panels,
                              const tiles_call* call, const tiles_step* s, int64_t a, const char* b,
                              int64_t depth, tiles_overlap* overlap) {
  for (int64_t k = 0; k < depth; k += kTileBytes, b += kPanel * kTileBytes) {
    TILES_LOAD(streams, groups, panels, call, s, a + k, b);
    TILES_DOT(type, 0, 4, 6);
    if (panels > 1) TILES_DOT(type, 1, 4, 7);
    if (groups > 1) TILES_DOT(type, 2, 5, 6);
    if (groups > 1 && panels > 1) TILES_DOT(type, 3, 5, 7);
    stay_awake(overlap);
    fetch_some(overlap);
    store_some(call, overlap);
  }
}

// The first tile of K: each accumulator is stored as the last step left it, and begins anew.
CARNOT_INLINE void begin_sums(tiles_type type, bool streams, int groups, int panels,
                              const tiles_call* call, const tiles_step* s, const char* b,
                              tiles_overlap* overlap) {
#define TILES_BEGIN(t, g, p, a, b)                        \
  do {                                                    \
    if (stored) TILES_STORE(t, g, p, overlap->last.sums); \
    _tile_zero(t);                                        \
    TILES_DOT(type, t, a, b);                             \
  } while (0)
  if (overlap->last.shape != TILES_SHAPE(groups, panels)) store_tiles(&overlap->last);
  const bool stored = overlap->last.shape;
  AMX_BARRIER();
  TILES_LOAD(streams, groups, panels, call, s, call->offsets[0], b);
  TILES_BEGIN(0, 0, 0, 4, 6);
  if (panels > 1) TILES_BEGIN(1, 0, 1, 4, 7);
  if (groups > 1) TILES_BEGIN(2, 1, 0, 5, 6);
  if (groups > 1 && panels > 1) TILES_BEGIN(3, 1, 1, 5, 7);
  AMX_BARRIER();
  overlap->idle = 0;
  fetch_some(overlap);
  pass_on(call, overlap);
#undef TILES_BEGIN
}

// The sums of 32 pixels by 32 columns, which stay in the accumulators.
CARNOT_INLINE void sums_of_shape(tiles_type type, bool streams, int groups, int panels,
                                 const tiles_call* call, const tiles_step* s, const char* b,
                                 tiles_overlap* overlap) {
  const int64_t depth = call->layout.depth;
  begin_sums(type, streams, groups, panels, call, s, b, overlap);
  for (int64_t k = 0; k < depth; k += kChannelBlock) {
    const int64_t part = min_i64(kChannelBlock, depth - k);
    for (int64_t t = 0; t < call->layout.taps; ++t) {
      const int64_t begin = k + t == 0 ? kTileBytes : k;
      accumulate(type, streams, groups, panels, call, s, call->offsets[t] + begin,
                 b + (t * depth + begin) * kPanel, k + part - begin, overlap);
    }
  }
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
                         tiles_overlap* overlap, char* sums) {
  char tile[kGroupRows * kTileBytes] __attribute__((aligned(64)));
  store_tiles(&overlap->last);
  pass_on(call, overlap);
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
      _tile_stored(0, sums + g * kGroupRows * kSumsLd + (panel - n) * 4, kSumsLd);
      AMX_BARRIER();
    }
  }
}

CARNOT_INLINE void sums_as(tiles_type type, bool streams, const tiles_call* call,
                           const tiles_step* s, int64_t n, int panels, tiles_overlap* overlap) {
  const char* b = call->weights + n / kPanel * call->panel;
  if (s->groups == 2 && panels == 2)
    sums_of_shape(type, streams, 2, 2, call, s, b, overlap);
  else if (s->groups == 2)
    sums_of_shape(type, streams, 2, 1, call, s, b, overlap);
  else if (panels == 2)
    sums_of_shape(type, streams, 1, 2, call, s, b, overlap);
  else
    sums_of_shape(type, streams, 1, 1, call, s, b, overlap);
}

CARNOT_INLINE void sums_of_step(tiles_type type, const tiles_call* call, const tiles_step* s,
                                int64_t n, tiles_overlap* overlap, char* sums) {
  const int panels = call->n1 - n > kPanel ? 2 : 1;
  if (s->guarded)
    guarded_sums(type, call, s, n, overlap, sums);
  else if (call->streams)
    sums_as(type, true, call, s, n, panels, overlap);
  else
    sums_as(type, false, call, s, n, panels, overlap);
  overlap->last = (tiles_sums){s, n, sums, s->guarded ? 0 : TILES_SHAPE(s->groups, panels)};
}

#endif  // CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_SUMS_H_
