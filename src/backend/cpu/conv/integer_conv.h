// Convolutions by constant weights that int8 holds less their zero points, of activations whose
// zero point is known in the run alone: what ConvInteger and dynamically quantized convolutions
// share.
#ifndef CARNOT_BACKEND_CPU_CONV_INTEGER_CONV_H_
#define CARNOT_BACKEND_CPU_CONV_INTEGER_CONV_H_

#include "backend/cpu/conv/int8_conv_planes.h"
#include "backend/cpu/quantize/int8_kernel.h"

// Stored in engines.
typedef struct carnot_integer_conv {
  carnot_sliding_window window;
  int64_t group, channels, filters, taps;
} carnot_integer_conv;

// The convolution of two dimensions that computes one of three (int8_conv_planes.h). Functions
// below that take none of three say so.
carnot_integer_conv carnot_integer_conv_flat(const carnot_integer_conv* conv);

// How one of two dimensions is computed, by its sizes alone: under every pixel of the window, over
// a padded image of few channels (carnot_int8_image), or channel by channel.
typedef enum carnot_integer_conv_form {
  CARNOT_INTEGER_CONV_PIXELS,
  CARNOT_INTEGER_CONV_IMAGE,
  CARNOT_INTEGER_CONV_DEPTHWISE
} carnot_integer_conv_form;
carnot_integer_conv_form carnot_integer_conv_form_of(const carnot_integer_conv* conv);

// Bytes of packed weights, and of those of one group of a convolution of two dimensions.
size_t carnot_integer_conv_bytes(const carnot_tactic* tactic, const carnot_integer_conv* conv);
size_t carnot_integer_conv_group_bytes(const carnot_tactic* tactic,
                                       const carnot_integer_conv* conv);
// One group of a convolution of two dimensions; what operands hold is missing.
carnot_conv2d_u8s8 carnot_integer_conv_call(const carnot_integer_conv* conv,
                                            const carnot_window_geometry* geometry);

// Constants of a prepared step: packed weights and their sums.
enum { CARNOT_INTEGER_CONV_WEIGHTS, CARNOT_INTEGER_CONV_SUMS, CARNOT_INTEGER_CONV_CONSTANTS };

// Reads |node| of |problem|, a ConvInteger, whose operands are inputs |x|, |w| and |w_zero| (NONE
// or an absent one: 0) of the step. NULL, or the reason.
const char* carnot_integer_conv_read(const carnot_problem* problem, const carnot_plan_node* node,
                                     uint32_t x, uint32_t w, uint32_t w_zero,
                                     carnot_integer_conv* out, char* reason, size_t size);
// prepare: the constants of |out|.
carnot_status* carnot_integer_conv_prepare(const carnot_problem* problem, uint32_t w,
                                           uint32_t w_zero, const carnot_integer_conv* conv,
                                           carnot_prepared* out) CARNOT_MUST_USE;
// validate: sizes and constants. INVALID_MODEL.
carnot_status* carnot_integer_conv_validate(const carnot_integer_conv* conv,
                                            const carnot_step_view* step) CARNOT_MUST_USE;

typedef struct carnot_integer_conv_state {
  carnot_int8_planes planes;
  carnot_window_geometry given;     // of the operands
  carnot_window_geometry geometry;  // of two dimensions
  carnot_work_partition partition;
  int64_t parts;  // calls of the kernel
  // Of the workspace, behind the bias: bytes from its start.
  size_t border, stacked, image, tiles;
  size_t part_bytes;  // of a part's tiles
  size_t bytes;       // of the workspace, which begins at a multiple of 64
} carnot_integer_conv_state;

// configure: |x| is channels-last, of any type whose strides are those of the bytes.
carnot_status* carnot_integer_conv_configure(const carnot_integer_conv* conv,
                                             const carnot_step_view* step, const carnot_operand* x,
                                             const carnot_operand* y,
                                             carnot_integer_conv_state* out) CARNOT_MUST_USE;

// The operands of a run; the bias of |epilogue| is made of |zero|.
typedef struct carnot_integer_conv_operands {
  const void* x;
  bool is_signed;
  int64_t zero;
  void* y;  // int32 or float32, as |epilogue| says
  carnot_int8_epilogue epilogue;
} carnot_integer_conv_operands;

void carnot_integer_conv_run(const carnot_integer_conv* conv,
                             const carnot_integer_conv_state* state, const carnot_step_view* step,
                             const carnot_integer_conv_operands* operands, void* workspace,
                             carnot_executor* executor);

#endif  // CARNOT_BACKEND_CPU_CONV_INTEGER_CONV_H_
