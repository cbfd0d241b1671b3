// The cache that weights are timed in.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <unistd.h>

#include "builder/measure/timing_key.h"

// No more than the last-level cache, nor than what one of many cores has of it.
static void test_cached_weights(void** state) {
  (void)state;
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t bytes = carnot_cached_weight_bytes();
  if (l2 <= 0) skip();  // the system does not tell
  assert_true(bytes >= (size_t)l2 || (l3 > 0 && bytes == (size_t)l3));
  assert_true(bytes <= (size_t)32 * (size_t)l2);
  if (l3 > 0) assert_true(bytes <= (size_t)l3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cached_weights)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
