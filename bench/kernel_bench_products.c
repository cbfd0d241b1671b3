// Matrix products and convolutions.
#include <math.h>

#include "kernel/cpu/gemm/pack_f32.h"
#include "kernel/cpu/gemm/pack_half.h"
#include "kernel/cpu/gemm/pack_split.h"
#include "kernel_bench.h"

typedef struct gemm_call {
  carnot_gemm_f32_fn* run;
  carnot_gemm_f32 gemm;
} gemm_call;

static void run_gemm(void* argument) {
  const gemm_call* c = argument;
  c->run(&c->gemm, 0, c->gemm.m, 0, c->gemm.n);
}

// Packed weights of 2, 4 or 6 bytes (float32 in parts): bf16 has the most elements.
static float* packed_weights(int64_t taps, int64_t depth, int64_t n, int bytes) {
  if (bytes == 6) {
    float* wide = floats(carnot_packed_k1n16_count(taps * depth, n));
    float* split = floats(carnot_packed_split_bytes(taps, depth, n) / 4);
    carnot_pack_k32n16_bf16x3(taps, depth, n, wide, split);
    free(wide);
    return split;
  }
  const int64_t count = carnot_packed_k2n16_count(taps, depth, n);
  float* x = floats(count * bytes / 4);
  uint16_t* halves = (uint16_t*)x;
  if (bytes == 2)
    for (int64_t i = 0; i < count; ++i) halves[i] = (uint16_t)(0x3000 + i % 13 * 64);
  return x;
}

static void bench_gemm_type(const bench* b, const char* name, carnot_gemm_f32_fn* run, int bytes) {
  static const struct {
    int64_t m, n, k;
  } shapes[] = {{3136, 256, 64},  {3136, 64, 256},  {784, 512, 128},  {784, 128, 512},
                {196, 1024, 256}, {196, 256, 1024}, {49, 2048, 512},  {49, 512, 2048},
                {128, 768, 768},  {128, 3072, 768}, {128, 768, 3072}, {3136, 96, 24},
                {3136, 24, 144},  {14, 1024, 1024}, {4, 1024, 1024},  {1, 1024, 512},
                {1, 1000, 2048},  {1, 3072, 768},   {1, 50257, 768}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t m = shapes[i].m, n = shapes[i].n, k = shapes[i].k;
    gemm_call c = {run,
                   {.m = m,
                    .n = n,
                    .k = k,
                    .a = floats(m * k),
                    .lda = k,
                    .b = packed_weights(1, k, n, bytes),
                    .c = floats(m * n),
                    .ldc = n,
                    .epilogue = {.bias = floats(n), .activation = CARNOT_KERNEL_ACTIVATION_RELU}}};
    const double time = least_time(run_gemm, &c);
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld", (long long)m, (long long)n, (long long)k);
    if (m > 1) {
      report_flop(b, name, shape, 2.0 * (double)(m * n * k), time);
    } else {
      report_bytes(b, name, shape, bytes * (double)(n * k), time);
    }
    free((void*)c.gemm.a), free((void*)c.gemm.b), free(c.gemm.c);
    free((void*)c.gemm.epilogue.bias);
  }
}

typedef struct dequant_call {
  const carnot_cpu_kernels* kernels;
  carnot_gemm_dequant_f32 gemm;
  carnot_dequant_parts parts;  // where tiles serve
} dequant_call;

static void run_dequant(void* argument) {
  const dequant_call* c = argument;
  const int64_t m = c->gemm.gemm.m, n = c->gemm.gemm.n;
  if (!c->parts.parts) {
    c->kernels->gemm_dequant_f32(&c->gemm, 0, m, 0, n);
    return;
  }
  const int64_t groups = (m + CARNOT_DEQUANT_GROUP_ROWS - 1) / CARNOT_DEQUANT_GROUP_ROWS;
  c->kernels->split_rows_bf16(&c->gemm, 0, groups, &c->parts);
  c->kernels->gemm_dequant_tiles(&c->gemm, &c->parts, 0, m, 0, n);
}

static void bench_dequant_shape(const bench* b, int64_t m, int64_t n, int64_t k, int bits) {
  const carnot_dequant_shape s = {k, n, 32, bits};
  const int64_t bytes = carnot_dequant_bytes(&s), scales = carnot_dequant_scale_count(&s),
                groups = (m + CARNOT_DEQUANT_GROUP_ROWS - 1) / CARNOT_DEQUANT_GROUP_ROWS;
  dequant_call c = {.kernels = b->kernels,
                    .gemm = {.gemm = {.m = m,
                                      .n = n,
                                      .k = k,
                                      .a = floats(m * k),
                                      .lda = k,
                                      .b = floats(bytes / 4),
                                      .c = floats(m * n),
                                      .ldc = n},
                             .shape = s,
                             .scales = floats(scales),
                             .zero = 1 << (bits - 1),
                             .workspace = floats(carnot_dequant_tiles_workspace(&s))}};
  if (b->kernels->gemm_dequant_tiles && m > CARNOT_DEQUANT_FEW_ROWS) {
    c.parts.parts = (char*)floats(groups * carnot_dequant_group_bytes(&s) / 4);
    c.parts.exact = (uint8_t*)floats(groups);
  }
  const double time = least_time(run_dequant, &c);
  char shape[64];
  snprintf(shape, sizeof shape, "%lldx%lldx%lld %d bits", (long long)m, (long long)n, (long long)k,
           bits);
  if (m == 1)
    report_bytes(b, "gemm_dequant", shape, (double)(bytes + 4 * scales), time);
  else
    report_flop(b, "gemm_dequant", shape, 2.0 * (double)(m * n * k), time);
  free((void*)c.gemm.gemm.a), free((void*)c.gemm.gemm.b), free(c.gemm.gemm.c);
  free((void*)c.gemm.scales), free(c.gemm.workspace), free(c.parts.parts), free(c.parts.exact);
}

// Weights of 4 and 8 bits in blocks of 32.
void bench_dequant(const bench* b) {
  static const int64_t shapes[][4] = {
      {1, 2048, 2048, 4},   {1, 4096, 4096, 4},  {1, 4096, 11008, 4}, {1, 11008, 4096, 4},
      {1, 4096, 11008, 8},  {1, 2048, 2048, 8},  {2, 4096, 4096, 4},  {4, 4096, 4096, 4},
      {8, 4096, 4096, 4},   {16, 4096, 4096, 4}, {32, 4096, 4096, 4}, {128, 1024, 1024, 4},
      {128, 1024, 2816, 4}, {128, 4096, 4096, 4}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    bench_dequant_shape(b, shapes[i][0], shapes[i][1], shapes[i][2], (int)shapes[i][3]);
}

void bench_gemm(const bench* b) {
  bench_gemm_type(b, "gemm_f32", b->kernels->gemm_f32, 4);
  bench_gemm_type(b, "gemm_split6_f32", b->kernels->gemm_split6_f32, 6);
  bench_gemm_type(b, "gemm_split3_f32", b->kernels->gemm_split3_f32, 6);
  bench_gemm_type(b, "gemm_f16", b->kernels->gemm_f16, 2);
  bench_gemm_type(b, "gemm_bf16", b->kernels->gemm_bf16, 2);
}

typedef struct conv_call {
  carnot_conv2d_f32_fn* run;
  carnot_conv2d_f32 conv;
} conv_call;

static void run_conv(void* argument) {
  const conv_call* c = argument;
  c->run(&c->conv, 0, c->conv.n * c->conv.p * c->conv.q, 0, c->conv.k);
}

typedef struct conv_shape {
  int64_t size, c, k, filter, stride;
} conv_shape;

// Takes |weights|.
static carnot_conv2d_f32 conv_of(const conv_shape* shape, float* weights) {
  const int64_t h = shape->size, r = shape->filter, pad = r / 2;
  const int64_t p = (h + 2 * pad - r) / shape->stride + 1;
  return (carnot_conv2d_f32){
      .n = 1,
      .h = h,
      .w = h,
      .c = shape->c,
      .p = p,
      .q = p,
      .k = shape->k,
      .r = r,
      .s = r,
      .stride_h = shape->stride,
      .stride_w = shape->stride,
      .dilation_h = 1,
      .dilation_w = 1,
      .pad_h = pad,
      .pad_w = pad,
      .src = floats(h * h * shape->c),
      .src_n = h * h * shape->c,
      .src_h = h * shape->c,
      .src_w = shape->c,
      .weights = weights,
      .zeros = calloc((size_t)shape->c, sizeof(float)),
      .dst = floats(p * p * shape->k),
      .ld = shape->k,
      .epilogue = {.bias = floats(shape->k), .activation = CARNOT_KERNEL_ACTIVATION_RELU}};
}

// Reports the time of a convolution and frees its memory.
static void report_conv(const bench* b, const char* name, const carnot_conv2d_f32* conv,
                        double time) {
  char shape[64];
  snprintf(shape, sizeof shape, "%lldx%lldx%lld->%lld %lldx%lld/%lld", (long long)conv->h,
           (long long)conv->w, (long long)conv->c, (long long)conv->k, (long long)conv->r,
           (long long)conv->s, (long long)conv->stride_h);
  report_flop(b, name, shape,
              2.0 * (double)(conv->p * conv->q * conv->k * conv->r * conv->s * conv->c), time);
  free((void*)conv->src), free((void*)conv->weights), free(conv->dst);
  free((void*)conv->zeros), free((void*)conv->epilogue.bias);
}

static void bench_conv_type(const bench* b, const char* name, carnot_conv2d_f32_fn* run,
                            int bytes) {
  static const conv_shape shapes[] = {
      {56, 64, 64, 3, 1},   {28, 128, 128, 3, 1}, {14, 256, 256, 3, 1}, {7, 512, 512, 3, 1},
      {56, 128, 128, 3, 2}, {14, 512, 512, 3, 2}, {56, 256, 512, 1, 2}, {224, 3, 64, 7, 2},
      {224, 3, 32, 3, 2},   {224, 64, 64, 3, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const conv_shape* s = &shapes[i];
    conv_call call = {run, conv_of(s, packed_weights(s->filter * s->filter, s->c, s->k, bytes))};
    report_conv(b, name, &call.conv, least_time(run_conv, &call));
  }
}

typedef struct winograd_call {
  carnot_conv2d_winograd_f32_fn* run;
  carnot_conv2d_winograd_f32 winograd;
} winograd_call;

static void run_winograd(void* argument) {
  const winograd_call* c = argument;
  const carnot_conv2d_winograd_f32* w = &c->winograd;
  c->run(w, 0, carnot_winograd_tiles_of(w->side, w->conv.p, 1), 0, w->conv.k);
}

// FLOP of the direct sum.
static void bench_winograd(const bench* b, const char* name, int64_t side) {
  static const conv_shape shapes[] = {
      {56, 64, 64, 3, 1},  {28, 128, 128, 3, 1}, {14, 256, 256, 3, 1}, {7, 512, 512, 3, 1},
      {224, 64, 64, 3, 1}, {56, 256, 256, 3, 1}, {28, 512, 512, 3, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const conv_shape* s = &shapes[i];
    winograd_call call = {b->kernels->conv2d_winograd_f32,
                          {conv_of(s, floats(carnot_packed_winograd_count(side, s->c, s->k))), side,
                           floats(carnot_conv2d_winograd_f32_workspace(side, s->c))}};
    const double time = least_time(run_winograd, &call);
    report_conv(b, name, &call.winograd.conv, time);
    free(call.winograd.workspace);
  }
}

void bench_conv(const bench* b) {
  bench_conv_type(b, "conv2d_f32", b->kernels->conv2d_f32, 4);
  bench_winograd(b, "conv2d_winograd_f32 2x2", 2);
  bench_winograd(b, "conv2d_winograd_f32 4x4", 4);
  bench_conv_type(b, "conv2d_split6_f32", b->kernels->conv2d_split6_f32, 6);
  bench_conv_type(b, "conv2d_split3_f32", b->kernels->conv2d_split3_f32, 6);
  bench_conv_type(b, "conv2d_f16", b->kernels->conv2d_f16, 2);
  bench_conv_type(b, "conv2d_bf16", b->kernels->conv2d_bf16, 2);
}

typedef struct int8_call {
  const carnot_cpu_kernels* kernels;
  carnot_conv2d_u8s8 conv;
} int8_call;

typedef struct gemm_int8_call {
  const carnot_cpu_kernels* kernels;
  carnot_gemm_u8s8 gemm;
} gemm_int8_call;

static void run_int8(void* argument) {
  const int8_call* c = argument;
  c->kernels->conv2d_u8s8(&c->conv, 0, c->conv.p * c->conv.q, 0, c->conv.k);
}

static void run_gemm_int8(void* argument) {
  const gemm_int8_call* c = argument;
  c->kernels->gemm_u8s8(&c->gemm, 0, c->gemm.m, 0, c->gemm.n);
}

// Weights of normal distribution, as trained ones are, the largest of some thousands at 127.
static int8_t* int8_weights(int64_t bytes) {
  int8_t* weights = malloc((size_t)bytes);
  if (!weights) abort();
  uint64_t seed = 1;
  for (int64_t i = 0; i < bytes; ++i) {
    double sum = -6;
    for (int j = 0; j < 12; ++j) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      sum += (double)(seed >> 40) * 0x1p-24;
    }
    weights[i] = (int8_t)lrint(fmax(-127, fmin(127, 36 * sum)));
  }
  return weights;
}

static void bench_gemm_int8(const bench* b) {
  static const int64_t shapes[][3] = {{1, 4096, 4096},    {4, 768, 3072},    {8, 768, 3072},
                                      {16, 768, 3072},    {128, 768, 768},   {128, 3072, 768},
                                      {3136, 64, 64},     {197, 768, 3072},  {1000, 1000, 1000},
                                      {1024, 1024, 1024}, {4096, 4096, 4096}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t m = shapes[i][0], k = shapes[i][1], n = shapes[i][2];
    float *a = floats(m * k / 4), *dst = floats(m * n / 4), *scale = floats(n);
    int8_t* weights = int8_weights(carnot_packed_k4n16_bytes(1, k, n));
    gemm_int8_call call = {b->kernels,
                           {.m = m,
                            .n = n,
                            .k = k,
                            .a = a,
                            .lda = k,
                            .b = weights,
                            .dst = dst,
                            .ld = n,
                            .epilogue = {.scale = scale,
                                         .output = CARNOT_INT8_OUTPUT_U8,
                                         .divisor = 1,
                                         .high = 255,
                                         .is_small = true}}};
    for (int64_t j = 0; j < n; ++j) scale[j] = 1e-6F;
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld", (long long)m, (long long)k, (long long)n);
    report_int8(b, "gemm_u8s8", shape, 2.0 * (double)(m * k * n), least_time(run_gemm_int8, &call));
    free(a), free(dst), free(scale), free(weights);
  }
}

void bench_int8(const bench* b) {
  bench_gemm_int8(b);
  static const struct {
    int64_t size, c, k, filter;
  } shapes[] = {
      {56, 64, 64, 3}, {14, 256, 256, 3}, {7, 512, 512, 3}, {56, 64, 256, 1}, {14, 1024, 256, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t h = shapes[i].size, c = shapes[i].c, k = shapes[i].k, r = shapes[i].filter;
    float *src = floats(h * h * c / 4), *dst = floats(h * h * k / 4), *scale = floats(2 * k);
    int8_t* weights = int8_weights(carnot_packed_k4n16_bytes(r * r, c, k));
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
                                    .output = CARNOT_INT8_OUTPUT_U8,
                                    .divisor = 1,
                                    .high = 255,
                                    .is_small = true}}};
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld->%lld %lldx%lld", (long long)h, (long long)h,
             (long long)c, (long long)k, (long long)r, (long long)r);
    report_int8(b, "conv2d_u8s8", shape, 2.0 * (double)(h * h * k * r * r * c),
                least_time(run_int8, &call));
    free(src), free(dst), free(scale), free(weights);
  }
}
