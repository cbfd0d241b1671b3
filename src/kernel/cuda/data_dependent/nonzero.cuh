// NonZero and Compress (generic kernels). Blocks mark and count the selected elements of their
// chunk, one block scans the counts, the host reads their sum, and blocks write their elements in
// order. Formulas as in ops/select.c.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/data_dependent/list_scan.cuh"

// flags[k]: element |start| + k is selected. The mask leaves out the sign, so -0 is zero.
template <class W>
DEVICE void flag(const carnot_cuda_data_dependent_params& p, i64 start, i64 count, u8* flags) {
  const W *x = (const W*)p.io.in[p.tested] + start, mask = (W)p.mask;
  for (i64 first = threadIdx.x; first < CARNOT_CUDA_CHUNK; first += AT_A_TIME * blockDim.x) {
    W v[AT_A_TIME];
    for (int j = 0; j < AT_A_TIME; j++) {
      i64 k = first + j * blockDim.x;
      v[j] = k < count ? x[k] & mask : 0;
    }
    for (int j = 0; j < AT_A_TIME; j++) flags[first + j * blockDim.x] = v[j] != 0;
  }
}

DEVICE void mark_selected(const carnot_cuda_data_dependent_params& p, i64 list) {
  __shared__ u8 flags[CARNOT_CUDA_CHUNK];
  i64 start = list * CARNOT_CUDA_CHUNK, count = lo(p.size - start, (i64)CARNOT_CUDA_CHUNK), sum = 0,
      total;
  int type = p.io.in_type[p.tested];
  if (is_small_float(type)) {
    for (i64 k = threadIdx.x; k < CARNOT_CUDA_CHUNK; k += blockDim.x)
      flags[k] = k < count && real_of(type, p.io.in[p.tested], start + k) != 0;
  } else {
    if (p.tested_bytes == 1) flag<u8>(p, start, count, flags);
    if (p.tested_bytes == 2) flag<u16>(p, start, count, flags);
    if (p.tested_bytes == 4) flag<u32>(p, start, count, flags);
    if (p.tested_bytes == 8) flag<u64>(p, start, count, flags);
  }
  __syncthreads();
  for (int w = threadIdx.x; w < MARK_WORDS; w += blockDim.x) {
    u32 word = 0;
    for (int b = 0; b < 16; b++) word |= (u32)flags[w * 16 + b] << b;
    marks_of(p, list)[w] = (u16)word;
    sum += __popc(word);
  }
  sum_before(sum, &total);
  if (threadIdx.x == 0) counts_of(p)[list] = total;
}

// selected[k]: index in the chunk of the k-th selected element; returns their number.
DEVICE i64 selected_of(const carnot_cuda_data_dependent_params& p, i64 list, u16* selected) {
  const u16* words = marks_of(p, list);
  int each = MARK_WORDS / blockDim.x, first = threadIdx.x * each;
  i64 sum = 0, total;
  for (int w = first; w < first + each; w++) sum += __popc(words[w]);
  i64 to = sum_before(sum, &total);
  for (int w = first; w < first + each; w++)
    for (u32 word = words[w], b = 0; word; word >>= 1, b++)
      if (word & 1) selected[to++] = (u16)(w * 16 + b);
  __syncthreads();
  return total;
}

// 32-bit arithmetic where indices fit.
template <class I>
DEVICE void write_place(const carnot_cuda_data_dependent_params& p, I place, i64 to) {
  for (int d = p.rank - 1; d >= 0; d--) {
    I size = (I)p.dims[d], next = place / size;
    ((i64*)p.io.out[0])[d * p.found + to] = (i64)(place - next * size);
    place = next;
  }
}

DEVICE void non_zero(const carnot_cuda_data_dependent_params& p, i64 list) {
  __shared__ u16 selected[CARNOT_CUDA_CHUNK];
  i64 total = selected_of(p, list, selected), before = counts_of(p)[list];
  for (i64 k = threadIdx.x; k < total && before + k < p.found; k += blockDim.x) {
    i64 at = list * CARNOT_CUDA_CHUNK + selected[k];
    if (p.size <= 0xffffffffll)
      write_place<u32>(p, (u32)at, before + k);
    else
      write_place<u64>(p, (u64)at, before + k);
  }
}

// y[o, before + k, n] = x[o, start + selected[k], n] for one part of all (o, k, n).
template <class W, class I>
DEVICE void copy_chosen(const carnot_cuda_data_dependent_params& p, i64 list, i64 part, i64 total,
                        const u16* selected) {
  const W* x = (const W*)p.io.in[0];
  W* y = (W*)p.io.out[0];
  i64 count = p.outer * total * p.inner, each = (count + p.parts - 1) / p.parts,
      last = lo((part + 1) * each, count);
  i64 start = list * CARNOT_CUDA_CHUNK, before = counts_of(p)[list];
  I inner = (I)p.inner, chosen = (I)total;
  for (i64 first = part * each + threadIdx.x; first < last; first += AT_A_TIME * blockDim.x) {
    W v[AT_A_TIME];
    i64 to[AT_A_TIME];
    for (int j = 0; j < AT_A_TIME; j++) {
      i64 i = first + j * blockDim.x;
      if (i >= last) continue;
      I row = (I)i / inner, n = (I)i - row * inner, o = row / chosen, k = row - o * chosen;
      to[j] = ((i64)o * p.found + before + (i64)k) * p.inner + (i64)n;
      v[j] = x[((i64)o * p.axis + start + selected[k]) * p.inner + (i64)n];
    }
    for (int j = 0; j < AT_A_TIME; j++)
      if (first + j * blockDim.x < last) y[to[j]] = v[j];
  }
}
template <class W>
DEVICE void copy_chosen(const carnot_cuda_data_dependent_params& p, i64 list, i64 part, i64 total,
                        const u16* selected) {
  if (p.outer * p.axis * p.inner <= 0xffffffffll)
    copy_chosen<W, u32>(p, list, part, total, selected);
  else
    copy_chosen<W, u64>(p, list, part, total, selected);
}

DEVICE void compress(const carnot_cuda_data_dependent_params& p, i64 item) {
  __shared__ u16 selected[CARNOT_CUDA_CHUNK];
  i64 list = item / p.parts, part = item % p.parts, total = selected_of(p, list, selected);
  total = lo(total, p.found - counts_of(p)[list]);
  if (total <= 0) return;
  if (p.io.bytes == 1) copy_chosen<u8>(p, list, part, total, selected);
  if (p.io.bytes == 2) copy_chosen<u16>(p, list, part, total, selected);
  if (p.io.bytes == 4) copy_chosen<u32>(p, list, part, total, selected);
  if (p.io.bytes == 8) copy_chosen<u64>(p, list, part, total, selected);
}
