// Convolutions and GEMMs by AMX tiles, of INT8 and BF16.
#include "kernel_bench.h"

typedef struct tiles_shape {
  int64_t h, w, c, k, filter, stride;
  bool adds;     // a residual
  int matrices;  // of weights, used in turns, so that they come from L3 or DRAM
} tiles_shape;

// Two are GEMMs of 4096 rows.
static const tiles_shape kShapes[] = {
    {56, 56, 64, 64, 3, 1, false, 1},      {28, 28, 128, 128, 3, 1, false, 1},
    {14, 14, 256, 256, 3, 1, false, 1},    {7, 7, 512, 512, 3, 1, false, 1},
    {56, 56, 128, 128, 3, 2, false, 1},    {56, 56, 64, 64, 1, 1, false, 1},
    {56, 56, 64, 256, 1, 1, false, 1},     {56, 56, 64, 256, 1, 1, true, 1},
    {14, 14, 64, 256, 1, 1, true, 1},      {56, 56, 256, 64, 1, 1, false, 1},
    {28, 28, 512, 128, 1, 1, false, 1},    {14, 14, 1024, 256, 1, 1, false, 1},
    {7, 7, 2048, 512, 1, 1, false, 1},     {7, 7, 512, 2048, 1, 1, true, 1},
    {56, 56, 256, 512, 1, 2, false, 1},    {112, 112, 32, 16, 1, 1, false, 1},
    {56, 56, 24, 144, 1, 1, false, 1},     {14, 14, 384, 64, 1, 1, false, 1},
    {1, 128, 384, 1536, 1, 1, false, 1},   {1, 128, 768, 3072, 1, 1, false, 1},
    {1, 1024, 1024, 1024, 1, 1, false, 1}, {1, 4096, 1024, 1024, 1, 1, false, 1},
    {1, 4096, 4096, 4096, 1, 1, false, 1}, {1, 128, 768, 3072, 1, 1, false, 40},
    {1, 128, 3072, 768, 1, 1, false, 40}};

typedef struct s8_call {
  const carnot_cpu_kernels* kernels;
  carnot_conv2d_s8_tiles conv;
  const char* weights;
  int64_t bytes;  // of one matrix
  int matrices;
} s8_call;

typedef struct bf16_call {
  const carnot_cpu_kernels* kernels;
  carnot_conv2d_bf16_tiles conv;
  const char* weights;
  int64_t bytes;
  int matrices;
} bf16_call;

static void run_s8(void* argument) {
  s8_call* c = argument;
  for (int i = 0; i < c->matrices; ++i) {
    c->conv.conv.weights = (const int8_t*)(c->weights + i * c->bytes);
    c->kernels->conv2d_s8_tiles(&c->conv, 0, c->conv.conv.p * c->conv.conv.q, 0, c->conv.conv.k);
  }
}

static void run_bf16(void* argument) {
  bf16_call* c = argument;
  for (int i = 0; i < c->matrices; ++i) {
    c->conv.conv.weights = c->weights + i * c->bytes;
    c->kernels->conv2d_bf16_tiles(&c->conv, 0, c->conv.conv.p * c->conv.conv.q, 0, c->conv.conv.k);
  }
}

#define CONV_FIELDS(s, out_h, out_w)                                                      \
  .n = 1, .h = (s)->h, .w = (s)->w, .c = (s)->c, .p = (out_h), .q = (out_w), .k = (s)->k, \
  .r = (s)->filter, .s = (s)->filter, .stride_h = (s)->stride, .stride_w = (s)->stride,   \
  .dilation_h = 1, .dilation_w = 1, .pad_h = (s)->filter / 2, .pad_w = (s)->filter / 2,   \
  .src_n = (s)->h * (s)->w * (s)->c, .src_h = (s)->w * (s)->c, .src_w = (s)->c, .ld = (s)->k

static void name_of(const tiles_shape* s, char* shape, size_t size) {
  snprintf(shape, size, "%lldx%lldx%lld->%lld %lldx%lld/%lld%s", (long long)s->h, (long long)s->w,
           (long long)s->c, (long long)s->k, (long long)s->filter, (long long)s->filter,
           (long long)s->stride,
           s->adds           ? " +"
           : s->matrices > 1 ? " far"
                             : "");
}

static double bench_s8(const bench* b, const tiles_shape* s, int64_t p, int64_t q) {
  const int64_t bytes = carnot_packed_k4n16d64_bytes(s->filter * s->filter, s->c, s->k);
  float *src = floats(s->h * s->w * s->c / 4), *dst = floats(p * q * s->k / 4),
        *residual = floats(p * q * s->k / 4), *scale = floats(2 * s->k),
        *weights = floats(bytes / 4 * s->matrices);
  s8_call call = {b->kernels,
                  {.conv = {CONV_FIELDS(s, p, q), .src = src, .border = scale, .dst = dst,
                            .epilogue = {.bias = (const int32_t*)(scale + s->k),
                                         .scale = scale,
                                         .output = CARNOT_INT8_OUTPUT_U8,
                                         .divisor = 1,
                                         .high = 255,
                                         .is_small = true}}},
                  (const char*)weights,
                  bytes,
                  s->matrices};
  if (s->adds) {
    carnot_int8_epilogue* e = &call.conv.conv.epilogue;
    e->residual = residual, e->residual_type = CARNOT_INT8_RESIDUAL_U8, e->residual_ld = s->k;
    e->is_twice = true, e->inner_high = 255, e->inner_factor = e->residual_factor = 1;
  }
  call.conv.scratch = floats(carnot_conv2d_s8_tiles_scratch(&call.conv) / 4);
  const double time = least_time(run_s8, &call) / call.matrices;
  free(src), free(dst), free(residual), free(scale), free(weights), free(call.conv.scratch);
  return time;
}

static double bench_bf16(const bench* b, const tiles_shape* s, int64_t p, int64_t q) {
  const int64_t bytes = 2 * carnot_packed_k2n16d32_count(s->filter * s->filter, s->c, s->k);
  float *src = floats(s->h * s->w * s->c / 2), *dst = floats(p * q * s->k / 2),
        *residual = floats(p * q * s->k / 2), *bias = floats(s->k),
        *weights = floats(bytes / 4 * s->matrices);
  bf16_call call = {b->kernels,
                    {.conv = {CONV_FIELDS(s, p, q), .src = src, .dst = dst,
                              .epilogue = {.bias = bias,
                                           .residual = s->adds ? residual : NULL,
                                           .residual_ld = s->k,
                                           .activation = CARNOT_KERNEL_ACTIVATION_RELU}},
                     .src_is_bf16 = true,
                     .dst_is_bf16 = true,
                     .residual_is_bf16 = true},
                    (const char*)weights,
                    bytes,
                    s->matrices};
  call.conv.scratch = floats(carnot_conv2d_bf16_tiles_scratch(&call.conv) / 4);
  const double time = least_time(run_bf16, &call) / call.matrices;
  free(src), free(dst), free(residual), free(bias), free(weights), free(call.conv.scratch);
  return time;
}

void bench_tiles(const bench* b) {
  if (!b->kernels->conv2d_s8_tiles) return;
  for (size_t i = 0; i < sizeof kShapes / sizeof *kShapes; ++i) {
    const tiles_shape* s = &kShapes[i];
    const int64_t p = (s->h - 1) / s->stride + 1, q = (s->w - 1) / s->stride + 1;
    const double work = 2.0 * (double)(p * q * s->k * s->filter * s->filter * s->c);
    char shape[64];
    name_of(s, shape, sizeof shape);
    report_int8(b, "conv2d_s8_tiles", shape, work, bench_s8(b, s, p, q));
    report_flop(b, "conv2d_bf16_tiles", shape, work, bench_bf16(b, s, p, q));
  }
}
