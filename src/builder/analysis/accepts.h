// Whether a target has a tactic for a proposed region: the answer to carnot_pass_options.accepts.
#ifndef CARNOT_BUILDER_ANALYSIS_ACCEPTS_H_
#define CARNOT_BUILDER_ANALYSIS_ACCEPTS_H_

#include "ir/graph.h"
#include "tactic/tactic.h"

// What an engine is built for.
typedef struct carnot_target {
  carnot_isa isa;         // of the CPU
  carnot_device* device;  // NULL: the CPU alone
  uint32_t sources;       // bit set of carnot_tactic_source that tactics may use
  carnot_dtype half;      // FP16 or BF16 where the build may compute in it, else INVALID
  bool out_of_memory;     // set when an answer was false because memory was out
  char refusal[256];      // why the last region was not accepted; "" without a reason
} carnot_target;

// True when a tactic of |target| (a carnot_target; of the accelerator where there is one)
// computes |nodes| as one region. The nodes are of one block and in order; outputs of the region
// are the values that other nodes or the block's results read. The graph does not change; without
// memory the answer is false and |target|->out_of_memory is set.
bool carnot_target_accepts(void* target, carnot_node* const* nodes, int count);

// The same of tactics that compute in |target|->half.
bool carnot_target_accepts_half(void* target, carnot_node* const* nodes, int count);

// True when any tactic of |target| computes |nodes| as one region, however slow, or where that
// cannot be said yet because sizes are not known.
bool carnot_target_computes(void* target, carnot_node* const* nodes, int count);

// carnot_target.refusal of |target|.
const char* carnot_target_refusal(void* target);

#endif  // CARNOT_BUILDER_ANALYSIS_ACCEPTS_H_
