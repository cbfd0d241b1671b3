// Selection: analysis and candidates → assignment.
#ifndef CARNOT_BUILDER_SELECT_SELECT_H_
#define CARNOT_BUILDER_SELECT_SELECT_H_

#include "builder/select/assignment.h"

typedef struct carnot_select_request {
  uint32_t sources;  // bit set of carnot_tactic_source that tactics may use
  // By region: taken where it is a candidate; NULL entries, or NULL: the fastest.
  const carnot_tactic* const* pinned;
  bool reports_progress;
} carnot_select_request;

// Chooses a candidate for every region and a format for every value: in order of execution, each
// region by its own time; on the CPU layouts then jointly, where they change inside the network.
// Costs come from the timing cache or are measured. The assignment lives in builder->memory.
carnot_status* carnot_select(carnot_builder* builder, const carnot_analysis* analysis,
                             carnot_candidates* candidates, const carnot_select_request* request,
                             carnot_assignment* out) CARNOT_MUST_USE;

// ---- guards.c ----

// Where shapes vary, another tactic may be faster at the least, the greatest or a size between:
// adds it as a guarded variant when it is a tenth faster there, or chooses it for all sizes when it
// takes the optimum as fast. CPU tactics only; device tactics choose by the shapes that are set.
carnot_status* carnot_add_guarded_variants(carnot_builder* builder,
                                           const carnot_region_facts* facts,
                                           carnot_candidate_set* set,
                                           carnot_assigned_region* region) CARNOT_MUST_USE;

// ---- stored_types.c ----

// Decides which float32 values are stored as BF16 (builder->stored_types): those between regions
// whose tactics write and read it, where the configuration and the layers allow BF16 and the target
// multiplies BF16 by tiles.
carnot_status* carnot_choose_stored_types(carnot_builder* builder,
                                          const carnot_analysis* analysis) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_SELECT_H_
