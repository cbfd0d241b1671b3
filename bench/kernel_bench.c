// Times the CPU kernels on one core: kernel_bench [isa [family]].
// Prints work per second and its share of the machine's measured limit: the rate of multiply-adds
// on registers (of f32 also for integer kernels without a byte dot product), or the rate of reading
// a buffer of the size that the kernel streams.
#include "kernel_bench.h"

#include <math.h>
#include <time.h>

#include "backend/cpu/roofline/roofline_loops.h"
#include "kernel/cpu/common/machine.h"

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

typedef struct peak_call {
  const carnot_roofline_loop* loop;
  long rounds;
} peak_call;

static void run_peak(void* argument) {
  const peak_call* c = argument;
  c->loop->run(c->rounds);
}

// Operations a second on registers, of the best loop for |type| that |isa| has; 0: it has none.
static double peak_of(const char* type, carnot_isa isa) {
  const carnot_roofline_loop* best = NULL;
  for (const carnot_roofline_loop* loop = carnot_roofline_loops; loop->run; ++loop)
    if (!strcmp(loop->type, type) && loop->isa <= (int)isa) best = loop;
  if (!best) return 0;
  peak_call call = {best, 1000};
  return best->operations * (double)call.rounds / least_time(run_peak, &call);
}

typedef struct span {
  const float* x;
  size_t bytes;
  long rounds;  // so many that asking for the machine's level does not count
} span;

static void read_span(void* argument) {
  const span* s = argument;
  carnot_roofline_read((const char*)s->x, s->bytes, s->rounds);
}

static void measure_streams(bench* b) {
  static const int64_t bytes[] = {512 << 10, 8 << 20, 256 << 20};
  static const char* names[] = {"L2", "L3", "memory"};
  for (int i = 0; i < 3; ++i) {
    span s = {floats(bytes[i] / 4), (size_t)bytes[i], (long)((bytes[2] - 1) / bytes[i] / 8 + 1)};
    b->stream_bytes[i] = (double)(bytes[i] * s.rounds) / least_time(read_span, &s);
    printf("read %-6s %6.1f GB/s\n", names[i], b->stream_bytes[i] * 1e-9);
    free((void*)s.x);
  }
}

static bool wanted(const bench* b, const char* family) {
  return !b->family || !strcmp(b->family, family);
}

void report_flop(const bench* b, const char* kernel, const char* shape, double flop, double time) {
  printf("%-14s %-30s %-10s %8.1f us %8.1f GFLOP/s %5.1f %% of peak\n", kernel, shape,
         b->kernels->isa, time * 1e6, flop / time * 1e-9, 100 * flop / time / b->peak_flop);
}

void report_int8(const bench* b, const char* kernel, const char* shape, double work, double time) {
  printf("%-14s %-30s %-10s %8.1f us %8.1f GOP/s   %5.1f %% of peak\n", kernel, shape,
         b->kernels->isa, time * 1e6, work / time * 1e-9, 100 * work / time / b->peak_int8);
}

void report_bytes(const bench* b, const char* kernel, const char* shape, double bytes,
                  double time) {
  const int level = bytes <= (768 << 10) ? 0 : bytes <= (20 << 20) ? 1 : 2;
  printf("%-14s %-30s %-10s %8.1f us %8.1f GB/s    %5.1f %% of reading\n", kernel, shape,
         b->kernels->isa, time * 1e6, bytes / time * 1e-9,
         100 * bytes / time / b->stream_bytes[level]);
}

static const struct {
  const char* name;
  void (*run)(const bench*);
} kFamilies[] = {
    {"dequant", bench_dequant},     {"gemm", bench_gemm},           {"conv", bench_conv},
    {"depthwise", bench_depthwise}, {"pool", bench_pool},           {"pointwise", bench_pointwise},
    {"rows", bench_rows},           {"attention", bench_attention}, {"int8", bench_int8},
    {"tiles", bench_tiles},         {"memory", bench_memory},
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
    b.peak_flop = peak_of("f32", (carnot_isa)level);
    b.peak_int8 = fmax(b.peak_flop, peak_of("int8", (carnot_isa)level));
    printf("peak %-10s f32 %6.1f GFLOP/s, int8 %6.1f GOP/s\n", b.kernels->isa, b.peak_flop * 1e-9,
           b.peak_int8 * 1e-9);
    for (size_t i = 0; i < sizeof kFamilies / sizeof *kFamilies; ++i) {
      if (wanted(&b, kFamilies[i].name)) kFamilies[i].run(&b);
    }
  }
  return 0;
}
