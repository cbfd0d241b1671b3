// carnot device: what this machine is, and what it was measured to do.
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/device.h"
#include "cli.h"

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

// NULL when this machine can run |isa|, else why not.
static const char* why_not(carnot_isa isa, char* text, size_t size) {
  carnot_isa usable = carnot_isa_of_machine();
  if (isa <= usable) return NULL;
  const char* forced = getenv("CARNOT_ISA");
  if (forced && carnot_isa_find(forced) < isa) {
    snprintf(text, size, "CARNOT_ISA=%s forbids it", forced);
    return text;
  }
  snprintf(text, size, "%s", carnot_isa_lacks(isa));
  return text;
}

static json_t* machine_json(const cli_machine* m) {
  json_t *peaks = json_array(), *levels = json_array();
  for (int i = 0; i < m->peak_count; i++)
    json_array_append_new(
        peaks, json_pack("{s:s,s:s,s:f,s:f}", "type", m->peaks[i].type, "isa", m->peaks[i].isa,
                         "gops_one_thread", m->peaks[i].one, "gops_all_threads", m->peaks[i].all));
  for (int i = 0; i < m->level_count; i++) {
    const cli_level* l = &m->levels[i];
    json_array_append_new(
        levels, json_pack("{s:s,s:f,s:f,s:f,s:f,s:f}", "name", l->name, "bytes", l->bytes,
                          "read_gbs_one_thread", l->read_one, "read_gbs_all_threads", l->read_all,
                          "copy_gbs_one_thread", l->copy_one, "copy_gbs_all_threads", l->copy_all));
  }
  return json_pack("{s:i,s:o,s:o}", "threads", m->threads, "peaks", peaks, "levels", levels);
}

static void print_json(const char* name, const cli_machine* m) {
  char text[128];
  json_t* isas = json_array();
  for (int i = 0; i < CARNOT_ISA_COUNT; i++) {
    const char* reason = why_not((carnot_isa)i, text, sizeof(text));
    json_array_append_new(isas, json_pack("{s:s,s:b,s:s}", "name", carnot_isa_name((carnot_isa)i),
                                          "usable", !reason, "why_not", reason ? reason : ""));
  }
  json_t* root = json_pack(
      "{s:s,s:i,s:i,s:o}", "processor", name, "processors_online",
      (int)sysconf(_SC_NPROCESSORS_ONLN), "memory_mb",
      (int)((double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) * 1e-6), "isas", isas);
  if (m->level_count) json_object_set_new(root, "measured", machine_json(m));
  json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  putchar('\n');
  json_decref(root);
}

static void print_text(const char* name, const cli_machine* m) {
  char text[128];
  printf("%s, %ld processors online, %.1f GB of memory\n", name, sysconf(_SC_NPROCESSORS_ONLN),
         (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) * 1e-9);
  for (int i = 0; i < CARNOT_ISA_COUNT; i++) {
    const char* reason = why_not((carnot_isa)i, text, sizeof(text));
    printf("  %-11s %s%s\n", carnot_isa_name((carnot_isa)i), reason ? "not usable: " : "usable",
           reason ? reason : "");
  }
  if (!m->level_count) return;
  printf("\n%-6s %-11s %14s %14s   in 1e9 operations a second, %d threads\n", "type", "ISA",
         "one thread", "all threads", m->threads);
  for (int i = 0; i < m->peak_count; i++)
    printf("%-6s %-11s %14.1f %14.1f\n", m->peaks[i].type, m->peaks[i].isa, m->peaks[i].one,
           m->peaks[i].all);
  printf("\n%-6s %10s %10s %10s %10s %10s   in GB/s\n", "level", "MB", "read one", "read all",
         "copy one", "copy all");
  for (int i = 0; i < m->level_count; i++) {
    const cli_level* l = &m->levels[i];
    printf("%-6s %10.3f %10.1f %10.1f %10.1f %10.1f\n", l->name, l->bytes * 1e-6, l->read_one,
           l->read_all, l->copy_one, l->copy_all);
  }
}

// ---- accelerators ----

enum { kMostLibraries = 8 };

static void print_device(carnot_device* d, const cli_machine* m) {
  printf("%s, %s:%s, %d multiprocessors, %.1f GB of memory\n", d->name, d->backend->name, d->arch,
         d->multiprocessor_count, (double)d->memory_bytes * 1e-9);
  carnot_device_library libraries[kMostLibraries];
  size_t count = d->backend->libraries(d, libraries, kMostLibraries);
  for (size_t i = 0; i < count; i++)
    printf("  %-12s %s\n", libraries[i].name,
           libraries[i].missing[0] ? libraries[i].missing : libraries[i].version);
  if (!m->level_count) return;
  for (int i = 0; i < m->peak_count; i++)
    printf("  %-5s %10.1f  in 1e12 operations a second\n", m->peaks[i].type,
           m->peaks[i].all * 1e-3);
  printf("  copy  %10.1f  in GB/s, bytes read and written\n", m->levels[0].copy_all);
  printf("  from kernel to kernel in a graph %.2f us, %.2f where the next begins early\n",
         m->launch_us, m->early_launch_us);
}

static void print_device_json(carnot_device* d, const cli_machine* m) {
  carnot_device_library libraries[kMostLibraries];
  size_t count = d->backend->libraries(d, libraries, kMostLibraries);
  json_t* listed = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(listed, json_pack("{s:s,s:s,s:s}", "name", libraries[i].name, "version",
                                            libraries[i].version, "missing", libraries[i].missing));
  json_t* root = json_pack("{s:s,s:s,s:i,s:f,s:o}", "device", d->name, "arch", d->arch,
                           "multiprocessors", d->multiprocessor_count, "memory_bytes",
                           (double)d->memory_bytes, "libraries", listed);
  if (m->level_count) {
    json_t* peaks = json_object();
    for (int i = 0; i < m->peak_count; i++)
      json_object_set_new(peaks, m->peaks[i].type, json_real(m->peaks[i].all));
    json_t* measured =
        json_pack("{s:o,s:f,s:f,s:f}", "gflops", peaks, "copy_gbs", m->levels[0].copy_all,
                  "launch_us", m->launch_us, "early_launch_us", m->early_launch_us);
    json_object_set_new(root, "measured", measured);
  }
  json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  putchar('\n');
  json_decref(root);
}

static carnot_status* show_device(const char* spec, bool json, bool measure) {
  carnot_device* device;
  cli_machine machine = {.level_count = 0};
  CARNOT_TRY(carnot_device_open(spec, &device));
  if (measure && device->ordinal >= 0) CARNOT_TRY(cli_measure_device(device, &machine));
  (json ? print_device_json : print_device)(device, &machine);
  return NULL;
}

carnot_status* cli_device(cli_flags* flags) {
  static const char* const kKnown[] = {"json", "threads", "no-measure", "backend", NULL};
  long long threads = 0;
  CARNOT_TRY(cli_flag_int(flags, "threads", 0, 1024, &threads));
  bool json = cli_flag_set(flags, "json"), measure = !cli_flag_set(flags, "no-measure");
  const char* backend = cli_flag_text(flags, "backend");
  CARNOT_TRY(cli_flags_finish(flags, kKnown));
  if (backend && strcmp(backend, "cpu") != 0) return show_device(backend, json, measure);
  cli_machine machine = {0};
  if (measure) CARNOT_TRY(cli_measure_machine((int)threads, 0.1, &machine));
  char name[256];
  processor_name(name, sizeof(name));
  if (json)
    print_json(name, &machine);
  else
    print_text(name, &machine);
  return NULL;
}
