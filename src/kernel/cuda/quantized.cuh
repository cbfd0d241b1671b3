// Quantization, casts, and layers over quantized numbers.

DEVICE i64 scale_place(const carnot_cuda_quantize& p, i64 i) {
  if (p.per_tensor) return 0;
  i64 n = i % p.inner, at = i / p.inner % p.length, outer = i / p.inner / p.length;
  return p.blocks ? (outer * p.blocks + at / p.block_size) * p.inner + n : at;
}

DEVICE f64 rounded_to(int type, f64 v) {
  if (type == CARNOT_CUDA_F64) return v;
  if (type == CARNOT_CUDA_F16) return load(store_as<f16>::of((f32)v));
  if (type == CARNOT_CUDA_BF16) return load(store_as<bf16>::of((f32)v));
  return (f32)v;
}

DEVICE void quantize_linear(const carnot_cuda_quantize& p, i64 i) {
  i64 s = scale_place(p, i);
  f64 scale = real_of(p.io.in_type[1], p.io.in[1], s);
  f64 zero = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], s) : 0;
  f64 value = rounded_to(p.precision, real_of(p.io.in_type[0], p.io.in[0], i) / scale);
  int to = p.io.out_type[0];
  if (is_mini(to)) put_bits(bits_of(to), p.io.out[0], i, mini_of_float(to, (f32)(value + zero), p.saturate));
  else any_store(to, p.io.out[0], i, rint(value) + zero);
}

DEVICE void dequantize_linear(const carnot_cuda_quantize& p, i64 i) {
  i64 s = scale_place(p, i);
  f64 scale = real_of(p.io.in_type[1], p.io.in[1], s);
  f64 zero = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], s) : 0;
  f32 value = (f32)(real_of(p.io.in_type[0], p.io.in[0], i) - zero) * (f32)scale;
  any_store(p.io.out_type[0], p.io.out[0], i, value);
}

// Reals keep the low bits of the whole number in integers under a byte, as ONNX's cases want.
DEVICE void cast(const carnot_cuda_cast& p, i64 i) {
  int from = p.io.in_type[0], to = p.io.out_type[0];
  const void* x = p.io.in[0];
  void* y = p.io.out[0];
  if (is_mini(to)) put_bits(bits_of(to), y, i, mini_of_float(to, any_load<f32>(from, x, i), p.saturate, p.round_mode));
  else if (is_real(to)) any_store(to, y, i, any_load<f32>(from, x, i));
  else if (is_real(from) && to > CARNOT_CUDA_BOOL) any_store(to, y, i, caster<i64>::of(real_of(from, x, i)));
  else if (is_real(from)) any_store(to, y, i, real_of(from, x, i));
  else any_store(to, y, i, whole_of(from, x, i));
}

// The number of a list that has one, one a row, or one a row of every matrix (or of some, in turn).
DEVICE f64 listed(const carnot_cuda_io& io, int input, i64 count, i64 matrix, i64 row, i64 rows, f64 otherwise) {
  if (input < 0 || !io.in[input]) return otherwise;
  i64 at = count == rows ? row : count > rows ? (matrix * rows + row) % count : 0;
  return real_of(io.in_type[input], io.in[input], at);
}

// What stands for |sum|, |scale| being that of the sum.
DEVICE void put_quantized(const carnot_cuda_io& io, const carnot_cuda_scales& s, i64 i, f64 sum, f64 scale, bool rounds) {
  scale /= real_of(io.in_type[s.y_scale], io.in[s.y_scale], 0);
  f64 zero = io.in[s.y_zero] ? real_of(io.in_type[s.y_zero], io.in[s.y_zero], 0) : 0;
  any_store(io.out_type[0], io.out[0], i, (rounds ? rint(sum * scale) : sum * scale) + zero);
}

DEVICE void quantized_matmul(const carnot_cuda_quantized_matmul& p, i64 i) {
  const carnot_cuda_io& io = p.io;
  const carnot_cuda_scales& s = p.scales;
  i64 column = i % p.n, row = i / p.n % p.m, matrix = i / p.n / p.m, rest = matrix, a = 0, b = 0;
  for (int d = p.rank - 1; d >= 0; d--) {
    i64 here = rest % p.dims[d];
    rest /= p.dims[d];
    a += here * p.a_s[d], b += here * p.b_s[d];
  }
  f64 a_zero = listed(io, s.x_zero, s.x_zeros, a, row, p.m, 0);
  f64 b_zero = listed(io, s.w_zero, s.w_zeros, b, column, p.n, 0);
  f64 sum = 0;  // of whole numbers: exact below 2^53, which no depth reaches
  for (i64 k = 0; k < p.k; k++)
    sum += (real_of(io.in_type[0], io.in[0], (a * p.m + row) * p.k + k) - a_zero) *
           (real_of(io.in_type[s.w], io.in[s.w], (b * p.k + k) * p.n + column) - b_zero);
  if (s.y_scale < 0) {
    any_store(io.out_type[0], io.out[0], i, (i64)sum);
    return;
  }
  f64 scale = listed(io, s.x_scale, s.x_scales, matrix, row, p.m, 1) *
              listed(io, s.w_scale, s.w_scales, matrix, column, p.n, 1);
  put_quantized(io, s, i, sum, scale, !is_real(io.in_type[0]));
}

DEVICE void quantized_conv(const carnot_cuda_quantized_conv& p, i64 i) {
  const carnot_cuda_io& io = p.io;
  const carnot_cuda_scales& s = p.scales;
  i64 o[3], rest = i, taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  for (int d = 2; d >= 0; d--) o[d] = rest % p.out[d] * p.step[d] - p.begin[d], rest /= p.out[d];
  i64 filter = rest % p.filters, image = rest / p.filters, channels = p.channels / p.groups;
  i64 first = image * p.channels + filter / (p.filters / p.groups) * channels;
  f64 x_zero = listed(io, s.x_zero, 1, 0, 0, 1, 0);
  f64 w_zero = listed(io, s.w_zero, s.w_zeros, 0, filter, p.filters, 0);
  f64 sum = s.bias >= 0 && io.in[s.bias] ? real_of(io.in_type[s.bias], io.in[s.bias], filter) : 0;
  for (i64 tap = 0; tap < taps; tap++) {
    i64 left = tap, at = 0, stride = 1;
    bool inside = true;
    for (int d = 2; d >= 0; d--) {
      i64 from = o[d] + left % p.kernel[d] * p.dilation[d];
      left /= p.kernel[d];
      inside = inside && from >= 0 && from < p.in[d];
      at += from * stride;
      stride *= p.in[d];
    }
    for (i64 c = 0; inside && c < channels; c++)
      sum += (real_of(io.in_type[0], io.in[0], (first + c) * stride + at) - x_zero) *
             (real_of(io.in_type[s.w], io.in[s.w], (filter * channels + c) * taps + tap) - w_zero);
  }
  if (s.y_scale < 0) {
    any_store(io.out_type[0], io.out[0], i, (i64)sum);
    return;
  }
  f64 scale = listed(io, s.x_scale, 1, 0, 0, 1, 1) * listed(io, s.w_scale, s.w_scales, 0, filter, p.filters, 1);
  put_quantized(io, s, i, sum, scale, true);
}

// One block: scale and zero point of uint8 from the range of x, zero included. In float32, as the
// results are.
DEVICE void dynamic_quantize(const carnot_cuda_lanes& p, i64) {
  const f32* x = (const f32*)p.io.in[0];
  f32 low = 0, high = 0;
  for (i64 i = threadIdx.x; i < p.length; i += blockDim.x) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  low = over_block<min_of<f32>, f32>(low, 0), high = over_block<max_of<f32>, f32>(high, 0);
  f32 scale = high == low ? 1 : (high - low) / 255;
  u8 zero = caster<u8>::of(rintf(-low / scale));
  for (i64 i = threadIdx.x; p.io.out[0] && i < p.length; i += blockDim.x)
    ((u8*)p.io.out[0])[i] = caster<u8>::of(rintf(x[i] / scale) + zero);
  if (threadIdx.x == 0 && p.io.out[1]) *(f32*)p.io.out[1] = scale;
  if (threadIdx.x == 0 && p.io.out[2]) *(u8*)p.io.out[2] = zero;
}

ANY(cast, carnot_cuda_cast)
ANY(quantize_linear, carnot_cuda_quantize)
ANY(dequantize_linear, carnot_cuda_quantize)
ANY(quantized_matmul, carnot_cuda_quantized_matmul)
ANY(quantized_conv, carnot_cuda_quantized_conv)
ANY_BLOCK(dynamic_quantize, carnot_cuda_lanes)
