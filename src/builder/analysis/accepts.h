// Whether a target has a tactic for a proposed region: the answer to carnot_pass_options.accepts.
#ifndef CARNOT_BUILDER_ANALYSIS_ACCEPTS_H_
#define CARNOT_BUILDER_ANALYSIS_ACCEPTS_H_

#include "ir/graph.h"
#include "tactic/tactic.h"

// What an engine is built for.
typedef struct carnot_target {
  carnot_isa isa;         // of the CPU
  carnot_device* device;  // NULL: the CPU alone
} carnot_target;

// True when a built-in tactic of |target| (a carnot_target; of the accelerator where there is one)
// computes |nodes| as one region. The nodes are of one block and in order; outputs of the region
// are the values that other nodes or the block's results read. Neither graph nor target change.
bool carnot_target_accepts(void* target, carnot_node* const* nodes, int count);

#endif  // CARNOT_BUILDER_ANALYSIS_ACCEPTS_H_
