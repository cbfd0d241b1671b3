// The run arena: a list of chunks that is emptied and kept.
#include "run/run_arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"

enum { kAlignment = 64, kLeastChunk = 1 << 20 };

static carnot_status* alloc_host(void* user, size_t bytes, void** out_memory) {
  (void)user;
  *out_memory = aligned_alloc(kAlignment, bytes);
  return *out_memory ? NULL : CARNOT_NO_MEMORY(bytes, "values of unplanned size");
}

static void free_host(void* user, void* memory) {
  (void)user;
  free(memory);
}

struct carnot_run_arena_chunk {
  carnot_run_arena_chunk* next;
  char* data;
  size_t used, size;
};

void carnot_run_arena_init_on(carnot_run_arena* store, const carnot_run_arena_source* source,
                              size_t limit_bytes) {
  *store = (carnot_run_arena){.source = *source, .limit_bytes = limit_bytes};
}

void carnot_run_arena_init(carnot_run_arena* store, size_t limit_bytes) {
  const carnot_run_arena_source host = {
      .alloc = alloc_host, .free = free_host, .alignment = kAlignment};
  carnot_run_arena_init_on(store, &host, limit_bytes);
}

static void free_chunks(carnot_run_arena* store) {
  for (carnot_run_arena_chunk* chunk = store->first; chunk;) {
    carnot_run_arena_chunk* next = chunk->next;
    store->source.free(store->source.user, chunk->data);
    free(chunk);
    chunk = next;
  }
  store->first = store->current = NULL;
  store->chunk_count = 0;
}

void carnot_run_arena_deinit(carnot_run_arena* store) { free_chunks(store); }

static carnot_status* add_chunk(carnot_run_arena* store, size_t bytes) {
  size_t size = bytes > kLeastChunk ? carnot_align_up(bytes, store->source.alignment) : kLeastChunk;
  void *made, *data = NULL;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_run_arena_chunk), "a chunk", &made));
  carnot_run_arena_chunk* chunk = made;
  carnot_status* status = store->source.alloc(store->source.user, size, &data);
  if (status) {
    free(chunk);
    return status;
  }
  chunk->data = data;
  chunk->size = size;
  chunk->next = NULL;
  *(store->current ? &store->current->next : &store->first) = chunk;
  store->current = chunk;
  store->chunk_count++;
  return NULL;
}

void carnot_run_arena_reset(carnot_run_arena* store) {
  if (store->chunk_count > 1) {
    // The next run finds one chunk that holds all that this one needed.
    size_t wanted = store->high_bytes + store->high_bytes / 8;
    free_chunks(store);
    carnot_status_free(add_chunk(store, wanted));
  }
  for (carnot_run_arena_chunk* chunk = store->first; chunk; chunk = chunk->next) chunk->used = 0;
  store->current = store->first;
  store->used_bytes = 0;
}

bool carnot_run_arena_holds(const carnot_run_arena* store, const void* data) {
  for (const carnot_run_arena_chunk* chunk = store->first; chunk; chunk = chunk->next)
    if ((uintptr_t)data - (uintptr_t)chunk->data < chunk->size) return true;
  return false;
}

carnot_status* carnot_run_arena_alloc(carnot_run_arena* store, size_t bytes, void** out_memory) {
  *out_memory = NULL;
  CARNOT_CHECK(bytes <= (size_t)1 << 48, OUT_OF_RANGE, "a value of %zu bytes is too large", bytes);
  bytes = carnot_align_up(bytes ? bytes : 1, store->source.alignment);
  CARNOT_CHECK(!store->limit_bytes || store->used_bytes + bytes <= store->limit_bytes,
               OUT_OF_MEMORY,
               "%zu more bytes for values of unplanned size pass the memory budget of %zu bytes",
               bytes, store->limit_bytes);
  if (!store->current || store->current->size - store->current->used < bytes)
    CARNOT_TRY(add_chunk(store, bytes));
  *out_memory = store->current->data + store->current->used;
  store->current->used += bytes;
  store->used_bytes += bytes;
  if (store->used_bytes > store->high_bytes) store->high_bytes = store->used_bytes;
  return NULL;
}
