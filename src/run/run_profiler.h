// Times of the steps of a context.
#ifndef CARNOT_RUN_RUN_PROFILER_H_
#define CARNOT_RUN_RUN_PROFILER_H_

#include <stdint.h>

#include "base/executor.h"

typedef struct carnot_step_time {
  uint64_t total_ns, min_ns;
  uint64_t count;
} carnot_step_time;

typedef enum carnot_span_kind {
  CARNOT_SPAN_RUN,       // the whole run, on the caller's thread
  CARNOT_SPAN_HOST,      // a step, on the caller's thread
  CARNOT_SPAN_WORKER,    // a worker's share of a step
  CARNOT_SPAN_DEVICE,    // a step, on the stream of the accelerator
  CARNOT_SPAN_GRAPH,     // steps that were launched as one graph, on the stream
  CARNOT_SPAN_UPLOAD,    // copying inputs, on the stream
  CARNOT_SPAN_DOWNLOAD,  // copying outputs, on the stream
} carnot_span_kind;

#define CARNOT_SPAN_NO_STEP UINT32_MAX

// Times of CLOCK_MONOTONIC.
typedef struct carnot_run_span {
  carnot_span_kind kind;
  uint32_t step;  // of the plan, or CARNOT_SPAN_NO_STEP
  int thread;     // 0: the caller, then the workers
  uint64_t start_ns, end_ns;
} carnot_run_span;

typedef struct carnot_run_profiler {
  carnot_step_time* times;  // by step; NULL: not profiled
  // Called with each step's time; NULL: nobody.
  void (*report)(void* user, const char* step, uint64_t time_ns);
  void* report_user;
  // Called with each span, while |times| is set; NULL: nobody.
  void (*timeline)(void* user, const carnot_run_span* span);
  void* timeline_user;
  carnot_worker_span* workers;  // by thread of the executor, while there is a timeline
  int worker_count;
} carnot_run_profiler;

// Nanoseconds of CLOCK_MONOTONIC.
uint64_t carnot_run_now_ns(void);

// Adds |ns| to the profile of step |index|, called |name|, and reports it. |times| is set.
void carnot_run_profiler_add(carnot_run_profiler* profiler, uint32_t index, const char* name,
                             uint64_t ns);

// Adds a step that ran on the caller and the workers since |start_ns|.
void carnot_run_profiler_add_host(carnot_run_profiler* profiler, uint32_t index, const char* name,
                                  uint64_t start_ns);
// Gives a span to the timeline where there is one.
void carnot_run_profiler_span(const carnot_run_profiler* profiler, carnot_span_kind kind,
                              uint32_t step, uint64_t start_ns, uint64_t end_ns);

#endif  // CARNOT_RUN_RUN_PROFILER_H_
