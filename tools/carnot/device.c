// carnot device: what this machine is, and what it was measured to do.
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "carnot/machine.h"
#include "cli.h"
#include "layer_limits.h"
#include "log.h"
#include "roofline.h"

const cli_flag cli_device_flags[] = {
    {"backend", CLI_VALUE, CLI_WORKS, "cpu, cuda or cuda:N"},
    {"json", CLI_NO_VALUE, CLI_WORKS, "print JSON"},
    {"threads", CLI_VALUE, CLI_WORKS, "threads to measure with; 0: one for each processor"},
    {"no-measure", CLI_NO_VALUE, CLI_WORKS, "print facts only"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

static void processor_name(char* out, size_t size) {
  snprintf(out, size, "unknown processor");
  FILE* file = fopen("/proc/cpuinfo", "r");
  char line[512];
  while (file && fgets(line, sizeof(line), file)) {
    char* colon = strchr(line, ':');
    if (!colon || strncmp(line, "model name", 10) != 0) continue;
    colon[strcspn(colon, "\n")] = 0;
    snprintf(out, size, "%s", colon + 2);
    break;
  }
  if (file) fclose(file);
}

static json_t* library_json(const carnot_library_info* library) {
  return json_pack("{s:s,s:s,s:s}", "name", library->name, "version", library->version, "missing",
                   library->missing);
}

static void print_library(const carnot_library_info* library) {
  printf("  %-12s %s\n", library->name, library->missing[0] ? library->missing : library->version);
}

static void print_json(const char* processor, const carnot_machine_peaks* m) {
  char reason[128];
  const char* name;
  json_t* isas = json_array();
  for (int i = 0; (name = carnot_isa_level_name(i)) != NULL; i++) {
    bool usable = carnot_isa_level_is_usable(i, reason, sizeof(reason));
    json_array_append_new(
        isas, json_pack("{s:s,s:b,s:s}", "name", name, "usable", usable, "why_not", reason));
  }
  json_t* root = json_pack(
      "{s:s,s:i,s:i,s:o}", "processor", processor, "processors_online",
      (int)sysconf(_SC_NPROCESSORS_ONLN), "memory_mb",
      (int)((double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) * 1e-6), "isas", isas);
  carnot_library_info library;
  carnot_cpu_get_library(&library);
  json_object_set_new(root, "libraries", json_pack("[o]", library_json(&library)));
  if (m->memory_count) json_object_set_new(root, "measured", cli_machine_json(m));
  json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  putchar('\n');
  json_decref(root);
}

static void print_text(const char* processor, const carnot_machine_peaks* m) {
  char reason[128];
  const char* name;
  printf("%s, %ld processors online, %.1f GB of memory\n", processor, sysconf(_SC_NPROCESSORS_ONLN),
         (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) * 1e-9);
  for (int i = 0; (name = carnot_isa_level_name(i)) != NULL; i++) {
    bool usable = carnot_isa_level_is_usable(i, reason, sizeof(reason));
    printf("  %-12s %s%s\n", name, usable ? "usable" : "not usable: ", reason);
  }
  carnot_library_info library;
  carnot_cpu_get_library(&library);
  print_library(&library);
  if (!m->memory_count) return;
  printf("\n%-6s %-11s %14s %14s   in 1e9 operations a second, %d threads\n", "type", "ISA",
         "one thread", "all threads", m->thread_count);
  for (int i = 0; i < m->compute_count; i++)
    printf("%-6s %-11s %14.1f %14.1f\n", m->compute[i].type, m->compute[i].isa,
           m->compute[i].one_thread_gops, m->compute[i].all_threads_gops);
  printf("\n%-6s %10s %10s %10s %10s %10s   in GB/s\n", "level", "MB", "read one", "read all",
         "copy one", "copy all");
  for (int i = 0; i < m->memory_count; i++) {
    const carnot_memory_peak* l = &m->memory[i];
    printf("%-6s %10.3f %10.1f %10.1f %10.1f %10.1f\n", l->name, l->bytes * 1e-6,
           l->read_one_thread_gbs, l->read_all_threads_gbs, l->copy_one_thread_gbs,
           l->copy_all_threads_gbs);
  }
}

// ---- accelerators ----

static void print_device(const carnot_device_info* d, const carnot_machine_peaks* m) {
  printf("%s, %s:%s, %d multiprocessors, %.1f GB of memory\n", d->name, d->backend, d->arch,
         d->multiprocessor_count, (double)d->memory_bytes * 1e-9);
  for (size_t i = 0; i < d->library_count; i++) print_library(&d->libraries[i]);
  if (!m->memory_count) return;
  for (int i = 0; i < m->compute_count; i++)
    printf("  %-5s %10.1f  in 1e12 operations a second\n", m->compute[i].type,
           m->compute[i].all_threads_gops * 1e-3);
  printf("  copy  %10.1f  in GB/s, bytes read and written\n", m->memory[0].copy_all_threads_gbs);
  printf("  from kernel to kernel in a graph %.2f us, %.2f where the next begins early\n",
         m->launch_us, m->early_launch_us);
}

static void print_device_json(const carnot_device_info* d, const carnot_machine_peaks* m) {
  json_t* listed = json_array();
  for (size_t i = 0; i < d->library_count; i++)
    json_array_append_new(listed, library_json(&d->libraries[i]));
  json_t* root = json_pack("{s:s,s:s,s:i,s:f,s:o}", "device", d->name, "arch", d->arch,
                           "multiprocessors", d->multiprocessor_count, "memory_bytes",
                           (double)d->memory_bytes, "libraries", listed);
  if (m->memory_count) {
    json_t* peaks = json_object();
    for (int i = 0; i < m->compute_count; i++)
      json_object_set_new(peaks, m->compute[i].type, json_real(m->compute[i].all_threads_gops));
    json_t* measured = json_pack("{s:o,s:f,s:f,s:f}", "gflops", peaks, "copy_gbs",
                                 m->memory[0].copy_all_threads_gbs, "launch_us", m->launch_us,
                                 "early_launch_us", m->early_launch_us);
    json_object_set_new(root, "measured", measured);
  }
  json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  putchar('\n');
  json_decref(root);
}

static carnot_status* show_device(const char* spec, bool json, bool measure) {
  carnot_device_info info;
  carnot_machine_peaks peaks = {.memory_count = 0};
  CLI_TRY(carnot_device_get_info(spec, &info));
  if (measure && info.is_present) CLI_TRY(carnot_machine_measure_device(spec, &peaks));
  (json ? print_device_json : print_device)(&info, &peaks);
  return NULL;
}

carnot_status* cli_device(cli_flags* flags) {
  long long threads = 0;
  CLI_TRY(cli_flag_int(flags, "threads", 0, 1024, &threads));
  bool json = cli_flag_set(flags, "json"), measure = !cli_flag_set(flags, "no-measure");
  const char* backend = cli_flag_text(flags, "backend");
  if (backend && strcmp(backend, "cpu") != 0) return show_device(backend, json, measure);
  carnot_machine_peaks peaks = {.memory_count = 0};
  cli_say_phase("measuring the machine");
  if (measure) CLI_TRY(carnot_machine_measure_cpu((int)threads, 0.1, &peaks));
  cli_end_progress();
  if (measure) cli_warn_if_busy(&peaks);
  char processor[256];
  processor_name(processor, sizeof(processor));
  (json ? print_json : print_text)(processor, &peaks);
  return NULL;
}
