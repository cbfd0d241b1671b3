// An equation over named dimensions, read, and as loops: one over the result, one over what is
// summed.
#ifndef CARNOT_OPS_EINSUM_H_
#define CARNOT_OPS_EINSUM_H_

#include "ops/util.h"

enum {
  CARNOT_EINSUM_OPERANDS = 16,
  CARNOT_EINSUM_LABELS = 52 + CARNOT_MAX_RANK  // letters, and dimensions of the ellipsis
};

// The equation with every dimension of every operand named by a label: letters 0 to 51, then the
// ellipsis' dimensions, counted from its right end.
typedef struct carnot_equation {
  int operands, ranks[CARNOT_EINSUM_OPERANDS];
  int labels[CARNOT_EINSUM_OPERANDS][CARNOT_MAX_RANK];
  int out_rank, out_labels[CARNOT_MAX_RANK];
} carnot_equation;

// Reads |text| for at most CARNOT_EINSUM_OPERANDS operands of these ranks; INVALID_MODEL where it
// does not fit them.
carnot_status* carnot_equation_read(carnot_strview text, int operands, const int* ranks,
                                    carnot_equation* out) CARNOT_MUST_USE;

// Strides in elements of dense operands; 0 where an operand broadcasts.
typedef struct carnot_einsum {
  int operands, sum_rank, out_rank;
  int64_t sum_dims[CARNOT_EINSUM_LABELS], out_dims[CARNOT_MAX_RANK];
  int64_t sum_strides[CARNOT_EINSUM_OPERANDS][CARNOT_EINSUM_LABELS],
      out_strides[CARNOT_EINSUM_OPERANDS][CARNOT_MAX_RANK];
  int64_t sum_count, out_count;
} carnot_einsum;

// INVALID_MODEL where the equation does not fit |operands| of these dimensions.
carnot_status* carnot_einsum_plan(carnot_strview equation, int operands, const int* ranks,
                                  const int64_t* const* dims, carnot_einsum* out) CARNOT_MUST_USE;

#endif  // CARNOT_OPS_EINSUM_H_
