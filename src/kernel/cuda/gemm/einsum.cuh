// Einsum of up to three operands (generic kernel).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/gemm/einsum_params.h"

// Adds to the offset of each operand that of item |i| of |rank| dimensions.
DEVICE void step_operands(const carnot_cuda_einsum_params& p, i64 i, int rank, const i64* dims,
                          const i64 (*strides)[CARNOT_CUDA_RANK], i64* at) {
  for (int d = rank - 1; d >= 0; d--) {
    i64 here = i % dims[d];
    i /= dims[d];
    for (int k = 0; k < p.operands; k++) at[k] += here * strides[k][d];
  }
}

DEVICE void einsum(const carnot_cuda_einsum_params& p, i64 i) {
  i64 base[3] = {0, 0, 0};
  step_operands(p, i, p.kept_rank, p.kept, p.kept_s, base);
  bool real = is_real(p.io.out_type[0]);
  f64 sum = 0;
  u64 whole = 0;
  for (i64 n = 0; n < p.summed_count; n++) {
    i64 at[3] = {base[0], base[1], base[2]};
    step_operands(p, n, p.summed_rank, p.summed, p.summed_s, at);
    f64 product = 1;
    u64 whole_product = 1;
    for (int k = 0; k < p.operands; k++)
      if (real)
        product *= real_of(p.io.in_type[k], p.io.in[k], at[k]);
      else
        whole_product *= (u64)whole_of(p.io.in_type[k], p.io.in[k], at[k]);
    sum += product;
    whole += whole_product;
  }
  if (real)
    store_any(p.io.out_type[0], p.io.out[0], i, sum);
  else
    store_any(p.io.out_type[0], p.io.out[0], i, (i64)whole);
}
