// The CPU quota of control groups, and CARNOT_THREADS.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/processors.h"

static void test_quota(void** state) {
  (void)state;
  assert_int_equal(carnot_processors_of_quota("max 100000\n"), 0);
  assert_int_equal(carnot_processors_of_quota("100000 100000\n"), 1);
  assert_int_equal(carnot_processors_of_quota("150000 100000\n"), 2);
  assert_int_equal(carnot_processors_of_quota("50000 100000"), 1);
  assert_int_equal(carnot_processors_of_quota(""), 0);
  assert_int_equal(carnot_processors_of_quota("100000"), 0);
}

static void test_environment(void** state) {
  (void)state;
  unsetenv("CARNOT_THREADS");
  int of_machine = carnot_usable_processors();
  assert_true(of_machine >= 1);
  setenv("CARNOT_THREADS", "3", 1);
  assert_int_equal(carnot_usable_processors(), 3);
  setenv("CARNOT_THREADS", "0", 1);
  assert_int_equal(carnot_usable_processors(), of_machine);
  unsetenv("CARNOT_THREADS");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_quota),
                                     cmocka_unit_test(test_environment)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
