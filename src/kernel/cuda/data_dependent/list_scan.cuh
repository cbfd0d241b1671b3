// Counts of the lists that blocks find, and their exclusive prefix sums.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/data_dependent/data_dependent_params.h"

enum { MARK_WORDS = CARNOT_CUDA_CHUNK / 16, AT_A_TIME = 4 };

DEVICE i64* counts_of(const carnot_cuda_data_dependent_params& p) { return (i64*)p.io.scratch; }
DEVICE u16* marks_of(const carnot_cuda_data_dependent_params& p, i64 list) {
  return (u16*)(counts_of(p) + p.lists + 1) + list * MARK_WORDS;
}

// Exclusive prefix sum of |v| over the threads of the block, and the total.
DEVICE i64 sum_before(i64 v, i64* total) {
  __shared__ i64 sums[CARNOT_CUDA_THREADS];
  __syncthreads();
  sums[threadIdx.x] = v;
  for (u32 step = 1; step < blockDim.x; step *= 2) {
    __syncthreads();
    i64 more = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += more;
  }
  __syncthreads();
  *total = sums[blockDim.x - 1];
  return sums[threadIdx.x] - v;
}

// Exclusive prefix sums of the counts of all lists; one block.
DEVICE void scan_counts(const carnot_cuda_data_dependent_params& p, i64) {
  i64 *counts = counts_of(p), each = (p.lists + blockDim.x - 1) / blockDim.x, sum = 0, total;
  i64 first = lo(threadIdx.x * each, p.lists), last = lo(first + each, p.lists);
  for (i64 k = first; k < last; k++) sum += counts[k];
  i64 before = sum_before(sum, &total);
  for (i64 k = first; k < last; k++) {
    i64 here = counts[k];
    counts[k] = before;
    before += here;
  }
  if (threadIdx.x == 0) counts[p.lists] = total;
}
