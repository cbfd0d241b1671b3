// The reports of carnot exec on runs and layers, with the labels of trtexec.
#include <jansson.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec.h"
#include "log.h"

void exec_log(char severity, const char* format, ...) {
  char stamp[32];
  time_t now = time(NULL);
  struct tm parts;
  localtime_r(&now, &parts);
  strftime(stamp, sizeof(stamp), "%m/%d/%Y-%H:%M:%S", &parts);
  FILE* out = severity == 'W' || severity == 'E' ? stderr : stdout;
  if (out == stderr) fflush(stdout);
  fprintf(out, "[%s] [%c] ", stamp, severity);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(out, format, arguments);
  va_end(arguments);
  fputc('\n', out);
}

void exec_log_message(void* user, int severity, const char* message) {
  cli_end_progress();
  if (severity <= 2)
    exec_log("EWI"[severity], "%s", message);
  else if (((const exec_options*)user)->verbose)
    exec_log('V', "%s", message);
}

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static double percentile(const double* sorted, size_t count, double percent) {
  size_t leave_out = (size_t)((100 - percent) / 100 * (double)count);
  return sorted[count - 1 - (leave_out < count ? leave_out : count - 1)];
}

static double median_of(const double* sorted, size_t count) {
  return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static void print_metric(const exec_options* o, const char* label, const double* sorted,
                         size_t count) {
  char line[1024];
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += sorted[i];
  int at =
      snprintf(line, sizeof(line), "%s: min = %g ms, max = %g ms, mean = %g ms, median = %g ms",
               label, sorted[0], sorted[count - 1], sum / (double)count, median_of(sorted, count));
  for (int i = 0; i < o->percentile_count && at < (int)sizeof(line); i++)
    at += snprintf(line + at, sizeof(line) - (size_t)at, ", percentile(%g%%) = %g ms",
                   o->percentiles[i], percentile(sorted, count, o->percentiles[i]));
  exec_log('I', "%s", line);
}

static void print_trace(const exec_options* o, const exec_trace* traces, size_t count) {
  exec_log('I', "=== Trace details ===");
  exec_log('I', "Trace averages of %lld runs:", o->average_runs);
  size_t step = (size_t)o->average_runs;
  for (size_t i = 0; i + step <= count; i += step) {
    double sum = 0;
    for (size_t k = i; k < i + step; k++) sum += traces[k].end - traces[k].start;
    sum /= (double)step;
    exec_log('I', "Average on %lld runs - GPU latency: %g ms - Host latency: %g ms (enqueue %g ms)",
             o->average_runs, sum, sum, sum);
  }
}

static void print_sorted(const exec_options* o, const char* label, const exec_trace* traces,
                         size_t count, size_t field, double* sorted) {
  for (size_t i = 0; i < count; i++)
    memcpy(&sorted[i], (const char*)&traces[i] + field, sizeof(double));
  qsort(sorted, count, sizeof(double), by_value);
  print_metric(o, label, sorted, count);
}

void exec_report(const exec_options* o, const exec_trace* traces, size_t count, double wall_ms) {
  double* sorted = calloc(count + 1, sizeof(double));
  if (!sorted || !count) {
    free(sorted);
    return;
  }
  double total = 0;
  for (size_t i = 0; i < count; i++) total += traces[i].compute;
  if (o->verbose) print_trace(o, traces, count);
  exec_log('I', "=== Performance summary ===");
  exec_log('I', "Throughput: %g qps", (double)count / wall_ms * 1e3);
  print_sorted(o, "Latency", traces, count, offsetof(exec_trace, total), sorted);
  print_sorted(o, "Enqueue Time", traces, count, offsetof(exec_trace, total), sorted);
  print_sorted(o, "H2D Latency", traces, count, offsetof(exec_trace, h2d), sorted);
  print_sorted(o, "GPU Compute Time", traces, count, offsetof(exec_trace, compute), sorted);
  print_sorted(o, "D2H Latency", traces, count, offsetof(exec_trace, d2h), sorted);
  exec_log('I', "Total Host Walltime: %g s", wall_ms * 1e-3);
  exec_log('I', "Total GPU Compute Time: %g s", total * 1e-3);
  free(sorted);
}

// ---- layers ----

typedef struct layer_times {
  const char* name;
  double total, average, median;
} layer_times;

static void print_profile(const layer_times* layers, size_t count, double total, int runs) {
  exec_log('I', "=== Profile (%d iterations ) ===", runs);
  exec_log('I', "%12s %14s %14s %8s  %s", "Time(ms)", "Avg.(ms)", "Median(ms)", "Time(%)", "Layer");
  for (size_t i = 0; i < count; i++)
    exec_log('I', "%12.2f %14.4f %14.4f %8.1f  %s", layers[i].total, layers[i].average,
             layers[i].median, 100 * layers[i].total / total, layers[i].name);
  exec_log('I', "%12.2f %14.4f %14s %8.1f  %s", total, total / runs, "", 100.0, "Total");
}

static carnot_status* export_profile(const char* path, const layer_times* layers, size_t count,
                                     double total, int runs) {
  json_t* root = json_array();
  json_array_append_new(root, json_pack("{s:i}", "count", runs));
  for (size_t i = 0; i < count; i++)
    json_array_append_new(
        root, json_pack("{s:s,s:f,s:f,s:f,s:f}", "name", layers[i].name, "timeMs", layers[i].total,
                        "averageMs", layers[i].average, "medianMs", layers[i].median, "percentage",
                        total > 0 ? 100 * layers[i].total / total : 0.0));
  return exec_write_json(path, root);
}

// |times| [layer][run] in milliseconds.
static carnot_status* summarise(const exec_options* o, const carnot_context* context, double* times,
                                uint32_t layer_count, int runs) {
  layer_times* layers = calloc((size_t)layer_count + 1, sizeof(*layers));
  if (!layers) return CLI_NO_MEMORY(layer_count * sizeof(*layers), "a profile");
  size_t count = 0;
  double total = 0;
  carnot_status* status = NULL;
  for (uint32_t i = 0; !status && i < layer_count; i++) {
    double* of = times + (size_t)i * (size_t)runs;
    double sum = 0;
    carnot_layer_time time;
    status = carnot_context_get_layer_time(context, i, &time);
    for (int k = 0; k < runs; k++) sum += of[k];
    if (sum <= 0) continue;
    qsort(of, (size_t)runs, sizeof(double), by_value);
    layers[count++] = (layer_times){time.layer, sum, sum / runs, median_of(of, (size_t)runs)};
    total += sum;
  }
  if (!status && o->dump_profile) print_profile(layers, count, total, runs);
  if (!status && o->profile) status = export_profile(o->profile, layers, count, total, runs);
  free(layers);
  return status;
}

static carnot_status* time_layers(carnot_context* context, double* times, uint32_t layer_count,
                                  int runs) {
  for (int k = 0; k < runs; k++) {
    CLI_TRY(carnot_context_set_layer_timing(context, true));  // from zero
    CLI_TRY(carnot_context_run(context));
    for (uint32_t i = 0; i < layer_count; i++) {
      carnot_layer_time time;
      CLI_TRY(carnot_context_get_layer_time(context, i, &time));
      times[(size_t)i * (size_t)runs + (size_t)k] = (double)time.total_ns * 1e-6;
    }
  }
  return NULL;
}

carnot_status* exec_profile(const exec_options* o, cli_session* session) {
  if (!o->dump_profile && !o->profile) return NULL;
  carnot_engine_stats stats;
  carnot_engine_get_stats(session->loaded.engine, &stats);
  uint32_t layers = stats.layer_count;
  int runs = o->iterations < 10 ? 10 : o->iterations > 1000 ? 1000 : (int)o->iterations;
  double* times = calloc((size_t)layers * (size_t)runs + 1, sizeof(double));
  if (!times) return CLI_NO_MEMORY((size_t)layers * (size_t)runs * sizeof(double), "a profile");
  carnot_status* status = time_layers(session->context, times, layers, runs);
  if (!status) status = summarise(o, session->context, times, layers, runs);
  free(times);
  return status ? status : carnot_context_set_layer_timing(session->context, false);
}
