// GEMM over weights of 2, 4 or 8 bits in blocks by AMX: BF16 products of integer weights and of
// activations in parts.
#include "kernel/cpu/gemm/gemm_dequant_tiles.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/amx_tiles.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"
#include "kernel/cpu/gemm/split_bf16.h"

extern carnot_gemm_dequant_f32_fn carnot_gemm_dequant_f32_avx512;

enum {
  kParts = 3,
  kGroupRows = CARNOT_DEQUANT_GROUP_ROWS,
  kSliceDepth = CARNOT_DEQUANT_SLICE_DEPTH,
  kPartBytes = kGroupRows * kAmxRowBytes,
  kTileBytes = kAmxRows * kAmxRowBytes,
  kColumns = 32,       // of a step: two panels
  kMostGroups = 4,     // of a block of rows, for which weights are decoded once
  kMostColumns = 512,  // of a block of columns, whose sums stay in L2
  kMostSlices = 16,    // of a chunk of K: its rows and weights stay in L2
  kMostRuns = kMostSlices
};

// ---- activations ----

void CARNOT_KERNEL(split_rows_bf16)(const carnot_gemm_dequant_f32* p, int64_t g0, int64_t g1,
                                    const carnot_dequant_parts* to) {
  const carnot_dequant_shape* s = &p->shape;
  const int64_t bytes = carnot_dequant_group_bytes(s), blocks = carnot_dequant_blocks(s);
  const carnot_split_range integers = {1, 255, 0};
  for (int64_t g = g0; g < g1; ++g) {
    char* group = to->parts + g * bytes;
    const int64_t count = min_i64(kGroupRows, p->gemm.m - g * kGroupRows);
    split_range range = split_range_none(UINT32_MAX);
    for (int64_t i = 0; i < kGroupRows; ++i) {
      const float* a = p->gemm.a + (g * kGroupRows + min_i64(i, count - 1)) * p->gemm.lda;
      char* out = group + i * kAmxRowBytes;
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t depth = i < count ? min_i64(s->block, s->k - b * s->block) : 0;
        const int64_t slices = carnot_dequant_block_slices(s, b);
        for (int64_t j = 0; j < slices; ++j, out += CARNOT_DEQUANT_SLICE_BYTES) {
          const int64_t left = depth - j * kSliceDepth;
          const float* from = a + b * s->block + j * kSliceDepth;
          const __m512 low = left > 0 ? v_load_upto(from, left) : v_zero();
          const __m512 high = left > 16 ? v_load_upto(from + 16, left - 16) : v_zero();
          __m512i pairs[kParts];
          split_range_add(&range, low), split_range_add(&range, high);
          split_pairs(kParts, low, high, pairs);
          for (int x = 0; x < kParts; ++x) _mm512_store_si512(out + x * kPartBytes, pairs[x]);
        }
      }
    }
    split_range_end_row(&range);
    to->exact[g] = split_is_exact(&range, &integers, s->k);
  }
}

// ---- weights ----

// The first bit of number |k| of a group in its word.
CARNOT_INLINE int bit_of(int k, int bits) { return k % 4 * 8 + k / 4 * bits; }

// The words of a block of a panel.
typedef struct block_words {
  const int32_t* words;  // of its first group
  int64_t groups;
} block_words;

CARNOT_INLINE vi32 word_at(const block_words* w, int64_t group) {
  return group < w->groups ? v_iload(w->words + group * TILE_PANEL) : v_iset(0);
}

// Integers less their zero point, as floats.
CARNOT_INLINE vf32 number_at(vi32 word, int bit, int bits, vf32 zero) {
  const vi32 x = v_iand_or(v_ishr(word, bit), v_iset((1 << bits) - 1), v_iset((127 + 23) << 23));
  return v_sub(v_of_bits(x), zero);
}

// A slice of 32 k by 16 columns as a tile of BF16: row j has k = j and k = j + 16 of its columns.
CARNOT_INLINE void decode_slice(const block_words* w, int64_t slice, int bits, vf32 zero,
                                char* tile) {
  const int each = 32 / bits, half = 16 / each;
  const vi32 upper = v_iset((int32_t)0xffff0000);
  const int64_t first = slice * 2 * half;
  CARNOT_UNROLL
  for (int g = 0; g < half; ++g) {
    const vi32 low = word_at(w, first + g), high = word_at(w, first + half + g);
    CARNOT_UNROLL
    for (int k = 0; k < each; ++k, tile += kAmxRowBytes) {
      const int bit = bit_of(k, bits);
      const __m512i l = (__m512i)number_at(low, bit, bits, zero),
                    h = (__m512i)number_at(high, bit, bits, zero);
      _mm512_store_si512(tile, _mm512_ternarylogic_epi32(_mm512_srli_epi32(l, 16), h, upper, 0xf8));
    }
  }
}

// Successive slices of one block: their sums are multiplied by one scale.
typedef struct slice_run {
  int64_t block, first, count;  // slices of the block
} slice_run;

// A chunk of K: up to kMostSlices slices of whole runs.
typedef struct chunk {
  int64_t slices, runs, first;  // |first|: slice of all K
  slice_run run[kMostRuns];
} chunk;

// The chunk behind |c|; false at the end. A zeroed chunk is before the first.
static bool next_chunk(const carnot_dequant_shape* s, chunk* c) {
  const int64_t blocks = carnot_dequant_blocks(s);
  slice_run at = {0, 0, 0};
  if (c->runs) {
    at = c->run[c->runs - 1];
    at.first += at.count;
    if (at.first == carnot_dequant_block_slices(s, at.block)) at.first = 0, ++at.block;
  }
  *c = (chunk){.first = c->first + c->slices};
  for (; at.block < blocks && c->slices < kMostSlices; at.first = 0, ++at.block) {
    at.count =
        min_i64(carnot_dequant_block_slices(s, at.block) - at.first, kMostSlices - c->slices);
    c->run[c->runs++] = at, c->slices += at.count;
  }
  return c->runs > 0;
}

typedef struct decoded {
  char* weights;  // [slices][2 panels] of a tile
  float scales[kMostRuns][kColumns];
} decoded;

CARNOT_INLINE void decode_panel(const carnot_gemm_dequant_f32* p, const chunk* c, int64_t panel,
                                int at, int bits, decoded* d) {
  const carnot_dequant_shape* s = &p->shape;
  const int64_t blocks = carnot_dequant_blocks(s), of_block = carnot_dequant_block_groups(s);
  char* tile = d->weights + at * kTileBytes;
  for (int64_t r = 0; r < c->runs; ++r) {
    const slice_run* run = &c->run[r];
    const int64_t scale = (panel * blocks + run->block) * TILE_PANEL,
                  depth = min_i64(s->block, s->k - run->block * s->block), each = 32 / bits;
    const block_words w = {
        (const int32_t*)p->gemm.b +
            (panel * carnot_dequant_groups(s) + run->block * of_block) * TILE_PANEL,
        (depth + each - 1) / each};
    const vf32 zero = p->zeros ? v_load_bytes(p->zeros + scale, false) : v_set((float)p->zero);
    v_store(d->scales[r] + at * TILE_PANEL, v_load(p->scales + scale));
    for (int64_t j = 0; j < run->count; ++j, tile += 2 * kTileBytes)
      decode_slice(&w, run->first + j, bits, v_add(v_set(0x1p23F), zero), tile);
  }
}

// Panels |panel| and, if it is there, the one behind it.
static void decode(const carnot_gemm_dequant_f32* p, const chunk* c, int64_t panel, bool both,
                   decoded* d) {
  for (int at = 0; at < 1 + both; ++at) {
    if (p->shape.bits == 2)
      decode_panel(p, c, panel + at, at, 2, d);
    else if (p->shape.bits == 4)
      decode_panel(p, c, panel + at, at, 4, d);
    else
      decode_panel(p, c, panel + at, at, 8, d);
  }
}

// ---- products ----

// Products of a run, of which some rows are scaled and added beside the next run's tiles. Rows of
// both lie together: rows a power of two apart share the lines of L1, and their loads wait for
// stores to others.
typedef struct scaled_rows {
  const float *products, *scale;
  float* sums;
  int row, rows;  // the next one; all of them
} scaled_rows;

CARNOT_INLINE void add_scaled(scaled_rows* s, int count) {
  const int end = s->row + count < s->rows ? s->row + count : s->rows;
  const vf32 low = v_load(s->scale), high = v_load(s->scale + TILE_PANEL);
  for (; s->row < end; ++s->row) {
    const float* x = s->products + s->row * kColumns;
    float* sum = s->sums + s->row * kColumns;
    v_store(sum, v_fma(v_load(x), low, v_load(sum)));
    v_store(sum + TILE_PANEL, v_fma(v_load(x + TILE_PANEL), high, v_load(sum + TILE_PANEL)));
  }
}

// The products of a run of |slices| slices; |tiles| of 16 rows.
CARNOT_INLINE void multiply_run(int tiles, const char* a, const char* b, int64_t slices,
                                scaled_rows* beside, float* products) {
  const int count = (int)((kGroupRows + kParts * slices - 1) / (kParts * slices));
  const int64_t ld = kColumns * (int64_t)sizeof(float);
  AMX_BARRIER();
  _tile_zero(0);
  _tile_zero(1);
  if (tiles > 1) _tile_zero(2);
  if (tiles > 1) _tile_zero(3);
  for (int64_t s = 0; s < slices; ++s, a += CARNOT_DEQUANT_SLICE_BYTES, b += 2 * kTileBytes) {
    _tile_loadd(6, b, kAmxRowBytes);
    _tile_loadd(7, b + kTileBytes, kAmxRowBytes);
    CARNOT_UNROLL
    for (int part = kParts - 1; part >= 0; --part) {
      _tile_loadd(4, a + part * kPartBytes, kAmxRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      if (tiles > 1) {
        _tile_loadd(5, a + part * kPartBytes + kTileBytes, kAmxRowBytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      add_scaled(beside, count);
    }
  }
  _tile_stored(0, products, ld);
  _tile_stored(1, products + TILE_PANEL, ld);
  if (tiles > 1) {
    _tile_stored(2, products + kAmxRows * kColumns, ld);
    _tile_stored(3, products + kAmxRows * kColumns + TILE_PANEL, ld);
  }
  AMX_BARRIER();
}

// Adds the products of a chunk to the |sums| of |rows| rows of a group by 32 columns, |ld| apart.
static void add_chunk(const chunk* c, const decoded* d, const char* a, int rows, float* sums,
                      int64_t ld) {
  enum { kTile = kGroupRows * kColumns, kApart = 96 };  // no two rows at the same place of a page
  float memory[3 * kTile + 2 * kApart] __attribute__((aligned(64)));
  float *products[2] = {memory, memory + kTile + kApart}, *own = products[1] + kTile + kApart;
  scaled_rows beside = {.products = products[1], .scale = d->scales[0], .sums = own};
  const char* b = d->weights;
  memset(own, 0, kTile * sizeof *own);
  for (int64_t r = 0; r < c->runs; ++r) {
    float* to = products[r % 2];
    if (rows > kAmxRows)
      multiply_run(2, a, b, c->run[r].count, &beside, to);
    else
      multiply_run(1, a, b, c->run[r].count, &beside, to);
    beside.products = to, beside.scale = d->scales[r], beside.row = 0, beside.rows = rows;
    a += c->run[r].count * CARNOT_DEQUANT_SLICE_BYTES, b += c->run[r].count * 2 * kTileBytes;
  }
  add_scaled(&beside, rows);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < kColumns; j += V_LANES) {
      float* sum = sums + i * ld + j;
      const vf32 x = v_load(own + i * kColumns + j);
      v_store(sum, c->first ? v_add(v_load(sum), x) : x);
    }
}

// ---- loops ----

// A block of rows and columns.
typedef struct block {
  int64_t m0, m1, n0, n1;
  float* sums;  // [rows][kMostColumns]
} block;

static void finish_block(const carnot_gemm_dequant_f32* p, const carnot_dequant_parts* a,
                         const block* k) {
  const carnot_epilogue_f32* e = &p->gemm.epilogue;
  for (int64_t m = k->m0; m < k->m1; ++m) {
    if (!a->exact[m / kGroupRows]) continue;
    const float* sums = k->sums + (m - k->m0) * kMostColumns - k->n0;
    float* c = p->gemm.c + m * p->gemm.ldc;
    for (int64_t n = k->n0; n < k->n1; n += V_LANES) {
      const int64_t left = k->n1 - n;
      vf32 x = v_load(sums + n);
      if (e->bias) x = v_add(x, v_load_upto(e->bias + n, left));
      if (e->residual) x = v_add(x, v_load_upto(e->residual + m * e->residual_ld + n, left));
      v_store_upto(c + n, x, left);
    }
    if (e->activation == CARNOT_KERNEL_ACTIVATION_NONE) continue;
    CARNOT_KERNEL(activate_f32)(e->activation, e->a, e->b, c + k->n0, 0, 1, k->n1 - k->n0);
  }
}

static void sum_block(const carnot_gemm_dequant_f32* p, const carnot_dequant_parts* a,
                      const block* k, decoded* d) {
  const int64_t bytes = carnot_dequant_group_bytes(&p->shape);
  chunk c = {.runs = 0};
  while (next_chunk(&p->shape, &c))
    for (int64_t n = k->n0; n < k->n1; n += kColumns) {
      decode(p, &c, n / TILE_PANEL, k->n1 - n > TILE_PANEL, d);
      for (int64_t m = k->m0; m < k->m1; m += kGroupRows) {
        const int64_t g = m / kGroupRows;
        if (!a->exact[g]) continue;
        add_chunk(&c, d, a->parts + g * bytes + c.first * CARNOT_DEQUANT_SLICE_BYTES,
                  (int)min_i64(kGroupRows, k->m1 - m),
                  k->sums + (m - k->m0) * kMostColumns + n - k->n0, kMostColumns);
      }
    }
}

void CARNOT_KERNEL(gemm_dequant_tiles)(const carnot_gemm_dequant_f32* p,
                                       const carnot_dequant_parts* a, int64_t m0, int64_t m1,
                                       int64_t n0, int64_t n1) {
  decoded d = {.weights = (char*)p->workspace};
  float* sums = p->workspace + kMostSlices * 2 * kTileBytes / (int64_t)sizeof(float);
  memset(d.weights, 0, kMostSlices * 2 * kTileBytes);
  memset(d.scales, 0, sizeof d.scales);
  amx_begin();
  for (int64_t m = m0; m < m1; m += kMostGroups * kGroupRows)
    for (int64_t n = n0; n < n1; n += kMostColumns) {
      const block k = {m, min_i64(m + kMostGroups * kGroupRows, m1), n,
                       min_i64(n + kMostColumns, n1), sums};
      sum_block(p, a, &k, &d);
      finish_block(p, a, &k);
    }
  amx_end();
  for (int64_t m = m0; m < m1; m += kGroupRows)
    if (!a->exact[m / kGroupRows])
      carnot_gemm_dequant_f32_avx512(p, m, min_i64(m + kGroupRows, m1), n0, n1);
}
