// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss in float64 (generic kernel).
#pragma once

#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/loss/loss_params.h"

// The log-sum-exp of the scores of position |i|, subtracted to get their log-softmax; |lane|:
// the offset of the first score.
DEVICE f64 log_total(const carnot_cuda_loss_params& p, i64 lane) {
  f64 top = limits_of<f64>::low(), sum = 0;
  for (i64 c = 0; c < p.classes; c++)
    top = hi(real_of(p.io.in_type[0], p.io.in[0], lane + c * p.size), top);
  for (i64 c = 0; c < p.classes; c++)
    sum += exp(real_of(p.io.in_type[0], p.io.in[0], lane + c * p.size) - top);
  return top + log(sum);
}

// One block. Targets outside the classes count nothing, as does the one that is ignored.
DEVICE void loss(const carnot_cuda_loss_params& p, i64) {
  const carnot_cuda_generic_io& io = p.io;
  f64 sum = 0, weights = 0;
  for (i64 i = threadIdx.x; i < p.positions; i += blockDim.x) {
    i64 target = whole_of(io.in_type[1], io.in[1], i),
        lane = i / p.size * p.classes * p.size + i % p.size;
    f64 less = p.softmax ? log_total(p, lane) : 0, here = 0;
    bool counts = target >= 0 && target < p.classes && !(p.ignores && target == p.ignored);
    f64 weight = !counts ? 0 : io.in[2] ? real_of(io.in_type[2], io.in[2], target) : 1;
    if (counts) here = -weight * (real_of(io.in_type[0], io.in[0], lane + target * p.size) - less);
    for (i64 c = 0; io.out[1] && c < p.classes; c++)
      store_any(io.out_type[1], io.out[1], lane + c * p.size,
                real_of(io.in_type[0], io.in[0], lane + c * p.size) - less);
    if (p.none && io.out[0]) store_any(io.out_type[0], io.out[0], i, here);
    sum += here;
    weights += weight;
  }
  sum = block_reduce<add_of<f64>, f64>(sum, 0);
  weights = block_reduce<add_of<f64>, f64>(weights, 0);
  if (threadIdx.x == 0 && !p.none && io.out[0])
    store_any(io.out_type[0], io.out[0], 0, p.mean ? sum / weights : sum);
}
