// The timing cache's text: what is read prints the same, what is no text is refused.
#include "builder/measure/timing_cache.h"

// cmocka wants these first.
#include <setjmp.h>
#include <stdarg.h>
//
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const char kText[] = "carnot-timing-cache 2\n0123456789abcdef cpu_gemm_f32_avx2 1200\n";

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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                     cmocka_unit_test(test_control_characters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
