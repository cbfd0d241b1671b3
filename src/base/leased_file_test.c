// Leased files: the bytes that a reader sees are those of the load, whatever happens to the file
// and whatever the keeper has copied.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/leased_file.h"

enum { BLOCK = 2 << 20, BLOCKS = 10, SIZE = (BLOCKS - 1) * BLOCK + 12345 };

static char path[] = "/tmp/carnot_lease_test_XXXXXX";

static unsigned char byte_at(size_t i) { return (unsigned char)((i * 2654435761u) >> 13); }

static void write_file(const char* to, size_t size, unsigned char change) {
  FILE* file = fopen(to, "wb");
  assert_non_null(file);
  unsigned char* bytes = malloc(size + 1);
  assert_non_null(bytes);
  for (size_t i = 0; i < size; i++) bytes[i] = byte_at(i) ^ change;
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  free(bytes);
  assert_int_equal(fclose(file), 0);
}

// The number of bytes that are not those of the load.
static size_t count_wrong(const carnot_mapping* mapping) {
  const unsigned char* bytes = mapping->data;
  size_t wrong = 0;
  for (size_t i = 0; i < mapping->size; i++) wrong += bytes[i] != byte_at(i);
  return wrong;
}

// How many parts of the address space still are the file.
static int count_mappings(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  char line[1024];
  int count = 0;
  while (fgets(line, sizeof(line), maps)) count += strstr(line, path) != NULL;
  fclose(maps);
  return count;
}

static carnot_lease* load(carnot_mapping* mapping) {
  write_file(path, SIZE, 0);
  carnot_lease* lease;
  assert_null(carnot_lease_file(path, mapping, &lease));
  assert_int_equal(mapping->size, SIZE);
  if (!lease) {
    carnot_unmap(mapping);
    print_message("the file system of /tmp grants no leases\n");
    skip();
  }
  assert_int_equal((uintptr_t)mapping->data % BLOCK, 0);
  return lease;
}

static void unload(carnot_lease* lease, carnot_mapping* mapping) {
  carnot_lease_end(lease);
  assert_int_equal(count_wrong(mapping), 0);
  carnot_unmap(mapping);
}

static void what_is_wanted_is_copied(void** state) {
  (void)state;
  carnot_mapping mapping;
  carnot_lease* lease = load(&mapping);
  assert_int_equal(count_mappings(), 1);
  carnot_lease_want(lease, BLOCK + 1, BLOCK + 2);      // block 1
  carnot_lease_want(lease, 4 * BLOCK - 1, 4 * BLOCK);  // block 3
  carnot_lease_want(lease, SIZE - 1, SIZE);            // the last, which is cut
  carnot_lease_want(lease, BLOCK, BLOCK);              // nothing
  assert_int_equal(count_mappings(), 1);
  carnot_lease_settle(lease);
  assert_int_equal(count_mappings(), 3);  // block 0, block 2, and from 4 on
  carnot_lease_settle(lease);
  unload(lease, &mapping);
}

static void a_small_rest_is_copied_too(void** state) {
  (void)state;
  carnot_mapping mapping;
  carnot_lease* lease = load(&mapping);
  carnot_lease_want(lease, 0, SIZE - BLOCK);
  carnot_lease_settle(lease);
  assert_int_equal(count_mappings(), 0);
  write_file(path, 10, 0xff);
  unload(lease, &mapping);
}

typedef struct reader {
  const carnot_mapping* mapping;
  atomic_bool stop;
  size_t wrong, passes;
} reader;

static void* read_again_and_again(void* arg) {
  reader* r = arg;
  do {
    r->wrong += count_wrong(r->mapping);
    r->passes++;
  } while (!atomic_load(&r->stop));
  return NULL;
}

static void readers_see_the_same_bytes(void** state) {
  (void)state;
  carnot_mapping mapping;
  carnot_lease* lease = load(&mapping);
  reader r = {.mapping = &mapping};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, read_again_and_again, &r), 0);
  carnot_lease_want(lease, 0, SIZE);
  carnot_lease_settle(lease);
  assert_int_equal(count_mappings(), 0);
  atomic_store(&r.stop, true);
  pthread_join(thread, NULL);
  assert_int_equal(r.wrong, 0);
  assert_true(r.passes > 0);
  unload(lease, &mapping);
}

// A writer before, while and after what is wanted is copied.
static void writers_wait(void** state) {
  (void)state;
  for (int when = 0; when < 3; when++) {
    carnot_mapping mapping;
    carnot_lease* lease = load(&mapping);
    carnot_lease_want(lease, 0, 3 * BLOCK);
    if (when > 0) carnot_lease_copy(lease);
    if (when > 1) carnot_lease_settle(lease);
    write_file(path, 100, 0xff);  // cuts it, and waits in fopen
    assert_int_equal(count_mappings(), 0);
    assert_int_equal(count_wrong(&mapping), 0);
    carnot_lease_settle(lease);
    unload(lease, &mapping);
    assert_int_equal(truncate(path, 0), 0);
  }
}

static void a_file_may_be_cut_or_replaced(void** state) {
  (void)state;
  carnot_mapping mapping;
  carnot_lease* lease = load(&mapping);
  assert_int_equal(truncate(path, 7), 0);
  unload(lease, &mapping);
  lease = load(&mapping);
  unlink(path);
  write_file(path, 10, 0xff);
  unload(lease, &mapping);
}

static void what_is_written_is_read_at_once(void** state) {
  (void)state;
  carnot_mapping mapping;
  carnot_lease_end(load(&mapping));
  carnot_unmap(&mapping);
  const int writer = open(path, O_WRONLY);
  assert_true(writer >= 0);
  carnot_lease* lease;
  assert_null(carnot_lease_file(path, &mapping, &lease));
  assert_null(lease);
  assert_int_equal(ftruncate(writer, 0), 0);
  close(writer);
  carnot_lease_settle(lease);
  assert_int_equal(mapping.size, SIZE);
  unload(lease, &mapping);
  // So are small files.
  write_file(path, 1000, 0);
  assert_null(carnot_lease_file(path, &mapping, &lease));
  assert_null(lease);
  assert_int_equal(mapping.size, 1000);
  unload(lease, &mapping);
}

// Only its owner, or who has CAP_LEASE, is granted a lease of a file.
static void files_of_others_are_read_at_once(void** state) {
  (void)state;
  if (geteuid() != 0) {
    print_message("only root can become another user\n");
    skip();
  }
  write_file(path, SIZE, 0);
  assert_int_equal(chmod(path, 0644), 0);
  assert_int_equal(seteuid(65534), 0);
  carnot_mapping mapping;
  carnot_lease* lease;
  carnot_status* status = carnot_lease_file(path, &mapping, &lease);
  assert_int_equal(seteuid(0), 0);
  assert_null(status);
  assert_null(lease);
  assert_int_equal(truncate(path, 0), 0);
  unload(lease, &mapping);
}

static void a_child_may_end_it(void** state) {
  (void)state;
  carnot_mapping mapping;
  carnot_lease* lease = load(&mapping);
  carnot_lease_want(lease, 0, BLOCK);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    carnot_lease_settle(lease);
    const bool right = count_wrong(&mapping) == 0;
    carnot_lease_end(lease);
    carnot_unmap(&mapping);
    _exit(right ? 0 : 1);
  }
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  assert_int_equal(WEXITSTATUS(result), 0);
  write_file(path, 10, 0xff);  // the parent still keeps it
  unload(lease, &mapping);
}

static void what_is_no_file_is_named(void** state) {
  (void)state;
  carnot_mapping mapping;
  carnot_lease* lease;
  carnot_status* status = carnot_lease_file("/tmp/carnot/no/such/file", &mapping, &lease);
  assert_int_equal(carnot_status_code(status), CARNOT_IO);
  assert_non_null(strstr(carnot_status_message(status), "/tmp/carnot/no/such/file"));
  carnot_status_free(status);
  assert_null(lease);
  assert_null(mapping.data);
}

int main(void) {
  const int made = mkstemp(path);
  if (made < 0) return 1;
  close(made);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_wanted_is_copied),
      cmocka_unit_test(a_small_rest_is_copied_too),
      cmocka_unit_test(readers_see_the_same_bytes),
      cmocka_unit_test(writers_wait),
      cmocka_unit_test(a_file_may_be_cut_or_replaced),
      cmocka_unit_test(what_is_written_is_read_at_once),
      cmocka_unit_test(files_of_others_are_read_at_once),
      cmocka_unit_test(a_child_may_end_it),
      cmocka_unit_test(what_is_no_file_is_named),
  };
  const int failures = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(path);
  return failures;
}
