// Files are read whole at sizes around what one thread and one part take; missing ones and folders
// are refused by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static unsigned char byte_at(size_t i) { return (unsigned char)((i * 2654435761u) >> 13); }

static void write_bytes(const char* path, size_t size) {
  FILE* file = fopen(path, "wb");
  assert_non_null(file);
  unsigned char* bytes = malloc(size + 1);
  assert_non_null(bytes);
  for (size_t i = 0; i < size; i++) bytes[i] = byte_at(i);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  free(bytes);
  assert_int_equal(fclose(file), 0);
}

static void files_are_read_whole(void** state) {
  (void)state;
  const size_t part = 8 << 20, sizes[] = {0, 1, 4095, part, 8 * part - 1, 8 * part + 1, 17 * part};
  char path[] = "/tmp/carnot_file_test_XXXXXX";
  const int made = mkstemp(path);
  assert_true(made >= 0);
  close(made);
  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    write_bytes(path, sizes[s]);
    carnot_mapping mapping;
    assert_null(carnot_read_file(path, &mapping));
    assert_int_equal(mapping.size, sizes[s]);
    const unsigned char* bytes = mapping.data;
    for (size_t i = 0; i < sizes[s]; i++)
      if (bytes[i] != byte_at(i)) fail_msg("byte %zu of %zu is %d", i, sizes[s], bytes[i]);
    carnot_unmap(&mapping);
  }
  unlink(path);
}

static void what_is_no_file_is_named(void** state) {
  (void)state;
  const char* const paths[] = {"/tmp/carnot/no/such/file", "/tmp"};
  for (size_t i = 0; i < 2; i++) {
    carnot_mapping mapping;
    carnot_status* status = carnot_read_file(paths[i], &mapping);
    assert_int_equal(carnot_status_code(status), CARNOT_IO);
    assert_non_null(strstr(carnot_status_message(status), paths[i]));
    assert_null(mapping.data);
    carnot_status_free(status);
  }
}

int main(void) {
  setenv("CARNOT_THREADS", "4", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(files_are_read_whole),
                                     cmocka_unit_test(what_is_no_file_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
