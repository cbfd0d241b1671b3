#include "builder/measure/calm.h"

#include <stdatomic.h>
#include <time.h>

#include "builder/measure/benchmark.h"

uint64_t carnot_benchmark_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// A step of one short part for each thread: where another program has the processor of one, a
// thread runs two parts. The system's count of the time that another thread has had is some
// milliseconds old.
typedef struct roll_call {
  unsigned id;
  atomic_bool is_one_away;
} roll_call;

static void answer(void* argument, int64_t part) {
  enum { kPartNs = 2000 };
  static _Thread_local unsigned last_id;
  roll_call* call = argument;
  (void)part;
  if (last_id == call->id) atomic_store(&call->is_one_away, true);
  last_id = call->id;
  const uint64_t start = carnot_benchmark_now_ns();
  while (carnot_benchmark_now_ns() - start < kPartNs) continue;
}

static bool are_all_there(carnot_executor* executor) {
  static atomic_uint last_id;
  roll_call call = {.id = atomic_fetch_add(&last_id, 1) + 1};
  const int threads = carnot_executor_thread_count(executor);
  if (threads > 1) carnot_executor_parallel(executor, threads, answer, &call);
  return !atomic_load(&call.is_one_away);
}

carnot_calm carnot_calm_begin(carnot_executor* executor) {
  enum { kMostNs = 1000000 };
  carnot_calm calm = {.begin_ns = carnot_benchmark_now_ns()};
  do {
    calm.were_all_there = are_all_there(executor);
    calm.start_ns = carnot_benchmark_now_ns();
  } while (!calm.were_all_there && calm.start_ns - calm.begin_ns < kMostNs);
  calm.ran_ns = carnot_executor_thread_ns();
  return calm;
}

bool carnot_calm_end(const carnot_calm* calm, carnot_executor* executor) {
  if (carnot_executor_thread_count(executor) == 1) return true;
  const uint64_t ran = carnot_executor_thread_ns() - calm->ran_ns,
                 took = carnot_benchmark_now_ns() - calm->start_ns;
  return calm->were_all_there && ran >= took - took / 32 && are_all_there(executor);
}
