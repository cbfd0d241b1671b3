// MatMulInteger, QLinearMatMul, ConvInteger and QLinearConv (generic kernels).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/quantize/quantize_params.h"

// The number of a list that has one, one a row, or one a row of every matrix (or of some, in turn).
DEVICE f64 listed(const carnot_cuda_generic_io& io, int input, i64 count, i64 mma, i64 row,
                  i64 rows, f64 otherwise) {
  if (input < 0 || !io.in[input]) return otherwise;
  i64 at = count == rows ? row : count > rows ? (mma * rows + row) % count : 0;
  return real_of(io.in_type[input], io.in[input], at);
}

// Stores the requantized |sum|, whose scale is |scale|.
DEVICE void put_quantized(const carnot_cuda_generic_io& io, const carnot_cuda_quantized_operands& s,
                          i64 i, f64 sum, f64 scale, bool rounds) {
  scale /= real_of(io.in_type[s.y_scale], io.in[s.y_scale], 0);
  f64 zero = io.in[s.y_zero] ? real_of(io.in_type[s.y_zero], io.in[s.y_zero], 0) : 0;
  store_any(io.out_type[0], io.out[0], i, (rounds ? rint(sum * scale) : sum * scale) + zero);
}

DEVICE void quantized_matmul(const carnot_cuda_quantized_matmul_params& p, i64 i) {
  const carnot_cuda_generic_io& io = p.io;
  const carnot_cuda_quantized_operands& s = p.scales;
  i64 column = i % p.n, row = i / p.n % p.m, mma = i / p.n / p.m, rest = mma, a = 0, b = 0;
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
    store_any(io.out_type[0], io.out[0], i, (i64)sum);
    return;
  }
  f64 scale = listed(io, s.x_scale, s.x_scales, mma, row, p.m, 1) *
              listed(io, s.w_scale, s.w_scales, mma, column, p.n, 1);
  put_quantized(io, s, i, sum, scale, !is_real(io.in_type[0]));
}

DEVICE void quantized_conv(const carnot_cuda_quantized_conv_params& p, i64 i) {
  const carnot_cuda_generic_io& io = p.io;
  const carnot_cuda_quantized_operands& s = p.scales;
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
    store_any(io.out_type[0], io.out[0], i, (i64)sum);
    return;
  }
  f64 scale = listed(io, s.x_scale, 1, 0, 0, 1, 1) *
              listed(io, s.w_scale, s.w_scales, 0, filter, p.filters, 1);
  put_quantized(io, s, i, sum, scale, true);
}
