// The descent: layers whose fastest tactics are close when they are timed alone are decided by the
// time of the whole run on the accelerator, one problem after the other.
#ifndef CARNOT_BUILDER_SELECT_TUNE_END_TO_END_H_
#define CARNOT_BUILDER_SELECT_TUNE_END_TO_END_H_

#include "builder/measure/benchmark.h"

// A layer and its fastest tactics, which want the same layouts.
typedef struct carnot_contest {
  const carnot_node* node;
  uint64_t key;  // of the problem: layers of equal keys change together
  uint32_t count, chosen;
  const carnot_tactic* rows[CARNOT_MAX_VARIANTS];  // [0]: by the times alone; then by time
  uint64_t ns[CARNOT_MAX_VARIANTS];
  uint64_t weight;  // nanoseconds of all equal layers; 0 of all but the first of them
  uint32_t step;    // of the plan that was lowered last
} carnot_contest;

// Notes the layer where others of its timed |candidates| are close to the best.
carnot_status* carnot_contest_note(carnot_builder* builder, const carnot_choice* choice,
                                   const carnot_candidate* candidates, size_t count,
                                   size_t best) CARNOT_MUST_USE;
// NULL: |node| is settled by the times alone.
carnot_contest* carnot_contest_find(const carnot_builder* builder, const carnot_node* node);

// Decides the contests of the plan that was lowered and lowers again where another choice makes the
// run faster. What was timed goes to the timing cache; what stands there is not timed again.
carnot_status* carnot_descend(carnot_builder* builder) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_TUNE_END_TO_END_H_
