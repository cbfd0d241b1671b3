// The attention problem, for tactics of every backend: which inputs q, k and v are, and how the
// heads are laid out in them.
#ifndef CARNOT_TACTIC_PROBLEM_ATTENTION_H_
#define CARNOT_TACTIC_PROBLEM_ATTENTION_H_

#include "tactic/problem/quantized_ends.h"

// One of q, k, v: axis d of the view is axis perm[d] of the input. The last two are the row and the
// element of a head, those before it are batches, counted in their order.
typedef struct carnot_attention_view {
  int32_t input, rank;
  int32_t perm[CARNOT_MAX_RANK];
  int32_t cut;  // axis of the input that is sliced to |count| indices from |first| on; -1: none
  int64_t first, count;
} carnot_attention_view;

// True for a batch axis that is gone because one element of it was cut out.
static inline bool carnot_attention_drops(const carnot_attention_view* view, int d) {
  return view->perm[d] == view->cut && view->count == 1;
}
// Axes of batches that the heads are seen in.
static inline int carnot_attention_batches(const carnot_attention_view* view) {
  int count = 0;
  for (int d = 0; d + 2 < view->rank; d++) count += !carnot_attention_drops(view, d);
  return count;
}

typedef struct carnot_attention_params {
  carnot_attention_view q, k, v;
  carnot_attention_view out;  // axis d of the result is axis perm[d] of the output
  int32_t mask;               // input, -1: none
  float scale;
  int32_t zero_empty;
} carnot_attention_params;

// Products over the heads in front of the softmax (0) and behind it (1): inputs of the step with
// weights [heads, heads] and a bias; -1: none.
typedef struct carnot_attention_mixes {
  int32_t weights[2], bias[2];
} carnot_attention_mixes;

// Reads the region: NULL, or why it is no attention over tensors of |dtype|. A mask may be float32
// whatever |dtype| is.
const char* carnot_attention_read(const carnot_problem* problem, carnot_dtype dtype,
                                  carnot_attention_params* out, char* reason, size_t size);
// The same where the result may be quantized, behind a cast to float32 or not: |out_end|, float32
// where it is not.
const char* carnot_attention_read_quantized(const carnot_problem* problem, carnot_dtype dtype,
                                            carnot_attention_params* out,
                                            carnot_quantized_end* out_end, char* reason,
                                            size_t size);
// The same of a region that mixes the heads of [batch, heads, ..]; without a mix it is none.
const char* carnot_attention_read_mixed(const carnot_problem* problem, carnot_dtype dtype,
                                        carnot_attention_params* out,
                                        carnot_attention_mixes* out_mixes, char* reason,
                                        size_t size);
// Where q, k and v are dequantized bytes: the conversions of the region, inputs of the step.
typedef struct carnot_attention_conversions {
  carnot_quantized_end q, k, v;
  // Scores to bytes and back: before the factor, behind it, and behind the mask; float32: none.
  carnot_quantized_end scores, scaled, masked;
  carnot_quantized_end weights;  // softmax's result to bytes and back
  carnot_quantized_end out;      // float32: the result is not quantized
  bool divides;                  // the scores are divided by |factor|, else multiplied
  float factor;                  // 1: neither
} carnot_attention_conversions;

// Reads the region of dequantized q, k and v: of int8 or uint8 where |dtype|, the type of the
// softmax, is float32; of FP8, with casts between the conversions and the rest, where it is a
// 16-bit float. NULL, or why it is none.
const char* carnot_attention_read_bytes(const carnot_problem* problem, carnot_dtype dtype,
                                        carnot_attention_params* out,
                                        carnot_attention_conversions* conversions, char* reason,
                                        size_t size);
// validate, for every attention tactic: parameters of the right size whose inputs exist and whose
// axes are permutations. INVALID_MODEL otherwise.
carnot_status* carnot_attention_check(const carnot_step_view* step) CARNOT_MUST_USE;

// The views of |params| alone, for parameters that hold more.
carnot_status* carnot_attention_check_views(const carnot_attention_params* params,
                                            const carnot_step_view* step) CARNOT_MUST_USE;

// A view with its sizes: at every batch index a matrix [rows, elements] whose rows are |ld|
// elements apart. |offset|: of the first matrix, in elements.
typedef struct carnot_heads {
  int32_t batch_rank;
  int64_t batch_dims[CARNOT_MAX_RANK - 2], batch_strides[CARNOT_MAX_RANK - 2];
  int64_t batch, rows, elements, ld, offset;
} carnot_heads;
// The sizes of |view| of the operand |t|, which must have |dtype|. INVALID_ARGUMENT otherwise.
carnot_status* carnot_heads_make(const carnot_attention_view* view, const carnot_operand* t,
                                 carnot_dtype dtype, carnot_heads* out) CARNOT_MUST_USE;
// INVALID_ARGUMENT unless the sizes of the four fit one another.
carnot_status* carnot_heads_check(const carnot_heads* q, const carnot_heads* k,
                                  const carnot_heads* v, const carnot_heads* out) CARNOT_MUST_USE;
// Elements from the first to batch entry |batch| of a tensor with |strides| along the batch axes.
static inline int64_t carnot_heads_offset(const carnot_heads* heads, const int64_t* strides,
                                          int64_t batch) {
  int64_t offset = 0;
  for (int d = heads->batch_rank - 1; d >= 0; d--) {
    offset += batch % heads->batch_dims[d] * strides[d];
    batch /= heads->batch_dims[d];
  }
  return offset;
}
// Strides of the mask, in elements, along the batch axes of |out| (|strides|) and along its rows
// (|out_ld|); 0 where it is broadcast.
carnot_status* carnot_attention_mask(const carnot_operand* mask, const carnot_heads* out,
                                     int64_t keys, int64_t* strides,
                                     int64_t* out_ld) CARNOT_MUST_USE;

#endif  // CARNOT_TACTIC_PROBLEM_ATTENTION_H_
