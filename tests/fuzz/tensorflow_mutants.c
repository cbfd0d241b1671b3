// tensorflow_mutants COUNT MODEL...: imports COUNT mutants of each TensorFlow model. Each is
// imported or refused; it takes at most 100 times the file's memory beside a fixed part. Ends with
// 1 and the number of the mutant where one takes more; a crash ends the process. The allocator of
// the library's own calls is replaced at link time.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/tensorflow/tensorflow.h"

enum { kFixed = 1 << 20, kTimes = 100 };

// ---- memory ----

static size_t g_live, g_peak;

void* __real_malloc(size_t size);
void* __real_calloc(size_t count, size_t size);
void* __real_realloc(void* memory, size_t size);
void* __real_aligned_alloc(size_t alignment, size_t size);
char* __real_strdup(const char* text);
void __real_free(void* memory);
void* __wrap_malloc(size_t size);
void* __wrap_calloc(size_t count, size_t size);
void* __wrap_realloc(void* memory, size_t size);
void* __wrap_aligned_alloc(size_t alignment, size_t size);
char* __wrap_strdup(const char* text);
void __wrap_free(void* memory);

static void* taken(void* memory) {
  g_live += malloc_usable_size(memory);
  if (g_live > g_peak) g_peak = g_live;
  return memory;
}
void* __wrap_malloc(size_t size) { return taken(__real_malloc(size)); }
void* __wrap_calloc(size_t count, size_t size) { return taken(__real_calloc(count, size)); }
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return taken(__real_aligned_alloc(alignment, size));
}
char* __wrap_strdup(const char* text) { return taken(__real_strdup(text)); }
void* __wrap_realloc(void* memory, size_t size) {
  const size_t before = malloc_usable_size(memory);
  void* moved = __real_realloc(memory, size);
  if (!moved) return NULL;
  g_live -= before;
  return taken(moved);
}
void __wrap_free(void* memory) {
  g_live -= malloc_usable_size(memory);
  __real_free(memory);
}

// ---- mutants ----

static uint32_t next(uint32_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

// |from| bytes moved to |to|, within |size|.
static void copy_within(uint8_t* data, size_t size, uint32_t* state) {
  const size_t length = 1 + next(state) % 32, from = next(state) % size, to = next(state) % size;
  const size_t most = size - (from > to ? from : to);
  memmove(data + to, data + from, length < most ? length : most);
}

// Changes bytes in place, which keeps most lengths of messages right, or cuts, repeats or leaves
// out a part; returns the new size, at most |capacity|.
static size_t mutate(uint8_t* data, size_t size, size_t capacity, uint32_t* state) {
  static const uint8_t kBytes[] = {0, 1, 2, 3, 0x7f, 0x80, 0xff, 0xfe, '^', ':'};
  for (int edits = 1 + (int)(next(state) % 4); edits > 0 && size > 1; edits--) {
    const size_t at = next(state) % size, part = 1 + next(state) % 64;
    switch (next(state) % 8) {
      case 0:
      case 1: data[at] ^= (uint8_t)(1u << next(state) % 8); break;
      case 2: data[at] = kBytes[next(state) % sizeof(kBytes)]; break;
      case 3: data[at] = (uint8_t)(data[at] + (next(state) % 2 ? 1 : -1)); break;
      case 4:
      case 5: copy_within(data, size, state); break;
      case 6:
        if (next(state) % 8 == 0) size = at + 1;
        break;
      default:
        if (next(state) % 2 && at + part < size) {
          memmove(data + at, data + at + part, size - at - part);
          size -= part;
        } else if (at + part < size && size + part <= capacity) {
          memmove(data + at + part, data + at, size - at);
          size += part;
        }
    }
  }
  return size;
}

// ---- imports ----

static bool import(const uint8_t* data, size_t size) {
  carnot_model_source* source = NULL;
  carnot_graph* graph = NULL;
  carnot_status* status = carnot_graph_create(&graph);
  if (!status) status = carnot_tf_import(NULL, data, size, NULL, graph, &source);
  const bool accepted = status == NULL;
  carnot_status_free(status);
  carnot_graph_destroy(graph);
  carnot_model_source_destroy(source);
  return accepted;
}

static int try_mutants(const char* path, const uint8_t* seed, size_t size, long count) {
  const size_t capacity = size + 4096;
  uint8_t* data = malloc(capacity);
  uint32_t state = 2463534242u;
  long accepted = 0;
  size_t most = 0;
  for (long i = 0; data && i < count; i++) {
    memcpy(data, seed, size);
    const size_t length = mutate(data, size, capacity, &state), before = g_live;
    g_peak = g_live;
    accepted += import(data, length);
    const size_t used = g_peak - before;
    if (used > most) most = used;
    if (used <= kFixed + kTimes * length) continue;
    fprintf(stderr, "%s: mutant %ld of %zu bytes takes %zu bytes\n", path, i, length, used);
    free(data);
    return 1;
  }
  printf("%s: %ld mutants, %ld imported, at most %zu bytes for %zu\n", path, count, accepted, most,
         size);
  free(data);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (int i = 2; i < argc; i++) {
    FILE* file = fopen(argv[i], "rb");
    static uint8_t seed[1 << 16];
    const size_t size = file ? fread(seed, 1, sizeof(seed), file) : 0;
    if (file) fclose(file);
    if (size < 2 || !import(seed, size)) {
      fprintf(stderr, "%s cannot be imported\n", argv[i]);
      return 2;
    }
    if (try_mutants(argv[i], seed, size, atol(argv[1]))) return 1;
  }
  return 0;
}
