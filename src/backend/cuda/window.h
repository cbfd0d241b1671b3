// Sliding windows as the rows of convolution and pooling see them.
#ifndef CARNOT_BACKEND_CUDA_WINDOW_H_
#define CARNOT_BACKEND_CUDA_WINDOW_H_

#include "backend/cuda/rows.h"
#include "ops/window.h"

// The window of node |node| over |x| (and |weights|, NULL for pooling) as it is for these sizes.
// Spatial axes fill the end of the arrays of three; missing ones are 1.
carnot_status* carnot_cuda_window_make(const carnot_plan_node* node, const carnot_operand* x,
                                       const carnot_operand* weights, const carnot_operand* y,
                                       carnot_cuda_window* out) CARNOT_MUST_USE;

// ---- convolutions: what is in the region besides ----

typedef struct carnot_cuda_conv {
  uint32_t weights;
  uint32_t bias;      // input, or NONE: the operator's own or a channel vector added behind it
  uint32_t residual;  // input as large as the result, added behind the bias; NONE
  bool relu;
  carnot_cuda_chain chain;  // the rest
} carnot_cuda_conv;

// |channel[i]|: input i is one number a channel; |whole[i]|: it has the result's dimensions.
const char* carnot_cuda_conv_read(const carnot_region* region, uint32_t input_count,
                                  const bool* channel, const bool* whole, bool takes_residual,
                                  carnot_cuda_conv* out, char* reason, size_t size);
const char* carnot_cuda_conv_describe(const carnot_problem* problem, bool takes_residual,
                                      carnot_cuda_conv* out, char* reason, size_t size);
carnot_status* carnot_cuda_conv_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, bool takes_residual,
                                        carnot_cuda_conv* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_WINDOW_H_
