// Halves channels last: rows of a norm by 16-byte pieces, group normalization, depthwise convolution.

struct __align__(16) eight { u16 v[8]; };
template <class T> DEVICE void unpack(const void* from, i64 at, f32* to) {
  eight e = ((const eight*)from)[at];
  for (int i = 0; i < 8; i++) {
    T t;
    t.bits = e.v[i];
    to[i] = load(t);
  }
}
template <class T> DEVICE void pack(void* to, i64 at, const f32* from) {
  eight e;
  for (int i = 0; i < 8; i++) e.v[i] = store_as<T>::of(from[i]).bits;
  ((eight*)to)[at] = e;
}
// Results are rounded to halves: the fast forms of exponential and division are exact enough.
DEVICE f32 activate(int activation, f32 low, f32 high, f32 x) {
  switch (activation) {
    case CARNOT_CUDA_CLAMP: return lo(hi(x, low), high);
    case CARNOT_CUDA_SILU: return __fdividef(x, 1 + __expf(-x));
    case CARNOT_CUDA_HARD_SWISH: return x * lo(hi(x * (1 / 6.f) + .5f, 0.f), 1.f);
    case CARNOT_CUDA_SIGMOID: return __fdividef(1, 1 + __expf(-x));
    case CARNOT_CUDA_GELU: return .5f * x * (1 + erff(x * .70710678f));
    default: return x;
  }
}
// The choice is made once for all eight.
DEVICE void activate_eight(int activation, f32 low, f32 high, f32* v) {
#define CASE(kind) \
  case kind:       \
    for (int e = 0; e < 8; e++) v[e] = activate(kind, low, high, v[e]); \
    break;
  switch (activation) {
    CASE(CARNOT_CUDA_CLAMP)
    CASE(CARNOT_CUDA_SILU)
    CASE(CARNOT_CUDA_HARD_SWISH)
    CASE(CARNOT_CUDA_SIGMOID)
    CASE(CARNOT_CUDA_GELU)
  }
#undef CASE
}
template <class T> DEVICE f32 half_at(const eight& x, int i) {
  T t;
  t.bits = x.v[i];
  return load(t);
}
DEVICE f32 over_warp(f32 v) {
  for (int step = 16; step; step >>= 1) v += __shfl_xor_sync(~0u, v, step);
  return v;
}

// ---- layer and RMS normalization: a warp a row of up to 2048 elements ----

template <class T> DEVICE void norm_warp(const carnot_cuda_norm& p) {
  i64 row = blockIdx.x * (i64)(blockDim.x >> 5) + (threadIdx.x >> 5);
  if (row >= p.count) return;
  enum { PIECES = 8 };
  int lane = threadIdx.x & 31, pieces = (int)p.size / 8;
  f32 x[PIECES][8], sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    if (lane + 32 * k >= pieces) continue;
    unpack<T>(p.x, row * pieces + lane + 32 * k, x[k]);
    for (int i = 0; i < 8; i++) sum += x[k][i];
  }
  f32 mean = p.rms ? 0.f : over_warp(sum) / (f32)p.size;
#pragma unroll
  for (int k = 0; k < PIECES; k++)
    for (int i = 0; i < 8; i++)
      if (lane + 32 * k < pieces) square += (x[k][i] - mean) * (x[k][i] - mean);
  f32 inverse = 1 / sqrtf(over_warp(square) / (f32)p.size + p.eps);
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    int at = lane + 32 * k;
    if (at >= pieces) continue;
    f32 scale[8], bias[8];
    if (p.scale) unpack<T>(p.scale, at, scale);
    if (p.bias) unpack<T>(p.bias, at, bias);
    for (int i = 0; i < 8; i++) {
      f32 v = (x[k][i] - mean) * inverse;
      if (p.scale) v *= scale[i];
      if (p.bias) v += bias[i];
      x[k][i] = v;
    }
    pack<T>(p.y, row * pieces + at, x[k]);
  }
}

// ---- group normalization ----

struct moments {
  f32 count, mean, m2;
};
// Chan, Golub, LeVeque: updating formulae for variances.
DEVICE moments join_moments(moments a, moments b) {
  moments r;
  r.count = a.count + b.count;
  f32 d = b.mean - a.mean, share = r.count > 0 ? b.count / r.count : 0.f;
  r.mean = a.mean + d * share;
  r.m2 = a.m2 + b.m2 + d * d * a.count * share;
  return r;
}
DEVICE f32 half_of(u32 two, int i, f16*) { f16 t; t.bits = (u16)(two >> 16 * i); return load(t); }
DEVICE f32 half_of(u32 two, int i, bf16*) { bf16 t; t.bits = (u16)(two >> 16 * i); return load(t); }

// A thread keeps two neighbouring channels and walks over pixels; blockDim.x is a multiple of their
// number.
template <class T> DEVICE void group_moments(const carnot_cuda_group_norm& p) {
  __shared__ f32 means[1024], squares[1024];
  int pairs = p.channels / 2, mine = threadIdx.x % pairs, lane = threadIdx.x / pairs,
      lanes = blockDim.x / pairs;
  i64 image = blockIdx.y, first = (i64)blockIdx.x * p.per_part,
      last = lo(first + p.per_part, (i64)p.pixels);
  const u32* x = (const u32*)p.x + (image * p.pixels) * pairs + mine;
  f32 base = 0, sum = 0, square = 0;
  int count = 0;
  for (i64 at = first + lane; at < last; at += lanes) {
    u32 two = x[at * pairs];
    f32 a = half_of(two, 0, (T*)0), b = half_of(two, 1, (T*)0);
    if (!count) base = a;
    a -= base, b -= base;
    sum += a + b;
    square += a * a + b * b;
    count += 2;
  }
  f32 shift = count ? sum / count : 0.f;
  means[threadIdx.x] = base + shift;
  squares[threadIdx.x] = hi(square - sum * shift, 0.f);
  __syncthreads();
  int per_group = pairs / p.groups;
  for (int g = threadIdx.x; g < p.groups; g += blockDim.x) {
    moments all = {0, 0, 0};
    for (int l = 0; l < lanes; l++) {
      i64 left = last - first - l;
      f32 n = left > 0 ? 2 * (f32)((left + lanes - 1) / lanes) : 0.f;
      for (int c = 0; c < per_group; c++) {
        int at = l * pairs + g * per_group + c;
        all = join_moments(all, {n, means[at], squares[at]});
      }
    }
    f32* out = p.partial + ((image * p.groups + g) * p.parts + blockIdx.x) * 3;
    out[0] = all.count, out[1] = all.mean, out[2] = all.m2;
  }
}

template <class T> DEVICE void group_apply(const carnot_cuda_group_norm& p) {
  __shared__ f32 means[256], inverses[256];
  int pairs = p.channels / 2, mine = threadIdx.x % pairs, lane = threadIdx.x / pairs,
      lanes = blockDim.x / pairs, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  i64 image = blockIdx.y;
  for (int g = warp; g < p.groups; g += warps) {
    moments all = {0, 0, 0};
    const f32* from = p.partial + (image * p.groups + g) * p.parts * 3;
    for (int i = threadIdx.x & 31; i < p.parts; i += 32)
      all = join_moments(all, {from[i * 3], from[i * 3 + 1], from[i * 3 + 2]});
    for (int step = 1; step < 32; step <<= 1) {  // lower lane first, so that both come to one result
      moments other = {__shfl_xor_sync(~0u, all.count, step), __shfl_xor_sync(~0u, all.mean, step),
                       __shfl_xor_sync(~0u, all.m2, step)};
      all = threadIdx.x & step ? join_moments(other, all) : join_moments(all, other);
    }
    if ((threadIdx.x & 31) == 0) {
      means[g] = all.mean;
      inverses[g] = 1 / sqrtf(all.m2 / all.count + p.eps);
    }
  }
  __syncthreads();
  if (lane >= lanes) return;
  int g = mine / (pairs / p.groups);
  f32 scale[2], bias[2];
  for (int i = 0; i < 2; i++) {
    f32 factor = p.scale ? get<T>(p.scale, 2 * mine + i) : 1.f;
    scale[i] = inverses[g] * factor;
    bias[i] = (p.bias ? get<T>(p.bias, 2 * mine + i) : 0.f) - means[g] * scale[i];
  }
  i64 first = (i64)blockIdx.x * p.per_block, last = lo(first + p.per_block, (i64)p.pixels);
  i64 base = image * p.pixels * pairs + mine;
  for (i64 at = first + lane; at < last; at += lanes) {
    u32 two = ((const u32*)p.x)[base + at * pairs];
    f32 a = fmaf(half_of(two, 0, (T*)0), scale[0], bias[0]);
    f32 b = fmaf(half_of(two, 1, (T*)0), scale[1], bias[1]);
    f32 infinite = __int_as_float(0x7f800000);
    a = activate(p.activation, 0, infinite, a), b = activate(p.activation, 0, infinite, b);
    ((u32*)p.y)[base + at * pairs] =
        (u32)store_as<T>::of(a).bits | (u32)store_as<T>::of(b).bits << 16;
  }
}

// ---- depthwise convolution ----

template <class T> DEVICE void depthwise(const carnot_cuda_depthwise& p) {
  i64 i = THREAD;
  if (i >= p.count) return;
  u32 pieces = (u32)p.channels / 8, rest = (u32)i;
  u32 c = rest % pieces;
  rest /= pieces;
  int column = rest % p.columns;
  rest /= p.columns;
  int row = rest % p.rows;
  i64 image = rest / p.rows;
  f32 sum[8];
  if (p.bias) unpack<T>(p.bias, c, sum);
  else for (int e = 0; e < 8; e++) sum[e] = 0;
  for (int r = 0; r < p.kernel[0]; r++) {
    int y = row * p.step[0] + r * p.dilation[0] - p.begin[0];
    if (y < 0 || y >= p.in_rows) continue;
    for (int s = 0; s < p.kernel[1]; s++) {
      int x = column * p.step[1] + s * p.dilation[1] - p.begin[1];
      if (x < 0 || x >= p.in_columns) continue;
      f32 a[8], w[8];
      unpack<T>(p.x, ((image * p.in_rows + y) * p.in_columns + x) * pieces + c, a);
      unpack<T>(p.w, (i64)(r * p.kernel[1] + s) * pieces + c, w);
      for (int e = 0; e < 8; e++) sum[e] = fmaf(a[e], w[e], sum[e]);
    }
  }
  for (int e = 0; e < 8; e++) sum[e] = activate(p.activation, p.low, p.high, sum[e]);
  pack<T>(p.y, i, sum);
}

// ---- pooling ----

template <class T> DEVICE void pool_eight(const carnot_cuda_window& p) {
  i64 i = THREAD, pieces = p.channels / 8;
  if (i >= p.n * pieces * p.out[0] * p.out[1] * p.out[2]) return;
  i64 at = i, c = at % pieces, spot[3];
  at /= pieces;
  for (int d = 2; d >= 0; d--) spot[d] = at % p.out[d], at /= p.out[d];
  i64 from = at * p.x_n + c * 8, to = at * p.y_n + c * 8;
  f32 best[8];
  for (int e = 0; e < 8; e++) best[e] = p.average ? 0.f : lowest<f32>();
  i64 inside = 0, padded = 1, first[3];
  for (int d = 0; d < 3; d++) {
    first[d] = spot[d] * p.step[d] - p.begin[d];
    to += spot[d] * p.y_s[d];
    i64 n = 0;
    for (i64 k = 0; k < p.kernel[d]; k++) n += first[d] + k * p.dilation[d] < p.in[d] + p.end[d];
    padded *= n;
  }
  for (i64 a = 0; a < p.kernel[0]; a++) {
    i64 i0 = first[0] + a * p.dilation[0];
    if (i0 < 0 || i0 >= p.in[0]) continue;
    for (i64 b = 0; b < p.kernel[1]; b++) {
      i64 i1 = first[1] + b * p.dilation[1];
      if (i1 < 0 || i1 >= p.in[1]) continue;
      for (i64 k = 0; k < p.kernel[2]; k++) {
        i64 i2 = first[2] + k * p.dilation[2];
        if (i2 < 0 || i2 >= p.in[2]) continue;
        f32 x[8];
        unpack<T>(p.x, (from + i0 * p.x_s[0] + i1 * p.x_s[1] + i2 * p.x_s[2]) / 8, x);
        for (int e = 0; e < 8; e++) best[e] = p.average ? best[e] + x[e] : hi(best[e], x[e]);
        inside++;
      }
    }
  }
  f32 count = (f32)(p.count_padding ? padded : inside);
  for (int e = 0; e < 8 && p.average; e++) best[e] /= count;
  pack<T>(p.y, to / 8, best);
}

// The same for square kernels and steps known here, SPAN results in a row by one thread: what they share of x
// and all weights of a line are read once.
template <class T, int KERNEL, int STEP, int SPAN> DEVICE void depthwise_span(const carnot_cuda_depthwise& p) {
  enum { WIDE = (SPAN - 1) * STEP + KERNEL };
  u32 pieces = (u32)p.channels / 8, rest = (u32)THREAD, spans = (u32)(p.columns + SPAN - 1) / SPAN;
  u32 c = rest % pieces;
  rest /= pieces;
  int column = rest % spans * SPAN;
  rest /= spans;
  int row = rest % p.rows;
  u32 image = rest / p.rows;
  if (image >= p.images) return;
  int x0 = column * STEP - p.begin[1], y0 = row * STEP - p.begin[0];
  const eight* x = (const eight*)p.x + (i64)image * p.in_rows * p.in_columns * pieces + c;
  const eight* w = (const eight*)p.w + c;
  f32 sum[SPAN][8], bias[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  if (p.bias) unpack<T>(p.bias, c, bias);
#pragma unroll
  for (int k = 0; k < SPAN; k++)
    for (int e = 0; e < 8; e++) sum[k][e] = bias[e];
#pragma unroll
  for (int r = 0; r < KERNEL; r++) {
    int y = y0 + r;
    bool inside = (u32)y < (u32)p.in_rows;  // no branch: all lines are asked for at once
    eight line[WIDE], taps[KERNEL];
#pragma unroll
    for (int i = 0; i < WIDE; i++) {
      eight none = {};
      line[i] = inside && (u32)(x0 + i) < (u32)p.in_columns ? x[(y * p.in_columns + x0 + i) * pieces] : none;
    }
#pragma unroll
    for (int s = 0; s < KERNEL; s++) taps[s] = w[(r * KERNEL + s) * pieces];
#pragma unroll
    for (int e = 0; e < 8; e++) {
      f32 in[WIDE], weight[KERNEL];
#pragma unroll
      for (int i = 0; i < WIDE; i++) in[i] = half_at<T>(line[i], e);
#pragma unroll
      for (int s = 0; s < KERNEL; s++) weight[s] = half_at<T>(taps[s], e);
#pragma unroll
      for (int k = 0; k < SPAN; k++)
#pragma unroll
        for (int s = 0; s < KERNEL; s++) sum[k][e] = fmaf(in[k * STEP + s], weight[s], sum[k][e]);
    }
  }
#pragma unroll
  for (int k = 0; k < SPAN; k++) {
    if (column + k >= p.columns) continue;
    activate_eight(p.activation, p.low, p.high, sum[k]);
    pack<T>(p.y, (((i64)image * p.rows + row) * p.columns + column + k) * pieces + c, sum[k]);
  }
}

#define CHANNELS(T)                                                                             \
  extern "C" __global__ void norm_warp_##T(carnot_cuda_norm p) {                                \
    wait_for_previous();                                                                        \
    norm_warp<T>(p);                                                                            \
  }                                                                                             \
  extern "C" __global__ void group_moments_##T(carnot_cuda_group_norm p) {                      \
    wait_for_previous();                                                                        \
    group_moments<T>(p);                                                                        \
  }                                                                                             \
  extern "C" __global__ void group_apply_##T(carnot_cuda_group_norm p) {                        \
    wait_for_previous();                                                                        \
    group_apply<T>(p);                                                                          \
  }                                                                                             \
  extern "C" __global__ void pool_eight_##T(carnot_cuda_window p) {                             \
    wait_for_previous();                                                                        \
    pool_eight<T>(p);                                                                           \
  }                                                                                             \
  extern "C" __global__ void depthwise_##T(carnot_cuda_depthwise p) {                           \
    wait_for_previous();                                                                        \
    depthwise<T>(p);                                                                            \
  }
CHANNELS(f16)
CHANNELS(bf16)

#define DEPTHWISE(T, KERNEL, STEP, SPAN)                                                                \
  extern "C" __global__ void __launch_bounds__(128)                                                     \
      depthwise_##KERNEL##_##STEP##_##SPAN##_##T(carnot_cuda_depthwise p) {                             \
    wait_for_previous();                                                                                \
    depthwise_span<T, KERNEL, STEP, SPAN>(p);                                                           \
  }
#define DEPTHWISES(KERNEL, STEP)                                                                        \
  DEPTHWISE(f16, KERNEL, STEP, 1) DEPTHWISE(f16, KERNEL, STEP, 4)                                       \
  DEPTHWISE(bf16, KERNEL, STEP, 1) DEPTHWISE(bf16, KERNEL, STEP, 4)
DEPTHWISES(3, 1) DEPTHWISES(3, 2) DEPTHWISES(5, 1) DEPTHWISES(5, 2)
