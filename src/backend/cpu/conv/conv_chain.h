// Chains of 1x1 and depthwise convolutions (the inverted residual of MobileNet): what building and
// running share.
#ifndef CARNOT_BACKEND_CPU_CONV_CONV_CHAIN_H_
#define CARNOT_BACKEND_CPU_CONV_CONV_CHAIN_H_

#include "backend/cpu/conv/conv_stages.h"

// Stored in engines.
typedef struct carnot_conv_chain_params {
  int32_t count, depthwise;  // stages; which of them is depthwise
  carnot_conv_params stages[CARNOT_CONV_CHAIN_MAX_STAGES];
} carnot_conv_chain_params;

// A buffer between two convolutions.
typedef struct carnot_conv_chain_buffer {
  bool is_bf16;  // else float32
  int64_t rows;  // that it holds
  int64_t row_bytes, bytes;
} carnot_conv_chain_buffer;

// What configure finds for run.
typedef struct carnot_conv_chain_state {
  carnot_window_geometry window;               // of the depthwise convolution, over one image
  carnot_window_geometry first;                // of the first convolution
  int64_t images, src_n, src_c, src_h, src_w;  // of the input
  int64_t channels;                            // of the depthwise convolution
  int64_t ld;                                  // of the result
  int64_t block_count;                         // of an image
  // Of a slot: before the depthwise convolution, behind it; no bytes where that is no stage.
  carnot_conv_chain_buffer expanded, filtered;
  int64_t scratch_bytes, slot_bytes, slot_count;
} carnot_conv_chain_state;

// The first output row of a block.
static inline int64_t carnot_conv_chain_row(const carnot_conv_chain_state* s, int64_t block) {
  return s->window.p * block / s->block_count;
}

// The configure and run functions of the tactics.
carnot_status* carnot_conv_chain_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) CARNOT_MUST_USE;
carnot_status* carnot_conv_chain_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_CONV_CONV_CHAIN_H_
