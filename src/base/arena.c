// The arena, and checked heap functions.
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { kBlockBytes = 64 * 1024, kAlignment = 16 };

struct carnot_arena_block {
  carnot_arena_block* next;
  size_t used, size;
  _Alignas(16) char data[];
};

void carnot_arena_init(carnot_arena* arena) { memset(arena, 0, sizeof(*arena)); }

void carnot_arena_deinit(carnot_arena* arena) {
  for (carnot_arena_block* block = arena->blocks; block;) {
    carnot_arena_block* next = block->next;
    free(block);
    block = next;
  }
  carnot_arena_init(arena);
}

void carnot_arena_reset(carnot_arena* arena) {
  carnot_arena_block* block = arena->blocks;
  if (block && block->next) {
    // More than one block was needed: the next time one block of the whole size will do.
    size_t size = 0;
    for (carnot_arena_block* b = block; b; b = b->next) size += b->size;
    carnot_arena_deinit(arena);
    block = calloc(1, sizeof(*block) + size);
    if (block) block->size = size;
    arena->blocks = block;
  } else if (block) {
    memset(block->data, 0, block->used);
    block->used = 0;
  }
  arena->used_bytes = 0;
}

// NULL when there is no memory.
static void* take(carnot_arena* arena, size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) return NULL;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  carnot_arena_block* block = arena->blocks;
  if (!block || block->size - block->used < bytes) {
    size_t size = bytes > kBlockBytes ? bytes : kBlockBytes;
    if (size > SIZE_MAX - sizeof(*block)) return NULL;
    carnot_arena_block* fresh = calloc(1, sizeof(*fresh) + size);
    if (!fresh) return NULL;
    fresh->size = size;
    // A block for one large item goes behind the current one, which still has room.
    if (block && bytes > kBlockBytes / 2) {
      fresh->next = block->next;
      block->next = fresh;
    } else {
      fresh->next = block;
      arena->blocks = fresh;
    }
    block = fresh;
  }
  void* memory = block->data + block->used;
  block->used += bytes;
  arena->used_bytes += bytes;
  return memory;
}

carnot_status* carnot_arena_try(carnot_arena* arena, size_t count, size_t size, const char* what,
                                void** out_memory) {
  *out_memory = NULL;
  size_t bytes;
  CARNOT_CHECK(carnot_mul_size(count, size, &bytes), OUT_OF_RANGE,
               "%s: %zu items of %zu bytes overflow", what, count, size);
  *out_memory = take(arena, bytes);
  return *out_memory ? NULL : CARNOT_NO_MEMORY(bytes, what);
}

void* carnot_arena_alloc(carnot_arena* arena, size_t count, size_t size) {
  size_t bytes;
  void* memory = carnot_mul_size(count, size, &bytes) ? take(arena, bytes) : NULL;
  if (!memory) {
    fprintf(stderr, "carnot: no memory for %zu items of %zu bytes\n", count, size);
    abort();
  }
  return memory;
}

char* carnot_arena_text(carnot_arena* arena, const char* text, size_t length) {
  char* copy = carnot_arena_alloc(arena, length + 1, 1);
  if (length) memcpy(copy, text, length);
  return copy;
}

void* carnot_arena_copy(carnot_arena* arena, const void* data, size_t bytes) {
  void* copy = carnot_arena_alloc(arena, bytes ? bytes : 1, 1);
  if (bytes) memcpy(copy, data, bytes);
  return copy;
}

char* carnot_arena_print(carnot_arena* arena, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0) length = 0;
  char* text = carnot_arena_alloc(arena, (size_t)length + 1, 1);
  va_start(args, format);
  vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}

carnot_status* carnot_calloc(size_t count, size_t size, const char* what, void** out_memory) {
  *out_memory = calloc(count ? count : 1, size ? size : 1);
  if (*out_memory) return NULL;
  return CARNOT_ERROR(OUT_OF_MEMORY, "no memory for %zu items of %zu bytes of %s", count, size,
                      what);
}

carnot_status* carnot_grow(void** items, size_t* capacity, size_t count, size_t size,
                           const char* what) {
  if (count <= *capacity) return NULL;
  size_t wanted = *capacity < 8 ? 8 : *capacity * 2;
  if (wanted < count) wanted = count;
  size_t bytes;
  CARNOT_CHECK(carnot_mul_size(wanted, size, &bytes), OUT_OF_RANGE,
               "%s: %zu items of %zu bytes overflow", what, wanted, size);
  void* grown = realloc(*items, bytes);
  if (!grown) return CARNOT_NO_MEMORY(bytes, what);
  memset((char*)grown + *capacity * size, 0, (wanted - *capacity) * size);
  *items = grown;
  *capacity = wanted;
  return NULL;
}
