// Constant 8-bit weights of GEMMs whose operand's zero point is known in the run alone: packed
// once, with the sums of columns that this zero point multiplies.
//
// With w' = w - middle and z' = z - middle, middle 128 for uint8 and 0 for int8:
//   sum (x - x0) (w - z) = sum x w' - x0 sum w' - z' sum (x - x0)
// of which the kernel computes the first term, its bias is the second, and the third, one number a
// row times one a column, is taken off behind it.
#ifndef CARNOT_BACKEND_CPU_GEMM_INTEGER_WEIGHTS_H_
#define CARNOT_BACKEND_CPU_GEMM_INTEGER_WEIGHTS_H_

#include "backend/cpu/quantize/int8_kernel.h"

// Constants of a prepared step. ZEROS, z' of each column, is absent where all are 0.
enum {
  CARNOT_INTEGER_WEIGHTS,
  CARNOT_INTEGER_SUMS,
  CARNOT_INTEGER_ZEROS,
  CARNOT_INTEGER_CONSTANTS
};

// reject: weights [K,N] of 8 bits that are known, with a zero point for all or one a column; NULLs
// are absent. The reason.
const char* carnot_integer_weights_check(const carnot_operand_desc* weights,
                                         const carnot_operand_desc* zero);
// Whether all z' are 0, for steps that take nothing off.
bool carnot_integer_weights_are_centered(const carnot_operand_desc* weights,
                                         const carnot_operand_desc* zero);
// prepare: the constants of |out|, packed for the kernels of |tactic|.
carnot_status* carnot_integer_weights_prepare(const carnot_tactic* tactic,
                                              const carnot_operand_desc* weights,
                                              const carnot_operand_desc* zero,
                                              carnot_prepared* out) CARNOT_MUST_USE;
// validate: the constants fit weights [k,n]. INVALID_MODEL.
carnot_status* carnot_integer_weights_validate(const carnot_step_view* step, int64_t k,
                                               int64_t n) CARNOT_MUST_USE;
// run: what the kernel adds to its sums of a column, for an operand with this zero point -> |bias|
// [n].
void carnot_integer_weights_bias(const carnot_step_view* step, int64_t n, int64_t zero,
                                 bool is_signed, int32_t* bias);
// run, behind the kernel: takes z' sum (x - x0) off its sums |y| [m,n] of |x| [m,k], both dense.
// |gemm| has m, n, k, a and dst.
void carnot_integer_weights_correct(const carnot_step_view* step, const carnot_gemm_u8s8* gemm,
                                    int64_t zero, carnot_executor* executor);

#endif  // CARNOT_BACKEND_CPU_GEMM_INTEGER_WEIGHTS_H_
