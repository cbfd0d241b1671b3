// Quantized convolutions as ones of two dimensions, which the integer kernels compute: those of
// three spatial dimensions [N,C,D,H,W], and those whose window does not fit a kernel.
#ifndef CARNOT_BACKEND_CPU_CONV_INT8_CONV_PLANES_H_
#define CARNOT_BACKEND_CPU_CONV_INT8_CONV_PLANES_H_

#include "backend/cpu/conv/int8_conv.h"

// What the planes [H,W] of the input, or the taps of the filter, are in the convolution of two
// dimensions.
typedef enum carnot_int8_planes {
  CARNOT_INT8_PLANES_NONE,         // the window has one or two dimensions
  CARNOT_INT8_PLANES_AS_IMAGES,    // a filter covers one plane: [N*D, C, H, W]
  CARNOT_INT8_PLANES_AS_ROWS,      // a filter covers one pixel of each plane: [N, C, D, H*W]
  CARNOT_INT8_PLANES_AS_CHANNELS,  // a copy of the planes under each filter: [N*O, T*C, H, W]
  CARNOT_INT8_TAPS_AS_CHANNELS,    // a copy of the pixels under each filter: [N*O*P, T*R*S*C, 1, Q]
} carnot_int8_planes;

// The form without CARNOT_INT8_TAPS_AS_CHANNELS, which any window may have; by the window alone.
carnot_int8_planes carnot_int8_planes_of(const carnot_sliding_window* window);
static inline bool carnot_int8_is_copied(carnot_int8_planes planes) {
  return planes == CARNOT_INT8_PLANES_AS_CHANNELS || planes == CARNOT_INT8_TAPS_AS_CHANNELS;
}

// The window and the channels of the convolution of two dimensions, in place.
void carnot_int8_flatten_window(carnot_int8_planes planes, carnot_sliding_window* window,
                                int64_t* channels);
carnot_int8_conv_params carnot_int8_conv_flat(carnot_int8_planes planes,
                                              const carnot_int8_conv_params* p);
// Its sizes and strides. INVALID_MODEL where the planes or their pixels do not join.
carnot_status* carnot_int8_flat_geometry(carnot_int8_planes planes,
                                         const carnot_window_geometry* geometry,
                                         carnot_window_geometry* out) CARNOT_MUST_USE;

// For forms that are copied, of one group: weights [K,C,T,R,S] -> [K,T*C,R,S] or [K,T*R*S*C].
void carnot_int8_stack_weights(carnot_int8_planes planes, const carnot_sliding_window* window,
                               int64_t filters, int64_t channels, const int8_t* weights,
                               int8_t* stacked);
// Writes images [first, first + count) of the copy to |stacked|, with channels innermost; |zero|
// for what lies in the padding.
void carnot_int8_stack_images(carnot_int8_planes planes, const carnot_window_geometry* geometry,
                              const void* x, int zero, int64_t first, int64_t count, void* stacked,
                              carnot_executor* executor);

#endif  // CARNOT_BACKEND_CPU_CONV_INT8_CONV_PLANES_H_
