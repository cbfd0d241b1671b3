// The timing cache: its entries, and its text, which prints as it is read.
#include "builder/measure/timing_cache.h"

// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
//
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const char kText[] = "carnot-timing-cache 3\n0123456789abcdef cpu_gemm_f32_avx2 1200\n";

static void test_round_trip(void** state) {
  (void)state;
  carnot_timing_cache* cache;
  char* text;
  size_t size;
  assert_null(carnot_timing_cache_create(&cache));
  assert_null(carnot_timing_cache_read(cache, kText, strlen(kText)));
  assert_int_equal(carnot_timing_cache_count(cache), 1);
  assert_null(carnot_timing_cache_print(cache, &text, &size));
  assert_int_equal(size, strlen(kText));
  assert_memory_equal(text, kText, size);
  free(text);
  carnot_timing_cache_destroy(cache);
}

static void test_control_characters(void** state) {
  (void)state;
  char broken[sizeof(kText)];
  memcpy(broken, kText, sizeof(kText));
  *strstr(broken, "gemm") = 0;
  carnot_timing_cache* cache;
  assert_null(carnot_timing_cache_create(&cache));
  carnot_status* status = carnot_timing_cache_read(cache, broken, strlen(kText));
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  carnot_status_free(status);
  carnot_timing_cache_destroy(cache);
}

static void test_find_and_add(void** state) {
  (void)state;
  carnot_timing_cache* cache;
  uint64_t ns = 0;
  assert_null(carnot_timing_cache_create(&cache));
  assert_false(carnot_timing_cache_find(cache, 7, "cpu_a", &ns));
  for (uint64_t key = 100; key > 0; key--) {
    assert_null(carnot_timing_cache_add(cache, key, "cpu_b", key * 10));
    assert_null(carnot_timing_cache_add(cache, key, "cpu_a", key));
  }
  assert_int_equal(carnot_timing_cache_count(cache), 200);
  for (uint64_t key = 1; key <= 100; key++) {
    assert_true(carnot_timing_cache_find(cache, key, "cpu_a", &ns));
    assert_int_equal(ns, key);
    assert_true(carnot_timing_cache_find(cache, key, "cpu_b", &ns));
    assert_int_equal(ns, key * 10);
  }
  assert_false(carnot_timing_cache_find(cache, 101, "cpu_a", &ns));
  assert_false(carnot_timing_cache_find(cache, 7, "cpu_", &ns));
  carnot_timing_cache_destroy(cache);
}

// The first time stays.
static void test_get_or_insert(void** state) {
  (void)state;
  carnot_timing_cache* cache;
  uint64_t ns = 5;
  assert_null(carnot_timing_cache_create(&cache));
  assert_null(carnot_timing_cache_get_or_insert(cache, 7, "cpu_a", &ns));
  assert_int_equal(ns, 5);
  ns = 9;
  assert_null(carnot_timing_cache_get_or_insert(cache, 7, "cpu_a", &ns));
  assert_int_equal(ns, 5);
  assert_null(carnot_timing_cache_add(cache, 7, "cpu_a", 9));
  assert_true(carnot_timing_cache_find(cache, 7, "cpu_a", &ns));
  assert_int_equal(ns, 5);
  assert_int_equal(carnot_timing_cache_count(cache), 1);
  carnot_timing_cache_destroy(cache);
}

static void test_refused_texts(void** state) {
  (void)state;
  static const char* const kTexts[] = {"",
                                       "carnot-timing-cache 1\n",
                                       "carnot-timing-cache 3\n0123456789abcde cpu_a 1\n",
                                       "carnot-timing-cache 3\n0123456789ABCDEF cpu_a 1\n",
                                       "carnot-timing-cache 3\n0123456789abcdef cpu_a\n",
                                       "carnot-timing-cache 3\n0123456789abcdef cpu_a \n",
                                       "carnot-timing-cache 3\n0123456789abcdef cpu_a -1\n",
                                       "carnot-timing-cache 3\n0123456789abcdef cpu_a 1 2\n",
                                       "carnot-timing-cache 3\n0123456789abcdef  1\n",
                                       "carnot-timing-cache 3\n\n"};
  for (size_t i = 0; i < sizeof(kTexts) / sizeof(kTexts[0]); i++) {
    carnot_timing_cache* cache;
    assert_null(carnot_timing_cache_create(&cache));
    carnot_status* status = carnot_timing_cache_read(cache, kTexts[i], strlen(kTexts[i]));
    assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
    carnot_status_free(status);
    carnot_timing_cache_destroy(cache);
  }
}

static void test_long_names(void** state) {
  (void)state;
  carnot_timing_cache* cache;
  char name[65];
  memset(name, 'a', sizeof(name));
  name[64] = 0;
  assert_null(carnot_timing_cache_create(&cache));
  carnot_status* status = carnot_timing_cache_add(cache, 1, name, 1);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
  carnot_status_free(status);
  name[63] = 0;
  assert_null(carnot_timing_cache_add(cache, 1, name, 1));
  carnot_timing_cache_destroy(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_control_characters),
      cmocka_unit_test(test_find_and_add),  cmocka_unit_test(test_get_or_insert),
      cmocka_unit_test(test_refused_texts), cmocka_unit_test(test_long_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
