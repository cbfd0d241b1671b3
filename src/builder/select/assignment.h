// The assignment: what selection decided, as plain arrays. Region → candidate, value → format.
// Lowering an assignment needs no timing; two equal assignments lower to the same plan.
#ifndef CARNOT_BUILDER_SELECT_ASSIGNMENT_H_
#define CARNOT_BUILDER_SELECT_ASSIGNMENT_H_

#include "builder/select/candidates.h"

typedef struct carnot_assigned_region {
  uint32_t set;        // of carnot_candidates
  uint32_t candidate;  // of the set
  uint32_t fastest;    // of the set: the fastest when timed alone; tuning may choose another
  // Other candidates of the set for a part of the shapes, tried before |candidate|.
  uint32_t guarded_count;
  struct {
    uint32_t candidate;
    carnot_guard guard;
  } guarded[CARNOT_MAX_VARIANTS - 1];
  bool is_late;  // resolved just before it runs, because its sizes or operands depend on values
} carnot_assigned_region;

typedef struct carnot_assignment {
  uint32_t region_count, value_count;
  carnot_assigned_region* regions;
  carnot_format* formats;  // by value id: as its producer stores it
} carnot_assignment;

// An empty assignment in |arena|.
carnot_status* carnot_assignment_create(carnot_arena* arena, const carnot_analysis* analysis,
                                        carnot_assignment* out) CARNOT_MUST_USE;
// True when both decide the same: tactics and guards by region, formats by value.
bool carnot_assignment_equal(const carnot_assignment* a, const carnot_candidates* candidates,
                             const carnot_assignment* b);
// Equal assignments have equal hashes, in any build of the same graph.
uint64_t carnot_assignment_hash(const carnot_assignment* assignment,
                                const carnot_candidates* candidates);

// The candidate chosen for |region|.
carnot_candidate* carnot_assigned_candidate(const carnot_assignment* assignment,
                                            const carnot_candidates* candidates, uint32_t region);

#endif  // CARNOT_BUILDER_SELECT_ASSIGNMENT_H_
