// Weights in float16 and bfloat16: rows of every family on every ISA level of this machine, against
// double precision; who may take them, refit, threads.
#include "net.h"

enum { K = 37, N = 45, SIZE = 11, TIME = 5, BATCH = 3, INPUT = 13, HIDDEN = 19 };

static const carnot_dtype kHalves[] = {CARNOT_DTYPE_F16, CARNOT_DTYPE_BF16};

// What rounding both operands to nearest may cost, relative to the sum of sizes; the sums add
// float32's share.
static double cost_of(carnot_dtype half) {
  return (half == CARNOT_DTYPE_F16 ? 0x1p-11 : 2 * 0x1p-9) + 0x1p-20;
}

static carnot_build_config half_config(int isa, carnot_dtype half) {
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.isa = isa;
  config.level = 0;
  config.typing.f16 = half == CARNOT_DTYPE_F16;
  config.typing.bf16 = half == CARNOT_DTYPE_BF16;
  return config;
}

// Steps whose tactic's name holds |text|.
static int steps_with(const carnot_engine* engine, const char* text) {
  int count = 0;
  for (uint32_t i = 0; i < engine->plan->step_count; i++)
    count += strstr(engine->plan->steps[i].variants[0].tactic, text) != NULL;
  return count;
}

static void within(const float* found, const double* wanted, const double* bound, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (fabs((double)found[i] - wanted[i]) <= bound[i]) continue;
    print_error("element %zu of %zu is %.9g, must be %.9g within %.3g\n", i, count,
                (double)found[i], wanted[i], bound[i]);
    fail();
  }
}

// Calls |check| for every level and half type with the tactics' middle name.
static void each_row(void (*check)(const carnot_build_config*, const char* name, double cost)) {
  for (int isa = 0; isa <= (int)carnot_isa_of_machine(); isa++)
    for (size_t h = 0; h < 2; h++) {
      carnot_build_config config = half_config(isa, kHalves[h]);
      check(&config, h ? "_bf16_" : "_f16_", cost_of(kHalves[h]));
    }
}

// ---- products ----

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
  within(net_get(context, "y")->data, wanted, bound, (size_t)(m * N));
}

static void check_gemm(const carnot_build_config* config, const char* name, double cost) {
  carnot_arena arena = {0};
  float* w = net_numbers(&arena, 3, K * N);
  carnot_graph* g = gemm_net(w);
  carnot_engine* engine = net_engine(g, config);
  assert_int_equal(steps_with(engine, name), 1);
  carnot_context* context = net_context(engine, config->isa);
  for (int m = 1; m <= 128; m++) check_product(context, w, m, cost);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_gemm(void** state) { (void)state, each_row(check_gemm); }

// Two activations: only levels with products of bf16 have rows for them.
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
  bool native = config->isa >= CARNOT_ISA_AVX512_BF16 && config->typing.bf16;
  assert_int_equal(steps_with(engine, name), native);
  carnot_context* context = net_context(engine, config->isa);
  net_set(context, "a", CARNOT_DTYPE_F32, x, NET_LIST(M, K));
  net_set(context, "b", CARNOT_DTYPE_F32, y, NET_LIST(K, N));
  net_ok(carnot_context_run_now(context));
  within(net_get(context, "y")->data, wanted, bound, COUNT);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_matmul(void** state) { (void)state, each_row(check_matmul); }

// ---- convolutions ----

// The same network of absolute values gives the sum of sizes.
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
  assert_int_equal(steps_with(engine, name), 2);
  carnot_context* context = net_context(engine, config->isa);
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(2, CONV_NET_CHANNELS, SIZE, SIZE));
  net_ok(carnot_context_run_now(context));
  within(net_get(context, "y")->data, wanted, bound, OUT);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_conv(void** state) { (void)state, each_row(check_conv); }

// ---- recurrent layers ----

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double product(const float* row, const double* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += row[i] * x[i];
  return sum;
}

// Gate |k| of unit |j| at input |x| and state |h|.
static double net_at(const float* w, const float* r, int k, int j, const double* x,
                     const double* h) {
  return product(w + (k * HIDDEN + j) * INPUT, x, INPUT) +
         product(r + (k * HIDDEN + j) * HIDDEN, h, HIDDEN);
}

static void lstm_step(const float* w, const float* r, const double* x, double* h, double* c) {
  double next[HIDDEN];
  for (int j = 0; j < HIDDEN; j++) {
    double i = sigmoid(net_at(w, r, 0, j, x, h)), o = sigmoid(net_at(w, r, 1, j, x, h));
    double f = sigmoid(net_at(w, r, 2, j, x, h)), g = tanh(net_at(w, r, 3, j, x, h));
    c[j] = f * c[j] + i * g;
    next[j] = o * tanh(c[j]);
  }
  memcpy(h, next, sizeof(next));
}

static void gru_step(const float* w, const float* r, const double* x, double* h, double* c) {
  double reset[HIDDEN], next[HIDDEN];
  (void)c;
  for (int j = 0; j < HIDDEN; j++) reset[j] = sigmoid(net_at(w, r, 1, j, x, h)) * h[j];
  for (int j = 0; j < HIDDEN; j++) {
    double z = sigmoid(net_at(w, r, 0, j, x, h)), n = tanh(net_at(w, r, 2, j, x, reset));
    next[j] = (1 - z) * n + z * h[j];
  }
  memcpy(h, next, sizeof(next));
}

static void check_recurrent(const carnot_build_config* config, const char* name, double cost,
                            carnot_op op) {
  int gates = op == CARNOT_OP_LSTM ? 4 : 3;
  carnot_arena arena = {0};
  float *w = net_numbers(&arena, 21, (size_t)(gates * HIDDEN * INPUT)),
        *r = net_numbers(&arena, 22, (size_t)(gates * HIDDEN * HIDDEN)),
        *x = net_numbers(&arena, 23, TIME * BATCH * INPUT);
  for (int i = 0; i < gates * HIDDEN * HIDDEN; i++) r[i] *= 0.3f;
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* in = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(TIME, BATCH, INPUT));
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &g->arena, "hidden_size", HIDDEN);
  net_output(g,
             net_node(g, op, &attrs,
                      NET_VALUES(in, net_weight(g, "w", 0, w, NET_LIST(1, gates * HIDDEN, INPUT)),
                                 net_weight(g, "r", 0, r, NET_LIST(1, gates * HIDDEN, HIDDEN)))),
             "y");
  carnot_engine* engine = net_engine(g, config);
  assert_int_equal(steps_with(engine, name), 1);
  carnot_context* context = net_context(engine, config->isa);
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(TIME, BATCH, INPUT));
  net_ok(carnot_context_run_now(context));
  double wanted[TIME * BATCH * HIDDEN], bound[TIME * BATCH * HIDDEN];
  for (int b = 0; b < BATCH; b++) {
    double h[HIDDEN] = {0}, c[HIDDEN] = {0}, xt[INPUT];
    for (int t = 0; t < TIME; t++) {
      for (int i = 0; i < INPUT; i++) xt[i] = x[(t * BATCH + b) * INPUT + i];
      (op == CARNOT_OP_LSTM ? lstm_step : gru_step)(w, r, xt, h, c);
      memcpy(wanted + (t * BATCH + b) * HIDDEN, h, sizeof(h));
    }
  }
  // A gate sums products of size 4 or so and its slope is 1 at most; a state adds up a few of them.
  for (int i = 0; i < TIME * BATCH * HIDDEN; i++) bound[i] = 5 * cost;
  within(net_get(context, "y")->data, wanted, bound, TIME * BATCH * HIDDEN);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void check_cells(const carnot_build_config* config, const char* name, double cost) {
  check_recurrent(config, name, cost, CARNOT_OP_LSTM);
  check_recurrent(config, name, cost, CARNOT_OP_GRU);
}

static void test_recurrent(void** state) { (void)state, each_row(check_cells); }

// ---- tables ----

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
  assert_int_equal(steps_with(engine, tactic), 1);
  carnot_context* context = net_context(engine, config->isa);
  net_set(context, "at", CARNOT_DTYPE_I64, at, NET_LIST(PICKED));
  net_ok(carnot_context_run_now(context));
  double wanted[PICKED * COLUMNS], bound[PICKED * COLUMNS];
  for (int i = 0; i < PICKED * COLUMNS; i++) {
    wanted[i] = table[(at[i / COLUMNS] + ROWS) % ROWS * COLUMNS + i % COLUMNS];
    bound[i] = cost * fabs(wanted[i]);
  }
  within(net_get(context, "y")->data, wanted, bound, PICKED * COLUMNS);
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

static void test_gather(void** state) { (void)state, each_row(check_gather); }

// ---- who may take them ----

// Without --fp16 only weights that float16 holds exactly are kept so, and not where they may
// change.
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
    assert_int_equal(steps_with(engine, "_f16_"), round == 1);
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
    carnot_build_config config = half_config(-1, kHalves[h]);
    config.refit = true;
    carnot_engine* engine = net_engine(g, &config);
    assert_int_equal(steps_with(engine, h ? "_bf16_" : "_f16_"), 1);
    net_ok(refit_weight(engine, other));
    carnot_context* context = net_context(engine, -1);
    check_product(context, other, 33, cost_of(kHalves[h]));
    carnot_context_free(context);
    carnot_engine_release(engine);
    carnot_graph_destroy(g);
  }
  carnot_arena_deinit(&arena);
}

// A weight that float16 lacks goes to another row; one that comes by refit is refused with its
// value.
static void test_beyond_float16(void** state) {
  (void)state;
  carnot_arena arena = {0};
  float *small = net_numbers(&arena, 3, K * N), *large = net_numbers(&arena, 3, K * N);
  large[5 * N + 2] = 70000;
  carnot_build_config config = half_config(-1, CARNOT_DTYPE_F16);
  carnot_graph* g = gemm_net(large);
  carnot_engine* engine = net_engine(g, &config);
  assert_int_equal(steps_with(engine, "_f16_"), 0);
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

static void test_threads(void** state) { (void)state, each_row(check_threads); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),    cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_conv),    cmocka_unit_test(test_recurrent),
      cmocka_unit_test(test_gather),  cmocka_unit_test(test_exact_weights),
      cmocka_unit_test(test_refit),   cmocka_unit_test(test_beyond_float16),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
