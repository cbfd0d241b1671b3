// What the convolution tactics share: parameters, and the geometry of a window of one to three
// spatial dimensions over channels-last operands.
#ifndef CARNOT_BACKEND_CPU_CONV_CONV_H_
#define CARNOT_BACKEND_CPU_CONV_CONV_H_

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/epilogue.h"
#include "ops/sliding_window.h"

typedef struct carnot_conv_params {
  carnot_sliding_window window;
  int64_t group, channels, filters;  // C of the input, K of the output
  int32_t has_bias;
  int32_t weights;  // carnot_dtype of the packed ones
  carnot_epilogue_plan epilogue_plan;
} carnot_conv_params;

// Sizes, strides in elements and the window of one call. A 1-D window is a 2-D one of height 1.
typedef struct carnot_conv_geometry {
  int64_t n, h, w, c, p, q, k;
  int64_t r, s, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, pad_h_end, pad_w_end;
  int64_t src_n, src_h, src_w, ld;
  carnot_conv_depth depth;  // of a 3-D window
} carnot_conv_geometry;

// Checks that a window, also one of a hostile engine file, has |low| to |high| dimensions and
// numbers in range.
carnot_status* carnot_sliding_window_check(const carnot_sliding_window* window, int low,
                                           int high) CARNOT_MUST_USE;

// Fills |out| from operands [N,C,((D,)H,)W] with channels innermost; INVALID_MODEL where
// strides or sizes do not fit.
carnot_status* carnot_conv_geometry_of(const carnot_sliding_window* window,
                                       const carnot_operand* src, const carnot_operand* dst,
                                       carnot_conv_geometry* out) CARNOT_MUST_USE;
// The same for float32 operands only.
carnot_status* carnot_conv_geometry_of_f32(const carnot_sliding_window* window,
                                           const carnot_operand* src, const carnot_operand* dst,
                                           carnot_conv_geometry* out) CARNOT_MUST_USE;

// Reads the problem for reject and prepare into |out|. |bias| has room for one number a filter.
// NULL, or why the tactic does not support the problem.
const char* carnot_conv_describe(const carnot_problem* problem, carnot_conv_params* out,
                                 float* bias, char* reason, size_t size);

#endif  // CARNOT_BACKEND_CPU_CONV_CONV_H_
