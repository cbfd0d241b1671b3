// Sliding windows: the geometry of convolution and pooling along the spatial dimensions.
//   out = floor((in + begin + end - ((kernel-1)*dilation + 1)) / stride) + 1
// |ceil_mode| rounds up, less a window that would begin in the padding at the end. auto_pad
// SAME_UPPER and SAME_LOWER give ceil(in / stride) and pad what is missing, the odd element at the
// end or the beginning; VALID pads nothing. Source: ONNX Conv-22, MaxPool-22.
#ifndef CARNOT_OPS_SLIDING_WINDOW_H_
#define CARNOT_OPS_SLIDING_WINDOW_H_

#include "ops/util.h"

enum { CARNOT_SLIDING_WINDOW_RANK = CARNOT_MAX_RANK - 2 };

#define CARNOT_AUTO_PADS "NOTSET SAME_UPPER SAME_LOWER VALID"  // of carnot_auto_pad
typedef enum carnot_auto_pad {
  CARNOT_PAD_NOTSET,
  CARNOT_PAD_SAME_UPPER,
  CARNOT_PAD_SAME_LOWER,
  CARNOT_PAD_VALID
} carnot_auto_pad;

typedef struct carnot_sliding_window {
  int rank;  // spatial dimensions
  int64_t kernel[CARNOT_SLIDING_WINDOW_RANK], strides[CARNOT_SLIDING_WINDOW_RANK],
      dilations[CARNOT_SLIDING_WINDOW_RANK];
  int64_t begin[CARNOT_SLIDING_WINDOW_RANK], end[CARNOT_SLIDING_WINDOW_RANK];
  carnot_auto_pad auto_pad;
  bool ceil_mode;
} carnot_sliding_window;

// Elements of the window.
static inline int64_t carnot_sliding_window_taps(const carnot_sliding_window* w) {
  int64_t taps = 1;
  for (int d = 0; d < w->rank; d++) taps *= w->kernel[d];
  return taps;
}

// Whether each result reads the one element at its own position.
static inline bool carnot_sliding_window_is_pointwise(const carnot_sliding_window* w) {
  for (int d = 0; d < w->rank; d++)
    if (w->kernel[d] != 1 || w->strides[d] != 1 || w->begin[d] || w->end[d]) return false;
  return true;
}

// Reads kernel_shape, strides, dilations, pads and auto_pad, whichever |row| has. |weights|: the
// type whose dimensions from 2 on are the kernel, or NULL: kernel_shape says it.
carnot_status* carnot_sliding_window_read(const carnot_op_row* row, const carnot_attrs* attrs,
                                          int rank, const carnot_type* weights,
                                          carnot_sliding_window* out) CARNOT_MUST_USE;
// The same at run time, with the weights' plain dimensions or NULL.
carnot_status* carnot_sliding_window_of_call(const carnot_call* call, int rank,
                                             const carnot_tensor* weights,
                                             carnot_sliding_window* out) CARNOT_MUST_USE;
// The output's spatial dimensions. INVALID_MODEL where the kernel is proved larger than the padded
// input.
carnot_status* carnot_sliding_window_infer(carnot_infer* infer, const carnot_sliding_window* window,
                                           const carnot_sym* in, carnot_sym* out) CARNOT_MUST_USE;
// Sets begin and end of auto_pad SAME_* from plain sizes.
void carnot_sliding_window_resolve(carnot_sliding_window* window, const int64_t* in,
                                   const int64_t* out);
// Sets begin and end of axis |axis| of a transposed convolution of |in| elements with
// output_padding |extra| whose size |out| is given. |end| is negative where that is beyond what the
// kernel reaches.
void carnot_sliding_window_resolve_transposed(carnot_sliding_window* window, int axis, int64_t in,
                                              int64_t out, int64_t extra);

#endif  // CARNOT_OPS_SLIDING_WINDOW_H_
