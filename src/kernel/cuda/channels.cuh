// Halves channels last: rows of a norm by 16-byte pieces, group normalization, depthwise convolution.

struct __align__(16) eight { u32 two[4]; };
template <class T> DEVICE void unpack(const eight& e, f32* to) {
  for (int i = 0; i < 8; i++) {
    T t;
    t.bits = (u16)(e.two[i / 2] >> i % 2 * 16);
    to[i] = load(t);
  }
}
template <class T> DEVICE void unpack(const void* from, i64 at, f32* to) {
  unpack<T>(((const eight*)from)[at], to);
}
template <class T> DEVICE void pack(void* to, i64 at, const f32* from) {
  eight e;
  for (int i = 0; i < 4; i++)
    e.two[i] = (u32)store_as<T>::of(from[2 * i]).bits | (u32)store_as<T>::of(from[2 * i + 1]).bits << 16;
  ((eight*)to)[at] = e;
}
DEVICE f32 activate(int activation, f32 low, f32 high, f32 x) {
  switch (activation) {
    case CARNOT_CUDA_CLAMP: return lo(hi(x, low), high);
    case CARNOT_CUDA_SILU: return __fdividef(x, 1 + __expf(-x));  // to the last bits of a float
    case CARNOT_CUDA_HARD_SWISH: return x * lo(hi(x * (1 / 6.f) + .5f, 0.f), 1.f);
    default: return x;
  }
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

// The sums over a block of every channel of a slice, eight of them a thread: columns[i * slice + c]
// for i < the returned number of rows.
DEVICE int over_lanes(const f32* mine, f32* sums, f32* columns, int slice, int lanes) {
  int pieces = slice / 8, lane = threadIdx.x / pieces, at = threadIdx.x % pieces,
      rows = lo((int)blockDim.x / slice, lanes);
  __syncthreads();
  if (lane < lanes)
    for (int e = 0; e < 8; e++) sums[lane * slice + at * 8 + e] = mine[e];
  __syncthreads();
  for (int i = threadIdx.x; i < rows * slice; i += blockDim.x) {
    f32 sum = 0;
    for (int l = i / slice; l < lanes; l += rows) sum += sums[l * slice + i % slice];
    columns[i] = sum;
  }
  __syncthreads();
  return rows;
}
// Of one group, by a warp.
DEVICE f32 over_group(const f32* columns, int rows, int slice, int first, int channels) {
  f32 sum = 0;
  for (int i = threadIdx.x & 31; i < rows * channels; i += 32)
    sum += columns[i / channels * slice + first + i % channels];
  return over_warp(sum);
}

// What is derived of |e| before is not kept in registers.
DEVICE void forget(eight& e) {
  asm volatile("" : "+r"(e.two[0]), "+r"(e.two[1]), "+r"(e.two[2]), "+r"(e.two[3]));
}

// One reading: a block keeps its pixels of the slice in registers; means and squared distances of
// the blocks are joined through the cluster in the order of ranks.
template <class T> DEVICE void group_norm(const carnot_cuda_group_norm& p) {
  enum { KEEP = CARNOT_CUDA_GROUP_KEEP, THREADS = CARNOT_CUDA_GROUP_THREADS };
  __shared__ f32 sums[THREADS * 8], columns[THREADS], means[THREADS], squares[THREADS],
      scales[THREADS], shifts[THREADS];
  int pieces = p.slice / 8, mine = threadIdx.x % pieces, lane = threadIdx.x / pieces,
      lanes = THREADS / pieces, warp = threadIdx.x >> 5, per_group = p.channels / p.groups,
      groups = p.slice / per_group, row = p.channels / 8;
  i64 image = blockIdx.z, first = (i64)blockIdx.x * p.per_part,
      last = lo(first + p.per_part, (i64)p.pixels);
  i64 base = (image * p.pixels + first + lane) * row + blockIdx.y * pieces + mine;
  int kept = lane < lanes && first + lane < last ? (int)((last - first - lane + lanes - 1) / lanes) : 0;
  eight x[KEEP];
  f32 v[8], total[8] = {};
#pragma unroll
  for (int k = 0; k < KEEP; k++)
    if (k < kept) x[k] = ((const eight*)p.x)[base + (i64)k * lanes * row];
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    if (k >= kept) continue;
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++) total[e] += v[e];
  }
  int rows = over_lanes(total, sums, columns, p.slice, lanes);
  f32 count = hi((f32)(last - first), 0.f) * per_group;
  for (int g = warp; g < groups; g += THREADS / 32) {
    f32 sum = over_group(columns, rows, p.slice, g * per_group, per_group);
    if (threadIdx.x % 32 == 0) means[g] = sum / hi(count, 1.f);
  }
  __syncthreads();
  f32 mean[8];
  for (int e = 0; e < 8; e++) mean[e] = means[(mine * 8 + e) / per_group], total[e] = 0;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    if (k >= kept) continue;
    forget(x[k]);
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++) total[e] += (v[e] - mean[e]) * (v[e] - mean[e]);
  }
  rows = over_lanes(total, sums, columns, p.slice, lanes);
  for (int g = warp; g < groups; g += THREADS / 32) {
    f32 sum = over_group(columns, rows, p.slice, g * per_group, per_group);
    if (threadIdx.x % 32 == 0) squares[g] = sum;
  }
  cluster_arrive();
  __syncthreads();
  cluster_wait();
  for (int c = threadIdx.x; c < p.slice; c += THREADS) {
    moments all = {0, 0, 0};
    for (int r = 0; r < p.parts; r++) {
      i64 pixels = lo((i64)p.per_part, p.pixels - (i64)r * p.per_part);
      all = join_moments(all, {hi((f32)pixels, 0.f) * per_group, of_peer(&means[c / per_group], r),
                               of_peer(&squares[c / per_group], r)});
    }
    i64 channel = (i64)blockIdx.y * p.slice + c;
    f32 scale = (p.scale ? get<T>(p.scale, channel) : 1.f) / sqrtf(all.m2 / all.count + p.eps);
    scales[c] = scale;
    shifts[c] = (p.bias ? get<T>(p.bias, channel) : 0.f) - all.mean * scale;
  }
  cluster_arrive();  // a block stays while others read its sums
  __syncthreads();
  f32 infinite = __int_as_float(0x7f800000);
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    if (k >= kept) continue;
    forget(x[k]);
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++)
      v[e] = activate(p.activation, 0, infinite,
                      fmaf(v[e], scales[mine * 8 + e], shifts[mine * 8 + e]));
    pack<T>(p.y, base + (i64)k * lanes * row, v);
  }
  cluster_wait();
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

// The higher of each, NaN where one of the two is NaN.
DEVICE u32 higher_two(u32 a, u32 b, f16*) {
  u32 r;
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
  r = 0;
  for (int i = 0; i < 2; i++)
    r |= (u32)store_as<f16>::of(hi(half_of(a, i, (f16*)0), half_of(b, i, (f16*)0))).bits << 16 * i;
#endif
  return r;
}
DEVICE u32 higher_two(u32 a, u32 b, bf16*) {
  u32 r;
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
  r = 0;
  for (int i = 0; i < 2; i++)
    r |= (u32)store_as<bf16>::of(hi(half_of(a, i, (bf16*)0), half_of(b, i, (bf16*)0))).bits << 16 * i;
#endif
  return r;
}

// Eight channels a thread; three neighbours of a row are read at once.
template <class T, bool AVERAGE> DEVICE void pool_eight(const carnot_cuda_window& p) {
  u32 at = (u32)THREAD, pieces = (u32)p.channels / 8, c = at % pieces;
  if (THREAD >= p.n * pieces * p.out[0] * p.out[1] * p.out[2]) return;
  at /= pieces;
  i64 to = c, from = c;
  int first[3], in[3], padded = 1, inside = 0;
  for (int d = 2; d >= 0; d--) {
    int spot = at % (u32)p.out[d];
    at /= (u32)p.out[d];
    first[d] = spot * (int)p.step[d] - (int)p.begin[d];
    in[d] = (int)p.in[d];
    to += spot * (p.y_s[d] / 8);
    int n = 0;
    for (int k = 0; AVERAGE && k < p.kernel[d]; k++)
      n += first[d] + k * (int)p.dilation[d] < in[d] + (int)p.end[d];
    padded *= n;
  }
  from += at * (p.x_n / 8), to += at * (p.y_n / 8);
  f32 sum[8] = {}, v[8];
  eight best;
  u32 least = store_as<T>::of(lowest<f32>()).bits;
  for (int e = 0; e < 4; e++) best.two[e] = least | least << 16;
  const eight* x = (const eight*)p.x + from;
  for (int a = 0; a < p.kernel[0]; a++) {
    int i0 = first[0] + a * (int)p.dilation[0];
    if (i0 < 0 || i0 >= in[0]) continue;
    for (int b = 0; b < p.kernel[1]; b++) {
      int i1 = first[1] + b * (int)p.dilation[1];
      if (i1 < 0 || i1 >= in[1]) continue;
      const eight* row = x + i0 * (p.x_s[0] / 8) + i1 * (p.x_s[1] / 8);
      for (int k = 0; k < p.kernel[2]; k += 3) {
        eight read[3];
        bool valid[3];
#pragma unroll
        for (int j = 0; j < 3; j++) {
          int i2 = first[2] + (k + j) * (int)p.dilation[2];
          valid[j] = k + j < p.kernel[2] && i2 >= 0 && i2 < in[2];
          if (valid[j]) read[j] = row[i2 * (p.x_s[2] / 8)];
        }
#pragma unroll
        for (int j = 0; j < 3; j++) {
          if (!valid[j]) continue;
          inside++;
          if (AVERAGE) unpack<T>(read[j], v);
          for (int e = 0; AVERAGE && e < 8; e++) sum[e] += v[e];
          for (int e = 0; !AVERAGE && e < 4; e++)
            best.two[e] = higher_two(best.two[e], read[j].two[e], (T*)0);
        }
      }
    }
  }
  for (int e = 0; AVERAGE && e < 8; e++) sum[e] /= (f32)(p.count_padding ? padded : inside);
  if (AVERAGE) pack<T>(p.y, to, sum);
  else ((eight*)p.y)[to] = best;
}

#define CHANNELS(T)                                                                             \
  extern "C" __global__ void norm_warp_##T(carnot_cuda_norm p) {                                \
    wait_for_previous();                                                                        \
    norm_warp<T>(p);                                                                            \
  }                                                                                             \
  extern "C" __global__ void __launch_bounds__(CARNOT_CUDA_GROUP_THREADS, 2)           \
      group_norm_##T(carnot_cuda_group_norm p) {                                                \
    wait_for_previous();                                                                        \
    group_norm<T>(p);                                                                           \
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
    if (p.average) pool_eight<T, true>(p);                                                      \
    else pool_eight<T, false>(p);                                                               \
  }                                                                                             \
  extern "C" __global__ void depthwise_##T(carnot_cuda_depthwise p) {                           \
    wait_for_previous();                                                                        \
    depthwise<T>(p);                                                                            \
  }
CHANNELS(f16)
CHANNELS(bf16)
