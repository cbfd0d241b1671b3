// Progress, log and time budget of a build.
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "builder/internal.h"

carnot_status* carnot_builder_progress(const carnot_builder* builder, const char* phase, int done,
                                       int total) {
  const carnot_build_config* config = builder->config;
  if (config->progress && !config->progress(config->user, phase, done, total))
    return CARNOT_ERROR(CANCELLED, "the build was cancelled in phase '%s', step %d of %d", phase,
                        done, total);
  return NULL;
}

void carnot_builder_log(const carnot_builder* builder, const char* format, ...) {
  const carnot_build_config* config = builder->config;
  if (!config->log) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  config->log(config->user, 3, text);
}

void carnot_builder_warn(const carnot_builder* builder, const char* message) {
  if (builder->config->log) builder->config->log(builder->config->user, 1, message);
}

double carnot_builder_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

bool carnot_builder_is_over_budget(const carnot_builder* builder) {
  return builder->deadline_ms > 0 && carnot_builder_now_ms() > builder->deadline_ms;
}

void carnot_builder_drop_pages(const carnot_builder* builder) {
  for (carnot_source_memory* m = builder->graph->sources; m; m = m->next)
    carnot_source_memory_drop_maps(m);
}
