// The operands of the GEMMs and convolutions of 8-bit integers by TMA (sm_90).
#include "backend/cuda/gemm/gemm_int8_operands.h"

#include "backend/cuda/common/sliding_window.h"

enum { kVector = 16 };

// TMA fills with zeros outside of the image.
static bool reads_outside(const carnot_sliding_window* w) {
  bool outside = w->auto_pad != CARNOT_PAD_NOTSET && w->auto_pad != CARNOT_PAD_VALID;
  for (int d = 0; d < w->rank; d++) outside = outside || w->begin[d] > 0 || w->end[d] > 0;
  return outside;
}

const char* carnot_cuda_gemm_int8_unfit(const carnot_cuda_gemm_int8* p) {
  if (p->channels % kVector) return "channels are no multiple of 16";
  if (p->filters % 8) return "output channels are no multiple of 8";
  if (p->is_conv && p->region.x_zero && reads_outside(&p->window))
    return "padding with a zero point other than 0";
  return NULL;
}

const char* carnot_cuda_gemm_int8_window_reject(const carnot_problem* problem,
                                                const carnot_quantized_region* view,
                                                const carnot_cuda_gemm_int8* p) {
  const carnot_cuda* cuda = carnot_cuda_of(problem->device);
  if (cuda->major != 9 || cuda->minor) return "needs sm_90";
  return !p->is_conv || carnot_cuda_sliding_window_within(
                            view->node, &problem->inputs[view->weights.value],
                            CARNOT_CUDA_TMA_REACH, CARNOT_CUDA_TMA_STEP)
             ? NULL
             : "the window is too large";
}

int carnot_cuda_gemm_int8_pitch(int64_t channels) { return channels % 128 == 0 ? 128 : 64; }

carnot_status* carnot_cuda_gemm_int8_window(const carnot_cuda_gemm_tile_params* t, int taps,
                                            bool* out_is_window) {
  *out_is_window = taps > 1 || t->step[0] != 1 || t->step[1] != 1 || t->begin[0] || t->begin[1] ||
                   t->out_rows != t->in_rows || t->out_columns != t->in_columns;
  if (!*out_is_window) return NULL;
  // The corners of TMA's windows are 8-bit integers.
  const int kernel[2] = {taps / t->kernel_columns, t->kernel_columns},
            in[2] = {t->in_rows, t->in_columns}, out[2] = {t->out_rows, t->out_columns};
  for (int d = 0; d < 2; d++) {
    const int64_t last = (int64_t)(out[d] - 1) * t->step[d] - t->begin[d] + 1 - in[d];
    CARNOT_CHECK((int64_t)(kernel[d] - 1) * t->dilation[d] <= 2 * CARNOT_CUDA_TMA_REACH &&
                     t->begin[d] >= -CARNOT_CUDA_TMA_REACH &&
                     t->begin[d] <= CARNOT_CUDA_TMA_REACH && last >= -CARNOT_CUDA_TMA_REACH &&
                     last <= CARNOT_CUDA_TMA_REACH && t->step[d] <= CARNOT_CUDA_TMA_STEP,
                 UNSUPPORTED,
                 "a window of %d taps, dilation %d, pad %d, stride %d over %d elements", kernel[d],
                 t->dilation[d], t->begin[d], t->step[d], in[d]);
  }
  return NULL;
}
