// What matmul and its quantized forms share: shapes as in numpy.matmul.
#ifndef CARNOT_OPS_MATMUL_H_
#define CARNOT_OPS_MATMUL_H_

#include "ops/gemm.h"
#include "ops/util.h"

// Sets output 0 to |dtype| and the shape of input |a| times input |b|, each with its last two
// dimensions swapped where asked for. A vector on the left is a row, on the right a column, whose
// dimension the result lacks.
carnot_status* carnot_matmul_infer(carnot_infer* infer, int a, int b, bool swap_a, bool swap_b,
                                   carnot_dtype dtype) CARNOT_MUST_USE;

typedef enum carnot_gemm_type {
  CARNOT_GEMM_F32,
  CARNOT_GEMM_F64,
  CARNOT_GEMM_U32,
  CARNOT_GEMM_U64
} carnot_gemm_type;

// A batch of GEMMs: matrix b of the operands begins at a_at[b] and b_at[b] elements, and of c at
// b*m*n.
typedef struct carnot_matmul {
  carnot_gemm gemm;
  int64_t batch;
  int64_t *a_at, *b_at;
} carnot_matmul;

// The sizes and strides of a MatMul of tensors of these shapes; the data pointers stay for the
// caller to set.
carnot_status* carnot_matmul_plan(const carnot_call* call, const carnot_tensor* a,
                                  const carnot_tensor* b, bool swap_a, bool swap_b,
                                  carnot_matmul* out) CARNOT_MUST_USE;
void carnot_matmul_run(const carnot_call* call, const carnot_matmul* matmul, carnot_gemm_type type);

#endif  // CARNOT_OPS_MATMUL_H_
