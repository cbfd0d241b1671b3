// Whether other programs took processors away while something was timed.
#ifndef CARNOT_BUILDER_MEASURE_CALM_H_
#define CARNOT_BUILDER_MEASURE_CALM_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/executor.h"

typedef struct carnot_calm {
  uint64_t begin_ns;          // before waiting for the threads
  uint64_t start_ns, ran_ns;  // after it, and of this thread's processor time
  bool were_all_there;
} carnot_calm;

// Waits until all threads of |executor|, between its begin and end, are there, not longer than 1
// ms.
carnot_calm carnot_calm_begin(carnot_executor* executor);
// True where this thread ran all the time since then, and the others at both ends; of an executor
// of one thread always, for its processor time can be taken.
bool carnot_calm_end(const carnot_calm* calm, carnot_executor* executor);

#endif  // CARNOT_BUILDER_MEASURE_CALM_H_
