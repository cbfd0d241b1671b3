// The timing cache: a table of times by key and tactic, read from and written to a file.
#include "builder/measure/timing_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"

#define HEADER "carnot-timing-cache 3\n"
enum { kMaxTactic = 64, kMaxEntries = 1 << 22 };

typedef struct entry {
  uint64_t key, ns;
  char tactic[kMaxTactic];
} entry;

struct carnot_timing_cache {
  entry* items;  // sorted by key and tactic
  size_t count, capacity;
};

carnot_status* carnot_timing_cache_create(carnot_timing_cache** out_cache) {
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_timing_cache), "a timing cache", &memory));
  *out_cache = memory;
  return NULL;
}

void carnot_timing_cache_destroy(carnot_timing_cache* cache) {
  if (cache) free(cache->items);
  free(cache);
}

size_t carnot_timing_cache_count(const carnot_timing_cache* cache) { return cache->count; }

// The index of the entry, or of the place where it belongs.
static size_t place_of(const carnot_timing_cache* cache, uint64_t key, const char* tactic,
                       bool* out_found) {
  size_t low = 0, high = cache->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const entry* e = &cache->items[middle];
    int order = e->key != key ? (e->key < key ? -1 : 1) : strcmp(e->tactic, tactic);
    if (order == 0) {
      *out_found = true;
      return middle;
    }
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *out_found = false;
  return low;
}

bool carnot_timing_cache_find(const carnot_timing_cache* cache, uint64_t key, const char* tactic,
                              uint64_t* out_ns) {
  bool found;
  size_t at = place_of(cache, key, tactic, &found);
  if (found) *out_ns = cache->items[at].ns;
  return found;
}

carnot_status* carnot_timing_cache_add(carnot_timing_cache* cache, uint64_t key, const char* tactic,
                                       uint64_t ns) {
  CARNOT_CHECK(strlen(tactic) < kMaxTactic, INVALID_ARGUMENT, "tactic name '%s' is longer than %d",
               tactic, kMaxTactic - 1);
  CARNOT_CHECK(cache->count < kMaxEntries, OUT_OF_RANGE, "a timing cache holds at most %d entries",
               kMaxEntries);
  bool found;
  size_t at = place_of(cache, key, tactic, &found);
  if (found) return NULL;
  void* items = cache->items;
  CARNOT_TRY(
      carnot_grow(&items, &cache->capacity, cache->count + 1, sizeof(entry), "a timing cache"));
  cache->items = items;
  memmove(&cache->items[at + 1], &cache->items[at], (cache->count - at) * sizeof(entry));
  cache->items[at] = (entry){.key = key, .ns = ns};
  memcpy(cache->items[at].tactic, tactic, strlen(tactic) + 1);
  cache->count++;
  return NULL;
}

carnot_status* carnot_timing_cache_get_or_insert(carnot_timing_cache* cache, uint64_t key,
                                                 const char* tactic, uint64_t* ns) {
  if (carnot_timing_cache_find(cache, key, tactic, ns)) return NULL;
  return carnot_timing_cache_add(cache, key, tactic, *ns);
}

// One line "key tactic ns"; numbers are read by hand, independent of the locale.
static bool parse_line(const char* line, size_t length, entry* out) {
  size_t at = 0;
  *out = (entry){0};
  for (; at < length && at < 16; at++) {
    char c = line[at];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    out->key = out->key << 4 | (uint64_t)digit;
  }
  if (at != 16 || at >= length || line[at++] != ' ') return false;
  size_t start = at;
  for (; at < length && line[at] != ' '; at++)
    if (line[at] < '!' || line[at] > '~') return false;
  if (at == start || at - start >= kMaxTactic || at >= length) return false;
  memcpy(out->tactic, line + start, at - start);
  size_t digits = ++at;
  for (; at < length; at++) {
    if (line[at] < '0' || line[at] > '9' || at - digits >= 18) return false;
    out->ns = out->ns * 10 + (uint64_t)(line[at] - '0');
  }
  return at > digits;
}

carnot_status* carnot_timing_cache_read(carnot_timing_cache* cache, const char* text, size_t size) {
  size_t header = strlen(HEADER);
  CARNOT_CHECK(size >= header && memcmp(text, HEADER, header) == 0, INVALID_MODEL,
               "this is no timing cache of version 3: its first line must be '%.*s'",
               (int)header - 1, HEADER);
  size_t number = 1;
  for (size_t at = header; at < size; number++) {
    const char* end = memchr(text + at, '\n', size - at);
    size_t length = end ? (size_t)(end - text) - at : size - at;
    entry e;
    CARNOT_CHECK(parse_line(text + at, length, &e), INVALID_MODEL,
                 "line %zu of the timing cache is not 'KEY TACTIC NANOSECONDS'", number + 1);
    CARNOT_TRY(carnot_timing_cache_add(cache, e.key, e.tactic, e.ns));
    at += length + 1;
  }
  return NULL;
}

carnot_status* carnot_timing_cache_load(carnot_timing_cache* cache, const char* path) {
  if (access(path, F_OK) != 0 && errno == ENOENT) return NULL;
  carnot_mapping map;
  CARNOT_TRY(carnot_map_file(path, &map));
  carnot_status* status = map.size ? carnot_timing_cache_read(cache, map.data, map.size) : NULL;
  carnot_unmap(&map);
  return carnot_status_annotate(status, "%s", path);
}

carnot_status* carnot_timing_cache_print(carnot_timing_cache* cache, char** out_text,
                                         size_t* out_size) {
  *out_text = NULL;
  FILE* out = open_memstream(out_text, out_size);
  if (!out) return CARNOT_NO_MEMORY(cache->count * sizeof(entry), "the text of a timing cache");
  fputs(HEADER, out);
  for (size_t i = 0; i < cache->count; i++)
    fprintf(out, "%016" PRIx64 " %s %" PRIu64 "\n", cache->items[i].key, cache->items[i].tactic,
            cache->items[i].ns);
  fclose(out);
  return NULL;
}

typedef struct save {
  carnot_timing_cache* cache;
  const char* path;
} save;

// Adds what other processes wrote since this one read the file; their times stay.
static carnot_status* merge_and_write(void* user) {
  const save* s = user;
  CARNOT_TRY(carnot_timing_cache_load(s->cache, s->path));
  char* text;
  size_t size;
  CARNOT_TRY(carnot_timing_cache_print(s->cache, &text, &size));
  carnot_status* status = carnot_write_file(s->path, &(carnot_piece){text, size}, 1);
  free(text);
  return status;
}

carnot_status* carnot_timing_cache_save(carnot_timing_cache* cache, const char* path) {
  return carnot_with_file_lock(path, merge_and_write, &(save){cache, path});
}
