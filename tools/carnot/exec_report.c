// The report of carnot exec, with the labels of trtexec's, and the JSON files of its --export
// flags.
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "exec.h"

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

// ---- exports ----

static carnot_status* write_json(const char* path, json_t* root) {
  char* text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  json_decref(root);
  if (!text) return CARNOT_NO_MEMORY(0, "a JSON file");
  carnot_status* status =
      carnot_write_file(path, (carnot_piece[]){{text, strlen(text)}, {"\n", 1}}, 2);
  free(text);
  return status;
}

carnot_status* exec_export_times(const char* path, const exec_trace* traces, size_t count) {
  json_t* root = json_array();
  for (size_t i = 0; i < count; i++) {
    double s = traces[i].start, e = traces[i].end;
    double computing = s + traces[i].h2d, computed = computing + traces[i].compute;
    json_array_append_new(
        root,
        json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "startEnqMs", s,
                  "endEnqMs", e, "enqMs", e - s, "startH2dMs", s, "endH2dMs", computing, "h2dMs",
                  traces[i].h2d, "startComputeMs", computing, "endComputeMs", computed, "computeMs",
                  traces[i].compute, "startD2hMs", computed, "endD2hMs", computed + traces[i].d2h,
                  "d2hMs", traces[i].d2h, "latencyMs", e - s));
  }
  return write_json(path, root);
}

static void dims_text(const carnot_tensor* t, char* out, size_t size) {
  out[0] = 0;
  for (int d = 0; d < t->rank; d++)
    snprintf(out + strlen(out), size - strlen(out), d ? "x%lld" : "%lld", (long long)t->dims[d]);
}

// JSON has no infinities: they become null.
static json_t* element(const carnot_tensor* t, int64_t i) {
  if (t->dtype == CARNOT_DTYPE_STRING) return json_null();
  if (!carnot_dtype_is_float(t->dtype))
    return json_integer(carnot_load_i64(t->dtype, t->data, (size_t)i));
  double v = carnot_load_f64(t->dtype, t->data, (size_t)i);
  return isfinite(v) ? json_real(v) : json_null();
}

carnot_status* exec_export_output(const char* path, const carnot_context* context) {
  json_t* root = json_array();
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_rt_value* cell =
        context->plan->bindings[i].is_input ? NULL : carnot_context_output(context, i);
    if (!cell || cell->kind != CARNOT_VALUE_TENSOR) continue;
    char dims[256];
    dims_text(&cell->tensor, dims, sizeof(dims));
    json_t* values = json_array();
    for (int64_t k = 0; k < carnot_tensor_count(&cell->tensor); k++)
      json_array_append_new(values, element(&cell->tensor, k));
    json_array_append_new(root, json_pack("{s:s,s:s,s:o}", "name", context->plan->bindings[i].name,
                                          "dimensions", dims, "values", values));
  }
  return write_json(path, root);
}

void exec_dump_output(const carnot_context* context) {
  exec_log('I', "Output Tensors:");
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_rt_value* cell =
        context->plan->bindings[i].is_input ? NULL : carnot_context_output(context, i);
    if (!cell || cell->kind != CARNOT_VALUE_TENSOR || cell->tensor.dtype == CARNOT_DTYPE_STRING)
      continue;
    char dims[256];
    dims_text(&cell->tensor, dims, sizeof(dims));
    exec_log('I', "%s: (%s)", context->plan->bindings[i].name, dims);
    int64_t columns = cell->tensor.rank ? cell->tensor.dims[cell->tensor.rank - 1] : 1;
    for (int64_t k = 0; k < carnot_tensor_count(&cell->tensor); k++)
      printf((k + 1) % columns ? "%g " : "%g\n",
             carnot_load_f64(cell->tensor.dtype, cell->tensor.data, (size_t)k));
  }
}

carnot_status* exec_layers(const exec_options* o, const carnot_plan* plan) {
  if (!o->dump_layers && !o->layers) return NULL;
  json_t* root = json_loads(plan->inspector, 0, NULL);
  CARNOT_CHECK(root, INVALID_MODEL, "the engine holds no readable inspector data");
  json_t *shown = json_object(), *layers = json_array(), *layer;
  size_t index;
  json_array_foreach(json_object_get(root, "Layers"), index, layer) {
    if (o->verbosity == EXEC_DETAILED)
      json_array_append(layers, layer);
    else if (o->verbosity == EXEC_NAMES)
      json_array_append(layers, json_object_get(layer, "Name"));
  }
  json_object_set_new(shown, "Layers", layers);
  json_object_set(shown, "Bindings", json_object_get(root, "Bindings"));
  json_decref(root);
  if (o->verbosity != EXEC_DETAILED)
    exec_log('I',
             "layer information is short: --profilingVerbosity=detailed tells tactics, shapes and "
             "formats");
  if (o->dump_layers) {
    exec_log('I', "Layer Information:");
    json_dumpf(shown, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    putchar('\n');
  }
  if (o->layers) return write_json(o->layers, shown);
  json_decref(shown);
  return NULL;
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
  return write_json(path, root);
}

// |times| [step][run] in milliseconds.
static carnot_status* summarise(const exec_options* o, const carnot_plan* plan, double* times,
                                int runs) {
  layer_times* layers = calloc((size_t)plan->step_count + 1, sizeof(*layers));
  if (!layers) return CARNOT_NO_MEMORY(plan->step_count * sizeof(*layers), "a profile");
  size_t count = 0;
  double total = 0;
  for (uint32_t i = 0; i < plan->step_count; i++) {
    double* of = times + (size_t)i * (size_t)runs;
    double sum = 0;
    for (int k = 0; k < runs; k++) sum += of[k];
    if (sum <= 0) continue;
    qsort(of, (size_t)runs, sizeof(double), by_value);
    layers[count++] =
        (layer_times){plan->steps[i].name, sum, sum / runs, median_of(of, (size_t)runs)};
    total += sum;
  }
  if (o->dump_profile) print_profile(layers, count, total, runs);
  carnot_status* status =
      o->profile ? export_profile(o->profile, layers, count, total, runs) : NULL;
  free(layers);
  return status;
}

carnot_status* exec_profile(const exec_options* o, cli_session* session) {
  if (!o->dump_profile && !o->profile) return NULL;
  carnot_context* context = session->context;
  uint32_t steps = context->plan->step_count;
  int runs = o->iterations < 10 ? 10 : o->iterations > 1000 ? 1000 : (int)o->iterations;
  double* times = calloc((size_t)steps * (size_t)runs + 1, sizeof(double));
  void* clock = NULL;
  carnot_status* status =
      times ? carnot_calloc(steps + 1, sizeof(carnot_step_time), "a profile", &clock)
            : CARNOT_NO_MEMORY((size_t)steps * (size_t)runs * sizeof(double), "a profile");
  context->times = clock;
  for (int k = 0; !status && k < runs; k++) {
    memset(clock, 0, steps * sizeof(carnot_step_time));
    status = carnot_context_run_now(context);
    for (uint32_t i = 0; i < steps; i++)
      times[(size_t)i * (size_t)runs + (size_t)k] = (double)context->times[i].total_ns * 1e-6;
  }
  context->times = NULL;
  free(clock);
  if (!status) status = summarise(o, context->plan, times, runs);
  free(times);
  return status;
}
