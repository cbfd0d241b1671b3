// The view of a GEMM of float activations by integer weights with scales, for tactics of every
// backend:
//   w = dequantize(q), q [K,N] or [N,K] of 2, 4 or 8 bits, one scale (float32, float16, bfloat16) a
//       block of K, a column or the tensor
//   y = epilogue(alpha * A * op(w) + beta * C), op: none, or transposes of either node
// Nodes of the region: dequantize, up to one transpose, up to one cast of float32 to the type of A,
// MatMul or Gemm, the epilogue. Pass
// form_fusion_regions makes it where a tactic takes it.
#ifndef CARNOT_TACTIC_PROBLEM_WEIGHT_ONLY_H_
#define CARNOT_TACTIC_PROBLEM_WEIGHT_ONLY_H_

#include "tactic/problem/gemm.h"

typedef struct carnot_weight_only_problem {
  carnot_gemm_problem gemm;         // its |b| is the stored weights, |trans_b| how they are stored
  uint32_t anchor;                  // node of the GEMM
  uint32_t weights, scales, zeros;  // inputs of the step; zeros NONE: 0
  int64_t k, n, block;              // block: K of one scale
  int bits;
  bool is_signed;
  int64_t scale_k, scale_n;  // distances of scales (and zero points) of the next block and column
} carnot_weight_only_problem;

// The anchor of |region|, a GEMM whose second operand is dequantized in the region and whose first
// is not; NULL: none.
const carnot_plan_node* carnot_weight_only_anchor(const carnot_region* region, uint32_t* out_index);

// Reads the region of |problem|. Weights, scales and zero points must be known. NULL; "" for other
// regions; else the reason.
const char* carnot_weight_only_read(const carnot_problem* problem, carnot_weight_only_problem* out,
                                    char* reason, size_t size);

// Weights as unsigned numbers of |bits| bits (signed ones have 2^(bits - 1) added) -> |out| [N,K].
void carnot_weight_only_numbers(const carnot_problem* problem,
                                const carnot_weight_only_problem* view, uint8_t* out);
// The scale of block |b| of column |n|, and its zero point as unsigned as the weights.
float carnot_weight_only_scale(const carnot_problem* problem,
                               const carnot_weight_only_problem* view, int64_t b, int64_t n);
int carnot_weight_only_zero(const carnot_problem* problem, const carnot_weight_only_problem* view,
                            int64_t b, int64_t n);

#endif  // CARNOT_TACTIC_PROBLEM_WEIGHT_ONLY_H_
