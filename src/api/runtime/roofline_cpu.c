// The measured peaks of the processor: multiply-add loops that stay in registers, reads and copies
// at the size of each cache.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "backend/cpu/roofline/roofline_loops.h"
#include "carnot/machine.h"
#include "tactic/tactic.h"

enum { kPasses = 5 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

typedef struct work {
  const carnot_roofline_loop* loop;
  char *src, *dst;  // of all parts
  size_t bytes;     // of one part
  long rounds;
  int copies;
} work;

static void run_loop(void* arg, int64_t part) {
  work* w = arg;
  if (w->loop)
    w->loop->run(w->rounds);
  else if (w->copies)
    carnot_roofline_copy(w->dst + (size_t)part * w->bytes, w->src + (size_t)part * w->bytes,
                         w->bytes, w->rounds);
  else
    carnot_roofline_read(w->src + (size_t)part * w->bytes, w->bytes, w->rounds);
}

// Seconds of |parts| parts at once, the best of several tries within |seconds|.
static double time_parts(carnot_executor* executor, work* w, int parts, double seconds) {
  double best = 0;
  w->rounds = 1;
  double end = now_ms() + seconds * 1e3;
  do {
    double start = now_ms();
    if (parts == 1)
      run_loop(w, 0);
    else
      carnot_executor_parallel(executor, parts, run_loop, w);
    double took = (now_ms() - start) * 1e-3;
    if ((double)w->rounds / took > best) best = (double)w->rounds / took;
    if (took < 5e-4) w->rounds *= 2;  // many short tries: one of them is undisturbed
  } while (now_ms() < end);
  return best;
}

static void raise_to(double* best, double value) {
  if (value > *best) *best = value;
}

static void measure_peaks(carnot_executor* executor, double seconds, carnot_machine_peaks* out) {
  carnot_isa machine = carnot_isa_of_machine();
  out->compute_count = 0;
  for (const carnot_roofline_loop* loop = carnot_roofline_loops; loop->run; loop++) {
    if (!carnot_isa_includes(machine, (carnot_isa)loop->isa) ||
        out->compute_count == CARNOT_MAX_COMPUTE_PEAKS)
      continue;
    carnot_compute_peak* peak = &out->compute[out->compute_count++];
    peak->type = loop->type;
    snprintf(peak->isa, sizeof(peak->isa), "%s", carnot_isa_name((carnot_isa)loop->isa));
    work w = {.loop = loop};
    raise_to(&peak->one_thread_gops,
             time_parts(executor, &w, 1, seconds) * loop->operations * 1e-9);
    raise_to(&peak->all_threads_gops, peak->one_thread_gops);
    if (out->thread_count > 1)
      raise_to(&peak->all_threads_gops, time_parts(executor, &w, out->thread_count, seconds) *
                                            loop->operations * 1e-9 * out->thread_count);
  }
}

// The size of data cache |level| in bytes; 0 when the system does not report it.
static double cache_bytes(int level) {
  for (int i = 0; i < 8; i++) {
    char path[128], text[64] = "";
    int found = 0;
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
    FILE* file = fopen(path, "r");
    if (!file) return 0;
    bool read = fscanf(file, "%d", &found) == 1;
    fclose(file);
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
    file = fopen(path, "r");
    if (file) read = fscanf(file, "%63s", text) == 1 && read, fclose(file);
    if (!read || found != level || strcmp(text, "Instruction") == 0) continue;
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
    file = fopen(path, "r");
    if (!file) return 0;
    double size = 0;
    char unit = 'B';
    if (fscanf(file, "%lf%c", &size, &unit) < 1) size = 0;
    fclose(file);
    return size * (unit == 'K' ? 1024 : unit == 'M' ? 1048576 : 1);
  }
  return 0;
}

static carnot_status* measure_level(carnot_executor* executor, carnot_memory_peak* level,
                                    size_t part_bytes, int threads, double seconds) {
  size_t total = part_bytes * (size_t)threads;
  char* memory = mmap(NULL, total * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CARNOT_NO_MEMORY(total * 2, "measuring bandwidth");
  memset(memory, 1, total * 2);
  for (int copies = 0; copies < 2; copies++) {
    // A copy touches two buffers: each is half as large, so that both fit the level.
    work w = {.src = memory,
              .dst = memory + total,
              .bytes = copies ? part_bytes / 2 & ~(size_t)4095 : part_bytes,
              .copies = copies};
    double scale = (double)w.bytes * (copies ? 2 : 1) * 1e-9;
    double *one = copies ? &level->copy_one_thread_gbs : &level->read_one_thread_gbs,
           *all = copies ? &level->copy_all_threads_gbs : &level->read_all_threads_gbs;
    raise_to(one, time_parts(executor, &w, 1, seconds) * scale);
    raise_to(all, *one);
    if (threads > 1) raise_to(all, time_parts(executor, &w, threads, seconds) * scale * threads);
  }
  munmap(memory, total * 2);
  return NULL;
}

static carnot_status* measure_levels(carnot_executor* executor, double seconds, bool memory_too,
                                     carnot_machine_peaks* out) {
  double largest = 0;
  out->memory_count = 0;
  for (int level = 1; level <= 4; level++) {
    double bytes = cache_bytes(level);
    if (bytes == 0) continue;
    carnot_memory_peak* l = &out->memory[out->memory_count++];
    snprintf(l->name, sizeof(l->name), "L%d", level);
    l->bytes = bytes;
    // Shared caches are shared out; the first levels belong to a thread each.
    double part = level <= 2 ? bytes / 2 : bytes / 2 / out->thread_count;
    if (part > 64e6) part = 64e6;
    CARNOT_TRY(
        measure_level(executor, l, (size_t)part & ~(size_t)8191, out->thread_count, seconds));
    largest = bytes;
  }
  carnot_memory_peak* l = &out->memory[out->memory_count++];
  if (!memory_too) return NULL;
  snprintf(l->name, sizeof(l->name), "DRAM");
  double total = 4 * largest;
  if (total < 256e6) total = 256e6;
  if (total > 1.5e9) total = 1.5e9;
  l->bytes = total;
  return measure_level(executor, l, (size_t)(total / out->thread_count) & ~(size_t)8191,
                       out->thread_count, seconds * kPasses);
}

// Seconds of a clock.
static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Several passes, best of all: what disturbs one figure for a while has gone when its turn comes
// again.
static carnot_status* measure_passes(carnot_executor* executor, double seconds_each,
                                     carnot_machine_peaks* out) {
  double wall = seconds_of(CLOCK_MONOTONIC), ran = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  for (int pass = 0; pass < kPasses; pass++) {
    measure_peaks(executor, seconds_each / kPasses, out);
    CARNOT_TRY(measure_levels(executor, seconds_each / kPasses, pass == 0, out));
  }
  wall = seconds_of(CLOCK_MONOTONIC) - wall;
  ran = seconds_of(CLOCK_THREAD_CPUTIME_ID) - ran;
  out->availability = fmax(out->availability, wall > 0 ? fmin(ran / wall, 1) : 1);
  return NULL;
}

carnot_status* carnot_machine_measure_cpu(int threads, double seconds_each,
                                          carnot_machine_peaks* out) {
  *out = (carnot_machine_peaks){0};
  carnot_executor* executor;
  CARNOT_TRY(carnot_executor_create(threads, &executor));
  out->thread_count = carnot_executor_thread_count(executor);
  bool begun = carnot_executor_begin(executor);
  carnot_status* status = NULL;
  enum { kAttempts = 2 };
  for (int i = 0; !status && i < kAttempts && out->availability < CARNOT_QUIET_AVAILABILITY; i++)
    status = measure_passes(executor, seconds_each, out);
  if (begun) carnot_executor_end(executor);
  carnot_executor_destroy(executor);
  return status;
}
