// Attention regions of 16-bit floats: what the kernels and the cuDNN tactic share.
#ifndef CARNOT_BACKEND_CUDA_ATTENTION_ATTENTION_H_
#define CARNOT_BACKEND_CUDA_ATTENTION_ATTENTION_H_

#include "backend/cuda/common/tactic.h"
#include "backend/cuda/quantize/byte_result.h"
#include "kernel/cuda/attention/attention_params.h"
#include "tactic/problem/attention.h"

// Stored in engines.
typedef struct carnot_cuda_attention_stored {
  carnot_attention_params attention;
  carnot_cuda_byte_result result;
  int32_t dtype;      // carnot_dtype of the softmax
  float value_scale;  // of FP8 operands; those of queries and keys are in attention.scale
} carnot_cuda_attention_stored;

// Elements of a head.
enum { CARNOT_CUDA_ATTENTION_MOST_ELEMENTS = 128 };

// Byte offsets of the heads from their operands' addresses; the number of heads of all batches;
// whether each begins at a multiple of eight elements.
typedef struct carnot_cuda_attention_offsets {
  int64_t q, k, v, y, heads;
  bool aligned;
} carnot_cuda_attention_offsets;

// Why the kernels do not take heads so laid out; NULL: they do.
const char* carnot_cuda_attention_reject_heads(const carnot_problem* problem,
                                               const carnot_attention_params* p, char* reason,
                                               size_t size);
// The type of the softmax of the region; INVALID: it has none.
carnot_dtype carnot_cuda_attention_softmax_type(const carnot_problem* problem);
// Heads of 16-bit floats, multiples of eight up to 128 elements, in at most two batch axes. The
// result may be quantized.
const char* carnot_cuda_attention_reject(carnot_problem* problem, carnot_cuda_attention_stored* out,
                                         char* reason, size_t size);
carnot_status* carnot_cuda_attention_prepare(const carnot_problem* problem,
                                             carnot_prepared* out) CARNOT_MUST_USE;
// Keeps |stored| as the parameters of the step.
carnot_status* carnot_cuda_attention_store(const carnot_cuda_attention_stored* stored,
                                           carnot_prepared* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_attention_check(const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_cuda_attention_reads(const carnot_step_view* step, uint32_t input);
// Of a dense mask of many queries: the kernel that classifies it by tile, once per mask instead of
// once per head. NULL: none.
typedef struct carnot_cuda_attention_kinds {
  CUfunction function;
  int64_t grid[3];
} carnot_cuda_attention_kinds;
// |params| has its tile sizes and gets the strides of the classification.
carnot_status* carnot_cuda_attention_find_kinds(const carnot_step_view* step, carnot_dtype dtype,
                                                int64_t heads, carnot_cuda_attention_params* params,
                                                carnot_cuda_attention_kinds* out,
                                                size_t* out_workspace_bytes) CARNOT_MUST_USE;
// Sets the addresses, and classifies the mask into |workspace|.
carnot_status* carnot_cuda_attention_bind(const carnot_step_view* step,
                                          const carnot_cuda_attention_offsets* at,
                                          const carnot_cuda_attention_kinds* kinds,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* workspace,
                                          carnot_cuda_attention_params* params) CARNOT_MUST_USE;
void carnot_cuda_attention_set_addresses(const carnot_attention_params* p,
                                         const carnot_cuda_attention_offsets* at,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs,
                                         carnot_cuda_attention_params* params);
// Sizes, strides and mask: |out| without addresses, all its bytes written. |dtype|: of the softmax;
// operands of q, k and v may have any type of one size.
carnot_status* carnot_cuda_attention_describe_heads(
    const carnot_attention_params* p, carnot_dtype dtype, const carnot_operand* inputs,
    const carnot_operand* outputs, carnot_cuda_attention_params* out,
    carnot_cuda_attention_offsets* out_at) CARNOT_MUST_USE;
// |out| without addresses, all its bytes written. |dtype|: of the softmax; operands have it too, or
// are FP8. |result|: NULL, of floats too.
carnot_status* carnot_cuda_attention_describe(
    const carnot_attention_params* p, carnot_dtype dtype, const carnot_cuda_byte_result* result,
    const carnot_operand* inputs, const carnot_operand* outputs, carnot_cuda_attention_params* out,
    carnot_cuda_attention_offsets* out_at) CARNOT_MUST_USE;
// The same at the sizes that the build is for, operands in row-major order.
carnot_status* carnot_cuda_attention_describe_problem(
    const carnot_problem* problem, const carnot_cuda_attention_stored* stored,
    carnot_cuda_attention_params* out, carnot_cuda_attention_offsets* out_at) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_ATTENTION_ATTENTION_H_
