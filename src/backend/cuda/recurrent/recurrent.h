// What the recurrent tactics share.
#ifndef CARNOT_BACKEND_CUDA_RECURRENT_RECURRENT_H_
#define CARNOT_BACKEND_CUDA_RECURRENT_RECURRENT_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/recurrent/recurrent_cluster_params.h"
#include "kernel/cuda/recurrent/recurrent_params.h"

// NULL for an LSTM, GRU or RNN alone with the operator's default activations and no mask.
const char* carnot_cuda_recurrent_reject(carnot_problem* problem, char* reason, size_t size);
// Sizes and switches of the layer, without addresses; checks the operands against them.
carnot_status* carnot_cuda_recurrent_geometry(const carnot_step_view* step,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs,
                                              carnot_cuda_recurrent_params* out) CARNOT_MUST_USE;

// Of the kernels whose clusters share out the hidden units.
typedef struct carnot_cuda_recurrent_state {
  CUfunction function;
  size_t shared_bytes;
  unsigned threads;
  carnot_cuda_recurrent_cluster_params params;
} carnot_cuda_recurrent_state;
_Static_assert(sizeof(carnot_cuda_recurrent_state) <= CARNOT_STATE_BYTES, "the state has its size");

// NULL for a layer without lengths, peepholes and clips whose operands have one float type.
const char* carnot_cuda_recurrent_cluster_reject(carnot_problem* problem, char* reason,
                                                 size_t size);
// The layer; how it is shared out, its pitches and addresses are zero.
carnot_status* carnot_cuda_recurrent_cluster_params_of(
    const carnot_step_view* step, const carnot_operand* inputs, const carnot_operand* outputs,
    carnot_cuda_recurrent_cluster_params* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_recurrent_cluster_run(const carnot_step_view* step, void* state,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* outputs, void* workspace,
                                                 carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_RECURRENT_RECURRENT_H_
