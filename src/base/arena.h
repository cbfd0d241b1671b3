// Arena: many small allocations that die together. Also the checked heap functions for sizes from
// outside.
#ifndef CARNOT_BASE_ARENA_H_
#define CARNOT_BASE_ARENA_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct carnot_arena_block carnot_arena_block;

// One thread at a time. Zero-initialised is a valid, empty arena.
typedef struct carnot_arena {
  carnot_arena_block* blocks;
  size_t used_bytes;
} carnot_arena;

void carnot_arena_init(carnot_arena* arena);
void carnot_arena_deinit(carnot_arena* arena);
// Forgets everything and keeps the memory, for scratch that is used again and again.
void carnot_arena_reset(carnot_arena* arena);

// Zeroed memory for |count| items of |size| bytes, aligned to 16: the form for sizes that come from
// outside.
carnot_status* carnot_arena_try(carnot_arena* arena, size_t count, size_t size, const char* what,
                                void** out_memory);
// For small sizes of the program's own choosing: aborts when the machine has no memory for them.
void* carnot_arena_alloc(carnot_arena* arena, size_t count, size_t size);
#define CARNOT_NEW(arena, type) ((type*)carnot_arena_alloc((arena), 1, sizeof(type)))
#define CARNOT_NEW_ARRAY(arena, type, count) \
  ((type*)carnot_arena_alloc((arena), (count), sizeof(type)))

// Copies of text; the result ends with NUL.
char* carnot_arena_text(carnot_arena* arena, const char* text, size_t length);
char* carnot_arena_print(carnot_arena* arena, const char* format, ...) CARNOT_PRINTF(2, 3);
void* carnot_arena_copy(carnot_arena* arena, const void* data, size_t bytes);

// Heap memory for count*size bytes, zeroed; an error that says how much was wanted and what for.
carnot_status* carnot_calloc(size_t count, size_t size, const char* what,
                             void** out_memory) CARNOT_MUST_USE;

// Grows a heap array in place: |*items| holds |*capacity| items of |size| bytes and shall hold at
// least |count|.
carnot_status* carnot_grow(void** items, size_t* capacity, size_t count, size_t size,
                           const char* what) CARNOT_MUST_USE;

#endif  // CARNOT_BASE_ARENA_H_
