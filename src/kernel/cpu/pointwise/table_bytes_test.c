// Tables of bytes against their definition, at every length up to some vectors.
#include "kernel/cpu/pointwise/table_bytes.h"

#include "kernel/cpu/common/int8_test.h"

static void check_lengths(const carnot_cpu_kernels* kernels) {
  enum { kMost = 300 };
  uint8_t table[256];
  uint64_t seed = 3;
  for (int i = 0; i < 256; ++i) table[i] = (uint8_t)(int)(random_f32(&seed) * 128 + 128);
  for (int64_t count = 0; count <= kMost; ++count) {
    float *x_memory, *y_memory;
    uint8_t *x = guarded_bytes(count, &x_memory), *y = guarded_bytes(count, &y_memory);
    for (int64_t i = 0; i < count; ++i) x[i] = (uint8_t)(i * 37 + count);
    kernels->table_bytes(table, count, x, y);
    for (int64_t i = 0; i < count; ++i) assert_int_equal(y[i], table[x[i]]);
    kernels->table_bytes(table, count, x, x);
    assert_memory_equal(x, y, (size_t)count);
    buffer_free(x_memory), buffer_free(y_memory);
  }
}

static void test_lengths(void** state) { (void)state, for_each_isa(check_lengths); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
