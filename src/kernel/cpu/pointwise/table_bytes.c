// Functions of one byte: four registers hold a table with VBMI, which is asked for here, sixteen
// shuffles make one without.
#include "kernel/cpu/pointwise/table_bytes.h"

#include <string.h>

#include "kernel/cpu/common/kernels_isa.h"

#if defined(__AVX2__)

#if defined(__AVX512BW__)
typedef __m512i vector;
#define VECTOR(name)           _mm512_##name
#define VECTOR_LOAD(p)         _mm512_loadu_si512(p)
#define VECTOR_STORE(p, v)     _mm512_storeu_si512(p, v)
#define VECTOR_XOR(a, b)       _mm512_xor_si512(a, b)
#define VECTOR_OR(a, b)        _mm512_or_si512(a, b)
#define VECTOR_FOUR_TIMES(row) _mm512_broadcast_i32x4(row)
#else
typedef __m256i vector;
#define VECTOR(name)           _mm256_##name
#define VECTOR_LOAD(p)         _mm256_loadu_si256((const __m256i*)(const void*)(p))
#define VECTOR_STORE(p, v)     _mm256_storeu_si256((__m256i*)(void*)(p), v)
#define VECTOR_XOR(a, b)       _mm256_xor_si256(a, b)
#define VECTOR_OR(a, b)        _mm256_or_si256(a, b)
#define VECTOR_FOUR_TIMES(row) _mm256_broadcastsi128_si256(row)
#endif

// A shuffle gives 0 where bit 7 of an index is set: row t of the table answers for the bytes whose
// upper half is t, whose indices alone stay below 128.
static int64_t by_shuffles(const uint8_t* table, int64_t count, const uint8_t* x, uint8_t* y) {
  vector rows[16];
  for (int t = 0; t < 16; ++t)
    rows[t] = VECTOR_FOUR_TIMES(_mm_loadu_si128((const __m128i*)(const void*)(table + 16 * t)));
  const vector limit = VECTOR(set1_epi8)(0x70);
  int64_t i = 0;
  for (; i + (int64_t)sizeof(vector) <= count; i += (int64_t)sizeof(vector)) {
    const vector at = VECTOR_LOAD(x + i);
    vector sum = VECTOR_XOR(at, at);
    CARNOT_UNROLL
    for (int t = 0; t < 16; ++t) {
      const vector index =
          VECTOR(adds_epu8)(VECTOR_XOR(at, VECTOR(set1_epi8)((char)(16 * t))), limit);
      sum = VECTOR_OR(sum, VECTOR(shuffle_epi8)(rows[t], index));
    }
    VECTOR_STORE(y + i, sum);
  }
  return i;
}

#if defined(__AVX512BW__)

// VBMI is part of no level; Ice Lake, Zen 4 and what followed them have it.
__attribute__((target("avx512vbmi"))) static int64_t by_permutations(const uint8_t* table,
                                                                     int64_t count,
                                                                     const uint8_t* x, uint8_t* y) {
  const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64),
                c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i at = _mm512_loadu_si512(x + i);
    const __m512i low = _mm512_permutex2var_epi8(a, at, b),
                  high = _mm512_permutex2var_epi8(c, at, d);
    _mm512_storeu_si512(y + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high));
  }
  return i;
}

static int64_t whole_vectors(const uint8_t* table, int64_t count, const uint8_t* x, uint8_t* y) {
  return (__builtin_cpu_supports("avx512vbmi") ? by_permutations : by_shuffles)(table, count, x, y);
}

#else

static int64_t whole_vectors(const uint8_t* table, int64_t count, const uint8_t* x, uint8_t* y) {
  return by_shuffles(table, count, x, y);
}

#endif

#else

// Eight at a time: a store of one byte may change any other that is read next.
static int64_t whole_vectors(const uint8_t* table, int64_t count, const uint8_t* x, uint8_t* y) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t from, to = 0;
    memcpy(&from, x + i, sizeof(from));
    for (int b = 0; b < 64; b += 8) to |= (uint64_t)table[from >> b & 255] << b;
    memcpy(y + i, &to, sizeof(to));
  }
  return i;
}

#endif

void CARNOT_KERNEL(table_bytes)(const uint8_t* table, int64_t count, const uint8_t* x, uint8_t* y) {
  for (int64_t i = whole_vectors(table, count, x, y); i < count; ++i) y[i] = table[x[i]];
}
