// A chain of convolutions, each with its epilogue, of which each reads only the result of the one
// before: as problems of one convolution each, for tactics that compute the chain by rows.
#ifndef CARNOT_TACTIC_PROBLEM_CONV_CHAIN_H_
#define CARNOT_TACTIC_PROBLEM_CONV_CHAIN_H_

#include "tactic/tactic.h"

enum { CARNOT_CONV_CHAIN_MAX_STAGES = 3, CARNOT_CONV_STAGE_MAX_INPUTS = 16 };

typedef struct carnot_conv_stage {
  // The convolution and its epilogue; input 0 is the result of the stage before, or input 0 of the
  // step.
  carnot_problem problem;
  carnot_region region;
  carnot_operand_desc inputs[CARNOT_CONV_STAGE_MAX_INPUTS], output;
  // Inputs of the step by inputs of the stage; NONE: the result of the stage before.
  uint32_t step_inputs[CARNOT_CONV_STAGE_MAX_INPUTS];
  uint32_t result;  // the region's output
} carnot_conv_stage;

typedef struct carnot_conv_chain {
  int count;
  carnot_conv_stage stages[CARNOT_CONV_CHAIN_MAX_STAGES];
} carnot_conv_chain;

// Reads nodes [first, end) of the region of |problem|, a convolution and its epilogue, into |out|,
// which must not move; memory is from |arena|. |previous|: the local value that the convolution
// reads and the step computes before, NONE: input 0 of the step. NULL, or why they are no stage.
const char* carnot_conv_stage_read(const carnot_problem* problem, carnot_arena* arena,
                                   uint32_t first, uint32_t end, uint32_t previous,
                                   carnot_conv_stage* out);

// Splits the region of |problem| before each convolution. What the stages hold lives in |arena| and
// in |out|, which must not move. NULL, or why the region is no chain of two or three convolutions;
// "" where it has fewer than two.
const char* carnot_conv_chain_read(const carnot_problem* problem, carnot_arena* arena,
                                   carnot_conv_chain* out);

#endif  // CARNOT_TACTIC_PROBLEM_CONV_CHAIN_H_
