// What the recurrent tactics share.
#ifndef CARNOT_BACKEND_CUDA_RECURRENT_RECURRENT_H_
#define CARNOT_BACKEND_CUDA_RECURRENT_RECURRENT_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/recurrent/recurrent_params.h"

// NULL for an LSTM, GRU or RNN alone with the operator's default activations and no mask.
const char* carnot_cuda_recurrent_reject(carnot_problem* problem, char* reason, size_t size);
// Sizes and switches of the layer, without addresses; checks the operands against them.
carnot_status* carnot_cuda_recurrent_geometry(const carnot_step_view* step,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs,
                                              carnot_cuda_recurrent_params* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_RECURRENT_RECURRENT_H_
