// Whole-engine tuning: functions assignment → assignment.
#ifndef CARNOT_BUILDER_SELECT_TUNING_H_
#define CARNOT_BUILDER_SELECT_TUNING_H_

#include "builder/select/select.h"

// A region whose fastest candidates take nearly the same time alone. Groups of equal problems with
// the same candidates are tuned together.
typedef struct carnot_tuning_group {
  uint32_t region;
  uint64_t key;  // of the problem
  uint32_t count, chosen;
  uint32_t candidates[CARNOT_MAX_VARIANTS];  // of the region's set; [0] is the fastest alone
  const carnot_tactic* tactics[CARNOT_MAX_VARIANTS];
  uint64_t ns[CARNOT_MAX_VARIANTS];
  uint64_t weight;  // nanoseconds of all equal regions; 0 for all but the first of them
} carnot_tuning_group;

typedef struct carnot_tuning {
  carnot_tuning_group* groups;
  size_t count, capacity;
  uint64_t run_ns, run_hash;  // of all timed regions of the target: sum of times, hash of choices
} carnot_tuning;

// Collects the groups of an assignment in which nothing is pinned.
carnot_status* carnot_tuning_collect(const carnot_builder* builder, const carnot_analysis* analysis,
                                     const carnot_candidates* candidates,
                                     const carnot_assignment* assignment,
                                     carnot_tuning* out) CARNOT_MUST_USE;
void carnot_tuning_deinit(carnot_tuning* tuning);

// Coordinate descent: for each group, heaviest first, times the whole engine with each of its
// tactics and keeps the fastest. What was timed goes to the timing cache; what is cached is not
// timed again. Updates |tuning| and, when a choice changed, |assignment|.
carnot_status* carnot_tune_end_to_end(carnot_builder* builder, const carnot_analysis* analysis,
                                      carnot_candidates* candidates, carnot_tuning* tuning,
                                      carnot_assignment* assignment) CARNOT_MUST_USE;

// Drops a library (cuDNN, cuBLASLt, oneDNN) from the assignment when the engine is no faster with
// it, or when its speed-up does not amortize its load time: opening, initialization, planning.
carnot_status* carnot_prune_libraries(carnot_builder* builder, const carnot_analysis* analysis,
                                      carnot_candidates* candidates, const carnot_tuning* tuning,
                                      carnot_assignment* assignment) CARNOT_MUST_USE;

// Selects with the tactics that tuning chose and the libraries |sources|.
carnot_status* carnot_select_tuned(carnot_builder* builder, const carnot_analysis* analysis,
                                   carnot_candidates* candidates, const carnot_tuning* tuning,
                                   uint32_t sources, carnot_assignment* out) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_TUNING_H_
