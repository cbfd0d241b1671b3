// What building and running a transposed convolution share.
#ifndef CARNOT_BACKEND_CPU_CONV_CONV_TRANSPOSE_H_
#define CARNOT_BACKEND_CPU_CONV_CONV_TRANSPOSE_H_

#include "backend/cpu/conv/conv.h"

enum { CARNOT_TRANSPOSED_AXES = 3 };

// Stored in engines.
typedef struct carnot_transposed_params {
  carnot_sliding_window
      window;  // of depth, rows and columns; axes that the operator lacks have 1 tap
  int64_t group, channels, filters;
  int32_t has_bias, activation;
  float a, b;
} carnot_transposed_params;

// The taps of a phase along one axis.
typedef struct carnot_transposed_phase {
  int64_t first, count, shift;  // x index = j + shift - u
} carnot_transposed_phase;

int64_t carnot_transposed_phase_count(const carnot_transposed_params* p);
// The taps of phase |at| of all, along the three axes.
void carnot_transposed_phases_of(const carnot_transposed_params* p, int64_t at,
                                 carnot_transposed_phase out[CARNOT_TRANSPOSED_AXES]);
int64_t carnot_transposed_taps(const carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES]);
// Where the weights of a phase begin, by phase then group; past the last: how many there are.
int64_t carnot_transposed_offset(const carnot_transposed_params* p, int64_t group, int64_t at);

// configure and run of the tactic.
carnot_status* carnot_transposed_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) CARNOT_MUST_USE;
carnot_status* carnot_transposed_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_CONV_CONV_TRANSPOSE_H_
