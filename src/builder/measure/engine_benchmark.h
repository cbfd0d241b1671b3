// A plan that runs on the accelerator before it is written, to be timed as a whole.
#ifndef CARNOT_BUILDER_MEASURE_ENGINE_BENCHMARK_H_
#define CARNOT_BUILDER_MEASURE_ENGINE_BENCHMARK_H_

#include "builder/internal.h"
#include "run/context.h"

typedef struct carnot_trial {
  carnot_engine* engine;
  carnot_context* context;
  carnot_arena inputs;  // made-up values
} carnot_trial;

// Lowers to a plan of its own, whose weights the builder keeps, and sets inputs of the first
// profile's optimum.
carnot_status* carnot_trial_open(carnot_builder* builder, carnot_lowering_phase phase,
                                 carnot_trial* out) CARNOT_MUST_USE;
void carnot_trial_close(carnot_trial* trial);
// The step runs variant |variant| from now on. All but the last have a guard, which is put out of
// force for it.
void carnot_trial_take(carnot_trial* trial, uint32_t step, uint32_t variant);
// The least nanoseconds of |runs| runs, without copies of the user's tensors.
carnot_status* carnot_trial_time(carnot_trial* trial, int runs, uint64_t* out_ns) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_MEASURE_ENGINE_BENCHMARK_H_
