// Steps of several convolutions: what building, loading and running them share.
// Constants of such a step: the weights of each stage, then the biases of all, each from a multiple
// of 16 floats on. Epilogues name inputs of the step.
#ifndef CARNOT_BACKEND_CPU_CONV_CONV_STAGES_H_
#define CARNOT_BACKEND_CPU_CONV_CONV_STAGES_H_

#include <stdatomic.h>

#include "backend/cpu/conv/conv.h"
#include "tactic/problem/conv_chain.h"

// A 1x1 convolution of stride 1.
static inline bool carnot_conv_is_point(const carnot_conv_params* p) {
  bool is = p->group == 1;
  for (int d = 0; d < p->window.rank; d++)
    is = is && p->window.kernel[d] == 1 && p->window.strides[d] == 1 && !p->window.begin[d] &&
         !p->window.end[d];
  return is;
}

// Each stage by the tactic of its problem; |params| [count] are plain data of the caller.
carnot_status* carnot_conv_stages_prepare(carnot_conv_stage* const* stages, int count,
                                          carnot_conv_params* params,
                                          carnot_prepared* out) CARNOT_MUST_USE;
// Checks stage |i| of |params|, whose weights |tactic| packed, and their size. INVALID_MODEL.
carnot_status* carnot_conv_stage_check(const carnot_step_view* step,
                                       const carnot_conv_params* params, int i,
                                       const carnot_tactic* tactic) CARNOT_MUST_USE;
// The number of constants and the size of the biases; |params| were checked. INVALID_MODEL.
carnot_status* carnot_conv_stages_check_constants(const carnot_step_view* step,
                                                  const carnot_conv_params* params,
                                                  int count) CARNOT_MUST_USE;
// Where the bias of each stage lies.
void carnot_conv_stages_biases(const carnot_step_view* step, const carnot_conv_params* params,
                               int count, const float** out_biases);
// uses_input: all but weights and biases, unless an epilogue reads them.
bool carnot_conv_stages_uses_input(const carnot_step_view* step, const carnot_conv_params* params,
                                   int count, uint32_t input);
// work: the operations of all convolutions; bytes of the first input, the result and the weights.
void carnot_conv_stages_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

// Pixels in memory: the first, how far they are apart in elements.
typedef struct carnot_pixels {
  void* data;
  bool is_bf16;  // else float32
  int64_t ld;
  bool zero_padded;  // zeros follow the channels up to |ld|, a multiple of a tile's K
} carnot_pixels;

// The pixels of a buffer at |data| that 1x1 convolution |p| reads: with zeros behind their channels
// BF16 tiles read them where they lie.
carnot_pixels carnot_conv_stage_src(const carnot_conv_params* p, bool is_bf16, void* data);
// Writes the zeros behind |channels| of |m| pixels; nothing unless they are zero padded.
void carnot_conv_stage_pad(carnot_pixels pixels, int64_t channels, int64_t m);

static inline void* carnot_pixels_element(void* data, bool is_bf16, int64_t at) {
  return (char*)data + at * (is_bf16 ? 2 : 4);
}
// From element |at| of |t| on.
static inline carnot_pixels carnot_pixels_of(const carnot_operand* t, int64_t at, int64_t ld) {
  const bool is_bf16 = t->format.dtype == CARNOT_DTYPE_BF16;
  return (carnot_pixels){carnot_pixels_element(t->data, is_bf16, at), is_bf16, ld, false};
}

// The epilogue of a stage over pixels from number |pixel| of the result on, which a residual is
// read from.
carnot_epilogue_f32 carnot_conv_stage_epilogue(const carnot_conv_params* p, const float* bias,
                                               const carnot_operand* inputs, int64_t pixel,
                                               bool* out_residual_is_bf16);

// A 1x1 convolution of |m| pixels as the kernel of BF16 tiles takes it; without pointers.
carnot_conv2d_bf16_tiles carnot_conv_stage_tiles(const carnot_conv_params* p, int64_t m,
                                                 carnot_pixels src, int64_t ldc);

// A 1x1 convolution with what its kernel applies of the epilogue: filters [n0,n1) of |m| pixels.
typedef struct carnot_conv_stage_point {
  const carnot_cpu_kernels* kernels;
  const carnot_conv_params* params;
  const void* weights;
  carnot_epilogue_f32 epilogue;
  bool residual_is_bf16;
  carnot_pixels src, dst;
  void* scratch;  // of BF16 tiles
} carnot_conv_stage_point;
void carnot_conv_stage_run_point(const carnot_conv_stage_point* point, int64_t m, int64_t n0,
                                 int64_t n1);

// Buffers of which a part of a step has one at a time: bit |i| of |taken| is set where |i| is in
// use. Threads that return one mostly get the same again.
enum { CARNOT_CONV_MAX_SLOTS = 16 };
int carnot_conv_take_slot(_Atomic uint32_t* taken, int64_t count);
void carnot_conv_return_slot(_Atomic uint32_t* taken, int slot);

#endif  // CARNOT_BACKEND_CPU_CONV_CONV_STAGES_H_
