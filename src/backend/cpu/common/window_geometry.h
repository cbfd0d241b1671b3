// The geometry of a convolution or pooling window of one to three spatial dimensions over
// channels-last operands.
#ifndef CARNOT_BACKEND_CPU_COMMON_WINDOW_GEOMETRY_H_
#define CARNOT_BACKEND_CPU_COMMON_WINDOW_GEOMETRY_H_

#include "backend/cpu/common/cpu.h"
#include "ops/sliding_window.h"

// Sizes, strides in elements and the window of one call. A 1-D window is a 2-D one of height 1.
typedef struct carnot_window_geometry {
  int64_t n, h, w, c, p, q, k;
  int64_t r, s, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, pad_h_end, pad_w_end;
  int64_t src_n, src_h, src_w, ld;
  carnot_conv_depth depth;  // of a 3-D window
} carnot_window_geometry;

// The depth of any window: one of two dimensions covers one plane of one.
static inline carnot_conv_depth carnot_window_depth(const carnot_window_geometry* g) {
  const carnot_conv_depth flat = {.taps = 1, .in = 1, .out = 1, .stride = 1, .dilation = 1};
  return g->depth.taps ? g->depth : flat;
}

// Initializers of the fields that the parameters of every window kernel have by these names: sizes
// but channels, window and padding.
#define CARNOT_WINDOW_FIELDS(g)                                                              \
  .n = (g)->n, .h = (g)->h, .w = (g)->w, .p = (g)->p, .q = (g)->q, .r = (g)->r, .s = (g)->s, \
  .stride_h = (g)->stride_h, .stride_w = (g)->stride_w, .dilation_h = (g)->dilation_h,       \
  .dilation_w = (g)->dilation_w, .pad_h = (g)->pad_h, .pad_w = (g)->pad_w

// Checks that a window, also one of a hostile engine file, has |low| to |high| dimensions and
// numbers in range.
carnot_status* carnot_sliding_window_check(const carnot_sliding_window* window, int low,
                                           int high) CARNOT_MUST_USE;

// Fills |out| from operands [N,C,((D,)H,)W] with channels innermost; INVALID_MODEL where strides or
// sizes do not fit.
carnot_status* carnot_window_geometry_of(const carnot_sliding_window* window,
                                         const carnot_operand* src, const carnot_operand* dst,
                                         carnot_window_geometry* out) CARNOT_MUST_USE;
// The same for float32 operands only.
carnot_status* carnot_window_geometry_of_f32(const carnot_sliding_window* window,
                                             const carnot_operand* src, const carnot_operand* dst,
                                             carnot_window_geometry* out) CARNOT_MUST_USE;

// That of a window over one image of |channels|, with rows and columns that stand for any number.
carnot_window_geometry carnot_window_geometry_of_any_size(const carnot_sliding_window* window,
                                                          int64_t channels);

#endif  // CARNOT_BACKEND_CPU_COMMON_WINDOW_GEOMETRY_H_
