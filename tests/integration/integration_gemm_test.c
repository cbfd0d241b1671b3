// GEMM with 1 to 128 rows in one engine, on every ISA level that this machine has.
#include "net.h"

enum { K = 37, N = 45 };

static carnot_graph* gemm_net(void) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(-1, K));
  carnot_value* w = net_weight(g, "w", 3, NULL, NET_LIST(K, N));
  carnot_value* b = net_weight(g, "b", 4, NULL, NET_LIST(N));
  carnot_value* y = net_node(g, CARNOT_OP_GEMM, NULL, NET_VALUES(x, w, b));
  net_output(g, net_fn(g, CARNOT_OP_UNARY, "relu", NET_VALUES(y)), "y");
  return g;
}

static void check(carnot_context* context, int m) {
  static float x[128 * K];
  static double wanted[128 * N];
  for (int i = 0; i < m * K; i++) x[i] = net_number(7, (size_t)i);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < N; j++) {
      double sum = net_number(4, (size_t)j);
      for (int k = 0; k < K; k++) sum += (double)x[i * K + k] * net_number(3, (size_t)(k * N + j));
      wanted[i * N + j] = sum > 0 ? sum : 0;
    }
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(m, K));
  net_ok(carnot_context_run_now(context));
  net_near(net_get(context, "y")->data, wanted, (size_t)(m * N), 1e-4, 1e-5);
}

static void test_rows(void** state) {
  (void)state;
  carnot_graph* g = gemm_net();
  carnot_profile_input range = {
      .name = "x", .min = {2, {1, K}}, .opt = {2, {32, K}}, .max = {2, {128, K}}};
  carnot_profile profile = {&range, 1};
  for (int isa = 0; isa < CARNOT_ISA_COUNT; isa++)
    for (int profiles = 0; profiles < 2; profiles++) {
      if (!carnot_isa_includes(carnot_isa_of_machine(), (carnot_isa)isa)) continue;
      carnot_build_config config;
      carnot_build_config_init(&config);
      config.isa = isa;
      config.level = profiles ? 3 : 1;
      config.profiles = &profile;
      config.profile_count = (size_t)profiles;
      carnot_engine* engine = net_engine(g, &config);
      carnot_context* context = net_context(engine, isa);
      for (int m = 1; m <= 128; m++) check(context, m);
      carnot_context_free(context);
      carnot_engine_release(engine);
    }
  carnot_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
