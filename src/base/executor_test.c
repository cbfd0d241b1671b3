// Executors: every part runs once, on any number of threads, also after a fork.
#include "base/executor.h"

// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
//
#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMostParts = 1000 };

typedef struct work {
  atomic_int runs[kMostParts];
  carnot_executor* executor;  // of a part that begins again; NULL: it does not
  atomic_int nested;          // parts whose own begin succeeded
} work;

static void run_part(void* arg, int64_t part) {
  work* w = arg;
  atomic_fetch_add(&w->runs[part], 1);
  if (w->executor && carnot_executor_begin(w->executor)) {
    atomic_fetch_add(&w->nested, 1);
    carnot_executor_end(w->executor);
  }
}

static bool each_ran_once(const work* w, int64_t count) {
  for (int64_t i = 0; i < kMostParts; i++)
    if (atomic_load(&w->runs[i]) != (i < count)) return false;
  return true;
}

static void test_parts(void** state) {
  (void)state;
  const int64_t counts[] = {0, 1, 2, 7, kMostParts};
  for (int threads = 1; threads <= 4; threads++) {
    carnot_executor* executor;
    assert_null(carnot_executor_create(threads, &executor));
    assert_int_equal(carnot_executor_thread_count(executor), threads);
    assert_true(carnot_executor_begin(executor));
    for (int round = 0; round < 20; round++)
      for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        work w = {.executor = NULL};
        carnot_executor_parallel(executor, counts[i], run_part, &w);
        assert_true(each_ran_once(&w, counts[i]));
      }
    carnot_executor_end(executor);
    carnot_executor_destroy(executor);
  }
}

typedef struct meeting {
  atomic_int arrived, alone;  // parts; those that met not all others in ten seconds
} meeting;

static void await_all(void* arg, int64_t part) {
  meeting* m = arg;
  (void)part;
  atomic_fetch_add(&m->arrived, 1);
  for (int ms = 0; ms < 10000 && atomic_load(&m->arrived) < 3; ms++) usleep(1000);
  if (atomic_load(&m->arrived) < 3) atomic_fetch_add(&m->alone, 1);
}

// Workers go to sleep where a run has no step for some milliseconds; the next step wakes all.
static void test_wakes_within_a_run(void** state) {
  (void)state;
  carnot_executor* executor;
  assert_null(carnot_executor_create(3, &executor));
  for (int round = 0; round < 5; round++) {
    assert_true(carnot_executor_begin(executor));
    for (int step = 0; step < 3; step++) {
      usleep(step * 3000);
      meeting m = {0};
      carnot_executor_parallel(executor, 3, await_all, &m);
      assert_int_equal(atomic_load(&m.arrived), 3);
      assert_int_equal(atomic_load(&m.alone), 0);
    }
    carnot_executor_end(executor);
  }
  carnot_executor_destroy(executor);
}

static void test_without_workers(void** state) {
  (void)state;
  work none = {.executor = NULL}, outside = {.executor = NULL};
  carnot_executor* executor;
  assert_false(carnot_executor_begin(NULL));
  assert_int_equal(carnot_executor_thread_count(NULL), 1);
  carnot_executor_parallel(NULL, 9, run_part, &none);
  assert_true(each_ran_once(&none, 9));
  assert_null(carnot_executor_create(3, &executor));
  carnot_executor_parallel(executor, 9, run_part, &outside);
  assert_true(each_ran_once(&outside, 9));
  carnot_executor_destroy(executor);
}

static void test_busy(void** state) {
  (void)state;
  carnot_executor* executor;
  assert_null(carnot_executor_create(2, &executor));
  assert_true(carnot_executor_begin(executor));
  assert_false(carnot_executor_begin(executor));
  work w = {.executor = executor};
  carnot_executor_parallel(executor, 50, run_part, &w);
  assert_true(each_ran_once(&w, 50));
  assert_int_equal(atomic_load(&w.nested), 0);
  carnot_executor_end(executor);
  assert_true(carnot_executor_begin(executor));
  carnot_executor_end(executor);
  carnot_executor_destroy(executor);
}

typedef struct scratch_work {
  int64_t part_count;
  atomic_int users[kMostParts];  // of each area
  atomic_int wrong;
} scratch_work;

static void inner_part(void* argument, int64_t part) {
  scratch_work* w = argument;
  (void)part;
  if (carnot_executor_scratch(part) != 0) atomic_fetch_add(&w->wrong, 1);
}

// Holds its area while a loop inside of the part, which runs alone, has one of its own.
static void scratch_part(void* argument, int64_t part) {
  scratch_work* w = argument;
  const int64_t area = carnot_executor_scratch(part);
  if (area < 0 || area >= w->part_count || atomic_fetch_add(&w->users[area], 1) != 0)
    atomic_fetch_add(&w->wrong, 1);
  carnot_executor_parallel(NULL, 3, inner_part, w);
  if (carnot_executor_scratch(part) != area) atomic_fetch_add(&w->wrong, 1);
  if (area >= 0 && area < w->part_count) atomic_fetch_sub(&w->users[area], 1);
}

static void test_scratch(void** state) {
  (void)state;
  const int64_t counts[] = {1, 2, 3, 7, kMostParts};
  for (int threads = 1; threads <= 4; threads++) {
    carnot_executor* executor;
    assert_null(carnot_executor_create(threads, &executor));
    assert_true(carnot_executor_begin(executor));
    for (int round = 0; round < 50; round++)
      for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        scratch_work w = {.part_count = counts[i]};
        carnot_executor_parallel(executor, counts[i], scratch_part, &w);
        assert_int_equal(atomic_load(&w.wrong), 0);
      }
    carnot_executor_end(executor);
    carnot_executor_destroy(executor);
  }
}

static void test_fork(void** state) {
  (void)state;
  carnot_executor* executor;
  assert_null(carnot_executor_create(3, &executor));
  pid_t child = fork();
  if (child == 0) {
    work w = {.executor = NULL};
    alarm(60);
    bool begun = carnot_executor_begin(executor);
    carnot_executor_parallel(executor, 100, run_part, &w);
    carnot_executor_end(executor);
    carnot_executor_destroy(executor);
    _exit(begun && each_ran_once(&w, 100) ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  carnot_executor_destroy(executor);
}

static void run_busy_part(void* argument, int64_t part) {
  enum { kBusyNs = 20000 };
  const uint64_t start = carnot_executor_thread_ns();
  (void)argument, (void)part;
  while (carnot_executor_thread_ns() - start < kBusyNs) continue;
}

// Three parts on two threads take two turns, on four threads one.
static void test_estimate(void** state) {
  (void)state;
  for (int threads = 2; threads <= 4; threads += 2) {
    carnot_executor_estimate estimate = {.threads = threads};
    carnot_executor_set_estimate(&estimate);
    carnot_executor_parallel(NULL, 1, run_busy_part, NULL);
    assert_int_equal(estimate.saved_ns, 0);
    const uint64_t start = carnot_executor_thread_ns();
    carnot_executor_parallel(NULL, 3, run_busy_part, NULL);
    const uint64_t took = carnot_executor_thread_ns() - start;
    const uint64_t least = (threads == 2 ? 1 : 2) * UINT64_C(20000);
    assert_true(estimate.saved_ns >= least - 1);
    assert_true(estimate.saved_ns <= took * (threads == 2 ? 1 : 2) / 3 + 1);
    carnot_executor_set_estimate(NULL);
    const uint64_t saved = estimate.saved_ns;
    carnot_executor_parallel(NULL, 3, run_busy_part, NULL);
    assert_int_equal(estimate.saved_ns, saved);
  }
}

static void test_thread_counts(void** state) {
  (void)state;
  carnot_executor* executor;
  assert_null(carnot_executor_create(0, &executor));
  assert_true(carnot_executor_thread_count(executor) >= 1);
  carnot_executor_destroy(executor);
  carnot_executor_destroy(NULL);
  for (int i = 0; i < 2; i++) {
    carnot_status* status = carnot_executor_create(i ? 1025 : -1, &executor);
    assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
    assert_null(executor);
    carnot_status_free(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parts),           cmocka_unit_test(test_wakes_within_a_run),
      cmocka_unit_test(test_without_workers), cmocka_unit_test(test_busy),
      cmocka_unit_test(test_scratch),         cmocka_unit_test(test_fork),
      cmocka_unit_test(test_estimate),        cmocka_unit_test(test_thread_counts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
