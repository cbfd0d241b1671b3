// The GEMM problem, for tactics of every backend: MatMul and Gemm as the first node of a region.
//   y = epilogue(alpha * op(A) * op(B) + beta * C), op(X) = X or its transpose
#ifndef CARNOT_TACTIC_PROBLEM_GEMM_H_
#define CARNOT_TACTIC_PROBLEM_GEMM_H_

#include "tactic/problem/epilogue.h"

typedef struct carnot_gemm_problem {
  uint32_t a, b;          // inputs of the step
  uint32_t c;             // input that Gemm adds; NONE
  bool trans_a, trans_b;  // of the last two axes; vectors are not transposed
  float alpha, beta;      // beta: 1 without C
} carnot_gemm_problem;

static inline bool carnot_is_gemm(carnot_op op) {
  return op == CARNOT_OP_MATMUL || op == CARNOT_OP_GEMM;
}
// Reads node 0 of |region|, a region of a step with |input_count| inputs. NULL; "" when it is no
// GEMM; else the reason.
const char* carnot_gemm_read(const carnot_region* region, uint32_t input_count,
                             carnot_gemm_problem* out);
// The same of node |anchor|, whose second operand is input |b| of the step (weight_only.h).
const char* carnot_gemm_read_at(const carnot_region* region, uint32_t anchor, uint32_t b,
                                uint32_t input_count, carnot_gemm_problem* out);
// C is read: with beta 0 it has no effect.
static inline bool carnot_gemm_adds_c(const carnot_gemm_problem* problem) {
  return problem->c != CARNOT_PLAN_NONE && problem->beta != 0;
}
// C is added as it is and one number per column, by the |facts| of the inputs.
bool carnot_gemm_c_is_bias(const carnot_gemm_problem* problem, const carnot_operand_facts* facts);

// Sizes of the matrices [m,k] and [k,n], and the trailing axes of A, B and the result that are no
// batch axes: 2, or 1 for a vector (whose m or n is 1 and no axis of the result).
typedef struct carnot_gemm_sizes {
  int64_t m, n, k;
  int a_axes, b_axes, y_axes;
} carnot_gemm_sizes;
// From the dimensions of A and B, at build or at run time; ranks are 1 or more. The depth of B, for
// the caller to compare with k, is returned.
int64_t carnot_gemm_sizes_of(const carnot_gemm_problem* problem, int a_rank, const int64_t* a_dims,
                             int b_rank, const int64_t* b_dims, carnot_gemm_sizes* out);

// Matches the epilogue behind the GEMM. Where C is read and no bias, |out| is empty: C is preloaded
// into the result and accumulated with beta, so neither residual nor activation can be fused.
void carnot_gemm_match_epilogue(const carnot_gemm_problem* problem, const carnot_region* region,
                                const carnot_operand_facts* facts, uint32_t input_count,
                                const carnot_epilogue_mask* mask, carnot_epilogue* out);

// Floating-point operations at the problem's dimensions; 0 for a region without a GEMM.
double carnot_gemm_flops(const carnot_problem* problem);

#endif  // CARNOT_TACTIC_PROBLEM_GEMM_H_
