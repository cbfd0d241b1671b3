// Element-wise functions, norms, reductions, attention, transposes and conversions.
#include "kernel_bench.h"

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

void bench_pointwise(const bench* b) {
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

void bench_rows(const bench* b) {
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
                            .activation = CARNOT_KERNEL_ACTIVATION_SILU,
                            .workspace = w + 2 * n},
                  .reduce = {CARNOT_KERNEL_REDUCTION_SUM, n, 1, x, n, 1, y, 1}};
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
  carnot_attention_f32_fn* run;
  carnot_attention_f32 attention;
} attention_call;

static void run_attention(void* argument) {
  const attention_call* c = argument;
  c->run(&c->attention, 0, c->attention.q_len);
}

static void bench_attention_type(const bench* b, const char* name, carnot_attention_f32_fn* run) {
  static const struct {
    int64_t q, kv;
  } shapes[] = {{128, 128}, {384, 384}, {1024, 1024}, {1, 1024}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const int64_t q = shapes[i].q, kv = shapes[i].kv, d = 64;
    attention_call c = {run,
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
      report_flop(b, name, shape, 4.0 * (double)(q * kv * d), time);
    } else {
      report_bytes(b, name, shape, 8.0 * (double)(kv * d), time);
    }
    free((void*)c.attention.q), free((void*)c.attention.k), free((void*)c.attention.v);
    free(c.attention.dst), free(c.attention.workspace);
  }
}

typedef struct attention_tiles_call {
  carnot_attention_bf16_tiles_fn* run;
  carnot_attention_bf16_tiles attention;
} attention_tiles_call;

static void run_attention_tiles(void* argument) {
  const attention_tiles_call* c = argument;
  c->run(&c->attention, 0, c->attention.q_len);
}

static float* bf16_numbers(const bench* b, int64_t count) {
  float *wide = floats(count), *half = floats(count / 2);
  b->kernels->bf16_of_f32(count, wide, (uint16_t*)half);
  free(wide);
  return half;
}

// Operands and results in BF16.
static void bench_attention_tiles(const bench* b) {
  static const int64_t lengths[] = {128, 197, 384, 1024};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
    const int64_t n = lengths[i], d = 64;
    float *q = bf16_numbers(b, n * d), *k = bf16_numbers(b, n * d), *v = bf16_numbers(b, n * d),
          *dst = floats(n * d / 2);
    attention_tiles_call c = {
        b->kernels->attention_bf16_tiles,
        {.q_len = n,
         .kv_len = n,
         .d = d,
         .dv = d,
         .q = {q, d, true},
         .k = {k, d, true},
         .v = {v, d, true},
         .dst = dst,
         .dst_ld = d,
         .dst_is_bf16 = true,
         .scale = 0.125f,
         .workspace = floats(carnot_attention_bf16_tiles_workspace(n, d, d) / 4)}};
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx64", (long long)n, (long long)n);
    report_flop(b, "attention_bf16_tiles", shape, 4.0 * (double)(n * n * d),
                least_time(run_attention_tiles, &c));
    free(q), free(k), free(v), free(dst), free(c.attention.workspace);
  }
}

void bench_attention(const bench* b) {
  bench_attention_type(b, "attention_f32", b->kernels->attention_f32);
  bench_attention_type(b, "attention_bf16", b->kernels->attention_bf16);
  if (b->kernels->attention_bf16_tiles) bench_attention_tiles(b);
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

void bench_memory(const bench* b) {
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
