// What building and running a transposed convolution share.
#ifndef CARNOT_BACKEND_CPU_CONV_CONV_TRANSPOSE_H_
#define CARNOT_BACKEND_CPU_CONV_CONV_TRANSPOSE_H_

#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv.h"

enum { CARNOT_TRANSPOSED_AXES = 3 };

// Stored in engines.
typedef struct carnot_transposed_params {
  carnot_sliding_window
      window;  // of depth, rows and columns; axes that the operator lacks have 1 tap
  int64_t group, channels, filters;
  int32_t has_bias, activation;
  int32_t weights;  // carnot_weights_type of the packed ones
  float a, b;
} carnot_transposed_params;

// The taps of a phase along one axis.
typedef struct carnot_transposed_phase {
  int64_t first, count, shift;  // x index = j + shift - u
} carnot_transposed_phase;

// Reads a transposed convolution of float32 with constant weights, behind which an activation may
// follow. NULL, or why the problem is none.
const char* carnot_transposed_read(const carnot_problem* problem, carnot_transposed_params* p,
                                   char* reason, size_t size);
// Parameters, operands and constants of a step have the counts and bounds of a transposed
// convolution.
carnot_status* carnot_transposed_check_params(const carnot_step_view* step) CARNOT_MUST_USE;
int64_t carnot_transposed_phase_count(const carnot_transposed_params* p);
// The taps of phase |at| of all, along the three axes.
void carnot_transposed_phases_of(const carnot_transposed_params* p, int64_t at,
                                 carnot_transposed_phase out[CARNOT_TRANSPOSED_AXES]);
// The weights of one group of it.
carnot_packed_weights_shape carnot_transposed_weights(
    const carnot_transposed_params* p, const carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES]);
// The byte at which the weights of a phase begin, by phase then group; past the last: their size.
size_t carnot_transposed_offset(const carnot_transposed_params* p, int64_t group, int64_t at);
// The convolution of a phase over one group, without pointers and distances: |out| pixels of |in|.
carnot_conv2d_f32 carnot_transposed_conv(const carnot_transposed_params* p,
                                         const carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES],
                                         const int64_t in[CARNOT_TRANSPOSED_AXES],
                                         const int64_t out[CARNOT_TRANSPOSED_AXES]);

// configure and run of the tactic.
carnot_status* carnot_transposed_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) CARNOT_MUST_USE;
carnot_status* carnot_transposed_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_CONV_CONV_TRANSPOSE_H_
