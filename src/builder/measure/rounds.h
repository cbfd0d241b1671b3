// How many runs tell candidates apart: a sequential test on least times. Candidates run in
// alternating rounds. Disturbances only add time, so a least time is believed once two calm rounds,
// in which other programs took no processor away, agree about it; candidates that are close run
// until each of them is believed. Some disturbances slow one instruction set for milliseconds and
// no clock tells of them: where an older one leads, newer ones that are not far behind run on.
#ifndef CARNOT_BUILDER_MEASURE_ROUNDS_H_
#define CARNOT_BUILDER_MEASURE_ROUNDS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Zero-initialized: one that does not run.
typedef struct carnot_contestant {
  bool runs;
  uint64_t around_ns;   // added where contestants are compared: changes of layout around it
  int rank;             // of its instruction set: newer ones are greater
  uint64_t least_ns;    // of the rounds so far, UINT64_MAX before
  uint64_t calm_ns[2];  // the two least of calm rounds
  uint32_t rounds;
} carnot_contestant;

// One that runs.
carnot_contestant carnot_contestant_make(uint64_t around_ns, int rank);
// The least time in a round.
void carnot_contestant_note(carnot_contestant* contestant, uint64_t ns, bool is_calm);
// Whether contestant |i| runs in one more round, where all have spent |spent_ns| so far.
bool carnot_contestant_continues(const carnot_contestant* contestants, size_t count, size_t i,
                                 uint64_t spent_ns);

#endif  // CARNOT_BUILDER_MEASURE_ROUNDS_H_
