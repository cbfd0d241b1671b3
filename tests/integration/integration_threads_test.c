// Four contexts of one engine on four threads, two of them sharing an executor, while a fifth
// refits the weights.
#include <pthread.h>

#include "net.h"

enum {
  THREADS = 4,
  RUNS = 30,
  SIZE = 12,
  COUNT = CONV_NET_CHANNELS * SIZE * SIZE,
  OUT = CONV_NET_FILTERS * SIZE * SIZE
};

typedef struct worker {
  pthread_t thread;
  carnot_engine* engine;
  carnot_executor* executor;
  const float* x;
  const double *before, *after;
  carnot_status* status;
  bool wrong;
} worker;

// Every result is that of the old or of the new weights, never a mixture.
static bool is_near(const float* y, const double* wanted) {
  for (int i = 0; i < OUT; i++)
    if (!(fabs(y[i] - wanted[i]) <= 1e-4 + 1e-4 * fabs(wanted[i]))) return false;
  return true;
}

static carnot_status* run_all(worker* w) {
  carnot_context_options options = {
      .executor = w->executor, .isa = -1, .host_io = net_device() != NULL};
  carnot_context* context = NULL;
  CARNOT_TRY(carnot_context_create_on(w->engine, &options, &context));
  carnot_rt_value cell = {.kind = CARNOT_VALUE_TENSOR,
                          .tensor = {.dtype = CARNOT_DTYPE_F32,
                                     .rank = 4,
                                     .dims = {1, CONV_NET_CHANNELS, SIZE, SIZE},
                                     .data = (void*)(uintptr_t)w->x}};
  carnot_status* status = carnot_context_set_input_cell(context, 0, &cell);
  for (int i = 0; i < RUNS && !status; i++) {
    status = carnot_context_run_now(context);
    const float* y = carnot_context_output(context, 1)->tensor.data;
    if (!status) w->wrong |= !is_near(y, w->before) && !is_near(y, w->after);
  }
  carnot_context_free(context);
  return status;
}

static void* work(void* arg) {
  worker* w = arg;
  w->status = run_all(w);
  return NULL;
}

static void test_threads(void** state) {
  (void)state;
  carnot_arena arena = {0};
  conv_net_weights w, other;
  conv_net_weights_make(&arena, 1, &w);
  conv_net_weights_make(&arena, 1, &other);
  other.conv = net_numbers(&arena, 70, CONV_NET_FILTERS * CONV_NET_CHANNELS * 9);
  carnot_graph* g = conv_net(&w, 1, SIZE, SIZE);
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 1;
  config.refit = true;
  carnot_engine* engine = net_engine(g, &config);
  carnot_executor* executor = NULL;
  net_ok(carnot_executor_create(2, &executor));
  float* x = net_numbers(&arena, 5, COUNT);
  double *before = CARNOT_NEW_ARRAY(&arena, double, OUT),
         *after = CARNOT_NEW_ARRAY(&arena, double, OUT);
  conv_net_wanted(&w, x, 1, SIZE, SIZE, before);
  conv_net_wanted(&other, x, 1, SIZE, SIZE, after);
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.engine = engine,
                          .executor = i < 2 ? executor : NULL,
                          .x = x,
                          .before = before,
                          .after = after};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 6; i++) {
    carnot_refit* refit = NULL;
    net_ok(carnot_refit_begin(engine, &refit));
    carnot_tensor t = {.dtype = CARNOT_DTYPE_F32,
                       .rank = 4,
                       .dims = {CONV_NET_FILTERS, CONV_NET_CHANNELS, 3, 3},
                       .data = i % 2 ? w.conv : other.conv};
    net_ok(carnot_refit_set(refit, "conv.weight", &t));
    net_ok(carnot_refit_commit(refit));
    carnot_refit_free(refit);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    net_ok(workers[i].status);
    assert_false(net_computes() && workers[i].wrong);
  }
  carnot_executor_destroy(executor);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
