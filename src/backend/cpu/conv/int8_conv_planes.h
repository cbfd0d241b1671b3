// Quantized convolutions of three spatial dimensions [N,C,D,H,W] as ones of two, which the integer
// kernels compute.
#ifndef CARNOT_BACKEND_CPU_CONV_INT8_CONV_PLANES_H_
#define CARNOT_BACKEND_CPU_CONV_INT8_CONV_PLANES_H_

#include "backend/cpu/conv/int8_conv.h"

// What the planes [H,W] of the input are in the convolution of two dimensions. It follows from the
// window alone.
typedef enum carnot_int8_planes {
  CARNOT_INT8_PLANES_NONE,         // the window has one or two dimensions
  CARNOT_INT8_PLANES_AS_IMAGES,    // a filter covers one plane: [N*D, C, H, W]
  CARNOT_INT8_PLANES_AS_ROWS,      // a filter covers one pixel of each plane: [N, C, D, H*W]
  CARNOT_INT8_PLANES_AS_CHANNELS,  // a copy of the planes under each filter: [N*O, T*C, H, W]
} carnot_int8_planes;
carnot_int8_planes carnot_int8_planes_of(const carnot_sliding_window* window);

// The window and the channels of the convolution of two dimensions, in place.
void carnot_int8_flatten_window(carnot_sliding_window* window, int64_t* channels);
carnot_int8_conv_params carnot_int8_conv_flat(const carnot_int8_conv_params* p);
// Its sizes and strides. INVALID_MODEL where the planes or their pixels do not join.
carnot_status* carnot_int8_flat_geometry(carnot_int8_planes planes,
                                         const carnot_window_geometry* geometry,
                                         carnot_window_geometry* out) CARNOT_MUST_USE;

// For CARNOT_INT8_PLANES_AS_CHANNELS of one group: weights [K,C,T,R,S] -> [K,T*C,R,S].
void carnot_int8_stack_weights(const carnot_sliding_window* window, int64_t filters,
                               int64_t channels, const int8_t* weights, int8_t* stacked);
// Writes images [first, first + count) of [N*O, H, W, T*C] to |stacked|: under each output plane,
// its T input planes behind one another as channels, |zero| for those in the padding.
void carnot_int8_stack_planes(const carnot_window_geometry* geometry, const void* x, int zero,
                              int64_t first, int64_t count, void* stacked,
                              carnot_executor* executor);

#endif  // CARNOT_BACKEND_CPU_CONV_INT8_CONV_PLANES_H_
