// Generated programs for chains of pointwise nodes, alone or behind a kernel.
#ifndef CARNOT_BACKEND_CUDA_POINTWISE_CHAIN_H_
#define CARNOT_BACKEND_CUDA_POINTWISE_CHAIN_H_

#include "backend/cuda/common/tactic.h"

enum { CARNOT_CUDA_CHAIN_INPUTS = 10, CARNOT_CUDA_CHAIN_OUTPUTS = 2, CARNOT_CUDA_CHAIN_RANK = 8 };
// Tiles of programs over operands in two orders: elements along the result's dense axis, and along
// the operand's.
enum { CARNOT_CUDA_CHAIN_WIDE = 16, CARNOT_CUDA_CHAIN_HIGH = 64 };

static inline bool carnot_cuda_is_quantization(carnot_op op) {
  return op == CARNOT_OP_QUANTIZE_LINEAR || op == CARNOT_OP_DEQUANTIZE_LINEAR;
}
// Operators that a generated program computes: of quantize and dequantize those with one float32
// scale between float32 and 8-bit integers.
static inline bool carnot_cuda_is_pointwise(carnot_op op) {
  return op == CARNOT_OP_UNARY || op == CARNOT_OP_BINARY || op == CARNOT_OP_TERNARY ||
         op == CARNOT_OP_CAST || carnot_cuda_is_quantization(op);
}

// The pointwise nodes of a region from |first| on. |acc|: the local value that the anchor before
// them computed and which is in the output already; NONE without an anchor.
typedef struct carnot_cuda_chain {
  uint32_t first, acc;
  uint32_t bias;  // an input of one number a channel (axis 1) that is added to acc first; NONE
  uint32_t input_count, output_count;
  uint32_t inputs[CARNOT_CUDA_CHAIN_INPUTS];  // locals: inputs of the step, or acc
  uint32_t outputs[CARNOT_CUDA_CHAIN_OUTPUTS];
} carnot_cuda_chain;

// NULL, or why device code cannot take these nodes. Needs the region alone.
const char* carnot_cuda_chain_make(const carnot_region* region, uint32_t step_inputs,
                                   uint32_t first, uint32_t acc, carnot_cuda_chain* out,
                                   char* reason, size_t size);
static inline bool carnot_cuda_chain_is_empty(const carnot_region* region,
                                              const carnot_cuda_chain* chain) {
  return chain->first >= region->node_count && chain->bias == CARNOT_PLAN_NONE;
}
// Adds |bias| (and acc) to the inputs of the program; false when there is no room.
bool carnot_cuda_chain_add_bias(carnot_cuda_chain* chain, uint32_t bias);
// The machine code as a constant of the step. |acc_dtype|: of acc.
carnot_status* carnot_cuda_chain_prepare(const carnot_problem* problem,
                                         const carnot_cuda_chain* chain, carnot_dtype acc_dtype,
                                         carnot_prepared* out) CARNOT_MUST_USE;

typedef struct carnot_cuda_chain_state {
  carnot_cuda_program* program;
  int64_t blocks;
  bool after;  // it does not wait for the previous kernel by itself
  uint8_t
      operand[CARNOT_CUDA_CHAIN_INPUTS];  // of the step; 255: the current contents of the output
  uint8_t input_count, output_count;
  struct carnot_cuda_chain_params {
    const void* x[CARNOT_CUDA_CHAIN_INPUTS];
    void* y[CARNOT_CUDA_CHAIN_OUTPUTS];
    long long count;
    long long dims[CARNOT_CUDA_CHAIN_RANK];
    long long src[CARNOT_CUDA_CHAIN_INPUTS][CARNOT_CUDA_CHAIN_RANK];
    long long dst[CARNOT_CUDA_CHAIN_RANK];
    int rank;
    // Of flat programs: 0 dense, 1 one element, 2 i / inner % size, 3 i / inner * size + i % size,
    // 4 rows of |size| elements, |inner| apart.
    int kind[CARNOT_CUDA_CHAIN_INPUTS];
    int inner[CARNOT_CUDA_CHAIN_INPUTS], size[CARNOT_CUDA_CHAIN_INPUTS];
    int last;  // of programs for any strides: elements of the axis behind |rank| that a thread
               // walks
    int row,
        pitch;  // of flat programs: the results are rows of |row| elements, |pitch| apart; 0: dense
  } params;
} carnot_cuda_chain_state;
// Configures a launch: the program for the operands' strides, with its parameters. |state| stays
// empty for an empty chain. UNSUPPORTED where too many axes do not join.
carnot_status* carnot_cuda_chain_shape(const carnot_step_view* step, const carnot_cuda_chain* chain,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       carnot_cuda_chain_state* out) CARNOT_MUST_USE;
// Records the launch into the step's stream; nothing for an empty chain.
carnot_status* carnot_cuda_chain_run(const carnot_step_view* step, carnot_cuda_chain_state* state,
                                     const carnot_operand* inputs,
                                     const carnot_operand* outputs) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_POINTWISE_CHAIN_H_
