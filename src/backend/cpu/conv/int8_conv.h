// Quantized convolutions of the CPU's integer tactics: windows of one to three dimensions over
// channels-last activations, in the form that engines store.
#ifndef CARNOT_BACKEND_CPU_CONV_INT8_CONV_H_
#define CARNOT_BACKEND_CPU_CONV_INT8_CONV_H_

#include "backend/cpu/common/window_geometry.h"
#include "backend/cpu/quantize/int8_region.h"

enum { CARNOT_INT8_MAX_CHANNELS = 1 << 16 };

// Stored in engines.
typedef struct carnot_int8_conv_params {
  carnot_sliding_window window;
  int64_t group, channels, filters;
  carnot_int8_region region;
} carnot_int8_conv_params;

// Constant of a prepared step behind those of carnot_int8_region: bytes of x's zero point.
enum { CARNOT_INT8_BORDER = CARNOT_INT8_CONSTANTS, CARNOT_INT8_CONV_CONSTANTS };

// Elements of the window.
static inline int64_t carnot_int8_conv_taps(const carnot_int8_conv_params* p) {
  return carnot_sliding_window_taps(&p->window);
}
// The weights [filters, channels / group, window].
static inline carnot_quantized_shape carnot_int8_conv_weights(const carnot_int8_conv_params* p) {
  return (carnot_quantized_shape){.axis = 0,
                                  .channels = p->filters,
                                  .depth = p->channels / p->group * carnot_int8_conv_taps(p)};
}

// A first layer's padded image with channels innermost, in which the taps of a filter row lie side
// by side and count as one.
typedef struct carnot_int8_image {
  int64_t rows, columns, row_bytes;
} carnot_int8_image;
// Bytes of a tap of |columns| columns of |channels|, rounded up to whole steps of the kernel.
static inline int64_t carnot_int8_image_depth(int64_t columns, int64_t channels) {
  return carnot_ceildiv(columns * channels, 4) * 4;
}
carnot_int8_image carnot_int8_image_of(const carnot_window_geometry* geometry);
// The convolution over it; what operands hold is missing.
carnot_conv2d_u8s8 carnot_int8_image_call(const carnot_window_geometry* geometry,
                                          const carnot_int8_image* image);
// [K,C,R,S] -> [K,R,S,C], rows of the filter filled up with zeros, which |turned| holds already.
void carnot_int8_image_weights(int64_t filters, int64_t channels, int64_t rows, int64_t columns,
                               const int8_t* weights, int8_t* turned);

// What a tactic takes: windows of so many dimensions, and as many taps of one or two of them
// (int8_conv_planes.h).
typedef struct carnot_int8_conv_limits {
  int rank;
  int64_t taps;
} carnot_int8_conv_limits;

// Reads the problem for reject and prepare, and asks for channels-last layouts. NULL, or why it is
// none; "" for other regions.
const char* carnot_int8_conv_read(carnot_problem* problem, const carnot_int8_conv_limits* limits,
                                  carnot_int8_conv_params* out, char* reason, size_t size);
// prepare: reads the problem again, makes all constants but the packed weights, and allocates the
// weights less their zero points, which the caller frees.
carnot_status* carnot_int8_conv_prepare(const carnot_problem* problem,
                                        const carnot_int8_conv_limits* limits,
                                        int32_t shift_of_signed, carnot_prepared* out,
                                        int8_t** out_weights) CARNOT_MUST_USE;
// Checks the stored parameters and all constants; the packed weights have |packed_bytes|.
carnot_status* carnot_int8_conv_validate(
    const carnot_step_view* step, const carnot_int8_conv_limits* limits,
    size_t (*packed_bytes)(const carnot_tactic* tactic,
                           const carnot_int8_conv_params* p)) CARNOT_MUST_USE;
// uses_input: the activations and the residual.
bool carnot_int8_conv_uses_input(const carnot_step_view* step, uint32_t input);
// configure: checks types and sizes, and fills the geometry.
carnot_status* carnot_int8_conv_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs,
                                          carnot_window_geometry* geometry) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_CONV_INT8_CONV_H_
