// The loops of the roofline measurement.
#include "backend/cpu/roofline/roofline_loops.h"

#include <stdint.h>
#include <string.h>

#include "tactic/tactic.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { kInner = 1024 };

// Twelve accumulators hide the latency of two units; the empty asm keeps the compiler from folding
// the loop.
#define LOOP(NAME, TARGET, VECTOR, CONSTRAINT, ZERO, STEP)                               \
  __attribute__((target(TARGET))) static void NAME(long rounds) {                        \
    VECTOR s0 = ZERO, s1 = ZERO, s2 = ZERO, s3 = ZERO, s4 = ZERO, s5 = ZERO;             \
    VECTOR s6 = ZERO, s7 = ZERO, s8 = ZERO, s9 = ZERO, sa = ZERO, sb = ZERO;             \
    for (long i = 0; i < rounds * kInner; i++) {                                         \
      STEP(s0);                                                                          \
      STEP(s1);                                                                          \
      STEP(s2);                                                                          \
      STEP(s3);                                                                          \
      STEP(s4);                                                                          \
      STEP(s5);                                                                          \
      STEP(s6);                                                                          \
      STEP(s7);                                                                          \
      STEP(s8);                                                                          \
      STEP(s9);                                                                          \
      STEP(sa);                                                                          \
      STEP(sb);                                                                          \
      __asm__ volatile(""                                                                \
                       : CONSTRAINT(s0), CONSTRAINT(s1), CONSTRAINT(s2), CONSTRAINT(s3), \
                         CONSTRAINT(s4), CONSTRAINT(s5));                                \
      __asm__ volatile(""                                                                \
                       : CONSTRAINT(s6), CONSTRAINT(s7), CONSTRAINT(s8), CONSTRAINT(s9), \
                         CONSTRAINT(sa), CONSTRAINT(sb));                                \
    }                                                                                    \
  }

#if defined(__x86_64__)
#define PS256(s) s = _mm256_fmadd_ps(s, _mm256_set1_ps(0.5f), _mm256_set1_ps(1))
LOOP(f32_avx2, "avx2,fma", __m256, "+x", _mm256_setzero_ps(), PS256)
#define PD256(s) s = _mm256_fmadd_pd(s, _mm256_set1_pd(0.5), _mm256_set1_pd(1))
LOOP(f64_avx2, "avx2,fma", __m256d, "+x", _mm256_setzero_pd(), PD256)
#define PS512(s) s = _mm512_fmadd_ps(s, _mm512_set1_ps(0.5f), _mm512_set1_ps(1))
LOOP(f32_avx512, "avx512f", __m512, "+v", _mm512_setzero_ps(), PS512)
#define PD512(s) s = _mm512_fmadd_pd(s, _mm512_set1_pd(0.5), _mm512_set1_pd(1))
LOOP(f64_avx512, "avx512f", __m512d, "+v", _mm512_setzero_pd(), PD512)
#define VNNI(s) s = _mm512_dpbusd_epi32(s, _mm512_set1_epi8(1), _mm512_set1_epi8(2))
LOOP(int8_vnni, "avx512f,avx512vnni", __m512i, "+v", _mm512_setzero_si512(), VNNI)
#define BF16(s) \
  s = _mm512_dpbf16_ps(s, (__m512bh)_mm512_setzero_si512(), (__m512bh)_mm512_setzero_si512());
LOOP(bf16_avx512, "avx512f,avx512bf16", __m512, "+v", _mm512_setzero_ps(), BF16)

// Four accumulators of 16x16, K by 64 bytes.
#define AMX_LOOP(NAME, TARGET, DOT)                                                             \
  __attribute__((target("amx-tile," TARGET))) static void NAME(long rounds) {                   \
    static const struct {                                                                       \
      uint8_t palette, start_row, reserved[14];                                                 \
      uint16_t row_bytes[16];                                                                   \
      uint8_t rows[16];                                                                         \
    } config = {                                                                                \
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16}}; \
    _tile_loadconfig(&config); /* and all tiles are zero */                                     \
    for (long i = 0; i < rounds * kInner; i++) {                                                \
      DOT(0, 4, 5);                                                                             \
      DOT(1, 4, 5);                                                                             \
      DOT(2, 4, 5);                                                                             \
      DOT(3, 4, 5);                                                                             \
    }                                                                                           \
    _tile_release();                                                                            \
  }
AMX_LOOP(bf16_amx, "amx-bf16", _tile_dpbf16ps)
AMX_LOOP(int8_amx, "amx-int8", _tile_dpbusd)
#endif

#if defined(__x86_64__)
#define KEEP(v) __asm__ volatile("" : "+x"(v))
#else
#define KEEP(v) __asm__ volatile("" : "+w"(v))
#endif

static void f32_scalar(long rounds) {
  float s[8] = {0};
  for (long i = 0; i < rounds * kInner; i++)
    for (int k = 0; k < 8; k++) {
      s[k] = s[k] * 0.5f + 1;
      KEEP(s[k]);
    }
}

#define OPERATIONS(lanes, per_lane) (12.0 * kInner * (lanes) * (per_lane))
const carnot_roofline_loop carnot_roofline_loops[] = {
    {"f32", CARNOT_ISA_SCALAR, 16.0 * kInner, f32_scalar},
#if defined(__x86_64__)
    {"f32", CARNOT_ISA_AVX2, OPERATIONS(8, 2), f32_avx2},
    {"f64", CARNOT_ISA_AVX2, OPERATIONS(4, 2), f64_avx2},
    {"f32", CARNOT_ISA_AVX512, OPERATIONS(16, 2), f32_avx512},
    {"f64", CARNOT_ISA_AVX512, OPERATIONS(8, 2), f64_avx512},
    {"int8", CARNOT_ISA_AVX512_VNNI, OPERATIONS(16, 8), int8_vnni},
    {"bf16", CARNOT_ISA_AVX512_BF16, OPERATIONS(16, 4), bf16_avx512},
    {"bf16", CARNOT_ISA_AMX_BF16, 4.0 * kInner * 16 * 16 * 32 * 2, bf16_amx},
    {"int8", CARNOT_ISA_AMX_BF16, 4.0 * kInner * 16 * 16 * 64 * 2, int8_amx},
#endif
    {NULL, 0, 0, NULL},
};

static void read_scalar(const char* src, size_t bytes) {
  uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (size_t i = 0; i + 32 <= bytes; i += 32) {
    uint64_t v[4];
    memcpy(v, src + i, sizeof(v));
    s0 ^= v[0], s1 ^= v[1], s2 ^= v[2], s3 ^= v[3];
  }
  __asm__ volatile("" : : "r"(s0 ^ s1 ^ s2 ^ s3));
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void read_avx512(const char* src, size_t bytes) {
  __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
  for (size_t i = 0; i + 256 <= bytes; i += 256) {
    s0 = _mm512_xor_si512(s0, _mm512_load_si512(src + i));
    s1 = _mm512_xor_si512(s1, _mm512_load_si512(src + i + 64));
    s2 = _mm512_xor_si512(s2, _mm512_load_si512(src + i + 128));
    s3 = _mm512_xor_si512(s3, _mm512_load_si512(src + i + 192));
  }
  __asm__ volatile("" : : "v"(s0), "v"(s1), "v"(s2), "v"(s3));
}
__attribute__((target("avx2"))) static void read_avx2(const char* src, size_t bytes) {
  __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
  for (size_t i = 0; i + 128 <= bytes; i += 128) {
    s0 = _mm256_xor_si256(s0, _mm256_load_si256((const __m256i*)(src + i)));
    s1 = _mm256_xor_si256(s1, _mm256_load_si256((const __m256i*)(src + i + 32)));
    s2 = _mm256_xor_si256(s2, _mm256_load_si256((const __m256i*)(src + i + 64)));
    s3 = _mm256_xor_si256(s3, _mm256_load_si256((const __m256i*)(src + i + 96)));
  }
  __asm__ volatile("" : : "x"(s0), "x"(s1), "x"(s2), "x"(s3));
}
#endif

void carnot_roofline_read(const char* src, size_t bytes, long rounds) {
  carnot_isa isa = carnot_isa_of_machine();
  for (long i = 0; i < rounds; i++) {
#if defined(__x86_64__)
    if (carnot_isa_includes(isa, CARNOT_ISA_AVX512))
      read_avx512(src, bytes);
    else if (carnot_isa_includes(isa, CARNOT_ISA_AVX2))
      read_avx2(src, bytes);
    else
#endif
      read_scalar(src, bytes);
  }
  (void)isa;
}

void carnot_roofline_copy(char* dst, const char* src, size_t bytes, long rounds) {
  for (long i = 0; i < rounds; i++) {
    memcpy(dst, src, bytes);
    __asm__ volatile("" : : "r"(dst) : "memory");
  }
}
