// Layers that read images at regions and places of their own: regions of interest, deformable
// convolution, columns back to images, unpooling, affine grids. The formulas are those of ops/roi.c,
// deform_conv.c, col2im.c, unpool.c and grid_sample.c.

DEVICE i64 position(f64 v) { return (i64)fmin(fmax(v, -1e15), 1e15); }
DEVICE i64 bounded(i64 v, i64 low, i64 high) { return v < low ? low : v > high ? high : v; }

// The two neighbours of a coordinate and how far it lies toward the second; false outside of the map.
DEVICE bool neighbours(f64 at, i64 size, i64* low, i64* high, f64* part) {
  if (!(at >= -1 && at <= (f64)size)) return false;
  at = fmax(at, 0.0);
  *low = (i64)at;
  *high = *low + 1;
  if (*low >= size - 1) *low = *high = size - 1, at = (f64)*low;
  *part = at - (f64)*low;
  return true;
}

// The four weighted neighbours of a point, summed or the largest.
DEVICE f64 roi_point(const carnot_cuda_roi& p, i64 plane, f64 y, f64 x) {
  i64 y0, y1, x0, x1;
  f64 fy, fx;
  if (!neighbours(y, p.height, &y0, &y1, &fy) || !neighbours(x, p.width, &x0, &x1, &fx)) return 0;
  const void* in = p.io.in[0];
  int type = p.io.in_type[0];
  f64 a = (1 - fy) * (1 - fx) * real_of(type, in, plane + y0 * p.width + x0);
  f64 b = (1 - fy) * fx * real_of(type, in, plane + y0 * p.width + x1);
  f64 c = fy * (1 - fx) * real_of(type, in, plane + y1 * p.width + x0);
  f64 d = fy * fx * real_of(type, in, plane + y1 * p.width + x1);
  return p.mean ? a + b + c + d : hi(d, hi(c, hi(b, a)));
}

// Points along one side of a cell.
DEVICE i64 points_across(const carnot_cuda_roi& p, f64 cell) {
  return bounded(p.sampling > 0 ? p.sampling : position(ceil(cell)), 0, 1 << 15);
}

DEVICE f64 roi_number(const carnot_cuda_roi& p, i64 i) { return real_of(p.io.in_type[1], p.io.in[1], i); }

DEVICE void roi_align(const carnot_cuda_roi& p, i64 item) {
  i64 j = item % p.columns, i = item / p.columns % p.rows, part = item / p.columns / p.rows, region = part / p.channels;
  i64 image = whole_of(p.io.in_type[2], p.io.in[2], region);
  i64 plane = (image * p.channels + part % p.channels) * p.height * p.width;
  f64 left = roi_number(p, region * 4) * p.scale - p.shift, top = roi_number(p, region * 4 + 1) * p.scale - p.shift;
  f64 wide = roi_number(p, region * 4 + 2) * p.scale - p.shift - left;
  f64 tall = roi_number(p, region * 4 + 3) * p.scale - p.shift - top;
  if (p.shift == 0) wide = fmax(wide, 1.0), tall = fmax(tall, 1.0);
  f64 cell_h = tall / (f64)p.rows, cell_w = wide / (f64)p.columns, sum = 0, best = 0;
  i64 down = points_across(p, cell_h), across = points_across(p, cell_w), points = down * across;
  if (image < 0 || image >= p.images) points = 0;
  for (i64 k = 0; k < points; k++) {
    f64 y = top + (f64)i * cell_h + ((f64)(k / across) + 0.5) * cell_h / (f64)down;
    f64 x = left + (f64)j * cell_w + ((f64)(k % across) + 0.5) * cell_w / (f64)across;
    f64 v = roi_point(p, plane, y, x);
    sum += v;
    best = k ? hi(v, best) : v;
  }
  any_store(p.io.out_type[0], p.io.out[0], item, p.mean ? sum / (f64)(points ? points : 1) : best);
}

// Where cell |i| of |cells| begins and ends along a dimension of |size|.
DEVICE void cell_range(f64 first, f64 last, i64 i, i64 cells, i64 size, i64* from, i64* to) {
  i64 start = position(round(first)), length = position(round(last)) - start + 1;
  f64 each = (f64)(length < 1 ? 1 : length) / (f64)cells;
  *from = bounded(start + position(floor((f64)i * each)), 0, size);
  *to = bounded(start + position(ceil((f64)(i + 1) * each)), 0, size);
}

DEVICE void max_roi_pool(const carnot_cuda_roi& p, i64 item) {
  i64 j = item % p.columns, i = item / p.columns % p.rows, part = item / p.columns / p.rows;
  i64 at = part / p.channels * 5, image = position(roi_number(p, at)), y0, y1, x0, x1;
  i64 plane = (image * p.channels + part % p.channels) * p.height * p.width;
  cell_range(roi_number(p, at + 2) * p.scale, roi_number(p, at + 4) * p.scale, i, p.rows, p.height, &y0, &y1);
  cell_range(roi_number(p, at + 1) * p.scale, roi_number(p, at + 3) * p.scale, j, p.columns, p.width, &x0, &x1);
  bool none = image < 0 || image >= p.images || y0 >= y1 || x0 >= x1;
  f64 best = none ? 0 : ends<f64>::low();
  for (i64 y = y0; !none && y < y1; y++)
    for (i64 x = x0; x < x1; x++) best = hi(real_of(p.io.in_type[0], p.io.in[0], plane + y * p.width + x), best);
  any_store(p.io.out_type[0], p.io.out[0], item, best);
}

// x at |at| by linear interpolation between its neighbours; 0 outside.
DEVICE f64 sample_linear(const carnot_cuda_io& io, i64 plane, const i64* in, const f64* at) {
  f64 sum = 0;
  for (int corner = 0; corner < 8; corner++) {
    f64 weight = 1;
    i64 offset = 0;
    for (int d = 0; d < 3 && weight != 0; d++) {
      f64 low = floor(at[d]), part = at[d] - low, i = low + (f64)(corner >> d & 1);
      weight *= corner >> d & 1 ? part : 1 - part;
      if (!(i >= 0 && i < (f64)in[d])) weight = 0;
      if (weight != 0) offset = offset * in[d] + (i64)i;
    }
    if (weight != 0) sum += weight * real_of(io.in_type[0], io.in[0], plane + offset);
  }
  return sum;
}

DEVICE void deform_conv(const carnot_cuda_deform& p, i64 item) {
  const carnot_cuda_io& io = p.io;
  i64 size = p.out[0] * p.out[1] * p.out[2], pixel = item % size, m = item / size % p.filters, n = item / size / p.filters;
  i64 taps = p.kernel[0] * p.kernel[1] * p.kernel[2], channels = p.channels / p.groups, o[3], rest = pixel;
  for (int d = 2; d >= 0; d--) o[d] = rest % p.out[d] * p.step[d] - p.begin[d], rest /= p.out[d];
  f64 sum = io.in[3] ? real_of(io.in_type[3], io.in[3], m) : 0;
  for (i64 k = 0; k < channels * taps; k++) {
    i64 c = m / (p.filters / p.groups) * channels + k / taps, left = k % taps;
    i64 place = (n * p.offset_groups + c / (p.channels / p.offset_groups)) * taps + left;
    f64 at[3];
    for (int d = 2; d >= 0; d--) {
      int axis = d - (3 - p.rank);
      at[d] = (f64)(o[d] + left % p.kernel[d] * p.dilation[d]);
      if (axis >= 0) at[d] += real_of(io.in_type[2], io.in[2], (place * p.rank + axis) * size + pixel);
      left /= p.kernel[d];
    }
    f64 v = sample_linear(io, (n * p.channels + c) * p.in[0] * p.in[1] * p.in[2], p.in, at);
    if (io.in[4]) v *= real_of(io.in_type[4], io.in[4], place * size + pixel);
    sum += v * real_of(io.in_type[1], io.in[1], m * channels * taps + k);
  }
  any_store(io.out_type[0], io.out[0], item, sum);
}

// |out|: places of blocks, |in|: the image, over which items run.
DEVICE void col2im(const carnot_cuda_deform& p, i64 item) {
  i64 taps = p.kernel[0] * p.kernel[1] * p.kernel[2], places = p.out[0] * p.out[1] * p.out[2], o[3], rest = item;
  for (int d = 2; d >= 0; d--) o[d] = rest % p.in[d] + p.begin[d], rest /= p.in[d];
  f64 sum = 0;
  for (i64 tap = 0; tap < taps; tap++) {
    i64 at = place_under(p, p.out, o, tap);
    if (at >= 0) sum += real_of(p.io.in_type[0], p.io.in[0], (rest * taps + tap) * places + at);
  }
  any_store(p.io.out_type[0], p.io.out[0], item, sum);
}

// One thread a plane, so that equal places keep their order; what no index names is zero before.
DEVICE void max_unpool(const carnot_cuda_unpool& p, i64 item) {
  for (i64 i = item * p.size; i < (item + 1) * p.size; i++) {
    i64 index = whole_of(p.io.in_type[1], p.io.in[1], i), rest = index, to = 0, stride = 1;
    bool inside = index >= 0;
    for (int d = p.rank - 1; d >= 0; d--) {
      i64 here = rest % p.inner[d];
      rest /= p.inner[d];
      inside = inside && here < p.dims[d];
      to += here * stride;
      stride *= p.dims[d];
    }
    if (inside && rest == 0) move(p.io.bytes, p.io.out[0], to, p.io.in[0], i);
  }
}

DEVICE void affine_grid(const carnot_cuda_deform& p, i64 item) {
  i64 j = item % p.rank, rest = item / p.rank;
  f64 v[4] = {0, 0, 0, 0};
  for (int d = 2; d >= 3 - p.rank; d--) {  // the last dimension is the first coordinate
    f64 size = (f64)p.out[d], at = (f64)(rest % p.out[d]);
    rest /= p.out[d];
    v[2 - d] = p.align_corners ? (size > 1 ? 2 * at / (size - 1) - 1 : 0) : (2 * at + 1) / size - 1;
  }
  v[p.rank] = 1;
  f64 sum = 0;
  for (int k = 0; k <= p.rank; k++)
    sum += real_of(p.io.in_type[0], p.io.in[0], (rest * p.rank + j) * (p.rank + 1) + k) * v[k];
  any_store(p.io.out_type[0], p.io.out[0], item, sum);
}

ANY(roi_align, carnot_cuda_roi)
ANY(max_roi_pool, carnot_cuda_roi)
ANY(deform_conv, carnot_cuda_deform)
ANY(col2im, carnot_cuda_deform)
ANY(max_unpool, carnot_cuda_unpool)
ANY(affine_grid, carnot_cuda_deform)
