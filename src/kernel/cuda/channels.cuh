// Halves channels last: rows of a norm by 16-byte pieces, group normalization, pooling.

DEVICE f32 over_warp(f32 v) {
  for (int step = 16; step; step >>= 1) v += __shfl_xor_sync(~0u, v, step);
  return v;
}
// Over LANES neighbouring threads, known to all of them.
template <int LANES> DEVICE f32 over_lanes(f32 v) {
  for (int step = 1; step < LANES; step <<= 1) v += __shfl_xor_sync(~0u, v, step);
  return v;
}
DEVICE void prefetch_line(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// 16 bytes to shared memory, there behind copies_arrive of the same thread.
DEVICE void copy_async(void* to_shared, const void* from) {
#if __CUDA_ARCH__ >= 800
  u32 to = (u32)__cvta_generic_to_shared(to_shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
#else
  *(eight*)to_shared = *(const eight*)from;
#endif
}
DEVICE void copies_arrive() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// ---- layer and RMS normalization: a warp a row of up to 2048 elements ----

// PIECES of 16 bytes a lane: all are asked for at once, scale and bias before the previous kernel ends.
template <class T, int PIECES> DEVICE void norm_warp(const carnot_cuda_norm& p) {
  i64 row = blockIdx.x * (i64)(blockDim.x >> 5) + (threadIdx.x >> 5);
  int lane = threadIdx.x & 31, pieces = (int)p.size / 8;
  const eight none = {}, *from = (const eight*)p.x + row * pieces;
  eight x[PIECES], scales[PIECES], biases[PIECES];
  // One warp brings them into the L2 cache: thousands that ask for the same lines stand in line there.
#pragma unroll
  for (int k = 0; k < PIECES && blockIdx.x == 0 && threadIdx.x < 32; k++) {
    int at = lane + 32 * k;
    if (at < pieces && at % 8 == 0 && p.scale) prefetch_line((const eight*)p.scale + at);
    if (at < pieces && at % 8 == 0 && p.bias) prefetch_line((const eight*)p.bias + at);
  }
  wait_for_previous();
  if (row >= p.count) return;
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    int at = lane + 32 * k;
    x[k] = at < pieces ? from[at] : none;
    if (at < pieces && p.scale) scales[k] = ((const eight*)p.scale)[at];
    if (at < pieces && p.bias) biases[k] = ((const eight*)p.bias)[at];
  }
  f32 v[8], sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++) sum += v[e];
  }
  f32 mean = p.rms ? 0.f : over_warp(sum) / (f32)p.size;
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    unpack<T>(x[k], v);
    for (int e = 0; e < 8 && lane + 32 * k < pieces; e++) square += (v[e] - mean) * (v[e] - mean);
  }
  f32 inverse = 1 / sqrtf(over_warp(square) / (f32)p.size + p.eps);
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    if (lane + 32 * k >= pieces) continue;
    f32 scale[8], bias[8];
    unpack<T>(x[k], v);
    if (p.scale) unpack<T>(scales[k], scale);
    if (p.bias) unpack<T>(biases[k], bias);
    for (int e = 0; e < 8; e++) {
      v[e] = (v[e] - mean) * inverse;
      if (p.scale) v[e] *= scale[e];
      if (p.bias) v[e] += bias[e];
    }
    pack<T>(p.y, row * pieces + lane + 32 * k, v);
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

// A block of |lanes| x |pieces| threads, eight channels a thread from |first| on: of the group
// |group| up to channel |split|, of the next from there on. Groups of less than eight channels are
// gathered by channel.
struct group_place {
  enum { THREADS = CARNOT_CUDA_GROUP_THREADS, MOST = 64 };
  int pieces, mine, lane, lanes, per_group, groups, group, split, width;
};
DEVICE group_place place_of(const carnot_cuda_group_norm& p) {
  group_place at;
  at.pieces = p.slice / 8, at.lanes = group_place::THREADS / at.pieces;
  at.lane = threadIdx.x / at.pieces, at.mine = threadIdx.x - at.lane * at.pieces;
  at.per_group = p.channels / p.groups, at.groups = p.slice / at.per_group;
  at.group = at.mine * 8 / at.per_group, at.split = (at.group + 1) * at.per_group - at.mine * 8;
  at.width = at.per_group < 8 ? 8 : 2;
  return at;
}
DEVICE int group_of(const group_place& at, int e) {
  return at.width == 8 ? (at.mine * 8 + e) / at.per_group : at.group + (e >= at.split);
}

struct group_room {
  f32 parts[group_place::THREADS * 8 + CARNOT_CUDA_GROUP_SLICE];  // columns of |lanes| sums
  f32 columns[CARNOT_CUDA_GROUP_SLICE];
  f32 means[group_place::MOST], squares[group_place::MOST];
};

// out[g] = the sum of group g over the block / count, from the sums of eight channels a thread.
DEVICE void over_groups(const group_place& at, const f32* mine, group_room& room, f32* out, f32 count) {
  int stride = at.lanes | 1, warp = threadIdx.x >> 5, of_warp = threadIdx.x & 31;
  f32* part = room.parts + at.mine * at.width * stride + at.lane;
  if (at.lane < at.lanes && at.width == 8)
    for (int e = 0; e < 8; e++) part[e * stride] = mine[e];
  if (at.lane < at.lanes && at.width == 2) {
    f32 first = 0, next = 0;
    for (int e = 0; e < 8; e++) (e < at.split ? first : next) += mine[e];
    part[0] = first, part[stride] = next;
  }
  __syncthreads();
  for (int c = warp; c < at.pieces * at.width; c += group_place::THREADS / 32) {
    f32 sum = 0;
    for (int l = of_warp; l < at.lanes; l += 32) sum += room.parts[c * stride + l];
    sum = over_warp(sum);
    if (of_warp == 0) room.columns[c] = sum;
  }
  __syncthreads();
  int g = threadIdx.x, first = g * at.per_group, last = first + at.per_group;
  if (g < at.groups) {
    f32 sum = 0;
    if (at.width == 8)
      for (int c = first; c < last; c++) sum += room.columns[c];
    else
      for (int m = first / 8; m * 8 < last; m++) sum += room.columns[m * 2 + (m * 8 < first)];
    out[g] = sum / count;
  }
  __syncthreads();
}

// What is derived of |e| before is not kept in registers.
DEVICE void forget(eight& e) {
  asm volatile("" : "+r"(e.two[0]), "+r"(e.two[1]), "+r"(e.two[2]), "+r"(e.two[3]));
}

// Up to lanes x KEEP pixels from x on, which stay in registers: means of the groups and squared
// distances from them.
enum { KEEP = CARNOT_CUDA_GROUP_KEEP };
template <class T>
DEVICE void read_moments(const carnot_cuda_group_norm& p, const group_place& at, i64 base, i64 pixels,
                         eight* x, int kept, group_room& room) {
  f32 v[8], total[8] = {}, mean[8];
  i64 step = (i64)at.lanes * (p.channels / 8);
#pragma unroll
  for (int k = 0; k < KEEP; k++)
    if (k < kept) x[k] = ((const eight*)p.x)[base + k * step];
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    if (k >= kept) continue;
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++) total[e] += v[e];
  }
  over_groups(at, total, room, room.means, hi((f32)pixels, 1.f) * at.per_group);
  for (int e = 0; e < 8; e++) mean[e] = room.means[group_of(at, e)], total[e] = 0;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    if (k >= kept) continue;
    forget(x[k]);
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++) total[e] += (v[e] - mean[e]) * (v[e] - mean[e]);
  }
  over_groups(at, total, room, room.squares, 1);
}
DEVICE int pixels_of_lane(const group_place& at, i64 pixels) {
  return at.lane < at.lanes && at.lane < pixels ? (int)((pixels - at.lane + at.lanes - 1) / at.lanes) : 0;
}
// Joined over |threads| neighbouring threads; the lower one first, so that all come to one result.
DEVICE moments over_neighbours(moments all, int threads) {
  for (int step = 1; step < threads; step <<= 1) {
    moments other = {__shfl_xor_sync(~0u, all.count, step), __shfl_xor_sync(~0u, all.mean, step),
                     __shfl_xor_sync(~0u, all.m2, step)};
    all = threadIdx.x & step ? join_moments(other, all) : join_moments(all, other);
  }
  return all;
}

// One reading: a block keeps its pixels of the slice in shared memory, each thread what it reads itself.
// Sums of distances from a number that all blocks of the cluster know, each group's first, are what they
// exchange: squares lose nothing of a large mean. COLUMNS: groups that eight channels may meet, 2 or 8.
template <class T, int COLUMNS> DEVICE void group_norm(const carnot_cuda_group_norm& p) {
  extern __shared__ __align__(16) char shared[];
  __shared__ u64 counter;
  struct __align__(8) sums { f32 sum, square; };
  int t = threadIdx.x, threads = blockDim.x, pieces = p.slice / 8, lanes = threads / pieces,
      lane = t / pieces, mine = t - lane * pieces, per_group = p.channels / p.groups,
      last = p.slice / per_group - 1, row = p.channels / 8, columns = pieces * COLUMNS,
      stride = lanes | 1, rank = blockIdx.x;
  eight* x = (eight*)shared + t;
  sums* part = (sums*)((eight*)shared + p.kept * threads);  // [columns][stride]
  sums* received = part + columns * stride;                 // [parts][columns]
  f32* means = (f32*)(received + p.parts * columns);        // [groups of the slice]
  f32* inverses = means + last + 1;
  int of[8], first = rank * p.per_part, pixels = lo(p.per_part, (int)p.pixels - first), kept = 0;
  for (int e = 0; e < 8; e++) of[e] = (mine * 8 + e) / per_group;
  if (lane < lanes && lane < pixels) kept = (pixels - lane + lanes - 1) / lanes;
  i64 piece = (i64)blockIdx.y * pieces + mine;
  const eight* image = (const eight*)p.x + (i64)blockIdx.z * p.pixels * row;
  const eight* from = image + (i64)(first + lane) * row + piece;
  if (lane == 0 && p.scale) prefetch_line((const eight*)p.scale + piece);
  if (lane == 0 && p.bias) prefetch_line((const eight*)p.bias + piece);
  const inbox box = {&counter, p.parts};
  box.open();
  wait_for_previous();

  for (int k = 0; k < kept; k++) copy_async(x + k * threads, from + (i64)k * lanes * row);
  const T* firsts = (const T*)(image + (i64)blockIdx.y * pieces);
  f32 v[8], centre[8];
  sums own[8] = {};
  for (int e = 0; e < 8; e++) centre[e] = kept ? load(firsts[of[e] * per_group]) : 0.f;
  copies_arrive();
#pragma unroll 1
  for (int k = 0; k < kept; k++) {
    unpack<T>(x[k * threads], v);
    for (int e = 0; e < 8; e++) {
      f32 d = v[e] - centre[e];
      own[e].sum += d, own[e].square = fmaf(d, d, own[e].square);
    }
  }
  if (COLUMNS == 2) {
    sums two[2] = {};
    for (int e = 0; e < 8; e++)
      if (of[e] == of[0]) two[0].sum += own[e].sum, two[0].square += own[e].square;
      else two[1].sum += own[e].sum, two[1].square += own[e].square;
    own[0] = two[0], own[1] = two[1];
  }
  if (lane < lanes)
    for (int i = 0; i < COLUMNS; i++) part[(mine * COLUMNS + i) * stride + lane] = own[i];
  box.ready(p.parts * columns * (u32)sizeof(sums));
  __syncthreads();
#pragma unroll 1
  for (int c = t / 32; c < columns; c += threads / 32) {
    sums all = {0, 0};
    for (int l = t % 32; l < lanes; l += 32)
      all.sum += part[c * stride + l].sum, all.square += part[c * stride + l].square;
    all.sum = over_warp(all.sum), all.square = over_warp(all.square);
    if (t % 32 < p.parts) {
      f32* to = &received[rank * columns + c].sum;
      box.send(to, t % 32, all.sum);
      box.send(to + 1, t % 32, all.square);
    }
  }
  f32 scale[8], shift[8];
  eight none = {}, scales = p.scale ? ((const eight*)p.scale)[piece] : none,
        shifts = p.bias ? ((const eight*)p.bias)[piece] : none;
  box.wait();
  // Eight threads a group.
#pragma unroll 1
  for (int g = t / 8; (g & ~3) <= last; g += threads / 8) {
    int begin = g * per_group, end = g <= last ? begin + per_group : 0;
    f32 sum = 0, square = 0;
#pragma unroll 1
    for (int r = t % 8; r < p.parts; r += 8) {
      const sums* all = received + r * columns;
      if (COLUMNS == 8)
        for (int c = begin; c < end; c++) sum += all[c].sum, square += all[c].square;
      else
        for (int m = begin / 8; m * 8 < end; m++) {
          sum += all[m * 2 + (m * 8 < begin)].sum, square += all[m * 2 + (m * 8 < begin)].square;
        }
    }
    sum = over_lanes<8>(sum), square = over_lanes<8>(square);
    if (g <= last && t % 8 == 0) {
      f32 count = (f32)p.pixels * per_group, mean = sum / count;
      means[g] = load(firsts[begin]) + mean;
      inverses[g] = 1 / sqrtf(hi(square / count - mean * mean, 0.f) + p.eps);
    }
  }
  __syncthreads();
  unpack<T>(scales, scale), unpack<T>(shifts, shift);
  for (int e = 0; e < 8 && kept; e++) {
    scale[e] = (p.scale ? scale[e] : 1.f) * inverses[of[e]];
    shift[e] -= means[of[e]] * scale[e];
  }
  eight* to = (eight*)p.y + (from - (const eight*)p.x);
#pragma unroll 1
  for (int k = 0; k < kept; k++) {
    unpack<T>(x[k * threads], v);
    for (int e = 0; e < 8; e++) v[e] = fmaf(v[e], scale[e], shift[e]);
    activate_eight(p.activation, 0, highest<f32>(), v);
    pack<T>(to, (i64)k * lanes * row, v);
  }
}

// Two readings, where an image's slice is too large: the moments of each part of an image ..
template <class T> DEVICE void group_moments(const carnot_cuda_group_norm& p) {
  __shared__ group_room room;
  group_place at = place_of(p);
  i64 first = (i64)blockIdx.x * p.per_part, last = lo(first + p.per_part, (i64)p.pixels);
  i64 row = p.channels / 8, chunk = (i64)at.lanes * KEEP;
  moments all = {0, 0, 0};
  for (; first < last; first += chunk) {
    i64 pixels = lo(chunk, last - first),
        base = ((i64)blockIdx.z * p.pixels + first + at.lane) * row + blockIdx.y * at.pieces + at.mine;
    eight x[KEEP];
    read_moments<T>(p, at, base, pixels, x, pixels_of_lane(at, pixels), room);
    if (threadIdx.x < at.groups)
      all = join_moments(all, {(f32)pixels * at.per_group, room.means[threadIdx.x],
                               room.squares[threadIdx.x]});
  }
  if (threadIdx.x >= at.groups) return;
  i64 group = blockIdx.z * (i64)p.groups + blockIdx.y * at.groups + threadIdx.x;
  f32* out = p.partial + (group * p.parts + blockIdx.x) * 3;
  out[0] = all.count, out[1] = all.mean, out[2] = all.m2;
}

// .. and then all of them applied to a part of a slice.
template <class T> DEVICE void group_apply(const carnot_cuda_group_norm& p) {
  __shared__ f32 means[group_place::MOST], inverses[group_place::MOST];
  group_place at = place_of(p);
  for (int g = threadIdx.x >> 5; g < at.groups; g += group_place::THREADS / 32) {
    i64 group = blockIdx.z * (i64)p.groups + blockIdx.y * at.groups + g;
    moments all = {0, 0, 0};
    const f32* from = p.partial + group * p.parts * 3;
    for (int i = threadIdx.x & 31; i < p.parts; i += 32)
      all = join_moments(all, {from[i * 3], from[i * 3 + 1], from[i * 3 + 2]});
    all = over_neighbours(all, 32);
    if ((threadIdx.x & 31) == 0) {
      means[g] = all.mean;
      inverses[g] = 1 / sqrtf(all.m2 / all.count + p.eps);
    }
  }
  __syncthreads();
  if (at.lane >= at.lanes) return;
  f32 scale[8], shift[8], v[8];
  i64 channel = (i64)blockIdx.y * p.slice + at.mine * 8;
  for (int e = 0; e < 8; e++) {
    int g = group_of(at, e);
    scale[e] = inverses[g] * (p.scale ? get<T>(p.scale, channel + e) : 1.f);
    shift[e] = (p.bias ? get<T>(p.bias, channel + e) : 0.f) - means[g] * scale[e];
  }
  i64 first = (i64)blockIdx.x * p.per_part, last = lo(first + p.per_part, (i64)p.pixels);
  i64 row = p.channels / 8,
      base = (i64)blockIdx.z * p.pixels * row + blockIdx.y * at.pieces + at.mine;
#pragma unroll 4
  for (i64 i = first + at.lane; i < last; i += at.lanes) {
    unpack<T>(p.x, base + i * row, v);
    for (int e = 0; e < 8; e++) v[e] = fmaf(v[e], scale[e], shift[e]);
    activate_eight(p.activation, 0, highest<f32>(), v);
    pack<T>(p.y, base + i * row, v);
  }
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

#define GROUP_NORM(T, COLUMNS)                                                                  \
  extern "C" __global__ void __launch_bounds__(CARNOT_CUDA_GROUP_THREADS, 2)                    \
      group_norm_##COLUMNS##_##T(carnot_cuda_group_norm p) {                                    \
    group_norm<T, COLUMNS>(p);                                                                  \
  }
#define NORM_WARP(T, PIECES)                                                                    \
  extern "C" __global__ void __launch_bounds__(128) norm_warp_##PIECES##_##T(carnot_cuda_norm p) { \
    norm_warp<T, PIECES>(p);                                                                    \
  }
#define CHANNELS(T)                                                                             \
  NORM_WARP(T, 1) NORM_WARP(T, 3) NORM_WARP(T, 4) NORM_WARP(T, 8)                               \
  GROUP_NORM(T, 2) GROUP_NORM(T, 8)                                                             \
  extern "C" __global__ void __launch_bounds__(CARNOT_CUDA_GROUP_THREADS, 2)                    \
      group_moments_##T(carnot_cuda_group_norm p) {                                             \
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
  }
CHANNELS(f16)
CHANNELS(bf16)

