// Offsets for values that live at overlapping times: greedy by size, best fit among the gaps. The
// builder and, for sizes without a bound, the runtime place values with it.
#ifndef CARNOT_PLAN_MEMORY_PLANNER_H_
#define CARNOT_PLAN_MEMORY_PLANNER_H_

#include <stdint.h>

#include "base/status.h"

typedef struct carnot_interval {
  uint32_t id;           // the caller's
  uint32_t first, last;  // steps of its life, both included
  uint64_t bytes;
  uint64_t offset;  // given; a multiple of 64
} carnot_interval;

// Sets the offsets, in any order of the items; *out_bytes is the memory needed. Same input, same
// result.
carnot_status* carnot_memory_plan(carnot_interval* items, uint32_t count,
                                  uint64_t* out_bytes) CARNOT_MUST_USE;
// The most bytes alive at one step: no placement needs less. OUT_OF_MEMORY.
carnot_status* carnot_memory_bound(const carnot_interval* items, uint32_t count,
                                   uint32_t step_count, uint64_t* out_bytes) CARNOT_MUST_USE;

#endif  // CARNOT_PLAN_MEMORY_PLANNER_H_
