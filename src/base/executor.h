// Executor: the threads that a run's steps are spread over.
//
// How work is cut in parts changes no bits, so that any number of threads gives the same result.
// Between begin and end the workers spin for the next parallel step. After a run they spin for
// 50 us, since the next one often follows at once, and then sleep. A run that finds the executor
// busy works on the caller alone. Every thread saves and sets the floating-point mode (nearest,
// subnormals kept) for a run.
#ifndef CARNOT_BASE_EXECUTOR_H_
#define CARNOT_BASE_EXECUTOR_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "carnot/runtime.h"

// Wakes the workers for a run; false when another run has them (then the caller works alone: pass
// NULL on).
bool carnot_executor_begin(carnot_executor* executor);
void carnot_executor_end(carnot_executor* executor);

// fn(arg, part) for part in [0, part_count), on the caller and the workers; returns when all are
// done. Without an executor, or outside begin and end, on the caller alone. Parts must not depend
// on one another.
void carnot_executor_parallel(carnot_executor* executor, int64_t part_count,
                              void (*fn)(void* arg, int64_t part), void* arg);

// For |fn|, on the thread that it is called on: which of |part_count| areas of scratch memory the
// part uses. No two parts at once have the same. It is the thread's own where there are as many
// parts as threads: what one part leaves in the cache the next one overwrites there. Areas are
// whole cache lines, or threads share them.
int64_t carnot_executor_scratch(int64_t part);

// When a worker was busy with parts: from its first to its last, in nanoseconds of CLOCK_MONOTONIC;
// both 0 where it had none.
typedef struct carnot_worker_span {
  uint64_t start_ns, end_ns;
} carnot_worker_span;
// Notes into |spans| (by thread, borrowed) when each worker works; entries are widened until the
// caller clears them. NULL stops. For the caller of a run, between begin and end, outside parallel.
void carnot_executor_set_spans(carnot_executor* executor, carnot_worker_span* spans);

// What several threads would save in loops that run on one thread alone.
typedef struct carnot_executor_estimate {
  int threads;
  uint64_t saved_ns;  // of the thread's processor time, if each of |threads| has a processor
} carnot_executor_estimate;
// Until the next call, loops that the calling thread runs alone add to |estimate| (borrowed) what
// threads that share their parts would save. NULL stops.
void carnot_executor_set_estimate(carnot_executor_estimate* estimate);

// The processor time of this thread, in nanoseconds.
uint64_t carnot_executor_thread_ns(void);

// The floating-point mode of this thread, for the caller of a run to save, set and restore.
uint32_t carnot_fp_mode_enter(void);
void carnot_fp_mode_leave(uint32_t saved);

#endif  // CARNOT_BASE_EXECUTOR_H_
