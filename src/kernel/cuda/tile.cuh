// Products of halves with constant weights, and convolutions channels last as such products: a block
// computes BM x BN results over steps of 64 along K, fetched by cp.async into swizzled shared memory some
// steps ahead. The K of one tile may be cut over the blocks of a cluster, which add their parts through
// distributed shared memory in a fixed order. Weights are asked for before the previous kernel has ended.
//
// sm_90a multiplies by wgmma where BM >= 64, other architectures by mma.sync; both leave the sums of a
// warp's 16 rows in the same registers.

#if __CUDA_ARCH__ >= 800

enum { TILE_DEPTH = 64, TILE_PITCH = 128 };  // halves and bytes of a row of a stage

DEVICE u32 swizzled(u32 base, int row, int piece) { return base + row * TILE_PITCH + ((piece ^ (row & 7)) << 4); }

// Asks for |bytes| (a multiple of 16) into the L2 cache.
DEVICE void prefetch(const void* from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
#endif
}

// ---- the kernel ----

template <class T, int BM, int BN, int STAGES> struct tile {
  enum {
    GROUPED = HAS_WGMMA && BM >= 64,
    ROW_WARPS = BM / 16,
    COLUMN_WARPS = BM >= 64 ? 1 : 4,
    THREADS = ROW_WARPS * COLUMN_WARPS * 32,
    COLUMNS = BN / COLUMN_WARPS,  // of a warp
    STAGE = (BM + BN) * TILE_PITCH,
    AHEAD = GROUPED ? STAGES - 2 : STAGES - 1,
    STEP = THREADS / 8,  // rows between two of a thread's pieces
    A = BM / STEP,
    B = (BN + STEP - 1) / STEP,
    PITCH = BN + 4,            // floats of a row of the sums
    PIECES = BN / 8,           // of a row of results
    DOWN = THREADS / PIECES,   // rows between two of a thread's pieces
    TURNS = BM / DOWN
  };
  const carnot_cuda_product& p;
  u32 base;
  int piece, row0;  // of this thread's fetches
  i64 from[A];      // of its rows at tap 0; and the position of that tap
  int y[A], x[A];
  const T* weights[B];
  bool is_filter[B];
  int k, last, tap_y, tap_x, channel;  // of the next fetch of x
  int kw;                              // and of weights
  f32 sums[COLUMNS / 8][4];
  results<T> out;

  DEVICE_ONLY tile(const carnot_cuda_product& params) : p(params) {}

  DEVICE_ONLY void start(i64 m0, int n0, int first, int end) {
    extern __shared__ char memory[];
    base = (shared_address(memory) + 1023) & ~1023u;
    piece = threadIdx.x % 8, row0 = threadIdx.x / 8;
    last = end;
    out.keep(p);
    k = kw = first + piece * 8;
#pragma unroll
    for (int i = 0; i < B; i++) {
      int n = n0 + row0 + i * STEP;
      is_filter[i] = n < p.filters && row0 + i * STEP < BN;
      weights[i] = (const T*)p.w + (is_filter[i] ? (i64)n * p.depth : 0);
    }
    if (p.prefetch && threadIdx.x < BN && n0 + (int)threadIdx.x < p.filters) {
      const T* at = (const T*)p.w + (i64)(n0 + threadIdx.x) * p.depth + first;
      if (end > first) prefetch(at, (end - first) * 2);
    }
    channel = k % p.channels;
    int tap = k / p.channels;
    tap_y = tap / p.kernel_columns, tap_x = tap % p.kernel_columns;
#pragma unroll
    for (int i = 0; i < A; i++) {
      i64 m = m0 + row0 + i * STEP;
      bool inside = m < p.rows;
      u32 r = (u32)(inside ? m : 0), columns = (u32)p.out_columns, image;
      u32 line = r / columns, column = r - line * columns;
      image = line / (u32)p.out_rows, line -= image * (u32)p.out_rows;
      y[i] = inside ? (int)line * p.step[0] - p.begin[0] : -(1 << 30);
      x[i] = (int)column * p.step[1] - p.begin[1];
      from[i] = (((i64)image * p.in_rows + y[i]) * p.in_columns + x[i]) * p.pixel;
    }
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
  }

  DEVICE_ONLY void fetch_weights(int stage) {
    u32 to = base + stage * STAGE + BM * TILE_PITCH;
#pragma unroll
    for (int i = 0; i < B; i++)
      if (BN % STEP == 0 || row0 + i * STEP < BN)
        fetch(swizzled(to, row0 + i * STEP, piece), weights[i] + (kw < last ? kw : 0),
              is_filter[i] && kw < last ? 16 : 0);
    kw += TILE_DEPTH;
  }

  DEVICE_ONLY void fetch_x(int stage) {
    u32 to = base + stage * STAGE;
    int dy = tap_y * p.dilation[0], dx = tap_x * p.dilation[1];
    i64 shift = ((i64)dy * p.in_columns + dx) * p.pixel + channel;
    bool inside = k < last;
#pragma unroll
    for (int i = 0; i < A; i++) {
      bool there = inside && (u32)(y[i] + dy) < (u32)p.in_rows && (u32)(x[i] + dx) < (u32)p.in_columns;
      fetch(swizzled(to, row0 + i * STEP, piece), (const T*)p.x + (there ? from[i] + shift : 0), there ? 16 : 0);
    }
    k += TILE_DEPTH;
    channel += TILE_DEPTH;
    while (channel >= p.channels) {
      channel -= p.channels;
      if (++tap_x == p.kernel_columns) tap_x = 0, tap_y++;
    }
  }

  DEVICE_ONLY void multiply(int stage) {
    u32 a = base + stage * STAGE, b = a + BM * TILE_PITCH;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = warp % ROW_WARPS * 16,
        column = warp / ROW_WARPS * COLUMNS;
    if constexpr (GROUPED) {
      group_begin();
      u64 da = descriptor(a + row / 64 * 64 * TILE_PITCH), db = descriptor(b);
#pragma unroll
      for (int s = 0; s < TILE_DEPTH / 16; s++) group<T, BN>::multiply(&sums[0][0], da + 2 * s, db + 2 * s);
      group_commit();
    } else
#pragma unroll
    for (int s = 0; s < TILE_DEPTH / 16; s++) {
      u32 ra[4];
      read4(ra, swizzled(a, row + (lane & 15), s * 2 + (lane >> 4)));
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; j += 2) {
        u32 rb[4];
        read4(rb, swizzled(b, column + (j + (lane >> 4)) * 8 + (lane & 7), s * 2 + (lane >> 3 & 1)));
        matrix<T>::multiply(sums[j], ra, rb[0], rb[1]);
        matrix<T>::multiply(sums[j + 1], ra, rb[2], rb[3]);
      }
    }
  }

  DEVICE_ONLY void keep_sums() {
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = warp % ROW_WARPS * 16 + (lane >> 2),
        column = warp / ROW_WARPS * COLUMNS + (lane & 3) * 2;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(base + ((row + 8 * h) * PITCH + column + 8 * j) * 4),
                     "f"(sums[j][2 * h]), "f"(sums[j][2 * h + 1]) : "memory");
  }

  // A thread keeps its eight columns |n| and walks down the rows.
  DEVICE_ONLY void finish(i64 m, int n) {
    u32 from = base + (threadIdx.x / PIECES * PITCH + threadIdx.x % PIECES * 8) * 4;
    m += threadIdx.x / PIECES;
    eight residual[TURNS];
#pragma unroll
    for (int i = 0; i < TURNS; i++) residual[i] = out.residual_at(m + i * DOWN, n);
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
      f32 v[8];
      read_own_sums(v, from + i * DOWN * PITCH * 4);
      out.put(v, residual[i], m + i * DOWN, n);
    }
  }
  // The same for rows [first, end) of the tile, over the parts of all ranks.
  DEVICE_ONLY void finish_cluster(i64 m0, int n, int first, int end, u32 ranks) {
    for (int r = first + threadIdx.x / PIECES; r < end; r += DOWN) {
      u32 from = base + (r * PITCH + threadIdx.x % PIECES * 8) * 4;
      eight residual = out.residual_at(m0 + r, n);
      f32 parts[8][8];
#pragma unroll
      for (u32 k = 0; k < 8; k++)
        if (k < ranks) read_sums(parts[k], shared_of(from, k));
#pragma unroll
      for (u32 k = 1; k < 8; k++)
        if (k < ranks)
          for (int e = 0; e < 8; e++) parts[0][e] += parts[k][e];
      out.put(parts[0], residual, m0 + r, n);
    }
  }

  DEVICE_ONLY void run() {
    u32 ranks = gridDim.z, rank = blockIdx.z;
    int across = (p.filters + BN - 1) / BN, n0 = (int)(blockIdx.x % across) * BN;
    i64 m0 = (i64)(blockIdx.x / across) * BM;
    int all = (p.depth + TILE_DEPTH - 1) / TILE_DEPTH, share = (all + ranks - 1) / ranks;
    int first = (int)rank * share * TILE_DEPTH, end = lo(first + share * TILE_DEPTH, p.depth);
    int steps = end > first ? (end - first + TILE_DEPTH - 1) / TILE_DEPTH : 0;
    start(m0, n0, first, end);
    for (int s = 0; s < AHEAD; s++)
      if (s < steps) fetch_weights(s);
    int n = n0 / 8 + threadIdx.x % PIECES;
    out.read_bias(p, n);
    wait_for_previous();
    for (int s = 0; s < AHEAD; s++) {
      if (s < steps) fetch_x(s);
      fetch_commit();
    }
    for (int s = 0; s < steps; s++) {
      fetch_wait<AHEAD - 1>();
      if (GROUPED) group_sees();
      __syncthreads();
      multiply(s % STAGES);
      int next = s + AHEAD;
      if (next < steps) {
        fetch_weights(next % STAGES);
        fetch_x(next % STAGES);
      }
      fetch_commit();
      if (GROUPED) group_wait<1>();
    }
    if (GROUPED) group_wait<0>();
    fetch_wait<0>();
    __syncthreads();
    keep_sums();
    if (ranks == 1) {
      __syncthreads();
      finish(m0, n);
      return;
    }
    cluster_sync();
    int rows = (BM + (int)ranks - 1) / (int)ranks, mine = (int)rank * rows;
    finish_cluster(m0, n, mine, lo(mine + rows, BM), ranks);
    cluster_sync();  // nobody leaves while others read its part
  }
};
#define TILE(T, BM, BN, STAGES) tile<T, BM, BN, STAGES>(p).run()
#else
#define TILE(T, BM, BN, STAGES) (void)p
#endif

#define TILE_KERNEL(T, BM, BN, STAGES)                                                                   \
  extern "C" __global__ void __launch_bounds__(CARNOT_CUDA_TILE_THREADS(BM), 1)                          \
      tile_##BM##x##BN##_##T(const __grid_constant__ carnot_cuda_product p) { TILE(T, BM, BN, STAGES); }
#define TILE_KERNELS(BM, BN, STAGES) TILE_KERNEL(f16, BM, BN, STAGES) TILE_KERNEL(bf16, BM, BN, STAGES)
CARNOT_CUDA_TILES(TILE_KERNELS)
