// Convolutions that read few channels, by mma.sync with all weights of a block in shared memory: what they read
// and write goes past in registers, each number once.
//
// Weights are packed by chunks of 32 filters, steps of 16 along K, and lanes, as the products read them: lane
// 4g + t holds at K places 4t .. 4t+3 of a step (they serve as places 2t, 2t+1, 2t+8, 2t+9 of both factors) the
// filters (g >> 1) * 8 + 2j + (g & 1) of the products j = 0 .. 3. So a lane's sums are eight filters that stand
// next to one another: t * 8 of the chunk on.

#if __CUDA_ARCH__ >= 800

enum { CHUNK_STEP = 1024 };  // bytes of a chunk's weights in a step

struct __align__(8) four { u32 two[2]; };

// TILES tiles of 16 rows times 32 filters at |weights|, one step.
template <class T, int TILES>
DEVICE void multiply_chunk(f32 (*sums)[4][4], const u32 (*a)[4], const char* weights) {
#pragma unroll
  for (int j = 0; j < 4; j += 2) {
    eight b = *(const eight*)(weights + j * 256 + (threadIdx.x & 31) * 16);
#pragma unroll
    for (int m = 0; m < TILES; m++) {
      matrix<T>::multiply(sums[m][j], a[m], b.two[0], b.two[1]);
      matrix<T>::multiply(sums[m][j + 1], a[m], b.two[2], b.two[3]);
    }
  }
}
// Sums begin with |bias|, that of the lane's eight filters.
template <int TILES> DEVICE void begin_chunk(f32 (*sums)[4][4], const f32* bias) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    float2 b = ((const float2*)bias)[j];
#pragma unroll
    for (int m = 0; m < TILES; m++) sums[m][j][0] = sums[m][j][2] = b.x, sums[m][j][1] = sums[m][j][3] = b.y;
  }
}
// The results of row |r| (0: g, 1: g + 8 of the tile) from its sums: eight filters. Halves are cut to the rounded
// ends, which is the same as to round what was cut.
template <class T> DEVICE eight finish_chunk(const f32 (*sums)[4], int r, int activation, f32 low, f32 high) {
  f32 v[8];
  eight y;
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] = sums[e >> 1][2 * r + (e & 1)];
  if (activation > CARNOT_CUDA_CLAMP) activate_eight(activation, low, high, v);
#pragma unroll
  for (int i = 0; i < 4; i++) y.two[i] = matrix<T>::pair(v[2 * i], v[2 * i + 1]);
  if (activation == CARNOT_CUDA_CLAMP) {
    u32 least = matrix<T>::pair(low, low), most = matrix<T>::pair(high, high);
#pragma unroll
    for (int i = 0; i < 4; i++) y.two[i] = matrix<T>::clamp(y.two[i], least, most);
  }
  return y;
}
// |count| halves as floats, zeros behind them up to |room|; all threads of the block.
template <class T> DEVICE void keep_bias(f32* to, const void* bias, int count, int room) {
  for (int i = threadIdx.x; i < room; i += blockDim.x) to[i] = bias && i < count ? get<T>(bias, i) : 0.f;
}

// The bits at |from|, 0 where nothing is; no branch, so that many are on the way at once.
DEVICE u32 bits_if(const f32* from, bool there) {
  u32 v;
  asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.b32 %0, [%1];}"
               : "=r"(v) : "l"(from), "r"((int)there));
  return v;
}
template <class T> DEVICE u32 bits_if(const T* from, bool there) {
  u16 v;
  asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\nmov.b16 %0, 0;\n@p ld.global.b16 %0, [%1];}"
               : "=h"(v) : "l"(from), "r"((int)there));
  return v;
}
// Two numbers of type X by their bits, as a pair of halves.
template <class T, class X> struct pair_of {
  static DEVICE_ONLY u32 bits(u32 a, u32 b) { return a | b << 16; }
};
template <class T> struct pair_of<T, f32> {
  static DEVICE_ONLY u32 bits(u32 a, u32 b) { return matrix<T>::pair(__uint_as_float(a), __uint_as_float(b)); }
};

// ---- first layers: up to four channels of any strides and type, kernels up to 8 QUADS columns wide ----

// A step is four columns of a kernel's line, four channels each. A block keeps the weights of CHUNKS chunks and
// walks over tiles of up to 128 results; the patch of x that a tile needs is brought into registers during the
// tile before, then into shared memory as halves.
template <class T, class X, int CHUNKS, int QUADS> struct first_layer {
  enum { TILES = 2, THREADS = CARNOT_CUDA_FIRST_THREADS, MOST = CARNOT_CUDA_FIRST_PATCH / THREADS };
  const carnot_cuda_first& p;
  char *weights, *patch;
  f32* bias;
  int lane, warp;
  u32 place[MOST];     // of this thread's pixels in the patch: row, column
  u32 pixel[MOST][4];  // of the next tile: the bits of its channels
  int from[TILES][2];  // of the rows' windows in the patch, in bytes
  u32 to[TILES][2];    // of the rows in the tile: row, column

  DEVICE_ONLY first_layer(const carnot_cuda_first& params) : p(params) {}

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    int steps = p.kernel[0] * QUADS, bytes = CHUNKS * steps * CHUNK_STEP;
    lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    weights = memory, bias = (f32*)(memory + bytes), patch = (char*)(bias + CHUNKS * 32);
    const char* w = (const char*)p.w + (i64)blockIdx.y * bytes;
    for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16) fetch(shared_address(weights + i), w + i, 16);
    fetch_commit();
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      u32 at = threadIdx.x + i * THREADS;
      place[i] = at / p.patch_columns << 16 | at % p.patch_columns;
    }
#pragma unroll
    for (int m = 0; m < TILES; m++)
      for (int r = 0; r < 2; r++) {
        u32 at = (warp * TILES + m) * 16 + r * 8 + (lane >> 2), row = at / p.tile_columns, column = at % p.tile_columns;
        bool inside = row < (u32)p.tile_rows;
        to[m][r] = inside ? row << 16 | column : ~0u;
        from[m][r] = inside ? ((int)row * p.step[0] * p.patch_columns + (int)column * p.step[1] + (lane & 3)) * 8 : 0;
      }
  }

  // The tile's image, and its first row and column of results.
  struct tile_at { int image, row, column; };
  DEVICE_ONLY tile_at find(int tile) {
    int line = tile / p.tiles_across, image = line / p.tiles_down;
    return {image, (line - image * p.tiles_down) * p.tile_rows, (tile - line * p.tiles_across) * p.tile_columns};
  }

  DEVICE_ONLY void read_patch(int tile) {
    tile_at at = find(tile);
    const X* x = (const X*)p.x + at.image * p.x_n;
    int y0 = at.row * p.step[0] - p.begin[0], x0 = at.column * p.step[1] - p.begin[1];
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      int row = y0 + (int)(place[i] >> 16), column = x0 + (int)(place[i] & 0xffff);
      bool inside = (u32)row < (u32)p.in_rows && (u32)column < (u32)p.in_columns && place[i] >> 16 < (u32)p.patch_rows;
      const X* from = x + (row * p.x_row + column * p.x_column);
#pragma unroll
      for (int c = 0; c < 4; c++) pixel[i][c] = bits_if(from + c * p.x_c, inside && c < p.channels);
    }
  }
  DEVICE_ONLY void keep_patch() {
#pragma unroll
    for (int i = 0; i < MOST; i++)
      if (place[i] >> 16 < (u32)p.patch_rows)
        ((four*)patch)[threadIdx.x + i * THREADS] = {
            {pair_of<T, X>::bits(pixel[i][0], pixel[i][1]), pair_of<T, X>::bits(pixel[i][2], pixel[i][3])}};
  }

  DEVICE_ONLY void multiply(f32 (*sums)[TILES][4][4]) {
    // What stands beside the window belongs to others: it may be infinite, and is left out. The compiler shall
    // see no condition, else it parts the warp in front of the products.
    u32 within = (QUADS - 1) * 4 + (lane & 3) < p.kernel[1] ? ~0u : 0;
    asm volatile("" : "+r"(within));
    int steps = p.kernel[0] * QUADS;
    for (int r = 0; r < p.kernel[0]; r++)
#pragma unroll
      for (int q = 0; q < QUADS; q++) {
        u32 a[TILES][4];
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            four v = *(const four*)(patch + from[m][h] + (r * p.patch_columns + q * 4) * 8);
            u32 mask = q == QUADS - 1 ? within : ~0u;
            a[m][h] = v.two[0] & mask, a[m][h + 2] = v.two[1] & mask;
          }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
          multiply_chunk<T, TILES>(sums[c], a, weights + (c * steps + r * QUADS + q) * CHUNK_STEP);
      }
  }

  DEVICE_ONLY void finish(int tile, f32 (*sums)[TILES][4][4]) {
    tile_at at = find(tile);
    eight* y = (eight*)p.y;
    int pieces = p.filters / 8, first = blockIdx.y * CHUNKS * 4 + (lane & 3);
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        int row = at.row + (int)(to[m][r] >> 16), column = at.column + (int)(to[m][r] & 0xffff);
        if (row >= p.out_rows || column >= p.out_columns) continue;
        i64 pixel = ((i64)at.image * p.out_rows + row) * p.out_columns + column;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
          if (first + c * 4 < pieces)
            y[pixel * pieces + first + c * 4] = finish_chunk<T>(sums[c][m], r, p.activation, p.low, p.high);
      }
  }

  DEVICE_ONLY void run() {
    start();
    wait_for_previous();
    int tile = blockIdx.x, filter = blockIdx.y * CHUNKS * 32;
    read_patch(tile);
    keep_bias<T>(bias, p.bias ? (const T*)p.bias + filter : nullptr, p.filters - filter, CHUNKS * 32);
    for (int next; tile < p.tiles; tile = next) {
      next = tile + gridDim.x;
      __syncthreads();
      keep_patch();
      fetch_wait<0>();
      __syncthreads();
      if (next < p.tiles) read_patch(next);
      f32 sums[CHUNKS][TILES][4][4];
#pragma unroll
      for (int c = 0; c < CHUNKS; c++) begin_chunk<TILES>(sums[c], bias + c * 32 + (lane & 3) * 8);
      multiply(sums);
      finish(tile, sums);
    }
  }
};
#define FIRST(T, X, CHUNKS, QUADS) first_layer<T, X, CHUNKS, QUADS>(p).run()

// ---- 1x1 convolutions of up to 32 BLOCKS channels ----

// A lane reads eight channels of each block of 32, two steps; a warp walks over tiles of 16 rows and has the next
// one's on the way.
template <class T, int BLOCKS> struct thin_layer {
  enum { THREADS = CARNOT_CUDA_THIN_THREADS, WARPS = THREADS / 32 };
  const carnot_cuda_thin& p;
  int lane;
  DEVICE_ONLY thin_layer(const carnot_cuda_thin& params) : p(params) {}

  // Piece |n| of eight in a row |r| (0: g, 1: g + 8) of a tile that has |pieces|; -1 beside them.
  DEVICE_ONLY i64 piece_of(int tile, int r, int n, int pieces) {
    int row = tile * 16 + r * 8 + (lane >> 2);
    return row < p.rows && n < pieces ? (i64)row * pieces + n : -1;
  }
  DEVICE_ONLY eight read_piece(const void* from, i64 at) {
    eight none = {};
    return at < 0 ? none : ((const eight*)from)[at];
  }
  DEVICE_ONLY void read(int tile, eight (*x)[BLOCKS]) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int b = 0; b < BLOCKS; b++)
        x[r][b] = read_piece(p.x, piece_of(tile, r, b * 4 + (lane & 3), p.channels / 8));
  }

  DEVICE_ONLY void chunk(int tile, int c, const eight (*x)[BLOCKS], const char* weights, const f32* bias) {
    i64 at[2];
    eight residual[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      at[r] = piece_of(tile, r, c * 4 + (lane & 3), p.filters / 8);
      if (p.residual) residual[r] = read_piece(p.residual, at[r]);
    }
    f32 sums[1][4][4];
    begin_chunk<1>(sums, bias);
#pragma unroll
    for (int s = 0; s < 2 * BLOCKS; s++) {
      u32 a[1][4];
#pragma unroll
      for (int i = 0; i < 4; i++) a[0][i] = x[i & 1][s >> 1].two[(s & 1) * 2 + (i >> 1)];
      multiply_chunk<T, 1>(sums, a, weights + s * CHUNK_STEP);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      if (p.residual)
#pragma unroll
        for (int e = 0; e < 8; e++) sums[0][e >> 1][2 * r + (e & 1)] += half_at<T>(residual[r], e);
      eight y = finish_chunk<T>(sums[0], r, p.activation, p.low, p.high);
      if (at[r] >= 0) ((eight*)p.y)[at[r]] = y;
    }
  }

  DEVICE_ONLY void run() {
    extern __shared__ char memory[];
    int chunks = (p.filters + 31) / 32, bytes = chunks * 2 * BLOCKS * CHUNK_STEP;
    lane = threadIdx.x & 31;
    for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16)
      fetch(shared_address(memory + i), (const char*)p.w + i, 16);
    fetch_commit();
    wait_for_previous();
    int tiles = (p.rows + 15) / 16, tile = blockIdx.x * WARPS + (threadIdx.x >> 5);
    eight x[2][BLOCKS], next[2][BLOCKS];
    read(tile, x);
    f32* bias = (f32*)(memory + bytes);
    keep_bias<T>(bias, p.bias, p.filters, chunks * 32);
    fetch_wait<0>();
    __syncthreads();
    for (; tile < tiles; tile += gridDim.x * WARPS) {
      read(tile + gridDim.x * WARPS, next);
      for (int c = 0; c < chunks; c++)
        chunk(tile, c, x, memory + c * 2 * BLOCKS * CHUNK_STEP, bias + c * 32 + (lane & 3) * 8);
#pragma unroll
      for (int i = 0; i < 2 * BLOCKS; i++) x[i & 1][i >> 1] = next[i & 1][i >> 1];
    }
  }
};
#define THIN(T, BLOCKS) thin_layer<T, BLOCKS>(p).run()
#else
#define FIRST(T, X, CHUNKS, QUADS) (void)p
#define THIN(T, BLOCKS) (void)p
#endif

#define FIRST_KERNEL(T, X, CHUNKS, QUADS)                                                                \
  extern "C" __global__ void __launch_bounds__(CARNOT_CUDA_FIRST_THREADS, CARNOT_CUDA_FIRST_BLOCKS(CHUNKS)) \
      first_##CHUNKS##_##QUADS##_##X##_##T(const __grid_constant__ carnot_cuda_first p) {                \
    FIRST(T, X, CHUNKS, QUADS);                                                                          \
  }
#define FIRST_KERNELS(T, X) \
  FIRST_KERNEL(T, X, 1, 1) FIRST_KERNEL(T, X, 1, 2) FIRST_KERNEL(T, X, 2, 1) FIRST_KERNEL(T, X, 2, 2)
FIRST_KERNELS(f16, f32) FIRST_KERNELS(f16, f16) FIRST_KERNELS(bf16, f32) FIRST_KERNELS(bf16, bf16)

#define THIN_KERNEL(T, BLOCKS, RESIDENT)                                                                 \
  extern "C" __global__ void __launch_bounds__(CARNOT_CUDA_THIN_THREADS, RESIDENT)                       \
      thin_##BLOCKS##_##T(const __grid_constant__ carnot_cuda_thin p) { THIN(T, BLOCKS); }
#define THIN_KERNELS(BLOCKS, RESIDENT) THIN_KERNEL(f16, BLOCKS, RESIDENT) THIN_KERNEL(bf16, BLOCKS, RESIDENT)
CARNOT_CUDA_THINS(THIN_KERNELS)
