// Layer, RMS, group, instance and batch normalization of any types in float64 (generic kernels).
#pragma once

#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/norm/norm_generic_params.h"

// The offset of element |n| of channel |c|, counted over all images.
DEVICE i64 of_channel(const carnot_cuda_batch_norm_generic_params& p, i64 c, i64 n) {
  return (n / p.size * p.channels + c) * p.size + n % p.size;
}
// One block a channel; mean and variance are those of the batch, or given.
DEVICE void batch_norm_any_type(const carnot_cuda_batch_norm_generic_params& p, i64 c) {
  const carnot_cuda_generic_io& io = p.io;
  f64 sum = 0, square = 0;
  i64 count = p.images * p.size;
  for (i64 n = threadIdx.x; n < count; n += blockDim.x)
    sum += real_of(io.in_type[0], io.in[0], of_channel(p, c, n));
  f64 mean = block_reduce<add_of<f64>, f64>(sum, 0) / (f64)count;
  for (i64 n = threadIdx.x; n < count; n += blockDim.x) {
    f64 d = real_of(io.in_type[0], io.in[0], of_channel(p, c, n)) - mean;
    square += d * d;
  }
  f64 var = block_reduce<add_of<f64>, f64>(square, 0) / (f64)count;
  if (p.given)
    mean = real_of(io.in_type[3], io.in[3], c), var = real_of(io.in_type[4], io.in[4], c);
  f64 factor = real_of(io.in_type[1], io.in[1], c) / sqrt(var + p.epsilon),
      bias = real_of(io.in_type[2], io.in[2], c);
  for (i64 n = threadIdx.x; n < count; n += blockDim.x) {
    i64 i = of_channel(p, c, n);
    store_any(io.out_type[0], io.out[0], i,
              (real_of(io.in_type[0], io.in[0], i) - mean) * factor + bias);
  }
  for (int k = 1; k < 3; k++)
    if (threadIdx.x == 0 && io.out[k] && !p.given)
      store_any(io.out_type[k], io.out[k], c,
                real_of(io.in_type[k + 2], io.in[k + 2], c) * p.momentum +
                    (k == 1 ? mean : var) * (1 - p.momentum));
}

DEVICE void norm_any_type(const carnot_cuda_norm_generic_params& p, i64 row) {
  const carnot_cuda_generic_io& io = p.io;
  i64 base = row * p.size;
  f64 sum = 0, square = 0;
  for (i64 i = threadIdx.x; i < p.size; i += blockDim.x)
    sum += real_of(io.in_type[0], io.in[0], base + i);
  f64 mean = block_reduce<add_of<f64>, f64>(sum, 0) / (f64)p.size;
  if (p.rms) mean = 0;
  for (i64 i = threadIdx.x; i < p.size; i += blockDim.x) {
    f64 d = real_of(io.in_type[0], io.in[0], base + i) - mean;
    square += d * d;
  }
  f64 inverse = 1 / sqrt(block_reduce<add_of<f64>, f64>(square, 0) / (f64)p.size + p.epsilon);
  for (i64 i = base + threadIdx.x; i < base + p.size; i += blockDim.x) {
    i64 rest = i, channel = i / p.spatial % p.channels, scale = 0, bias = 0;
    for (int d = p.rank - 1; d >= 0; d--) {
      scale += rest % p.dims[d] * p.scale_s[d], bias += rest % p.dims[d] * p.bias_s[d];
      rest /= p.dims[d];
    }
    if (!p.per_element) scale = bias = channel;
    f64 v = (real_of(io.in_type[0], io.in[0], i) - mean) * inverse;
    if (io.in[1]) v *= real_of(io.in_type[1], io.in[1], scale);
    if (io.in[2]) v += real_of(io.in_type[2], io.in[2], bias);
    store_any(io.out_type[0], io.out[0], i, v);
  }
  if (threadIdx.x == 0 && io.out[1]) store_any(io.out_type[1], io.out[1], row, mean);
  if (threadIdx.x == 0 && io.out[2]) store_any(io.out_type[2], io.out[2], row, inverse);
}
