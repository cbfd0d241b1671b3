// An engine that runs before it is written, to be timed as a whole.
#ifndef CARNOT_BUILDER_MEASURE_ENGINE_BENCHMARK_H_
#define CARNOT_BUILDER_MEASURE_ENGINE_BENCHMARK_H_

#include "builder/internal.h"
#include "run/context.h"

typedef struct carnot_engine_benchmark {
  carnot_engine* engine;
  carnot_context* context;
  carnot_builder* builder;
  carnot_arena inputs;  // generated values
} carnot_engine_benchmark;

// Makes an engine of |plan|, which it takes, on the configured accelerator or the CPU, with
// generated inputs at the optimum of the first profile.
carnot_status* carnot_engine_benchmark_open(carnot_builder* builder, carnot_plan* plan,
                                            carnot_engine_benchmark* out) CARNOT_MUST_USE;
void carnot_engine_benchmark_close(carnot_engine_benchmark* benchmark);
// Step |step| runs variant |variant| from now on: the guards of the others are put in force.
void carnot_engine_benchmark_use(carnot_engine_benchmark* benchmark, uint32_t step,
                                 uint32_t variant);
// The least nanoseconds of |runs| runs, without copies of the user's tensors.
carnot_status* carnot_engine_benchmark_time(carnot_engine_benchmark* benchmark, int runs,
                                            uint64_t* out_ns) CARNOT_MUST_USE;

// The least nanoseconds of a run of |*plan|, by the timing cache under |key| where it is known
// there. UINT64_MAX where the plan cannot be timed: some input cannot be made up. After an error
// *plan is NULL.
carnot_status* carnot_plan_time_run(carnot_builder* builder, uint64_t key, carnot_plan** plan,
                                    uint64_t* out_ns) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_MEASURE_ENGINE_BENCHMARK_H_
