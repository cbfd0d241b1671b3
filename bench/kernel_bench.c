// Times the CPU kernels on one core: kernel_bench [isa [family]].
// Prints work per second and its share of the machine's measured limit: the rate of fused
// multiply-adds on registers (f32 also for integer kernels, whose own limit is four times that with
// VNNI), or the rate of reading a buffer of the size that the kernel streams.
#include "kernel_bench.h"

#include <time.h>

#include "kernel/cpu/common/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double least_time(void (*call)(void*), void* argument) {
  double best = 1e9;
  call(argument);
  const double end = seconds() + 0.1;
  for (int i = 0; i < 5 || seconds() < end; ++i) {
    const double begin = seconds();
    call(argument);
    const double time = seconds() - begin;
    if (time < best) best = time;
  }
  return best;
}

float* floats(int64_t count) {
  float* x = aligned_alloc(64, (size_t)(count + 15) / 16 * 64 + 64);
  if (!x) abort();
  for (int64_t i = 0; i < count; ++i) x[i] = (float)(i % 13 - 6) * 0.1f;
  return x;
}

enum { kChains = 12, kSteps = 100000 };
static volatile float sink;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void fma_avx512(void* unused) {
  (void)unused;
  __m512 c[kChains], x = _mm512_set1_ps(sink);
  for (int i = 0; i < kChains; ++i) c[i] = x;
  for (int k = 0; k < kSteps; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) c[i] = _mm512_fmadd_ps(c[i], x, x);
  }
  for (int i = 1; i < kChains; ++i) c[0] = _mm512_add_ps(c[0], c[i]);
  sink = _mm512_cvtss_f32(c[0]) * 0;
}

__attribute__((target("avx2,fma"))) static void fma_avx2(void* unused) {
  (void)unused;
  __m256 c[kChains], x = _mm256_set1_ps(sink);
  for (int i = 0; i < kChains; ++i) c[i] = x;
  for (int k = 0; k < kSteps; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) c[i] = _mm256_fmadd_ps(c[i], x, x);
  }
  for (int i = 1; i < kChains; ++i) c[0] = _mm256_add_ps(c[0], c[i]);
  sink = _mm256_cvtss_f32(c[0]) * 0;
}
#endif

static double peak_flop(const char* isa) {
#if defined(__x86_64__)
  const double steps = 2.0 * kChains * kSteps;
  if (!strncmp(isa, "avx512", 6) || !strncmp(isa, "amx", 3))
    return 16 * steps / least_time(fma_avx512, NULL);
  if (__builtin_cpu_supports("fma")) return 8 * steps / least_time(fma_avx2, NULL);
#endif
  (void)isa;
  return 0;
}

typedef struct span {
  const float* x;
  int64_t count;
} span;

#if defined(__x86_64__)
__attribute__((target("avx512f")))
#endif
static void
read_span(void* argument) {
  const span* s = argument;
  float sum[64] = {0};
  for (int64_t i = 0; i + 64 <= s->count; i += 64) {
    for (int j = 0; j < 64; ++j) sum[j] += s->x[i + j];
  }
  for (int j = 0; j < 64; ++j) sink = sum[j] * 0;
}

static void measure_streams(bench* b) {
  static const int64_t bytes[] = {512 << 10, 8 << 20, 256 << 20};
  static const char* names[] = {"L2", "L3", "memory"};
  for (int i = 0; i < 3; ++i) {
    span s = {floats(bytes[i] / 4), bytes[i] / 4};
    b->stream_bytes[i] = (double)bytes[i] / least_time(read_span, &s);
    printf("read %-6s %6.1f GB/s\n", names[i], b->stream_bytes[i] * 1e-9);
    free((void*)s.x);
  }
}

static bool wanted(const bench* b, const char* family) {
  return !b->family || !strcmp(b->family, family);
}

void report_flop(const bench* b, const char* kernel, const char* shape, double flop, double time) {
  printf("%-14s %-30s %-7s %8.1f us %8.1f GFLOP/s %5.1f %% of peak\n", kernel, shape,
         b->kernels->isa, time * 1e6, flop / time * 1e-9, 100 * flop / time / b->peak_flop);
}

void report_bytes(const bench* b, const char* kernel, const char* shape, double bytes,
                  double time) {
  const int level = bytes <= (768 << 10) ? 0 : bytes <= (20 << 20) ? 1 : 2;
  printf("%-14s %-30s %-7s %8.1f us %8.1f GB/s    %5.1f %% of reading\n", kernel, shape,
         b->kernels->isa, time * 1e6, bytes / time * 1e-9,
         100 * bytes / time / b->stream_bytes[level]);
}

static const struct {
  const char* name;
  void (*run)(const bench*);
} kFamilies[] = {
    {"gemm", bench_gemm},           {"conv", bench_conv},           {"depthwise", bench_depthwise},
    {"pool", bench_pool},           {"pointwise", bench_pointwise}, {"rows", bench_rows},
    {"attention", bench_attention}, {"int8", bench_int8},           {"memory", bench_memory},
};

int main(int argc, char** argv) {
  const char* isa = argc > 1 ? argv[1] : NULL;
  bench b = {.family = argc > 2 ? argv[2] : NULL};
  measure_streams(&b);
  for (int level = CARNOT_ISA_COUNT - 1; level >= 0; --level) {
    b.kernels = carnot_cpu_kernels_for((carnot_isa)level);
    if (!b.kernels || carnot_machine_lacks((carnot_isa)level) ||
        (isa && strcmp(isa, b.kernels->isa)))
      continue;
    b.peak_flop = peak_flop(b.kernels->isa);
    printf("peak %-6s %6.1f GFLOP/s\n", b.kernels->isa, b.peak_flop * 1e-9);
    for (size_t i = 0; i < sizeof kFamilies / sizeof *kFamilies; ++i) {
      if (wanted(&b, kFamilies[i].name)) kFamilies[i].run(&b);
    }
  }
  return 0;
}
