// Sliding windows: pooling and direct convolution, over any strides; one thread an output element,
// neighbours along the dense axis of y.

struct spot {
  i64 n, c, s[3];
};
DEVICE bool locate(const carnot_cuda_window& p, i64 i, spot* at) {
  i64 total = p.n * p.filters * p.out[0] * p.out[1] * p.out[2];
  if (i >= total) return false;
  bool channels_last = p.y_c == 1 && p.filters > 1;
  if (channels_last) at->c = i % p.filters, i /= p.filters;
  for (int d = 2; d >= 0; d--) at->s[d] = i % p.out[d], i /= p.out[d];
  if (!channels_last) at->c = i % p.filters, i /= p.filters;
  at->n = i;
  return true;
}
DEVICE i64 target(const carnot_cuda_window& p, const spot& at) {
  return at.n * p.y_n + at.c * p.y_c + at.s[0] * p.y_s[0] + at.s[1] * p.y_s[1] + at.s[2] * p.y_s[2];
}

template <class A> DEVICE A power_of(A v, int power) { return (A)m_pow(m_fabs(v), (A)power); }
template <class A> DEVICE A root_of(A v, int power) { return (A)m_pow(v, 1 / (A)power); }
DEVICE i32 power_of(i32 v, int) { return v; }
DEVICE i32 root_of(i32 v, int) { return v; }

template <class T> DEVICE void pool(const carnot_cuda_window& p) {
  typedef SUM A;
  spot at;
  if (!locate(p, THREAD, &at)) return;
  const T* x = (const T*)p.x + at.n * p.x_n + at.c * p.x_c;
  A most = lowest<A>(), sum = 0;
  i64 inside = 0, padded = 1, best = -1;
  for (int d = 0; d < 3; d++) {
    // A window that ceil_mode adds may reach past the padding: what lies there does not count.
    i64 first = at.s[d] * p.step[d] - p.begin[d], last = p.in[d] + p.end[d], n = 0;
    for (i64 k = 0; k < p.kernel[d]; k++) n += first + k * p.dilation[d] < last;
    padded *= n;
  }
  for (i64 a = 0; a < p.kernel[0]; a++) {
    i64 i0 = at.s[0] * p.step[0] + a * p.dilation[0] - p.begin[0];
    if (i0 < 0 || i0 >= p.in[0]) continue;
    for (i64 b = 0; b < p.kernel[1]; b++) {
      i64 i1 = at.s[1] * p.step[1] + b * p.dilation[1] - p.begin[1];
      if (i1 < 0 || i1 >= p.in[1]) continue;
      for (i64 c = 0; c < p.kernel[2]; c++) {
        i64 i2 = at.s[2] * p.step[2] + c * p.dilation[2] - p.begin[2];
        if (i2 < 0 || i2 >= p.in[2]) continue;
        A v = load(x[i0 * p.x_s[0] + i1 * p.x_s[1] + i2 * p.x_s[2]]);
        if (p.places && (best < 0 || v > most || (NAN_T(v) && !NAN_T(most))))
          best = p.column_major ? (i2 * p.in[1] + i1) * p.in[0] + i0 : (i0 * p.in[1] + i1) * p.in[2] + i2;
        most = hi(v, most);
        sum += p.power ? power_of(v, p.power) : v;
        inside++;
      }
    }
  }
  if (p.power) sum = root_of(sum, p.power);
  else if (p.average) sum /= (A)(p.count_padding ? padded : inside);
  put<T>(p.y, target(p, at), p.average || p.power ? sum : most);
  if (p.places)
    p.places[target(p, at)] = (at.n * p.channels + at.c) * p.in[0] * p.in[1] * p.in[2] + (best < 0 ? 0 : best);
}

// Weights [filters, channels / groups, kernel…], dense.
template <class T> DEVICE void conv(const carnot_cuda_window& p) {
  spot at;
  if (!locate(p, THREAD, &at)) return;
  i64 per_group = p.channels / p.groups, group = at.c / (p.filters / p.groups);
  i64 taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  const T* x = (const T*)p.x + at.n * p.x_n + group * per_group * p.x_c;
  const T* w = (const T*)p.w + at.c * per_group * taps;
  SUM sum = p.bias ? get<T>(p.bias, at.c) : 0;
  for (i64 a = 0; a < p.kernel[0]; a++) {
    i64 i0 = at.s[0] * p.step[0] + a * p.dilation[0] - p.begin[0];
    if (i0 < 0 || i0 >= p.in[0]) continue;
    for (i64 b = 0; b < p.kernel[1]; b++) {
      i64 i1 = at.s[1] * p.step[1] + b * p.dilation[1] - p.begin[1];
      if (i1 < 0 || i1 >= p.in[1]) continue;
      for (i64 c = 0; c < p.kernel[2]; c++) {
        i64 i2 = at.s[2] * p.step[2] + c * p.dilation[2] - p.begin[2];
        if (i2 < 0 || i2 >= p.in[2]) continue;
        const T* px = x + i0 * p.x_s[0] + i1 * p.x_s[1] + i2 * p.x_s[2];
        const T* pw = w + (a * p.kernel[1] + b) * p.kernel[2] + c;
        for (i64 k = 0; k < per_group; k++) sum = multiply_add((SUM)load(px[k * p.x_c]), (SUM)load(pw[k * taps]), sum);
      }
    }
  }
  put<T>(p.y, target(p, at), sum);
}

// float32 of any strides to halves channels last; one thread a pixel.
template <class T> DEVICE void narrow(const carnot_cuda_narrow& p) {
  i64 i = THREAD, from, none;
  if (i >= p.count) return;
  offsets<u64>((u64)i, p.rank, p.dims, p.src, p.src, &from, &none);
  for (i64 c = 0; c < p.channels; c++) put<T>(p.y, i * p.channels + c, ((const f32*)p.x)[from + c * p.x_c]);
}
extern "C" __global__ void narrow_f16(carnot_cuda_narrow p) { wait_for_previous(); narrow<f16>(p); }
extern "C" __global__ void narrow_bf16(carnot_cuda_narrow p) { wait_for_previous(); narrow<bf16>(p); }

#define POOLS(T, name) extern "C" __global__ void pool_##name(carnot_cuda_window p) { wait_for_previous(); pool<T>(p); }
#define CONVS(T, name) extern "C" __global__ void conv_##name(carnot_cuda_window p) { wait_for_previous(); conv<T>(p); }
EACH_REAL(POOLS) POOLS(i8, i8) POOLS(u8, u8)
EACH_REAL(CONVS)
