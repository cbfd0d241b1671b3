// What the peaks of the machine say of a candidate before it runs.
#ifndef CARNOT_BUILDER_MEASURE_COST_MODEL_H_
#define CARNOT_BUILDER_MEASURE_COST_MODEL_H_

#include "builder/measure/benchmark.h"

// Whether candidate |i|, which has no time, cannot be the fastest by the peaks of the instruction
// sets, which are measured once and kept in the timing cache: its operations take longer than
// another candidate took; or the same kernel for another instruction set took at most ten times
// what that set's peak saves. It is then marked untimed. Only up to optimization level 3, and where
// the tactic counts what it computes.
carnot_status* carnot_prune_hopeless(const carnot_builder* builder, carnot_candidate* candidates,
                                     size_t count, size_t i, bool* out_hopeless) CARNOT_MUST_USE;

// True for one kernel compiled for two instruction sets, of which that of |tactic| is the newer
// one.
bool carnot_is_newer_kernel(const carnot_tactic* tactic, const carnot_tactic* than);

#endif  // CARNOT_BUILDER_MEASURE_COST_MODEL_H_
