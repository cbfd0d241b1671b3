// Times of the steps of a context: sum, least and number.
#include "run/run_profiler.h"

void carnot_run_profiler_add(carnot_run_profiler* profiler, uint32_t index, const char* name,
                             uint64_t ns) {
  carnot_step_time* time = &profiler->times[index];
  time->total_ns += ns;
  time->count++;
  if (time->count == 1 || ns < time->min_ns) time->min_ns = ns;
  if (profiler->report) profiler->report(profiler->report_user, name, ns);
}
