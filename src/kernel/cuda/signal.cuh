// Fourier transforms by their definition, determinants, losses and normalization of any types, in float64.

// Real and imaginary part of element |n| of a lane; those behind its end are 0, those of a one-sided
// spectrum the conjugates of their mirror images.
DEVICE void spectrum_at(const carnot_cuda_dft& p, i64 start, i64 n, f64* re, f64* im) {
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

DEVICE void dft(const carnot_cuda_dft& p, i64 item) {
  i64 at = item % p.inner, bin = item / p.inner % p.bins, outer = item / p.inner / p.bins;
  i64 start = (outer / p.frames * p.length + outer % p.frames * p.frame_step) * p.inner + at;
  const f64 turn = 2 * 3.14159265358979323846 / (f64)p.n;
  f64 re = 0, im = 0;
  for (i64 n = 0; n < p.n; n++) {
    f64 a, b, angle = turn * (f64)(bin * n % p.n), c = cos(angle), s = p.inverse ? sin(angle) : -sin(angle);
    spectrum_at(p, start, n, &a, &b);
    re += a * c - b * s;
    im += a * s + b * c;
  }
  f64 scale = p.inverse ? 1 / (f64)p.n : 1;
  i64 to = item * (p.to_real ? 1 : 2);
  any_store(p.io.out_type[0], p.io.out[0], to, re * scale);
  if (!p.to_real) any_store(p.io.out_type[0], p.io.out[0], to + 1, im * scale);
}

// By elimination with row exchange; one thread a matrix, in its part of the scratch.
DEVICE void determinant(const carnot_cuda_lanes& p, i64 item) {
  i64 n = p.length;
  f64 *a = (f64*)p.io.scratch + item * n * n, det = 1;
  for (i64 i = 0; i < n * n; i++) a[i] = real_of(p.io.in_type[0], p.io.in[0], item * n * n + i);
  for (i64 i = 0; i < n && det != 0; i++) {
    i64 pivot = i;
    for (i64 k = i + 1; k < n; k++)
      if (fabs(a[k * n + i]) > fabs(a[pivot * n + i])) pivot = k;
    if (pivot != i) det = -det;
    for (i64 j = 0; pivot != i && j < n; j++) {
      f64 t = a[i * n + j];
      a[i * n + j] = a[pivot * n + j];
      a[pivot * n + j] = t;
    }
    det *= a[i * n + i];
    for (i64 k = i + 1; k < n; k++) {
      f64 factor = a[k * n + i] / a[i * n + i];
      for (i64 j = i + 1; j < n; j++) a[k * n + j] -= factor * a[i * n + j];
    }
  }
  any_store(p.io.out_type[0], p.io.out[0], item, det);
}

// What is taken from the scores of place |i| to have their logarithmic softmax; |lane|: where they begin.
DEVICE f64 log_total(const carnot_cuda_loss& p, i64 lane) {
  f64 top = ends<f64>::low(), sum = 0;
  for (i64 c = 0; c < p.classes; c++) top = hi(real_of(p.io.in_type[0], p.io.in[0], lane + c * p.size), top);
  for (i64 c = 0; c < p.classes; c++) sum += exp(real_of(p.io.in_type[0], p.io.in[0], lane + c * p.size) - top);
  return top + log(sum);
}

// One block. Targets outside the classes count nothing, as does the one that is ignored.
DEVICE void loss(const carnot_cuda_loss& p, i64) {
  const carnot_cuda_io& io = p.io;
  f64 sum = 0, weights = 0;
  for (i64 i = threadIdx.x; i < p.places; i += blockDim.x) {
    i64 target = whole_of(io.in_type[1], io.in[1], i), lane = i / p.size * p.classes * p.size + i % p.size;
    f64 less = p.softmax ? log_total(p, lane) : 0, here = 0;
    bool counts = target >= 0 && target < p.classes && !(p.ignores && target == p.ignored);
    f64 weight = !counts ? 0 : io.in[2] ? real_of(io.in_type[2], io.in[2], target) : 1;
    if (counts) here = -weight * (real_of(io.in_type[0], io.in[0], lane + target * p.size) - less);
    for (i64 c = 0; io.out[1] && c < p.classes; c++)
      any_store(io.out_type[1], io.out[1], lane + c * p.size, real_of(io.in_type[0], io.in[0], lane + c * p.size) - less);
    if (p.none && io.out[0]) any_store(io.out_type[0], io.out[0], i, here);
    sum += here;
    weights += weight;
  }
  sum = over_block<add_of<f64>, f64>(sum, 0);
  weights = over_block<add_of<f64>, f64>(weights, 0);
  if (threadIdx.x == 0 && !p.none && io.out[0]) any_store(io.out_type[0], io.out[0], 0, p.mean ? sum / weights : sum);
}

// Where element |n| of channel |c| stands, counted over all images.
DEVICE i64 of_channel(const carnot_cuda_statistics& p, i64 c, i64 n) {
  return (n / p.size * p.channels + c) * p.size + n % p.size;
}
// One block a channel; mean and variance are those of the batch, or given.
DEVICE void batch_norm_plain(const carnot_cuda_statistics& p, i64 c) {
  const carnot_cuda_io& io = p.io;
  f64 sum = 0, square = 0;
  i64 count = p.images * p.size;
  for (i64 n = threadIdx.x; n < count; n += blockDim.x) sum += real_of(io.in_type[0], io.in[0], of_channel(p, c, n));
  f64 mean = over_block<add_of<f64>, f64>(sum, 0) / (f64)count;
  for (i64 n = threadIdx.x; n < count; n += blockDim.x) {
    f64 d = real_of(io.in_type[0], io.in[0], of_channel(p, c, n)) - mean;
    square += d * d;
  }
  f64 var = over_block<add_of<f64>, f64>(square, 0) / (f64)count;
  if (p.given) mean = real_of(io.in_type[3], io.in[3], c), var = real_of(io.in_type[4], io.in[4], c);
  f64 factor = real_of(io.in_type[1], io.in[1], c) / sqrt(var + p.epsilon), bias = real_of(io.in_type[2], io.in[2], c);
  for (i64 n = threadIdx.x; n < count; n += blockDim.x) {
    i64 i = of_channel(p, c, n);
    any_store(io.out_type[0], io.out[0], i, (real_of(io.in_type[0], io.in[0], i) - mean) * factor + bias);
  }
  for (int k = 1; k < 3; k++)
    if (threadIdx.x == 0 && io.out[k] && !p.given)
      any_store(io.out_type[k], io.out[k], c,
                real_of(io.in_type[k + 2], io.in[k + 2], c) * p.momentum + (k == 1 ? mean : var) * (1 - p.momentum));
}

DEVICE void norm_plain(const carnot_cuda_any_norm& p, i64 group) {
  const carnot_cuda_io& io = p.io;
  i64 base = group * p.size;
  f64 sum = 0, square = 0;
  for (i64 i = threadIdx.x; i < p.size; i += blockDim.x) sum += real_of(io.in_type[0], io.in[0], base + i);
  f64 mean = over_block<add_of<f64>, f64>(sum, 0) / (f64)p.size;
  if (p.rms) mean = 0;
  for (i64 i = threadIdx.x; i < p.size; i += blockDim.x) {
    f64 d = real_of(io.in_type[0], io.in[0], base + i) - mean;
    square += d * d;
  }
  f64 inverse = 1 / sqrt(over_block<add_of<f64>, f64>(square, 0) / (f64)p.size + p.epsilon);
  for (i64 i = base + threadIdx.x; i < base + p.size; i += blockDim.x) {
    i64 rest = i, channel = i / p.spatial % p.channels, scale = 0, bias = 0;
    for (int d = p.rank - 1; d >= 0; d--) {
      scale += rest % p.dims[d] * p.scale_s[d], bias += rest % p.dims[d] * p.bias_s[d];
      rest /= p.dims[d];
    }
    if (!p.per_element) scale = bias = channel;
    f64 v = (real_of(io.in_type[0], io.in[0], i) - mean) * inverse;
    if (io.in[1]) v *= real_of(io.in_type[1], io.in[1], scale);
    if (io.in[2]) v += real_of(io.in_type[2], io.in[2], bias);
    any_store(io.out_type[0], io.out[0], i, v);
  }
  if (threadIdx.x == 0 && io.out[1]) any_store(io.out_type[1], io.out[1], group, mean);
  if (threadIdx.x == 0 && io.out[2]) any_store(io.out_type[2], io.out[2], group, inverse);
}

ANY_BLOCK(norm_plain, carnot_cuda_any_norm)
ANY(dft, carnot_cuda_dft)
ANY(determinant, carnot_cuda_lanes)
ANY_BLOCK(loss, carnot_cuda_loss)
ANY_BLOCK(batch_norm_plain, carnot_cuda_statistics)
