// Timing a tactic on made-up data, as it would run.
#ifndef CARNOT_BUILDER_MEASURE_BENCHMARK_H_
#define CARNOT_BUILDER_MEASURE_BENCHMARK_H_

#include "builder/internal.h"

enum { CARNOT_MAX_CANDIDATES = 16 };

// One tactic for a problem, prepared.
typedef struct carnot_candidate {
  const carnot_tactic* tactic;
  carnot_problem problem;  // with the formats that this tactic wants
  carnot_prepared prepared;
  uint64_t ns;          // least time of a run; UINT64_MAX until known
  uint64_t around_ns;   // of changes of layout around it, where candidates are compared; 0: none
  const char* failed;   // why it cannot run these shapes after all; NULL when it can
  const char* untimed;  // why it was not timed: the memory that takes, or that it cannot be the
                        // fastest; NULL otherwise
  bool is_hopeless;     // not timed, for it cannot be the fastest (cost_model.h)
} carnot_candidate;

// Bytes of a tensor whose dimensions are known; 0 of others.
double carnot_operand_bytes(const carnot_operand_desc* t);
// Operations and bytes of a candidate.
void carnot_candidate_work(const carnot_candidate* candidate, double* out_flops, double* out_bytes);
// Packs the candidate's weights and chooses its parameters, once a candidate. |node| is named in
// messages.
carnot_status* carnot_candidate_prepare(carnot_builder* builder, const char* node,
                                        carnot_candidate* candidate) CARNOT_MUST_USE;

// Prepares the processor's candidates, runs them in alternating rounds and sets their times. Those
// whose operands have dimensions that are not known are left at UINT64_MAX, and so are those that
// need more memory than there is or cannot be the fastest (cost_model.h), which are marked untimed;
// one that refuses the shapes is marked failed.
carnot_status* carnot_time_candidates(carnot_builder* builder, const char* node,
                                      carnot_candidate* candidates, size_t count) CARNOT_MUST_USE;

// The monotonic clock.
uint64_t carnot_benchmark_now_ns(void);

// Marks |candidate| untimed where |refusal| says that timing it takes too much memory
// (OUT_OF_RANGE, OUT_OF_MEMORY), else failed. Takes |refusal|.
void carnot_note_refusal(const carnot_builder* builder, carnot_status* refusal,
                         carnot_candidate* candidate);

// The same for the rows of the configured accelerator, in recorded graphs.
carnot_status* carnot_time_on_device(carnot_builder* builder, const char* node,
                                     carnot_candidate* candidates, size_t count) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_MEASURE_BENCHMARK_H_
