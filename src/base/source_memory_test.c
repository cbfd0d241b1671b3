// Unit tests of memory that weights are read from.
#include "base/source_memory.h"

#include <setjmp.h>
#include <stdarg.h>
//
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 3 << 20, COUNT = 5, WEIGHT = 400 * 1024 };

typedef struct fixture {
  carnot_source_memory memory;
  char* map;
  void* copies[COUNT];
} fixture;

static char byte_at(size_t i) { return (char)(i * 131 + i / 4096); }

// A mapped file of 3 MB, and copies of parts of it that begin at odd bytes.
static int setup(void** state) {
  fixture* f = calloc(1, sizeof(*f));
  FILE* file = tmpfile();
  for (size_t i = 0; i < BYTES; i++) fputc(byte_at(i), file);
  fflush(file);
  f->map = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, fileno(file), 0);
  fclose(file);
  assert_true(f->map != MAP_FAILED);
  assert_null(carnot_source_memory_add_map(&f->memory, f->map, BYTES));
  for (size_t i = 0; i < COUNT; i++)
    assert_null(
        carnot_source_memory_copy(&f->memory, f->map + 1 + i * WEIGHT, WEIGHT, &f->copies[i]));
  *state = f;
  return 0;
}

static int teardown(void** state) {
  fixture* f = *state;
  carnot_source_memory_deinit(&f->memory);
  munmap(f->map, BYTES);
  free(f);
  return 0;
}

static void expect_copy(const fixture* f, size_t i) {
  assert_memory_equal(f->map + 1 + i * WEIGHT, f->copies[i], WEIGHT);
}

static void copies_are_aligned_and_equal(void** state) {
  fixture* f = *state;
  for (size_t i = 0; i < COUNT; i++) {
    assert_int_equal(0, (uintptr_t)f->copies[i] % 64);
    expect_copy(f, i);
  }
  assert_true(carnot_source_memory_maps(&f->memory, f->map + 7, 100));
  assert_false(carnot_source_memory_maps(&f->memory, f->map + BYTES - 5, 6));
  assert_false(carnot_source_memory_maps(&f->memory, f, sizeof(*f)));
  carnot_source_memory_drop_maps(&f->memory);
  for (size_t i = 0; i < BYTES; i++) assert_int_equal(byte_at(i), f->map[i]);
}

static void released_copies_are_restored(void** state) {
  fixture* f = *state;
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < COUNT; i++) carnot_source_memory_count_reader(&f->memory, f->copies[i]);
    for (size_t i = 0; i < COUNT; i++)
      assert_true(carnot_source_memory_release(&f->memory, f->copies[i], WEIGHT));
    size_t empty = 0;
    for (size_t i = 0; i < f->memory.slab_count; i++) empty += f->memory.slabs[i].is_empty;
    assert_int_equal(f->memory.slab_count, empty);
    assert_int_equal(0, *(char*)f->copies[1]);
    carnot_source_memory_restore(&f->memory);
    for (size_t i = 0; i < COUNT; i++) expect_copy(f, i);
  }
}

static void what_others_read_is_kept(void** state) {
  fixture* f = *state;
  assert_false(carnot_source_memory_release(&f->memory, f->copies[0], WEIGHT));  // not counted
  carnot_source_memory_count_reader(&f->memory, f->copies[0]);
  carnot_source_memory_count_reader(&f->memory, f->copies[0]);
  assert_false(carnot_source_memory_release(&f->memory, f->copies[0], WEIGHT));
  carnot_source_memory_count_reader(&f->memory, f->copies[1]);
  assert_false(carnot_source_memory_release(&f->memory, f->copies[1], WEIGHT / 2));
  assert_false(carnot_source_memory_release(&f->memory, f->map, WEIGHT));
  assert_false(carnot_source_memory_release(&f->memory, f, sizeof(*f)));
  for (size_t i = 0; i < COUNT; i++) expect_copy(f, i);
  carnot_source_memory_restore(&f->memory);
}

// Behind the first megabytes copies lie in huge pages.
static void many_copies_are_restored(void** state) {
  enum { MANY = 90 };
  fixture* f = *state;
  void* copies[MANY];
  const char* sources[MANY];
  for (size_t i = 0; i < MANY; i++) {
    sources[i] = f->map + 1 + i * 4099;
    assert_null(carnot_source_memory_copy(&f->memory, sources[i], WEIGHT, &copies[i]));
    assert_int_equal(0, (uintptr_t)copies[i] % 64);
  }
  assert_true(f->memory.slabs[f->memory.slab_count - 1].size > 1 << 20);
  for (size_t i = 0; i < MANY; i++) carnot_source_memory_count_reader(&f->memory, copies[i]);
  for (size_t i = 0; i < MANY; i++)
    assert_true(carnot_source_memory_release(&f->memory, copies[i], WEIGHT));
  assert_int_equal(0, *(char*)copies[MANY - 1]);
  carnot_source_memory_restore(&f->memory);
  for (size_t i = 0; i < MANY; i++) assert_memory_equal(sources[i], copies[i], WEIGHT);
}

static void lent_memory_is_not_released(void** state) {
  fixture* f = *state;
  carnot_source_memory_count_reader(&f->memory, f->copies[0]);
  assert_true(carnot_source_memory_release(&f->memory, f->copies[0], WEIGHT));
  assert_true(f->memory.has_released);
  carnot_source_memory_lend(&f->memory);
  assert_false(f->memory.has_released);
  for (size_t i = 0; i < COUNT; i++) carnot_source_memory_count_reader(&f->memory, f->copies[i]);
  for (size_t i = 0; i < COUNT; i++) {
    assert_false(carnot_source_memory_release(&f->memory, f->copies[i], WEIGHT));
    expect_copy(f, i);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_are_aligned_and_equal),
      cmocka_unit_test(released_copies_are_restored),
      cmocka_unit_test(what_others_read_is_kept),
      cmocka_unit_test(many_copies_are_restored),
      cmocka_unit_test(lent_memory_is_not_released),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
