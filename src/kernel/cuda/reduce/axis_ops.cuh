// ArgMax, TopK, Hardmax, LpNormalization, LRN and CumSum along one axis (generic kernels).
#pragma once

#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/reduce/arg_max.cuh"
#include "kernel/cuda/reduce/axis_ops_params.h"

DEVICE i64 lane_start(const carnot_cuda_axis_params& p, i64 lane, i64 length) {
  return lane / p.inner * length * p.inner + lane % p.inner;
}

// |after|: only elements that follow it in the order.
DEVICE found best_of_lane(const carnot_cuda_axis_params& p, i64 start, const found& after,
                          bool nan_wins) {
  found best = {0, -1};
  for (i64 k = threadIdx.x; k < p.length; k += blockDim.x) {
    i64 order = order_of(p.io.in_type[0], p.io.in[0], start + k * p.inner);
    bool is_nan = nan_wins && is_real(p.io.in_type[0]) && order == 0x7fffffffffffffffll;
    found here = {p.largest || is_nan ? order : ~order, k};
    if (after.at >= 0 && !is_better(after, here, p.last)) continue;
    if (is_better(here, best, p.last)) best = here;
  }
  return block_reduce_best(best, p.last);
}

DEVICE void arg_reduce(const carnot_cuda_axis_params& p, i64 lane) {
  const found none = {0, -1};
  found best = best_of_lane(p, lane_start(p, lane, p.length), none, true);
  if (threadIdx.x == 0) ((i64*)p.io.out[0])[lane] = best.at;
}

DEVICE void top_k(const carnot_cuda_axis_params& p, i64 lane) {
  i64 start = lane_start(p, lane, p.length), to = lane_start(p, lane, p.k);
  found best = {0, -1};
  for (i64 n = 0; n < p.k; n++) {
    best = best_of_lane(p, start, best, false);
    if (threadIdx.x) continue;
    i64 at = to + n * p.inner;
    if (p.io.out[0]) move(p.io.bytes, p.io.out[0], at, p.io.in[0], start + best.at * p.inner);
    if (p.io.out[1]) ((i64*)p.io.out[1])[at] = best.at;
  }
}

DEVICE void hardmax(const carnot_cuda_axis_params& p, i64 lane) {
  const found none = {0, -1};
  i64 start = lane_start(p, lane, p.length);
  found best = best_of_lane(p, start, none, true);
  for (i64 k = threadIdx.x; k < p.length; k += blockDim.x)
    store_any(p.io.out_type[0], p.io.out[0], start + k * p.inner, (f64)(k == best.at));
}

// The slices along the axis that input 1 names, where it is known at run time only.
DEVICE carnot_cuda_axis_params lanes_of_input(carnot_cuda_axis_params p) {
  i64 axis = whole_of(p.io.in_type[1], p.io.in[1], 0);
  if (axis < 0) axis += p.rank;
  p.length = p.inner = 1;
  for (int d = 0; d < p.rank; d++)
    if (d >= axis) *(d == axis ? &p.length : &p.inner) *= p.dims[d];
  return p;
}

DEVICE void cumulate(const carnot_cuda_axis_params& p, i64 lane) {
  i64 start = lane_start(p, lane, p.length);
  bool real = is_real(p.io.in_type[0]);
  f64 sum = p.product;
  u64 whole = p.product;
  for (i64 n = 0; n < p.length; n++) {
    i64 at = start + (p.reverse ? p.length - 1 - n : n) * p.inner;
    f64 before = sum;
    u64 whole_before = whole;
    if (real) {
      f64 v = real_of(p.io.in_type[0], p.io.in[0], at);
      sum = p.product ? sum * v : sum + v;
      store_any(p.io.out_type[0], p.io.out[0], at, p.exclusive ? before : sum);
    } else {
      u64 v = (u64)whole_of(p.io.in_type[0], p.io.in[0], at);
      whole = p.product ? whole * v : whole + v;
      store_any(p.io.out_type[0], p.io.out[0], at, (i64)(p.exclusive ? whole_before : whole));
    }
  }
}

// One thread per element where the axis, and so the number of slices, is known at run time only.
DEVICE void cumulative(const carnot_cuda_axis_params& p, i64 lane) {
  if (!p.io.in[1]) return cumulate(p, lane);
  carnot_cuda_axis_params found = lanes_of_input(p);
  if (lane < p.io.count / found.length) cumulate(found, lane);
}

DEVICE void lp_norm(const carnot_cuda_axis_params& p, i64 lane) {
  i64 start = lane_start(p, lane, p.length);
  f64 sum = 0;
  for (i64 k = threadIdx.x; k < p.length; k += blockDim.x) {
    f64 v = real_of(p.io.in_type[0], p.io.in[0], start + k * p.inner);
    sum += p.power == 1 ? fabs(v) : v * v;
  }
  sum = block_reduce<add_of<f64>, f64>(sum, 0);
  f64 norm = p.power == 1 ? sum : sqrt(sum);
  if (norm < p.epsilon) norm = p.epsilon;
  for (i64 k = threadIdx.x; k < p.length; k += blockDim.x) {
    i64 at = start + k * p.inner;
    f64 v = real_of(p.io.in_type[0], p.io.in[0], at);
    store_any(p.io.out_type[0], p.io.out[0], at, norm == 0 ? 0 : v / norm);
  }
}

DEVICE void lrn(const carnot_cuda_axis_params& p, i64 i) {
  i64 k = i / p.inner % p.length, before = (p.size - 1) / 2, after = p.size - 1 - before;
  i64 first = k - before < 0 ? 0 : k - before,
      last = k + after < p.length ? k + after : p.length - 1;
  f64 sum = 0;
  for (i64 j = first; j <= last; j++) {
    f64 v = real_of(p.io.in_type[0], p.io.in[0], i + (j - k) * p.inner);
    sum += v * v;
  }
  f64 x = real_of(p.io.in_type[0], p.io.in[0], i);
  store_any(p.io.out_type[0], p.io.out[0], i,
            x / pow(p.bias + p.alpha / (f64)p.size * sum, p.beta));
}
