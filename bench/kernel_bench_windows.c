// Depthwise convolution and pooling.
#include "kernel_bench.h"

typedef struct depthwise_call {
  const carnot_cpu_kernels* kernels;
  carnot_depthwise_f32 conv;
} depthwise_call;

static void run_depthwise(void* argument) {
  const depthwise_call* c = argument;
  c->kernels->depthwise_f32(&c->conv, 0, c->conv.p);
}

void bench_depthwise(const bench* b) {
  static const struct {
    int64_t size, c, filter, stride;
  } shapes[] = {{112, 32, 3, 1}, {112, 96, 3, 2}, {56, 144, 3, 1}, {28, 192, 3, 1},
                {14, 576, 3, 1}, {7, 960, 3, 1},  {28, 240, 5, 1}, {14, 672, 5, 2},
                {7, 1152, 5, 1}, {56, 96, 7, 1},  {14, 384, 7, 1}, {7, 768, 7, 1}};
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
         .epilogue = {.bias = floats(c), .activation = CARNOT_KERNEL_ACTIVATION_CLIP, .b = 6}}};
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

void bench_pool(const bench* b) {
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
