// Keys of the timing cache.
#ifndef CARNOT_BUILDER_MEASURE_TIMING_KEY_H_
#define CARNOT_BUILDER_MEASURE_TIMING_KEY_H_

#include "tactic/tactic.h"

// What times depend on beside the problem.
typedef struct carnot_timing_machine {
  uint64_t hash;      // CPU model and caches, or device, driver and library versions
  int threads;        // of the executor
  bool cold_weights;  // weights come from memory, not from a cache, whenever a layer runs
} carnot_timing_machine;

// The CPU's: vendor, family, model, stepping, name and cache sizes. |device|: also its name and the
// versions of its driver and libraries; NULL: the CPU alone.
uint64_t carnot_machine_hash(carnot_device* device);
// Bytes of weights that a cache keeps from one run of a network to the next; 0 when it is not
// known.
size_t carnot_cached_weight_bytes(void);

// Covers operators, attributes, operand types, shapes and formats, numerics, ISA and |machine|.
uint64_t carnot_problem_key(const carnot_problem* problem, const carnot_timing_machine* machine);

#endif  // CARNOT_BUILDER_MEASURE_TIMING_KEY_H_
