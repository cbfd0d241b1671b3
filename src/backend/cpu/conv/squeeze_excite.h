// Squeeze-and-excitation before a 1x1 convolution: what building and running share.
#ifndef CARNOT_BACKEND_CPU_CONV_SQUEEZE_EXCITE_H_
#define CARNOT_BACKEND_CPU_CONV_SQUEEZE_EXCITE_H_

#include "backend/cpu/conv/conv_stages.h"
#include "tactic/problem/squeeze_excite.h"

// Stored in engines; constants as conv_stages.h says.
typedef struct carnot_squeeze_excite_params {
  carnot_conv_params stages[CARNOT_SQUEEZE_EXCITE_STAGES];
  uint32_t axes;  // the input that holds the axes of the mean
} carnot_squeeze_excite_params;

// What configure finds for run. Offsets are bytes of the workspace.
typedef struct carnot_squeeze_excite_state {
  carnot_window_geometry geometry;  // of the projection
  int64_t pixels;                   // of an image
  int64_t ld;                       // floats between vectors of channels
  int64_t sum_pixels, sum_count;    // of a partial sum; partial sums of an image
  carnot_work_partition dense[2];   // of squeeze and excite, over images
  carnot_work_partition partition;  // of the projection
  bool scaled_is_bf16;
  // Parts of other filters read the same scaled pixels: all are scaled before, in one buffer.
  bool scales_first;
  int64_t scaled_pixels;  // of a buffer
  int64_t slot_count, slot_bytes, scaled_bytes;
  int64_t means, hidden, gates, scaled, slots;
  int64_t hidden_ld;
} carnot_squeeze_excite_state;

// The configure and run functions of the tactics.
carnot_status* carnot_squeeze_excite_configure(const carnot_step_view* step,
                                               const carnot_operand* inputs,
                                               const carnot_operand* outputs, void* state,
                                               size_t* out_workspace_bytes) CARNOT_MUST_USE;
carnot_status* carnot_squeeze_excite_run(const carnot_step_view* step, void* state,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* workspace,
                                         carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_CONV_SQUEEZE_EXCITE_H_
