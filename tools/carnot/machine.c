// What the machine can do, measured: multiply-add loops that stay in registers, reads and copies at
// each cache's size.
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "backend/device.h"
#include "cli.h"
#include "machine_loops.h"

enum { kPasses = 5 };

typedef struct work {
  const cli_peak_loop* loop;
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
    cli_copy_bytes(w->dst + (size_t)part * w->bytes, w->src + (size_t)part * w->bytes, w->bytes,
                   w->rounds);
  else
    cli_read_bytes(w->src + (size_t)part * w->bytes, w->bytes, w->rounds);
}

// Seconds of |parts| parts at once, the best of several tries within |seconds|.
static double time_parts(carnot_executor* executor, work* w, int parts, double seconds) {
  double best = 0;
  w->rounds = 1;
  double end = cli_now_ms() + seconds * 1e3;
  do {
    double start = cli_now_ms();
    if (parts == 1)
      run_loop(w, 0);
    else
      carnot_executor_parallel(executor, parts, run_loop, w);
    double took = (cli_now_ms() - start) * 1e-3;
    if ((double)w->rounds / took > best) best = (double)w->rounds / took;
    if (took < 5e-4) w->rounds *= 2;  // many short tries: one of them is undisturbed
  } while (cli_now_ms() < end);
  return best;
}

static void raise_to(double* best, double value) {
  if (value > *best) *best = value;
}

static void measure_peaks(carnot_executor* executor, double seconds, cli_machine* out) {
  carnot_isa machine = carnot_isa_of_machine();
  out->peak_count = 0;
  for (const cli_peak_loop* loop = cli_peak_loops; loop->run; loop++) {
    if ((int)machine < loop->isa || out->peak_count == 16) continue;
    cli_peak* peak = &out->peaks[out->peak_count++];
    peak->type = loop->type;
    peak->isa = carnot_isa_name((carnot_isa)loop->isa);
    work w = {.loop = loop};
    raise_to(&peak->one, time_parts(executor, &w, 1, seconds) * loop->operations * 1e-9);
    raise_to(&peak->all, peak->one);
    if (out->threads > 1)
      raise_to(&peak->all, time_parts(executor, &w, out->threads, seconds) * loop->operations *
                               1e-9 * out->threads);
  }
}

// The size of data cache |level| in bytes; 0 when the system does not tell.
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

static carnot_status* measure_level(carnot_executor* executor, cli_level* level, size_t part_bytes,
                                    int threads, double seconds) {
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
    double *one = copies ? &level->copy_one : &level->read_one,
           *all = copies ? &level->copy_all : &level->read_all;
    raise_to(one, time_parts(executor, &w, 1, seconds) * scale);
    raise_to(all, *one);
    if (threads > 1) raise_to(all, time_parts(executor, &w, threads, seconds) * scale * threads);
  }
  munmap(memory, total * 2);
  return NULL;
}

static carnot_status* measure_levels(carnot_executor* executor, double seconds, bool memory_too,
                                     cli_machine* out) {
  double largest = 0;
  out->level_count = 0;
  for (int level = 1; level <= 4; level++) {
    double bytes = cache_bytes(level);
    if (bytes == 0) continue;
    cli_level* l = &out->levels[out->level_count++];
    snprintf(l->name, sizeof(l->name), "L%d", level);
    l->bytes = bytes;
    // Shared caches are shared out; the first levels belong to a thread each.
    double part = level <= 2 ? bytes / 2 : bytes / 2 / out->threads;
    if (part > 64e6) part = 64e6;
    CARNOT_TRY(measure_level(executor, l, (size_t)part & ~(size_t)8191, out->threads, seconds));
    largest = bytes;
  }
  cli_level* l = &out->levels[out->level_count++];
  if (!memory_too) return NULL;
  snprintf(l->name, sizeof(l->name), "DRAM");
  double total = 4 * largest;
  if (total < 256e6) total = 256e6;
  if (total > 1.5e9) total = 1.5e9;
  l->bytes = total;
  return measure_level(executor, l, (size_t)(total / out->threads) & ~(size_t)8191, out->threads,
                       seconds * kPasses);
}

carnot_status* cli_measure_machine(int threads, double seconds_each, cli_machine* out) {
  *out = (cli_machine){0};
  carnot_executor* executor;
  CARNOT_TRY(carnot_executor_create(threads, &executor));
  out->threads = carnot_executor_thread_count(executor);
  bool begun = carnot_executor_begin(executor);
  // Several passes, best of all: what disturbs one figure for a while has gone when its turn comes
  // again.
  carnot_status* status = NULL;
  for (int pass = 0; !status && pass < kPasses; pass++) {
    measure_peaks(executor, seconds_each / kPasses, out);
    status = measure_levels(executor, seconds_each / kPasses, pass == 0, out);
  }
  if (begun) carnot_executor_end(executor);
  carnot_executor_destroy(executor);
  return status;
}

carnot_status* cli_measure_device(carnot_device* device, cli_machine* out) {
  carnot_device_peaks p;
  CARNOT_TRY(device->backend->measure(device, &p));
  *out = (cli_machine){.is_device = true,
                       .threads = 1,
                       .peak_count = 3,
                       .peaks = {{"f32", device->arch, p.f32_gflops, p.f32_gflops},
                                 {"f16", device->arch, p.f16_gflops, p.f16_gflops},
                                 {"bf16", device->arch, p.bf16_gflops, p.bf16_gflops}},
                       .level_count = 1,
                       .levels = {{"memory", (double)device->memory_bytes, p.copy_gbs, p.copy_gbs,
                                   p.copy_gbs, p.copy_gbs}},
                       .launch_us = p.launch_us,
                       .early_launch_us = p.early_launch_us};
  return NULL;
}

// As peaks are named.
static const char* type_of(const char* precision) {
  return strcmp(precision, "float16") == 0    ? "f16"
         : strcmp(precision, "bfloat16") == 0 ? "bf16"
                                              : "f32";
}

double cli_machine_limit_us(const cli_machine* machine, const char* tactic, const char* precision,
                            double flops, double bytes) {
  const char* type = machine->is_device       ? type_of(precision)
                     : strstr(tactic, "u8s8") ? "int8"
                     : strstr(tactic, "bf16") ? "bf16"
                     : strstr(tactic, "f64")  ? "f64"
                                              : "f32";
  double peak = 0, bandwidth = 0;
  for (int i = 0; i < machine->peak_count; i++)
    if (strcmp(machine->peaks[i].type, type) == 0 && machine->peaks[i].all > peak)
      peak = machine->peaks[i].all;
  // A layer's operands may lie in any cache that holds them.
  for (int i = 0; i < machine->level_count && bandwidth == 0; i++) {
    double room = machine->levels[i].bytes * (i < 2 ? machine->threads : 1);
    if (bytes <= room || i + 1 == machine->level_count) bandwidth = machine->levels[i].read_all;
  }
  double compute = peak > 0 ? flops / peak * 1e-3 : 0,
         moving = bandwidth > 0 ? bytes / bandwidth * 1e-3 : 0;
  return compute > moving ? compute : moving;
}
