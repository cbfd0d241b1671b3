// Constant int8 weights around zero of GEMMs whose operand's zero point is known in the run alone:
// packed once, with the sums of columns that this zero point multiplies.
#ifndef CARNOT_BACKEND_CPU_GEMM_INTEGER_WEIGHTS_H_
#define CARNOT_BACKEND_CPU_GEMM_INTEGER_WEIGHTS_H_

#include "backend/cpu/quantize/int8_kernel.h"

// Constants of a prepared step.
enum { CARNOT_INTEGER_WEIGHTS, CARNOT_INTEGER_SUMS, CARNOT_INTEGER_CONSTANTS };

// reject: weights [K,N] that are known, with a zero point of 0; NULLs are absent. The reason.
const char* carnot_integer_weights_check(const carnot_operand_desc* weights,
                                         const carnot_operand_desc* zero);
// prepare: the constants of |out|, packed for the kernels of |tactic|.
carnot_status* carnot_integer_weights_prepare(const carnot_tactic* tactic,
                                              const carnot_operand_desc* weights,
                                              carnot_prepared* out) CARNOT_MUST_USE;
// validate: the constants fit weights [k,n]. INVALID_MODEL.
carnot_status* carnot_integer_weights_validate(const carnot_step_view* step, int64_t k,
                                               int64_t n) CARNOT_MUST_USE;
// run: what the kernel adds to its sums of a column, for an operand with this zero point -> |bias|
// [n].
void carnot_integer_weights_bias(const carnot_step_view* step, int64_t n, int64_t zero,
                                 bool is_signed, int32_t* bias);

#endif  // CARNOT_BACKEND_CPU_GEMM_INTEGER_WEIGHTS_H_
