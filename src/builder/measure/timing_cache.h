// The timing cache: what tactics took, by problem. Documented text, so that it can be read, merged
// and carried along:
//   carnot-timing-cache 3
//   <problem, 16 hex digits> <tactic> <nanoseconds>
// Lines are sorted. A problem's key covers its operators, attributes, operands, ISA, threads and
// format version; a build that finds all its candidates here times nothing and gives the same
// bytes. The whole run with one tactic or another has keys of the choices before it, and
// the run before them as tactic "descent"; with a library and without as "with" and "without", what
// loading takes as "start" (of a library) and "<tactic>_load". With the machine as key, the time of
// 10^9 operations on one thread is "peak_f32_<isa>". One thread at a time.
#ifndef CARNOT_BUILDER_MEASURE_TIMING_CACHE_H_
#define CARNOT_BUILDER_MEASURE_TIMING_CACHE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "carnot/builder.h"

bool carnot_timing_cache_find(const carnot_timing_cache* cache, uint64_t key, const char* tactic,
                              uint64_t* out_ns);
carnot_status* carnot_timing_cache_add(carnot_timing_cache* cache, uint64_t key, const char* tactic,
                                       uint64_t ns) CARNOT_MUST_USE;
// Adds |*ns| unless there is a time already, which |*ns| then becomes: what the cache held before
// decides, so that a second build comes to the same engine.
carnot_status* carnot_timing_cache_get_or_insert(carnot_timing_cache* cache, uint64_t key,
                                                 const char* tactic, uint64_t* ns) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_MEASURE_TIMING_CACHE_H_
