// Weights in float16 and bfloat16: the tactics of every family on every ISA level of this machine,
// compared with double precision; when they are allowed, refit, threads.
#include "half.h"

enum { K = 37, N = 45, SIZE = 11 };

// ---- GEMM ----

static carnot_graph* gemm_net(float* w) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(-1, K));
  carnot_value* y = net_node(g, CARNOT_OP_GEMM, NULL,
                             NET_VALUES(x, net_weight(g, "w", 3, w, NET_LIST(K, N)),
                                        net_weight(g, "b", 4, NULL, NET_LIST(N))));
  net_output(g, net_fn(g, CARNOT_OP_UNARY, "relu", NET_VALUES(y)), "y");
  return g;
}

static void check_product(carnot_context* context, const float* w, int m, double cost) {
  static float x[128 * K];
  static double wanted[128 * N], bound[128 * N];
  for (int i = 0; i < m * K; i++) x[i] = net_number(7, (size_t)i);
  for (int i = 0; i < m * N; i++) {
    double sum = net_number(4, (size_t)(i % N)), size = fabs(sum);
    for (int k = 0; k < K; k++) {
      double term = (double)x[i / N * K + k] * w[k * N + i % N];
      sum += term, size += fabs(term);
    }
    wanted[i] = sum > 0 ? sum : 0;
    bound[i] = cost * size;
  }
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(m, K));
  net_ok(carnot_context_run_now(context));
  half_within(net_get(context, "y")->data, wanted, bound, (size_t)(m * N));
}

static void check_gemm(const carnot_build_config* config, const char* name, double cost) {
  carnot_arena arena = {0};
  float* w = net_numbers(&arena, 3, K * N);
  carnot_graph* g = gemm_net(w);
  carnot_engine* engine = net_engine(g, config);
  assert_int_equal(half_steps(engine, name), 1);
  carnot_context* context = net_context(engine, config->isa);
  for (int m = 1; m <= 128; m++) check_product(context, w, m, cost);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_gemm(void** state) { (void)state, half_each_tactic(check_gemm); }

// A product of two activations: only ISA levels with bfloat16 instructions have tactics for it.
static void check_matmul(const carnot_build_config* config, const char* name, double cost) {
  enum { M = 21, COUNT = M * N };
  static double wanted[COUNT], bound[COUNT];
  carnot_arena arena = {0};
  float *x = net_numbers(&arena, 51, M * K), *y = net_numbers(&arena, 52, K * N);
  for (int i = 0; i < COUNT; i++) {
    double size = wanted[i] = 0;
    for (int k = 0; k < K; k++) {
      double term = (double)x[i / N * K + k] * y[k * N + i % N];
      wanted[i] += term, size += fabs(term);
    }
    bound[i] = cost * size;
  }
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* a = net_input(g, "a", CARNOT_DTYPE_F32, NET_LIST(M, K));
  carnot_value* b = net_input(g, "b", CARNOT_DTYPE_F32, NET_LIST(K, N));
  net_output(g, net_node(g, CARNOT_OP_MATMUL, NULL, NET_VALUES(a, b)), "y");
  carnot_engine* engine = net_engine(g, config);
  bool native =
      carnot_isa_includes((carnot_isa)config->isa, CARNOT_ISA_AVX512_BF16) && config->typing.bf16;
  assert_int_equal(half_steps(engine, name), native);
  carnot_context* context = net_context(engine, config->isa);
  net_set(context, "a", CARNOT_DTYPE_F32, x, NET_LIST(M, K));
  net_set(context, "b", CARNOT_DTYPE_F32, y, NET_LIST(K, N));
  net_ok(carnot_context_run_now(context));
  half_within(net_get(context, "y")->data, wanted, bound, COUNT);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_matmul(void** state) { (void)state, half_each_tactic(check_matmul); }

// ---- convolutions ----

// The same network with absolute values gives the sum of magnitudes.
static conv_net_weights sizes_of(carnot_arena* arena, const conv_net_weights* w) {
  enum { C = CONV_NET_CHANNELS, F = CONV_NET_FILTERS };
  conv_net_weights s;
  conv_net_weights_make(arena, 0, &s);
  for (int i = 0; i < F * C * 9; i++) s.conv[i] = fabsf(w->conv[i]);
  for (int i = 0; i < F * C; i++) s.second[i] = fabsf(w->second[i]);
  for (int i = 0; i < F; i++) {
    s.bias[i] = fabsf(w->bias[i]), s.gamma[i] = fabsf(w->gamma[i]), s.beta[i] = fabsf(w->beta[i]);
    s.mean[i] = -fabsf(w->mean[i]), s.variance[i] = w->variance[i];
  }
  return s;
}

static void check_conv(const carnot_build_config* config, const char* name, double cost) {
  enum { COUNT = 2 * CONV_NET_CHANNELS * SIZE * SIZE, OUT = 2 * CONV_NET_FILTERS * SIZE * SIZE };
  static double wanted[OUT], bound[OUT];
  carnot_arena arena = {0};
  conv_net_weights w;
  conv_net_weights_make(&arena, 1, &w);
  conv_net_weights sizes = sizes_of(&arena, &w);
  float *x = net_numbers(&arena, 99, COUNT), *size_x = net_numbers(&arena, 99, COUNT);
  for (int i = 0; i < COUNT; i++) size_x[i] = fabsf(x[i]);
  conv_net_wanted(&w, x, 2, SIZE, SIZE, wanted);
  conv_net_wanted(&sizes, size_x, 2, SIZE, SIZE, bound);
  for (int i = 0; i < OUT; i++) bound[i] *= cost;
  carnot_graph* g = conv_net(&w, 2, SIZE, SIZE);
  carnot_engine* engine = net_engine(g, config);
  assert_int_equal(half_steps(engine, name), 1);  // both read x: merge_convolutions joins them
  carnot_context* context = net_context(engine, config->isa);
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(2, CONV_NET_CHANNELS, SIZE, SIZE));
  net_ok(carnot_context_run_now(context));
  half_within(net_get(context, "y")->data, wanted, bound, OUT);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_conv(void** state) { (void)state, half_each_tactic(check_conv); }

// ---- gather ----

static void check_gather(const carnot_build_config* config, const char* name, double cost) {
  enum { ROWS = 9, COLUMNS = 21, PICKED = 4 };
  static const int64_t at[PICKED] = {3, -1, 0, 3};
  carnot_arena arena = {0};
  float* table = net_numbers(&arena, 31, ROWS * COLUMNS);
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* index = net_input(g, "at", CARNOT_DTYPE_I64, NET_LIST(-1));
  carnot_value* w = net_weight(g, "w", 0, table, NET_LIST(ROWS, COLUMNS));
  net_output(g, net_node(g, CARNOT_OP_GATHER, NULL, NET_VALUES(w, index)), "y");
  char tactic[32];
  snprintf(tactic, sizeof(tactic), "cpu_gather%.*s", (int)strlen(name) - 1, name);
  carnot_engine* engine = net_engine(g, config);
  assert_int_equal(half_steps(engine, tactic), 1);
  carnot_context* context = net_context(engine, config->isa);
  net_set(context, "at", CARNOT_DTYPE_I64, at, NET_LIST(PICKED));
  net_ok(carnot_context_run_now(context));
  double wanted[PICKED * COLUMNS], bound[PICKED * COLUMNS];
  for (int i = 0; i < PICKED * COLUMNS; i++) {
    wanted[i] = table[(at[i / COLUMNS] + ROWS) % ROWS * COLUMNS + i % COLUMNS];
    bound[i] = cost * fabs(wanted[i]);
  }
  half_within(net_get(context, "y")->data, wanted, bound, PICKED * COLUMNS);
  int64_t beyond = ROWS;
  net_set(context, "at", CARNOT_DTYPE_I64, &beyond, NET_LIST(1));
  carnot_status* status = carnot_context_run_now(context);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
  carnot_status_free(status);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_gather(void** state) { (void)state, half_each_tactic(check_gather); }

// ---- when they are allowed ----

// Without --fp16 weights are stored as float16 only if each converts exactly, and never in a
// refittable engine.
static void test_exact_weights(void** state) {
  (void)state;
  carnot_arena arena = {0};
  float *rough = net_numbers(&arena, 3, K * N), *exact = net_numbers(&arena, 3, K * N);
  for (int i = 0; i < K * N; i++) exact[i] = roundf(exact[i] * 512) / 512;
  for (int round = 0; round < 3; round++) {
    float* w = round == 0 ? rough : exact;
    carnot_graph* g = gemm_net(w);
    carnot_build_config config = half_config(-1, CARNOT_DTYPE_F32);
    config.refit = round == 2;
    carnot_engine* engine = net_engine(g, &config);
    assert_int_equal(half_steps(engine, "_f16_"), round == 1);
    carnot_context* context = net_context(engine, -1);
    check_product(context, w, 9, 0x1p-20);
    carnot_context_free(context);
    carnot_engine_release(engine);
    carnot_graph_destroy(g);
  }
  carnot_arena_deinit(&arena);
}

static carnot_status* refit_weight(carnot_engine* engine, float* w) {
  carnot_refit* refit = NULL;
  net_ok(carnot_refit_begin(engine, &refit));
  carnot_tensor t = {.dtype = CARNOT_DTYPE_F32, .rank = 2, .dims = {K, N}, .data = w};
  net_ok(carnot_refit_set(refit, "w", &t));
  carnot_status* status = carnot_refit_commit(refit);
  carnot_refit_free(refit);
  return status;
}

static void test_refit(void** state) {
  (void)state;
  carnot_arena arena = {0};
  float* other = net_numbers(&arena, 77, K * N);
  for (size_t h = 0; h < 2; h++) {
    carnot_graph* g = gemm_net(NULL);
    carnot_build_config config = half_config(-1, half_types[h]);
    config.refit = true;
    carnot_engine* engine = net_engine(g, &config);
    assert_int_equal(half_steps(engine, h ? "_bf16_" : "_f16_"), 1);
    net_ok(refit_weight(engine, other));
    carnot_context* context = net_context(engine, -1);
    check_product(context, other, 33, half_cost(half_types[h]));
    carnot_context_free(context);
    carnot_engine_release(engine);
    carnot_graph_destroy(g);
  }
  carnot_arena_deinit(&arena);
}

// A weight beyond float16's range leads to another tactic; refit refuses such a weight and names
// its value.
static void test_beyond_float16(void** state) {
  (void)state;
  carnot_arena arena = {0};
  float *small = net_numbers(&arena, 3, K * N), *large = net_numbers(&arena, 3, K * N);
  large[5 * N + 2] = 70000;
  carnot_build_config config = half_config(-1, CARNOT_DTYPE_F16);
  carnot_graph* g = gemm_net(large);
  carnot_engine* engine = net_engine(g, &config);
  assert_int_equal(half_steps(engine, "_f16_"), 0);
  carnot_context* context = net_context(engine, -1);
  check_product(context, large, 4, 0x1p-20);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  g = gemm_net(small);
  config.refit = true;
  engine = net_engine(g, &config);
  carnot_status* status = refit_weight(engine, large);
  assert_non_null(status);
  assert_non_null(strstr(carnot_status_message(status), "70000"));
  carnot_status_free(status);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

// ---- threads ----

static void check_threads(const carnot_build_config* config, const char* name, double cost) {
  enum { COUNT = 2 * CONV_NET_CHANNELS * 40 * 40, OUT = 2 * CONV_NET_FILTERS * 40 * 40 };
  (void)name, (void)cost;
  static float first[OUT];
  carnot_arena arena = {0};
  conv_net_weights w;
  conv_net_weights_make(&arena, 1, &w);
  float* x = net_numbers(&arena, 8, COUNT);
  carnot_graph* g = conv_net(&w, 2, 40, 40);
  carnot_engine* engine = net_engine(g, config);
  for (int threads = 1; threads <= 3; threads++) {
    carnot_executor* executor = NULL;
    net_ok(carnot_executor_create(threads, &executor));
    carnot_context_options options = {.executor = executor, .isa = config->isa};
    carnot_context* context = NULL;
    net_ok(carnot_context_create_on(engine, &options, &context));
    net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(2, CONV_NET_CHANNELS, 40, 40));
    net_ok(carnot_context_run_now(context));
    const float* y = net_get(context, "y")->data;
    if (threads == 1) memcpy(first, y, sizeof(first));
    assert_memory_equal(first, y, sizeof(first));
    carnot_context_free(context);
    carnot_executor_destroy(executor);
  }
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_threads(void** state) { (void)state, half_each_tactic(check_threads); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),           cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_conv),           cmocka_unit_test(test_gather),
      cmocka_unit_test(test_exact_weights),  cmocka_unit_test(test_refit),
      cmocka_unit_test(test_beyond_float16), cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
