// Kernels that weigh elements of their surroundings: resize, transposed convolution,
// sums of products over named dimensions, samples at given places.

enum { HALF_PIXEL, PYTORCH_HALF_PIXEL, ASYMMETRIC, ALIGN_CORNERS, HALF_PIXEL_SYMMETRIC, CROP };
enum { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, FLOOR, CEIL };

// As carnot_resize_place.
DEVICE f64 resize_place(const carnot_cuda_resize& p, int d, i64 o, bool* outside) {
  f64 at = (f64)o, in = (f64)p.in[d], scale = p.scale[d], width = scale * in;
  *outside = false;
  if (p.place == ASYMMETRIC) return at / scale;
  if (p.place == ALIGN_CORNERS) return width == 1 ? 0 : at * (in - 1) / (width - 1);
  if (p.place == CROP) {
    f64 size = p.roi_end[d] - p.roi_start[d];
    f64 place = width == 1 ? size * (in - 1) / 2 : at * size * (in - 1) / (width - 1);
    place += p.roi_start[d] * (in - 1);
    *outside = place < 0 || place > in - 1;
    return place;
  }
  if (p.place == PYTORCH_HALF_PIXEL && p.out[d] <= 1) return 0;
  f64 half = (at + 0.5) / scale - 0.5;
  return p.place == HALF_PIXEL_SYMMETRIC ? half + in / 2 * (1 - (f64)p.out[d] / width) : half;
}

DEVICE f64 resize_weight(const carnot_cuda_resize& p, f64 distance) {
  f64 d = fabs(distance), a = p.coefficient;
  if (!p.cubic) return d < 1 ? 1 - d : 0;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// The taps of one output element along one axis.
struct taps {
  i64 first, count;
  f64 at, shrink, total;
};

DEVICE taps taps_of(const carnot_cuda_resize& p, int d, i64 o, bool* outside) {
  taps t = {o, 1, 0, 1, 1};
  *outside = false;
  bool whole = p.roi_start[d] == 0 && p.roi_end[d] == 1;
  if (p.scale[d] == 1 && p.in[d] == p.out[d] && whole) return t;
  f64 at = fmin(fmax(resize_place(p, d, o, outside), -1e15), 1e15);
  t.at = at;
  if (!p.radius) {
    f64 low = floor(at), part = at - low;
    bool up = part != 0 && (p.nearest == CEIL || (p.nearest == ROUND_PREFER_FLOOR && part > 0.5) ||
                            (p.nearest == ROUND_PREFER_CEIL && part >= 0.5));
    t.first = (i64)low + up;
    return t;
  }
  t.shrink = p.antialias && p.scale[d] < 1 ? p.scale[d] : 1;
  i64 radius = (i64)ceil((f64)p.radius / t.shrink);
  t.first = (i64)ceil(at) - radius;
  t.count = 2 * radius;
  f64 sum = 0, inside = 0;
  for (i64 k = 0; k < t.count; k++) {
    f64 w = resize_weight(p, ((f64)(t.first + k) - at) * t.shrink);
    sum += w;
    if (t.first + k >= 0 && t.first + k < p.in[d]) inside += w;
  }
  t.total = p.exclude_outside ? inside : t.shrink < 1 ? sum : 1;
  return t;
}

DEVICE f64 tap_weight(const carnot_cuda_resize& p, int d, const taps& t, i64 k) {
  if (t.count == 1) return 1;
  bool out = t.first + k < 0 || t.first + k >= p.in[d];
  if ((p.exclude_outside && out) || t.total == 0) return 0;
  return resize_weight(p, ((f64)(t.first + k) - t.at) * t.shrink) / t.total;
}

DEVICE void resize(const carnot_cuda_resize& p, i64 i) {
  taps t[CARNOT_CUDA_RANK];
  i64 rest = i, count = 1;
  bool any_outside = false, outside;
  for (int d = p.rank - 1; d >= 0; d--) {
    t[d] = taps_of(p, d, rest % p.out[d], &outside);
    any_outside = any_outside || outside;
    rest /= p.out[d];
    count *= t[d].count;
  }
  f64 sum = any_outside ? p.extrapolation : 0;
  for (i64 n = 0; !any_outside && n < count; n++) {
    i64 left = n, from = 0, stride = 1;
    f64 w = 1;
    for (int d = p.rank - 1; d >= 0; d--) {
      i64 k = left % t[d].count, at = t[d].first + k;
      left /= t[d].count;
      w *= tap_weight(p, d, t[d], k);
      at = at < 0 ? 0 : at >= p.in[d] ? p.in[d] - 1 : at;
      from += at * stride;
      stride *= p.in[d];
    }
    if (w != 0 || count == 1) sum += w * real_of(p.io.in_type[0], p.io.in[0], from);
  }
  any_store(p.io.out_type[0], p.io.out[0], i, sum);
}

// The place among |dims| whose window has tap |tap| on |o| (padding counted in); -1: none has.
template <typename P>
DEVICE i64 place_under(const P& p, const i64 dims[3], const i64 o[3], i64 tap) {
  i64 at = 0, stride = 1;
  for (int d = 2; d >= 0; d--) {
    i64 from = o[d] - tap % p.kernel[d] * p.dilation[d];
    tap /= p.kernel[d];
    if (from < 0 || from % p.step[d] || from / p.step[d] >= dims[d]) return -1;
    at += from / p.step[d] * stride;
    stride *= dims[d];
  }
  return at;
}

DEVICE void conv_transpose(const carnot_cuda_conv_transpose& p, i64 i) {
  i64 o[3], rest = i;
  for (int d = 2; d >= 0; d--) {
    o[d] = rest % p.out[d] + p.begin[d];
    rest /= p.out[d];
  }
  i64 filter = rest % p.filters, image = rest / p.filters;
  i64 filters = p.filters / p.groups, channels = p.channels / p.groups;
  i64 first = filter / filters * channels, size = p.in[0] * p.in[1] * p.in[2];
  i64 taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  f64 sum = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], filter) : 0;
  for (i64 tap = 0; tap < taps; tap++) {
    i64 at = place_under(p, p.in, o, tap);
    for (i64 c = first; at >= 0 && c < first + channels; c++)
      sum += real_of(p.io.in_type[0], p.io.in[0], (image * p.channels + c) * size + at) *
             real_of(p.io.in_type[1], p.io.in[1], (c * filters + filter % filters) * taps + tap);
  }
  any_store(p.io.out_type[0], p.io.out[0], i, sum);
}

// Adds to each operand's place what item |i| of |rank| dimensions is away.
DEVICE void step_operands(const carnot_cuda_einsum& p, i64 i, int rank, const i64* dims,
                          const i64 (*strides)[CARNOT_CUDA_RANK], i64* at) {
  for (int d = rank - 1; d >= 0; d--) {
    i64 here = i % dims[d];
    i /= dims[d];
    for (int k = 0; k < p.operands; k++) at[k] += here * strides[k][d];
  }
}

DEVICE void einsum(const carnot_cuda_einsum& p, i64 i) {
  i64 base[3] = {0, 0, 0};
  step_operands(p, i, p.kept_rank, p.kept, p.kept_s, base);
  bool real = is_real(p.io.out_type[0]);
  f64 sum = 0;
  u64 whole = 0;
  for (i64 n = 0; n < p.summed_count; n++) {
    i64 at[3] = {base[0], base[1], base[2]};
    step_operands(p, n, p.summed_rank, p.summed, p.summed_s, at);
    f64 product = 1;
    u64 whole_product = 1;
    for (int k = 0; k < p.operands; k++)
      if (real)
        product *= real_of(p.io.in_type[k], p.io.in[k], at[k]);
      else
        whole_product *= (u64)whole_of(p.io.in_type[k], p.io.in[k], at[k]);
    sum += product;
    whole += whole_product;
  }
  if (real)
    any_store(p.io.out_type[0], p.io.out[0], i, sum);
  else
    any_store(p.io.out_type[0], p.io.out[0], i, (i64)whole);
}

// |at| mirrored at the borders until it lies between them.
DEVICE f64 reflect(f64 at, f64 low, f64 high) {
  f64 range = high - low;
  if (range <= 0) return low;
  if (at >= low && at <= high) return at;
  f64 over = at < low ? low - at : at - high, turns = floor(over / range);
  f64 rest = over - turns * range;
  bool from_near = fmod(turns, 2.0) == 0;
  return (at < low) == from_near ? low + rest : high - rest;
}

// A grid coordinate as a place in a dimension of |size|.
DEVICE f64 sample_place(const carnot_cuda_grid_sample& p, f64 n, i64 size, f64 low, f64 high) {
  f64 at;
  if (p.io.in_type[1] == CARNOT_CUDA_F64) {
    at = p.align_corners ? (n + 1) / 2 * (f64)(size - 1) : ((n + 1) * (f64)size - 1) / 2;
  } else {
    f32 f = (f32)n + 1;
    at = p.align_corners ? f / 2 * (f32)(size - 1) : (f * (f32)size - 1) / 2;
  }
  if (p.taps == 1) at = rint(at);
  if (!(at < low || at > high)) return at;
  if (p.padding == 1) return at < 0 ? 0 : (f64)size - 1;
  return p.padding == 2 ? reflect(at, low, high) : at;
}

DEVICE f64 sample_weight(int taps, f64 distance) {
  const f64 a = -0.75;
  f64 d = fabs(distance);
  if (taps < 4) return taps == 1 ? 1 : 1 - d;
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

DEVICE void grid_sample(const carnot_cuda_grid_sample& p, i64 i) {
  i64 place = i % p.out_size, plane = i / p.out_size, total = 1;
  i64 point = (plane / p.channels * p.out_size + place) * p.rank;
  f64 at[3], low[3], high[3];
  for (int d = 0; d < p.rank; d++) {
    low[d] = p.align_corners ? 0 : -0.5;
    high[d] = (f64)p.in[d] - (p.align_corners ? 1 : 0.5);
    f64 n = real_of(p.io.in_type[1], p.io.in[1], point + p.rank - 1 - d);
    at[d] = sample_place(p, n, p.in[d], low[d], high[d]);
    total *= p.taps;
  }
  f64 sum = 0;
  for (i64 t = 0; t < total; t++) {
    f64 weight = 1;
    i64 offset = 0, rest = t;
    bool inside = true;
    for (int d = 0; d < p.rank; d++) {
      f64 k = p.taps == 1 ? at[d] : floor(at[d]) + (f64)(rest % p.taps - p.before), from = k;
      rest /= p.taps;
      weight *= sample_weight(p.taps, at[d] - k);
      if (p.padding == 1) from = fmin(fmax(k, 0.0), (f64)p.in[d] - 1);
      if (p.padding == 2) from = trunc(reflect(k, low[d], high[d]));
      bool in = from >= 0 && from < (f64)p.in[d];
      inside = inside && in;
      offset = offset * p.in[d] + (in ? (i64)from : 0);
    }
    if (inside) sum += weight * real_of(p.io.in_type[0], p.io.in[0], plane * p.in_size + offset);
  }
  any_store(p.io.out_type[0], p.io.out[0], i, sum);
}

ANY(resize, carnot_cuda_resize)
ANY(conv_transpose, carnot_cuda_conv_transpose)
ANY(einsum, carnot_cuda_einsum)
ANY(grid_sample, carnot_cuda_grid_sample)
