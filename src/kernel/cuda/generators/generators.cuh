// ConstantOfShape, Range, EyeLike, Trilu, OneHot, ReverseSequence and Dropout at inference (generic
// kernels).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/generators/generators_params.h"

DEVICE void trilu(const carnot_cuda_generator_params& p, i64 i) {
  i64 k = p.io.in[1] ? whole_of(p.io.in_type[1], p.io.in[1], 0) : p.k;
  k = k < -p.rows ? -p.rows : k > p.columns ? p.columns : k;
  i64 column = i % p.columns, edge = i / p.columns % p.rows + k;
  if (p.flag ? column >= edge : column <= edge)
    move(p.io.bytes, p.io.out[0], i, p.io.in[0], i);
  else
    clear(p.io.bytes, p.io.out[0], i);
}

DEVICE void one_hot(const carnot_cuda_generator_params& p, i64 i) {
  i64 n = i % p.inner, at = i / p.inner % p.k, from = i / p.inner / p.k * p.inner + n;
  bool hot;
  if (is_real(p.io.in_type[0])) {
    f64 v = real_of(p.io.in_type[0], p.io.in[0], from);
    hot = v > -1e15 && v < 1e15 && ((i64)v == at || (i64)v == at - p.k);
  } else {
    i64 v = whole_of(p.io.in_type[0], p.io.in[0], from);
    hot = v == at || v == at - p.k;
  }
  move(p.io.bytes, p.io.out[0], i, p.io.in[2], hot);
}

DEVICE void reverse_sequence(const carnot_cuda_generator_params& p, i64 i) {
  i64 n = i % p.inner, column = i / p.inner % p.columns, row = i / p.inner / p.columns;
  i64 time = p.flag ? column : row, batch = p.flag ? row : column;
  i64 length = whole_of(p.io.in_type[1], p.io.in[1], batch);
  i64 steps = p.flag ? p.columns : p.rows;
  i64 from = time < length && length <= steps ? length - 1 - time : time;
  i64 source = p.flag ? row * p.columns + from : from * p.columns + column;
  move(p.io.bytes, p.io.out[0], i, p.io.in[0], source * p.inner + n);
}

DEVICE void range(const carnot_cuda_generator_params& p, i64 i) {
  if (is_real(p.io.out_type[0]))
    store_any(p.io.out_type[0], p.io.out[0], i, p.start + (f64)i * p.delta);
  else
    store_any(p.io.out_type[0], p.io.out[0], i,
              (i64)((u64)p.start_int + (u64)i * (u64)p.delta_int));
}

DEVICE void eye_like(const carnot_cuda_generator_params& p, i64 i) {
  store_any(p.io.out_type[0], p.io.out[0], i, (f64)(i % p.columns == i / p.columns + p.k));
}

DEVICE void fill(const carnot_cuda_generator_params& p, i64 i) {
  move(p.io.bytes, p.io.out[0], i, &p.bits, 0);
}

// Of a network that does not learn: everything is kept.
DEVICE void dropout(const carnot_cuda_generator_params& p, i64 i) {
  if (p.io.out[0]) move(p.io.bytes, p.io.out[0], i, p.io.in[0], i);
  if (p.io.out[1]) ((u8*)p.io.out[1])[i] = 1;
}
