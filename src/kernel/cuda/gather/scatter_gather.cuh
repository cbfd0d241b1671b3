// GatherElements, ScatterElements, ScatterND and TensorScatter (generic kernels).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/gather/scatter_gather_params.h"

DEVICE i64 index_at(const carnot_cuda_generic_io& io, int input, i64 i, i64 size) {
  i64 index = whole_of(io.in_type[input], io.in[input], i);
  return index < 0 ? index + size : index;
}

// Outside the input: 0.
DEVICE void gather_elements(const carnot_cuda_gather_elements_params& p, i64 i) {
  i64 at = i, from = 0, index = index_at(p.io, 1, i, p.size);
  for (int d = p.rank - 1; d >= 0; d--) {
    i64 here = at % p.dims[d];
    at /= p.dims[d];
    from += (d == p.axis ? index : here) * p.stride[d];
  }
  if (index >= 0 && index < p.size)
    move(p.io.bytes, p.io.out[0], i, p.io.in[0], from);
  else
    clear(p.io.bytes, p.io.out[0], i);
}

DEVICE f64 reduced(int how, f64 x, f64 y) {
  if (how == CARNOT_CUDA_ADD) return x + y;
  if (how == CARNOT_CUDA_MUL) return x * y;
  return how == CARNOT_CUDA_HIGH ? hi(x, y) : lo(x, y);
}
DEVICE i64 reduced(int how, i64 x, i64 y, bool is_u64) {
  if (how == CARNOT_CUDA_ADD) return (i64)((u64)x + (u64)y);
  if (how == CARNOT_CUDA_MUL) return (i64)((u64)x * (u64)y);
  bool less = is_u64 ? (u64)x < (u64)y : x < y;
  return (how == CARNOT_CUDA_HIGH) == less ? y : x;
}

// out[0][to] ∘= in[2][from]
DEVICE void update(const carnot_cuda_generic_io& io, int how, i64 to, i64 from) {
  int type = io.out_type[0];
  if (how == CARNOT_CUDA_KEEP)
    move(io.bytes, io.out[0], to, io.in[2], from);
  else if (is_real(type))
    store_any(type, io.out[0], to,
              reduced(how, real_of(type, io.out[0], to), real_of(type, io.in[2], from)));
  else
    store_any(type, io.out[0], to,
              reduced(how, whole_of(type, io.out[0], to), whole_of(type, io.in[2], from),
                      type == CARNOT_CUDA_U64));
}

// One thread per slice of the index along the axis: slices are disjoint, and each is applied in
// order.
DEVICE void scatter_elements(const carnot_cuda_gather_elements_params& p, i64 i) {
  i64 at = i, to = 0, from = 0, step = 1;
  i64 here[CARNOT_CUDA_RANK];
  for (int d = p.rank - 1; d >= 0; d--) {
    here[d] = d == p.axis ? 0 : at % p.dims[d];
    if (d != p.axis) at /= p.dims[d];
  }
  for (int d = p.rank - 1; d >= 0; d--) {
    from += here[d] * step;
    step *= p.dims[d];
    to += here[d] * p.stride[d];
  }
  i64 apart = 1;
  for (int d = p.rank - 1; d > p.axis; d--) apart *= p.dims[d];
  for (i64 k = 0; k < p.dims[p.axis]; k++, from += apart) {
    i64 index = index_at(p.io, 1, from, p.size);
    if (index >= 0 && index < p.size)
      update(p.io, p.reduction, to + index * p.stride[p.axis], from);
  }
}

// One thread an element of a row: of all rows in order, or of one where each row is the only one.
DEVICE void scatter_nd(const carnot_cuda_scatter_nd_params& p, i64 i) {
  bool all = p.reduction != CARNOT_CUDA_KEEP;
  i64 n = i % p.inner, first = all ? 0 : i / p.inner, last = all ? p.rows : first + 1;
  for (i64 row = first; row < last; row++) {
    i64 at = 0;
    bool inside = true;
    for (int k = 0; k < p.depth; k++) {
      i64 index = index_at(p.io, 1, row * p.depth + k, p.dims[k]);
      inside = inside && index >= 0 && index < p.dims[k];
      at = at * p.dims[k] + index;
    }
    if (inside) update(p.io, p.reduction, at * p.inner + n, row * p.inner + n);
  }
}

// a / b, of numbers that are not negative: in 32 bits where both fit.
DEVICE i64 quotient(i64 a, i64 b) {
  return ((u64)(a | b) >> 32) == 0 ? (i64)((u32)a / (u32)b) : a / b;
}
// Chunk |to| of the result from chunk |from| of input |input|, or zeros where that is negative.
DEVICE void move_chunk(const carnot_cuda_tensor_scatter_params& p, i64 to, int input, i64 from) {
  if (p.chunk > 1 && ((u64)p.io.out[0] | (u64)p.io.in[input]) % 16 == 0) {
    ((half8*)p.io.out[0])[to] = from < 0 ? half8{} : ((const half8*)p.io.in[input])[from];
    return;
  }
  for (int e = 0; e < p.chunk; e++)
    if (from < 0)
      clear(p.io.bytes, p.io.out[0], to * p.chunk + e);
    else
      move(p.io.bytes, p.io.out[0], to * p.chunk + e, p.io.in[input], from * p.chunk + e);
}
// Where updates of slice |o| begin.
DEVICE i64 written_from(const carnot_cuda_tensor_scatter_params& p, i64 o) {
  i64 start = p.io.in[2] ? whole_of(p.io.in_type[2], p.io.in[2], quotient(o, p.per_sample)) : 0;
  return p.circular ? (start % p.size + p.size) % p.size : start;
}
// Updates, into a copy of the cache.
DEVICE void tensor_scatter(const carnot_cuda_tensor_scatter_params& p, i64 i) {
  i64 row = quotient(i, p.inner), n = i - row * p.inner, o = quotient(row, p.steps);
  i64 start = written_from(p, o), s = row - o * p.steps;
  i64 at = p.circular ? (start + s) % p.size : start + s;
  if (at >= 0 && at < p.size) move_chunk(p, (o * p.size + at) * p.inner + n, 1, i);
}
// The result where it is longer than the cache: updates, the cache, zeros.
DEVICE void tensor_scatter_longer(const carnot_cuda_tensor_scatter_params& p, i64 i) {
  i64 row = quotient(i, p.inner), n = i - row * p.inner, o = quotient(row, p.size);
  i64 at = row - o * p.size, s = at - written_from(p, o);
  if (p.circular && s < 0) s += p.size;
  if (s >= 0 && s < p.steps)
    move_chunk(p, i, 1, (o * p.steps + s) * p.inner + n);
  else
    move_chunk(p, i, 0, at < p.before ? (o * p.before + at) * p.inner + n : -1);
}
