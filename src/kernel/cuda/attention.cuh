// Attention over halves: a block takes 16 queries a warp and walks over tiles of 64 keys, keeping sums
// and the running maximum in float32 registers (FlashAttention-2). Without tensor cores of sm_80 a warp
// takes one query.

#define MINUS_INFINITY (-__int_as_float(0x7f800000))

template <class T> DEVICE f32 mask_at(const carnot_cuda_attention& p, const void* mask, i64 row, int key) {
  if (!mask || key >= p.keys) return 0;
  return p.mask_is_float ? get<f32>(mask, row + key) : get<T>(mask, row + key);
}

struct heads_at {
  i64 q, k, v, y, mask;
};
DEVICE heads_at heads(const carnot_cuda_attention& p) {
  i64 outer = blockIdx.y / p.inner, inner = blockIdx.y % p.inner;
  return {outer * p.q_s[0] + inner * p.q_s[1], outer * p.k_s[0] + inner * p.k_s[1],
          outer * p.v_s[0] + inner * p.v_s[1], outer * p.y_s[0] + inner * p.y_s[1],
          outer * p.mask_s[0] + inner * p.mask_s[1]};
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

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// 16 bytes, or zeros where |bytes| is 0.
DEVICE void fetch(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
DEVICE void fetch_commit() { asm volatile("cp.async.commit_group;"); }
template <int N> DEVICE void fetch_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }
DEVICE void read4(u32* r, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
DEVICE void read4_transposed(u32* r, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
template <class T> struct matrix;
#define MATRIX(T, name)                                                                          \
  template <> struct matrix<T> {                                                                 \
    static DEVICE_ONLY void multiply(f32* c, const u32* a, u32 b0, u32 b1) {                     \
      asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 {%0,%1,%2,%3}, "          \
          "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                               \
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                       \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
    }                                                                                            \
  };
MATRIX(f16, "f16")
MATRIX(bf16, "bf16")
template <class T> DEVICE u32 pair(f32 a, f32 b) {
  return (u32)store_as<T>::of(a).bits | (u32)store_as<T>::of(b).bits << 16;
}

// Rows [first, first + 64) of a head of |size| elements; what lies outside is zero.
template <int D> DEVICE void fetch_rows(u32 to, const u16* from, i64 stride, int first, int rows,
                                        int count, int size) {
  enum { CHUNKS = D / 8, PITCH = (D + 8) * 2 };
  for (int i = threadIdx.x; i < count * CHUNKS; i += blockDim.x) {
    int r = i / CHUNKS, c = i % CHUNKS;
    bool inside = first + r < rows && c * 8 < size;
    fetch(to + r * PITCH + c * 16, inside ? from + (first + r) * stride + c * 8 : from,
          inside ? 16 : 0);
  }
}

template <class T, int D> DEVICE void attention_tiles(const carnot_cuda_attention& p) {
  enum { KEYS = 64, PITCH = (D + 8) * 2, STAGES = D <= 64 ? 2 : 1, STEPS = D / 16 };
  __shared__ __align__(16) u16 tiles[STAGES * 2 * KEYS * (D + 8)];
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, rows = 16 * (blockDim.x >> 5);
  heads_at at = heads(p);
  const u16* q = (const u16*)p.q + at.q;
  const u16* k = (const u16*)p.k + at.k;
  const u16* v = (const u16*)p.v + at.v;
  int first_row = blockIdx.x * rows;
  u32 base = shared_address(tiles);
  const u32 half = KEYS * PITCH;  // bytes of a tile
  // Queries pass through the place of the keys into registers.
  fetch_rows<D>(base, q, p.q_s[2], first_row, p.queries, rows, p.size);
  fetch_commit();
  fetch_wait<0>();
  __syncthreads();
  u32 a[STEPS][4];
  for (int s = 0; s < STEPS; s++)
    read4(a[s], base + (warp * 16 + (lane & 15)) * PITCH + (s * 16 + (lane >> 4) * 8) * 2);
  __syncthreads();
  f32 acc[D / 8][4], most[2] = {MINUS_INFINITY, MINUS_INFINITY}, sum[2] = {0, 0};
  for (int n = 0; n < D / 8; n++) acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
  int row[2] = {first_row + warp * 16 + (lane >> 2), first_row + warp * 16 + (lane >> 2) + 8};
  fetch_rows<D>(base, k, p.k_s[2], 0, p.keys, KEYS, p.size);
  fetch_commit();
  fetch_rows<D>(base + half, v, p.v_s[2], 0, p.keys, KEYS, p.value_size);
  fetch_commit();
  for (int first = 0, stage = 0; first < p.keys; first += KEYS, stage = (stage + 1) % STAGES) {
    u32 keys = base + stage * 2 * half, values = keys + half;
    bool more = STAGES > 1 && first + KEYS < p.keys;
    if (more) {
      u32 next = base + (stage ^ 1) * 2 * half;
      fetch_rows<D>(next, k, p.k_s[2], first + KEYS, p.keys, KEYS, p.size);
      fetch_commit();
      fetch_rows<D>(next + half, v, p.v_s[2], first + KEYS, p.keys, KEYS, p.value_size);
      fetch_commit();
      fetch_wait<3>();
    } else {
      fetch_wait<1>();
    }
    __syncthreads();
    f32 s[8][4];
#pragma unroll
    for (int n = 0; n < 8; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
    for (int d = 0; d < STEPS; d++)
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        u32 b[4];
        read4(b, keys + ((n + (lane >> 4)) * 8 + (lane & 7)) * PITCH + (d * 16 + (lane >> 3 & 1) * 8) * 2);
        matrix<T>::multiply(s[n], a[d], b[0], b[1]);
        matrix<T>::multiply(s[n + 1], a[d], b[2], b[3]);
      }
    f32 top[2] = {most[0], most[1]};
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int key = first + n * 8 + (lane & 3) * 2 + (e & 1), r = e >> 1;
        f32 value = s[n][e] * p.scale;
        if (p.mask && row[r] < p.queries)
          value += mask_at<T>(p, p.mask, at.mask + row[r] * p.mask_s[2], key);
        s[n][e] = key < p.keys ? value : MINUS_INFINITY;
        top[r] = hi(top[r], s[n][e]);
      }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      top[r] = hi(top[r], __shfl_xor_sync(~0u, top[r], 1));
      top[r] = hi(top[r], __shfl_xor_sync(~0u, top[r], 2));
      f32 from = top[r] == MINUS_INFINITY ? 0.f : top[r], shrink = exp2f((most[r] - from) * 1.44269504f);
      most[r] = top[r];
      sum[r] *= shrink;
#pragma unroll
      for (int n = 0; n < D / 8; n++) acc[n][2 * r] *= shrink, acc[n][2 * r + 1] *= shrink;
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          s[n][2 * r + e] = exp2f((s[n][2 * r + e] - from) * 1.44269504f);
          sum[r] += s[n][2 * r + e];
        }
    }
    if (more) fetch_wait<2>();
    else fetch_wait<0>();
    __syncthreads();
#pragma unroll
    for (int c = 0; c < 4; c++) {  // 16 keys each
      u32 w[4] = {pair<T>(s[2 * c][0], s[2 * c][1]), pair<T>(s[2 * c][2], s[2 * c][3]),
                  pair<T>(s[2 * c + 1][0], s[2 * c + 1][1]), pair<T>(s[2 * c + 1][2], s[2 * c + 1][3])};
#pragma unroll
      for (int n = 0; n < D / 8; n += 2) {
        u32 b[4];
        read4_transposed(b, values + (c * 16 + (lane & 15)) * PITCH + (n * 8 + (lane >> 4) * 8) * 2);
        matrix<T>::multiply(acc[n], w, b[0], b[1]);
        matrix<T>::multiply(acc[n + 1], w, b[2], b[3]);
      }
    }
    __syncthreads();
    if (STAGES == 1 && first + KEYS < p.keys) {
      fetch_rows<D>(base, k, p.k_s[2], first + KEYS, p.keys, KEYS, p.size);
      fetch_commit();
      fetch_rows<D>(base + half, v, p.v_s[2], first + KEYS, p.keys, KEYS, p.value_size);
      fetch_commit();
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
    sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    if (row[r] >= p.queries) continue;
    f32 inverse = sum[r] == 0 && p.zero_empty ? 0.f : 1 / sum[r];
    u16* y = (u16*)p.y + at.y + row[r] * p.y_s[2];
    for (int n = 0; n < D / 8; n++) {
      int c = n * 8 + (lane & 3) * 2;
      if (c < p.value_size)
        *(u32*)(y + c) = pair<T>(acc[n][2 * r] * inverse, acc[n][2 * r + 1] * inverse);
    }
  }
}
#define TILES(T, D) attention_tiles<T, D>(p)
#else
#define TILES(T, D) (void)p
#endif

#define ATTENTION(T)                                                                              \
  extern "C" __global__ void attention_##T(carnot_cuda_attention p) { wait_for_previous(); attention_simple<T>(p); }   \
  extern "C" __global__ void attention_32_##T(carnot_cuda_attention p) { wait_for_previous(); TILES(T, 32); }          \
  extern "C" __global__ void attention_64_##T(carnot_cuda_attention p) { wait_for_previous(); TILES(T, 64); }          \
  extern "C" __global__ void attention_128_##T(carnot_cuda_attention p) { wait_for_previous(); TILES(T, 128); }
ATTENTION(f16)
ATTENTION(bf16)
