// Max, average and Lp pooling over any strides: one thread per output element.
#pragma once

#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/common/sliding_window.cuh"

template <class A>
DEVICE A power_of(A v, int power) {
  return (A)m_pow(m_fabs(v), (A)power);
}
template <class A>
DEVICE A root_of(A v, int power) {
  return (A)m_pow(v, 1 / (A)power);
}
DEVICE i32 power_of(i32 v, int) { return v; }
DEVICE i32 root_of(i32 v, int) { return v; }

template <class T>
DEVICE void pool(const carnot_cuda_sliding_window& p) {
  typedef ACCUMULATOR A;
  window_position at;
  if (!locate(p, THREAD, &at)) return;
  const T* x = (const T*)p.x + at.n * p.x_n + at.c * p.x_c;
  A most = lowest<A>(), sum = 0;
  i64 inside = 0, padded = 1, best = -1;
  for (int d = 0; d < 3; d++) {
    // A window that ceil_mode adds may reach past the padding: elements there do not count.
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
        if (p.indices && (best < 0 || v > most || (NAN_T(v) && !NAN_T(most))))
          best = p.column_major ? (i2 * p.in[1] + i1) * p.in[0] + i0
                                : (i0 * p.in[1] + i1) * p.in[2] + i2;
        most = hi(v, most);
        sum += p.power ? power_of(v, p.power) : v;
        inside++;
      }
    }
  }
  if (p.power)
    sum = root_of(sum, p.power);
  else if (p.average)
    sum /= (A)(p.count_padding ? padded : inside);
  put<T>(p.y, target(p, at), p.average || p.power ? sum : most);
  if (p.indices)
    p.indices[target(p, at)] =
        (at.n * p.channels + at.c) * p.in[0] * p.in[1] * p.in[2] + (best < 0 ? 0 : best);
}
