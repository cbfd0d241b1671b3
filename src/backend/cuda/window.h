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

// The window with its pads reaches over no more than |reach| elements, in steps up to |step|.
bool carnot_cuda_window_within(const carnot_plan_node* node, const carnot_operand_type* weights,
                               int64_t reach, int64_t step);

// ---- convolutions: what is in the region besides ----

typedef struct carnot_cuda_conv {
  uint32_t weights;
  uint32_t bias;      // input, or NONE: the operator's own or a channel vector added behind it
  uint32_t residual;  // input as large as the result, added behind the bias; NONE
  carnot_cuda_epilogue activation;
  carnot_cuda_chain chain;  // the rest
} carnot_cuda_conv;

// What a kernel takes besides the bias.
typedef enum carnot_cuda_takes {
  CARNOT_CUDA_TAKES_BIAS,
  CARNOT_CUDA_TAKES_ACTIVATION,
  CARNOT_CUDA_TAKES_RESIDUAL,  // and then ReLU or SiLU
  CARNOT_CUDA_TAKES_ALL        // residual and any activation
} carnot_cuda_takes;

// |channel[i]|: input i is one number a channel; |whole[i]|: it has the result's dimensions.
const char* carnot_cuda_conv_read(const carnot_region* region, uint32_t input_count,
                                  const bool* channel, const bool* whole, carnot_cuda_takes takes,
                                  carnot_cuda_conv* out, char* reason, size_t size);
const char* carnot_cuda_conv_describe(const carnot_problem* problem, carnot_cuda_takes takes,
                                      carnot_cuda_conv* out, char* reason, size_t size);
carnot_status* carnot_cuda_conv_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, carnot_cuda_takes takes,
                                        carnot_cuda_conv* out) CARNOT_MUST_USE;

// Weights [K,C,taps] of halves as [K,taps,C], the next constant of |out|.
carnot_status* carnot_cuda_conv_pack(const carnot_operand_type* weights,
                                     carnot_prepared* out) CARNOT_MUST_USE;
// Operations and bytes of the problem.
void carnot_cuda_conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

#endif  // CARNOT_BACKEND_CUDA_WINDOW_H_
