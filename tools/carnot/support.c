// Memory, whole files, text and time for the command line.
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// ---- memory ----

enum { kAlignment = 64 };

struct cli_arena_block {
  cli_arena_block* next;
};

void cli_arena_deinit(cli_arena* arena) {
  for (size_t i = 0; i < arena->data_count; i++) carnot_data_destroy(arena->data[i]);
  free(arena->data);
  while (arena->blocks) {
    cli_arena_block* block = arena->blocks;
    arena->blocks = block->next;
    free(block);
  }
  *arena = (cli_arena){0};
}

carnot_status* cli_arena_try(cli_arena* arena, size_t bytes, const char* what, void** out_memory) {
  *out_memory = NULL;
  if (bytes > SIZE_MAX - 2 * kAlignment) return CLI_NO_MEMORY(bytes, what);
  cli_arena_block* block = calloc(1, bytes + 2 * kAlignment);
  if (!block) return CLI_NO_MEMORY(bytes, what);
  block->next = arena->blocks;
  arena->blocks = block;
  *out_memory = (void*)(((uintptr_t)(block + 1) + kAlignment - 1) & ~(uintptr_t)(kAlignment - 1));
  return NULL;
}

void* cli_arena_alloc(cli_arena* arena, size_t count, size_t size) {
  void* memory;
  if (cli_arena_try(arena, count * size, "the command line", &memory)) abort();
  return memory;
}

char* cli_arena_text(cli_arena* arena, const char* text, size_t length) {
  char* copy = cli_arena_alloc(arena, length + 1, 1);
  memcpy(copy, text, length);
  return copy;
}

carnot_status* cli_arena_own(cli_arena* arena, carnot_data* data) {
  void* items = arena->data;
  carnot_status* status =
      cli_grow(&items, &arena->data_capacity, arena->data_count + 1, sizeof(data), "tensors");
  if (status) {
    carnot_data_destroy(data);
    return status;
  }
  arena->data = items;
  arena->data[arena->data_count++] = data;
  return NULL;
}

carnot_status* cli_grow(void** items, size_t* capacity, size_t count, size_t size,
                        const char* what) {
  if (count <= *capacity) return NULL;
  size_t wanted = *capacity ? 2 * *capacity : 16;
  if (wanted < count) wanted = count;
  void* grown = wanted <= SIZE_MAX / size ? realloc(*items, wanted * size) : NULL;
  if (!grown) return CLI_NO_MEMORY(wanted * size, what);
  *items = grown;
  *capacity = wanted;
  return NULL;
}

// ---- files ----

carnot_status* cli_map_file(const char* path, cli_mapping* out_map) {
  *out_map = (cli_mapping){0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  CLI_CHECK(file >= 0, IO, "cannot open %s: %s", path, strerror(errno));
  struct stat facts;
  carnot_status* status = NULL;
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    status = CLI_ERROR(IO, "%s is no regular file", path);
  } else if (facts.st_size > 0) {
    void* data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
      status = CLI_ERROR(IO, "cannot map %lld bytes of %s: %s", (long long)facts.st_size, path,
                         strerror(errno));
    else
      *out_map = (cli_mapping){data, (size_t)facts.st_size};
  }
  close(file);
  return status;
}

void cli_unmap(cli_mapping* map) {
  if (map->data) munmap((void*)(uintptr_t)map->data, map->size);
  *map = (cli_mapping){0};
}

carnot_status* cli_make_folder(const char* path) {
  char part[4096];
  for (size_t i = 1; path[i - 1] && i < sizeof(part); i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    snprintf(part, sizeof(part), "%.*s", (int)i, path);
    if (mkdir(part, 0777) != 0) {
      struct stat facts;
      CLI_CHECK(stat(part, &facts) == 0 && S_ISDIR(facts.st_mode), IO, "cannot make the folder %s",
                part);
    }
  }
  return NULL;
}

void cli_safe_name(const char* name, char* out, size_t size) {
  size_t at = 0;
  for (; *name && at + 1 < size; name++) {
    bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                 (*name >= '0' && *name <= '9') || *name == '.' || *name == '-';
    out[at++] = plain ? *name : '_';
  }
  out[at] = 0;
}

// ---- text and time ----

void cli_dims_text(const carnot_dims* dims, char* out, size_t size) {
  size_t at = (size_t)snprintf(out, size, "[");
  for (int d = 0; d < dims->rank && at < size; d++)
    at += (size_t)snprintf(out + at, size - at, d ? ",%lld" : "%lld", (long long)dims->d[d]);
  if (at < size) snprintf(out + at, size - at, "]");
}

double cli_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// From /proc: getrusage would count the process that started this one too.
double cli_peak_rss_mb(void) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  double mb = 0;
  while (file && fgets(line, sizeof(line), file))
    if (strncmp(line, "VmHWM:", 6) == 0) mb = strtod(line + 6, NULL) / 1024;
  if (file) fclose(file);
  return mb;
}

int cli_distance(const char* a, const char* b) {
  int row[65];
  size_t n = strlen(b);
  if (n > 64) return 999;
  for (size_t j = 0; j <= n; j++) row[j] = (int)j;
  for (size_t i = 1; a[i - 1]; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= n; j++) {
      int cost = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < cost) cost = row[j] + 1;
      if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
      row[j] = cost;
    }
  }
  return row[n];
}

int cli_nearest_limit(const char* name) {
  int length = (int)strlen(name);
  return length / 3 + 1 + (length > 1);
}
