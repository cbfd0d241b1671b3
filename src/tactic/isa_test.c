// ISAs: subset tests of features, the order of preference, and a lower ISA by the environment.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel/cpu/common/machine.h"
#include "tactic/tactic.h"

// x86-64 ISAs are levels: each includes those before it.
static void test_includes(void** state) {
  (void)state;
  for (int has = 0; has < CARNOT_ISA_COUNT; has++)
    for (int needed = 0; needed < CARNOT_ISA_COUNT; needed++)
      assert_int_equal(carnot_isa_includes((carnot_isa)has, (carnot_isa)needed), needed <= has);
  assert_false(carnot_isa_includes(CARNOT_ISA_COUNT, CARNOT_ISA_SCALAR));
  assert_false(carnot_isa_includes(CARNOT_ISA_AMX_BF16, CARNOT_ISA_COUNT));
}

static void test_preference(void** state) {
  (void)state;
  for (int isa = 0; isa < CARNOT_ISA_COUNT; isa++) {
    assert_int_equal(carnot_isa_rank((carnot_isa)isa), isa);
    assert_int_equal(carnot_isa_best_of(carnot_isa_features((carnot_isa)isa)), isa);
  }
  // A machine that lacks one feature of an ISA gets the next one that it has in full.
  unsigned all = carnot_isa_features(CARNOT_ISA_AMX_BF16);
  assert_int_equal(carnot_isa_best_of(all & ~(unsigned)CARNOT_CPU_AMX_STATE),
                   CARNOT_ISA_AVX512_BF16);
  assert_int_equal(carnot_isa_best_of(all & ~(unsigned)CARNOT_CPU_AVX512VNNI), CARNOT_ISA_AVX512);
  assert_int_equal(carnot_isa_best_of(all & ~(unsigned)CARNOT_CPU_FMA), CARNOT_ISA_SCALAR);
  assert_int_equal(carnot_isa_best_of(0), CARNOT_ISA_SCALAR);
}

static void test_names(void** state) {
  (void)state;
  for (int isa = 0; isa < CARNOT_ISA_COUNT; isa++)
    assert_int_equal(carnot_isa_find(carnot_isa_name((carnot_isa)isa)), isa);
  assert_int_equal(carnot_isa_find("none"), CARNOT_ISA_COUNT);
}

// Tables are listed in the order of CARNOT_ISAS; a build may end before the last.
static void test_tables(void** state) {
  (void)state;
  bool compiled = true;
  for (int isa = 0; isa < CARNOT_ISA_COUNT; isa++) {
    const carnot_cpu_kernels* kernels = carnot_cpu_kernels_for((carnot_isa)isa);
    assert_true(!kernels || compiled);
    compiled = kernels != NULL;
    if (kernels) assert_string_equal(kernels->isa, carnot_isa_name((carnot_isa)isa));
    if (!kernels) assert_non_null(carnot_isa_lacks((carnot_isa)isa));
  }
  assert_non_null(carnot_cpu_kernels_for(CARNOT_ISA_SCALAR));
  assert_null(carnot_cpu_kernels_for(CARNOT_ISA_COUNT));
}

static void test_environment(void** state) {
  (void)state;
  char before[32] = "";
  if (getenv("CARNOT_ISA")) snprintf(before, sizeof(before), "%s", getenv("CARNOT_ISA"));
  unsetenv("CARNOT_ISA");
  carnot_isa machine = carnot_isa_of_machine();
  for (int isa = 0; isa < CARNOT_ISA_COUNT; isa++) {
    setenv("CARNOT_ISA", carnot_isa_name((carnot_isa)isa), 1);
    bool has = carnot_isa_lacks((carnot_isa)isa) == NULL;
    assert_int_equal(carnot_isa_of_machine(), has ? (carnot_isa)isa : machine);
  }
  setenv("CARNOT_ISA", "none", 1);
  assert_int_equal(carnot_isa_of_machine(), machine);
  unsetenv("CARNOT_ISA");
  if (before[0]) setenv("CARNOT_ISA", before, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_includes),
                                     cmocka_unit_test(test_preference),
                                     cmocka_unit_test(test_names), cmocka_unit_test(test_tables),
                                     cmocka_unit_test(test_environment)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
