// carnot exec: inputs, runs on one or more streams, reports.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec.h"

// Where streams wait for each other when they are warm.
typedef struct gate {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int waiting;
  bool open, cancelled;
  double start;  // when it opened
} gate;

// One context with threads of its own, run again and again.
typedef struct stream {
  const exec_options* options;
  cli_session session;
  gate* gate;
  exec_trace* traces;
  size_t count;
  double wall_ms;
  carnot_status* status;
} stream;

static void warn(const char* message) { exec_log('W', "%s", message); }

static carnot_status* warm_up(stream* s) {
  double until = cli_now_ms() + (double)s->options->warm_up_ms;
  CLI_TRY(cli_session_run_first(&s->session, warn));
  carnot_engine_settle(s->session.loaded.engine);
  while (cli_now_ms() < until) CLI_TRY(carnot_context_run(s->session.context));
  return NULL;
}

static carnot_status* measure(stream* s) {
  const exec_options* o = s->options;
  carnot_context* context = s->session.context;
  bool on_accelerator = carnot_context_has_accelerator(context);
  CLI_TRY(carnot_context_set_transfers(context, !o->no_transfers || o->transfers));
  size_t capacity = 0;
  double start = s->gate->start;
  while (s->count < (size_t)o->iterations || cli_now_ms() - start < o->duration_s * 1e3 ||
         s->count == 0) {
    void* traces = s->traces;
    CLI_TRY(cli_grow(&traces, &capacity, s->count + 1, sizeof(exec_trace), "times"));
    s->traces = traces;
    exec_trace* trace = &s->traces[s->count++];
    trace->start = cli_now_ms() - start;
    CLI_TRY(carnot_context_run(context));
    trace->end = cli_now_ms() - start;
    carnot_run_times times;
    CLI_TRY(carnot_context_get_run_times(context, &times));
    trace->total = trace->end - trace->start;
    trace->compute = on_accelerator ? (double)times.compute_ns * 1e-6 : trace->total;
    trace->h2d = (double)times.upload_ns * 1e-6;
    trace->d2h = (double)times.download_ns * 1e-6;
    if (o->idle_ms) usleep((useconds_t)o->idle_ms * 1000);
  }
  s->wall_ms = cli_now_ms() - start;
  return NULL;
}

static void* run_stream(void* argument) {
  stream* s = argument;
  gate* g = s->gate;
  s->status = warm_up(s);
  pthread_mutex_lock(&g->lock);
  g->waiting++;
  pthread_cond_broadcast(&g->changed);
  while (!g->open) pthread_cond_wait(&g->changed, &g->lock);
  pthread_mutex_unlock(&g->lock);
  if (!s->status && !g->cancelled) s->status = measure(s);
  return NULL;
}

// Opens the gate when |count| streams wait there.
static void open_gate(gate* g, int count, bool cancelled) {
  pthread_mutex_lock(&g->lock);
  while (g->waiting < count) pthread_cond_wait(&g->changed, &g->lock);
  g->open = true;
  g->cancelled = cancelled;
  g->start = cli_now_ms();
  pthread_cond_broadcast(&g->changed);
  pthread_mutex_unlock(&g->lock);
}

static carnot_status* open_stream(const exec_options* o, const cli_loaded* loaded, int threads,
                                  stream* s) {
  carnot_engine_retain(loaded->engine);
  CLI_TRY(cli_session_start(loaded, threads, &s->session));
  s->session.profile = (uint32_t)o->use_profile;
  if (o->use_profile)
    CLI_TRY(carnot_context_set_profile(s->session.context, (uint32_t)o->use_profile));
  CLI_TRY(carnot_context_set_graphs(s->session.context, !o->no_graph));
  return cli_session_read(&s->session, &o->inputs, &o->shapes, &(cli_image_options){0},
                          /*random=*/true);
}

static carnot_status* run_streams(stream* streams, int count) {
  gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  pthread_t* threads = calloc((size_t)count, sizeof(*threads));
  if (!threads) return CLI_NO_MEMORY((size_t)count, "streams");
  int started = 0;
  carnot_status* status = NULL;
  for (int i = 0; i < count; i++) streams[i].gate = &g;
  while (started < count &&
         pthread_create(&threads[started], NULL, run_stream, &streams[started]) == 0)
    started++;
  if (started < count)
    status = CLI_ERROR(OUT_OF_MEMORY, "no thread for stream %d of %d", started + 1, count);
  open_gate(&g, started, status != NULL);
  for (int i = 0; i < started; i++) {
    pthread_join(threads[i], NULL);
    if (!status)
      status = streams[i].status;
    else
      carnot_status_free(streams[i].status);
  }
  free(threads);
  return status;
}

static int by_start(const void* a, const void* b) {
  double x = ((const exec_trace*)a)->start, y = ((const exec_trace*)b)->start;
  return x < y ? -1 : x > y;
}

static carnot_status* report(const exec_options* o, stream* streams, int count) {
  size_t total = 0;
  double wall_ms = 0;
  for (int i = 0; i < count; i++) {
    total += streams[i].count;
    if (streams[i].wall_ms > wall_ms) wall_ms = streams[i].wall_ms;
  }
  exec_trace* all = calloc(total + 1, sizeof(*all));
  if (!all) return CLI_NO_MEMORY(total * sizeof(*all), "times");
  size_t at = 0;
  for (int i = 0; i < count; i++) {
    if (streams[i].count) memcpy(all + at, streams[i].traces, streams[i].count * sizeof(*all));
    at += streams[i].count;
  }
  qsort(all, total, sizeof(*all), by_start);
  exec_report(o, all, total, wall_ms);
  carnot_status* status = o->times ? exec_export_times(o->times, all, total) : NULL;
  free(all);
  return status;
}

carnot_status* exec_infer(const exec_options* o, cli_loaded* loaded) {
  int count = (int)o->streams;
  int threads =
      count > 1 && !o->build.threads ? (int)sysconf(_SC_NPROCESSORS_ONLN) : o->build.threads;
  if (count > 1) threads = threads / count < 1 ? 1 : threads / count;
  stream* streams = calloc((size_t)count, sizeof(*streams));
  carnot_status* status = streams ? NULL : CLI_NO_MEMORY((size_t)count, "streams");
  for (int i = 0; i < count && !status; i++) {
    streams[i].options = o;
    status = open_stream(o, loaded, threads, &streams[i]);
  }
  bool on_gpu = !status && carnot_context_has_accelerator(streams[0].session.context);
  if (!status && !on_gpu && (o->no_graph || o->use_graph))
    exec_log('W', "--%s has no effect: CUDA graphs are for GPUs",
             o->no_graph ? "noCudaGraph" : "useCudaGraph");
  if (!status && !on_gpu && o->no_transfers)
    exec_log('W', "--noDataTransfers has no effect: a CPU reads the host's memory");
  if (!status)
    exec_log('I', "Starting inference on %d threads%s",
             carnot_executor_thread_count(streams[0].session.executor),
             count > 1 ? " for each stream" : "");
  if (!status) status = run_streams(streams, count);
  if (!status) status = report(o, streams, count);
  if (!status && !on_gpu)
    exec_log('I',
             "On a CPU a run is one call: Enqueue Time and GPU Compute Time are that call, H2D and "
             "D2H are 0.");
  if (!status && o->dump_output) status = exec_dump_output(streams[0].session.context);
  if (!status && o->output) status = exec_export_output(o->output, streams[0].session.context);
  if (!status) status = exec_profile(o, &streams[0].session);
  if (!status && o->timeline) status = cli_timeline_write(&streams[0].session, o->timeline);
  for (int i = 0; streams && i < count; i++) {
    free(streams[i].traces);
    cli_session_close(&streams[i].session);
  }
  free(streams);
  carnot_engine_release(loaded->engine);
  return status;
}
