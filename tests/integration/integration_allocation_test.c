// A run in steady state allocates nothing: the allocator is interposed and counts.
#include <dlfcn.h>
#include <stdatomic.h>

#include "net.h"

extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t count, size_t bytes);
extern void* __libc_realloc(void* old, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void* memory);

static atomic_bool counting;
static atomic_int calls;

static void count_call(void) {
  if (atomic_load(&counting)) atomic_fetch_add(&calls, 1);
}
// They replace those of the C library in the whole process.
__attribute__((visibility("default"))) void* malloc(size_t bytes) {
  return count_call(), __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(size_t n, size_t bytes) {
  return count_call(), __libc_calloc(n, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* old, size_t bytes) {
  return count_call(), __libc_realloc(old, bytes);
}
__attribute__((visibility("default"))) void* aligned_alloc(size_t a, size_t bytes) {
  return count_call(), __libc_memalign(a, bytes);
}
__attribute__((visibility("default"))) int posix_memalign(void** out, size_t a, size_t bytes) {
  count_call();
  *out = __libc_memalign(a, bytes);
  return *out ? 0 : 12;
}
__attribute__((visibility("default"))) void free(void* memory) {
  count_call();
  __libc_free(memory);
}

static void check(carnot_graph* g, const char* name, int64_t rows, int64_t columns, int rank) {
  carnot_executor* executor = NULL;
  net_ok(carnot_executor_create(2, &executor));
  carnot_engine* engine = net_engine(g, NULL);
  carnot_context_options options = {.executor = executor, .isa = -1};
  carnot_context* context = NULL;
  net_ok(carnot_context_create_on(engine, &options, &context));
  float* x = net_numbers(&g->arena, 3, 2 * CONV_NET_CHANNELS * 64 * 64);
  for (int i = 0; i < 64; i += 3) x[i] = 0;
  int64_t dims[4] = {rows, columns, 16, 16};
  for (int round = 0; round < 4; round++) {
    // The input may be at another address in each run.
    net_set(context, "x", CARNOT_DTYPE_F32, x + 16 * (round & 1), dims, rank);
    atomic_store(&calls, 0);
    atomic_store(&counting, round >= 2);
    carnot_status* status = carnot_context_run_now(context);
    atomic_store(&counting, false);
    net_ok(status);
    if (round < 2) continue;
    if (atomic_load(&calls))
      print_error("%s: %d calls of the allocator in run %d\n", name, atomic_load(&calls), round);
    assert_int_equal(atomic_load(&calls), 0);
  }
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_executor_destroy(executor);
  carnot_graph_destroy(g);
}

static void test_steady_runs(void** state) {
  (void)state;
  // The counter counts: interposition works.
  atomic_store(&counting, true);
  void* volatile probe = malloc(8);
  free(probe);
  atomic_store(&counting, false);
  assert_int_equal(atomic_load(&calls), 2);
  carnot_arena arena = {0};
  conv_net_weights w;
  conv_net_weights_make(&arena, 1, &w);
  check(conv_net(&w, 2, 16, 16), "convolutions", 2, CONV_NET_CHANNELS, 4);
  check(conv_net(&w, -1, -2, -3), "convolutions of any size", 2, CONV_NET_CHANNELS, 4);
  check(attention_net(24), "attention", 24, 32, 2);
  check(attention_net(-1), "attention of any length", 24, 32, 2);
  check(nonzero_net(50), "nonzero", 50, 1, 1);
  check(nonzero_net(-1), "nonzero of any length", 50, 1, 1);
  carnot_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steady_runs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
