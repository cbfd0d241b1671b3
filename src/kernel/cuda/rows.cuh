// Kernels that reduce: sums, softmax, normalizations. Accumulators are float or wider; a block
// combines in an order that depends on the size alone, so that equal runs give equal bits.

template <class T> struct add_of { static DEVICE_ONLY T of(T a, T b) { return a + b; } };
template <class T> struct max_of { static DEVICE_ONLY T of(T a, T b) { return hi(a, b); } };
template <class T> struct min_of { static DEVICE_ONLY T of(T a, T b) { return lo(a, b); } };
template <class T> struct mul_of { static DEVICE_ONLY T of(T a, T b) { return a * b; } };

// The combination over a block of at most 1024 threads, known to all of them.
template <class C, class T> DEVICE T over_block(T v, T identity) {
  __shared__ T parts[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
  for (int step = 16; step; step >>= 1) v = C::of(v, __shfl_xor_sync(~0u, v, step));
  __syncthreads();
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  v = lane < warps ? parts[lane] : identity;
  for (int step = 16; step; step >>= 1) v = C::of(v, __shfl_xor_sync(~0u, v, step));
  return v;
}

// ---- clusters: blocks of one launch that read one another's shared memory; a block alone before
// sm_90 ----

DEVICE u32 cluster_rank() {
  u32 r = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
#endif
  return r;
}
DEVICE void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
DEVICE void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// What stands at |mine| in block |rank| of the cluster.
template <class T> DEVICE T of_peer(const T* mine, u32 rank) {
#if __CUDA_ARCH__ >= 900
  u32 here = (u32)__cvta_generic_to_shared(mine), there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  T value;
  if (sizeof(T) == 8)
    asm volatile("ld.shared::cluster.b64 %0, [%1];" : "=l"(*(u64*)&value) : "r"(there) : "memory");
  else
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(*(u32*)&value) : "r"(there) : "memory");
  return value;
#else
  return *mine;
#endif
}

// What the blocks of a cluster send to one another, counted by a barrier in each block's shared memory.
// All threads open it, are ready before the first one sends, and wait for the bytes of all blocks.
struct inbox {
  u64* counter;
  int blocks;  // a block alone writes to itself
  DEVICE_ONLY void open() const {
#if __CUDA_ARCH__ >= 900
    if (blocks == 1) return;
    if (threadIdx.x == 0)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
                       (u32)__cvta_generic_to_shared(counter)) : "memory");
    cluster_arrive();
#endif
  }
  // |bytes| are to come; some may have before this block says so.
  DEVICE_ONLY void ready(u32 bytes) const {
#if __CUDA_ARCH__ >= 900
    if (blocks == 1) return;
    cluster_wait();
    if (threadIdx.x == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"((u32)__cvta_generic_to_shared(counter)),
                   "r"(bytes) : "memory");
#endif
  }
  // To where |mine| stands in block |rank|.
  DEVICE_ONLY void send(f32* mine, u32 rank, f32 value) const {
#if __CUDA_ARCH__ >= 900
    u32 to, there;
    if (blocks > 1) {
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"((u32)__cvta_generic_to_shared(mine)), "r"(rank));
      asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((u32)__cvta_generic_to_shared(counter)), "r"(rank));
      asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
                   "f"(value), "r"(there) : "memory");
      return;
    }
#endif
    *mine = value;
  }
  DEVICE_ONLY void wait() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile(
          "{\n.reg .pred done;\nagain:\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n@!done bra again;\n}" ::"r"(
              (u32)__cvta_generic_to_shared(counter)) : "memory");
      return;
    }
#endif
    __syncthreads();
  }
};

// ---- reduce ----

template <class A> struct ends;
template <> struct ends<f32> {
  static DEVICE_ONLY f32 low() { return -__int_as_float(0x7f800000); }
  static DEVICE_ONLY f32 high() { return __int_as_float(0x7f800000); }
};
template <> struct ends<f64> {
  static DEVICE_ONLY f64 low() { return -__longlong_as_double(0x7ff0000000000000ll); }
  static DEVICE_ONLY f64 high() { return __longlong_as_double(0x7ff0000000000000ll); }
};
template <> struct ends<i32> {
  static DEVICE_ONLY i32 low() { return (i32)0x80000000; }
  static DEVICE_ONLY i32 high() { return 0x7fffffff; }
};
template <> struct ends<i64> {
  static DEVICE_ONLY i64 low() { return (i64)0x8000000000000000ull; }
  static DEVICE_ONLY i64 high() { return 0x7fffffffffffffffll; }
};
template <> struct ends<u32> {
  static DEVICE_ONLY u32 low() { return 0; }
  static DEVICE_ONLY u32 high() { return 0xffffffffu; }
};
template <> struct ends<u64> {
  static DEVICE_ONLY u64 low() { return 0; }
  static DEVICE_ONLY u64 high() { return ~0ull; }
};
template <class A> DEVICE A lowest() { return ends<A>::low(); }
template <class A> DEVICE A highest() { return ends<A>::high(); }

template <class A> DEVICE A root(A x) { return (A)sqrt((f64)x); }
DEVICE f32 root(f32 x) { return sqrtf(x); }
template <class A> DEVICE A logarithm(A x) { return (A)log((f64)x); }
DEVICE f32 logarithm(f32 x) { return logf(x); }
template <class A> DEVICE A exponential(A x) { return (A)exp((f64)x); }
DEVICE f32 exponential(f32 x) { return expf(x); }

template <class A> DEVICE A start(int fn) {
  return fn == CARNOT_CUDA_MAX ? lowest<A>() : fn == CARNOT_CUDA_MIN ? highest<A>()
         : fn == CARNOT_CUDA_PROD ? (A)1 : (A)0;
}
template <class A> DEVICE A join(int fn, A a, A b) {
  return fn == CARNOT_CUDA_MAX ? hi(a, b) : fn == CARNOT_CUDA_MIN ? lo(a, b)
         : fn == CARNOT_CUDA_PROD ? a * b : a + b;
}
template <class A> DEVICE A magnitude(A x) { return x < 0 ? -x : x; }
DEVICE u32 magnitude(u32 x) { return x; }
DEVICE u64 magnitude(u64 x) { return x; }
template <class A> DEVICE A term(int fn, A x, A most) {
  switch (fn) {
    case CARNOT_CUDA_L1: return magnitude(x);
    case CARNOT_CUDA_L2:
    case CARNOT_CUDA_SUM_SQUARE: return x * x;
    case CARNOT_CUDA_LOG_SUM_EXP: return exponential(x - most);
    default: return x;
  }
}
template <class A> DEVICE A finish(int fn, A x, i64 count, A most) {
  switch (fn) {
    case CARNOT_CUDA_MEAN: return x / (A)count;
    case CARNOT_CUDA_L2: return root(x);
    case CARNOT_CUDA_LOG_SUM: return logarithm(x);
    case CARNOT_CUDA_LOG_SUM_EXP: return logarithm(x) + most;
    default: return x;
  }
}

// Of bytes: the ends of a wider accumulator, which nothing joined, become those of the type.
template <class T> struct result_as : store_as<T> {};
template <> struct result_as<i8> { static DEVICE_ONLY i8 of(i32 v) { return caster<i8>::of((f64)v); } };
template <> struct result_as<u8> { static DEVICE_ONLY u8 of(i32 v) { return caster<u8>::of((f64)v); } };
template <> struct result_as<b8> { static DEVICE_ONLY b8 of(i32 v) { return store_as<b8>::of(v > 0); } };

// |step| threads share one result: a block (blockDim.x of them) or one.
template <class T, class A, bool BLOCK> DEVICE void reduce(const carnot_cuda_reduce& p) {
  i64 k = BLOCK ? blockIdx.x : THREAD, base, unused, at;
  if (k >= p.kept_count) return;
  offsets<u64>((u64)k, p.kept_rank, p.kept_dims, p.kept, p.kept, &base, &unused);
  const T* x = (const T*)p.x + base;
  int step = BLOCK ? blockDim.x : 1, first = BLOCK ? threadIdx.x : 0;
  A most = 0;
  for (int pass = p.fn == CARNOT_CUDA_LOG_SUM_EXP ? 0 : 1; pass < 2; pass++) {
    int fn = pass ? p.fn : CARNOT_CUDA_MAX;
    A sum = start<A>(fn);
    for (i64 r = first; r < p.reduced_count; r += step) {
      if (p.reduced_rank == 1)
        at = r * p.reduced[0];
      else
        offsets<u64>((u64)r, p.reduced_rank, p.reduced_dims, p.reduced, p.reduced, &at, &unused);
      sum = join(fn, sum, term(fn, (A)load(x[at]), most));
    }
    if (BLOCK) {
      if (fn == CARNOT_CUDA_MAX) sum = over_block<max_of<A>, A>(sum, start<A>(fn));
      else if (fn == CARNOT_CUDA_MIN) sum = over_block<min_of<A>, A>(sum, start<A>(fn));
      else if (fn == CARNOT_CUDA_PROD) sum = over_block<mul_of<A>, A>(sum, start<A>(fn));
      else sum = over_block<add_of<A>, A>(sum, start<A>(fn));
    }
    if (!pass) most = sum - sum == 0 ? sum : (A)0;  // an infinite one is no reference
    else if (first == 0) ((T*)p.y)[k] = result_as<T>::of(finish(p.fn, sum, p.reduced_count, most));
  }
}

template <class T, int V> struct __align__(sizeof(T) * V) piece { T v[V]; };

// |slice| pieces of V neighbouring results a block: its threads share what is reduced, as do the
// |parts| blocks of a cluster. fn without a second pass; FN: known when compiled, or -1.
template <class T, class A, int V, int FN>
DEVICE void reduce_columns(const carnot_cuda_reduce& p, A* sums) {
  enum { AT_ONCE = 4 };
  int fn = FN < 0 ? p.fn : FN, mine = threadIdx.x % p.slice, lane = threadIdx.x / p.slice,
      lanes = blockDim.x / p.slice, part = blockIdx.x % p.parts;
  i64 first = (i64)(blockIdx.x / p.parts) * p.slice, k = (first + mine) * V, base, unused;
  A sum[V];
  for (int e = 0; e < V; e++) sum[e] = start<A>(fn);
  if (k < p.kept_count) {
    offsets<u64>((u64)k, p.kept_rank, p.kept_dims, p.kept, p.kept, &base, &unused);
    const T* x = (const T*)p.x + base;
    i64 step = (i64)lanes * p.parts;
    for (i64 r = (i64)part * lanes + lane; r < p.reduced_count; r += AT_ONCE * step) {
      piece<T, V> read[AT_ONCE];
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        i64 at = (r + j * step) * p.reduced[0];
        if (r + j * step >= p.reduced_count) break;
        if (p.reduced_rank > 1)
          offsets<u64>((u64)(r + j * step), p.reduced_rank, p.reduced_dims, p.reduced, p.reduced,
                       &at, &unused);
        read[j] = *(const piece<T, V>*)(x + at);
      }
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++)
        for (int e = 0; e < V; e++)
          if (r + j * step < p.reduced_count)
            sum[e] = join(fn, sum[e], term(fn, (A)load(read[j].v[e]), (A)0));
    }
  }
  // Columns of |lanes| sums: V of them a thread, then one thread a column.
  int width = p.slice * V, c = threadIdx.x % width, row = threadIdx.x / width,
      rows = blockDim.x / width;
  for (int e = 0; e < V; e++) sums[lane * width + mine * V + e] = sum[e];
  __syncthreads();
  A all = start<A>(fn);
  for (int i = row; i < lanes; i += rows) all = join(fn, all, sums[i * width + c]);
  __syncthreads();
  sums[row * width + c] = all;
  __syncthreads();
  if (row == 0) {
    for (int i = 1; i < rows; i++) all = join(fn, all, sums[i * width + c]);
    sums[c] = all;
  }
  if (p.parts > 1) {
    cluster_arrive();
    cluster_wait();
    for (int i = 1; i < p.parts && row == 0 && part == 0; i++)
      all = join(fn, all, of_peer(&sums[c], i));
    cluster_arrive();
    cluster_wait();
  }
  k = first * V + c;
  if (row == 0 && part == 0 && k < p.kept_count)
    ((T*)p.y)[k] = result_as<T>::of(finish(p.fn, all, p.reduced_count, (A)0));
}

template <class T> DEVICE void reduce_wide(const carnot_cuda_reduce& p) {
  enum { V = 16 / sizeof(T) };
  __shared__ f32 sums[CARNOT_CUDA_COLUMN_THREADS * V];
  if (p.fn == CARNOT_CUDA_MAX) reduce_columns<T, f32, V, CARNOT_CUDA_MAX>(p, sums);
  else if (p.fn == CARNOT_CUDA_MIN) reduce_columns<T, f32, V, CARNOT_CUDA_MIN>(p, sums);
  else reduce_columns<T, f32, V, CARNOT_CUDA_SUM>(p, sums);
}

#define REDUCES(T, A)                                                                           \
  extern "C" __global__ void reduce_block_##T(carnot_cuda_reduce p) { wait_for_previous(); reduce<T, A, true>(p); }  \
  extern "C" __global__ void reduce_columns_##T(carnot_cuda_reduce p) {                         \
    wait_for_previous();                                                                        \
    __shared__ A sums[CARNOT_CUDA_COLUMN_THREADS];                                              \
    reduce_columns<T, A, 1, -1>(p, sums);                                                       \
  }                                                                                             \
  extern "C" __global__ void reduce_thread_##T(carnot_cuda_reduce p) { wait_for_previous(); reduce<T, A, false>(p); }
REDUCES(f32, f32) REDUCES(f16, f32) REDUCES(bf16, f32) REDUCES(f64, f64) REDUCES(i32, i32)
REDUCES(i64, i64) REDUCES(i8, i32) REDUCES(u8, i32) REDUCES(b8, i32) REDUCES(u32, u32) REDUCES(u64, u64)

#define WIDE_REDUCES(T, name)                                                                   \
  extern "C" __global__ void __launch_bounds__(CARNOT_CUDA_COLUMN_THREADS, 2)                   \
      reduce_wide_##name(carnot_cuda_reduce p) {                                                \
    wait_for_previous();                                                                        \
    reduce_wide<T>(p);                                                                          \
  }
EACH_FLOAT(WIDE_REDUCES)

// ---- softmax ----

template <class T> DEVICE SUM score(const carnot_cuda_softmax& p, const T* x, i64 row, i64 i) {
  typedef SUM A;
  A v = load(x[i * p.stride]) * (A)p.scale;
  if (!p.mask && !p.causal) return v;
  i64 q = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
  if (p.causal && i > q + p.past) return lowest<A>();
  if (!p.mask) return v;
  i64 at = b * p.mask_b + h * p.mask_h + q * p.mask_q + i * p.mask_k;
  if (p.mask_type == 1) return ((const u8*)p.mask)[at] ? v : lowest<A>();
  return v + get<T>(p.mask, at);
}

template <class T> DEVICE void softmax(const carnot_cuda_softmax& p) {
  typedef SUM A;
  i64 row = blockIdx.x, base = row / p.inner * p.size * p.stride + row % p.inner;
  const T* x = (const T*)p.x + base;
  enum { KEEP = 4 };
  A kept[KEEP], most = lowest<A>(), sum = 0;
  bool keeps = p.size <= KEEP * (i64)blockDim.x;
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    kept[k] = keeps && i < p.size ? score<T>(p, x, row, i) : lowest<A>();
    most = hi(most, kept[k]);
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x) most = hi(most, score<T>(p, x, row, i));
  most = over_block<max_of<A>, A>(most, lowest<A>());
  if (most == lowest<A>()) most = 0;  // all keys are left out
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    if (keeps && i < p.size) {
      kept[k] = kept[k] - most;
      sum += exponential(kept[k]);
    }
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x) sum += exponential(score<T>(p, x, row, i) - most);
  sum = over_block<add_of<A>, A>(sum, 0);
  A inverse = 1 / sum, shift = p.log ? logarithm(sum) : 0;
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    if (keeps && i < p.size)
      put<T>(p.y, base + i * p.stride, p.log ? kept[k] - shift : exponential(kept[k]) * inverse);
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x) {
    A v = score<T>(p, x, row, i) - most;
    put<T>(p.y, base + i * p.stride, p.log ? v - shift : exponential(v) * inverse);
  }
}

// ---- normalization ----

template <class T>
DEVICE void write_normal(const carnot_cuda_norm& p, i64 base, i64 first, i64 i, SUM v) {
  i64 c = p.per_element ? (p.period == p.size ? i : i % p.period) : first + (p.spatial == 1 ? i : i / p.spatial);
  if (p.scale) v *= get<T>(p.scale, c);
  if (p.bias) v += get<T>(p.bias, c);
  put<T>(p.y, base + i, v);
}

template <class T> DEVICE void norm(const carnot_cuda_norm& p) {
  typedef SUM A;
  i64 g = blockIdx.x, base = g * p.size;
  const T* x = (const T*)p.x + base;
  enum { KEEP = 8 };
  A kept[KEEP], sum = 0, square = 0;
  bool keeps = p.size <= KEEP * (i64)blockDim.x;
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    kept[k] = keeps && i < p.size ? load(x[i]) : (A)0;
    sum += kept[k];
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x) sum += load(x[i]);
  A mean = p.rms ? (A)0 : over_block<add_of<A>, A>(sum, 0) / (A)p.size;
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    A d = kept[k] - mean;
    if (keeps && i < p.size) square += d * d;
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x) {
    A d = load(x[i]) - mean;
    square += d * d;
  }
  square = over_block<add_of<A>, A>(square, 0);
  A inverse = 1 / root(square / (A)p.size + p.eps);
  i64 channels = p.size / p.spatial, first = g % p.groups * channels;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    if (keeps && i < p.size) write_normal<T>(p, base, first, i, (kept[k] - mean) * inverse);
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x)
    write_normal<T>(p, base, first, i, (load(x[i]) - mean) * inverse);
  if (threadIdx.x == 0 && p.mean_out) ((f32*)p.mean_out)[g] = (f32)mean;
  if (threadIdx.x == 0 && p.inv_out) ((f32*)p.inv_out)[g] = (f32)inverse;
}

template <class T> DEVICE void batch_norm(const carnot_cuda_batch_norm& p) {
  i64 i = THREAD;
  if (i >= p.count) return;
  i64 c = i / p.spatial % p.channels;
  SUM v = (get<T>(p.x, i) - get<T>(p.mean, c)) / root(get<T>(p.var, c) + p.eps);
  put<T>(p.y, i, v * get<T>(p.scale, c) + get<T>(p.bias, c));
}

#define ROWS(T, name)                                                                           \
  extern "C" __global__ void softmax_##name(carnot_cuda_softmax p) { wait_for_previous(); softmax<T>(p); }           \
  extern "C" __global__ void norm_##name(carnot_cuda_norm p) { wait_for_previous(); norm<T>(p); }                    \
  extern "C" __global__ void batch_norm_##name(carnot_cuda_batch_norm p) { wait_for_previous(); batch_norm<T>(p); }
EACH_REAL(ROWS)
