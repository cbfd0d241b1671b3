// Times of the steps of a context.
#ifndef CARNOT_RUN_RUN_PROFILER_H_
#define CARNOT_RUN_RUN_PROFILER_H_

#include <stdint.h>

typedef struct carnot_step_time {
  uint64_t total_ns, min_ns;
  uint64_t count;
} carnot_step_time;

typedef struct carnot_run_profiler {
  carnot_step_time* times;  // by step; NULL: not profiled
  // Called with each step's time; NULL: nobody.
  void (*report)(void* user, const char* step, uint64_t time_ns);
  void* report_user;
} carnot_run_profiler;

// Adds |ns| to the profile of step |index|, called |name|, and reports it. |times| is set.
void carnot_run_profiler_add(carnot_run_profiler* profiler, uint32_t index, const char* name,
                             uint64_t ns);

#endif  // CARNOT_RUN_RUN_PROFILER_H_
