// Mixed load with reloads: threads send right, wrong and cancelled requests while versions replace
// each other. Usage: triton_load_test BACKEND [SECONDS [REQUESTS]]: at least so long, and so many
// requests. Every answer must be whole and of one version, and memory may not grow.
#include <malloc.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "host.h"
#include "plans.h"

enum { WORKERS = 3, GATHERED = 4 };

// A version that serves: one instance for each worker, as Triton has one thread for each.
typedef struct version {
  TRITONBACKEND_Model* model;
  TRITONBACKEND_ModelInstance* instances[WORKERS];
  uint32_t seed;
  int users;
} version;

static TRITONBACKEND_Backend* backend;
static char folder[256];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static version* current;
static atomic_bool is_over;
static atomic_ulong answered, refused, cancelled;

static version* open_version(int number) {
  char message[512] = "";
  version* made = calloc(1, sizeof *made);
  made->seed = (uint32_t)number;
  made->model = host_load(backend, folder, (uint64_t)number,
                          "{\"parameters\":{\"threads\":{\"string_value\":\"1\"}}}", true, message);
  assert_string_equal(message, "");
  for (int w = 0; w < WORKERS; w++) {
    made->instances[w] = host_start(made->model, plans_kind(), 0, message);
    assert_string_equal(message, "");
  }
  return made;
}

static void close_version(version* old) {
  for (int w = 0; w < WORKERS; w++) host_stop(old->instances[w]);
  host_unload(old->model);
  free(old);
}

// The new version serves; the old one ends when its requests are answered.
static void replace(version* made) {
  pthread_mutex_lock(&mutex);
  version* old = current;
  current = made;
  while (old && old->users) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  if (old) close_version(old);
}

static version* take(void) {
  pthread_mutex_lock(&mutex);
  version* taken = current;
  taken->users++;
  pthread_mutex_unlock(&mutex);
  return taken;
}

static void give_back(version* taken) {
  pthread_mutex_lock(&mutex);
  taken->users--;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

// Whether the answer is that of the version, for the numbers of its request.
static bool is_right(const TRITONBACKEND_Request* request, uint32_t seed) {
  const TRITONBACKEND_Output* y = host_output(request, "y");
  const TRITONBACKEND_Input* x = &request->inputs[0];
  if (request->error.message[0] || !y || y->shape[0] != x->shape[0]) return false;
  for (int64_t r = 0; r < y->shape[0]; r++) {
    double wanted[ROWS_OUT];
    plans_rows_wanted(seed, (const float*)x->data[0] + r * ROWS_IN, wanted);
    for (int j = 0; j < ROWS_OUT; j++)
      if (fabs(((const float*)y->data)[r * ROWS_OUT + j] - wanted[j]) > 1e-5) return false;
  }
  return true;
}

static void* work(void* user) {
  int worker = (int)(intptr_t)user;
  TRITONBACKEND_Request* requests = calloc(GATHERED, sizeof *requests);
  TRITONBACKEND_Request* list[GATHERED];
  float x[GATHERED][2 * ROWS_IN];
  uint32_t random = (uint32_t)worker + 1;
  while (!is_over) {
    version* taken = take();
    uint32_t count = 1 + random % GATHERED;
    int kinds[GATHERED];
    for (uint32_t q = 0; q < count; q++) {
      random = random * 1664525u + 1013904223u;
      kinds[q] = (int)(random >> 24) % 8;  // 0: wrong, 1: cancelled, others right
      list[q] = &requests[q];
      host_request_clear(list[q]);
      int64_t rows = 1 + (random >> 16) % 2;
      for (int i = 0; i < 2 * ROWS_IN; i++) x[q][i] = net_number(random, (size_t)i);
      int64_t width = kinds[q] == 0 ? ROWS_IN + 1 : ROWS_IN;
      host_request_add(list[q], "x", TRITONSERVER_TYPE_FP32, (const int64_t[]){rows, width}, 2,
                       x[q], (uint64_t)rows * ROWS_IN * sizeof(float), 1);
      list[q]->is_cancelled = kinds[q] == 1;
    }
    host_execute(taken->instances[worker], list, count);
    for (uint32_t q = 0; q < count; q++) {
      bool as_wanted = kinds[q] == 0   ? list[q]->error.code == TRITONSERVER_ERROR_INVALID_ARG
                       : kinds[q] == 1 ? list[q]->error.code == TRITONSERVER_ERROR_CANCELLED
                                       : is_right(list[q], taken->seed);
      if (!as_wanted) {
        fprintf(stderr, "a request of kind %d: %s\n", kinds[q], list[q]->error.message);
        exit(1);
      }
      atomic_fetch_add(kinds[q] == 0 ? &refused : kinds[q] == 1 ? &cancelled : &answered, 1);
    }
    give_back(taken);
  }
  for (int q = 0; q < GATHERED; q++) host_request_clear(&requests[q]);
  free(requests);
  return NULL;
}

// Bytes that the program has allocated; 0 where the allocator does not say (sanitizers).
static size_t allocated(void) { return mallinfo2().uordblks + mallinfo2().hblkhd; }

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  double seconds = argc > 2 ? atof(argv[2]) : 2;
  unsigned long least = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
  backend = host_open(argv[1]);
  plans_folder(folder);
  plans_write_rows(folder, 1, 1);
  plans_write_rows(folder, 2, 2);
  replace(open_version(1));
  pthread_t threads[WORKERS];
  for (intptr_t w = 0; w < WORKERS; w++) pthread_create(&threads[w], NULL, work, (void*)w);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  int reloads = 0;
  double elapsed;
  // An instance allocates on its first request, which a busy machine may delay beyond a reload. So
  // growth is the least of the last ten reloads against the most of the first ten.
  size_t first = 0, latest[10];
  do {
    replace(open_version(1 + (reloads + 1) % 2));
    usleep(20000);
    size_t now_allocated = allocated();
    if (reloads < 10 && now_allocated > first) first = now_allocated;
    latest[reloads++ % 10] = now_allocated;
    clock_gettime(CLOCK_MONOTONIC, &now);
    elapsed = (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9;
  } while (elapsed < seconds || reloads < 20 || answered < least);
  is_over = true;
  for (int w = 0; w < WORKERS; w++) pthread_join(threads[w], NULL);
  size_t last = latest[0];
  for (int i = 1; i < 10; i++)
    if (latest[i] < last) last = latest[i];
  replace(NULL);
  plans_remove(folder);
  host_close(backend);
  printf(
      "%lu answered, %lu refused, %lu cancelled, %d reloads; at most %zu bytes allocated in the"
      " first 10 reloads, at least %zu in the last 10\n",
      answered, refused, cancelled, reloads, first, last);
  return last > first + 200000 ? 1 : 0;
}
