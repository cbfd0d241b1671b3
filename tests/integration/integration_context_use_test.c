// Contexts and threads, through the public interface: a context refuses a second thread, and many
// threads with a context each get the right results for mixed batches.
#include <pthread.h>
#include <semaphore.h>

#include "carnot/data.h"
#include "carnot/runtime.h"
#include "net.h"

enum { SIZE = 6, MAX_BATCH = 3, IN = CONV_NET_CHANNELS * SIZE * SIZE };
enum { OUT = CONV_NET_FILTERS * SIZE * SIZE, THREADS = 16, RUNS = 2000 };

typedef struct fixture {
  carnot_arena arena;
  carnot_graph* graph;
  carnot_engine* engine;
  float* x[MAX_BATCH];
  double* wanted[MAX_BATCH];
} fixture;

static int setup(void** state) {
  fixture* f = calloc(1, sizeof(*f));
  conv_net_weights w;
  conv_net_weights_make(&f->arena, 1, &w);
  f->graph = conv_net(&w, /*n=*/-1, SIZE, SIZE);
  f->engine = net_engine(f->graph, NULL);
  for (int b = 0; b < MAX_BATCH; b++) {
    f->x[b] = net_numbers(&f->arena, 9 + (uint32_t)b, (size_t)(b + 1) * IN);
    f->wanted[b] = CARNOT_NEW_ARRAY(&f->arena, double, (size_t)(b + 1) * OUT);
    conv_net_wanted(&w, f->x[b], b + 1, SIZE, SIZE, f->wanted[b]);
  }
  *state = f;
  return 0;
}

static int teardown(void** state) {
  fixture* f = *state;
  carnot_engine_release(f->engine);
  carnot_graph_destroy(f->graph);
  carnot_arena_deinit(&f->arena);
  free(f);
  return 0;
}

static carnot_dims dims_of(int batch) {
  return (carnot_dims){.rank = 4, .d = {batch, CONV_NET_CHANNELS, SIZE, SIZE}};
}

static carnot_context* context_of(const fixture* f) {
  carnot_context_config config = {.thread_count = 1, .host_tensors = true};
  carnot_context* context = NULL;
  net_ok(carnot_context_create(f->engine, &config, &context));
  return context;
}

// True when |y| is the result for |batch|.
static bool is_right(const fixture* f, int batch, const float* y) {
  for (int i = 0; i < batch * OUT && net_computes(); i++) {
    double wanted = f->wanted[batch - 1][i];
    if (!(fabs(y[i] - wanted) <= 1e-4 + 1e-4 * fabs(wanted))) return false;
  }
  return true;
}

// ---- a second thread is refused ----

// A run on one thread that waits in its watch function until the other thread has asked.
typedef struct meeting {
  carnot_context* context;
  sem_t running, go_on;
  bool has_stopped;
  carnot_status *of_run, *of_nested_read, *of_nested_change;
} meeting;

static carnot_status* wait_for_the_other(void* user, const carnot_watched_value* value) {
  meeting* m = user;
  (void)value;
  if (m->has_stopped) return NULL;
  m->has_stopped = true;
  carnot_dims dims;
  m->of_nested_read = carnot_context_tensor_dims(m->context, "y", &dims);
  m->of_nested_change = carnot_context_set_profile(m->context, 0);
  sem_post(&m->running);
  sem_wait(&m->go_on);
  return NULL;
}

static void* run_and_wait(void* argument) {
  meeting* m = argument;
  m->of_run = carnot_context_run(m->context);
  return NULL;
}

static void refused(carnot_status* status, const char* message) {
  assert_int_equal(CARNOT_FAILED_PRECONDITION, carnot_status_code(status));
  assert_non_null(strstr(carnot_status_message(status), message));
  carnot_status_free(status);
}

// Every call that changes or reads what a run uses.
static void all_are_refused(carnot_context* c, const float* x) {
  const char* why = "another thread is using this context";
  carnot_dims dims = dims_of(1), found;
  carnot_layer_time layer;
  carnot_run_times times;
  const carnot_data* data;
  refused(carnot_context_run(c), why);
  refused(carnot_context_enqueue(c, NULL), why);
  refused(carnot_context_wait(c, NULL), why);
  refused(carnot_context_infer_shapes(c), why);
  refused(carnot_context_set_input(c, "x", &dims, x), why);
  refused(carnot_context_set_input_shape(c, "x", &dims), why);
  refused(carnot_context_set_tensor_address(c, "y", NULL, 0), why);
  refused(carnot_context_clear_addresses(c), why);
  refused(carnot_context_set_profile(c, 0), why);
  refused(carnot_context_set_output_allocator(c, "y", NULL, NULL, NULL), why);
  refused(carnot_context_set_profiler(c, NULL, NULL), why);
  refused(carnot_context_set_layer_timing(c, true), why);
  refused(carnot_context_set_run_timing(c, true), why);
  refused(carnot_context_set_graphs(c, true), why);
  refused(carnot_context_set_transfers(c, true), why);
  refused(carnot_context_set_watch(c, NULL, NULL), why);
  refused(carnot_context_set_cancel(c, NULL, NULL), why);
  refused(carnot_context_tensor_dims(c, "y", &found), why);
  refused(carnot_context_get_layer_time(c, 0, &layer), why);
  refused(carnot_context_get_run_times(c, &times), why);
  refused(carnot_context_output_value(c, "y", &data), why);
  assert_null(carnot_context_output_data(c, "y"));
}

static void test_second_thread_is_refused(void** state) {
  fixture* f = *state;
  carnot_dims dims = dims_of(2);
  meeting m = {.context = context_of(f)};
  sem_init(&m.running, 0, 0);
  sem_init(&m.go_on, 0, 0);
  net_ok(carnot_context_set_input(m.context, "x", &dims, f->x[1]));
  net_ok(carnot_context_set_watch(m.context, wait_for_the_other, &m));
  pthread_t thread;
  assert_int_equal(0, pthread_create(&thread, NULL, run_and_wait, &m));
  sem_wait(&m.running);
  all_are_refused(m.context, f->x[0]);
  sem_post(&m.go_on);
  pthread_join(thread, NULL);
  net_ok(m.of_run);
  net_ok(m.of_nested_read);
  refused(m.of_nested_change, "called by a callback");
  assert_true(is_right(f, 2, carnot_context_output_data(m.context, "y")));
  net_ok(carnot_context_run(m.context));
  carnot_context_destroy(m.context);
  sem_destroy(&m.running);
  sem_destroy(&m.go_on);
}

// ---- threads that share a context without agreement ----

typedef struct worker {
  pthread_t thread;
  const fixture* f;
  carnot_context* context;
  int seed, wrong, other_errors;
  carnot_status* status;
} worker;

static void count_error(worker* w, carnot_status* status) {
  carnot_code code = carnot_status_code(status);
  w->other_errors += code != CARNOT_OK && code != CARNOT_FAILED_PRECONDITION;
  carnot_status_free(status);
}

static void* use_a_shared_context(void* argument) {
  worker* w = argument;
  for (int i = 0; i < RUNS; i++) {
    int batch = 1 + (i + w->seed) % MAX_BATCH;
    carnot_dims dims = dims_of(batch);
    count_error(w, carnot_context_set_input(w->context, "x", &dims, w->f->x[batch - 1]));
    count_error(w, carnot_context_run(w->context));
  }
  return NULL;
}

static void test_shared_context_stays_whole(void** state) {
  fixture* f = *state;
  carnot_context* context = context_of(f);
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.f = f, .context = context, .seed = i};
    assert_int_equal(0,
                     pthread_create(&workers[i].thread, NULL, use_a_shared_context, &workers[i]));
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(0, workers[i].other_errors);
  }
  carnot_dims dims = dims_of(3);
  net_ok(carnot_context_set_input(context, "x", &dims, f->x[2]));
  net_ok(carnot_context_run(context));
  assert_true(is_right(f, 3, carnot_context_output_data(context, "y")));
  carnot_context_destroy(context);
}

// ---- a context for each thread ----

static carnot_status* run_mixed_batches(worker* w) {
  for (int i = 0; i < RUNS; i++) {
    int batch = 1 + (i * 7 + w->seed) % MAX_BATCH;
    carnot_dims dims = dims_of(batch);
    CARNOT_TRY(carnot_context_set_input(w->context, "x", &dims, w->f->x[batch - 1]));
    CARNOT_TRY(carnot_context_run(w->context));
    w->wrong += !is_right(w->f, batch, carnot_context_output_data(w->context, "y"));
  }
  return NULL;
}

static void* use_an_own_context(void* argument) {
  worker* w = argument;
  w->status = run_mixed_batches(w);
  return NULL;
}

static void test_own_contexts_are_right(void** state) {
  fixture* f = *state;
  carnot_executor* executor;
  net_ok(carnot_executor_create(2, &executor));
  carnot_context_config config = {.executor = executor, .host_tensors = true};
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.f = f, .seed = i};
    net_ok(carnot_context_create(f->engine, &config, &workers[i].context));
    assert_int_equal(0, pthread_create(&workers[i].thread, NULL, use_an_own_context, &workers[i]));
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    net_ok(workers[i].status);
    assert_int_equal(0, workers[i].wrong);
    carnot_context_destroy(workers[i].context);
  }
  carnot_executor_destroy(executor);
}

// ---- addresses ----

static void test_cleared_addresses_are_not_used(void** state) {
  fixture* f = *state;
  carnot_context* context = context_of(f);
  carnot_dims dims = dims_of(2), found;
  float* y = calloc(2 * OUT, sizeof(float));
  net_ok(carnot_context_set_input(context, "x", &dims, f->x[1]));
  net_ok(carnot_context_set_tensor_address(context, "y", y, 2 * OUT * sizeof(float)));
  net_ok(carnot_context_run(context));
  assert_true(is_right(f, 2, y));
  net_ok(carnot_context_clear_addresses(context));
  assert_null(carnot_context_output_data(context, "y"));
  refused(carnot_context_run(context), "input x has no data");
  net_ok(carnot_context_tensor_dims(context, "y", &found));
  assert_int_equal(2, found.d[0]);
  memset(y, 0, 2 * OUT * sizeof(float));
  net_ok(carnot_context_set_input(context, "x", &dims, f->x[1]));
  net_ok(carnot_context_run(context));
  assert_true(is_right(f, 2, carnot_context_output_data(context, "y")));
  for (int i = 0; i < 2 * OUT; i++) assert_true(y[i] == 0);
  carnot_context_destroy(context);
  free(y);
}

// ---- output allocators ----

// Gives memory of exactly the size asked for, as large as |limit_bytes|, and frees what it gave.
typedef struct giver {
  void* memory;
  size_t bytes, limit_bytes;
  int asked, told;
  int64_t batch;
} giver;

static void* give(void* user, const char* name, void* current, size_t bytes) {
  giver* g = user;
  (void)name;
  assert_ptr_equal(g->memory, current);
  g->asked++;
  if (bytes <= g->bytes) return g->memory;
  free(g->memory);
  g->memory = bytes <= g->limit_bytes ? malloc(bytes) : NULL;
  g->bytes = g->memory ? bytes : 0;
  return g->memory;
}

static void note_batch(void* user, const char* name, const carnot_dims* dims) {
  giver* g = user;
  (void)name;
  g->told++;
  g->batch = dims->d[0];
}

static void run_batch(const fixture* f, carnot_context* context, int batch, const giver* g) {
  carnot_dims dims = dims_of(batch);
  net_ok(carnot_context_set_input(context, "x", &dims, f->x[batch - 1]));
  net_ok(carnot_context_run(context));
  assert_int_equal(batch, g->batch);
  assert_ptr_equal(g->memory, carnot_context_output_data(context, "y"));
  assert_true(is_right(f, batch, g->memory));
}

static void test_outputs_grow(void** state) {
  fixture* f = *state;
  static const int kBatches[] = {1, 2, 3, 1, 3};
  enum { COUNT = sizeof(kBatches) / sizeof(*kBatches) };
  carnot_context* context = context_of(f);
  giver g = {.limit_bytes = SIZE_MAX};
  net_ok(carnot_context_set_output_allocator(context, "y", give, note_batch, &g));
  for (int i = 0; i < COUNT; i++) run_batch(f, context, kBatches[i], &g);
  assert_int_equal(COUNT, g.asked);
  assert_int_equal(COUNT, g.told);
  // No memory fails the run, and the context goes on.
  free(g.memory);
  g = (giver){.limit_bytes = 8};
  net_ok(carnot_context_set_output_allocator(context, "y", give, note_batch, &g));
  carnot_status* status = carnot_context_run(context);
  assert_int_equal(CARNOT_OUT_OF_MEMORY, carnot_status_code(status));
  assert_non_null(strstr(carnot_status_message(status), "gave no memory"));
  carnot_status_free(status);
  // Without allocator what it gave is not used again.
  net_ok(carnot_context_set_output_allocator(context, "y", NULL, NULL, NULL));
  net_ok(carnot_context_run(context));
  assert_true(is_right(f, 3, carnot_context_output_data(context, "y")));
  carnot_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_second_thread_is_refused),
      cmocka_unit_test(test_shared_context_stays_whole),
      cmocka_unit_test(test_own_contexts_are_right),
      cmocka_unit_test(test_cleared_addresses_are_not_used),
      cmocka_unit_test(test_outputs_grow),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
