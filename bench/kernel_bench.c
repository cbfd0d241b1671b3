// Times the CPU kernels on one core: kernel_bench [isa [family]].
// Prints work per second and its share of the machine's measured limit: the rate of fused
// multiply-adds on registers, or the rate of reading a buffer of the size that the kernel streams.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/cpu/kernels.h"
#include "kernel/cpu/pack_f32.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct bench {
  const carnot_cpu_kernels* kernels;
  const char* family;      // only this one, or NULL for all
  double peak_flop;        // FLOP/s of this ISA level on registers
  double stream_bytes[3];  // byte/s read from L2, L3, memory
} bench;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// The least time of a call over repeats of about 0.1 s in all.
static double least_time(void (*call)(void*), void* argument) {
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

static float* floats(int64_t count) {
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
  if (!strncmp(isa, "avx512", 6)) return 16 * steps / least_time(fma_avx512, NULL);
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

static void report_flop(const bench* b, const char* kernel, const char* shape, double flop,
                        double time) {
  printf("%-14s %-30s %-7s %8.1f us %8.1f GFLOP/s %5.1f %% of peak\n", kernel, shape,
         b->kernels->isa, time * 1e6, flop / time * 1e-9, 100 * flop / time / b->peak_flop);
}

static void report_bytes(const bench* b, const char* kernel, const char* shape, double bytes,
                         double time) {
  const int level = bytes <= (768 << 10) ? 0 : bytes <= (20 << 20) ? 1 : 2;
  printf("%-14s %-30s %-7s %8.1f us %8.1f GB/s    %5.1f %% of reading\n", kernel, shape,
         b->kernels->isa, time * 1e6, bytes / time * 1e-9,
         100 * bytes / time / b->stream_bytes[level]);
}

typedef struct gemm_call {
  const carnot_cpu_kernels* kernels;
  carnot_gemm_f32 gemm;
} gemm_call;

static void run_gemm(void* argument) {
  const gemm_call* c = argument;
  c->kernels->gemm_f32(&c->gemm, 0, c->gemm.m, 0, c->gemm.n);
}

static void bench_gemm(const bench* b) {
  static const struct {
    int64_t m, n, k;
  } shapes[] = {{3136, 256, 64},  {3136, 64, 256},  {784, 512, 128},  {784, 128, 512},
                {196, 1024, 256}, {196, 256, 1024}, {49, 2048, 512},  {49, 512, 2048},
                {128, 768, 768},  {128, 3072, 768}, {128, 768, 3072}, {3136, 96, 24},
                {3136, 24, 144},  {14, 1024, 1024}, {4, 1024, 1024},  {1, 1024, 512},
                {1, 1000, 2048},  {1, 3072, 768},   {1, 50257, 768}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t m = shapes[i].m, n = shapes[i].n, k = shapes[i].k;
    gemm_call c = {b->kernels,
                   {.m = m,
                    .n = n,
                    .k = k,
                    .a = floats(m * k),
                    .lda = k,
                    .b = floats(carnot_packed_k1n16_count(k, n)),
                    .c = floats(m * n),
                    .ldc = n,
                    .epilogue = {.bias = floats(n), .activation = CARNOT_ACTIVATION_RELU}}};
    const double time = least_time(run_gemm, &c);
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld", (long long)m, (long long)n, (long long)k);
    if (m > 1) {
      report_flop(b, "gemm_f32", shape, 2.0 * (double)(m * n * k), time);
    } else {
      report_bytes(b, "gemm_f32", shape, 4.0 * (double)(n * k), time);
    }
    free((void*)c.gemm.a), free((void*)c.gemm.b), free(c.gemm.c);
    free((void*)c.gemm.epilogue.bias);
  }
}

typedef struct conv_call {
  const carnot_cpu_kernels* kernels;
  carnot_conv2d_f32 conv;
} conv_call;

static void run_conv(void* argument) {
  const conv_call* c = argument;
  c->kernels->conv2d_f32(&c->conv, 0, c->conv.n * c->conv.p * c->conv.q, 0, c->conv.k);
}

static void bench_conv(const bench* b) {
  static const struct {
    int64_t size, c, k, filter, stride;
  } shapes[] = {{56, 64, 64, 3, 1},   {28, 128, 128, 3, 1}, {14, 256, 256, 3, 1},
                {7, 512, 512, 3, 1},  {56, 128, 128, 3, 2}, {14, 512, 512, 3, 2},
                {56, 256, 512, 1, 2}, {224, 3, 64, 7, 2},   {224, 3, 32, 3, 2},
                {224, 64, 64, 3, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t h = shapes[i].size, c = shapes[i].c, k = shapes[i].k, r = shapes[i].filter;
    const int64_t stride = shapes[i].stride, pad = r / 2, p = (h + 2 * pad - r) / stride + 1;
    conv_call call = {b->kernels,
                      {.n = 1,
                       .h = h,
                       .w = h,
                       .c = c,
                       .p = p,
                       .q = p,
                       .k = k,
                       .r = r,
                       .s = r,
                       .stride_h = stride,
                       .stride_w = stride,
                       .dilation_h = 1,
                       .dilation_w = 1,
                       .pad_h = pad,
                       .pad_w = pad,
                       .src = floats(h * h * c),
                       .src_n = h * h * c,
                       .src_h = h * c,
                       .src_w = c,
                       .weights = floats(carnot_packed_k1n16_count(r * r * c, k)),
                       .zeros = calloc((size_t)c, sizeof(float)),
                       .dst = floats(p * p * k),
                       .ld = k,
                       .epilogue = {.bias = floats(k), .activation = CARNOT_ACTIVATION_RELU}}};
    const double time = least_time(run_conv, &call);
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld->%lld %lldx%lld/%lld", (long long)h, (long long)h,
             (long long)c, (long long)k, (long long)r, (long long)r, (long long)stride);
    report_flop(b, "conv2d_f32", shape, 2.0 * (double)(p * p * k * r * r * c), time);
    free((void*)call.conv.src), free((void*)call.conv.weights), free(call.conv.dst);
    free((void*)call.conv.zeros), free((void*)call.conv.epilogue.bias);
  }
}

typedef struct depthwise_call {
  const carnot_cpu_kernels* kernels;
  carnot_depthwise_f32 conv;
} depthwise_call;

static void run_depthwise(void* argument) {
  const depthwise_call* c = argument;
  c->kernels->depthwise_f32(&c->conv, 0, c->conv.p);
}

static void bench_depthwise(const bench* b) {
  static const struct {
    int64_t size, c, filter, stride;
  } shapes[] = {{112, 32, 3, 1}, {112, 96, 3, 2}, {56, 144, 3, 1}, {28, 192, 3, 1},
                {14, 576, 3, 1}, {7, 960, 3, 1},  {28, 240, 5, 1}, {14, 672, 5, 2}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t h = shapes[i].size, c = shapes[i].c, r = shapes[i].filter;
    const int64_t stride = shapes[i].stride, pad = r / 2, p = (h + 2 * pad - r) / stride + 1;
    depthwise_call call = {
        b->kernels,
        {.n = 1,
         .h = h,
         .w = h,
         .c = c,
         .p = p,
         .q = p,
         .r = r,
         .s = r,
         .stride_h = stride,
         .stride_w = stride,
         .dilation_h = 1,
         .dilation_w = 1,
         .pad_h = pad,
         .pad_w = pad,
         .src = floats(h * h * c),
         .src_n = h * h * c,
         .src_h = h * c,
         .src_w = c,
         .weights = floats(r * r * (c + 15)),
         .dst = floats(p * p * c),
         .ld = c,
         .epilogue = {.bias = floats(c), .activation = CARNOT_ACTIVATION_CLIP, .b = 6}}};
    const double time = least_time(run_depthwise, &call);
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld %lldx%lld/%lld", (long long)h, (long long)h,
             (long long)c, (long long)r, (long long)r, (long long)stride);
    report_flop(b, "depthwise_f32", shape, 2.0 * (double)(p * p * c * r * r), time);
    report_bytes(b, "depthwise_f32", shape, 4.0 * (double)((p * p + h * h) * c), time);
    free((void*)call.conv.src), free((void*)call.conv.weights), free(call.conv.dst);
    free((void*)call.conv.epilogue.bias);
  }
}

typedef struct pool_call {
  const carnot_cpu_kernels* kernels;
  bool max;
  carnot_pool_f32 pool;
} pool_call;

static void run_pool(void* argument) {
  const pool_call* c = argument;
  (c->max ? c->kernels->max_pool_f32 : c->kernels->average_pool_f32)(&c->pool, 0, c->pool.p);
}

static void bench_pool(const bench* b) {
  static const struct {
    int64_t size, c, window, stride, pad;
    bool max;
  } shapes[] = {{112, 64, 3, 2, 1, true},
                {56, 128, 2, 2, 0, true},
                {35, 256, 3, 1, 1, false},
                {7, 2048, 7, 1, 0, false}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t h = shapes[i].size, c = shapes[i].c, r = shapes[i].window, pad = shapes[i].pad;
    const int64_t stride = shapes[i].stride, p = (h + 2 * pad - r) / stride + 1;
    pool_call call = {b->kernels,
                      shapes[i].max,
                      {.n = 1,
                       .h = h,
                       .w = h,
                       .c = c,
                       .p = p,
                       .q = p,
                       .r = r,
                       .s = r,
                       .stride_h = stride,
                       .stride_w = stride,
                       .dilation_h = 1,
                       .dilation_w = 1,
                       .pad_h = pad,
                       .pad_w = pad,
                       .pad_h_end = pad,
                       .pad_w_end = pad,
                       .src = floats(h * h * c),
                       .src_n = h * h * c,
                       .src_h = h * c,
                       .src_w = c,
                       .dst = floats(p * p * c),
                       .ld = c}};
    const double time = least_time(run_pool, &call);
    char shape[64];
    snprintf(shape, sizeof shape, "%s %lldx%lldx%lld %lldx%lld/%lld", call.max ? "max" : "average",
             (long long)h, (long long)h, (long long)c, (long long)r, (long long)r,
             (long long)stride);
    report_bytes(b, "pool_f32", shape, 4.0 * (double)((p * p + h * h) * c), time);
    free((void*)call.pool.src), free(call.pool.dst);
  }
}

typedef struct pointwise_call {
  const carnot_cpu_kernels* kernels;
  carnot_pw_program program;
  carnot_pw_operand in[2], out;
  int64_t n;
} pointwise_call;

static void run_pointwise(void* argument) {
  const pointwise_call* c = argument;
  c->kernels->pointwise(&c->program, c->in, &c->out, 0, 1, c->n);
}

static void bench_pointwise(const bench* b) {
  static const struct {
    const char* name;
    carnot_pw_fn fn;
  } functions[] = {
      {"add", CARNOT_PW_ADD},           {"relu", CARNOT_PW_RELU}, {"exp", CARNOT_PW_EXP},
      {"sigmoid", CARNOT_PW_SIGMOID},   {"tanh", CARNOT_PW_TANH}, {"erf", CARNOT_PW_ERF},
      {"gelu_erf", CARNOT_PW_GELU_ERF}, {"log", CARNOT_PW_LOG},   {"sin", CARNOT_PW_SIN},
      {"mish", CARNOT_PW_MISH},         {"pow", CARNOT_PW_POW}};
  const int64_t n = 48 << 10;
  float *x = floats(n), *y = floats(n), *z = floats(n);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    const uint8_t inputs = (uint8_t)carnot_pw_arity(functions[i].fn);
    pointwise_call c = {b->kernels,
                        {.instruction_count = 1,
                         .register_count = 3,
                         .input_count = inputs,
                         .output_count = 1,
                         .output_register = {2},
                         .instructions = {{(uint8_t)functions[i].fn, 2, {0, inputs > 1, 0}, 1, 1}}},
                        {{x, 0, 1}, {y, 0, 1}},
                        {z, 0, 1},
                        n};
    report_bytes(b, "pointwise", functions[i].name, 4.0 * (double)(n * (inputs + 1)),
                 least_time(run_pointwise, &c));
  }
  free(x), free(y), free(z);
}

typedef struct row_call {
  const carnot_cpu_kernels* kernels;
  carnot_softmax_f32 softmax;
  carnot_row_norm_f32 norm;
  carnot_group_norm_f32 group;
  carnot_reduce_f32 reduce;
  int64_t rows;
} row_call;

static void run_softmax(void* argument) {
  const row_call* c = argument;
  c->kernels->softmax_f32(&c->softmax, 0, c->rows);
}
static void run_layer_norm(void* argument) {
  const row_call* c = argument;
  c->kernels->layer_norm_f32(&c->norm, 0, c->rows);
}
static void run_group_norm(void* argument) {
  const row_call* c = argument;
  c->kernels->group_norm_nhwc_f32(&c->group, 0, 1, 0, c->group.groups);
}
static void run_reduce_inner(void* argument) {
  const row_call* c = argument;
  c->kernels->reduce_f32(&c->reduce, 0, c->rows, 0, 1);
}
static void run_reduce_outer(void* argument) {
  const row_call* c = argument;
  carnot_reduce_f32 reduce = c->reduce;
  reduce.inner = reduce.n, reduce.src_axis = reduce.n, reduce.n = c->rows;
  c->kernels->reduce_f32(&reduce, 0, 1, 0, reduce.inner);
}

static void bench_rows(const bench* b) {
  static const struct { int64_t rows, n; } shapes[] = {{128, 768}, {1536, 128}, {4096, 320}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t rows = shapes[i].rows, n = shapes[i].n;
    float *x = floats(rows * n), *y = floats(rows * n), *w = floats(4 * n + rows);
    row_call c = {.kernels = b->kernels,
                  .rows = rows,
                  .softmax = {n, 1, x, n, 1, y, n, 1},
                  .norm = {.n = n,
                           .src = x,
                           .src_ld = n,
                           .dst = y,
                           .dst_ld = n,
                           .scale = w,
                           .bias = w + n,
                           .epsilon = 1e-5f},
                  .group = {.pixels = rows,
                            .c = n,
                            .groups = 32,
                            .src = x,
                            .src_ld = n,
                            .dst = y,
                            .dst_ld = n,
                            .scale = w,
                            .bias = w + n,
                            .epsilon = 1e-5f,
                            .activation = CARNOT_ACTIVATION_SILU,
                            .workspace = w + 2 * n},
                  .reduce = {CARNOT_REDUCTION_SUM, n, 1, x, n, 1, y, 1}};
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)rows, (long long)n);
    const double bytes = 4.0 * (double)(rows * n);
    report_bytes(b, "softmax_f32", shape, 2 * bytes, least_time(run_softmax, &c));
    report_bytes(b, "layer_norm_f32", shape, 2 * bytes, least_time(run_layer_norm, &c));
    if (n % 32 == 0) {
      report_bytes(b, "group_norm+silu", shape, 2 * bytes, least_time(run_group_norm, &c));
    }
    report_bytes(b, "sum inner", shape, bytes, least_time(run_reduce_inner, &c));
    report_bytes(b, "sum outer", shape, bytes, least_time(run_reduce_outer, &c));
    free(x), free(y), free(w);
  }
}

typedef struct attention_call {
  const carnot_cpu_kernels* kernels;
  carnot_attention_f32 attention;
} attention_call;

static void run_attention(void* argument) {
  const attention_call* c = argument;
  c->kernels->attention_f32(&c->attention, 0, c->attention.q_len);
}

static void bench_attention(const bench* b) {
  static const struct {
    int64_t q, kv;
  } shapes[] = {{128, 128}, {384, 384}, {1024, 1024}, {1, 1024}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t q = shapes[i].q, kv = shapes[i].kv, d = 64;
    attention_call c = {b->kernels,
                        {.q_len = q,
                         .kv_len = kv,
                         .d = d,
                         .dv = d,
                         .q = floats(q * d),
                         .q_ld = d,
                         .k = floats(kv * d),
                         .k_ld = d,
                         .v = floats(kv * d),
                         .v_ld = d,
                         .dst = floats(q * d),
                         .dst_ld = d,
                         .scale = 0.125f,
                         .workspace = floats(carnot_attention_f32_workspace(d, d, q))}};
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx64", (long long)q, (long long)kv);
    const double time = least_time(run_attention, &c);
    if (q > 1) {
      report_flop(b, "attention_f32", shape, 4.0 * (double)(q * kv * d), time);
    } else {
      report_bytes(b, "attention_f32", shape, 8.0 * (double)(kv * d), time);
    }
    free((void*)c.attention.q), free((void*)c.attention.k), free((void*)c.attention.v);
    free(c.attention.dst), free(c.attention.workspace);
  }
}

typedef struct int8_call {
  const carnot_cpu_kernels* kernels;
  carnot_conv2d_u8s8 conv;
} int8_call;

static void run_int8(void* argument) {
  const int8_call* c = argument;
  c->kernels->conv2d_u8s8(&c->conv, 0, c->conv.p * c->conv.q, 0, c->conv.k);
}

static void bench_int8(const bench* b) {
  static const struct {
    int64_t size, c, k, filter;
  } shapes[] = {
      {56, 64, 64, 3}, {14, 256, 256, 3}, {7, 512, 512, 3}, {56, 64, 256, 1}, {14, 1024, 256, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t h = shapes[i].size, c = shapes[i].c, k = shapes[i].k, r = shapes[i].filter;
    float *src = floats(h * h * c / 4), *dst = floats(h * h * k / 4), *scale = floats(2 * k);
    int8_t* weights = (int8_t*)floats(carnot_packed_k4n16_bytes(r * r, c, k) / 4);
    int8_call call = {b->kernels,
                      {.n = 1,
                       .h = h,
                       .w = h,
                       .c = c,
                       .p = h,
                       .q = h,
                       .k = k,
                       .r = r,
                       .s = r,
                       .stride_h = 1,
                       .stride_w = 1,
                       .dilation_h = 1,
                       .dilation_w = 1,
                       .pad_h = r / 2,
                       .pad_w = r / 2,
                       .src = src,
                       .src_n = h * h * c,
                       .src_h = h * c,
                       .src_w = c,
                       .weights = weights,
                       .border = scale,
                       .dst = dst,
                       .ld = k,
                       .epilogue = {.bias = (const int32_t*)(scale + k),
                                    .scale = scale,
                                    .activation = CARNOT_ACTIVATION_RELU,
                                    .output = CARNOT_INT8_OUTPUT_U8,
                                    .inverse_scale = 0.01f}}};
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld->%lld %lldx%lld", (long long)h, (long long)h,
             (long long)c, (long long)k, (long long)r, (long long)r);
    report_flop(b, "conv2d_u8s8", shape, 2.0 * (double)(h * h * k * r * r * c),
                least_time(run_int8, &call));
    free(src), free(dst), free(scale), free(weights);
  }
}

typedef struct memory_call {
  const carnot_cpu_kernels* kernels;
  int64_t m, n;
  float *src, *dst;
} memory_call;

static void run_transpose(void* argument) {
  const memory_call* c = argument;
  c->kernels->transpose_f32(c->m, c->n, c->src, c->n, c->dst, c->m);
}
static void run_transpose_u16(void* argument) {
  const memory_call* c = argument;
  c->kernels->transpose_u16(c->m, c->n, (const uint16_t*)c->src, c->n, (uint16_t*)c->dst, c->m);
}
static void run_convert(void* argument) {
  const memory_call* c = argument;
  c->kernels->f16_of_f32(c->m * c->n, c->src, (uint16_t*)c->dst);
}
static void run_quantize(void* argument) {
  const memory_call* c = argument;
  const float scale = 0.1f;
  const carnot_quantize quantize = {.n = c->n, .scale = &scale};
  c->kernels->quantize_f32(&quantize, c->m, c->src, c->n, c->dst, c->n);
}

static void bench_memory(const bench* b) {
  static const struct {
    int64_t m, n;
  } shapes[] = {{3, 50176}, {64, 3136}, {3136, 64}, {512, 49}, {768, 768}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t m = shapes[i].m, n = shapes[i].n;
    memory_call c = {b->kernels, m, n, floats(m * n), floats(m * n)};
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)m, (long long)n);
    const double count = (double)(m * n);
    report_bytes(b, "transpose_f32", shape, 8 * count, least_time(run_transpose, &c));
    report_bytes(b, "transpose_u16", shape, 4 * count, least_time(run_transpose_u16, &c));
    report_bytes(b, "f16_of_f32", shape, 6 * count, least_time(run_convert, &c));
    report_bytes(b, "quantize_f32", shape, 5 * count, least_time(run_quantize, &c));
    free(c.src), free(c.dst);
  }
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
  for (int level = CARNOT_KERNEL_ISA_COUNT - 1; level >= 0; --level) {
    b.kernels = carnot_cpu_kernels_for((carnot_kernel_isa)level);
    if (!b.kernels || (isa && strcmp(isa, b.kernels->isa))) continue;
    b.peak_flop = peak_flop(b.kernels->isa);
    printf("peak %-6s %6.1f GFLOP/s\n", b.kernels->isa, b.peak_flop * 1e-9);
    for (size_t i = 0; i < sizeof kFamilies / sizeof *kFamilies; ++i) {
      if (wanted(&b, kFamilies[i].name)) kFamilies[i].run(&b);
    }
  }
  return 0;
}
