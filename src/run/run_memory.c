// Host memory of a context: planned arena, workspace, and the arenas of runs, loops and shapes.
#include "run/run_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"

void carnot_run_memory_init(carnot_run_memory* memory, size_t limit_bytes) {
  *memory = (carnot_run_memory){.limit_bytes = limit_bytes};
  carnot_run_arena_init(&memory->run, limit_bytes);
  for (int i = 0; i < CARNOT_MAX_LOOPS; i++)
    for (int k = 0; k < 2; k++)
      carnot_run_arena_init(&memory->loops[i].double_buffer[k], limit_bytes);
  memory->current = &memory->run;
  carnot_run_arena_init(&memory->shapes, limit_bytes);
}

void carnot_run_memory_deinit(carnot_run_memory* memory) {
  carnot_run_arena_deinit(&memory->run);
  for (int i = 0; i < CARNOT_MAX_LOOPS; i++)
    for (int k = 0; k < 2; k++) carnot_run_arena_deinit(&memory->loops[i].double_buffer[k]);
  carnot_run_arena_deinit(&memory->shapes);
  free(memory->arena);
  free(memory->workspace);
}

void carnot_run_memory_begin_run(carnot_run_memory* memory) {
  carnot_run_arena_reset(&memory->run);
  memory->current = &memory->run;
  memory->loop_depth = 0;
}

carnot_status* carnot_run_memory_alloc(carnot_run_memory* memory, size_t bytes, void** out_memory) {
  return carnot_run_arena_alloc(memory->in_resolve ? &memory->shapes : memory->current, bytes,
                                out_memory);
}

// The arena of the loop at |depth|, or of the run.
static carnot_run_arena* arena_of(carnot_run_memory* memory, int depth) {
  if (depth == 0) return &memory->run;
  carnot_loop_memory* loop = &memory->loops[carnot_min_i64(depth, CARNOT_MAX_LOOPS) - 1];
  return &loop->double_buffer[loop->turn];
}

void carnot_run_memory_loop(carnot_run_memory* memory, carnot_loop_phase phase) {
  if (phase == CARNOT_LOOP_BEGIN) memory->loop_depth++;
  if (phase == CARNOT_LOOP_END) memory->loop_depth--;
  bool turns = memory->loop_depth <= CARNOT_MAX_LOOPS;
  if (turns && (phase == CARNOT_LOOP_BEGIN || phase == CARNOT_LOOP_NEXT)) {
    carnot_loop_memory* loop = &memory->loops[memory->loop_depth - 1];
    loop->turn = !loop->turn;
    carnot_run_arena_reset(&loop->double_buffer[loop->turn]);
    if (phase == CARNOT_LOOP_BEGIN) carnot_run_arena_reset(&loop->double_buffer[!loop->turn]);
  }
  memory->current = arena_of(memory, memory->loop_depth - (phase == CARNOT_LOOP_OUTER));
}

bool carnot_run_memory_is_passing(const carnot_run_memory* memory, const void* data) {
  if (memory->loop_depth == 0 || memory->loop_depth > CARNOT_MAX_LOOPS) return false;
  const carnot_loop_memory* loop = &memory->loops[memory->loop_depth - 1];
  return carnot_run_arena_holds(&loop->double_buffer[!loop->turn], data);
}

carnot_status* carnot_run_memory_grow_arena(carnot_run_memory* memory, size_t bytes) {
  if (memory->arena && bytes <= memory->arena_bytes) return NULL;
  size_t limit = memory->limit_bytes;
  CARNOT_CHECK(!limit || bytes <= limit, OUT_OF_MEMORY,
               "the activations take %zu bytes, the memory budget is %zu", bytes, limit);
  // Large arenas are aligned to huge pages.
  size_t alignment = bytes >= (4u << 20) ? (2u << 20) : 64;
  bytes = carnot_align_up(bytes + 1, alignment);
  free(memory->arena);
  memory->arena_bytes = 0;
  memory->arena = aligned_alloc(alignment, bytes);
  if (!memory->arena) return CARNOT_NO_MEMORY(bytes, "the arena of activations");
  if (alignment > 64) madvise(memory->arena, bytes, MADV_HUGEPAGE);
  memory->arena_bytes = bytes;
  return NULL;
}

carnot_status* carnot_run_memory_grow_workspace(carnot_run_memory* memory, size_t bytes) {
  if (bytes <= memory->workspace_bytes) return NULL;
  free(memory->workspace);
  bytes = carnot_align_up(bytes, 4096);
  memory->workspace = aligned_alloc(4096, bytes);
  memory->workspace_bytes = memory->workspace ? bytes : 0;
  return memory->workspace ? NULL : CARNOT_NO_MEMORY(bytes, "the workspace of the steps");
}
