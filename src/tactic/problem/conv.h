// The convolution problem, for tactics of every backend: which inputs are the weights and the bias,
// sizes, window and epilogue of a region that begins with Conv, ConvTranspose or QLinearConv.
#ifndef CARNOT_TACTIC_PROBLEM_CONV_H_
#define CARNOT_TACTIC_PROBLEM_CONV_H_

#include "ops/sliding_window.h"
#include "tactic/problem/epilogue.h"

typedef struct carnot_conv_problem {
  const carnot_plan_node* node;  // borrowed from the region
  uint32_t anchor;               // index of |node|: 1 behind a cast, else 0
  bool casts;                    // a cast of input 0 precedes the convolution
  uint32_t weights, bias;        // inputs of the step; bias NONE: absent
  int64_t group;
  // Known where the weights have fixed sizes, else -1 and a window of rank 0.
  int64_t channels, filters;  // of the input and the output, all groups together
  carnot_sliding_window window;
  carnot_epilogue epilogue;  // set by carnot_conv_problem_match*
} carnot_conv_problem;

// Index of the convolution in its region: a cast of its input may precede it (pass
// form_fusion_regions).
static inline uint32_t carnot_conv_anchor(const carnot_region* region) {
  return region->node_count > 1 && region->nodes[0].op == CARNOT_OP_CAST;
}
static inline const carnot_plan_node* carnot_conv_node(const carnot_region* region) {
  return &region->nodes[carnot_conv_anchor(region)];
}

// The type of weights of these sizes, as carnot_sliding_window_read takes it.
carnot_type carnot_conv_weights_type(int rank, const int64_t* dims);

// Reads what is known from the region alone: all but sizes, window and epilogue. NULL, or the
// reason; "" when the region does not begin with a convolution. Input 0 is the input of the
// convolution.
const char* carnot_conv_problem_of_region(const carnot_region* region, uint32_t input_count,
                                          carnot_conv_problem* out);
// Reads the whole problem but its epilogue. NULL, or the reason as above, in |reason| where it has
// facts: ranks or channels that differ, a window that is invalid.
const char* carnot_conv_problem_read(const carnot_problem* problem, carnot_conv_problem* out,
                                     char* reason, size_t size);
// The part of it that operands decide: sizes, group and window of out->node, a convolution wherever
// it is in its region, with input |x| and weights |w|. NULL, or the reason.
const char* carnot_conv_problem_sizes(const carnot_operand_desc* x, const carnot_operand_desc* w,
                                      carnot_conv_problem* out, char* reason, size_t size);

// Matches the epilogue that |mask| admits, of operands in the type of output 0; a channel vector
// runs along axis 1 of the output. NULL, or the reason.
const char* carnot_conv_problem_match(const carnot_problem* problem,
                                      const carnot_epilogue_mask* mask, carnot_conv_problem* conv);
// The same at run time, from the step's operands.
carnot_status* carnot_conv_problem_match_operands(const carnot_step_view* step,
                                                  const carnot_operand* inputs,
                                                  const carnot_operand* y,
                                                  const carnot_epilogue_mask* mask,
                                                  carnot_conv_problem* conv) CARNOT_MUST_USE;

#endif  // CARNOT_TACTIC_PROBLEM_CONV_H_
