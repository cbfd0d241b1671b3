// Whether the libraries that tactics call are worth their loading.
#ifndef CARNOT_BUILDER_SELECT_LIBRARY_PRUNING_H_
#define CARNOT_BUILDER_SELECT_LIBRARY_PRUNING_H_

#include "builder/measure/benchmark.h"

// Notes what the libraries of the chosen tactic |best| bring beside the other candidates.
carnot_status* carnot_libraries_note(carnot_builder* builder, const carnot_choice* choice,
                                     const carnot_candidate* candidates, size_t count,
                                     size_t best) CARNOT_MUST_USE;
// Leaves out libraries whose gain does not pay for loading them, and lowers again.
carnot_status* carnot_libraries_weigh(carnot_builder* builder) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_LIBRARY_PRUNING_H_
