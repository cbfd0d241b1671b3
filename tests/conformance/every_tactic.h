// Runs a case once with every CPU tactic that takes one of its regions.
#ifndef CARNOT_TESTS_CONFORMANCE_EVERY_TACTIC_H_
#define CARNOT_TESTS_CONFORMANCE_EVERY_TACTIC_H_

#include "case.h"

// What cases in several processes have run. Positions are those of carnot_tactics.
typedef struct tactic_tally {
  uint32_t pairs, failed_pairs;      // runs of a case with one tactic pinned
  bool has_run[CARNOT_MAX_TACTICS];  // a step of a case's engine has the tactic
} tactic_tally;

// A zeroed tally in memory that processes forked later share; NULL when there is none.
tactic_tally* tactic_tally_create(void);

// Builds and runs the case with each tactic pinned, first with all arithmetic as the types of the
// graph say, then those of float16 and bfloat16 where they are allowed. Prints a line for every
// pair that fails; INTERNAL when there was one.
carnot_status* case_check_every_tactic(const char* name, const test_case* test,
                                       const case_options* options,
                                       tactic_tally* tally) CARNOT_MUST_USE;

// Prints the number of pairs and the tactics for |isa| (-1: this machine) that no case ran. The
// number of the latter.
int tactic_tally_print(const tactic_tally* tally, int isa);

#endif  // CARNOT_TESTS_CONFORMANCE_EVERY_TACTIC_H_
