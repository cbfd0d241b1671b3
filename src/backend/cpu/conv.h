// What convolution and depthwise convolution share: the geometry of a window of one to three
// dimensions over channels-last operands.
#ifndef CARNOT_BACKEND_CPU_CONV_H_
#define CARNOT_BACKEND_CPU_CONV_H_

#include "backend/cpu/cpu.h"
#include "ops/sliding_window.h"

typedef struct carnot_conv_params {
  carnot_sliding_window window;
  int64_t group, channels, filters;  // C of the input, K of the output
  int32_t has_bias;
  int32_t weights;  // carnot_dtype of the packed ones
  carnot_tail tail;
} carnot_conv_params;

// A 1-D window is a 2-D one of height 1.
typedef struct carnot_plane {
  int64_t n, h, w, c, p, q, k;
  int64_t r, s, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, pad_h_end, pad_w_end;
  int64_t src_n, src_h, src_w, ld;
  carnot_conv_depth depth;  // of a 3-D window
} carnot_plane;

// A window of |low| to |high| dimensions whose numbers are in range, also from a hostile file.
carnot_status* carnot_sliding_window_check(const carnot_sliding_window* window, int low,
                                           int high) CARNOT_MUST_USE;

// Fills the plane from operands [N,C,((D,)H,)W] with channels innermost; INVALID_MODEL where
// strides or sizes do not fit.
carnot_status* carnot_plane_of(const carnot_sliding_window* window, const carnot_operand* src,
                               const carnot_operand* dst, carnot_plane* out) CARNOT_MUST_USE;
// The same of float32 operands.
carnot_status* carnot_plane_make(const carnot_sliding_window* window, const carnot_operand* src,
                                 const carnot_operand* dst, carnot_plane* out) CARNOT_MUST_USE;

// The part of reject and prepare that both share; *out is filled. |bias| has room for the filters.
const char* carnot_conv_describe(const carnot_problem* problem, carnot_conv_params* out,
                                 float* bias, char* reason, size_t size);

#endif  // CARNOT_BACKEND_CPU_CONV_H_
