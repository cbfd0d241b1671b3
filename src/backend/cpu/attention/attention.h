// What the CPU's attention tactics share: the sizes of heads and mask, and the parts of a run.
#ifndef CARNOT_BACKEND_CPU_ATTENTION_ATTENTION_H_
#define CARNOT_BACKEND_CPU_ATTENTION_ATTENTION_H_

#include "backend/cpu/common/cpu.h"
#include "tactic/problem/attention.h"

// A part computes |rows_per_part| queries of one head.
typedef struct carnot_attention_sizes {
  carnot_heads q, k, v, out;
  int64_t mask_strides[CARNOT_MAX_RANK - 2], mask_ld;
  int64_t rows_per_part, parts_per_head;
} carnot_attention_sizes;

// Queries of a part, a multiple of |tile|. A part packs the keys and values of its head again, so
// that |heads| are cut only where they are few for the threads.
int64_t carnot_attention_rows_per_part(int threads, int64_t rows, int64_t heads, int64_t tile);
// configure: the sizes of the operands, whose parts are multiples of |tile| queries. The operands
// have the types of |inputs| and |outputs|, which the caller checks; the mask is float32.
// INVALID_ARGUMENT.
carnot_status* carnot_attention_sizes_make(int threads, const carnot_attention_params* params,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, int64_t tile,
                                           carnot_attention_sizes* out) CARNOT_MUST_USE;
// configure: q, k, v and the result are float32, or BF16 where the tactic takes it.
// INVALID_ARGUMENT.
carnot_status* carnot_attention_check_types(const carnot_step_view* step,
                                            const carnot_attention_params* params,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs) CARNOT_MUST_USE;
// Asks for row-major operands and results.
void carnot_attention_want_row_major(carnot_problem* problem);
// The mask of batch entry |batch|; NULL: none.
static inline const float* carnot_attention_mask_at(const carnot_attention_sizes* sizes,
                                                    const carnot_attention_params* params,
                                                    const carnot_operand* inputs, int64_t batch) {
  if (params->mask < 0) return NULL;
  return (const float*)inputs[params->mask].data +
         carnot_heads_offset(&sizes->out, sizes->mask_strides, batch);
}
// Elements from the first of a tensor to the head of batch entry |batch|.
static inline int64_t carnot_head_at(const carnot_heads* heads, int64_t batch) {
  return heads->offset + carnot_heads_offset(heads, heads->batch_strides, batch);
}
// Operations and bytes of a region that |params| describes.
void carnot_attention_work(const carnot_problem* problem, const carnot_attention_params* params,
                           double* out_flops, double* out_bytes);

#endif  // CARNOT_BACKEND_CPU_ATTENTION_ATTENTION_H_
