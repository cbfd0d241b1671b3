// Sliding windows of convolution and pooling.
#ifndef CARNOT_BACKEND_CUDA_COMMON_SLIDING_WINDOW_H_
#define CARNOT_BACKEND_CUDA_COMMON_SLIDING_WINDOW_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/common/sliding_window.h"
#include "ops/sliding_window.h"

// The window of |node| over |x| (and |weights|, NULL for pooling) for these sizes. Spatial axes
// fill the end of the arrays of three; missing ones are 1.
carnot_status* carnot_cuda_sliding_window_make(const carnot_plan_node* node,
                                               const carnot_operand* x,
                                               const carnot_operand* weights,
                                               const carnot_operand* y,
                                               carnot_cuda_sliding_window* out) CARNOT_MUST_USE;

// The window with its pads reaches over no more than |reach| elements, in steps up to |step|.
bool carnot_cuda_sliding_window_within(const carnot_plan_node* node,
                                       const carnot_operand_desc* weights, int64_t reach,
                                       int64_t step);

#endif  // CARNOT_BACKEND_CUDA_COMMON_SLIDING_WINDOW_H_
