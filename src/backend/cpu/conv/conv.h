// What the float32 convolution tactics share: parameters, packing of the bias, checks and the
// epilogue.
#ifndef CARNOT_BACKEND_CPU_CONV_CONV_H_
#define CARNOT_BACKEND_CPU_CONV_CONV_H_

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/epilogue.h"
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/common/window_geometry.h"
#include "kernel/cpu/conv/conv2d_bf16_tiles.h"

enum { CARNOT_CONV_MAX_CHANNELS = 8192, CARNOT_CONV_MAX_FILTERS = 1 << 16 };

// Channels of a tap from which on convolutions by BF16 parts take it: three quarters of the depth
// of a tile.
enum { CARNOT_CONV_LEAST_SPLIT_CHANNELS = 24 };

// What kernels read where a tap falls into the padding.
extern const float carnot_conv_zeros[CARNOT_CONV_MAX_CHANNELS];

// Stored in engines.
typedef struct carnot_conv_params {
  carnot_sliding_window window;
  int64_t group, channels, filters;  // C of the input, K of the output
  int32_t has_bias;
  int32_t weights;  // carnot_dtype of the packed ones
  carnot_epilogue_plan epilogue_plan;
} carnot_conv_params;

// One filter per channel.
static inline bool carnot_conv_is_depthwise(const carnot_conv_params* p) {
  return p->group == p->channels && p->filters == p->channels && p->group > 1;
}
// The constant weights of a problem that carnot_conv_reject took.
static inline const carnot_operand_desc* carnot_conv_weights(const carnot_problem* problem) {
  return &problem->inputs[problem->region->nodes[0].inputs[1]];
}
// Elements of the window.
static inline int64_t carnot_conv_taps(const carnot_conv_params* p) {
  return carnot_dims_count(p->window.kernel, p->window.rank);
}

// Reads a Conv over float32 with constant weights into |out| and asks for channels-last layouts.
// NULL, or why the problem is none.
const char* carnot_conv_reject(carnot_problem* problem, carnot_conv_params* out, char* reason,
                               size_t size);
// Stores the parameters in |out| and the bias as constant 1; the tactic packs the weights as
// constant 0.
carnot_status* carnot_conv_prepare(const carnot_problem* problem, carnot_prepared* out,
                                   carnot_conv_params** out_params) CARNOT_MUST_USE;
// Allocates constant 0 of |bytes|, at a multiple of 64 bytes.
carnot_status* carnot_conv_alloc_weights(carnot_prepared* out, const char* packing, size_t bytes,
                                         void** out_packed) CARNOT_MUST_USE;
// Packs |weights| [N,channels,taps], of as many taps as |shape| has rows of |channels|, their taps
// one behind the other. Not for float32.
carnot_status* carnot_conv_pack_taps(carnot_weights_type type, carnot_packed_weights_shape shape,
                                     int64_t channels, const float* weights,
                                     void* packed) CARNOT_MUST_USE;
// Checks all that carnot_conv_prepare stored, for a window of up to |most_dims| dimensions.
// INVALID_MODEL.
carnot_status* carnot_conv_check_params(const carnot_step_view* step, int most_dims,
                                        const carnot_conv_params** out) CARNOT_MUST_USE;
// The part of it about one convolution of a step of |input_count| inputs.
carnot_status* carnot_conv_params_check(const carnot_conv_params* p, uint32_t input_count,
                                        int most_dims) CARNOT_MUST_USE;
// Checks the size of constant 0. INVALID_MODEL.
carnot_status* carnot_conv_check_packed(const carnot_step_view* step, size_t bytes) CARNOT_MUST_USE;
// uses_input: the weights and the bias come packed.
bool carnot_conv_uses_input(const carnot_step_view* step, uint32_t input);
// configure: the geometry, checked against the packed weights and the epilogue.
carnot_status* carnot_conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs,
                                     carnot_window_geometry* out) CARNOT_MUST_USE;
// The same where |x| says how the pixels of input 0 lie.
carnot_status* carnot_conv_configure_from(const carnot_step_view* step, const carnot_operand* x,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs,
                                          carnot_window_geometry* out) CARNOT_MUST_USE;
// The same where input 0 is float32 whose channels may lie anywhere, |out_src_c| elements apart;
// the geometry is that of its pixels.
carnot_status* carnot_conv_configure_pixels(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, int64_t* out_src_c,
                                            carnot_window_geometry* out) CARNOT_MUST_USE;
// The same where the result is dense row-major float32; the geometry is that of channels-last.
carnot_status* carnot_conv_configure_row_major(const carnot_step_view* step,
                                               const carnot_operand* inputs,
                                               const carnot_operand* outputs,
                                               carnot_window_geometry* out) CARNOT_MUST_USE;
// What the kernel of few channels relies on, of parameters that were checked. INVALID_MODEL.
carnot_status* carnot_conv_few_check(const carnot_conv_params* p) CARNOT_MUST_USE;
// Of kernels that round a sum to BF16 once it has its residual and RELU or CLIP, and some of them
// a gate (SiLU, hard-swish): whether |plan| asks for no more.
bool carnot_conv_rounds_last(const carnot_epilogue_plan* plan, bool takes_gate);
// reject and configure of their tactics: a BF16 result has such a plan, and the residual has the
// result's type. NULL, or the reason; INVALID_MODEL.
const char* carnot_conv_reject_bf16(const carnot_problem* problem, const carnot_epilogue_plan* plan,
                                    bool takes_gate);
carnot_status* carnot_conv_check_bf16(const carnot_epilogue_plan* plan, bool takes_gate,
                                      const carnot_operand* inputs,
                                      const carnot_operand* outputs) CARNOT_MUST_USE;
// Packs the weights of |groups| groups as conv2d_nchw_f32 reads them: filter f, number d of |depth|
// at f*filter_step + d*depth_step of its group.
void carnot_conv_nchw_pack(int64_t groups, int64_t filters, int64_t depth, const float* weights,
                           int64_t filter_step, int64_t depth_step, float* packed);
// Element |index| of memory of |t|; kernels by tiles take pointers to float32 for BF16 too.
static inline float* carnot_conv_element(const carnot_operand* t, int64_t index) {
  return (float*)(void*)((char*)t->data + index * (carnot_dtype_bits(t->format.dtype) / 8));
}
// Of one group, as the kernel of BF16 tiles takes it: the shape of packed weights, and the call
// without pointers.
carnot_packed_weights_shape carnot_conv_tiles_weights_shape(const carnot_conv_params* p);
carnot_conv2d_bf16_tiles carnot_conv_tiles_call(const carnot_conv_params* p,
                                                const carnot_window_geometry* g);
// Sets |out_src_c| to the elements between channels of |x|. Where the kernel reads channels that
// lie apart, as in NCHW, |x| describes its pixels alone afterwards; INVALID_MODEL where the pixels
// of a row are not side by side.
carnot_status* carnot_conv_tiles_planes(const carnot_conv_params* p, carnot_operand* x,
                                        int64_t* out_src_c) CARNOT_MUST_USE;
// How the results of |call| are cut into parts.
carnot_work_partition carnot_conv_tiles_partition(int threads,
                                                  const carnot_conv2d_bf16_tiles* call);
// Output rows of an image that a part computes where it copies the |span| input rows under each of
// them: parts of few rows would copy most rows twice.
int64_t carnot_conv_rows_per_part(int threads, int64_t rows, int64_t span);
// work: weights of |weight_bytes| bytes each.
void carnot_conv_work(const carnot_problem* problem, double weight_bytes, double* out_flops,
                      double* out_bytes);

#endif  // CARNOT_BACKEND_CPU_CONV_CONV_H_
