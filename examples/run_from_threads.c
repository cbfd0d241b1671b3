// One engine, many threads: each thread has a context of its own, and every result is right.
// run_from_threads ENGINE: an engine with one float32 input; its dynamic dimensions become 8.
#include <pthread.h>
#include <string.h>

#include "carnot/runtime.h"
#include "example.h"

enum { THREADS = 4, RUNS = 50, ELEMENTS = 1 << 20 };

static float input[ELEMENTS];

typedef struct worker {
  pthread_t thread;
  carnot_engine* engine;  // shared; immutable
  float first;            // the first element of the first output
  int differs;            // runs whose result was another
} worker;

static void* serve(void* arg) {
  worker* w = arg;
  carnot_context* context;
  OK(carnot_context_create(
      w->engine, &(carnot_context_config){.thread_count = 1, .host_tensors = true}, &context));
  carnot_tensor_info in, out;
  OK(carnot_engine_tensor_info(w->engine, 0, &in));
  OK(carnot_engine_tensor_info(w->engine, carnot_engine_tensor_count(w->engine) - 1, &out));
  for (int d = 0; d < in.dims.rank; d++)
    if (in.dims.d[d] < 0) in.dims.d[d] = 8;
  for (int run = 0; run < RUNS; run++) {
    OK(carnot_context_set_input(context, in.name, &in.dims, input));
    OK(carnot_context_run(context));
    const float* y = carnot_context_output_data(context, out.name);
    if (run == 0) w->first = y[0];
    w->differs += memcmp(&w->first, y, sizeof(float)) != 0;
  }
  carnot_context_destroy(context);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 2) return fprintf(stderr, "usage: run_from_threads ENGINE\n"), 2;
  for (int i = 0; i < ELEMENTS; i++) input[i] = (float)(i % 7);
  carnot_engine* engine;
  OK(carnot_engine_load_file(argv[1], &engine));
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.engine = engine};
    pthread_create(&workers[i].thread, NULL, serve, &workers[i]);
  }
  int differs = 0;
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    differs += workers[i].differs + (workers[i].first != workers[0].first);
  }
  carnot_engine_release(engine);
  printf("%d threads, %d runs each, %d results differ\n", THREADS, RUNS, differs);
  return differs != 0;
}
