// The arena, and checked heap functions.
#include "base/arena.h"

#include <stdio.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/pages.h"

enum { kAlignment = 16 };

size_t carnot_arena_block_bytes = 64 * 1024;

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
  free(arena->reserve);
  carnot_arena_init(arena);
}

// One block of the size of all blocks in their place. Without memory for it the first block stays.
static void merge_blocks(carnot_arena* arena) {
  size_t size = 0;
  for (carnot_arena_block* b = arena->blocks; b; b = b->next) size += b->size;
  carnot_arena_block* merged = calloc(1, sizeof(*merged) + size);
  if (merged) merged->size = size;
  carnot_arena_block* kept = merged ? merged : arena->blocks;
  for (carnot_arena_block* b = merged ? arena->blocks : kept->next; b;) {
    carnot_arena_block* next = b->next;
    free(b);
    b = next;
  }
  kept->next = NULL;
  arena->blocks = kept;
}

void carnot_arena_reset(carnot_arena* arena) {
  // More than one block was needed: the next time one block of the whole size will do.
  if (arena->blocks && arena->blocks->next) merge_blocks(arena);
  if (arena->blocks) {
    memset(arena->blocks->data, 0, arena->blocks->used);
    arena->blocks->used = 0;
  }
  arena->used_bytes = arena->reserve_bytes = 0;
  arena->failed = false;
}

// Weights of a large network cost a page fault every 4 KB otherwise.
static void want_huge_pages(void* memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
  const size_t before = -(uintptr_t)memory % CARNOT_HUGE_PAGE;
  if (bytes < before + CARNOT_HUGE_PAGE) return;
  madvise((char*)memory + before, (bytes - before) / CARNOT_HUGE_PAGE * CARNOT_HUGE_PAGE,
          MADV_HUGEPAGE);
#endif
}

// NULL when there is no memory.
static void* take(carnot_arena* arena, size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) return NULL;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (!arena->reserve && !(arena->reserve = malloc(CARNOT_ARENA_RESERVE_BYTES))) return NULL;
  carnot_arena_block* block = arena->blocks;
  if (!block || block->size - block->used < bytes) {
    // A block of its own for what would leave much of a common one unused.
    bool is_large = bytes > carnot_arena_block_bytes / 16;
    size_t size =
        is_large && (block || bytes > carnot_arena_block_bytes) ? bytes : carnot_arena_block_bytes;
    if (size > SIZE_MAX - sizeof(*block)) return NULL;
    carnot_arena_block* fresh = calloc(1, sizeof(*fresh) + size);
    if (!fresh) return NULL;
    want_huge_pages(fresh, sizeof(*fresh) + size);
    fresh->size = size;
    // It goes behind the current one, which still has room.
    if (block && is_large) {
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
  if (!arena->failed) *out_memory = take(arena, bytes);
  return *out_memory ? NULL : CARNOT_NO_MEMORY(bytes, what);
}

carnot_status* carnot_arena_prepare(carnot_arena* arena) {
  void* memory;
  return carnot_arena_try(arena, 0, 1, "an arena", &memory);
}

carnot_status* carnot_arena_status(const carnot_arena* arena) {
  return arena->failed ? CARNOT_ERROR(OUT_OF_MEMORY, "no memory for a small allocation") : NULL;
}

carnot_status* carnot_arena_end(const carnot_arena* arena, carnot_status* status) {
  if (!arena->failed || carnot_status_code(status) == CARNOT_OUT_OF_MEMORY) return status;
  carnot_status_free(status);
  return carnot_arena_status(arena);
}

// Memory after a failure; NULL where the reserve has too little.
static void* take_reserve(carnot_arena* arena, size_t bytes) {
  size_t room = CARNOT_ARENA_RESERVE_BYTES - arena->reserve_bytes;
  if (!arena->reserve || bytes > room) return NULL;
  void* memory = arena->reserve + arena->reserve_bytes;
  memset(memory, 0, bytes);
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  arena->reserve_bytes += bytes;
  return memory;
}

void* carnot_arena_alloc(carnot_arena* arena, size_t count, size_t size) {
  size_t bytes;
  bool valid = carnot_mul_size(count, size, &bytes);
  void* memory = valid && !arena->failed ? take(arena, bytes) : NULL;
  if (memory) return memory;
  arena->failed = true;
  return valid ? take_reserve(arena, bytes) : NULL;
}

// Room for |length| characters and the NUL; an empty text, |*length| 0, when there is none.
static char* text_room(carnot_arena* arena, size_t* length) {
  static char empty[1];
  char* text = carnot_arena_alloc(arena, *length + 1, 1);
  if (!text) *length = 0;
  return text ? text : empty;
}

char* carnot_arena_text(carnot_arena* arena, const char* text, size_t length) {
  char* copy = text_room(arena, &length);
  if (length) memcpy(copy, text, length);
  return copy;
}

void* carnot_arena_copy(carnot_arena* arena, const void* data, size_t bytes) {
  void* copy = carnot_arena_alloc(arena, bytes ? bytes : 1, 1);
  if (bytes && copy) memcpy(copy, data, bytes);
  return copy;
}

char* carnot_arena_print(carnot_arena* arena, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int wanted = vsnprintf(NULL, 0, format, args);
  va_end(args);
  size_t length = wanted < 0 ? 0 : (size_t)wanted;
  char* text = text_room(arena, &length);
  va_start(args, format);
  vsnprintf(text, length + 1, format, args);
  va_end(args);
  return text;
}

carnot_status* carnot_calloc(size_t count, size_t size, const char* what, void** out_memory) {
  *out_memory = calloc(count ? count : 1, size ? size : 1);
  if (*out_memory) return NULL;
  return CARNOT_ERROR(OUT_OF_MEMORY, "no memory for %zu items of %zu bytes of %s", count, size,
                      what);
}

void carnot_heap_trim(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

carnot_status* carnot_grow(void** items, size_t* capacity, size_t count, size_t size,
                           const char* what) {
  if (count <= *capacity) return NULL;
  size_t wanted = *capacity < 8 ? 8 : *capacity * 2;
  return carnot_grow_to(items, capacity, wanted < count ? count : wanted, size, what);
}

carnot_status* carnot_grow_to(void** items, size_t* capacity, size_t wanted, size_t size,
                              const char* what) {
  if (wanted <= *capacity) return NULL;
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
