// Kernels that move elements without looking at them.

template <class T> DEVICE void copy(const carnot_cuda_copy& p) {
  i64 i = THREAD, from, to;
  if (i >= p.count) return;
  if (p.count < 0x7fffffff)
    offsets<u32>((u32)i, p.rank, p.dims, p.src, p.dst, &from, &to);
  else
    offsets<u64>((u64)i, p.rank, p.dims, p.src, p.dst, &from, &to);
  ((T*)p.y)[to] = ((const T*)p.x)[from];
}

// Tiles of 32x32 through shared memory: dims [batch, rows, columns], x dense along rows, y along
// columns (its last two axes are swapped). src and dst hold the strides of all three.
template <class T> DEVICE void transpose(const carnot_cuda_copy& p) {
  __shared__ T tile[32][33];
  i64 row0 = blockIdx.y * 32ll, column0 = blockIdx.x * 32ll;
  const T* x = (const T*)p.x + blockIdx.z * p.src[0];
  T* y = (T*)p.y + blockIdx.z * p.dst[0];
  for (int k = threadIdx.y; k < 32; k += 8) {
    i64 row = row0 + threadIdx.x, column = column0 + k;
    if (row < p.dims[1] && column < p.dims[2]) tile[k][threadIdx.x] = x[row + column * p.src[2]];
  }
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += 8) {
    i64 row = row0 + k, column = column0 + threadIdx.x;
    if (row < p.dims[1] && column < p.dims[2]) y[row * p.dst[1] + column] = tile[threadIdx.x][k];
  }
}

template <class T> DEVICE void pad(const carnot_cuda_pad& p) {
  i64 i = THREAD, at = i, from = 0;
  if (i >= p.count) return;
  bool inside = true;
  for (int d = p.rank - 1; d >= 0; d--) {
    i64 k = at % p.dims[d] - p.begin[d], n = p.size[d];
    at /= p.dims[d];
    bool out = k < 0 || k >= n;
    inside = inside && (!out || p.mode);
    if (out && p.mode == 1) k = k < 0 ? 0 : n - 1;
    if (out && p.mode == 2 && n > 1) {
      i64 period = 2 * (n - 1);
      k = ((k % period) + period) % period;
      if (k >= n) k = period - k;
    }
    if (out && p.mode == 3) k = ((k % n) + n) % n;
    if (out && p.mode == 2 && n == 1) k = 0;
    from += k * p.src[d];
  }
  T* y = (T*)p.y + i;
  if (inside)
    *y = ((const T*)p.x)[from];
  else
    *y = p.value ? *(const T*)p.value : (T)0;
}

template <class T> struct zero_of { static DEVICE_ONLY T value() { return (T)0; } };
template <> struct zero_of<uint4> { static DEVICE_ONLY uint4 value() { return make_uint4(0, 0, 0, 0); } };

template <class T> DEVICE void gather(const carnot_cuda_gather& p) {
  i64 i = THREAD;
  if (i >= p.outer * p.count * p.inner) return;
  i64 n = i % p.inner, at = i / p.inner, k = at % p.count, o = at / p.count;
  i64 index = p.index_bytes == 8 ? ((const i64*)p.index)[k] : ((const i32*)p.index)[k];
  if (index < 0) index += p.size;
  bool inside = index >= 0 && index < p.size;
  ((T*)p.y)[i] = inside ? ((const T*)p.x)[(o * p.size + index) * p.inner + n] : zero_of<T>::value();
}

#define MOVES(T, name)                                                                       \
  extern "C" __global__ void copy_##name(carnot_cuda_copy p) { copy<T>(p); }                 \
  extern "C" __global__ void transpose_##name(carnot_cuda_copy p) { transpose<T>(p); }       \
  extern "C" __global__ void gather_##name(carnot_cuda_gather p) { gather<T>(p); }
MOVES(u8, 1) MOVES(u16, 2) MOVES(u32, 4) MOVES(u64, 8) MOVES(uint4, 16)
#define PADS(T, name) extern "C" __global__ void pad_##name(carnot_cuda_pad p) { pad<T>(p); }
PADS(u8, 1) PADS(u16, 2) PADS(u32, 4) PADS(u64, 8)
