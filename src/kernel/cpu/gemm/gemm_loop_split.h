// The loops of GEMM and convolution by products of bfloat16 parts on AMX. Included by
// gemm_split_f32.c only.
//
// A block of output rows is multiplied by two panels of weights at a time. K is summed in parts of
// kPartSteps steps: a part stays in tile registers from zero, parts are added in float32 in order.
// While the tiles of one part multiply, the weights of the next one are split beside them.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_SPLIT_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_SPLIT_H_

#include "kernel/cpu/gemm/gemm_ukernel_body.h"
#include "kernel/cpu/gemm/split_image.h"

enum {
  kPartSteps = 4,
  kRows = 2 * kAmxRows,
  kColumns = 2 * TILE_PANEL,
  kMostColumns = 256,  // of a block
  kMostSums = 48 << 10,
  kTileBytes = kAmxRows * kAmxRowBytes,
  kMostParts = 3,
  kStepBytes = kMostParts * 2 * kTileBytes,  // split weights of a step
};

// Steps [s0, s1) of a chunk of channels.
typedef struct k_part {
  int64_t c0;  // first channel of the chunk
  int64_t s0, s1;
} k_part;

// Weights of one part of K and two panels, being split. A unit is two of the 32 rows of a step in
// one panel, which are rows i and i + 16, as channels of pixels are paired.
typedef struct split_job {
  const float* rows[kPartSteps];  // of the first panel
  int64_t counts[kPartSteps];     // rows that exist
  int64_t panel;                  // floats from one panel to the next
  int panels, units;              // units in all
  // The step and panel being split, and its row that is next.
  int step, at, row;
  const float* src;
  int64_t count;
  char* dst;
} split_job;

typedef struct split_block_call {
  const split_image* image;
  int64_t n, p0, rows;     // image, first output row, output rows
  int64_t m_begin, m_end;  // outputs of the block that are wanted, counted over |width|
  const char* pixels;
  int64_t steps, steps_of_tap;
  split_range weights_range;
  float* sums;
  int64_t sums_ld;
} split_block_call;

// ---- weights ----

static void job_set(const split_block_call* call, const k_part* part, int64_t n, int panels,
                    char* to, split_job* job) {
  const carnot_conv2d_f32* c = call->image->conv;
  const int64_t depth = c->r * c->s * c->c;
  const float* weights = (const float*)c->weights + n * depth;
  job->panel = depth * TILE_PANEL;
  job->panels = panels;
  job->units = (int)(part->s1 - part->s0) * panels * kAmxRows;
  for (int64_t s = part->s0; s < part->s1; ++s) {
    const int64_t tap = s / call->steps_of_tap,
                  channel = part->c0 + s % call->steps_of_tap * kStepDepth;
    job->rows[s - part->s0] = weights + (tap * c->c + channel) * TILE_PANEL;
    job->counts[s - part->s0] = c->c - channel;
  }
  job->step = job->at = job->row = 0;
  job->src = job->rows[0], job->count = job->counts[0], job->dst = to;
}

// The next panel or step. Behind the last one, what it points to is not used.
static void job_next(split_job* job) {
  job->row = 0;
  if (++job->at < job->panels) {
    job->src += job->panel;
    job->dst += kTileBytes;
    return;
  }
  job->dst += kStepBytes - job->at * kTileBytes + kTileBytes;
  job->at = 0;
  if (++job->step == kPartSteps) return;
  job->src = job->rows[job->step], job->count = job->counts[job->step];
}

// Splits |count| units, if so many are left.
CARNOT_INLINE void job_work(int parts, split_job* job, int count, split_range* out_range) {
  if (count > job->units) count = job->units;
  if (count <= 0) return;
  job->units -= count;
  split_range range = *out_range;
  for (; count > 0; --count) {
    const float* src = job->src + job->row * TILE_PANEL;
    char* dst = job->dst + job->row * kAmxRowBytes;
    const int64_t rows = job->count - job->row;
    const __m512 low = rows > 0 ? v_load(src) : v_zero();
    const __m512 high = rows > 16 ? v_load(src + 16 * TILE_PANEL) : v_zero();
    split_range_add(&range, low), split_range_add(&range, high);
    __m512i pairs[kMostParts];
    split_pairs(parts, low, high, pairs);
    CARNOT_UNROLL
    for (int i = 0; i < parts; ++i) _mm512_store_si512(dst + 2 * i * kTileBytes, pairs[i]);
    if (++job->row == kAmxRows) job_next(job);
  }
  *out_range = range;
}

// ---- tiles ----

// Accumulators 0 to 3, rows of A in 4 and 5, columns of B in 6 and 7.
CARNOT_INLINE void load_a(int groups, const char* a, int64_t pitch) {
  _tile_loadd(4, a, pitch);
  if (groups > 1) _tile_loadd(5, a + kAmxRows * pitch, pitch);
}

CARNOT_INLINE void load_b(int panels, const char* b, int part) {
  _tile_loadd(6, b + 2 * part * kTileBytes, kAmxRowBytes);
  if (panels > 1) _tile_loadd(7, b + (2 * part + 1) * kTileBytes, kAmxRowBytes);
}

CARNOT_INLINE void multiply(int groups, int panels) {
  _tile_dpbf16ps(0, 4, 6);
  if (panels > 1) _tile_dpbf16ps(1, 4, 7);
  if (groups > 1) _tile_dpbf16ps(2, 5, 6);
  if (groups > 1 && panels > 1) _tile_dpbf16ps(3, 5, 7);
}

// The products of parts that reach 2^-16 of the whole, in an order in which one operand changes.
CARNOT_INLINE void split_step(int groups, int panels, const char* a, int64_t pitch, const char* b,
                              split_job* job, int units, split_range* range) {
  load_b(panels, b, 2), load_a(groups, a, pitch);
  multiply(groups, panels);
  job_work(3, job, units, range);
  load_b(panels, b, 1);
  multiply(groups, panels);
  job_work(3, job, units, range);
  load_a(groups, a + kAmxRowBytes, pitch);
  multiply(groups, panels);
  job_work(3, job, units, range);
  load_b(panels, b, 0);
  multiply(groups, panels);
  job_work(3, job, units, range);
  load_a(groups, a + 2 * kAmxRowBytes, pitch);
  multiply(groups, panels);
  job_work(3, job, units, range);
  load_a(groups, a, pitch);
  multiply(groups, panels);
  job_work(3, job, units, range);
}

CARNOT_INLINE void store_tiles(int groups, int panels, float* to, int64_t ld) {
  const int64_t bytes = ld * (int64_t)sizeof *to;
  _tile_stored(0, to, bytes);
  if (panels > 1) _tile_stored(1, to + TILE_PANEL, bytes);
  if (groups > 1) _tile_stored(2, to + kAmxRows * ld, bytes);
  if (groups > 1 && panels > 1) _tile_stored(3, to + kAmxRows * ld + TILE_PANEL, bytes);
}

// One tile of one part of K: |a| and |offsets| say where the rows of each step are.
CARNOT_INLINE void split_tile(int groups, int panels, const split_block_call* call, const char* a,
                              const int64_t* offsets, int64_t steps, const char* b, float* sums,
                              bool first, split_job* job, int units, split_range* range) {
  const int64_t pitch = call->image->pitch, ld = call->sums_ld;
  float tile[kRows * kColumns] __attribute__((aligned(64)));
  AMX_BARRIER();
  _tile_zero(0);
  if (panels > 1) _tile_zero(1);
  if (groups > 1) _tile_zero(2);
  if (groups > 1 && panels > 1) _tile_zero(3);
  for (int64_t s = 0; s < steps; ++s, b += kStepBytes) {
    split_step(groups, panels, a + offsets[s], pitch, b, job, units, range);
  }
  if (first) {
    store_tiles(groups, panels, sums, ld);
    AMX_BARRIER();
    return;
  }
  store_tiles(groups, panels, tile, kColumns);
  AMX_BARRIER();
  for (int i = 0; i < groups * kAmxRows; ++i) {
    CARNOT_UNROLL
    for (int j = 0; j < panels * TILE_PANEL; j += V_LANES) {
      float* sum = sums + i * ld + j;
      v_store(sum, v_add(v_load(sum), v_load(tile + i * kColumns + j)));
    }
  }
}

// All tiles of one part of K and two panels (or the last one).
static void split_tiles(const split_block_call* call, const k_part* part, int panels, const char* b,
                        float* sums, bool first, split_job* job, split_range* range) {
  const split_image* image = call->image;
  const carnot_conv2d_f32* c = image->conv;
  const int64_t slice = slice_bytes(image, call->rows);
  int64_t offsets[kPartSteps];
  const int64_t steps = part->s1 - part->s0, rows = call->m_end - call->m_begin;
  for (int64_t s = part->s0; s < part->s1; ++s) {
    const int64_t tap = s / call->steps_of_tap;
    offsets[s - part->s0] =
        tap_offset(image, call->rows, tap / c->s, tap % c->s) + s % call->steps_of_tap * slice;
  }
  const int64_t slots = (rows + kRows - 1) / kRows * steps * 6;
  const int units = (int)((job->units + slots - 1) / slots);
  for (int64_t m = 0; m < rows; m += kRows) {
    const char* a = call->pixels + (call->m_begin + m) * image->pitch;
    float* to = sums + m * call->sums_ld;
    if (rows - m > kAmxRows && panels > 1)
      split_tile(2, 2, call, a, offsets, steps, b, to, first, job, units, range);
    else if (rows - m > kAmxRows)
      split_tile(2, 1, call, a, offsets, steps, b, to, first, job, units, range);
    else if (panels > 1)
      split_tile(1, 2, call, a, offsets, steps, b, to, first, job, units, range);
    else
      split_tile(1, 1, call, a, offsets, steps, b, to, first, job, units, range);
  }
}

// ---- blocks ----

static bool part_next(const split_block_call* call, k_part* part) {
  if (part->s1 == call->steps) return false;
  part->s0 = part->s1;
  part->s1 = min_i64(part->s0 + kPartSteps, call->steps);
  return true;
}

// Sums of a chunk of channels for columns [n0, n1).
static void split_chunk(split_block_call* call, int64_t c0, bool first, int64_t n0, int64_t n1) {
  const carnot_conv2d_f32* c = call->image->conv;
  const int64_t channels = min_i64(call->image->channels, c->c - c0);
  call->steps_of_tap = (channels + kStepDepth - 1) / kStepDepth;
  call->steps = c->r * c->s * call->steps_of_tap;
  char weights[2][kPartSteps * kStepBytes] __attribute__((aligned(64)));
  const k_part begin = {c0, 0, min_i64(kPartSteps, call->steps)};
  split_job job = {.panels = 0};
  int turn = 0;
  int64_t n = n0;
  int panels = n1 - n > TILE_PANEL ? 2 : 1;
  k_part part = begin;
  job_set(call, &part, n, panels, weights[0], &job);
  while (n < n1) {
    job_work(3, &job, job.units, &call->weights_range);
    k_part next = part;
    int64_t next_n = n;
    if (!part_next(call, &next)) next = begin, next_n = n + kColumns;
    const int next_panels = n1 - next_n > TILE_PANEL ? 2 : 1;
    if (next_n < n1) {
      job_set(call, &next, next_n, next_panels, weights[!turn], &job);
    }
    split_tiles(call, &part, panels, weights[turn], call->sums + (n - n0), first && part.s0 == 0,
                &job, &call->weights_range);
    part = next, n = next_n, panels = next_panels, turn = !turn;
  }
}

// Adds bias and residual to the sums of columns [n0, n1) and stores what is wanted of them.
static void split_finish(const split_block_call* call, int64_t n0, int64_t n1) {
  const carnot_conv2d_f32* c = call->image->conv;
  const carnot_epilogue_f32* e = &c->epilogue;
  gemm_ukernel_f32 row = {.row_count = 1, .ldc = c->ld, .residual_ld = e->residual_ld};
  row.clip = e->activation == CARNOT_KERNEL_ACTIVATION_RELU ||
             e->activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  row.lo = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP ? e->a : 0;
  row.hi = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP ? e->b : INFINITY;
  const bool after = e->activation != CARNOT_KERNEL_ACTIVATION_NONE && !row.clip;
  const int64_t width = call->image->width;
  for (int64_t p = call->m_begin / width; p * width < call->m_end; ++p) {
    const int64_t begin = max_i64(0, call->m_begin - p * width),
                  end = min_i64(c->q, call->m_end - p * width);
    const int64_t m = (call->n * c->p + call->p0 + p) * c->q;
    for (int64_t q = begin; q < end; ++q) {
      const float* sums = call->sums + (p * width + q - call->m_begin) * call->sums_ld;
      for (int64_t n = n0; n < n1; n += TILE_PANEL) {
        row.columns = n1 - n;
        row.c = c->dst + (m + q) * c->ld + n;
        row.bias = e->bias ? e->bias + n : NULL;
        row.residual = e->residual ? e->residual + (m + q) * e->residual_ld + n : NULL;
        vf32 acc[1] = {v_load(sums + (n - n0))};
        tile_finish(1, 1, &row, acc);
      }
    }
    if (after && end > begin) {
      CARNOT_KERNEL(activate_f32)
      (e->activation, e->a, e->b, c->dst + (m + begin) * c->ld + n0, c->ld, end - begin, n1 - n0);
    }
  }
}

// Output rows p0 .. p0 + rows - 1 of image n, of which outputs [m0, m1) of all are wanted.
static void split_rows(const split_image* image, int64_t n, int64_t p0, int64_t rows, int64_t m0,
                       int64_t m1, int64_t n0, int64_t n1) {
  char pixels[kImageBytes] __attribute__((aligned(64)));
  float sums[kMostSums + kRows * kColumns] __attribute__((aligned(64)));
  const carnot_conv2d_f32* c = image->conv;
  const int64_t first = (n * c->p + p0) * c->q, begin = max_i64(m0 - first, 0),
                end = min_i64(m1 - first, rows * c->q), width = image->width;
  split_block_call call = {.image = image,
                           .n = n,
                           .p0 = p0,
                           .rows = rows,
                           .m_begin = begin / c->q * width + begin % c->q,
                           .m_end = (end - 1) / c->q * width + (end - 1) % c->q + 1,
                           .pixels = pixels,
                           .sums = sums};
  const int64_t tall = (call.m_end - call.m_begin + kRows - 1) / kRows * kRows;
  const int64_t most = min_i64(kMostColumns, kMostSums / tall / kColumns * kColumns);
  const int64_t blocks = (n1 - n0 + most - 1) / most;
  call.sums_ld = ((n1 - n0 + blocks - 1) / blocks + kColumns - 1) / kColumns * kColumns;
  split_range range = split_range_none();
  for (int64_t at = n0; at < n1; at += call.sums_ld) {
    const int64_t to = min_i64(at + call.sums_ld, n1);
    call.weights_range = split_range_none();
    for (int64_t chunk = 0; chunk < image->chunks; ++chunk) {
      if (at == n0 || image->chunks > 1) {
        split_block(3, image, n, p0, rows, chunk * image->channels, pixels, &range);
      }
      split_chunk(&call, chunk * image->channels, chunk == 0, at, to);
    }
    if (split_is_exact(&range, &call.weights_range, c->r * c->s * c->c)) {
      split_finish(&call, at, to);
    } else {
      GEMM_MACRO_KERNEL(conv2d_f32)(c, first + begin, first + end, at, to);
    }
  }
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
    split_rows(image, n, p, rows, m0, end, n0, n1);
    m0 = end;
  }
  amx_end();
}

#endif
