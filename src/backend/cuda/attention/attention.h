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
} carnot_cuda_attention_stored;

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
// Heads of 16-bit floats, multiples of eight up to 128 elements, in at most two batch axes. The
// result may be quantized.
const char* carnot_cuda_attention_reject(carnot_problem* problem, carnot_cuda_attention_stored* out,
                                         char* reason, size_t size);
carnot_status* carnot_cuda_attention_prepare(const carnot_problem* problem,
                                             carnot_prepared* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_attention_check(const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_cuda_attention_reads(const carnot_step_view* step, uint32_t input);
// |out| without addresses, all its bytes written. |result|: NULL, of floats too.
carnot_status* carnot_cuda_attention_describe(
    const carnot_attention_params* p, const carnot_cuda_byte_result* result,
    const carnot_operand* inputs, const carnot_operand* outputs, carnot_cuda_attention_params* out,
    carnot_cuda_attention_offsets* out_at) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_ATTENTION_ATTENTION_H_
