// DFT and STFT by definition, in float64 (generic kernel): one thread per bin.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/dft/dft_params.h"

// Real and imaginary part of element |n| of a sequence: 0 beyond its end; in a one-sided
// spectrum the conjugate of the mirrored element.
DEVICE void spectrum_at(const carnot_cuda_dft_params& p, i64 start, i64 n, f64* re, f64* im) {
  bool mirrored = p.to_real && n > p.n / 2;
  i64 k = mirrored ? p.n - n : n, at = (start + k * p.inner) * p.parts;
  *re = *im = 0;
  if (k >= p.length) return;
  *re = real_of(p.io.in_type[0], p.io.in[0], at);
  bool is_real_alone = p.to_real && (k == 0 || 2 * k == p.n);
  if (p.parts == 2 && !is_real_alone) *im = real_of(p.io.in_type[0], p.io.in[0], at + 1);
  if (mirrored) *im = -*im;
  f64 w = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], n) : 1;
  *re *= w, *im *= w;
}

DEVICE void dft(const carnot_cuda_dft_params& p, i64 item) {
  i64 at = item % p.inner, bin = item / p.inner % p.bins, outer = item / p.inner / p.bins;
  i64 start = (outer / p.frames * p.length + outer % p.frames * p.frame_step) * p.inner + at;
  const f64 turn = 2 * 3.14159265358979323846 / (f64)p.n;
  f64 re = 0, im = 0;
  for (i64 n = 0; n < p.n; n++) {
    f64 a, b, angle = turn * (f64)(bin * n % p.n), c = cos(angle),
              s = p.inverse ? sin(angle) : -sin(angle);
    spectrum_at(p, start, n, &a, &b);
    re += a * c - b * s;
    im += a * s + b * c;
  }
  f64 scale = p.inverse ? 1 / (f64)p.n : 1;
  i64 to = item * (p.to_real ? 1 : 2);
  store_any(p.io.out_type[0], p.io.out[0], to, re * scale);
  if (!p.to_real) store_any(p.io.out_type[0], p.io.out[0], to + 1, im * scale);
}
