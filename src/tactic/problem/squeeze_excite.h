// Squeeze-and-excitation and the 1x1 convolution that reads it, as problems of one convolution
// each:
//   y = epilogue(point(x * gate)),  gate = act(excite(act(squeeze(mean(x)))))
// with the mean over rows and columns, and 1x1 convolutions squeeze and excite.
// Source: Hu et al., Squeeze-and-Excitation Networks, section 3.
#ifndef CARNOT_TACTIC_PROBLEM_SQUEEZE_EXCITE_H_
#define CARNOT_TACTIC_PROBLEM_SQUEEZE_EXCITE_H_

#include "tactic/problem/conv_chain.h"

enum { CARNOT_SQUEEZE, CARNOT_EXCITE, CARNOT_PROJECT, CARNOT_SQUEEZE_EXCITE_STAGES };

typedef struct carnot_squeeze_excite {
  carnot_conv_stage stages[CARNOT_SQUEEZE_EXCITE_STAGES];
  uint32_t axes;  // the input of the step that holds the axes of the mean
} carnot_squeeze_excite;

// What the stages hold lives in |arena| and in |out|, which must not move. NULL, or why the region
// is no such block; "" where it does not begin with a mean that is followed by convolutions.
const char* carnot_squeeze_excite_read(const carnot_problem* problem, carnot_arena* arena,
                                       carnot_squeeze_excite* out);

#endif  // CARNOT_TACTIC_PROBLEM_SQUEEZE_EXCITE_H_
