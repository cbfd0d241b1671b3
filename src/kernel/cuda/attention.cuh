// Attention over halves, with sums and the running maximum in float32 registers (FlashAttention-2), in
// three forms: tiles of keys in shared memory, keys split over the warps of a block for few queries, and one
// query a warp without tensor cores of sm_80 or 16-byte alignment.

template <class T> DEVICE f32 mask_at(const carnot_cuda_attention& p, const void* mask, i64 row, int key) {
  if (!mask || key >= p.keys) return 0;
  return p.mask_is_float ? get<f32>(mask, row + key) : get<T>(mask, row + key);
}

struct heads_at {
  i64 q, k, v, y, mask, kinds;  // kinds: of rows of tiles
};
DEVICE heads_at heads(const carnot_cuda_attention& p) {
  i64 outer = blockIdx.y / p.inner, inner = blockIdx.y % p.inner;
  return {outer * p.q_s[0] + inner * p.q_s[1], outer * p.k_s[0] + inner * p.k_s[1],
          outer * p.v_s[0] + inner * p.v_s[1], outer * p.y_s[0] + inner * p.y_s[1],
          outer * p.mask_s[0] + inner * p.mask_s[1],
          (outer * p.kinds_s[0] + inner * p.kinds_s[1]) * gridDim.x + blockIdx.x};
}

// ---- one query a warp, any size up to 128 ----

template <class T> DEVICE void attention_simple(const carnot_cuda_attention& p) {
  int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (row >= p.queries) return;
  heads_at at = heads(p);
  const T* q = (const T*)p.q + at.q + row * p.q_s[2];
  const T* k = (const T*)p.k + at.k;
  const T* v = (const T*)p.v + at.v;
  f32 sum = 0, most = MINUS_INFINITY, acc[4] = {0, 0, 0, 0};
  for (int first = 0; first < p.keys; first += 32) {
    int key = first + lane;
    f32 s = MINUS_INFINITY;
    if (key < p.keys) {
      f32 dot = 0;
      for (int d = 0; d < p.size; d++) dot += load(q[d]) * load(k[key * p.k_s[2] + d]);
      s = dot * p.scale + mask_at<T>(p, p.mask, at.mask + row * p.mask_s[2], key);
    }
    f32 top = s;
    for (int step = 16; step; step >>= 1) top = hi(top, __shfl_xor_sync(~0u, top, step));
    top = hi(top, most);
    f32 base = top == MINUS_INFINITY ? 0.f : top, shrink = expf(most - base), w = expf(s - base);
    most = top;
    sum = sum * shrink + w;
    for (int e = 0; e < 4; e++) acc[e] *= shrink;
    for (int j = 0; j < 32 && first + j < p.keys; j++) {
      f32 wj = __shfl_sync(~0u, w, j);
      for (int e = 0; e < 4; e++)
        if (lane + 32 * e < p.value_size)
          acc[e] = fmaf(wj, load(v[(first + j) * p.v_s[2] + lane + 32 * e]), acc[e]);
    }
  }
  for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
  f32 inverse = sum == 0 && p.zero_empty ? 0.f : 1 / sum;
  T* y = (T*)p.y + at.y + row * p.y_s[2];
  for (int e = 0; e < 4; e++)
    if (lane + 32 * e < p.value_size) y[lane + 32 * e] = store_as<T>::of(acc[e] * inverse);
}

// ---- tensor cores ----

#if __CUDA_ARCH__ >= 800

DEVICE f32 power_of_2(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Two queries of a lane, eight apart: what exponents are relative to, and the sum of the weights.
struct soft_rows {
  f32 base[2], sum[2];
};
DEVICE soft_rows soft_none() { return {{MINUS_INFINITY, MINUS_INFINITY}, {0, 0}}; }
// Scores of 16 queries and 8 N keys become weights; true if earlier sums shrink, by |shrink|. The base follows
// the maximum only when weights would pass 2^8. A query whose keys are all masked by a huge finite number has
// the unit 1, whose product is exact.
template <int N> DEVICE bool soften(f32 (*s)[4], f32 unit, soft_rows& rows, f32* shrink) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    f32 top = s[0][2 * r];
#pragma unroll
    for (int n = 0; n < N; n++) top = fmaxf(top, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    f32 factor = top < -1e8f ? 1.f : unit, base = top * factor, sum = 0;
    if (base <= rows.base[r] + 8) base = rows.base[r];
    f32 from = base == MINUS_INFINITY ? 0.f : base;
    shrink[r] = power_of_2(rows.base[r] - from);
    rows.base[r] = base;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; e++) sum += s[n][e] = power_of_2(fmaf(s[n][e], factor, -from));
    rows.sum[r] = fmaf(rows.sum[r], shrink[r], sum);
  }
  return __any_sync(~0u, shrink[0] != 1 || shrink[1] != 1);
}
template <int N> DEVICE void scale_rows(f32 (*acc)[4], const f32* shrink) {
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) acc[n][e] *= shrink[e >> 1];
}
// The sum over all lanes of a query.
DEVICE f32 whole_sum(f32 sum) {
  sum += __shfl_xor_sync(~0u, sum, 1);
  return sum + __shfl_xor_sync(~0u, sum, 2);
}
DEVICE f32 inverse_of(const carnot_cuda_attention& p, f32 sum) {
  return sum == 0 && p.zero_empty ? 0.f : __fdividef(1.f, sum);
}
// Weights of 16 keys as the first factor of a product.
template <class T> DEVICE void weights_of(u32* a, const f32 (*s)[4]) {
  a[0] = matrix<T>::pair(s[0][0], s[0][1]), a[1] = matrix<T>::pair(s[0][2], s[0][3]);
  a[2] = matrix<T>::pair(s[1][0], s[1][1]), a[3] = matrix<T>::pair(s[1][2], s[1][3]);
}

// ---- masks ----

#define LOG2_E 1.44269504f
// Scores times the scale plus the mask, of which read(r, n) gives two numbers. Reads stand before uses.
template <int N, class R> DEVICE void add_pairs(f32 (*s)[4], f32 scale, R read) {
  float2 m[2][N];
#pragma unroll
  for (int i = 0; i < 2 * N; i++) m[i / N][i % N] = read(i / N, i % N);
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) s[n][e] = fmaf(s[n][e], scale, e & 1 ? m[e >> 1][n].y : m[e >> 1][n].x);
}
// |row|: of the lane's first query. A mask in pairs has an even number of keys.
template <class T, int N>
DEVICE void add_mask(const carnot_cuda_attention& p, i64 mask, f32 (*s)[4], int row, int first) {
  int key = first + (threadIdx.x & 3) * 2;
  i64 at[2];
  for (int r = 0; r < 2; r++) at[r] = mask + min(row + 8 * r, p.queries - 1) * p.mask_s[2];
  if (!p.mask_in_pairs)
    add_pairs<N>(s, p.scale, [&](int r, int n) {
      return float2{mask_at<T>(p, p.mask, at[r], key + 8 * n), mask_at<T>(p, p.mask, at[r], key + 8 * n + 1)};
    });
  else if (p.mask_is_float)
    add_pairs<N>(s, p.scale, [&](int r, int n) {
      return key + 8 * n < p.keys ? *(const float2*)((const f32*)p.mask + at[r] + key + 8 * n) : float2{};
    });
  else
    add_pairs<N>(s, p.scale, [&](int r, int n) {
      u32 bits = key + 8 * n < p.keys ? *(const u32*)((const T*)p.mask + at[r] + key + 8 * n) : 0;
      return float2{load(T{(u16)bits}), load(T{(u16)(bits >> 16)})};
    });
}
// The mask of two keys a lane, for all queries alike.
template <int N> DEVICE void add_lanes(f32 (*s)[4], f32 scale, float2 mask) {
  add_pairs<N>(s, scale, [&](int r, int n) {
    int from = 4 * n + (threadIdx.x & 3);
    return float2{__shfl_sync(~0u, mask.x, from), __shfl_sync(~0u, mask.y, from)};
  });
}
// Keys past the last get no weight.
template <int N> DEVICE void cut_keys(f32 (*s)[4], int left) {
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (8 * n + (threadIdx.x & 3) * 2 + (e & 1) >= left) s[n][e] = MINUS_INFINITY;
}

// What a tile of the mask needs: nothing (all zeros), no look at its keys at all, or to be read. Keys below
// -1e30 weigh nothing where the query has another.
enum { TILE_OPEN, TILE_CLOSED, TILE_MIXED };
template <class V> DEVICE void attention_kinds(const carnot_cuda_attention& p) {
  enum { ROWS = 4, WARPS = 32 };
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, tiles = (p.keys + p.tile_keys - 1) / p.tile_keys;
  int first = blockIdx.x * p.tile_rows, rows = min(p.tile_rows, p.queries - first);
  const V* mask = (const V*)p.mask + (blockIdx.y * (i64)p.queries + first) * p.keys;
  u8* kinds = p.kinds + (blockIdx.y * (i64)gridDim.x + blockIdx.x) * tiles;
  u32 open_rows = 0;
  for (int tile = 0; tile < tiles; tile++) {
    int key = tile * p.tile_keys + lane;
    f32 m[ROWS][2];
#pragma unroll
    for (int i = 0; i < 2 * ROWS; i++) {
      i64 row = min(warp + WARPS * (i / 2), rows - 1);
      m[i / 2][i % 2] = load(mask[row * p.keys + min(i % 2 && p.tile_keys > 32 ? key + 32 : key, p.keys - 1)]);
    }
    bool any = false;
    u32 open = 0;
#pragma unroll
    for (int i = 0; i < 2 * ROWS; i++) {
      any |= !(m[i / 2][i % 2] == 0);
      if (!(m[i / 2][i % 2] < -1e30f)) open |= 1u << i / 2;
    }
    any = __syncthreads_or(any);
    bool closed = !__syncthreads_or(open);
    if (threadIdx.x == 0) kinds[tile] = !any ? TILE_OPEN : closed ? TILE_CLOSED : TILE_MIXED;
    open_rows |= open;
  }
  bool every = true;
  for (int i = 0; i < ROWS; i++) every &= __any_sync(~0u, open_rows >> i & 1);
  if (!__syncthreads_and(every))
    for (int tile = threadIdx.x; tile < tiles; tile += blockDim.x)
      if (kinds[tile] == TILE_CLOSED) kinds[tile] = TILE_MIXED;
}

// ---- many queries: tiles of keys and values in shared memory, 16 queries a warp ----

// Where a chunk of eight elements stands: eight rows of one chunk lie in different banks.
template <int D> DEVICE u32 place(int r, int c) {
  return (r * (D / 8) + (c ^ (D % 64 ? r >> 1 & 3 : r & 7))) * 16;
}
// ROWS rows of a head of |size| elements, |rows| of which are there; what lies outside is zero.
template <int D, int ROWS, int THREADS>
DEVICE void fetch_rows(u32 to, const u16* from, i64 stride, int rows, int size) {
  enum { LANES = D % 64 ? 4 : 8, STEP = THREADS / LANES };
  int r = threadIdx.x / LANES, c = threadIdx.x % LANES;
  to += place<D>(r, c);
  from += r * stride + c * 8;
#pragma unroll
  for (int i = 0; i < ROWS; i += STEP)
#pragma unroll
    for (int j = 0; j < D / 8; j += LANES)
      fetch(to + i * D * 2 + j * 16, from + i * stride + j * 8,
            r + i < rows && (c + j) * 8 < size ? 16 : 0);
}

// BY_GROUPS: products by warpgroups, which read the queries from shared memory too (of registers read in every
// round ptxas 13.0 was seen to reuse some); else these move to registers and leave their place to a third tile.
template <class T, int D, int WARPS, bool BY_GROUPS> DEVICE void attention_tiles(const carnot_cuda_attention& p) {
  enum { KEYS = D <= 64 ? 64 : 32, N = KEYS / 8, STAGES = BY_GROUPS ? 2 : 3, TILE = KEYS * D * 2,
         THREADS = 32 * WARPS };
  __shared__ __align__(1024) u8 shared[6 * TILE];
  int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16, first_row = blockIdx.x * 16 * WARPS;
  int tiles = (p.keys + KEYS - 1) / KEYS;
  heads_at at = heads(p);
  const u16* q = (const u16*)p.q + at.q + first_row * p.q_s[2];
  const u16* k = (const u16*)p.k + at.k;
  const u16* v = (const u16*)p.v + at.v;
  const u8* kinds = p.kinds ? p.kinds + at.kinds * tiles : NULL;
  u32 base = shared_address(shared), queries = base + 4 * TILE;
  auto fetch_tile = [&](int tile) {
    u32 to = base + tile % STAGES * 2 * TILE;
    int key = tile * KEYS;
    if (tile < tiles) {
      fetch_rows<D, KEYS, THREADS>(to, k + key * p.k_s[2], p.k_s[2], p.keys - key, p.size);
      fetch_rows<D, KEYS, THREADS>(to + TILE, v + key * p.v_s[2], p.v_s[2], p.keys - key, p.value_size);
    }
    fetch_commit();
  };
  fetch_rows<D, 16 * WARPS, THREADS>(queries, q, p.q_s[2], p.queries - first_row, p.size);
  fetch_commit();
  for (int tile = 0; tile < STAGES - 1; tile++) fetch_tile(tile);
  u32 a[D / 16][4];
  if (!BY_GROUPS) {
    fetch_wait<STAGES - 1>();
    __syncthreads();
#pragma unroll
    for (int d = 0; d < D / 16; d++) read4(a[d], queries + place<D>(row + (lane & 15), 2 * d + (lane >> 4)));
  }
  f32 acc[D / 8][4] = {};
  soft_rows rows = soft_none();
  for (int tile = 0; tile < tiles; tile++) {
    u32 keys = base + tile % STAGES * 2 * TILE, values = keys + TILE;
    int key = tile * KEYS, kind = kinds ? kinds[tile] : TILE_MIXED;
    bool masked = p.mask && kind != TILE_OPEN, alike = masked && !p.mask_s[2];
    float2 two = {0, 0};
    if (alike) {
      if (2 * lane < KEYS)
        two = {mask_at<T>(p, p.mask, at.mask, key + 2 * lane), mask_at<T>(p, p.mask, at.mask, key + 2 * lane + 1)};
      masked = __any_sync(~0u, two.x != 0 || two.y != 0);
    }
    fetch_wait<STAGES - 2>();
    if (BY_GROUPS) group_sees();
    __syncthreads();
    fetch_tile(tile + STAGES - 1);
    if (p.mask && kind == TILE_CLOSED) continue;
    f32 s[N][4] = {}, shrink[2];
    u32 w[N / 2][4];
    if (BY_GROUPS) {
      u32 own = queries + (row & -64) * D * 2;
      group_begin();
#pragma unroll
      for (int d = 0; d < D / 16; d++)
        group<T, 64>::multiply(s[0], descriptor(own + d * 32), descriptor(keys + d * 32));
      group_commit();
      group_wait<0>();
    } else {
#pragma unroll
      for (int d = 0; d < D / 16; d++)
#pragma unroll
        for (int n = 0; n < N; n += 2) {
          u32 b[4];
          read4(b, keys + place<D>((n + (lane >> 4)) * 8 + (lane & 7), 2 * d + (lane >> 3 & 1)));
          matrix<T>::multiply(s[n], a[d], b[0], b[1]);
          matrix<T>::multiply(s[n + 1], a[d], b[2], b[3]);
        }
    }
    if (masked && alike) add_lanes<N>(s, p.scale, two);
    else if (masked) add_mask<T, N>(p, at.mask, s, first_row + row + (lane >> 2), key);
    if (p.keys - key < KEYS) cut_keys<N>(s, p.keys - key);
    if (soften<N>(s, masked ? LOG2_E : p.scale * LOG2_E, rows, shrink)) scale_rows<D / 8>(acc, shrink);
#pragma unroll
    for (int c = 0; c < N / 2; c++) weights_of<T>(w[c], s + 2 * c);
    if (BY_GROUPS) {
      group_begin();
#pragma unroll
      for (int c = 0; c < N / 2; c++) group<T, 64>::multiply(acc[0], w[c], descriptor(values + c * 16 * D * 2));
      group_commit();
      group_wait<0>();
    } else {
#pragma unroll
      for (int c = 0; c < N / 2; c++)
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
          u32 b[4];
          read4_transposed(b, values + place<D>(c * 16 + (lane & 15), n + (lane >> 4)));
          matrix<T>::multiply(acc[n], w[c], b[0], b[1]);
          matrix<T>::multiply(acc[n + 1], w[c], b[2], b[3]);
        }
    }
  }
  // Through shared memory, for stores of 16 bytes; a warp's rows are its own.
  fetch_wait<0>();
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; r++) {
    f32 inverse = inverse_of(p, whole_sum(rows.sum[r]));
#pragma unroll
    for (int n = 0; n < D / 8; n++)
      *(u32*)(shared + place<D>(row + r * 8 + (lane >> 2), n) + (lane & 3) * 4) =
          matrix<T>::pair(acc[n][2 * r] * inverse, acc[n][2 * r + 1] * inverse);
  }
  __syncwarp();
  u16* y = (u16*)p.y + at.y + first_row * p.y_s[2];
#pragma unroll
  for (int i = lane; i < 2 * D; i += 32) {
    int r = row + i / (D / 8), c = i % (D / 8);
    if (first_row + r < p.queries && c * 8 < p.value_size)
      *(uint4*)(y + r * p.y_s[2] + c * 8) = *(const uint4*)(shared + place<D>(r, c));
  }
}

// ---- few queries: 16 a block, every warp takes its own keys, straight into registers ----

DEVICE uint4 read16(const u16* from, bool inside) {
  return inside ? *(const uint4*)from : uint4{0, 0, 0, 0};
}

template <class T, int D> DEVICE void attention_split(const carnot_cuda_attention& p) {
  enum { KEYS = 2048 / D, N = KEYS / 8, WARPS = 8, PITCH = 68 };
  __shared__ __align__(16) f32 parts[WARPS][16][PITCH];
  __shared__ f32 bases[WARPS][16], sums[WARPS][16];
  int warp = threadIdx.x >> 5, warps = blockDim.x >> 5, lane = threadIdx.x & 31;
  int g = lane >> 2, t = lane & 3, first_row = blockIdx.x * 16;
  heads_at at = heads(p);
  const u16* q = (const u16*)p.q + at.q;
  const u16* k = (const u16*)p.k + at.k;
  const u16* v = (const u16*)p.v + at.v;
  // The elements of queries and keys are multiplied in an order in which a lane's lie side by side: of
  // every 32, lane t holds 8 t to 8 t + 7 for two products. So do the values' in their order: product n
  // makes the elements n, n + 8, .. of every 64.
  u32 a[D / 16][4], b[N][D / 8][2];
  uint4 x[KEYS / 16][D / 64][4];
  auto read_keys = [&](int first) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int j = 0; j < D / 32; j++) {
        int key = first + 8 * n + g, d = 32 * j + 8 * t;
        uint4 w = read16(k + key * p.k_s[2] + d, key < p.keys && d < p.size);
        b[n][2 * j][0] = w.x, b[n][2 * j][1] = w.y, b[n][2 * j + 1][0] = w.z, b[n][2 * j + 1][1] = w.w;
      }
  };
  auto read_values = [&](int first) {
#pragma unroll
    for (int c = 0; c < KEYS / 16; c++)
#pragma unroll
      for (int h = 0; h < D / 64; h++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int key = first + 16 * c + 2 * t + (e & 1) + (e >> 1) * 8, d = 64 * h + 8 * g;
          x[c][h][e] = read16(v + key * p.v_s[2] + d, key < p.keys && d < p.value_size);
        }
  };
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int j = 0; j < D / 32; j++) {
      int row = first_row + g + 8 * r, d = 32 * j + 8 * t;
      uint4 w = read16(q + row * p.q_s[2] + d, row < p.queries && d < p.size);
      a[2 * j][r] = w.x, a[2 * j][2 + r] = w.y, a[2 * j + 1][r] = w.z, a[2 * j + 1][2 + r] = w.w;
    }
  read_keys(warp * KEYS);
  read_values(warp * KEYS);
  f32 acc[D / 8][4] = {};
  soft_rows rows = soft_none();
  for (int first = warp * KEYS; first < p.keys; first += warps * KEYS) {
    f32 s[N][4] = {}, shrink[2];
#pragma unroll
    for (int d = 0; d < D / 16; d++)
#pragma unroll
      for (int n = 0; n < N; n++) matrix<T>::multiply(s[n], a[d], b[n][d][0], b[n][d][1]);
    read_keys(first + warps * KEYS);
    if (p.mask) add_mask<T, N>(p, at.mask, s, first_row + g, first);
    if (p.keys - first < KEYS) cut_keys<N>(s, p.keys - first);
    if (soften<N>(s, p.mask ? LOG2_E : p.scale * LOG2_E, rows, shrink)) scale_rows<D / 8>(acc, shrink);
#pragma unroll
    for (int c = 0; c < KEYS / 16; c++) {
      u32 w[4];
      weights_of<T>(w, s + 2 * c);
#pragma unroll
      for (int h = 0; h < D / 64; h++) {
        const u32 *w0 = &x[c][h][0].x, *w1 = &x[c][h][1].x, *w8 = &x[c][h][2].x, *w9 = &x[c][h][3].x;
#pragma unroll
        for (int n = 0; n < 8; n++) {
          u32 halves = n & 1 ? 0x7632 : 0x5410;
          matrix<T>::multiply(acc[8 * h + n], w, __byte_perm(w0[n / 2], w1[n / 2], halves),
                              __byte_perm(w8[n / 2], w9[n / 2], halves));
        }
      }
    }
    read_values(first + warps * KEYS);
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    f32 sum = whole_sum(rows.sum[r]);
    if (t == 0) bases[warp][g + 8 * r] = rows.base[r], sums[warp][g + 8 * r] = sum;
  }
  for (int h = 0; h < D / 64; h++) {
    if (h) __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int n = i % 2 * 4, e = 2 * r + i / 2;
        float4 part = {0, 0, 0, 0};
#pragma unroll
        for (int half = 0; half < D / 64; half++)
          if (half == h)
            part = {acc[8 * half + n][e], acc[8 * half + n + 1][e], acc[8 * half + n + 2][e],
                    acc[8 * half + n + 3][e]};
        *(float4*)&parts[warp][g + 8 * r][16 * t + 4 * i] = part;
      }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
      int r = i / 16, d = i % 16 * 4;
      f32 most = MINUS_INFINITY, sum = 0;
      float4 y = {0, 0, 0, 0};
      for (int w = 0; w < warps; w++) most = fmaxf(most, bases[w][r]);
      f32 from = most == MINUS_INFINITY ? 0.f : most;
      for (int w = 0; w < warps; w++) {
        f32 worth = power_of_2(bases[w][r] - from);
        float4 part = *(const float4*)&parts[w][r][d];
        sum += worth * sums[w][r];
        y.x += worth * part.x, y.y += worth * part.y, y.z += worth * part.z, y.w += worth * part.w;
      }
      f32 inverse = inverse_of(p, sum);
      if (first_row + r < p.queries && 64 * h + d < p.value_size)
        *(uint2*)((u16*)p.y + at.y + (first_row + r) * p.y_s[2] + 64 * h + d) = {
            matrix<T>::pair(y.x * inverse, y.y * inverse), matrix<T>::pair(y.z * inverse, y.w * inverse)};
    }
  }
}
#define TILES(T, D) attention_tiles<T, D, 4, false>(p)
#if __CUDA_ARCH_FEAT_SM90_ALL
#define WARPGROUPS(T, D) attention_tiles<T, D, 8, true>(p)
#else
#define WARPGROUPS(T, D) (void)p
#endif
#define SPLIT(T, D) attention_split<T, D>(p)
#define KINDS(T) p.mask_is_float ? attention_kinds<f32>(p) : attention_kinds<T>(p)
#else
#define TILES(T, D) (void)p
#define WARPGROUPS(T, D) (void)p
#define SPLIT(T, D) (void)p
#define KINDS(T) (void)p
#endif

#define ATTENTION(name, threads, blocks, body)                                                            \
  extern "C" __global__ void __launch_bounds__(threads, blocks) attention_##name(carnot_cuda_attention p) { \
    wait_for_previous();                                                                                  \
    body;                                                                                                 \
  }
#define ATTENTION_OF(T)                             \
  ATTENTION(T, 128, 1, attention_simple<T>(p))      \
  ATTENTION(kinds_##T, 1024, 1, KINDS(T))           \
  ATTENTION(split_64_##T, 256, 1, SPLIT(T, 64))     \
  ATTENTION(split_128_##T, 256, 1, SPLIT(T, 128))   \
  ATTENTION(tiles_32_##T, 128, 3, TILES(T, 32))     \
  ATTENTION(tiles_64_##T, 128, 3, TILES(T, 64))     \
  ATTENTION(tiles_96_##T, 128, 3, TILES(T, 96))     \
  ATTENTION(tiles_128_##T, 128, 2, TILES(T, 128))   \
  ATTENTION(groups_64_##T, 256, 2, WARPGROUPS(T, 64))
ATTENTION_OF(f16)
ATTENTION_OF(bf16)
