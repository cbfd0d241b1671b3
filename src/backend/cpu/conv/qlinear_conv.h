// QLinearConv with constant int8 weights of zero point 0, and constant scales and zero points: what
// the INT8 and the depthwise tactics share.
#ifndef CARNOT_BACKEND_CPU_CONV_QLINEAR_CONV_H_
#define CARNOT_BACKEND_CPU_CONV_QLINEAR_CONV_H_

#include "backend/cpu/common/window_geometry.h"

// The operator's inputs.
enum {
  CARNOT_QLINEAR_X,
  CARNOT_QLINEAR_X_SCALE,
  CARNOT_QLINEAR_X_ZERO,
  CARNOT_QLINEAR_W,
  CARNOT_QLINEAR_W_SCALE,
  CARNOT_QLINEAR_W_ZERO,
  CARNOT_QLINEAR_Y_SCALE,
  CARNOT_QLINEAR_Y_ZERO,
  CARNOT_QLINEAR_BIAS
};
enum { CARNOT_QLINEAR_MAX_CHANNELS = 1 << 14, CARNOT_QLINEAR_MAX_FILTERS = 1 << 16 };

// Stored in engines.
typedef struct carnot_qlinear_conv_params {
  carnot_sliding_window window;
  int64_t group, channels, filters;
  int32_t x_zero, y_zero;
  int32_t x_signed, y_signed;
} carnot_qlinear_conv_params;

// The data of constant input |i|; NULL when it is absent or no constant.
static inline const carnot_tensor* carnot_qlinear_constant(const carnot_problem* p, uint32_t i) {
  return i < p->input_count && carnot_is_known(&p->inputs[i]) ? p->inputs[i].tensor : NULL;
}
// Elements of a window of one or two dimensions.
static inline int64_t carnot_qlinear_taps(const carnot_qlinear_conv_params* p) {
  return p->window.kernel[0] * (p->window.rank == 2 ? p->window.kernel[1] : 1);
}

// Reads the problem for reject and prepare. NULL, or why it is none; "" for other operators.
const char* carnot_qlinear_read(const carnot_problem* problem, carnot_qlinear_conv_params* out,
                                char* reason, size_t size);
// Asks for channels-last layouts of a problem that is taken (|why| NULL); returns |why|.
const char* carnot_qlinear_want_channels_last(carnot_problem* problem, const char* why);
// Checks the stored parameters, and that there are |constants| packed constants. INVALID_MODEL.
carnot_status* carnot_qlinear_check_params(const carnot_step_view* step, uint32_t constants,
                                           const carnot_qlinear_conv_params** out) CARNOT_MUST_USE;
// Checks the sizes of the first |count| packed constants. INVALID_MODEL.
carnot_status* carnot_qlinear_check_constants(const carnot_step_view* step, const size_t* wanted,
                                              int count) CARNOT_MUST_USE;
// configure: checks types and sizes, and fills the geometry.
carnot_status* carnot_qlinear_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs,
                                        carnot_window_geometry* geometry) CARNOT_MUST_USE;
// uses_input: only the input is not packed.
bool carnot_qlinear_uses_input(const carnot_step_view* step, uint32_t input);
void carnot_qlinear_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

#endif  // CARNOT_BACKEND_CPU_CONV_QLINEAR_CONV_H_
