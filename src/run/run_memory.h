// Host memory of a context: the arena that the plan lays out, the workspace of the steps, and the
// arenas of values whose size is known only while running. Grows and keeps its size, so that a
// steady state allocates nothing. One thread at a time.
#ifndef CARNOT_RUN_RUN_MEMORY_H_
#define CARNOT_RUN_RUN_MEMORY_H_

#include "ir/op.h"
#include "run/run_arena.h"

// The memory of a loop: two iterations alternate.
typedef struct carnot_loop_memory {
  carnot_run_arena double_buffer[2];
  int turn;
} carnot_loop_memory;
enum { CARNOT_MAX_LOOPS = 4 };

typedef struct carnot_run_memory {
  size_t limit_bytes;  // of each arena; 0: none
  char* arena;         // the planned values
  size_t arena_bytes;
  char* workspace;  // of the steps, one after the other
  size_t workspace_bytes;
  carnot_run_arena run;                        // values of a run without a planned offset
  carnot_run_arena shapes;                     // of the shapes that are set
  carnot_loop_memory loops[CARNOT_MAX_LOOPS];  // by nesting; deeper ones share the last's
  int loop_depth;
  carnot_run_arena* current;  // |run|, or that of the iteration under way
  bool in_resolve;            // allocations are for the shapes that are set
} carnot_run_memory;

void carnot_run_memory_init(carnot_run_memory* memory, size_t limit_bytes);
void carnot_run_memory_deinit(carnot_run_memory* memory);
// Empties what the last run made.
void carnot_run_memory_begin_run(carnot_run_memory* memory);
// Memory until the next run, iteration or change of shapes, by what is under way. OUT_OF_MEMORY.
carnot_status* carnot_run_memory_alloc(carnot_run_memory* memory, size_t bytes,
                                       void** out_memory) CARNOT_MUST_USE;
// A loop begins, turns to its next iteration, or ends: see carnot_loop_phase.
void carnot_run_memory_loop(carnot_run_memory* memory, carnot_loop_phase phase);
// True when |data| is in the memory of the iteration before.
bool carnot_run_memory_is_passing(const carnot_run_memory* memory, const void* data);
// Grows the arena to |bytes|; its contents are lost. OUT_OF_MEMORY, beyond the limit too.
carnot_status* carnot_run_memory_grow_arena(carnot_run_memory* memory,
                                            size_t bytes) CARNOT_MUST_USE;
// Grows the workspace to |bytes|; its contents are lost. OUT_OF_MEMORY.
carnot_status* carnot_run_memory_grow_workspace(carnot_run_memory* memory,
                                                size_t bytes) CARNOT_MUST_USE;

#endif  // CARNOT_RUN_RUN_MEMORY_H_
