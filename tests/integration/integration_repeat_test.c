// With one timing cache two builds give the same bytes, at the level that times.
#include "builder/measure/timing_cache.h"
#include "net.h"

// Fails the test and shows the first bytes after the header (it has the hashes) that differ.
static void expect_same(const uint8_t* a, const uint8_t* b, size_t size) {
  enum { kHeader = 128, kShown = 8 };
  if (memcmp(a, b, size) == 0) return;
  size_t count = 0;
  for (size_t i = kHeader; i < size; i++) {
    if (a[i] == b[i]) continue;
    if (count++ < kShown) print_error("byte %zu of %zu: %02x and %02x\n", i, size, a[i], b[i]);
  }
  fail_msg("%zu bytes differ", count);
}

static void check(const carnot_graph* g) {
  carnot_timing_cache* cache = NULL;
  net_ok(carnot_timing_cache_create(&cache));
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 3;
  config.timing_cache = cache;
  void *first, *second;
  size_t first_size, second_size;
  net_bytes(g, &config, &first, &first_size);
  net_bytes(g, &config, &second, &second_size);
  assert_int_equal(first_size, second_size);
  expect_same(first, second, first_size);
  free(second);
  // The same with a cache that was printed and read.
  char* text;
  size_t size;
  net_ok(carnot_timing_cache_print(cache, &text, &size));
  carnot_timing_cache_destroy(cache);
  net_ok(carnot_timing_cache_create(&config.timing_cache));
  net_ok(carnot_timing_cache_read(config.timing_cache, text, size));
  free(text);
  net_bytes(g, &config, &second, &second_size);
  assert_int_equal(first_size, second_size);
  expect_same(first, second, first_size);
  carnot_timing_cache_destroy(config.timing_cache);
  free(first);
  free(second);
}

static void test_same_bytes(void** state) {
  (void)state;
  carnot_arena arena = {0};
  conv_net_weights w;
  conv_net_weights_make(&arena, 1, &w);
  carnot_graph* nets[] = {conv_net(&w, 1, 16, 16), conv_net(&w, -1, 16, 16), attention_net(20),
                          nonzero_net(-1), loop_net()};
  for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
    check(nets[i]);
    carnot_graph_destroy(nets[i]);
  }
  carnot_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
