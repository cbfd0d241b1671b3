// The INT8 loops by vpmaddubsw, where a level has no dot product of bytes (AVX2, AVX-512 BW);
// exact. Included by gemm_u8s8.c only.
//
// vpmaddubsw multiplies u8 by s8 and adds two products in 16 bits, where 255 * 127 + 255 * 127
// saturates. So the magnitude of a weight is the u8 operand, and the element of a the s8 operand:
//   t = a - 128 where w >= 0, which is a ^ 0x80;  t = 127 - a = -(a - 128) - 1 elsewhere, a ^ 0x7f
// Two products are then within 2 * 128 * [-128, 127], which fits. Summed over K
//   sum |w| t = sum w a - 128 sum w - sum of |w| where w < 0
// whose last two terms are those of a row of zeros: each panel is multiplied with one first.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_MADDUBS_U8S8_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_MADDUBS_U8S8_H_

#include "kernel/cpu/common/simd.h"
#include "kernel/cpu/gemm/loop_u8s8.h"

#if defined(__AVX512BW__)
typedef __m512i byte_vector;
#define BYTES_(name) _mm512_##name
enum { kTileRows = 12 };

CARNOT_INLINE byte_vector load_bytes(const void* p) { return _mm512_loadu_si512(p); }
CARNOT_INLINE void store_vector(void* p, byte_vector x) { _mm512_storeu_si512(p, x); }
CARNOT_INLINE byte_vector xor_bytes(byte_vector a, byte_vector b) { return _mm512_xor_si512(a, b); }
CARNOT_INLINE byte_vector negative_bytes(byte_vector x) {
  return _mm512_movm_epi8(_mm512_movepi8_mask(x));
}
CARNOT_INLINE byte_vector add_pairs(byte_vector x, const byte_vector* ones) {
  return _mm512_madd_epi16(x, *ones);
}
#else
typedef __m256i byte_vector;
#define BYTES_(name) _mm256_##name
enum { kTileRows = 5 };

CARNOT_INLINE byte_vector load_bytes(const void* p) {
  return _mm256_loadu_si256((const __m256i*)p);
}
CARNOT_INLINE void store_vector(void* p, byte_vector x) { _mm256_storeu_si256((__m256i*)p, x); }
CARNOT_INLINE byte_vector xor_bytes(byte_vector a, byte_vector b) { return _mm256_xor_si256(a, b); }
CARNOT_INLINE byte_vector negative_bytes(byte_vector x) {
  return _mm256_cmpgt_epi8(_mm256_setzero_si256(), x);
}
// The ones stay in memory: the tile takes all registers.
CARNOT_INLINE byte_vector add_pairs(byte_vector x, const byte_vector* ones) {
  __asm__("vpmaddwd %1, %0, %0" : "+x"(x) : "m"(*ones));
  return x;
}
#endif

enum {
  kStepBytes = 64,  // of a panel: 16 columns of 4 k
  kVectorBytes = (int)sizeof(byte_vector),
  kVectors = kStepBytes / kVectorBytes,
  kVectorColumns = kVectorBytes / 4,
  kSplitSteps = 1152,      // of a part of K: weights are split once for all rows of a chunk
  kLeastTilesToSplit = 4,  // fewer do not pay for it
  kFewRows = 3,
  kChunkTiles = 128,
  kCarriedTiles = 40,  // of a chunk whose sums are carried from one part of K to the next
  kChunkPointers = 2048,
  kChunkBytes = 256 * 1024,  // rows that stay in L2 for all panels
};

// Sums of up to kTileRows rows and the 16 columns of a panel.
typedef struct tile_u8s8 {
  const uint8_t* const* rows;  // [taps][row count]
  int64_t taps, k0, depth;     // elements k0 .. k0 + depth - 1 under each tap
  bool is_signed;
  const void* b;         // as packed, or |split_weights| of it
  const int32_t* start;  // what the sums begin with, rows |start_ld| apart
  int64_t start_ld;
  int32_t* sums;
  // Or the results as bytes, by an epilogue of SMALL_PLAIN.
  const carnot_int8_epilogue* epilogue;
  const float* scale;
  uint8_t* dst;
  int64_t ld;
} tile_u8s8;

// The weights of a step.
typedef struct split_weights {
  byte_vector magnitude[kVectors];
  byte_vector flips[kVectors];  // of the bytes of a
} split_weights;

CARNOT_INLINE split_weights split_step(const int8_t* b, byte_vector flip) {
  split_weights w;
  CARNOT_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const byte_vector x = load_bytes(b + v * kVectorBytes);
    w.magnitude[v] = BYTES_(abs_epi8)(x);
    w.flips[v] = xor_bytes(negative_bytes(x), flip);
  }
  return w;
}

CARNOT_INLINE void tile_step(int row_count, const uint32_t* a, split_weights w,
                             const byte_vector* ones, byte_vector* acc) {
  CARNOT_UNROLL
  for (int i = 0; i < row_count; ++i) {
    const byte_vector av = BYTES_(set1_epi32)((int)a[i]);
    CARNOT_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const byte_vector pairs = BYTES_(maddubs_epi16)(w.magnitude[v], xor_bytes(av, w.flips[v]));
      acc[i * kVectors + v] = BYTES_(add_epi32)(acc[i * kVectors + v], add_pairs(pairs, ones));
    }
  }
}

CARNOT_INLINE split_weights weights_of_step(bool are_split, const char* b, byte_vector flip) {
  split_weights w;
  if (!are_split) return split_step((const int8_t*)b, flip);
  CARNOT_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    w.magnitude[v] = load_bytes(b + v * kVectorBytes);
    w.flips[v] = load_bytes(b + kStepBytes + v * kVectorBytes);
  }
  return w;
}

// Stores sums as bytes, as store_small does.
CARNOT_INLINE void store_plain(int row_count, const tile_u8s8* t, const byte_vector* acc) {
  const carnot_int8_epilogue* e = t->epilogue;
  const bool is_signed = e->output == CARNOT_INT8_OUTPUT_S8;
  const vf32 scale = v_load(t->scale);
#if defined(__AVX512BW__)
  const __m256i zero = _mm256_set1_epi16((int16_t)e->zero_point);
  const __m128i low = _mm_set1_epi8((char)e->low), high = _mm_set1_epi8((char)e->high);
  CARNOT_UNROLL
  for (int i = 0; i < row_count; ++i) {
    const __m512i q = v_to_int(v_mul(v_of_int(acc[i]), scale));
    const __m256i x = _mm256_adds_epi16(_mm512_cvtsepi32_epi16(q), zero);
    const __m128i a = _mm256_castsi256_si128(x), b = _mm256_extracti128_si256(x, 1);
    const __m128i y = is_signed ? _mm_min_epi8(_mm_max_epi8(_mm_packs_epi16(a, b), low), high)
                                : _mm_min_epu8(_mm_max_epu8(_mm_packus_epi16(a, b), low), high);
    _mm_storeu_si128((__m128i*)(t->dst + i * t->ld), y);
  }
#else
  const vf32 scale2 = v_load(t->scale + V_LANES);
  const __m256i zero = _mm256_set1_epi16((int16_t)e->zero_point),
                low = _mm256_set1_epi8((char)e->low), high = _mm256_set1_epi8((char)e->high),
                order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  CARNOT_UNROLL
  for (int i = 0; i < row_count; i += 2) {
    const int next = i + 1 < row_count ? i + 1 : i;
    __m256i x[2];
    CARNOT_UNROLL
    for (int j = 0; j < 2; ++j) {
      const byte_vector* sums = acc + (j ? next : i) * kVectors;
      const vi32 a = v_to_int(v_mul(v_of_int(sums[0]), scale)),
                 b = v_to_int(v_mul(v_of_int(sums[1]), scale2));
      x[j] = _mm256_adds_epi16(_mm256_packs_epi32(a, b), zero);
    }
    __m256i y = is_signed
                    ? _mm256_min_epi8(_mm256_max_epi8(_mm256_packs_epi16(x[0], x[1]), low), high)
                    : _mm256_min_epu8(_mm256_max_epu8(_mm256_packus_epi16(x[0], x[1]), low), high);
    y = _mm256_permutevar8x32_epi32(y, order);
    _mm_storeu_si128((__m128i*)(t->dst + i * t->ld), _mm256_castsi256_si128(y));
    _mm_storeu_si128((__m128i*)(t->dst + next * t->ld), _mm256_extracti128_si256(y, 1));
  }
#endif
}

CARNOT_INLINE void tile_body(int row_count, bool are_split, const tile_u8s8* t) {
  const int step_bytes = are_split ? (int)sizeof(split_weights) : kStepBytes;
  const byte_vector ones = BYTES_(set1_epi16)(1), flip = BYTES_(set1_epi8)(t->is_signed ? 0 : -128);
  byte_vector acc[kTileRows * kVectors];
  CARNOT_UNROLL
  for (int x = 0; x < row_count * kVectors; ++x)
    acc[x] = load_bytes(t->start + x / kVectors * t->start_ld + x % kVectors * kVectorColumns);
  const char* b = t->b;
  for (int64_t tap = 0; tap < t->taps; ++tap) {
    const uint8_t* row[kTileRows];
    uint32_t a[kTileRows];
    CARNOT_UNROLL
    for (int i = 0; i < row_count; ++i) row[i] = t->rows[tap * row_count + i] + t->k0;
    int64_t k = 0;
    for (; k + 4 <= t->depth; k += 4, b += step_bytes) {
      CARNOT_UNROLL
      for (int i = 0; i < row_count; ++i) a[i] = bytes4(row[i] + k);
      tile_step(row_count, a, weights_of_step(are_split, b, flip), &ones, acc);
    }
    if (k == t->depth) continue;
    CARNOT_UNROLL
    for (int i = 0; i < row_count; ++i) a[i] = bytes_left(row[i] + k, t->depth - k);
    tile_step(row_count, a, weights_of_step(are_split, b, flip), &ones, acc);
    b += step_bytes;
  }
  if (t->dst) {
    store_plain(row_count, t, acc);
    return;
  }
  CARNOT_UNROLL
  for (int x = 0; x < row_count * kVectors; ++x)
    store_vector(t->sums + x / kVectors * kSumLd + x % kVectors * kVectorColumns, acc[x]);
}

typedef void tile_fn(const tile_u8s8* t);
#define TILE(rows)                                                           \
  static void tile_##rows(const tile_u8s8* t) { tile_body(rows, false, t); } \
  static void tile_##rows##_split(const tile_u8s8* t) { tile_body(rows, true, t); }
// clang-format off
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5)
#if defined(__AVX512BW__)
TILE(6) TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
static tile_fn* const kTiles[2][kTileRows] = {
    {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6,
     tile_7, tile_8, tile_9, tile_10, tile_11, tile_12},
    {tile_1_split, tile_2_split, tile_3_split, tile_4_split, tile_5_split, tile_6_split,
     tile_7_split, tile_8_split, tile_9_split, tile_10_split, tile_11_split, tile_12_split}};
#else
static tile_fn* const kTiles[2][kTileRows] = {
    {tile_1, tile_2, tile_3, tile_4, tile_5},
    {tile_1_split, tile_2_split, tile_3_split, tile_4_split, tile_5_split}};
#endif
// clang-format on

// Rows that all panels are multiplied with in turn.
typedef struct rows_u8s8 {
  const loop_u8s8* loop;
  int tiles;
  int64_t first[kChunkTiles + 1];  // rows of each tile, and where the last one ends
  int64_t tile_pointers;
  const uint8_t* pointers[kChunkPointers];
} rows_u8s8;

static int rows_of_tile(const rows_u8s8* r, int i) { return (int)(r->first[i + 1] - r->first[i]); }

static int64_t steps_of(const loop_u8s8* p) { return p->taps * ((p->depth + 3) / 4); }

static const int8_t* panel_at(const loop_u8s8* p, int64_t n) {
  return p->weights + n / 16 * steps_of(p) * kStepBytes;
}

static byte_vector flip_of(const loop_u8s8* p) { return BYTES_(set1_epi8)(p->a_signed ? 0 : -128); }

// What the sums of columns n to n + 15, of which |columns| exist, begin with: the bias, less the
// terms of a row of zeros (of s8, which counts from -128: of -128).
// The weights are split to |split| on the way, if it is not NULL.
static void start_of_panel(const loop_u8s8* p, int64_t n, int64_t columns, int32_t* start,
                           split_weights* split) {
  const byte_vector ones = BYTES_(set1_epi16)(1);
  const uint32_t zeros = p->a_signed ? 0x80808080u : 0;
  const int8_t* b = panel_at(p, n);
  int32_t bias[16] = {0};
  byte_vector acc[kVectors];
  if (p->epilogue->bias)
    memcpy(bias, p->epilogue->bias + n, (size_t)min_i64(16, columns) * sizeof *bias);
  CARNOT_UNROLL
  for (int v = 0; v < kVectors; ++v) acc[v] = BYTES_(set1_epi32)(0);
  for (int64_t i = 0; i < steps_of(p); ++i) {
    const split_weights w = split_step(b + i * kStepBytes, flip_of(p));
    tile_step(1, &zeros, w, &ones, acc);
    if (split) split[i] = w;
  }
  CARNOT_UNROLL
  for (int v = 0; v < kVectors; ++v)
    store_vector(start + v * kVectorColumns,
                 BYTES_(sub_epi32)(load_bytes(bias + v * kVectorColumns), acc[v]));
}

// A part of K: taps t0 .. t1 - 1, or elements k0 .. k1 - 1 under tap t0.
typedef struct k_part {
  int64_t t0, t1, k0, k1;
} k_part;

static k_part next_part(const loop_u8s8* p, k_part last) {
  const int64_t quads = (p->depth + 3) / 4;
  if (quads > kSplitSteps) {
    const bool is_done = last.k1 == p->depth || last.t1 == 0;
    const int64_t tap = is_done ? last.t1 : last.t0, k = is_done ? 0 : last.k1;
    return (k_part){tap, tap + 1, k, min_i64(p->depth, k + 4 * kSplitSteps)};
  }
  const int64_t taps = kSplitSteps / max_i64(1, quads);
  return (k_part){last.t1, min_i64(p->taps, last.t1 + taps), 0, p->depth};
}

static bool is_last_part(const loop_u8s8* p, const k_part* part) {
  return part->t1 == p->taps && part->k1 == p->depth;
}

// The tile of rows |i| and of the panel at column |n|, over a part of K whose weights are |b|.
static void run_tile(const rows_u8s8* r, int i, int64_t n, const k_part* part, bool is_split,
                     const void* b, const int32_t* start, int64_t start_ld, int32_t* sums,
                     bool is_stored) {
  const loop_u8s8* p = r->loop;
  const int count = rows_of_tile(r, i);
  tile_u8s8 t = {.rows = r->pointers + i * r->tile_pointers + part->t0 * count,
                 .taps = part->t1 - part->t0,
                 .k0 = part->k0,
                 .depth = part->k1 - part->k0,
                 .is_signed = p->a_signed,
                 .b = b,
                 .start = start,
                 .start_ld = start_ld,
                 .sums = sums};
  if (is_stored) {
    t.epilogue = p->epilogue, t.scale = p->epilogue->scale + n;
    t.dst = (uint8_t*)p->dst + r->first[i] * p->ld + n, t.ld = p->ld;
  }
  kTiles[is_split][count - 1](&t);
}

// Columns [n0, n1) of the rows. The weights of a panel are multiplied with all of them while they
// are in L1 or L2; of a long K, part after part.
static void run_chunk(const rows_u8s8* r, int64_t n0, int64_t n1) {
  int32_t sums[kCarriedTiles * kTileRows * kSumLd] __attribute__((aligned(64))), start[2][16];
  split_weights split[2][kSplitSteps];
  const loop_u8s8* p = r->loop;
  const carnot_int8_epilogue* e = p->epilogue;
  const bool splits = r->tiles >= kLeastTilesToSplit, is_whole = steps_of(p) <= kSplitSteps;
  const bool is_plain = takes_small(e) && form_of(e) == SMALL_PLAIN;
  for (int64_t n = n0; n < n1; n += kSumLd) {
    const int panels = n1 - n > 16 ? 2 : 1;
    const bool is_stored = is_plain && n1 - n >= 16 * panels;
    for (int j = 0; j < panels; ++j)
      start_of_panel(p, n + 16 * j, n1 - n - 16 * j, start[j],
                     splits && is_whole ? split[j] : NULL);
    k_part part = {0, 0, 0, 0};
    for (int64_t step = 0, steps; step < steps_of(p) || step == 0; step += steps) {
      part = splits && !is_whole ? next_part(p, part) : (k_part){0, p->taps, 0, p->depth};
      steps = max_i64(1, (part.t1 - part.t0) * ((part.k1 - part.k0 + 3) / 4));
      const bool is_last = is_last_part(p, &part);
      for (int j = 0; j < panels && splits && !is_whole; ++j)
        for (int64_t i = 0; i < steps; ++i)
          split[j][i] = split_step(panel_at(p, n + 16 * j) + (step + i) * kStepBytes, flip_of(p));
      for (int i = 0; i < r->tiles; ++i) {
        int32_t* tile_sums = sums + (is_whole || !splits ? 0 : i * kTileRows * kSumLd);
        for (int j = 0; j < panels; ++j)
          run_tile(r, i, n + 16 * j, &part, splits,
                   splits ? (const void*)split[j] : panel_at(p, n + 16 * j),
                   step ? tile_sums + 16 * j : start[j], step ? kSumLd : 0, tile_sums + 16 * j,
                   is_stored && is_last);
        if (is_stored || !is_last) continue;
        store_rows(e, /*bias=*/NULL, p->dst, p->ld, r->first[i], rows_of_tile(r, i), n,
                   min_i64(kSumLd, n1 - n), tile_sums, kSumLd);
      }
    }
  }
}

// Up to kFewRows rows by vpmaddwd of bytes that are extended to 16 bits: they wait for weights, and
// a row of zeros would cost as much as they. A vector holds 4 columns by two pairs of products.
CARNOT_INLINE void few_sums(int row_count, const uint8_t* const* rows, const loop_u8s8* p,
                            const int8_t* b, int32_t* sums) {
  __m256i acc[kFewRows * 4];
  CARNOT_UNROLL
  for (int x = 0; x < row_count * 4; ++x) acc[x] = _mm256_setzero_si256();
  const uint32_t flip = p->a_signed ? 0x80808080u : 0;  // turns s8 into u8 by adding 128
  for (int64_t tap = 0; tap < p->taps; ++tap) {
    for (int64_t k = 0; k < p->depth; k += 4, b += kStepBytes) {
      __m256i av[kFewRows];
      CARNOT_UNROLL
      for (int i = 0; i < row_count; ++i) {
        const uint8_t* row = rows[tap * row_count + i] + k;
        const uint32_t a = p->depth - k >= 4 ? bytes4(row) : bytes_left(row, p->depth - k);
        av[i] = _mm256_cvtepu8_epi16(_mm_set1_epi32((int32_t)(a ^ flip)));
      }
      CARNOT_UNROLL
      for (int j = 0; j < 4; ++j) {
        const __m256i bv = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(b + 16 * j)));
        CARNOT_UNROLL
        for (int i = 0; i < row_count; ++i)
          acc[i * 4 + j] = _mm256_add_epi32(acc[i * 4 + j], _mm256_madd_epi16(av[i], bv));
      }
    }
  }
  CARNOT_UNROLL
  for (int x = 0; x < row_count * 2; ++x) {  // 8 columns from two vectors of pairs
    const __m256i pairs = _mm256_hadd_epi32(acc[2 * x], acc[2 * x + 1]);
    _mm256_storeu_si256((__m256i*)(sums + x / 2 * kSumLd + x % 2 * 8),
                        _mm256_permute4x64_epi64(pairs, 0xd8));
  }
}

static void run_few_rows(const loop_u8s8* p, int64_t m, int count, int64_t n0, int64_t n1) {
  const uint8_t* rows[CARNOT_INT8_MAX_TAPS * kFewRows + kRowsAtOnce];
  int32_t sums[kFewRows * kSumLd];
  p->rows(p->problem, m, count, rows);
  for (int64_t n = n0; n < n1; n += 16) {
    if (count == 1)
      few_sums(1, rows, p, panel_at(p, n), sums);
    else if (count == 2)
      few_sums(2, rows, p, panel_at(p, n), sums);
    else
      few_sums(3, rows, p, panel_at(p, n), sums);
    store_rows(p->epilogue, p->epilogue->bias, p->dst, p->ld, m, count, n, min_i64(16, n1 - n),
               sums, kSumLd);
  }
}

static void run_loop(const loop_u8s8* p, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  if (m1 - m0 <= kFewRows) {
    if (m1 > m0) run_few_rows(p, m0, (int)(m1 - m0), n0, n1);
    return;
  }
  rows_u8s8 r;
  r.loop = p;
  r.tile_pointers = p->taps * kTileRows + kRowsAtOnce;
  const int64_t parts = (m1 - m0 + kTileRows - 1) / kTileRows;
  // Neighbouring pixels share most of what is under their taps.
  const int64_t row_bytes = max_i64(1, p->depth) * (p->taps > 1 ? 2 : 1);
  int64_t most = min_i64(kChunkPointers / r.tile_pointers, kChunkBytes / (row_bytes * kTileRows));
  most = max_i64(1, min_i64(most, steps_of(p) > kSplitSteps ? kCarriedTiles : kChunkTiles));
  const int64_t chunks = (parts + most - 1) / most;
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t begin = parts * i / chunks;
    r.tiles = (int)(parts * (i + 1) / chunks - begin);
    for (int j = 0; j <= r.tiles; ++j) r.first[j] = m0 + (m1 - m0) * (begin + j) / parts;
    for (int j = 0; j < r.tiles; ++j)
      p->rows(p->problem, r.first[j], rows_of_tile(&r, j), r.pointers + j * r.tile_pointers);
    run_chunk(&r, n0, n1);
  }
}

#endif  // CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_MADDUBS_U8S8_H_
