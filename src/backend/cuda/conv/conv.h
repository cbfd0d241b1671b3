// What the convolution tactics share: the region as kernels take it, the cast in front of it, and
// packed weights.
#ifndef CARNOT_BACKEND_CUDA_CONV_CONV_H_
#define CARNOT_BACKEND_CUDA_CONV_CONV_H_

#include "backend/cuda/common/sliding_window.h"
#include "backend/cuda/pointwise/chain.h"
#include "kernel/cuda/conv/cast_to_nhwc_params.h"
#include "tactic/problem/conv.h"

// Input 0 as the convolution reads it: in the type of the output behind a cast.
carnot_operand_desc carnot_cuda_conv_input(const carnot_problem* problem);

// A convolution region with its epilogue in the form of the kernels.
typedef struct carnot_cuda_conv {
  carnot_conv_problem problem;  // sizes and window: at build only
  uint32_t weights;             // inputs of the step
  uint32_t bias;                // NONE, the operator's own or a per-channel vector added behind it
  uint32_t residual;            // of the result's dimensions, added after the bias; NONE
  carnot_cuda_epilogue activation;
  carnot_cuda_chain chain;  // the rest of the region
} carnot_cuda_conv;

// Reads a Conv region for reject: NULL, or the reason; "" for other operators. |mask|: what the
// tactic's kernel applies behind the convolution.
const char* carnot_cuda_conv_read(const carnot_problem* problem, const carnot_epilogue_mask* mask,
                                  carnot_cuda_conv* out, char* reason, size_t size);
// The same for prepare, which follows a reject that took the problem: INTERNAL otherwise.
carnot_status* carnot_cuda_conv_of_problem(const carnot_problem* problem,
                                           const carnot_epilogue_mask* mask,
                                           carnot_cuda_conv* out) CARNOT_MUST_USE;
// carnot_cuda_conv_read for images [N,C,H,W] with constant weights of their type and one group;
// |depthwise|: for sequences [N,C,L] too, of any groups.
const char* carnot_cuda_conv_read_packed(const carnot_problem* problem,
                                         const carnot_epilogue_mask* mask, bool depthwise,
                                         carnot_cuda_conv* out, char* reason, size_t size);
// Asks for channels-last layout of the result and of the inputs from |first| on that are no
// constants.
void carnot_cuda_conv_want_channels_last(carnot_problem* problem, uint32_t first);
// Reads the region again when shapes are set, and checks that all operands are in device memory.
carnot_status* carnot_cuda_conv_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs,
                                        const carnot_epilogue_mask* mask,
                                        carnot_cuda_conv* out) CARNOT_MUST_USE;
// Checks that the bias, where there is one, has |filters| elements of the type of |y| at an address
// that is a multiple of |alignment| bytes.
carnot_status* carnot_cuda_conv_check_bias(const carnot_cuda_conv* conv,
                                           const carnot_operand* inputs, const carnot_operand* y,
                                           int64_t filters, int alignment) CARNOT_MUST_USE;
// The address of an optional input; NULL for |input| NONE.
static inline void* carnot_cuda_conv_data(const carnot_operand* inputs, uint32_t input) {
  return input == CARNOT_PLAN_NONE ? NULL : inputs[input].data;
}

// The cast in front of tactics that read 16-bit floats only: to NHWC, at the start of the
// workspace.
typedef struct carnot_cuda_conv_cast {
  CUfunction function;  // NULL: none
  carnot_cuda_cast_to_nhwc_params params;
  size_t bytes;
} carnot_cuda_conv_cast;
// |out_x|: the operand that the convolution reads; in the workspace (data NULL) where there is a
// cast.
carnot_status* carnot_cuda_conv_cast_shape(const carnot_step_view* step, const carnot_operand* x,
                                           carnot_dtype to, carnot_cuda_conv_cast* out,
                                           carnot_operand* out_x) CARNOT_MUST_USE;
// Records it; *x becomes the workspace then.
carnot_status* carnot_cuda_conv_cast_run(const carnot_step_view* step, carnot_cuda_conv_cast* cast,
                                         void* workspace, void** x) CARNOT_MUST_USE;

// Packs weights [K,C,taps] of 16-bit floats as [K,taps,C], the next constant of |out|. |joined| of
// the |groups| groups become one, of |joined| C channels: what a filter does not read is zero.
carnot_status* carnot_cuda_conv_pack(const carnot_operand_desc* weights, int64_t groups,
                                     int64_t joined, carnot_prepared* out) CARNOT_MUST_USE;
// Packs them in the order of conv_small_channels.cuh, for |chunks| chunks of 32 filters:
// |offsets[step][lane & 3][4]| are offsets in the weights of a filter, -1 for a zero.
carnot_status* carnot_cuda_conv_pack_chunks(const carnot_operand_desc* weights, int chunks,
                                            int steps, const int32_t (*offsets)[4][4],
                                            carnot_prepared* out) CARNOT_MUST_USE;
// For tactics that read their weights packed only: the engine holds them, and the plain weights
// are unused.
carnot_status* carnot_cuda_conv_packed_check(const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_cuda_conv_packed_reads(const carnot_step_view* step, uint32_t input);
// Operations and bytes of the problem.
void carnot_cuda_conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

#endif  // CARNOT_BACKEND_CUDA_CONV_CONV_H_
