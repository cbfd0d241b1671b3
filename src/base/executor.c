// The executor: a pool of threads that share the parts of one parallel loop.
#include "base/executor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/arena.h"
#include "base/checked.h"
#include "base/processors.h"

// A thread's share of the step in flight: a run of neighbouring parts, the same of every step, so
// that what a thread wrote in one step it mostly finds in its own cache in the next. Threads that
// are done take from the others' shares.
typedef struct share {
  _Alignas(64) atomic_llong next;
  long long end;
} share;

typedef struct worker {
  carnot_executor* executor;
  int index;  // of its share; the caller has the first
  pthread_t thread;
} worker;

struct carnot_executor {
  int thread_count;
  pid_t owner;  // workers do not survive a fork: the child makes them again
  worker* workers;
  share* shares;  // by thread
  atomic_flag busy;

  pthread_mutex_t mutex;
  pthread_cond_t wake;
  bool stop;
  unsigned run;  // counts the runs
  atomic_bool in_run;
  atomic_int sleeping;  // workers that wait for |wake|

  // The step in flight. |epoch| is odd while one is open. A worker joins by raising |active| and
  // looking again whether the step is still open; the caller closes it and waits for those that
  // joined, so a late sleeper holds up nobody.
  void (*fn)(void* arg, int64_t part);
  void* arg;
  int64_t part_count;
  carnot_worker_span* spans;  // by thread; NULL: nobody asks
  _Alignas(64) atomic_uint epoch;
  _Alignas(64) atomic_int active;
};

// What this thread draws parts of; no executor: it works alone.
typedef struct seat {
  const carnot_executor* executor;
  int index;  // of its share
} seat;
static _Thread_local seat here;
static _Thread_local carnot_executor_estimate* estimate_here;

#if defined(__x86_64__)
enum { kMxcsrDefault = 0x1f80 };
uint32_t carnot_fp_mode_enter(void) {
  uint32_t saved = _mm_getcsr();
  _mm_setcsr(kMxcsrDefault);
  return saved;
}
void carnot_fp_mode_leave(uint32_t saved) { _mm_setcsr(saved); }
static void relax(void) { _mm_pause(); }
#else
uint32_t carnot_fp_mode_enter(void) { return 0; }
void carnot_fp_mode_leave(uint32_t saved) { (void)saved; }
static void relax(void) {}
#endif

static uint64_t ns_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void) { return ns_of(CLOCK_MONOTONIC); }

uint64_t carnot_executor_thread_ns(void) { return ns_of(CLOCK_THREAD_CPUTIME_ID); }

// Returns how many it drew.
static long long draw_parts(carnot_executor* executor, int index) {
  long long drawn = 0;
  const seat before = here;
  here = (seat){executor, index};
  for (int i = 0; i < executor->thread_count; i++) {
    share* from = &executor->shares[(index + i) % executor->thread_count];
    for (;;) {
      long long part = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed);
      if (part >= from->end) break;
      executor->fn(executor->arg, part);
      drawn++;
    }
  }
  here = before;
  return drawn;
}

static void draw_and_note(carnot_executor* executor, int index) {
  uint64_t start = now_ns();
  if (!draw_parts(executor, index)) return;
  carnot_worker_span* span = &executor->spans[index];
  if (!span->end_ns) span->start_ns = start;
  span->end_ns = now_ns();
}

// An open step other than |seen|.
static bool step_is_open(const carnot_executor* executor, unsigned seen, unsigned* out_epoch) {
  *out_epoch = atomic_load(&executor->epoch);
  return (*out_epoch & 1) && *out_epoch != seen;
}

// Looks for a step for a while: a thread that sleeps takes tens of microseconds to wake. Runs often
// follow one another at once. Within a run steps do, but for those of one part that take long, and
// the caller may wait for a GPU.
static bool spin_for_step(const carnot_executor* executor, unsigned seen, unsigned* out_epoch) {
  enum { kBetweenRunsNs = 50000, kInRunNs = 1000000, kLooksPerClock = 32 };
  bool in_run = atomic_load_explicit(&executor->in_run, memory_order_acquire);
  uint64_t end = now_ns() + (in_run ? kInRunNs : kBetweenRunsNs);
  do
    for (int i = 0; i < kLooksPerClock; i++) {
      if (step_is_open(executor, seen, out_epoch)) return true;
      if (atomic_load_explicit(&executor->in_run, memory_order_acquire) != in_run) {
        in_run = !in_run;
        end = now_ns() + (in_run ? kInRunNs : kBetweenRunsNs);
      }
      relax();
    }
  while (now_ns() < end);
  return false;
}

// Waits for an open step other than |seen|; false when the executor stops.
static bool await_step(carnot_executor* executor, unsigned seen, unsigned* out_epoch) {
  bool stop = false;
  while (!stop && !spin_for_step(executor, seen, out_epoch)) {
    pthread_mutex_lock(&executor->mutex);
    // Before the look at the step: whoever opens one looks at |sleeping| after that.
    atomic_fetch_add(&executor->sleeping, 1);
    const unsigned run = executor->run;
    while (!executor->stop && executor->run == run && !step_is_open(executor, seen, out_epoch))
      pthread_cond_wait(&executor->wake, &executor->mutex);
    atomic_fetch_sub(&executor->sleeping, 1);
    stop = executor->stop;
    pthread_mutex_unlock(&executor->mutex);
  }
  return !stop;
}

static void* worker_main(void* argument) {
  carnot_executor* executor = ((worker*)argument)->executor;
  int index = ((worker*)argument)->index;
  carnot_fp_mode_enter();
  unsigned epoch = 0;
  while (await_step(executor, epoch, &epoch)) {
    atomic_fetch_add(&executor->active, 1);
    if (atomic_load(&executor->epoch) == epoch) {
      if (executor->spans)
        draw_and_note(executor, index);
      else
        draw_parts(executor, index);
    }
    atomic_fetch_sub_explicit(&executor->active, 1, memory_order_release);
  }
  return NULL;
}

static carnot_status* start_workers(carnot_executor* executor) {
  pthread_mutex_init(&executor->mutex, NULL);
  pthread_cond_init(&executor->wake, NULL);
  executor->owner = getpid();
  atomic_store(&executor->epoch, 0);
  atomic_store(&executor->sleeping, 0);
  int wanted = executor->thread_count;
  executor->thread_count = 1;
  for (int i = 0; i + 1 < wanted; i++) {
    executor->workers[i].executor = executor;
    executor->workers[i].index = i + 1;
    int failure =
        pthread_create(&executor->workers[i].thread, NULL, worker_main, &executor->workers[i]);
    CARNOT_CHECK(failure == 0, OUT_OF_MEMORY, "worker thread %d of %d could not be made: %s", i + 2,
                 wanted, strerror(failure));
    executor->thread_count++;
  }
  return NULL;
}

carnot_status* carnot_executor_create(int thread_count, carnot_executor** out_executor) {
  *out_executor = NULL;
  CARNOT_CHECK(thread_count >= 0 && thread_count <= 1024, INVALID_ARGUMENT,
               "%d threads wanted, must be in [0, 1024]", thread_count);
  carnot_executor* executor = aligned_alloc(64, carnot_align_up(sizeof(*executor), 64));
  if (!executor) return CARNOT_NO_MEMORY(sizeof(*executor), "an executor");
  memset(executor, 0, sizeof(*executor));
  executor->thread_count = thread_count ? thread_count : carnot_usable_processors();
  atomic_flag_clear(&executor->busy);
  void* workers;
  carnot_status* status =
      carnot_calloc((size_t)executor->thread_count, sizeof(worker), "worker threads", &workers);
  if (status) {
    free(executor);
    return status;
  }
  executor->workers = workers;
  executor->shares = aligned_alloc(64, (size_t)executor->thread_count * sizeof(share));
  if (!executor->shares) {
    free(workers);
    free(executor);
    return CARNOT_NO_MEMORY((size_t)thread_count * sizeof(share), "the threads' shares");
  }
  status = start_workers(executor);
  if (status) {
    carnot_executor_destroy(executor);
    return status;
  }
  *out_executor = executor;
  return NULL;
}

void carnot_executor_destroy(carnot_executor* executor) {
  if (!executor) return;
  if (executor->owner == getpid()) {
    pthread_mutex_lock(&executor->mutex);
    executor->stop = true;
    pthread_cond_broadcast(&executor->wake);
    pthread_mutex_unlock(&executor->mutex);
    for (int i = 0; i + 1 < executor->thread_count; i++)
      pthread_join(executor->workers[i].thread, NULL);
    pthread_cond_destroy(&executor->wake);
    pthread_mutex_destroy(&executor->mutex);
  }
  free(executor->workers);
  free(executor->shares);
  free(executor);
}

int carnot_executor_thread_count(const carnot_executor* executor) {
  return executor ? executor->thread_count : 1;
}

bool carnot_executor_begin(carnot_executor* executor) {
  if (!executor || executor->thread_count == 1) return executor != NULL;
  if (atomic_flag_test_and_set_explicit(&executor->busy, memory_order_acquire)) return false;
  if (executor->owner != getpid()) {
    carnot_status* status = start_workers(executor);
    carnot_status_free(status);  // fewer threads only make the run slower
  }
  pthread_mutex_lock(&executor->mutex);
  executor->run++;
  atomic_store_explicit(&executor->in_run, true, memory_order_release);
  pthread_cond_broadcast(&executor->wake);
  pthread_mutex_unlock(&executor->mutex);
  return true;
}

void carnot_executor_set_spans(carnot_executor* executor, carnot_worker_span* spans) {
  executor->spans = spans;
}

void carnot_executor_end(carnot_executor* executor) {
  if (!executor || executor->thread_count == 1) return;
  atomic_store_explicit(&executor->in_run, false, memory_order_release);
  atomic_flag_clear_explicit(&executor->busy, memory_order_release);
}

void carnot_executor_set_estimate(carnot_executor_estimate* estimate) { estimate_here = estimate; }

static void run_alone(int64_t part_count, void (*fn)(void* arg, int64_t part), void* arg) {
  const seat before = here;
  here = (seat){NULL, 0};
  for (int64_t part = 0; part < part_count; part++) fn(arg, part);
  here = before;
}

// The parts take turns: the thread with the most has one of |threads| of them, rounded up.
static void run_and_estimate(int64_t part_count, void (*fn)(void* arg, int64_t part), void* arg) {
  carnot_executor_estimate* estimate = estimate_here;
  const int64_t most = (part_count + estimate->threads - 1) / estimate->threads;
  const uint64_t start = carnot_executor_thread_ns();
  run_alone(part_count, fn, arg);
  const double ns = (double)(carnot_executor_thread_ns() - start);
  estimate->saved_ns += (uint64_t)(ns - ns * (double)most / (double)part_count);
}

void carnot_executor_parallel(carnot_executor* executor, int64_t part_count,
                              void (*fn)(void* arg, int64_t part), void* arg) {
  bool alone = !executor || executor->thread_count == 1 || part_count < 2 ||
               !atomic_load_explicit(&executor->in_run, memory_order_relaxed);
  if (alone && (!estimate_here || part_count < 2)) {
    run_alone(part_count, fn, arg);
    return;
  }
  if (alone) {
    run_and_estimate(part_count, fn, arg);
    return;
  }
  executor->fn = fn;
  executor->arg = arg;
  executor->part_count = part_count;
  for (int i = 0; i < executor->thread_count; i++) {
    atomic_store_explicit(&executor->shares[i].next,
                          (long long)part_count * i / executor->thread_count, memory_order_relaxed);
    executor->shares[i].end = (long long)part_count * (i + 1) / executor->thread_count;
  }
  atomic_fetch_add(&executor->epoch, 1);
  if (atomic_load(&executor->sleeping)) {
    pthread_mutex_lock(&executor->mutex);
    pthread_cond_broadcast(&executor->wake);
    pthread_mutex_unlock(&executor->mutex);
  }
  draw_parts(executor, 0);
  atomic_fetch_add(&executor->epoch, 1);
  while (atomic_load(&executor->active) != 0) relax();
}

int64_t carnot_executor_scratch(int64_t part) {
  const carnot_executor* executor = here.executor;
  if (!executor) return 0;
  return executor->part_count < executor->thread_count ? part : here.index;
}
