// The timeline of a run in Chrome's trace format.
#include <stdio.h>
#include <stdlib.h>

#include "carnot/runtime.h"
#include "ops/util.h"
#include "run/context.h"

// The number of the stream among the threads of the trace.
enum { STREAM_THREAD = 10000, SPAN_CAPACITY_MIN = 64 };

// The spans of one run. Without memory for more they are counted only.
typedef struct recorder {
  carnot_run_span* items;
  size_t count, capacity;
  bool is_full;
} recorder;

static void note(void* user, const carnot_run_span* span) {
  recorder* r = user;
  if (r->count == r->capacity && !r->is_full) {
    size_t capacity = r->capacity ? 2 * r->capacity : SPAN_CAPACITY_MIN;
    void* grown = realloc(r->items, capacity * sizeof(*r->items));
    r->is_full = !grown;
    if (grown) r->items = grown, r->capacity = capacity;
  }
  if (!r->is_full) r->items[r->count++] = *span;
}

// ---- writing ----

static void write_text(FILE* out, const char* text) {
  fputc('"', out);
  for (const unsigned char* c = (const unsigned char*)text; *c; c++)
    if (*c < 0x20)
      fprintf(out, "\\u%04x", *c);
    else
      fprintf(out, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
  fputc('"', out);
}

static bool is_on_stream(carnot_span_kind kind) { return kind >= CARNOT_SPAN_DEVICE; }

static void write_thread(FILE* out, int thread, const char* name) {
  fprintf(out,
          ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":"
          "\"%s\"}}",
          thread, name);
  fprintf(out,
          ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{"
          "\"sort_index\":%d}}",
          thread, thread);
}

static void write_span(FILE* out, const carnot_context* context, const carnot_run_span* span,
                       uint64_t origin) {
  static const char* const kKinds[] = {"run",   "layer",  "worker",  "layer",
                                       "graph", "upload", "download"};
  static const char* const kNames[] = {"run",         "", "", "", "CUDA graph", "copy inputs",
                                       "copy outputs"};
  bool is_step = span->step != CARNOT_SPAN_NO_STEP;
  const carnot_plan_step* step = is_step ? &context->plan->steps[span->step] : NULL;
  fputs(",\n{\"ph\":\"X\",\"pid\":1,\"name\":", out);
  write_text(out, is_step ? step->name : kNames[span->kind]);
  fprintf(out, ",\"cat\":\"%s\",\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", kKinds[span->kind],
          is_on_stream(span->kind) ? STREAM_THREAD : span->thread,
          (double)(span->start_ns - origin) * 1e-3, (double)(span->end_ns - span->start_ns) * 1e-3);
  if (is_step) {
    fprintf(out, ",\"args\":{\"layer\":%u,\"tactic\":", span->step);
    write_text(out, step->variants[context->steps[span->step].variant].tactic);
    fputs("}", out);
  }
  fputs("}", out);
}

static carnot_status* write_trace(const carnot_context* context, const recorder* r,
                                  char** out_json) {
  size_t size;
  uint64_t origin = UINT64_MAX;
  FILE* out = open_memstream(out_json, &size);
  if (!out) return CARNOT_NO_MEMORY(r->count, "a timeline");
  for (size_t i = 0; i < r->count; i++)
    if (r->items[i].start_ns < origin) origin = r->items[i].start_ns;
  fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", out);
  fputs("{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":", out);
  write_text(out, context->plan->name[0] ? context->plan->name : "carnot");
  fputs("}}", out);
  write_thread(out, 0, "caller");
  for (int i = 1; i < context->profiler.worker_count; i++) {
    char name[32];
    snprintf(name, sizeof(name), "worker %d", i);
    write_thread(out, i, name);
  }
  if (context->device.stream) write_thread(out, STREAM_THREAD, "stream");
  for (size_t i = 0; i < r->count; i++) write_span(out, context, &r->items[i], origin);
  fputs("\n]}\n", out);
  bool failed = ferror(out);
  if (fclose(out) == 0 && !failed) return NULL;
  free(*out_json);
  *out_json = NULL;
  return CARNOT_NO_MEMORY(r->count, "a timeline");
}

// ---- recording ----

static carnot_status* begin(carnot_context* context, recorder* r) {
  int threads = carnot_executor_thread_count(context->executor);
  void* workers;
  CARNOT_TRY(
      carnot_calloc((size_t)threads + 1, sizeof(carnot_worker_span), "worker times", &workers));
  carnot_run_profiler* profiler = &context->profiler;
  profiler->workers = workers;
  profiler->worker_count = threads;
  profiler->timeline = note;
  profiler->timeline_user = r;
  return NULL;
}

static void end(carnot_context* context) {
  carnot_run_profiler* profiler = &context->profiler;
  free(profiler->workers);
  profiler->workers = NULL;
  profiler->worker_count = 0;
  profiler->timeline = NULL;
}

static carnot_status* record(carnot_context* context, int runs, recorder* r, char** out_json) {
  CARNOT_TRY(carnot_context_enter(context, "carnot_context_record_timeline"));
  bool time_io = context->device.time_io;
  carnot_status* status = begin(context, r);
  if (!status) context->device.time_io = context->device.stream != NULL;
  for (int i = 0; !status && i < runs; i++) {
    r->count = 0;
    status = carnot_context_run_now(context);
  }
  if (!status && r->is_full) status = CARNOT_NO_MEMORY(r->count, "a timeline");
  if (!status) status = write_trace(context, r, out_json);
  end(context);
  context->device.time_io = time_io;
  return carnot_context_leave(context, status);
}

carnot_status* carnot_context_record_timeline(carnot_context* context, int runs, char** out_json) {
  *out_json = NULL;
  CARNOT_CHECK(runs >= 1 && runs <= 1000, INVALID_ARGUMENT, "%d runs, must be in [1, 1000]", runs);
  CARNOT_TRY(carnot_context_set_layer_timing(context, true));
  recorder r = {.count = 0};
  carnot_status* status = record(context, runs, &r, out_json);
  free(r.items);
  carnot_status* off = carnot_context_set_layer_timing(context, false);
  if (!status) return off;
  carnot_status_free(off);
  return status;
}
