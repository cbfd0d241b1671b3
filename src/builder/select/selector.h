// The user's selector of tactics (carnot_config_set_tactic_selector).
#ifndef CARNOT_BUILDER_SELECT_SELECTOR_H_
#define CARNOT_BUILDER_SELECT_SELECTOR_H_

#include "builder/select/assignment.h"

// Asks the selector about a new set of candidates for |node| and removes those that it refuses.
// CANCELLED when it ends the build.
carnot_status* carnot_selector_filter(carnot_builder* builder, const char* node,
                                      carnot_candidate_set* set) CARNOT_MUST_USE;
// Reports the tactics of an assignment. CANCELLED as above.
carnot_status* carnot_selector_report(carnot_builder* builder, const carnot_analysis* analysis,
                                      const carnot_candidates* candidates,
                                      const carnot_assignment* assignment) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_SELECTOR_H_
