// Arena: many small allocations that are freed together. Also checked heap functions.
//
// Out of memory. Two forms of allocation:
// - carnot_arena_try returns OUT_OF_MEMORY. It is the form for sizes that are not bounded.
// - carnot_arena_alloc and what is made of it latch the failure in the arena, and hand out zeroed
//   memory from a reserve of CARNOT_ARENA_RESERVE_BYTES that the arena holds since its first block.
//   Code of bounded size goes on with that memory and the function that owns the phase returns
//   carnot_arena_status. Beyond the reserve they return NULL.
// A latched arena stays failed until deinit or reset: carnot_arena_try fails at once. Results
// computed in between are dropped with the status, so nothing reads them.
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
  char* reserve;         // memory for after the failure; allocated with the first block
  size_t reserve_bytes;  // what of the reserve is in use
  bool failed;           // an allocation failed since init or reset
} carnot_arena;

enum { CARNOT_ARENA_RESERVE_BYTES = 64 * 1024 };
// The least size of a block. Tests of out of memory set 1, so that every allocation reaches the
// allocator; nothing else writes it.
extern size_t carnot_arena_block_bytes;

void carnot_arena_init(carnot_arena* arena);
void carnot_arena_deinit(carnot_arena* arena);
// Forgets everything, the failure included, and keeps the memory: for scratch that is used again.
void carnot_arena_reset(carnot_arena* arena);
// Allocates the first block and the reserve. The owner calls it before the first
// carnot_arena_alloc, unless carnot_arena_try comes first. OUT_OF_MEMORY.
carnot_status* carnot_arena_prepare(carnot_arena* arena) CARNOT_MUST_USE;
// OUT_OF_MEMORY when an allocation failed since init or reset.
carnot_status* carnot_arena_status(const carnot_arena* arena) CARNOT_MUST_USE;
// |status|, or OUT_OF_MEMORY in its place when the arena failed: an error that follows from a
// failed allocation says nothing about the input. Takes |status|.
carnot_status* carnot_arena_end(const carnot_arena* arena, carnot_status* status) CARNOT_MUST_USE;

// Zeroed memory for |count| items of |size| bytes of |what|, aligned to 16. OUT_OF_MEMORY;
// OUT_OF_RANGE when count*size overflows.
carnot_status* carnot_arena_try(carnot_arena* arena, size_t count, size_t size, const char* what,
                                void** out_memory);
// The latching form. Memory from the reserve after a failure, NULL beyond the reserve: a caller
// whose size is not bounded asks carnot_arena_status before it uses the memory.
void* carnot_arena_alloc(carnot_arena* arena, size_t count, size_t size);
#define CARNOT_NEW(arena, type) ((type*)carnot_arena_alloc((arena), 1, sizeof(type)))
#define CARNOT_NEW_ARRAY(arena, type, count) \
  ((type*)carnot_arena_alloc((arena), (count), sizeof(type)))

// Copies of text, latching; the result ends with NUL. Never NULL: beyond the reserve an empty text.
char* carnot_arena_text(carnot_arena* arena, const char* text, size_t length);
char* carnot_arena_print(carnot_arena* arena, const char* format, ...) CARNOT_PRINTF(2, 3);
// A copy of |bytes| bytes, latching; NULL beyond the reserve.
void* carnot_arena_copy(carnot_arena* arena, const void* data, size_t bytes);

// Heap memory for count*size bytes, zeroed; an error that says how much was wanted and what for.
carnot_status* carnot_calloc(size_t count, size_t size, const char* what,
                             void** out_memory) CARNOT_MUST_USE;

// Gives unused pages of the heap back to the system, where the C library can.
void carnot_heap_trim(void);

// Grows a heap array in place: |*items| holds |*capacity| items of |size| bytes and shall hold at
// least |count|.
carnot_status* carnot_grow(void** items, size_t* capacity, size_t count, size_t size,
                           const char* what) CARNOT_MUST_USE;
// The same with room for |wanted| items and no more, where the caller knows how a list grows.
carnot_status* carnot_grow_to(void** items, size_t* capacity, size_t wanted, size_t size,
                              const char* what) CARNOT_MUST_USE;

#endif  // CARNOT_BASE_ARENA_H_
