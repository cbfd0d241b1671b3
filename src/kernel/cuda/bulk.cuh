// Products of halves with constant weights, and convolutions channels last as such products, on sm_90a: the
// copy engine brings steps of 64 along K by tensor maps, one thread asks for them. Blocks of a cluster that
// stand side by side fetch a part of their common rows each, for all of them (multicast). K may be cut over
// the cluster's third dimension: each block finishes some rows, the others send it their sums of these, and
// it adds them in the order of ranks. Weights are asked for before the previous kernel has ended.

#if HAS_WGMMA

// ---- barriers in shared memory that count arrivals and bytes ----

DEVICE void barrier_init(u32 at, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
DEVICE void barrier_expect(u32 at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
// |at|: of any block of the cluster.
DEVICE void barrier_arrive(u32 at) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(at) : "memory");
}
DEVICE void barrier_wait(u32 at, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(at), "r"(parity) : "memory");
}

// ---- the copy engine ----

// The box of |map| at |column| and |row| to shared address |to| of all blocks in |blocks|.
DEVICE void fetch_box(u32 to, const void* map, int column, int row, u32 barrier, u32 blocks, bool many) {
  if (many)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2,%3}], [%4], %5;" ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier), "h"((u16)blocks) : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2,%3}], [%4];" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier) : "memory");
}
// The same of pixels: at[] is column, row and image of the first result's window, tap[] a column and row in it.
DEVICE void fetch_pixels(u32 to, const void* map, int channel, const int* at, const u16* tap, u32 barrier, u32 blocks, bool many) {
  if (many)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2,%3,%4,%5}], [%6], {%7,%8}, %9;" ::"r"(to), "l"(map), "r"(channel), "r"(at[0]), "r"(at[1]), "r"(at[2]),
        "r"(barrier), "h"(tap[0]), "h"(tap[1]), "h"((u16)blocks) : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2,%3,%4,%5}], [%6], {%7,%8};" ::"r"(to), "l"(map), "r"(channel), "r"(at[0]), "r"(at[1]), "r"(at[2]),
        "r"(barrier), "h"(tap[0]), "h"(tap[1]) : "memory");
}

// |bytes| of this block's shared memory to another block's.
DEVICE void send(u32 to, u32 from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(from), "r"(bytes), "r"(barrier) : "memory");
}

// Where the next step along K stands: of weights, and of rows of x or of windows. P: carnot_cuda_bulk or _relay.
template <class P> struct bulk_cursor {
  const P& p;
  int row, w_column, channel, at[3];  // at: column, row and image of the first window
  u16 tap[2];

  // Rows of x from |m| on, step |first|.
  DEVICE_ONLY void aim(u32 m, int first) {
    const carnot_cuda_product& t = p.product;
    u32 line = m / t.out_columns, image = line / t.out_rows;
    at[0] = (int)(m - line * t.out_columns) * t.step[1] - t.begin[1];
    at[1] = (int)(line - image * t.out_rows) * t.step[0] - t.begin[0];
    at[2] = (int)image;
    int place = first / p.chunks, down = place / t.kernel_columns;
    row = (int)m, channel = (first - place * p.chunks) * TILE_DEPTH, w_column = first * TILE_DEPTH;
    tap[0] = (u16)((place - down * t.kernel_columns) * t.dilation[1]), tap[1] = (u16)(down * t.dilation[0]);
  }
  DEVICE_ONLY void fetch_weights(u32 to, int n, u32 barrier, u32 blocks, bool many) {
    fetch_box(to, &p.w, w_column, n, barrier, blocks, many);
    w_column += TILE_DEPTH;
  }
  DEVICE_ONLY void fetch_x(u32 to, u32 barrier, u32 blocks, bool many) {
    if (p.is_window)
      fetch_pixels(to, &p.x, channel, at, tap, barrier, blocks, many);
    else
      fetch_box(to, &p.x, channel, row, barrier, blocks, many);
    channel += TILE_DEPTH;
    if (channel < p.chunks * TILE_DEPTH) return;
    channel = 0;
    tap[0] += p.product.dilation[1];
    if (tap[0] < p.product.kernel_columns * p.product.dilation[1]) return;
    tap[0] = 0, tap[1] += p.product.dilation[0];
  }
};

// ---- the kernel ----

template <class T, int BM, int BN> struct bulk {
  enum {
    THREADS = BM * 2,  // that multiply; one warp more fetches
    STAGE = (BM + BN) * TILE_PITCH,
    ROW = (BN + 4) * 4,  // bytes of a row of the sums
    PIECES = BN / 8,
    DOWN = THREADS / PIECES,  // rows between two of a thread's pieces
    AHEAD = 4                 // residuals of a thread that are under way
  };
  const carnot_cuda_bulk& p;
  u32 base, full, empty, joined;  // stages; and barriers: of each stage, and of the parts
  u32 x, z;                       // in the cluster
  int first, steps;               // of K, 64 each
  u32 x_row, x_blocks;            // the first row of x that this block brings, and to whom
  bulk_cursor<carnot_cuda_bulk> next;
  f32 sums[BN / 8][4];
  results<T> out;

  DEVICE_ONLY bulk(const carnot_cuda_bulk& params) : p(params), next{params} {}

  // Rows of the tile that one block finishes: whole eights.
  DEVICE_ONLY int share() { return (BM / 8 + (int)gridDim.z - 1) / (int)gridDim.z * 8; }
  DEVICE_ONLY int rows_of(u32 rank) { return hi(0, lo(share(), BM - (int)rank * share())); }
  // Where block |owner| has the sums of rank |k|: its own take the place of the stages.
  DEVICE_ONLY u32 part(u32 k, u32 owner) {
    return base + (k == owner ? owner * share() * ROW : p.parts + (k < owner ? k : k - 1) * share() * ROW);
  }
  DEVICE_ONLY void meet() { asm volatile("bar.sync 1, %0;" ::"r"((int)THREADS) : "memory"); }

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * CARNOT_CUDA_BULK_STAGES + 1];
    base = (shared_address(memory) + 1023) & ~1023u;
    full = shared_address(barriers), empty = full + CARNOT_CUDA_BULK_STAGES * 8, joined = empty + CARNOT_CUDA_BULK_STAGES * 8;
    x = blockIdx.x % p.across, z = blockIdx.z;
    int all = p.taps * p.chunks, each = (all + gridDim.z - 1) / gridDim.z;
    first = (int)z * each, steps = hi(0, lo(each, all - first));
    if (threadIdx.x == 0) {
      for (int i = 0; i < p.stages; i++) {
        barrier_init(full + i * 8, 1);
        barrier_init(empty + i * 8, p.across * (BM / 64));
      }
      barrier_init(joined, 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      barrier_expect(joined, rows_of(z) * ROW * (gridDim.z - 1));
    }
    if (p.across * gridDim.z > 1)
      asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    else
      __syncthreads();
  }

  // ---- the thread that fetches ----

  DEVICE_ONLY void fetch_weights(int stage) {
    barrier_expect(full + stage * 8, STAGE);
    next.fetch_weights(base + stage * STAGE + BM * TILE_PITCH, blockIdx.x * BN, full + stage * 8, 0, false);
  }
  DEVICE_ONLY void fetch_x(int stage) {
    next.fetch_x(base + stage * STAGE + x_row * TILE_PITCH, full + stage * 8, x_blocks, p.across > 1);
  }
  DEVICE_ONLY void produce() {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&p.x) : "memory");
    x_row = x * (BM / p.across), x_blocks = ((1u << p.across) - 1) << z * p.across;
    next.aim(blockIdx.y * BM + x_row, first);
    int filled = lo(p.stages, steps);
#pragma unroll 1
    for (int s = 0; s < filled; s++) fetch_weights(s);
    wait_for_previous();
#pragma unroll 1
    for (int s = 0; s < filled; s++) fetch_x(s);
    u32 parity = 0;
#pragma unroll 1
    for (int s = filled, stage = 0; s < steps; s++) {
      barrier_wait(empty + stage * 8, parity);
      fetch_weights(stage);
      fetch_x(stage);
      if (++stage == p.stages) stage = 0, parity ^= 1;
    }
  }

  // ---- those that multiply ----

  // Those who fetch into |stage| next may do so.
  DEVICE_ONLY void release(int stage) {
    int i = threadIdx.x % 128;
    if (i < p.across) barrier_arrive(shared_of(empty + stage * 8, z * p.across + i));
  }
  DEVICE_ONLY void multiply() {
    u32 parity = 0;
#pragma unroll 1
    for (int s = 0, stage = 0, before = 0; s < steps; s++) {
      u32 a = base + stage * STAGE;
      barrier_wait(full + stage * 8, parity);
      u64 da = descriptor(a + threadIdx.x / 128 * 64 * TILE_PITCH), db = descriptor(a + BM * TILE_PITCH);
      group_begin();
#pragma unroll
      for (int i = 0; i < TILE_DEPTH / 16; i++) group<T, BN>::multiply(&sums[0][0], da + 2 * i, db + 2 * i, s + i);
      group_commit();
      group_wait<1>();
      if (s && s - 1 + p.stages < steps) release(before);
      before = stage;
      if (++stage == p.stages) stage = 0, parity ^= 1;
    }
    group_wait<0>();
  }

  DEVICE_ONLY void keep_sums() {
    u32 to = base + (threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4) * ROW + threadIdx.x % 4 * 8;
#pragma unroll
    for (int j = 0; j < BN / 8; j++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(to + h * 8 * ROW + j * 32), "f"(sums[j][2 * h]), "f"(sums[j][2 * h + 1])
                     : "memory");
  }
  // Each thread to one of the blocks that finish rows.
  DEVICE_ONLY void send_sums() {
    u32 owner = threadIdx.x, rank = owner * p.across + x;
    if (owner >= gridDim.z || owner == z || !rows_of(owner)) return;
    send(shared_of(part(z, owner), rank), base + owner * share() * ROW, rows_of(owner) * ROW, shared_of(joined, rank));
  }
  // |residual|: of the thread's first rows, read early.
  DEVICE_ONLY void finish(i64 m, int n, eight* residual) {
    int row = threadIdx.x / PIECES, rows = rows_of(z);
    if (row >= DOWN) return;
#pragma unroll 1
    for (; row < rows; row += DOWN) {
      u32 from = row * ROW + threadIdx.x % PIECES * 32;
      f32 v[8];
      read_own_sums(v, part(0, z) + from);
#pragma unroll 4
      for (int k = 1; k < (int)gridDim.z; k++) {
        f32 more[8];
        read_own_sums(more, part(k, z) + from);
        for (int e = 0; e < 8; e++) v[e] += more[e];
      }
      out.put(v, residual[0], m + row, n);
      for (int i = 1; i < AHEAD; i++) residual[i - 1] = residual[i];
      residual[AHEAD - 1] = out.residual_at(m + row + AHEAD * DOWN, n);
    }
  }
  DEVICE_ONLY void consume() {
    i64 m = (i64)blockIdx.y * BM + z * share();
    int n = blockIdx.x * PIECES + threadIdx.x % PIECES;
    eight residual[AHEAD];
    out.keep(p.product);
    out.read_bias(p.product, n);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < AHEAD; i++) residual[i] = out.residual_at(m + threadIdx.x / PIECES + i * DOWN, n);
    multiply();
    meet();
    keep_sums();
    group_sees();
    meet();
    if (gridDim.z > 1) {
      send_sums();
      barrier_wait(joined, 0);
      asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }
    finish(m, n, residual);
    // What this block sends is read out of its memory.
    if (gridDim.z > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  }

  DEVICE_ONLY void run() {
    start();
    if (threadIdx.x < THREADS)
      consume();
    else if (threadIdx.x == THREADS)
      produce();
  }
};
#define BULK_KERNEL(T, BM, BN)                                                                        \
  extern "C" __global__ void __launch_bounds__(CARNOT_CUDA_BULK_THREADS(BM), 1)                       \
      bulk_##BM##x##BN##_##T(const __grid_constant__ carnot_cuda_bulk p) { bulk<T, BM, BN>(p).run(); }
#define BULK_KERNELS(BM, BN) BULK_KERNEL(f16, BM, BN) BULK_KERNEL(bf16, BM, BN)
CARNOT_CUDA_BULKS(BULK_KERNELS)

#endif
