// Convolution regions: what is fused behind (and in front of) a convolution, and its packed
// weights.
#ifndef CARNOT_BACKEND_CUDA_CONV_CONV_H_
#define CARNOT_BACKEND_CUDA_CONV_CONV_H_

#include "backend/cuda/common/sliding_window.h"
#include "backend/cuda/pointwise/chain.h"
#include "kernel/cuda/conv/cast_to_nhwc_params.h"

// The convolution node; a cast of its input may precede it in the region (pass regions).
static inline const carnot_plan_node* carnot_cuda_conv_node(const carnot_region* region) {
  return &region->nodes[region->node_count > 1 && region->nodes[0].op == CARNOT_OP_CAST];
}
static inline bool carnot_cuda_conv_casts(const carnot_region* region) {
  return carnot_cuda_conv_node(region) != region->nodes;
}
// Input 0 as the convolution sees it.
carnot_operand_desc carnot_cuda_conv_input(const carnot_problem* problem);

typedef struct carnot_cuda_conv {
  uint32_t weights;
  uint32_t bias;      // input, or NONE: the operator's own or a per-channel vector added behind it
  uint32_t residual;  // input of the size of the result, added after the bias; NONE
  carnot_cuda_epilogue activation;
  carnot_cuda_chain chain;  // the rest
} carnot_cuda_conv;

// What a kernel fuses besides the bias.
typedef enum carnot_cuda_conv_takes {
  CARNOT_CUDA_TAKES_BIAS,
  CARNOT_CUDA_TAKES_ACTIVATION,
  CARNOT_CUDA_TAKES_RESIDUAL,  // and then ReLU or SiLU
  CARNOT_CUDA_TAKES_ALL        // residual and any activation
} carnot_cuda_conv_takes;

// |channel[i]|: input i is one number a channel; |whole[i]|: it has the result's dimensions.
const char* carnot_cuda_conv_read(const carnot_region* region, uint32_t input_count,
                                  const bool* channel, const bool* whole,
                                  carnot_cuda_conv_takes takes, carnot_cuda_conv* out, char* reason,
                                  size_t size);
const char* carnot_cuda_conv_describe(const carnot_problem* problem, carnot_cuda_conv_takes takes,
                                      carnot_cuda_conv* out, char* reason, size_t size);
// The same for images with constant weights of their type; with |groups|, for any number of
// groups.
const char* carnot_cuda_conv_packs(const carnot_problem* problem, carnot_cuda_conv_takes takes,
                                   bool groups, carnot_cuda_conv* out, char* reason, size_t size);
// Layouts of its result and of the inputs from |first| on that are no constants.
void carnot_cuda_conv_want_channels_last(carnot_problem* problem, uint32_t first);
carnot_status* carnot_cuda_conv_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, carnot_cuda_conv_takes takes,
                                        carnot_cuda_conv* out) CARNOT_MUST_USE;

// The cast in front of tactics that read 16-bit floats only: to NHWC, at the begin of the
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

// Packs weights [K,C,taps] of 16-bit floats as [K,taps,C], the next constant of |out|.
carnot_status* carnot_cuda_conv_pack(const carnot_operand_desc* weights,
                                     carnot_prepared* out) CARNOT_MUST_USE;
// Packs them in the order of conv_small_channels.cuh, for |chunks| chunks of 32 filters:
// |place[step][lane & 3][4]| are offsets in the weights of a filter, -1 for a zero.
carnot_status* carnot_cuda_conv_pack_chunks(const carnot_operand_desc* weights, int chunks,
                                            int steps, const int32_t (*place)[4][4],
                                            carnot_prepared* out) CARNOT_MUST_USE;
// For tactics that read their weights packed only: the engine holds them, and the plain weights
// are unused.
carnot_status* carnot_cuda_conv_packed_check(const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_cuda_conv_packed_reads(const carnot_step_view* step, uint32_t input);
// Operations and bytes of the problem.
void carnot_cuda_conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

#endif  // CARNOT_BACKEND_CUDA_CONV_CONV_H_
