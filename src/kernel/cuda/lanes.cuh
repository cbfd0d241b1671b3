// Kernels along one axis: places of extremes, running sums, norms over lanes.

DEVICE i64 lane_start(const carnot_cuda_lanes& p, i64 lane, i64 length) {
  return lane / p.inner * length * p.inner + lane % p.inner;
}

// An integer that orders as |v| does; NaN is the greatest.
DEVICE i64 order_of_real(f64 v) {
  if (v != v) return 0x7fffffffffffffffll;
  i64 bits = __double_as_longlong(v + 0.0);
  return bits < 0 ? (i64)((u64)bits ^ 0x7fffffffffffffffull) : bits;
}
DEVICE i64 order_of(int type, const void* x, i64 i) {
  if (!is_real(type)) {
    i64 v = whole_of(type, x, i);
    return type == CARNOT_CUDA_U64 ? (i64)((u64)v ^ 1ull << 63) : v;
  }
  return order_of_real(real_of(type, x, i));
}

// The best of a lane for a block: the greatest order, or the least; of equal ones the first or last.
struct found {
  i64 order, at;  // at < 0: none
};
DEVICE bool is_better(const found& a, const found& b, bool last) {
  if (a.at < 0 || b.at < 0) return b.at < 0 && a.at >= 0;
  return a.order != b.order ? a.order > b.order : last ? a.at > b.at : a.at < b.at;
}
DEVICE found over_block_best(found v, bool last) {
  __shared__ found all[256];
  __syncthreads();
  all[threadIdx.x] = v;
  for (int step = blockDim.x / 2; step; step >>= 1) {
    __syncthreads();
    if (threadIdx.x < step && is_better(all[threadIdx.x + step], all[threadIdx.x], last))
      all[threadIdx.x] = all[threadIdx.x + step];
  }
  __syncthreads();
  return all[0];
}

// |after|: only what comes behind it in the order.
DEVICE found best_of_lane(const carnot_cuda_lanes& p, i64 start, const found& after, bool nan_wins) {
  found best = {0, -1};
  for (i64 k = threadIdx.x; k < p.length; k += blockDim.x) {
    i64 order = order_of(p.io.in_type[0], p.io.in[0], start + k * p.inner);
    bool is_nan = nan_wins && is_real(p.io.in_type[0]) && order == 0x7fffffffffffffffll;
    found here = {p.largest || is_nan ? order : ~order, k};
    if (after.at >= 0 && !is_better(after, here, p.last)) continue;
    if (is_better(here, best, p.last)) best = here;
  }
  return over_block_best(best, p.last);
}

DEVICE void arg_reduce(const carnot_cuda_lanes& p, i64 lane) {
  const found none = {0, -1};
  found best = best_of_lane(p, lane_start(p, lane, p.length), none, true);
  if (threadIdx.x == 0) ((i64*)p.io.out[0])[lane] = best.at;
}

DEVICE void top_k(const carnot_cuda_lanes& p, i64 lane) {
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

DEVICE void hardmax(const carnot_cuda_lanes& p, i64 lane) {
  const found none = {0, -1};
  i64 start = lane_start(p, lane, p.length);
  found best = best_of_lane(p, start, none, true);
  for (i64 k = threadIdx.x; k < p.length; k += blockDim.x)
    any_store(p.io.out_type[0], p.io.out[0], start + k * p.inner, (f64)(k == best.at));
}

// The lanes along the axis that input 1 names, where it is not known before.
DEVICE carnot_cuda_lanes lanes_of_input(carnot_cuda_lanes p) {
  i64 axis = whole_of(p.io.in_type[1], p.io.in[1], 0);
  if (axis < 0) axis += p.rank;
  p.length = p.inner = 1;
  for (int d = 0; d < p.rank; d++)
    if (d >= axis) *(d == axis ? &p.length : &p.inner) *= p.dims[d];
  return p;
}

DEVICE void cumulate(const carnot_cuda_lanes& p, i64 lane) {
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
      any_store(p.io.out_type[0], p.io.out[0], at, p.exclusive ? before : sum);
    } else {
      u64 v = (u64)whole_of(p.io.in_type[0], p.io.in[0], at);
      whole = p.product ? whole * v : whole + v;
      any_store(p.io.out_type[0], p.io.out[0], at, (i64)(p.exclusive ? whole_before : whole));
    }
  }
}

// As many threads as elements where the axis, and so the lanes, are not known before.
DEVICE void cumulative(const carnot_cuda_lanes& p, i64 lane) {
  if (!p.io.in[1]) return cumulate(p, lane);
  carnot_cuda_lanes found = lanes_of_input(p);
  if (lane < p.io.count / found.length) cumulate(found, lane);
}

DEVICE void lp_norm(const carnot_cuda_lanes& p, i64 lane) {
  i64 start = lane_start(p, lane, p.length);
  f64 sum = 0;
  for (i64 k = threadIdx.x; k < p.length; k += blockDim.x) {
    f64 v = real_of(p.io.in_type[0], p.io.in[0], start + k * p.inner);
    sum += p.power == 1 ? fabs(v) : v * v;
  }
  sum = over_block<add_of<f64>, f64>(sum, 0);
  f64 norm = p.power == 1 ? sum : sqrt(sum);
  for (i64 k = threadIdx.x; k < p.length; k += blockDim.x) {
    i64 at = start + k * p.inner;
    f64 v = real_of(p.io.in_type[0], p.io.in[0], at);
    any_store(p.io.out_type[0], p.io.out[0], at, norm == 0 ? 0 : v / norm);
  }
}

DEVICE void lrn(const carnot_cuda_lanes& p, i64 i) {
  i64 k = i / p.inner % p.length, before = (p.size - 1) / 2, after = p.size - 1 - before;
  i64 first = k - before < 0 ? 0 : k - before, last = k + after < p.length ? k + after : p.length - 1;
  f64 sum = 0;
  for (i64 j = first; j <= last; j++) {
    f64 v = real_of(p.io.in_type[0], p.io.in[0], i + (j - k) * p.inner);
    sum += v * v;
  }
  f64 x = real_of(p.io.in_type[0], p.io.in[0], i);
  any_store(p.io.out_type[0], p.io.out[0], i,
            x / pow(p.bias + p.alpha / (f64)p.size * sum, p.beta));
}

ANY_BLOCK(arg_reduce, carnot_cuda_lanes)
ANY_BLOCK(top_k, carnot_cuda_lanes)
ANY_BLOCK(hardmax, carnot_cuda_lanes)
ANY_BLOCK(lp_norm, carnot_cuda_lanes)
ANY(cumulative, carnot_cuda_lanes)
ANY(lrn, carnot_cuda_lanes)
