// Chains of 1x1 and depthwise convolutions (the inverted residual of MobileNet): what building and
// running share.
#ifndef CARNOT_BACKEND_CPU_CONV_CONV_CHAIN_H_
#define CARNOT_BACKEND_CPU_CONV_CONV_CHAIN_H_

#include "backend/cpu/conv/conv.h"
#include "tactic/problem/conv_chain.h"

// Stored in engines. Constants: the weights of each stage, then the biases of all, each from a
// multiple of 16 floats on.
typedef struct carnot_conv_chain_params {
  int32_t count, depthwise;  // stages; which of them is depthwise
  carnot_conv_params stages[CARNOT_CONV_CHAIN_MAX_STAGES];
} carnot_conv_chain_params;

// A 1x1 convolution of stride 1.
static inline bool carnot_conv_is_point(const carnot_conv_params* p) {
  bool is = p->group == 1;
  for (int d = 0; d < p->window.rank; d++)
    is = is && p->window.kernel[d] == 1 && p->window.strides[d] == 1 && !p->window.begin[d] &&
         !p->window.end[d];
  return is;
}

// Floats that the bias of a stage takes.
static inline int64_t carnot_conv_chain_bias_room(const carnot_conv_params* p) {
  return (int64_t)carnot_align_up((size_t)p->filters, 16);
}

// The configure and run functions of the tactics.
carnot_status* carnot_conv_chain_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) CARNOT_MUST_USE;
carnot_status* carnot_conv_chain_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_CONV_CONV_CHAIN_H_
