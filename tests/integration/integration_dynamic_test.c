// Sizes that depend on values: NonZero → Gather, and a Loop whose output grows.
#include "net.h"

static void test_nonzero(void** state) {
  (void)state;
  for (int fixed = 0; fixed < 2; fixed++) {
    carnot_graph* g = nonzero_net(fixed ? 40 : -1);
    carnot_engine* engine = net_engine(g, NULL);
    carnot_context* context = net_context(engine, -1);
    for (int round = 0; round < 6; round++) {
      int n = fixed ? 40 : round * 8;
      float x[40];
      double wanted[40];
      size_t count = 0;
      for (int i = 0; i < n; i++) {
        x[i] = (i + round) % 3 && round != 5 ? net_number((uint32_t)round, (size_t)i) : 0;
        if (x[i] != 0) wanted[count++] = x[i];
      }
      net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(n));
      net_ok(carnot_context_run_now(context));
      const carnot_tensor* y = net_get(context, "y");
      assert_int_equal(y->rank, 1);
      assert_int_equal(y->dims[0], count);
      net_near(y->data, wanted, count, 0, 0);
    }
    carnot_context_free(context);
    carnot_engine_release(engine);
    carnot_graph_destroy(g);
  }
}

static void test_loop(void** state) {
  (void)state;
  carnot_graph* g = loop_net();
  carnot_engine* engine = net_engine(g, NULL);
  carnot_context* context = net_context(engine, -1);
  static const float kX[3] = {0.5f, -2, 3};
  for (int64_t count = 0; count < 9; count += 2) {
    double stack[27], sum[3];
    for (int j = 0; j < 3; j++) sum[j] = kX[j];
    for (int64_t i = 0; i < count; i++)
      for (int j = 0; j < 3; j++) sum[j] += stack[i * 3 + j] = (double)i * kX[j];
    net_set(context, "count", CARNOT_DTYPE_I64, &count, NULL, 0);
    net_set(context, "x", CARNOT_DTYPE_F32, kX, NET_LIST(3));
    net_ok(carnot_context_run_now(context));
    assert_int_equal(net_get(context, "stack")->dims[0], count);
    net_near(net_get(context, "stack")->data, stack, (size_t)(count * 3), 1e-6, 0);
    net_near(net_get(context, "sum")->data, sum, 3, 1e-6, 0);
  }
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nonzero), cmocka_unit_test(test_loop)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
