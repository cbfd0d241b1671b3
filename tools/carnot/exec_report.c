// The report of carnot exec, with the labels of trtexec's, and the JSON files of its --export
// flags.
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
  if (!text) return CLI_NO_MEMORY(0, "a JSON file");
  carnot_status* status = cli_write_file(path, (cli_piece[]){{text, strlen(text)}, {"\n", 1}}, 2);
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

// "1x3x224".
static void shape_text(const carnot_dims* dims, char* out, size_t size) {
  out[0] = 0;
  for (int d = 0; d < dims->rank; d++)
    snprintf(out + strlen(out), size - strlen(out), d ? "x%lld" : "%lld", (long long)dims->d[d]);
}

// JSON has no infinities: they become null.
static json_t* element(const cli_tensor* t, int64_t i) {
  if (t->dtype == CARNOT_DTYPE_STRING) return json_null();
  if (!cli_dtype_is_float(t->dtype))
    return json_integer(carnot_element_i64(t->dtype, t->data, (size_t)i));
  double v = carnot_element_f64(t->dtype, t->data, (size_t)i);
  return isfinite(v) ? json_real(v) : json_null();
}

// Output |index| where tensor |index| is one; *out_name is NULL elsewhere.
static carnot_status* output_of(const carnot_context* context, uint32_t index,
                                const char** out_name, cli_tensor* out) {
  carnot_tensor_info info;
  const carnot_data* data;
  *out_name = NULL;
  CLI_TRY(carnot_engine_tensor_info(carnot_context_engine(context), index, &info));
  if (info.is_input) return NULL;
  CLI_TRY(carnot_context_output_value(context, info.name, &data));
  if (!data || carnot_data_kind_of(data) != CARNOT_DATA_TENSOR) return NULL;
  *out_name = info.name;
  *out = cli_tensor_of(data);
  return NULL;
}

carnot_status* exec_export_output(const char* path, const carnot_context* context) {
  json_t* root = json_array();
  uint32_t count = carnot_engine_tensor_count(carnot_context_engine(context));
  for (uint32_t i = 0; i < count; i++) {
    const char* name;
    cli_tensor t;
    carnot_status* status = output_of(context, i, &name, &t);
    if (status) {
      json_decref(root);
      return status;
    }
    if (!name) continue;
    char dims[256];
    shape_text(&t.dims, dims, sizeof(dims));
    json_t* values = json_array();
    for (int64_t k = 0; k < cli_tensor_count(&t); k++)
      json_array_append_new(values, element(&t, k));
    json_array_append_new(
        root, json_pack("{s:s,s:s,s:o}", "name", name, "dimensions", dims, "values", values));
  }
  return write_json(path, root);
}

carnot_status* exec_dump_output(const carnot_context* context) {
  exec_log('I', "Output Tensors:");
  uint32_t count = carnot_engine_tensor_count(carnot_context_engine(context));
  for (uint32_t i = 0; i < count; i++) {
    const char* name;
    cli_tensor t;
    CLI_TRY(output_of(context, i, &name, &t));
    if (!name || t.dtype == CARNOT_DTYPE_STRING) continue;
    char dims[256];
    shape_text(&t.dims, dims, sizeof(dims));
    exec_log('I', "%s: (%s)", name, dims);
    int64_t columns = t.dims.rank ? t.dims.d[t.dims.rank - 1] : 1;
    for (int64_t k = 0; k < cli_tensor_count(&t); k++)
      printf((k + 1) % columns ? "%g " : "%g\n", carnot_element_f64(t.dtype, t.data, (size_t)k));
  }
  return NULL;
}

carnot_status* exec_layers(const exec_options* o, const carnot_engine* engine) {
  if (!o->dump_layers && !o->layers) return NULL;
  json_t* root = json_loads(carnot_engine_inspect(engine), 0, NULL);
  CLI_CHECK(root, INVALID_MODEL, "the engine holds no readable inspector data");
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
             "layer information is short: --profilingVerbosity=detailed adds tactics, shapes and "
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
