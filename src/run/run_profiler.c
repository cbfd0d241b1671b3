// Times of the steps of a context: sum, least and number, and the spans of a timeline.
#include "run/run_profiler.h"

#include <time.h>

uint64_t carnot_run_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void carnot_run_profiler_add(carnot_run_profiler* profiler, uint32_t index, const char* name,
                             uint64_t ns) {
  carnot_step_time* time = &profiler->times[index];
  time->total_ns += ns;
  time->count++;
  if (time->count == 1 || ns < time->min_ns) time->min_ns = ns;
  if (profiler->report) profiler->report(profiler->report_user, name, ns);
}

void carnot_run_profiler_span(const carnot_run_profiler* profiler, carnot_span_kind kind,
                              uint32_t step, uint64_t start_ns, uint64_t end_ns) {
  if (!profiler->timeline) return;
  carnot_run_span span = {.kind = kind, .step = step, .start_ns = start_ns, .end_ns = end_ns};
  profiler->timeline(profiler->timeline_user, &span);
}

void carnot_run_profiler_add_host(carnot_run_profiler* profiler, uint32_t index, const char* name,
                                  uint64_t start_ns) {
  uint64_t end = carnot_run_now_ns();
  carnot_run_profiler_add(profiler, index, name, end - start_ns);
  if (!profiler->timeline) return;
  carnot_run_profiler_span(profiler, CARNOT_SPAN_HOST, index, start_ns, end);
  for (int i = 1; i < profiler->worker_count; i++) {
    carnot_worker_span* worker = &profiler->workers[i];
    carnot_run_span span = {.kind = CARNOT_SPAN_WORKER,
                            .step = index,
                            .thread = i,
                            .start_ns = worker->start_ns,
                            .end_ns = worker->end_ns};
    if (span.end_ns) profiler->timeline(profiler->timeline_user, &span);
    *worker = (carnot_worker_span){0};
  }
}
