// The loops of GEMM and convolution by products of bfloat16 parts on AMX. Included by
// gemm_split_f32.c only.
//
// A block of output rows is multiplied by two panels of weights at a time. K is summed in parts of
// kPartSteps steps: a part stays in tile registers from zero, parts are added in float32 in order.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_SPLIT_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_SPLIT_H_

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

static split_steps steps_of(const split_block_call* call, const k_part* part) {
  const split_image* image = call->image;
  const int64_t slice = slice_bytes(image, call->rows);
  split_steps steps = {.count = part->s1 - part->s0};
  for (int64_t i = 0; i < steps.count; ++i) {
    const int64_t tap = (part->s0 + i) / call->steps_of_tap,
                  at = (part->s0 + i) % call->steps_of_tap;
    steps.a[i] =
        tap_offset(image, call->rows, tap / image->conv->s, tap % image->conv->s) + at * slice;
    steps.b[i] = (tap * call->slices_of_tap + call->slice0 + at) * call->slice_weights;
  }
  return steps;
}

CARNOT_INLINE void split_tiles(int parts, const split_block_call* call, const split_steps* steps,
                               int panels, const char* b, split_target to, split_ahead* ahead) {
  const int64_t rows = call->m_end - call->m_begin, pitch = call->image->pitch;
  for (; to.m < rows; to.m += kRows, to.sums += kRows * call->sums_ld) {
    const char* a = call->pixels + (call->m_begin + to.m) * pitch;
    if (rows - to.m > kAmxRows && panels > 1)
      split_tile(parts, 2, 2, call, a, b, steps, &to, ahead);
    else if (rows - to.m > kAmxRows)
      split_tile(parts, 2, 1, call, a, b, steps, &to, ahead);
    else if (panels > 1)
      split_tile(parts, 1, 2, call, a, b, steps, &to, ahead);
    else
      split_tile(parts, 1, 1, call, a, b, steps, &to, ahead);
  }
}

// ---- blocks ----

// Sums of a chunk of channels for columns [n0, n1).
CARNOT_INLINE void split_chunk(int parts, split_block_call* call, int64_t chunk, int64_t n0,
                               int64_t n1) {
  const carnot_conv2d_f32* c = call->image->conv;
  const int64_t c0 = chunk * call->image->channels,
                channels = min_i64(call->image->channels, c->c - c0);
  call->steps_of_tap = (channels + kStepDepth - 1) / kStepDepth;
  call->steps = c->r * c->s * call->steps_of_tap;
  call->slice0 = c0 / kStepDepth;
  const int64_t tall = (call->m_end - call->m_begin + kRows - 1) / kRows;
  const int64_t most = parts == 1 ? kRoundedSteps : kPartSteps;
  for (int64_t n = n0; n < n1; n += kColumns) {
    const int panels = n1 - n > TILE_PANEL ? 2 : 1;
    const char* b = (const char*)c->weights + n / TILE_PANEL * call->panel_bytes;
    for (k_part part = {0, 0}; part.s1 < call->steps;) {
      part.s0 = part.s1, part.s1 = min_i64(part.s0 + most, call->steps);
      const split_steps steps = steps_of(call, &part);
      split_ahead ahead = {.panel = panels > 1 ? call->panel_bytes : 0};
      if (part.s1 < call->steps) {
        ahead.at = b + steps.b[steps.count - 1] + call->slice_weights;
      } else {
        ahead.at = b + 2 * call->panel_bytes + call->slice0 * call->slice_weights;
      }
      ahead.lines = part.s1 < call->steps || n + kColumns < n1
                        ? (int)(steps.count * call->slice_weights / 64)
                        : 0;
      ahead.step = (int)(ahead.lines / (tall * steps.count * parts * (parts + 1) / 2) + 1);
      const split_target to = {
          .n = n,
          .sums = call->sums + (call->image->chunks > 1 ? n - n0 : 0),
          .first = chunk == 0 && part.s0 == 0,
          .last = chunk == call->image->chunks - 1 && part.s1 == call->steps,
      };
      split_tiles(parts, call, &steps, panels, b, to, &ahead);
    }
  }
}

static bool in_registers(carnot_kernel_activation activation) {
  return activation == CARNOT_KERNEL_ACTIVATION_RELU || activation == CARNOT_KERNEL_ACTIVATION_CLIP;
}

static gemm_ukernel_f32 end_of_sums(const carnot_conv2d_f32* c) {
  const carnot_epilogue_f32* e = &c->epilogue;
  const bool clip = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  return (gemm_ukernel_f32){.row_count = 1,
                            .ldc = c->ld,
                            .residual_ld = e->residual_ld,
                            .clip = in_registers(e->activation),
                            .lo = clip ? e->a : 0,
                            .hi = clip ? e->b : INFINITY};
}

// Fills |outputs|; m_begin and m_end of |call| from outputs [begin, end) of the block.
static void set_outputs(split_block_call* call, int64_t begin, int64_t end, int64_t* outputs) {
  const carnot_conv2d_f32* c = call->image->conv;
  const int64_t width = call->image->width, first = (call->n * c->p + call->p0) * c->q;
  call->m_begin = begin / c->q * width + begin % c->q;
  call->m_end = (end - 1) / c->q * width + (end - 1) % c->q + 1;
  for (int64_t m = call->m_begin; m < call->m_end; ++m) {
    const int64_t q = m % width;
    outputs[m - call->m_begin] = q < c->q ? first + m / width * c->q + q : -1;
  }
  call->outputs = outputs;
}

// Unfinished sums of one chunk of channels are those of two panels; of several, as many as fit.
static int64_t columns_of_block(const split_block_call* call, int64_t columns) {
  if (call->image->chunks == 1) return columns;
  const int64_t tall = (call->m_end - call->m_begin + kRows - 1) / kRows * kRows;
  const int64_t most = min_i64(kMostColumns, kMostSums / tall / kColumns * kColumns);
  const int64_t blocks = (columns + most - 1) / most;
  return ((columns + blocks - 1) / blocks + kColumns - 1) / kColumns * kColumns;
}

// Output rows p0 .. p0 + rows - 1 of image n, of which outputs [m0, m1) of all are wanted.
CARNOT_INLINE void split_rows(int parts, const split_image* image, int64_t n, int64_t p0,
                              int64_t rows, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  char pixels[kImageBytes] __attribute__((aligned(64)));
  float sums[kMostSums] __attribute__((aligned(64)));
  int64_t outputs[kMostOutputs];
  const carnot_conv2d_f32* c = image->conv;
  const carnot_epilogue_f32* e = &c->epilogue;
  const int64_t first = (n * c->p + p0) * c->q, begin = max_i64(m0, first),
                end = min_i64(m1, first + rows * c->q);
  split_block_call call = {.image = image,
                           .n = n,
                           .p0 = p0,
                           .rows = rows,
                           .pixels = pixels,
                           .slices_of_tap = (c->c + kStepDepth - 1) / kStepDepth,
                           .n_end = n1,
                           .end = end_of_sums(c),
                           .sums = sums};
  set_outputs(&call, begin - first, end - first, outputs);
  call.slice_weights = parts == 1 ? kTileBytes : CARNOT_SPLIT_SLICE_BYTES;
  call.panel_bytes = c->r * c->s * call.slices_of_tap * call.slice_weights;
  const carnot_split_range weights =
      parts == 1 ? (carnot_split_range){1, 1}
                 : carnot_packed_split_range(c->r * c->s, c->c, c->k, c->weights);
  const int64_t columns = columns_of_block(&call, n1 - n0);
  call.sums_ld = image->chunks == 1 ? kColumns : columns;
  split_range range = split_range_none();
  for (int64_t at = n0; at < n1; at += columns) {
    const int64_t to = min_i64(at + columns, n1);
    bool exact = true;
    for (int64_t chunk = 0; chunk < image->chunks && exact; ++chunk) {
      split_block(parts, image, n, p0, rows, chunk * image->channels, pixels, &range);
      exact = parts == 1 || split_is_exact(&range, &weights, c->r * c->s * c->c);
      if (exact) split_chunk(parts, &call, chunk, at, to);
    }
    if (!exact) {
      multiply_add(c, begin, end, at, to);
    } else if (e->activation != CARNOT_KERNEL_ACTIVATION_NONE && !in_registers(e->activation)) {
      CARNOT_KERNEL(activate_f32)
      (e->activation, e->a, e->b, c->dst + begin * c->ld + at, c->ld, end - begin, to - at);
    }
  }
}

static void rounded_rows(const split_image* image, int64_t n, int64_t p0, int64_t rows, int64_t m0,
                         int64_t m1, int64_t n0, int64_t n1) {
  split_rows(1, image, n, p0, rows, m0, m1, n0, n1);
}

static void split6_rows(const split_image* image, int64_t n, int64_t p0, int64_t rows, int64_t m0,
                        int64_t m1, int64_t n0, int64_t n1) {
  split_rows(3, image, n, p0, rows, m0, m1, n0, n1);
}

static void split3_rows(const split_image* image, int64_t n, int64_t p0, int64_t rows, int64_t m0,
                        int64_t m1, int64_t n0, int64_t n1) {
  split_rows(2, image, n, p0, rows, m0, m1, n0, n1);
}

// Outputs [m0, m1) of all images.
static void split_outputs(const split_image* image, int64_t m0, int64_t m1, int64_t n0,
                          int64_t n1) {
  const carnot_conv2d_f32* c = image->conv;
  if (n0 >= n1) return;
  amx_begin();
  while (m0 < m1) {
    const int64_t row = m0 / c->q, n = row / c->p, p = row % c->p;
    const int64_t rows = min_i64(image->rows, c->p - p), end = min_i64(m1, (row + rows) * c->q);
    (image->parts == 3   ? split6_rows
     : image->parts == 2 ? split3_rows
                         : rounded_rows)(image, n, p, rows, m0, end, n0, n1);
    m0 = end;
  }
  amx_end();
}

#endif
